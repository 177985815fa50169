// SPDX-License-Identifier: GPL-2.0

//! The engine against a model of the C driver's end of a connection.
//!
//! The model is written from section 12 of protocol.md, a message at a time, and shares nothing
//! with the engine but the names of the messages: its queues, its counters and its reasons for a
//! NOOP are its own. Where each credit is, is known for both ends after every step. (The simulator
//! has a model of its own, of the whole end of a connection, for many nodes and faults.)

use crate::common::*;
use ko2iblnd_host::prng::Prng;
use ko2iblnd_host::proto::conn::{Delivery, OutBody, OutMsg, Post, Role};
use ko2iblnd_host::proto::{Limits, RxId, Span};
use ko2iblnd_host::wire::{
    BodyOut,
    Cookie,
    DescOut,
    Frag,
    LnetMsgType,
    Version, //
};
use std::collections::VecDeque;

/// NOOPs without a credit that version 2 has receives for.
const OOB: u16 = 2;

/// A message of the C driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CMsg {
    Noop,
    Immediate,
    PutReq(u64),
    PutAck { src: Cookie, dst: u64 },
    PutNak(Cookie),
    PutDone(Cookie),
    GetReq(u64),
    GetDone(Cookie),
}

/// What LNet does with a request that came in, some time later.
#[derive(Clone, Copy, Debug)]
enum CRequest {
    Immediate,
    Put(Cookie),
    Get(Cookie),
}

/// What the model does wrong, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    No,
    /// A NOOP of version 2 gives a credit back as well.
    CreditForNoop,
    /// A PUT_ACK gives a credit back though the buffer is kept for the PUT_DONE.
    CreditForPutReq,
    /// A PUT_DONE gives none back.
    NoCreditForPutDone,
}

/// Counters and queues of section 12.
struct CDriver {
    version: Version,
    depth: u16,
    hiw: u16,
    concurrent: u16,
    credits: u16,
    outstanding: u16,
    reserved: u16,
    posted: u16,
    noops: u16,
    receives: u16,
    rsrvd: VecDeque<CMsg>,
    credit: VecDeque<CMsg>,
    nocred: VecDeque<CMsg>,
    noop: VecDeque<CMsg>,
    /// Sent, not completed: whether it is a NOOP.
    in_flight: VecDeque<bool>,
    requests: VecDeque<CRequest>,
    next_cookie: u64,
    /// Requests that wait for their answer.
    waiting: Vec<u64>,
    /// PUT_ACKs that wait for their PUT_DONE.
    sinks: Vec<u64>,
    done: u32,
    lie: Lie,
}

impl CDriver {
    fn new(version: Version, depth: u16, hiw: u16, concurrent: u16, lie: Lie) -> Self {
        let oob = if version == Version::V2 { OOB } else { 0 };
        Self {
            version,
            depth,
            hiw,
            concurrent,
            credits: depth,
            outstanding: 0,
            reserved: depth,
            posted: 0,
            noops: 0,
            receives: 2 * depth + oob,
            rsrvd: VecDeque::new(),
            credit: VecDeque::new(),
            nocred: VecDeque::new(),
            noop: VecDeque::new(),
            in_flight: VecDeque::new(),
            requests: VecDeque::new(),
            next_cookie: 0x100,
            waiting: Vec::new(),
            sinks: Vec::new(),
            done: 0,
            lie,
        }
    }

    fn cookie(&mut self) -> u64 {
        self.next_cookie += 1;
        self.next_cookie
    }

    fn submit(&mut self, kind: usize) {
        let cookie = self.cookie();
        match kind {
            0 => return self.credit.push_back(CMsg::Immediate),
            1 => self.rsrvd.push_back(CMsg::PutReq(cookie)),
            _ => self.rsrvd.push_back(CMsg::GetReq(cookie)),
        }
        self.waiting.push(cookie);
    }

    fn needs_noop(&self, keepalive: bool) -> bool {
        if self.outstanding < self.hiw && !keepalive {
            return false;
        }
        if !self.nocred.is_empty() {
            return false;
        }
        match self.version {
            Version::V2 => self.credit.is_empty() || self.credits == 0,
            Version::V1 => {
                self.noop.is_empty()
                    && self.credits > 0
                    && !(self.credits == 1 && self.outstanding == 0)
                    && (self.credit.is_empty() || self.credits == 1)
            }
        }
    }

    /// Looks at the queues; what goes out, each with the credits that it carries.
    fn check_sends(&mut self, keepalive: bool) -> Vec<(CMsg, u8)> {
        while self.reserved > 0 {
            let Some(msg) = self.rsrvd.pop_front() else {
                break;
            };
            self.reserved -= 1;
            self.credit.push_back(msg);
        }
        if self.needs_noop(keepalive) {
            match self.version {
                Version::V2 => self.nocred.push_back(CMsg::Noop),
                Version::V1 => self.noop.push_back(CMsg::Noop),
            }
        }
        let mut out = Vec::new();
        while let Some((msg, uses_credit)) = self.next() {
            if self.posted == self.concurrent || (uses_credit && self.credits == 0) {
                break;
            }
            let last = self.version == Version::V1 && self.credits == 1 && msg != CMsg::Noop;
            if uses_credit && last {
                break;
            }
            self.pop();
            if msg == CMsg::Noop {
                let enough = self.version == Version::V2 && self.noops == OOB;
                if !self.needs_noop(keepalive) || enough {
                    continue;
                }
                self.noops += 1;
            }
            self.credits -= u16::from(uses_credit);
            self.posted += 1;
            self.in_flight.push_back(msg == CMsg::Noop);
            out.push((msg, self.outstanding as u8));
            self.outstanding = 0;
        }
        out
    }

    /// The next message, and whether it uses a credit.
    fn next(&self) -> Option<(CMsg, bool)> {
        if let Some(&msg) = self.nocred.front() {
            return Some((msg, false));
        }
        let queued = self.noop.front().or_else(|| self.credit.front());
        queued.map(|&msg| (msg, true))
    }

    fn pop(&mut self) {
        let from = match (self.nocred.is_empty(), self.noop.is_empty()) {
            (false, _) => &mut self.nocred,
            (true, false) => &mut self.noop,
            (true, true) => &mut self.credit,
        };
        from.pop_front();
    }

    fn completed(&mut self) {
        let noop = self.in_flight.pop_front().expect("something is posted");
        self.posted -= 1;
        self.noops -= u16::from(noop);
    }

    fn take(list: &mut Vec<u64>, cookie: Cookie) {
        let at = list.iter().position(|&c| c == cookie.0);
        list.remove(at.expect("an answer that somebody waits for"));
    }

    fn repost(&mut self, owes: bool) {
        self.receives += 1;
        self.outstanding += u16::from(owes);
    }

    fn receive(&mut self, msg: &OutMsg) {
        assert!(self.receives > 0, "no receive is posted for {msg:?}");
        self.receives -= 1;
        self.credits += u16::from(msg.hdr.credits);
        assert!(self.credits <= self.depth, "too many credits in {msg:?}");
        match msg.body {
            OutBody::Noop => {
                let owes = self.version == Version::V1 || self.lie == Lie::CreditForNoop;
                self.repost(owes);
            }
            OutBody::Immediate { .. } => self.requests.push_back(CRequest::Immediate),
            OutBody::PutReq { cookie, .. } => self.requests.push_back(CRequest::Put(cookie)),
            OutBody::GetReq { cookie, .. } => self.requests.push_back(CRequest::Get(cookie)),
            OutBody::PutAck {
                src_cookie,
                dst_cookie,
                ..
            } => {
                Self::take(&mut self.waiting, src_cookie);
                self.nocred.push_back(CMsg::PutDone(dst_cookie));
                self.answered();
            }
            OutBody::PutNak(completion) | OutBody::GetDone(completion) => {
                Self::take(&mut self.waiting, completion.cookie);
                self.done += 1;
                self.answered();
            }
            OutBody::PutDone(completion) => {
                Self::take(&mut self.sinks, completion.cookie);
                self.repost(self.lie != Lie::NoCreditForPutDone);
            }
            OutBody::ConnReq(_) | OutBody::ConnAck(_) => panic!("{msg:?} on a queue pair"),
        }
    }

    fn answered(&mut self) {
        self.repost(false);
        self.reserved += 1;
    }

    /// LNet takes, or refuses, the request that came first.
    fn serve(&mut self, takes: bool) {
        let Some(request) = self.requests.pop_front() else {
            return;
        };
        match request {
            CRequest::Immediate => self.repost(true),
            CRequest::Put(src) if takes => {
                let dst = self.cookie();
                self.sinks.push(dst);
                self.nocred.push_back(CMsg::PutAck { src, dst });
                self.repost(self.lie == Lie::CreditForPutReq);
            }
            CRequest::Put(src) => {
                self.nocred.push_back(CMsg::PutNak(src));
                self.repost(true);
            }
            CRequest::Get(cookie) => {
                self.nocred.push_back(CMsg::GetDone(cookie));
                self.repost(true);
            }
        }
    }

    /// The engine's credits that are not on their way back: requests here, and the buffers that
    /// wait for a PUT_DONE.
    fn holds(&self) -> u16 {
        (self.requests.len() + self.sinks.len()) as u16
    }
}

/// The engine on its bench, the model, and what is between them.
struct Two {
    bench: Bench,
    c: CDriver,
    /// Messages of the engine that have not arrived.
    to_c: VecDeque<OutMsg>,
    to_us: VecDeque<(CMsg, u8)>,
    /// Messages of the model that have arrived and not completed.
    c_acked: usize,
    /// Posts of the engine that have not completed: whether it is a SEND.
    posted: VecDeque<bool>,
    seen_posts: usize,
    seen_sent: usize,
    /// SENDs of the engine that have arrived and not completed.
    acked: usize,
    next_tx: u32,
    received: u64,
    keepalives: u64,
}

impl Two {
    fn new(prng: &mut Prng, version: Version, lie: Lie) -> Self {
        let depth = match version {
            Version::V1 => 8,
            Version::V2 => [1, 2, 3, 8, 16][prng.index(5)],
        };
        let mut t = tunables(depth);
        t.credits_hiw = prng.range(1, u64::from(depth)) as u16;
        t.concurrent_sends = prng.range(1, 2 * u64::from(depth)) as u16;
        t.keepalive = prng.chance(1, 2).then_some(Span::from_secs(5));
        let limits = Limits::new(&t, &CAPS, version, None).expect("limits");
        let mut bench = Bench::with(Role::Passive, &t, limits);
        bench.conn.handle_established(bench.now, None);
        bench.pump();
        let (hiw, concurrent) = match version {
            Version::V1 => (7, prng.range(4, 16)),
            Version::V2 => (
                prng.range(1, depth.into()),
                prng.range(1, 2 * u64::from(depth)),
            ),
        };
        let mut two = Self {
            bench,
            c: CDriver::new(version, depth, hiw as u16, concurrent as u16, lie),
            to_c: VecDeque::new(),
            to_us: VecDeque::new(),
            c_acked: 0,
            posted: VecDeque::new(),
            seen_posts: 0,
            seen_sent: 0,
            acked: 0,
            next_tx: 1,
            received: 0,
            keepalives: 0,
        };
        two.look();
        two
    }

    /// Takes over what the engine has posted and sent.
    fn look(&mut self) {
        self.bench.pump();
        for post in &self.bench.posts[self.seen_posts..] {
            if !matches!(post, Post::Recv { .. }) {
                self.posted.push_back(matches!(post, Post::Send { .. }));
            }
        }
        self.seen_posts = self.bench.posts.len();
        self.to_c.extend(&self.bench.sent[self.seen_sent..]);
        self.seen_sent = self.bench.sent.len();
        self.check();
    }

    fn c_sends(&mut self, keepalive: bool) {
        let out = self.c.check_sends(keepalive);
        self.to_us.extend(out);
        self.check();
    }

    /// Each credit is in one place.
    fn check(&self) {
        assert_eq!(self.bench.cause(), None);
        let s = self.bench.conn.snapshot();
        let v1 = self.c.version == Version::V1;
        let uses = |msg: &OutMsg| match msg.body {
            OutBody::Immediate { .. } | OutBody::PutReq { .. } | OutBody::GetReq { .. } => 1,
            OutBody::Noop => u16::from(v1),
            // The PUT_REQ's credit comes back with the buffer that its PUT_DONE is in.
            _ => 0,
        };
        let on_way: u16 = self.to_c.iter().map(uses).sum();
        let back: u16 = self.to_us.iter().map(|&(_, n)| u16::from(n)).sum();
        let there = on_way + self.c.holds() + self.c.outstanding + back;
        assert_eq!(s.credits + there, self.c.depth, "our credits: {s:?}");
        assert!(s.sends <= self.bench.conn.limits().concurrent_sends);
        assert!(self.c.outstanding <= self.c.depth);
    }

    fn deliver_to_c(&mut self) {
        if let Some(msg) = self.to_c.pop_front() {
            self.acked += 1;
            self.c.receive(&msg);
            self.c_sends(false);
        }
    }

    fn deliver_to_us(&mut self) {
        let Some((msg, credits)) = self.to_us.pop_front() else {
            return;
        };
        self.c_acked += 1;
        self.received += 1;
        let frags = [Frag { addr: 0, nob: 8192 }];
        let desc = DescOut {
            key: 9,
            frags: &frags,
        };
        let payload = [7; 16];
        let put = lnet(LnetMsgType::Put, 8192);
        let body = match msg {
            CMsg::Noop => BodyOut::Noop,
            CMsg::Immediate => BodyOut::Immediate {
                hdr: lnet(LnetMsgType::Put, 16),
                payload: &payload,
            },
            CMsg::PutReq(cookie) => BodyOut::PutReq {
                hdr: put,
                cookie: Cookie(cookie),
            },
            CMsg::PutAck { src, dst } => BodyOut::PutAck {
                src_cookie: src,
                dst_cookie: Cookie(dst),
                desc,
            },
            CMsg::PutNak(cookie) => BodyOut::PutNak(completion(cookie, 0)),
            CMsg::PutDone(cookie) => BodyOut::PutDone(completion(cookie, 0)),
            CMsg::GetReq(cookie) => BodyOut::GetReq {
                hdr: get_hdr(8192),
                cookie: Cookie(cookie),
                desc,
            },
            CMsg::GetDone(cookie) => BodyOut::GetDone(completion(cookie, 100)),
        };
        self.bench.recv_with(credits, &body);
        self.look();
    }

    fn complete_ours(&mut self) {
        let may = match self.posted.front() {
            Some(true) => self.acked > 0,
            Some(false) => true,
            None => false,
        };
        if may {
            self.acked -= usize::from(self.posted[0]);
            self.posted.pop_front();
            self.bench.complete(1);
            self.look();
        }
    }

    fn complete_theirs(&mut self) {
        if self.c_acked > 0 {
            self.c_acked -= 1;
            self.c.completed();
            self.c_sends(false);
        }
    }

    fn serve_ours(&mut self, takes: bool) {
        if self.bench.delivered.is_empty() {
            return;
        }
        let (rx, _, kind) = self.bench.take_delivered();
        self.answer(rx, kind, takes);
        self.look();
    }

    fn answer(&mut self, rx: RxId, kind: Delivery, takes: bool) {
        let tx = Tx(1_000_000 + self.next_tx);
        self.next_tx += 1;
        let b = &mut self.bench;
        match kind {
            Delivery::Immediate => b.conn.rx_done(b.now, rx),
            Delivery::PutReq if takes => {
                b.conn.put_sink(b.now, rx, tx, sink(8192)).expect("room");
            }
            Delivery::PutReq => b.conn.put_nak(b.now, rx, 0),
            Delivery::GetReq { .. } if takes => {
                b.conn.get_source(b.now, rx, tx, 100, Ok(1)).expect("room");
            }
            Delivery::GetReq { .. } => b.conn.get_done(b.now, rx, -61),
        }
    }

    fn submit_ours(&mut self, kind: usize) {
        let tx = self.next_tx;
        self.next_tx += 1;
        match kind {
            0 => self.bench.send_immediate(tx),
            1 => self.bench.send_put(tx, 8192),
            _ => self.bench.send_get(tx, 8192),
        }
        self.look();
    }

    fn time_passes(&mut self) {
        self.keepalives += 1;
        self.bench.pass(Span::from_secs(6));
        self.look();
        self.c_sends(true);
    }

    /// One step; whether there may be more to do.
    fn step(&mut self, what: usize, takes: bool) {
        match what {
            0 | 1 => self.deliver_to_c(),
            2 | 3 => self.deliver_to_us(),
            4 => self.complete_ours(),
            5 => self.complete_theirs(),
            6 => self.serve_ours(takes),
            7 => {
                self.c.serve(takes);
                self.c_sends(false);
            }
            _ => self.time_passes(),
        }
    }

    fn idle(&self) -> bool {
        self.to_c.is_empty()
            && self.to_us.is_empty()
            && self.posted.is_empty()
            && self.c.in_flight.is_empty()
            && self.c.requests.is_empty()
            && self.bench.delivered.is_empty()
    }

    /// Lets everything end, and looks whether it did.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.idle() {
                break;
            }
            for what in 0..8 {
                self.step(what, true);
            }
        }
        assert!(self.idle(), "messages go on for ever");
        let s = self.bench.conn.snapshot();
        assert_eq!(
            (s.ops, s.queue_credit, s.queue_reserve),
            (0, 0, 0),
            "stuck: {s:?}"
        );
        let c = &self.c;
        assert!(
            c.waiting.is_empty() && c.sinks.is_empty(),
            "the C driver is stuck"
        );
        assert!(c.rsrvd.is_empty() && c.credit.is_empty() && c.nocred.is_empty());
        assert_eq!((s.reserved, c.reserved), (c.depth, c.depth));
        assert_eq!((s.granted, s.granted + s.outstanding), (c.credits, c.depth));
        let owed = self.received / u64::from(self.bench.conn.limits().hiw);
        let noops = u64::from(s.counters.tx_noops);
        assert!(noops <= owed + self.keepalives + 2, "too many NOOPs: {s:?}");
    }
}

/// What a seed has done: messages of the engine and of the model.
fn run(seed: u64, version: Version, lie: Lie) -> (u64, u64) {
    let mut prng = Prng::new(seed);
    let mut two = Two::new(&mut prng, version, lie);
    let depth = usize::from(two.c.depth);
    for _ in 0..400 {
        let open = two.bench.conn.snapshot().ops_local;
        let theirs = two.c.waiting.len() + two.c.credit.len();
        match prng.index(12) {
            9 | 10 if usize::from(open) < 2 * depth => two.submit_ours(prng.index(3)),
            11 if theirs < 2 * depth => {
                two.c.submit(prng.index(3));
                two.c_sends(false);
            }
            8 if !prng.chance(1, 8) => {}
            what => two.step(what.min(8), !prng.chance(1, 8)),
        }
    }
    two.settle();
    let sent = two.bench.sent.len() as u64;
    let received = two.received;
    two.bench.tear_down();
    (sent, received)
}

#[test]
fn the_c_driver_and_we_understand_each_other() {
    for version in [Version::V2, Version::V1] {
        let (mut sent, mut received) = (0, 0);
        for seed in 0..1500 {
            let (out, back) = run(seed, version, Lie::No);
            sent += out;
            received += back;
        }
        println!("{version:?}: {sent} messages of ours, {received} of the C driver's model");
        assert!(sent > 50_000 && received > 50_000);
    }
}

#[test]
fn a_c_driver_that_miscounts_is_noticed() {
    let lies = [
        Lie::CreditForNoop,
        Lie::CreditForPutReq,
        Lie::NoCreditForPutDone,
    ];
    for lie in lies {
        let found =
            (0..50).any(|seed| std::panic::catch_unwind(|| run(seed, Version::V2, lie)).is_err());
        assert!(found, "{lie:?} is not noticed");
    }
}
