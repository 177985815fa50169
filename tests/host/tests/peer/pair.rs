// SPDX-License-Identifier: GPL-2.0

//! Two peers that talk to each other through a CM that loses, delays and reorders. CONNREQs and
//! rejects travel as bytes, padded as InfiniBand pads them. `KOR_SEED=n` runs one seed.

use super::common::*;
use ko2iblnd_host::prng::Prng;
use ko2iblnd_host::proto::{
    conn::{
        EstInfo,
        Role, //
    },
    passive::{
        admit,
        screen,
        NiInfo,
        Target, //
    },
    peer::{
        AttemptEvent,
        Claim,
        Offer,
        Peer,
        PeerAction,
        PeerConfig,
        PeerSubmit,
        TieBreak,
        Verdict, //
    },
    AttemptId,
    Cause,
    ConnId,
    Instant,
    Span, //
};
use ko2iblnd_host::wire::{
    emit,
    BodyOut,
    ConnParams,
    Endian,
    Header,
    Nid,
    Stamp,
    Version, //
};
use std::collections::{
    BTreeMap,
    HashMap, //
};

/// The CM repeats a REQ or REP after this, so often.
const CM_TIMEOUT: Span = Span::from_millis(4_300);
const CM_TRIES: u8 = 15;

/// One CM exchange: an id on the active side and, if it came so far, one on the passive side.
type Cm = u32;

#[derive(Clone, Debug)]
enum Msg {
    Req(Vec<u8>),
    Rep(Offer),
    Rej(Vec<u8>),
    Rtu,
    /// The active side gave up, or either side disconnects.
    Bye,
}

#[derive(Debug)]
enum Event {
    Submit(usize),
    Addr(usize, AttemptId),
    Route(usize, AttemptId),
    Arrive {
        to: usize,
        cm: Cm,
        msg: Msg,
    },
    Repeat {
        to: usize,
        cm: Cm,
        msg: Msg,
        tries: u8,
    },
    Release(usize, AttemptId),
    Gone(usize, ConnId),
}

/// What the active side of an exchange knows of it.
struct Active {
    node: usize,
    attempt: AttemptId,
    offer: Offer,
    version: Version,
    /// The attempt is over, by success or failure.
    over: bool,
    conn: Option<ConnId>,
}

/// What the passive side knows.
struct Passive {
    answer: Msg,
    conn: Option<ConnId>,
}

struct Node {
    ni: NiInfo,
    peer: Peer<Heap, Tx>,
    /// Messages on their way, and their deadlines.
    waiting: BTreeMap<u32, Instant>,
    sent: u32,
    failed: u32,
    attempts: HashMap<AttemptId, Option<Cm>>,
    /// Connections, their exchange, and whether they are established.
    conns: HashMap<ConnId, (Cm, bool)>,
    rejected: u32,
}

struct Net {
    rng: Prng,
    now: Instant,
    seq: u64,
    events: BTreeMap<(Instant, u64), Event>,
    nodes: [Node; 2],
    active: HashMap<Cm, Active>,
    passive: HashMap<Cm, Passive>,
    /// CONNREQs of attempts that are being resolved.
    requests: HashMap<Cm, Msg>,
    next: u32,
    /// Lost of 100 CM messages.
    loss: u64,
    /// Added to every delay, at most.
    jitter: Span,
    trace: Vec<String>,
}

struct Setup {
    seed: u64,
    nids: [Nid; 2],
    rules: [TieBreak; 2],
    credits: [u16; 2],
    conns_per_peer: u8,
    loss: u64,
    jitter: Span,
}

impl Node {
    fn new(setup: &Setup, at: usize, stamp: u64, now: Instant) -> Self {
        let ni = NiInfo {
            nid: setup.nids[at],
            stamp: Stamp(stamp),
            peer_credits: setup.credits[at],
        };
        let cfg = PeerConfig {
            peer: setup.nids[1 - at],
            ni,
            conns_per_peer: setup.conns_per_peer,
            tie_break: setup.rules[at],
            ..config(1)
        };
        Self {
            ni,
            peer: peer(cfg, now),
            waiting: BTreeMap::new(),
            sent: 0,
            failed: 0,
            attempts: HashMap::new(),
            conns: HashMap::new(),
            rejected: 0,
        }
    }
}

impl Net {
    fn new(setup: &Setup) -> Self {
        let now = Instant(1_000_000_000_000);
        Self {
            rng: Prng::new(setup.seed),
            now,
            seq: 0,
            events: BTreeMap::new(),
            nodes: [Node::new(setup, 0, 100, now), Node::new(setup, 1, 200, now)],
            active: HashMap::new(),
            passive: HashMap::new(),
            requests: HashMap::new(),
            next: 0,
            loss: setup.loss,
            jitter: setup.jitter,
            trace: Vec::new(),
        }
    }

    fn schedule(&mut self, delay: Span, event: Event) {
        self.seq += 1;
        self.events.insert((self.now.after(delay), self.seq), event);
    }

    fn delay(&mut self, millis: u64) -> Span {
        let jitter = self.rng.below(self.jitter.0 + 1);
        Span::from_millis(millis).plus(Span(jitter))
    }

    /// Sends a CM message once.
    fn send(&mut self, to: usize, cm: Cm, msg: Msg) {
        if self.rng.below(100) < self.loss && !matches!(msg, Msg::Bye) {
            return;
        }
        let delay = self.delay(1);
        self.schedule(delay, Event::Arrive { to, cm, msg });
    }

    /// Sends a CM message that is repeated until it is answered.
    fn send_and_repeat(&mut self, to: usize, cm: Cm, msg: Msg) {
        self.send(to, cm, msg.clone());
        let tries = CM_TRIES;
        self.schedule(CM_TIMEOUT, Event::Repeat { to, cm, msg, tries });
    }

    fn name(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn submit(&mut self, at: usize) {
        let n = self.name();
        let now = self.now;
        let node = &mut self.nodes[at];
        match node.peer.submit(now, Tx(n)) {
            PeerSubmit::Use { .. } => node.sent += 1,
            PeerSubmit::Queued => {
                node.waiting.insert(n, now.after(Span::from_millis(22_500)));
            }
            PeerSubmit::Refused(refused) => panic!("{refused:?}"),
        }
        self.drain(at);
    }

    fn drain(&mut self, at: usize) {
        while let Some(action) = self.nodes[at].peer.poll_action() {
            self.act(at, action);
        }
    }

    fn act(&mut self, at: usize, action: PeerAction<Tx>) {
        let other = self.nodes[1 - at].ni.nid;
        let node = &mut self.nodes[at];
        match action {
            PeerAction::StartAttempt {
                id,
                version,
                offer,
                dst_stamp,
            } => {
                let busy = node
                    .attempts
                    .keys()
                    .any(|other| other.0 & 0xff == id.0 & 0xff);
                assert!(!busy, "two attempts in a slot");
                let cm = self.name();
                let node = &mut self.nodes[at];
                node.attempts.insert(id, Some(cm));
                let req = connreq_bytes(&node.ni, other, dst_stamp, version, offer);
                let attempt = Active {
                    node: at,
                    attempt: id,
                    offer,
                    version,
                    over: false,
                    conn: None,
                };
                self.active.insert(cm, attempt);
                let delay = self.delay(1);
                self.schedule(delay, Event::Addr(at, id));
                // The request is made now, and sent when the route is known.
                let msg = Msg::Req(req);
                self.trace
                    .push(format!("{:?} {at} starts {id:?} {offer:?}", self.now));
                self.requests.insert(cm, msg);
            }
            PeerAction::AbortAttempt { id, cause } => {
                self.trace
                    .push(format!("{:?} {at} aborts {id:?} {cause:?}", self.now));
                self.abort(at, id);
            }
            PeerAction::Assign { tx, .. } => {
                node.waiting.remove(&tx.0).expect("ended once");
                node.sent += 1;
            }
            PeerAction::Fail { tx, done } => {
                node.waiting.remove(&tx.0).expect("ended once");
                node.failed += 1;
                self.trace
                    .push(format!("{:?} {at} fails {done:?}", self.now));
            }
            PeerAction::CloseConn { conn, cause } => self.close(at, conn, cause, true),
            PeerAction::NotifyDown { .. } | PeerAction::Idle => {}
        }
    }

    fn abort(&mut self, at: usize, id: AttemptId) {
        if let Some(cm) = self.nodes[at].attempts[&id] {
            if let Some(active) = self.active.get_mut(&cm) {
                active.over = true;
            }
            self.send(1 - at, cm, Msg::Bye);
        }
        let delay = self.delay(2);
        self.schedule(delay, Event::Release(at, id));
    }

    /// Ends a connection on one side, and tells the other.
    fn close(&mut self, at: usize, id: ConnId, cause: Cause, tell: bool) {
        let Some((cm, _)) = self.nodes[at].conns.remove(&id) else {
            return;
        };
        if tell {
            self.send(1 - at, cm, Msg::Bye);
        }
        let now = self.now;
        self.nodes[at].peer.handle_closed(now, id, cause, now);
        self.drain(at);
        let delay = self.delay(2);
        self.schedule(delay, Event::Gone(at, id));
    }

    fn handle(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Submit(at) => self.submit(at),
            Event::Addr(at, id) => {
                if self.tell(at, id, AttemptEvent::AddrResolved) == Claim::Taken {
                    let delay = self.delay(1);
                    self.schedule(delay, Event::Route(at, id));
                }
            }
            Event::Route(at, id) => {
                if self.tell(at, id, AttemptEvent::RouteResolved) == Claim::Taken {
                    let _ = self.tell(at, id, AttemptEvent::Connecting);
                    let cm = self.nodes[at].attempts[&id].expect("has an exchange");
                    if let Some(msg) = self.requests.remove(&cm) {
                        self.send_and_repeat(1 - at, cm, msg);
                    }
                }
            }
            Event::Release(at, id) => {
                self.nodes[at].attempts.remove(&id);
                let _ = self.tell(at, id, AttemptEvent::Released);
            }
            Event::Gone(at, id) => {
                self.nodes[at].peer.handle_gone(now, id);
                self.drain(at);
            }
            Event::Repeat { to, cm, msg, tries } => {
                if tries > 0 && self.is_unanswered(cm, &msg) {
                    self.send(to, cm, msg.clone());
                    let tries = tries - 1;
                    self.schedule(CM_TIMEOUT, Event::Repeat { to, cm, msg, tries });
                }
            }
            Event::Arrive { to, cm, msg } => self.arrive(to, cm, msg),
        }
    }

    fn is_unanswered(&self, cm: Cm, msg: &Msg) -> bool {
        match msg {
            Msg::Req(_) => self.active.get(&cm).is_some_and(|active| !active.over),
            Msg::Rep(_) => self.passive.get(&cm).is_some_and(|passive| {
                let conns = self.nodes.iter().flat_map(|node| node.conns.iter());
                let mut ours = conns.filter(|(id, _)| passive.conn == Some(**id));
                ours.any(|(_, (c, up))| *c == cm && !up)
            }),
            Msg::Rej(_) | Msg::Rtu | Msg::Bye => false,
        }
    }

    fn tell(&mut self, at: usize, id: AttemptId, event: AttemptEvent<'_>) -> Claim {
        let claim = self.nodes[at].peer.handle_attempt(self.now, id, event);
        self.drain(at);
        claim
    }

    fn arrive(&mut self, to: usize, cm: Cm, msg: Msg) {
        match msg {
            Msg::Req(private) => self.arrive_req(to, cm, &private),
            Msg::Rep(offer) => self.arrive_rep(to, cm, offer),
            Msg::Rej(private) => {
                let Some(active) = self.active.get_mut(&cm) else {
                    return;
                };
                if active.node != to || active.over {
                    return;
                }
                active.over = true;
                let id = active.attempt;
                self.nodes[to].rejected += 1;
                let _ = self.tell(to, id, rejected(&private));
            }
            Msg::Rtu => {
                let Some(id) = self.passive.get(&cm).and_then(|passive| passive.conn) else {
                    return;
                };
                self.establish(to, cm, id);
            }
            Msg::Bye => {
                let ours = self.nodes[to].conns.iter();
                let ours: Vec<_> = ours
                    .filter(|(_, (c, _))| *c == cm)
                    .map(|(id, _)| *id)
                    .collect();
                for id in ours {
                    self.close(to, id, Cause::Disconnected, false);
                }
            }
        }
    }

    fn arrive_req(&mut self, at: usize, cm: Cm, private: &[u8]) {
        if let Some(passive) = self.passive.get(&cm) {
            // Repeated: so is the answer.
            let answer = passive.answer.clone();
            return self.send(1 - at, cm, answer);
        }
        let name = ConnId(self.name().into());
        let now = self.now;
        let node = &mut self.nodes[at];
        let req = screen(private, 1000, true).and_then(|s| admit(&s, Target::Ni(&node.ni)));
        let verdict = match req {
            Ok(req) => node.peer.handle_connreq(now, name, &req),
            Err(refusal) => Verdict::Reject(refusal),
        };
        let (answer, conn) = match verdict {
            Verdict::Accept { offer, .. } => {
                node.conns.insert(name, (cm, false));
                (Msg::Rep(offer), Some(name))
            }
            Verdict::Reject(refusal) => {
                let mut private = vec![0; 148];
                refusal.reject.emit(Endian::NATIVE, &mut private).unwrap();
                (Msg::Rej(private), None)
            }
        };
        self.trace.push(format!("{now:?} {at} answers {verdict:?}"));
        let passive = Passive {
            answer: answer.clone(),
            conn,
        };
        self.passive.insert(cm, passive);
        if conn.is_some() {
            self.send_and_repeat(1 - at, cm, answer);
        } else {
            self.send(1 - at, cm, answer);
        }
        self.drain(at);
    }

    fn arrive_rep(&mut self, at: usize, cm: Cm, offer: Offer) {
        let name = ConnId(self.name().into());
        let Some(active) = self.active.get_mut(&cm) else {
            return;
        };
        assert_eq!(active.node, at);
        if active.over {
            // Up already: the RTU was lost. Given up: the other side must know.
            let up = active
                .conn
                .is_some_and(|id| self.nodes[at].conns.contains_key(&id));
            return self.send(1 - at, cm, if up { Msg::Rtu } else { Msg::Bye });
        }
        active.over = true;
        let id = active.attempt;
        assert!(offer.queue_depth <= active.offer.queue_depth);
        if self.tell(at, id, AttemptEvent::Connected(name)) == Claim::Late {
            return self.send(1 - at, cm, Msg::Bye);
        }
        if let Some(active) = self.active.get_mut(&cm) {
            active.conn = Some(name);
        }
        self.nodes[at].attempts.remove(&id);
        self.nodes[at].conns.insert(name, (cm, false));
        if self.establish(at, cm, name) {
            self.send(1 - at, cm, Msg::Rtu);
        }
    }

    fn establish(&mut self, at: usize, cm: Cm, id: ConnId) -> bool {
        let other = self.nodes[1 - at].ni;
        let Some((_, up)) = self.nodes[at].conns.get_mut(&id) else {
            return false;
        };
        *up = true;
        let agreed = self.active[&cm].offer;
        let info = EstInfo {
            role: Role::Active,
            version: self.active[&cm].version,
            queue_depth: agreed.queue_depth,
            max_frags: agreed.max_frags,
            peer_stamp: other.stamp,
        };
        let result = self.nodes[at].peer.handle_established(self.now, id, &info);
        if let Err(cause) = result {
            self.close(at, id, cause, true);
        }
        self.drain(at);
        result.is_ok()
    }

    /// Runs until `end`, or until nothing waits.
    fn run(&mut self, end: Instant) {
        for _ in 0..100_000 {
            for at in 0..2 {
                self.nodes[at].peer.handle_timeout(self.now);
                self.drain(at);
                let late = self.nodes[at].waiting.values().any(|t| t.passed(self.now));
                assert!(!late, "a message outlived its deadline");
            }
            let event = self.events.keys().next().map(|(at, _)| *at);
            let timeouts = self
                .nodes
                .iter()
                .filter_map(|node| node.peer.poll_timeout())
                .min();
            let Some(next) = Instant::earlier(event, timeouts).filter(|at| *at <= end) else {
                self.now = self.now.max(end);
                return;
            };
            self.now = self.now.max(next);
            if event.is_some_and(|at| at <= self.now) {
                if let Some((_, event)) = self.events.pop_first() {
                    self.handle(event);
                }
            }
        }
        panic!("no end of events: {:#?}", self.trace);
    }

    fn run_for(&mut self, span: Span) {
        self.run(self.now.after(span));
    }

    /// The node restarts: all it knew is gone, and nobody is told.
    fn restart(&mut self, setup: &Setup, at: usize) {
        let stamp = self.nodes[at].ni.stamp.0 + 1000;
        self.nodes[at] = Node::new(setup, at, stamp, self.now);
        for active in self.active.values_mut().filter(|active| active.node == at) {
            active.over = true;
        }
        self.events.retain(|_, event| match event {
            Event::Submit(n) | Event::Addr(n, _) | Event::Route(n, _) => *n != at,
            Event::Release(n, _) | Event::Gone(n, _) => *n != at,
            Event::Arrive { .. } | Event::Repeat { .. } => true,
        });
    }

    fn results(&self) -> [(u32, u32, usize); 2] {
        [0, 1].map(|at| {
            let node = &self.nodes[at];
            (node.sent, node.failed, node.waiting.len())
        })
    }
}

fn connreq_bytes(ni: &NiInfo, peer: Nid, stamp: Stamp, version: Version, offer: Offer) -> Vec<u8> {
    let hdr = Header {
        version,
        credits: 0,
        src: ni.nid,
        src_stamp: ni.stamp,
        dst: peer,
        dst_stamp: stamp,
    };
    let body = BodyOut::ConnReq(ConnParams {
        queue_depth: offer.queue_depth,
        max_frags: offer.max_frags,
        max_msg_size: 4096,
    });
    let mut buf = vec![0; 92];
    emit(&hdr, &body, true, Endian::NATIVE, &mut buf).unwrap();
    buf
}

const BOTH_RULES: [TieBreak; 2] = [TieBreak::Hash, TieBreak::Numeric];

/// Pairs of NIDs on which the rules agree, and on which they do not.
const NIDS: [[u32; 2]; 3] = [
    [0xc0a8_0105, 0xc0a8_0106],
    [0x0a00_0001, 0x0a00_0101],
    [0x0a00_0101, 0x0a00_00ff],
];

fn setup(seed: u64, nids: [u32; 2], rules: [TieBreak; 2]) -> Setup {
    Setup {
        seed,
        nids: nids.map(|addr| Nid::o2ib(0, addr)),
        rules,
        credits: [128, 128],
        conns_per_peer: 1,
        loss: 0,
        jitter: Span::ZERO,
    }
}

/// Every pair of rules and NIDs.
fn all(mut f: impl FnMut([u32; 2], [TieBreak; 2])) {
    for nids in NIDS {
        for a in BOTH_RULES {
            for b in BOTH_RULES {
                f(nids, [a, b]);
            }
        }
    }
}

fn seeds(n: u64) -> Vec<u64> {
    match std::env::var("KOR_SEED") {
        Ok(seed) => vec![seed.parse().expect("KOR_SEED is a number")],
        Err(_) => (0..n).collect(),
    }
}

/// Both nodes send at the same moment and all takes exactly as long on both sides: the worst for
/// breaking a tie. With both rules on either side every message arrives.
#[test]
fn a4_both_send_in_step() {
    let mut most = 0;
    all(|nids, rules| {
        for conns_per_peer in [1, 4] {
            let mut setup = setup(0, nids, rules);
            setup.conns_per_peer = conns_per_peer;
            let mut net = Net::new(&setup);
            for at in [0, 1, 0, 1, 1] {
                net.submit(at);
            }
            net.run_for(Span::from_millis(200));
            let place = format!("{rules:?} {nids:x?}: {:#?}", net.trace);
            assert_eq!(net.results(), [(2, 0, 0), (3, 0, 0)], "{place}");
            most = most.max(net.nodes[0].rejected + net.nodes[1].rejected);
        }
    });
    // The mixed pair that rejects both really does.
    assert!(most >= 2, "{most}");
}

/// The same with random delays, loss of CM messages, and random moments. Messages may fail when
/// the CM loses; none is lost or late. When the loss ends, all arrive again.
#[test]
fn random_pairs() {
    let (mut sent, mut failed) = (0, 0);
    for seed in seeds(300) {
        println!("seed {seed}");
        all(|nids, rules| {
            let mut setup = setup(seed, nids, rules);
            let mut rng = Prng::new(seed ^ 0xabcd);
            setup.conns_per_peer = rng.range(1, 3) as u8;
            setup.loss = rng.below(4) * 15;
            setup.jitter = Span::from_millis([0, 1, 20, 3000][rng.index(4)]);
            setup.credits = [rng.range(8, 128) as u16, rng.range(8, 128) as u16];
            let mut net = Net::new(&setup);
            for _ in 0..rng.range(1, 12) {
                let after = Span::from_millis(rng.below(3) * rng.below(4_000));
                net.schedule(after, Event::Submit(rng.index(2)));
            }
            net.run_for(Span::from_secs(60));
            check_phase(&net, setup.loss == 0);
            net.results()
                .iter()
                .for_each(|r| (sent, failed) = (sent + r.0, failed + r.1));
            // Liveness: the network is good from now on.
            (net.loss, net.jitter) = (0, Span::from_millis(1));
            net.run_for(Span::from_secs(60));
            for at in 0..2 {
                (net.nodes[at].sent, net.nodes[at].failed) = (0, 0);
                net.submit(at);
            }
            net.run_for(Span::from_secs(20));
            assert_eq!(net.results(), [(1, 0, 0), (1, 0, 0)], "{:#?}", net.trace);
        });
    }
    println!("{sent} sent, {failed} failed");
    assert!(sent > 10 * failed, "{sent} {failed}");
}

fn check_phase(net: &Net, good: bool) {
    for (at, (_, failed, waiting)) in net.results().into_iter().enumerate() {
        assert_eq!(waiting, 0, "{at}: {:#?}", net.trace);
        assert!(!good || failed == 0, "{at}: {:#?}", net.trace);
    }
}

/// Differently tuned nodes agree on the lower depth, whoever asks (LU-3322, LU-15094).
#[test]
fn lu_3322_differently_tuned_nodes() {
    for credits in [[128, 8], [8, 128], [64, 63]] {
        for first in [0, 1] {
            let mut setup = setup(0, NIDS[0], [TieBreak::Hash; 2]);
            setup.credits = credits;
            let mut net = Net::new(&setup);
            net.submit(first);
            net.run_for(Span::from_secs(1));
            net.submit(1 - first);
            net.run_for(Span::from_secs(1));
            assert_eq!(net.results(), [(1, 0, 0), (1, 0, 0)]);
            for node in &net.nodes {
                let offer = node.peer.snapshot().offer;
                assert_eq!(
                    offer.queue_depth,
                    credits[0].min(credits[1]),
                    "{credits:?} {first}"
                );
            }
        }
    }
}

/// A node restarts without telling anybody; then it, or the other, connects anew.
#[test]
fn restarted_node() {
    for seed in seeds(50) {
        println!("seed {seed}");
        all(|nids, rules| {
            let mut setup = setup(seed, nids, rules);
            setup.jitter = Span::from_millis(5);
            let mut net = Net::new(&setup);
            net.submit(0);
            net.submit(1);
            net.run_for(Span::from_secs(10));
            net.restart(&setup, 1);
            // It finds the old connections of the other closed by its first request.
            net.submit(1);
            net.run_for(Span::from_secs(10));
            assert_eq!(net.results()[1], (1, 0, 0), "{:#?}", net.trace);
            let stamp = net.nodes[1].ni.stamp;
            assert_eq!(net.nodes[0].peer.snapshot().stamp, stamp);
            // The other way: the survivor notices the loss and asks for the old incarnation.
            net.restart(&setup, 1);
            let lost: Vec<_> = net.nodes[0].conns.keys().copied().collect();
            for conn in lost {
                net.close(0, conn, Cause::Timeout, false);
            }
            net.nodes[0].sent = 0;
            net.submit(0);
            net.run_for(Span::from_secs(10));
            assert_eq!(net.results()[0], (1, 0, 0), "{:#?}", net.trace);
            let answers = net.trace.iter().filter(|line| line.contains("ConnStale"));
            assert!(answers.count() >= 2);
            assert_eq!(net.nodes[0].peer.snapshot().stamp, net.nodes[1].ni.stamp);
        });
    }
}
