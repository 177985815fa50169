// SPDX-License-Identifier: GPL-2.0

//! Two engines, a few messages, and every order in which a stated set of things can happen.
//!
//! The events of a side are: LNet submits its next message; the side polls the completion of its
//! next receive; it polls its next signalled completion of the send queue. What follows from an
//! event (posting, and what LNet does with what it is given) follows at once. A SEND is in the
//! other side's receive buffer when it is posted, so a side without a buffer is found out.
//!
//! Orders of events that lead to the same state go on alike, so every state is visited once, and
//! every event that can happen is tried in it. States are told apart by a hash of 128 bits over
//! all that decides what comes next, in both engines and the queues between them, and over what
//! has ended; the names of buffers and operations are left out. How many orders of the whole there
//! are is counted all the same. From every state the connection is also broken, by either side,
//! with what has arrived seen before that or not; then every message has to end once.

use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};

use super::Heap;
use crate::lnet_msg::{LnetGet, LnetPut, WireMd};
use crate::proto::conn::{Action, Conn, Delivery, Post, Role, Sink, Submit, WcStatus};
use crate::proto::{Cause, DeviceCaps, Instant, Limits, NiTunables, OpId, Span, WrId};
use crate::wire::{Body, Identity, LnetHdr, LnetMsgType, Message, MsgType, Nid, Stamp, Version};

const NOW: Instant = Instant(1_000_000_000);
const LEN: u32 = 8192;
/// Kinds of events of a side.
const EVENTS: usize = 3;
/// No case has that many events, unless something goes on for ever.
const ENDLESS: usize = 400;

/// What LNet sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An IMMEDIATE.
    Immediate,
    /// A PUT by RDMA.
    Put,
    /// A GET by RDMA.
    Get,
}

impl What {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Immediate, Self::Put, Self::Get];
}

/// A small case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Version of the protocol.
    pub version: Version,
    /// Queue depth; version 1 has at least 3.
    pub depth: u16,
    /// Messages of each side.
    pub msgs: [Vec<What>; 2],
}

/// How much there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Cases.
    pub cases: u64,
    /// States.
    pub states: u64,
    /// Orders of all events.
    pub orders: u128,
    /// Times the connection was broken.
    pub breaks: u64,
    /// Most events of one order.
    pub longest: u64,
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.cases += other.cases;
        self.states += other.states;
        self.orders += other.orders;
        self.breaks += other.breaks;
        self.longest = self.longest.max(other.longest);
    }
}

/// A message, and whether this is the transmission of the side that submitted it.
type Tx = (u32, bool);

#[derive(Clone)]
struct Side {
    conn: Conn<Heap, Tx>,
    rq: VecDeque<WrId>,
    inbox: VecDeque<(WrId, Vec<u8>)>,
    sq: VecDeque<(WrId, u32, bool)>,
    script: VecDeque<(u32, What)>,
}

/// A hash of 128 bits that is fast: two lanes with multiplications of their own.
struct Wide([u64; 2]);

impl Hasher for Wide {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word) ^ (part.len() as u64) << 56);
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(n.into());
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        let [a, b] = &mut self.0;
        *a = (*a ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        *a ^= *a >> 32;
        *b = (b.rotate_left(25) ^ n).wrapping_mul(0xd6e8_feb8_6659_fd93);
        *b ^= *b >> 29;
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn finish(&self) -> u64 {
        self.0[0]
    }
}

#[derive(Clone)]
struct Pair {
    sides: [Side; 2],
    submitted: Vec<bool>,
    ends: Vec<Vec<(bool, i32)>>,
    broken: bool,
}

fn nid(side: usize) -> Nid {
    Nid::o2ib(0, 0xc0a8_0105 + side as u32)
}

fn stamp(side: usize) -> Stamp {
    Stamp(77 + side as u64)
}

fn header(msg: u32, what: What, from: usize) -> LnetHdr {
    let match_bits = u64::from(msg);
    let put = LnetPut {
        ack_md: WireMd::NONE,
        match_bits,
        hdr_data: 0,
        ptl_index: 4,
        offset: 0,
    };
    let get = LnetGet {
        return_md: WireMd::NONE,
        match_bits,
        ptl_index: 4,
        src_offset: 0,
        sink_length: LEN,
    };
    let (kind, payload_len, union) = match what {
        What::Immediate => (LnetMsgType::Put, 0, put.to_union()),
        What::Put => (LnetMsgType::Put, LEN, put.to_union()),
        What::Get => (LnetMsgType::Get, 0, get.to_union()),
    };
    LnetHdr {
        dest_nid: nid(1 - from),
        src_nid: nid(from),
        dest_pid: 12345,
        src_pid: 12345,
        kind,
        payload_len,
        msg: union,
    }
}

impl Side {
    fn new(case: &Case, side: usize, first: u32) -> Self {
        let timeout = Span::from_secs(50);
        let tunables = NiTunables {
            peer_credits: case.depth.max(4),
            credits_hiw: 1,
            concurrent_sends: case.depth,
            max_frags: 256,
            wrq_sge: 2,
            timeout,
            connect_timeout: timeout,
            keepalive: None,
            conns_per_peer: 1,
            cksum: false,
        };
        let caps = DeviceCaps {
            max_qp_wr: 4096,
            max_cqe: 32767,
            max_send_sge: 30,
            max_mr_pages: 512,
        };
        let depth = match case.version {
            Version::V1 => case.depth.max(3),
            Version::V2 => case.depth,
        };
        let propose = Some((depth, 256));
        let limits = Limits::new(&tunables, &caps, case.version, propose).expect("limits");
        let ident = Identity {
            peer: nid(1 - side),
            peer_stamp: stamp(1 - side),
            local: nid(side),
            local_stamp: stamp(side),
        };
        let role = Role::Passive;
        let Ok(conn) = Conn::new(&mut Heap, role, ident, limits, &tunables, NOW);
        let numbers = first..;
        Self {
            conn,
            rq: VecDeque::new(),
            inbox: VecDeque::new(),
            sq: VecDeque::new(),
            script: numbers.zip(case.msgs[side].iter().copied()).collect(),
        }
    }
}

impl Side {
    /// What a message that is on its way here says, with cookies told by what they stand for.
    fn hash_msg(&self, from: &Self, bytes: &[u8], state: &mut Wide) {
        let msg = Message::parse(bytes).expect("a message of ours");
        (msg.kind() as u8, msg.hdr.credits).hash(state);
        match msg.body {
            Body::PutReq { hdr, cookie } => (hdr, from.conn.waits_for(cookie)).hash(state),
            Body::GetReq { hdr, cookie, desc } => {
                (hdr, from.conn.waits_for(cookie), desc.desc().key()).hash(state);
            }
            Body::PutAck {
                src_cookie,
                dst_cookie,
                desc,
            } => {
                self.conn.waits_for(src_cookie).hash(state);
                (from.conn.waits_for(dst_cookie), desc.desc().key()).hash(state);
            }
            Body::PutNak(done) | Body::PutDone(done) | Body::GetDone(done) => {
                (self.conn.waits_for(done.cookie), done.status).hash(state);
            }
            Body::Immediate { hdr, .. } => hdr.hash(state),
            Body::Noop | Body::ConnReq(_) | Body::ConnAck(_) => {}
        }
    }
}

impl Pair {
    /// Both sides think that they are the passive one: the handshake is not what is looked at.
    fn new(case: &Case) -> Self {
        let first = case.msgs[0].len() as u32;
        let total = case.msgs[0].len() + case.msgs[1].len();
        let mut pair = Self {
            sides: [Side::new(case, 0, 0), Side::new(case, 1, first)],
            submitted: vec![false; total],
            ends: vec![Vec::new(); total],
            broken: false,
        };
        for side in 0..2 {
            pair.drive(side);
        }
        for side in 0..2 {
            pair.sides[side].conn.handle_established(NOW, None);
            pair.drive(side);
        }
        pair
    }

    fn drive(&mut self, side: usize) {
        loop {
            while let Some(post) = self.sides[side].conn.poll_post(NOW) {
                self.post(side, post);
                self.sides[side].conn.posted(NOW, Ok(()));
            }
            let Some(action) = self.sides[side].conn.poll_action() else {
                return;
            };
            self.act(side, action);
        }
    }

    fn post(&mut self, side: usize, post: Post) {
        let here = &mut self.sides[side];
        match post {
            Post::Recv { wr, .. } | Post::SentinelRq { wr } => here.rq.push_back(wr),
            Post::Send {
                wr,
                msg,
                reg,
                signal,
                ..
            } => {
                let mut buf = [0; 192];
                let len = msg.emit(false, &mut buf).expect("emitted").len;
                here.sq.push_back((wr, 1 + u32::from(reg), signal));
                if !self.broken {
                    let there = &mut self.sides[1 - side];
                    let recv = there.rq.pop_front().expect("no receive is posted (RNR)");
                    there.inbox.push_back((recv, buf[..len].to_vec()));
                }
            }
            Post::Writes {
                wr, count, signal, ..
            } => here.sq.push_back((wr, u32::from(count), signal)),
            Post::Inv { wr, signal, .. } => here.sq.push_back((wr, 1, signal)),
            Post::SentinelSq { wr } => here.sq.push_back((wr, 1, true)),
        }
    }

    fn act(&mut self, side: usize, action: Action<Tx>) {
        let conn = &mut self.sides[side].conn;
        match action {
            Action::Finish { tx, done } | Action::FinishAfterDrain { tx, done } => {
                self.end(tx, done.status);
            }
            Action::Plan { op, .. } => conn.put_planned(NOW, op, Ok(1)),
            Action::Deliver { rx, hdr, kind } => {
                let put = LnetPut::from_union(&hdr.msg).match_bits;
                let get = LnetGet::from_union(&hdr.msg).match_bits;
                let given = match kind {
                    Delivery::Immediate => {
                        conn.rx_done(NOW, rx);
                        return;
                    }
                    Delivery::PutReq => {
                        let tx = (put as u32, false);
                        conn.put_sink(NOW, rx, tx, sink(tx.0))
                    }
                    Delivery::GetReq { .. } => {
                        let tx = (get as u32, false);
                        conn.get_source(NOW, rx, tx, LEN, Ok(1))
                    }
                };
                if let Err(refused) = given {
                    self.end(refused.tx, -1);
                }
            }
            Action::Closed { cause, .. } => assert!(self.broken, "closed: {cause:?}"),
            Action::Established(_)
            | Action::NotifyEstablished
            | Action::Disconnect { .. }
            | Action::DestroyQp
            | Action::Drained { .. } => {}
        }
    }

    fn end(&mut self, (msg, origin): Tx, status: i32) {
        let ends = &mut self.ends[msg as usize];
        assert!(
            ends.iter().all(|end| end.0 != origin),
            "message {msg} ended twice"
        );
        ends.push((origin, status));
        // Which of the two came first is history.
        ends.sort_unstable();
    }

    fn can(&self, event: usize) -> bool {
        let here = &self.sides[event / EVENTS];
        match event % EVENTS {
            0 => !here.script.is_empty(),
            1 => !here.inbox.is_empty(),
            _ => here.sq.iter().any(|&(_, _, signal)| signal),
        }
    }

    /// What tells this state from others.
    fn key(&self) -> [u64; 2] {
        let mut state = Wide([1, 2]);
        for (here, there) in [(0, 1), (1, 0)] {
            let (here, there) = (&self.sides[here], &self.sides[there]);
            let theirs = |cookie| there.conn.waits_for(cookie).copied();
            here.conn.hash_future(theirs, &mut state);
            (here.rq.len(), here.script.len()).hash(&mut state);
            for (_, wrs, signal) in &here.sq {
                (wrs, signal).hash(&mut state);
            }
            state.write_usize(here.inbox.len());
            for (_, bytes) in &here.inbox {
                here.hash_msg(there, bytes, &mut state);
            }
        }
        (&self.submitted, &self.ends).hash(&mut state);
        [state.finish(), state.0[1]]
    }

    fn happen(&mut self, event: usize) {
        let side = event / EVENTS;
        let here = &mut self.sides[side];
        match event % EVENTS {
            0 => {
                let (msg, what) = here.script.pop_front().expect("a message");
                let hdr = header(msg, what, side);
                let submit = match what {
                    What::Immediate => Submit::Immediate { hdr, payload: 0 },
                    What::Put => Submit::Put { hdr, len: LEN },
                    What::Get => Submit::Get {
                        hdr,
                        sink: sink(msg),
                    },
                };
                self.submitted[msg as usize] = true;
                let taken: Result<OpId, _> = here.conn.submit(NOW, (msg, true), submit);
                taken.unwrap_or_else(|refused| panic!("refused: {:?}", refused.cause));
            }
            1 => self.receive(side),
            _ => {
                while let Some((wr, _, signal)) = here.sq.pop_front() {
                    if signal {
                        here.conn.handle_send_completion(NOW, wr, WcStatus::Success);
                        break;
                    }
                }
            }
        }
        self.drive(side);
    }

    fn receive(&mut self, side: usize) {
        let here = &mut self.sides[side];
        let (wr, bytes) = here.inbox.pop_front().expect("a message");
        let msg = Message::parse(&bytes).expect("a message of ours");
        here.conn.handle_msg(NOW, wr, &msg);
    }

    /// What holds in every state.
    fn check(&self, case: &Case) {
        for side in 0..2 {
            let here = self.sides[side].conn.snapshot();
            let there = self.sides[1 - side].conn.snapshot();
            let on_way = |inbox: &VecDeque<(WrId, Vec<u8>)>, f: fn(&Message<'_>) -> u16| -> u16 {
                let parse = |(_, bytes): &(WrId, Vec<u8>)| f(&Message::parse(bytes).expect("ours"));
                inbox.iter().map(parse).sum()
            };
            let announced = on_way(&self.sides[1 - side].inbox, |msg| msg.hdr.credits.into());
            let used = on_way(&self.sides[side].inbox, |msg| consumes(msg).into());
            let depth = here.queue_depth;
            // Every buffer that the other side may use is one that it knows of, one that it is
            // being told of, or one that it has used.
            assert_eq!(
                here.granted,
                there.credits + announced + used,
                "{case:?}: {here:?}"
            );
            assert!(here.granted + here.outstanding <= depth, "{here:?}");
            assert!(here.credits <= depth && here.reserved <= depth, "{here:?}");
            assert!(here.sends <= self.sides[side].conn.limits().concurrent_sends);
            let wrs: u32 = self.sides[side].sq.iter().map(|&(_, wrs, _)| wrs).sum();
            assert!(wrs <= here.sq_used, "{here:?}");
            assert_eq!(here.counters.bad_inputs + here.counters.bad_completions, 0);
        }
    }

    /// Nothing more can happen.
    fn check_end(&self, case: &Case) {
        for (msg, ends) in self.ends.iter().enumerate() {
            let well = ends.iter().all(|&(_, status)| status == 0);
            let own = ends.iter().filter(|end| end.0).count();
            assert!(
                well && own == 1,
                "{case:?}: message {msg} is stuck or failed: {ends:?}"
            );
        }
        for side in &self.sides {
            let s = side.conn.snapshot();
            assert_eq!((s.ops, s.rx_held, s.sends), (0, 0, 0), "{case:?}: {s:?}");
            assert_eq!(s.granted + s.outstanding, s.queue_depth, "{case:?}: {s:?}");
            assert_eq!(s.reserved, s.queue_depth, "{case:?}: {s:?}");
        }
    }

    /// The connection ends here.
    fn break_off(mut self, case: &Case, how: usize) {
        self.broken = true;
        if how & 2 != 0 {
            for side in 0..2 {
                while !self.sides[side].inbox.is_empty() {
                    self.receive(side);
                }
                self.drive(side);
            }
        }
        let first = how & 1;
        self.sides[first].conn.close(NOW, Cause::Deleted);
        self.drive(first);
        self.sides[1 - first].conn.handle_disconnected(NOW);
        self.drive(1 - first);
        for side in 0..2 {
            self.sides[side].conn.handle_qp_error_state(NOW);
            self.flush(side);
            self.drive(side);
            self.flush(side);
            self.drive(side);
        }
        for side in &self.sides {
            let s = side.conn.snapshot();
            assert!(side.conn.is_released(), "{case:?}: not released: {s:?}");
            assert_eq!(
                (s.ops, s.rx_posted, s.sq_used),
                (0, 0, 0),
                "{case:?}: {s:?}"
            );
        }
        for (msg, ends) in self.ends.iter().enumerate() {
            let own = ends.iter().filter(|end| end.0).count();
            assert_eq!(
                own == 1,
                self.submitted[msg],
                "{case:?}: message {msg}: {ends:?}"
            );
        }
    }

    fn flush(&mut self, side: usize) {
        let here = &mut self.sides[side];
        while !here.inbox.is_empty() {
            let (wr, _) = here.inbox.pop_front().expect("not empty");
            here.conn.handle_recv_error(NOW, wr, true);
        }
        for (wr, wrs, _) in std::mem::take(&mut here.sq) {
            for _ in 1..wrs {
                let part = wr.not_last();
                here.conn
                    .handle_send_completion(NOW, part, WcStatus::Flushed);
            }
            here.conn.handle_send_completion(NOW, wr, WcStatus::Flushed);
        }
        for wr in std::mem::take(&mut here.rq) {
            here.conn.handle_recv_error(NOW, wr, true);
        }
    }
}

fn sink(msg: u32) -> Sink {
    Sink {
        key: 0x100 + msg,
        addr: u64::from(msg) << 32,
        nob: LEN,
    }
}

/// Credits of its receiver that a message has used.
fn consumes(msg: &Message<'_>) -> u8 {
    match msg.kind() {
        MsgType::Immediate | MsgType::PutReq | MsgType::GetReq => 1,
        MsgType::Noop => u8::from(msg.hdr.version == Version::V1),
        MsgType::ConnReq
        | MsgType::ConnAck
        | MsgType::PutNak
        | MsgType::PutAck
        | MsgType::PutDone
        | MsgType::GetDone => 0,
    }
}

/// What follows from a state: how many orders, and how many events at most.
#[derive(Clone, Copy)]
struct Rest {
    orders: u128,
    longest: u64,
}

struct Search<'a> {
    case: &'a Case,
    depth: usize,
    seen: HashMap<[u64; 2], Rest>,
    count: Count,
    breaks: bool,
}

impl Search<'_> {
    /// What follows from the state of `pair`.
    fn visit(&mut self, pair: Pair) -> Rest {
        let key = pair.key();
        if let Some(&rest) = self.seen.get(&key) {
            return rest;
        }
        assert!(self.depth < ENDLESS, "{:?}: no end", self.case);
        pair.check(self.case);
        self.count.states += 1;
        let events: Vec<usize> = (0..2 * EVENTS).filter(|&event| pair.can(event)).collect();
        if events.is_empty() {
            pair.check_end(self.case);
        }
        for how in (0..4).filter(|_| self.breaks) {
            self.count.breaks += 1;
            pair.clone().break_off(self.case, how);
        }
        let mut rest = Rest {
            orders: u128::from(events.is_empty()),
            longest: 0,
        };
        self.depth += 1;
        for event in events {
            let mut next = pair.clone();
            next.happen(event);
            let then = self.visit(next);
            rest.orders += then.orders;
            rest.longest = rest.longest.max(then.longest + 1);
        }
        self.depth -= 1;
        self.seen.insert(key, rest);
        rest
    }
}

/// Visits everything that can happen in `case`; with `breaks`, breaks it off in every state.
///
/// # Panics
///
/// When something is violated.
pub fn explore(case: &Case, breaks: bool) -> Count {
    let mut search = Search {
        case,
        depth: 0,
        seen: HashMap::new(),
        count: Count::default(),
        breaks,
    };
    let rest = search.visit(Pair::new(case));
    Count {
        cases: 1,
        orders: rest.orders,
        longest: rest.longest,
        ..search.count
    }
}

/// The number of orders of a case, counted one by one: what [`explore`] has to find as well.
pub fn orders_one_by_one(case: &Case) -> u128 {
    fn follow(pair: &Pair) -> u128 {
        let events = (0..2 * EVENTS).filter(|&event| pair.can(event));
        let orders: u128 = events
            .map(|event| {
                let mut next = pair.clone();
                next.happen(event);
                follow(&next)
            })
            .sum();
        orders.max(1)
    }
    follow(&Pair::new(case))
}

/// All cases with `total` messages, in every distribution on the two sides.
pub fn cases(version: Version, depth: u16, total: u32) -> Vec<Case> {
    let mut cases = Vec::new();
    for n in 0..6u32.pow(total) {
        let mut msgs = [Vec::new(), Vec::new()];
        let mut rest = n;
        for _ in 0..total {
            msgs[(rest % 2) as usize].push(What::ALL[(rest / 2 % 3) as usize]);
            rest /= 6;
        }
        let case = Case {
            version,
            depth,
            msgs,
        };
        // Messages of different sides have no order; the sides are alike.
        let key = |case: &Case| format!("{:?}", case.msgs);
        let mirrored = format!("{:?}", [&case.msgs[1], &case.msgs[0]]);
        if !cases
            .iter()
            .any(|seen| key(seen) == key(&case) || key(seen) == mirrored)
        {
            cases.push(case);
        }
    }
    cases
}
