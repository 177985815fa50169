// SPDX-License-Identifier: GPL-2.0

//! Connection work, step by step: what is done, in which order, and what follows when it fails.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ko2iblnd_host::driver::admission::{
    Found, RefusalKind, Request as Incoming, MAX_PENDING, MAX_PENDING_OF_PEER,
};
use ko2iblnd_host::driver::cm::{CmEvent, ConnInput};
use ko2iblnd_host::driver::connect::effects::{
    Connect, Count, EngineOf, FailedQp, Ids, Line, Link, Wanted,
};
use ko2iblnd_host::driver::connect::Work;
use ko2iblnd_host::driver::handshake::{Encoding, Proposal};
use ko2iblnd_host::driver::send::Sending;
use ko2iblnd_host::driver::shell::{Ended, Request, Shell};
use ko2iblnd_host::driver::sweep::sweep_peer;
use ko2iblnd_host::proto::conn::{Delivery, EstInfo, Role};
use ko2iblnd_host::proto::passive::{NiInfo, RefuseCause};
use ko2iblnd_host::proto::peer::{Claim, Offer, Peer, PeerConfig, PeerSubmit};
use ko2iblnd_host::proto::{
    AttemptId, Cause, ConnId, DeviceCaps, Done, Instant, Limits, NiTunables, Refused, RxId, Span,
};
use ko2iblnd_host::sim::Heap;
use ko2iblnd_host::wire::{
    Endian, LnetHdr, Nid, Reject, RejectReason, Stamp, Version, CONN_MSG_SIZE,
};

const US: Nid = Nid::o2ib(0, 0xc0a8_0105);
const THEM: Nid = Nid::o2ib(0, 0xc0a8_0106);
const NI: NiInfo = NiInfo {
    nid: US,
    stamp: Stamp(17),
    peer_credits: 8,
};
const LISTENER: u64 = 900;
const ENCODING: Encoding = Encoding {
    cksum: false,
    endian: Endian::NATIVE,
};
const TUNABLES: NiTunables = NiTunables {
    peer_credits: 8,
    credits_hiw: 4,
    concurrent_sends: 8,
    max_frags: 257,
    wrq_sge: 2,
    timeout: Span::from_secs(50),
    connect_timeout: Span::from_secs(12),
    keepalive: None,
    conns_per_peer: 1,
    cksum: false,
};
const CAPS: DeviceCaps = DeviceCaps {
    max_qp_wr: 16_384,
    max_cqe: 32_767,
    max_send_sge: 30,
    max_mr_pages: 256,
};

/// Counts down when it is dropped.
struct Pending(Rc<Cell<u64>>);

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The number that is set aside.
const NUMBER: ConnId = ConnId(50);

/// One peer; ids and connections by number; what was done.
struct Fake {
    peer: Peer<Heap, u32>,
    now: Instant,
    links: BTreeMap<u64, Link<Fake>>,
    /// Connections by tag.
    made: BTreeMap<u64, u32>,
    tags: u64,
    conns: Vec<ConnId>,
    known: Vec<u32>,
    listed: Vec<ConnId>,
    requests: Vec<Request>,
    pending: Rc<Cell<u64>>,
    of_peer: u32,
    /// The call that fails.
    fails: &'static str,
    qp: FailedQp,
    lowered: bool,
    did: Vec<String>,
}

type Event = CmEvent<Vec<u8>>;

impl Fake {
    fn new() -> Self {
        let config = PeerConfig::new(THEM, NI, &TUNABLES);
        let Ok(peer) = Peer::new(&mut Heap, config, Instant(1));
        Self {
            peer,
            now: Instant(2),
            links: BTreeMap::new(),
            made: BTreeMap::new(),
            tags: 0,
            conns: Vec::new(),
            known: Vec::new(),
            listed: Vec::new(),
            requests: Vec::new(),
            pending: Rc::default(),
            of_peer: 0,
            fails: "",
            qp: FailedQp::Failed,
            lowered: false,
            did: Vec::new(),
        }
    }

    /// With an attempt of which the CM was asked to resolve the address.
    fn connecting() -> Self {
        let mut fake = Self::new();
        let _ = fake.peer.submit(Instant(2), 7);
        Work::peer(()).run(&mut fake);
        assert_eq!(fake.did(), ["Attempt", "open 1", "resolve_addr 1 false"]);
        fake
    }

    /// With an attempt that has sent its CONNREQ.
    fn requesting() -> Self {
        let mut fake = Self::connecting();
        fake.event(1, CmEvent::AddrResolved);
        fake.event(1, CmEvent::RouteResolved);
        fake.did();
        fake
    }

    /// With a connection that was accepted.
    fn accepted() -> Self {
        let mut fake = Self::new();
        fake.request(&connreq());
        fake.did();
        fake
    }

    fn did(&mut self) -> Vec<String> {
        std::mem::take(&mut self.did)
    }

    fn do_(&mut self, what: impl Into<String>) {
        self.did.push(what.into());
    }

    fn call(&mut self, name: &str, what: String) -> Result<(), i32> {
        self.do_(format!("{name} {what}").trim_end());
        match self.fails == name {
            true => Err(-5),
            false => Ok(()),
        }
    }

    fn event(&mut self, tag: u64, event: Event) {
        Work::Event { tag, event }.run(self);
    }

    fn request(&mut self, private: &[u8]) {
        Work::request(LISTENER, 1, private.to_vec()).run(self);
    }

    fn serve(&mut self, requests: &[Request]) {
        self.requests = requests.to_vec();
        Work::Conn(0).run(self);
        assert!(self.requests.is_empty());
    }
}

/// A CONNREQ of the peer.
fn connreq() -> Vec<u8> {
    let proposal = Proposal {
        peer: US,
        version: Version::V2,
        offer: Offer {
            queue_depth: 8,
            max_frags: 16,
        },
        dst_stamp: Stamp::UNKNOWN,
    };
    let offer = Some((8, 16));
    let limits = Limits::new(&TUNABLES, &CAPS, Version::V2, offer).unwrap();
    let them = NiInfo {
        nid: THEM,
        stamp: Stamp(3),
        peer_credits: 8,
    };
    let bytes = proposal.connreq(&them, &limits, ENCODING).unwrap();
    bytes.to_vec()
}

impl Shell for Fake {
    type Storage = Heap;
    type Tx = u32;
    type Ni = ();
    type Peer = ();
    type Conn = u32;

    fn find_peer(&mut self, _ni: &(), nid: Nid) -> Result<(), Cause> {
        assert_eq!(nid, THEM);
        self.call("find_peer", String::new())
            .map_err(|_| Cause::NoMemory)
    }

    fn forget_peer(&mut self, _peer: &()) {}

    fn peer<R>(&mut self, _peer: &(), f: impl FnOnce(&mut Peer<Heap, u32>, Instant) -> R) -> R {
        f(&mut self.peer, self.now)
    }

    fn place(
        &mut self,
        _peer: &(),
        f: impl FnOnce(&mut Peer<Heap, u32>, Instant) -> PeerSubmit<u32>,
    ) -> (PeerSubmit<u32>, Option<u32>) {
        (f(&mut self.peer, self.now), None)
    }

    fn kick_peer(&mut self, _peer: &()) {}

    fn peer_of(&self, _conn: &u32) {}

    fn name_of(&self, conn: &u32) -> Option<ConnId> {
        let known = self.known.contains(conn);
        known.then(|| self.conns[*conn as usize])
    }

    fn submit(&mut self, _conn: &u32, tx: u32) -> Result<(), Refused<u32>> {
        let cause = Cause::Disconnected;
        Err(Refused { tx, cause })
    }

    fn request(&mut self, _conn: &u32, _request: Request) {}

    fn note_established(&mut self, _conn: &u32) {}

    fn note_closed(&mut self, _conn: &u32, _cause: Cause, _established: bool) {}

    fn deliver(&mut self, _: &u32, _: RxId, _: &LnetHdr, _: Delivery) -> Result<(), i32> {
        Ok(())
    }

    fn finish(&mut self, _conn: &u32, _tx: u32, _done: Done, _ended: Ended) {}

    fn fail(&mut self, _ni: &(), _tx: u32, _done: Done) {}
}

impl Ids for Fake {
    type Shell = Self;
    type Tag = u64;
    type Reserved = ConnId;
    type Private = Vec<u8>;
    type Request = u32;
    type Pending = Pending;

    fn open(&mut self, link: Link<Self>) -> Result<u64, i32> {
        self.tags += 1;
        self.call("open", self.tags.to_string())?;
        self.links.insert(self.tags, link);
        Ok(self.tags)
    }

    fn adopt(&mut self, request: u32, reserved: ConnId, link: Link<Self>) -> Result<u64, u32> {
        assert_eq!(reserved, NUMBER);
        self.tags += 1;
        let called = self.call("adopt", self.tags.to_string());
        called.map_err(|_| request)?;
        self.links.insert(self.tags, link);
        Ok(self.tags)
    }

    fn disown(&mut self, tag: u64) -> Option<u32> {
        self.do_(format!("disown {tag}"));
        self.links.remove(&tag).map(|_| 1)
    }

    fn link(&mut self, tag: u64) -> Option<&mut Link<Self>> {
        self.links.get_mut(&tag)
    }

    fn find_attempt(&mut self, _peer: &(), _attempt: AttemptId) -> Option<u64> {
        self.links.keys().next().copied()
    }

    fn conn(&self, tag: u64) -> Option<u32> {
        self.made.get(&tag).copied()
    }

    fn destroy(&mut self, tag: u64) {
        self.do_(format!("destroy {tag}"));
        self.links.remove(&tag);
        self.made.remove(&tag);
    }

    fn resolve_addr(&mut self, tag: u64, timeout: Span, again: bool) -> Result<(), i32> {
        assert_eq!(timeout, Span::from_millis(500));
        self.call("resolve_addr", format!("{tag} {again}"))
    }

    fn resolve_route(&mut self, tag: u64, timeout: Span) -> Result<(), i32> {
        assert_eq!(timeout, Span::from_secs(5));
        self.call("resolve_route", tag.to_string())
    }

    fn connect(&mut self, tag: u64, private: &[u8]) -> Result<(), i32> {
        assert_eq!(private.len(), CONN_MSG_SIZE);
        self.call("connect", tag.to_string())
    }

    fn accept(&mut self, tag: u64, private: &[u8]) -> Result<(), i32> {
        assert_eq!(private.len(), CONN_MSG_SIZE);
        self.call("accept", tag.to_string())
    }

    fn reject(&mut self, _request: u32, reject: &Reject) -> Result<(), i32> {
        self.call("reject", format!("{:?}", reject.why))
    }

    fn notify_established(&mut self, conn: &u32) {
        self.do_(format!("notify {conn}"));
    }

    fn disconnect(&mut self, conn: &u32) {
        self.do_(format!("disconnect {conn}"));
    }

    fn tag_of(&self, _conn: &u32) -> u64 {
        1
    }
}

impl Connect for Fake {
    fn shell(&mut self) -> &mut Self {
        self
    }

    fn nid(&self, _peer: &()) -> Nid {
        THEM
    }

    fn info(&self, _peer: &()) -> NiInfo {
        NI
    }

    fn encoding(&self, _peer: &()) -> Encoding {
        ENCODING
    }

    fn find_conn(&mut self, _peer: &(), name: ConnId) -> Option<u32> {
        let at = self.conns.iter().position(|&conn| conn == name)?;
        self.listed.contains(&name).then_some(at as u32)
    }

    fn name_conn(
        &mut self,
        _peer: &(),
        conn: &u32,
        f: impl FnOnce(&mut EngineOf<Self>, Instant, ConnId) -> Claim,
    ) -> (Claim, bool) {
        let name = self.conns[*conn as usize];
        let claim = f(&mut self.peer, self.now, name);
        self.do_(format!("name {conn} {claim:?}"));
        if claim == Claim::Taken {
            self.known.push(*conn);
            if self.fails != "list" {
                self.listed.push(name);
            }
        }
        (claim, self.fails != "list")
    }

    fn forget_conn(
        &mut self,
        _peer: &(),
        name: ConnId,
        f: impl FnOnce(&mut EngineOf<Self>, Instant),
    ) {
        self.do_(format!("forget {}", name.0));
        f(&mut self.peer, self.now);
    }

    fn retire(&mut self, _peer: &()) -> bool {
        self.do_("retire");
        self.peer.retire()
    }

    fn notify_down(&mut self, _peer: &(), _alive: Instant) {
        self.do_("down");
    }

    fn assign(&mut self, _peer: &(), _sending: Sending<Self>) {
        self.do_("assign");
    }

    fn fail(&mut self, _peer: &(), tx: u32, _done: Done) {
        self.do_(format!("fail {tx}"));
    }

    fn reserve(&mut self) -> Result<ConnId, i32> {
        self.call("reserve", String::new())?;
        Ok(NUMBER)
    }

    fn reserved_name(&self, reserved: &ConnId) -> ConnId {
        *reserved
    }

    fn create(&mut self, tag: u64, wanted: &Wanted) -> Result<(u32, Limits), i32> {
        self.call("create", format!("{tag} {:?}", wanted.role))?;
        self.made.insert(tag, self.conns.len() as u32);
        self.conns.push(NUMBER);
        let limits = wanted.limits(&TUNABLES, &CAPS)?;
        let limits = match self.lowered {
            true => Limits::new(&TUNABLES, &CAPS, Version::V2, Some((4, 16))).unwrap(),
            false => limits,
        };
        Ok((self.conns.len() as u32 - 1, limits))
    }

    fn feed(&mut self, conn: &u32, input: ConnInput<'_>) {
        let input = match input {
            ConnInput::Opened(ack) => format!("Opened {}", ack.is_ok()),
            input => format!("{input:?}"),
        };
        self.do_(format!("feed {conn} {input}"));
    }

    fn take_request(&mut self, _conn: &u32, request: Request) -> bool {
        let at = self.requests.iter().position(|&it| it == request);
        at.map(|at| self.requests.remove(at)).is_some()
    }

    fn fail_qp(&mut self, conn: &u32) -> FailedQp {
        self.do_(format!("fail_qp {conn}"));
        self.qp
    }

    fn destroy_qp(&mut self, conn: &u32) {
        self.do_(format!("destroy_qp {conn}"));
    }

    fn kick(&mut self, conn: &u32) {
        self.do_(format!("kick {conn}"));
    }

    fn release(&mut self, conn: &u32) {
        self.do_(format!("release {conn}"));
    }

    fn incoming<'a>(&self, _request: &u32, private: &'a [u8]) -> Incoming<'a> {
        Incoming {
            private,
            addr: Some(THEM.addr()),
            port: 1000,
            privileged: true,
        }
    }

    fn find_ni(&self, listener: u64, nid: Nid) -> Option<((), Found)> {
        assert_eq!(listener, LISTENER);
        let found = Found {
            info: NI,
            on_listener: true,
            in_service: true,
        };
        (nid == US && self.fails != "find_ni").then_some(((), found))
    }

    fn ni_info(&self, _ni: &()) -> NiInfo {
        NI
    }

    fn is_complete(&self, _listener: u64) -> bool {
        true
    }

    fn pending(&self) -> u64 {
        self.pending.get()
    }

    fn pending_of(&self, _peer: &()) -> u32 {
        self.of_peer
    }

    fn hold_pending(&mut self, _peer: &()) -> Pending {
        self.pending.set(self.pending.get() + 1);
        Pending(self.pending.clone())
    }

    fn listener_event(&mut self, tag: u64, event: CmEvent<&[u8]>) {
        self.do_(format!("listener {tag} {event:?}"));
    }

    fn count(&mut self, what: Count) {
        self.do_(format!("{what:?}"));
    }

    fn log(&mut self, _peer: &(), line: Line) {
        self.do_(format!("log {line:?}"));
    }

    fn log_refused(&mut self, _request: &u32, cause: &RefuseCause) {
        self.do_(format!("log {:?}", RefusalKind::from(cause)));
    }
}

#[test]
fn an_attempt_becomes_a_connection() {
    let mut fake = Fake::connecting();
    fake.event(1, CmEvent::AddrResolved);
    assert_eq!(fake.did(), ["resolve_route 1"]);
    fake.event(1, CmEvent::RouteResolved);
    let made = ["create 1 Active", "connect 1", "Sent(ConnReq)"];
    assert_eq!(fake.did(), made);
    // What the connection makes of the CONNACK is its own matter.
    let private = connreq();
    fake.event(1, CmEvent::Established { private });
    let named = ["name 0 Taken", "Received(ConnReq)", "feed 0 Opened true"];
    assert_eq!(fake.did(), named);
    assert_eq!(fake.peer.snapshot().connecting, 1);
    // Once more: the outcome is settled.
    let private = Vec::new();
    fake.event(1, CmEvent::Established { private });
    assert_eq!(fake.did(), ["name 0 Late"]);
}

#[test]
fn a_connack_that_cannot_be_read_is_not_counted() {
    let mut fake = Fake::requesting();
    let private = vec![1, 2, 3];
    fake.event(1, CmEvent::Established { private });
    assert_eq!(fake.did(), ["name 0 Taken", "feed 0 Opened false"]);
}

#[test]
fn the_peer_knows_that_less_was_made() {
    let mut fake = Fake::connecting();
    fake.lowered = true;
    fake.event(1, CmEvent::AddrResolved);
    fake.event(1, CmEvent::RouteResolved);
    assert_eq!(fake.peer.snapshot().offer.queue_depth, 4);
}

#[test]
fn a_peer_without_room_closes_what_it_has_named() {
    let mut fake = Fake::requesting();
    fake.fails = "list";
    let private = connreq();
    fake.event(1, CmEvent::Established { private });
    assert_eq!(fake.did(), ["name 0 Taken", "feed 0 Close(TooMany)"]);
}

/// What follows on a failed attempt that has an id and no connection.
const ABORTED: [&str; 5] = ["AttemptFailed", "log", "destroy 1", "fail 7", "down"];

/// Lines of the log without what they say.
fn brief(did: Vec<String>) -> Vec<String> {
    let brief = |it: String| match it.starts_with("log ") {
        true => "log".to_owned(),
        false => it,
    };
    did.into_iter()
        .map(brief)
        .filter(|it| it != "retire")
        .collect()
}

#[test]
fn each_call_may_fail() {
    let failed = |fails| {
        let mut fake = Fake::new();
        fake.fails = fails;
        let _ = fake.peer.submit(Instant(2), 7);
        Work::peer(()).run(&mut fake);
        fake.event(1, CmEvent::AddrError(-110));
        fake.event(1, CmEvent::AddrResolved);
        fake.event(1, CmEvent::RouteResolved);
        fake
    };
    let with = |before: &[&'static str], after: &[&'static str]| [before, after].concat();
    let start = ["Attempt", "open 1", "resolve_addr 1 false"];
    let lost = [
        "listener 1 AddrError(-110)",
        "listener 1 AddrResolved",
        "listener 1 RouteResolved",
    ];
    let mut fake = failed("open");
    let ended = ["AttemptFailed", "log", "fail 7", "down"];
    let want = with(&["Attempt", "open 1", "log"], &with(&ended, &lost));
    assert_eq!(brief(fake.did()), want);
    let mut fake = failed("resolve_addr");
    let want = with(&with(&start, &["log"]), &with(&ABORTED, &lost));
    assert_eq!(brief(fake.did()), want);
    let start = with(&start, &["resolve_addr 1 true"]);
    let mut fake = failed("resolve_route");
    let want = with(&with(&start, &["resolve_route 1"]), &ABORTED);
    assert_eq!(brief(fake.did()), with(&want, &lost[2..]));
    let start = with(&start, &["resolve_route 1", "create 1 Active"]);
    let mut fake = failed("create");
    assert_eq!(brief(fake.did()), with(&start, &ABORTED));
    // Now there is a connection, which is closed first.
    let mut fake = failed("connect");
    let closing = ["connect 1", "AttemptFailed", "log"];
    let closed = "feed 0 Close(ConnectFailed(-5))";
    let want = with(&with(&start, &closing), &[closed, "fail 7", "down"]);
    assert_eq!(brief(fake.did()), want);
    assert_eq!(fake.peer.snapshot().dying, 1);
}

#[test]
fn an_address_is_resolved_again() {
    let mut fake = Fake::connecting();
    fake.event(1, CmEvent::AddrError(-110));
    assert_eq!(fake.did(), ["resolve_addr 1 true"]);
    fake.fails = "resolve_addr";
    fake.event(1, CmEvent::AddrError(-110));
    assert_eq!(brief(fake.did())[1..], ABORTED);
}

#[test]
fn the_cm_says_why_not() {
    let mut fake = Fake::connecting();
    fake.event(1, CmEvent::AddrError(-19));
    let line = "log CmError { what: \"no address\", status: -19 }";
    assert_eq!(fake.did()[0], line);
    // What the peer says is logged, and that the attempt has failed is not.
    let mut fake = Fake::requesting();
    let reject = NI.reject(Version::V2, RejectReason::NoResources);
    let mut private = vec![0; 24];
    reject.emit(Endian::NATIVE, &mut private).unwrap();
    fake.event(
        1,
        CmEvent::Rejected {
            reason: 28,
            private,
        },
    );
    let did = fake.did();
    assert_eq!(did[0], "log Rejected(NoResources)");
    assert_eq!(did[1..3], ["AttemptFailed", "feed 0 Close(Rejected)"]);
    // Of a CM that says nothing else.
    let mut fake = Fake::requesting();
    let private = Vec::new();
    fake.event(1, CmEvent::Rejected { reason: 8, private });
    let line = "log CmError { what: \"rejected\", status: 8 }";
    assert_eq!(fake.did()[0], line);
}

#[test]
fn an_event_of_a_connection_is_told_to_whom_it_concerns() {
    // A connection that the peer does not know yet is told of the device alone.
    let mut fake = Fake::requesting();
    fake.event(1, CmEvent::AddrChange);
    assert!(fake.did().is_empty());
    fake.event(1, CmEvent::TimewaitExit);
    assert!(fake.did().is_empty());
    fake.event(1, CmEvent::DeviceRemoval);
    assert_eq!(fake.did()[0], "feed 0 Close(DeviceGone)");
    // One that it knows, of everything.
    let mut fake = Fake::requesting();
    let private = connreq();
    fake.event(1, CmEvent::Established { private });
    fake.did();
    fake.event(1, CmEvent::AddrChange);
    assert_eq!(fake.did(), ["log Moved", "feed 0 Disconnected"]);
    fake.event(1, CmEvent::Disconnected);
    assert_eq!(fake.did(), ["feed 0 Disconnected"]);
}

#[test]
fn what_cannot_be_is_counted() {
    let mut fake = Fake::connecting();
    let private = Vec::new();
    fake.event(1, CmEvent::Established { private });
    assert_eq!(fake.did(), ["Unexpected"]);
    fake.event(77, CmEvent::AddrChange);
    assert_eq!(fake.did(), ["listener 77 AddrChange"]);
    let mut fake = Fake::accepted();
    fake.event(1, CmEvent::RouteResolved);
    assert_eq!(fake.did(), ["Unexpected"]);
    fake.made.clear();
    fake.event(1, CmEvent::Disconnected);
    assert_eq!(fake.did(), ["Unexpected"]);
}

/// What is done for every request that can be read.
const READ: [&str; 2] = ["Request", "Received(ConnReq)"];

#[test]
fn a_request_is_accepted() {
    let mut fake = Fake::new();
    fake.request(&connreq());
    let want = [
        "reserve",
        "find_peer",
        "adopt 1",
        "create 1 Passive",
        "name 0 Taken",
        "accept 1",
        "Sent(ConnAck)",
    ];
    assert_eq!(fake.did(), [&READ[..], &want].concat());
    assert_eq!(fake.pending.get(), 1);
    assert_eq!(fake.peer.snapshot().accepting, 1);
    // It counts until it is established.
    fake.event(1, CmEvent::TimewaitExit);
    assert!(fake.did().is_empty());
    fake.event(1, CmEvent::AddrChange);
    assert_eq!(fake.did(), ["log Moved", "feed 0 Disconnected"]);
    assert_eq!(fake.pending.get(), 1);
    let private = Vec::new();
    fake.event(1, CmEvent::Established { private });
    assert_eq!(fake.did(), ["feed 0 Established"]);
    assert_eq!(fake.pending.get(), 0);
}

/// What a refusal is.
fn refused(kind: RefusalKind, why: RejectReason) -> Vec<String> {
    vec![
        format!("Refused({kind:?})"),
        format!("log {kind:?}"),
        format!("reject {why:?}"),
    ]
}

fn read_and(what: &[&str], refusal: Vec<String>) -> Vec<String> {
    let before = READ.iter().chain(what).map(ToString::to_string);
    before.chain(refusal).collect()
}

#[test]
fn a_request_is_refused_and_the_requester_hears_why() {
    let no_room = refused(RefusalKind::NoResources, RejectReason::NoResources);
    let pending = refused(RefusalKind::Pending, RejectReason::NoResources);
    let bad = refused(RefusalKind::Bad, RejectReason::Fatal);
    let mut fake = Fake::new();
    fake.request(&[1, 2, 3]);
    assert_eq!(fake.did()[1..], bad);
    fake.fails = "find_ni";
    fake.request(&connreq());
    assert_eq!(fake.did(), read_and(&[], bad));
    fake.fails = "reserve";
    fake.request(&connreq());
    assert_eq!(fake.did(), read_and(&["reserve"], no_room.clone()));
    fake.fails = "find_peer";
    fake.request(&connreq());
    let want = read_and(&["reserve", "find_peer"], no_room.clone());
    assert_eq!(fake.did(), want);
    // Too many wait: of all peers, of this one.
    fake.fails = "";
    fake.pending.set(MAX_PENDING);
    fake.request(&connreq());
    assert_eq!(fake.did(), read_and(&[], pending.clone()));
    fake.pending.set(0);
    fake.of_peer = MAX_PENDING_OF_PEER;
    fake.request(&connreq());
    let want = read_and(&["reserve", "find_peer"], pending);
    assert_eq!(fake.did(), want);
    // The peer does not want it. The requester may have gone when it is told.
    fake.of_peer = 0;
    fake.fails = "reject";
    fake.peer.delete(Cause::Deleted);
    fake.request(&connreq());
    let mut want = read_and(&["reserve", "find_peer"], no_room);
    want.push("Unexpected".into());
    assert_eq!(brief(fake.did()), brief(want));
    assert!(fake.links.is_empty());
    assert_eq!(fake.pending.get(), 0);
}

#[test]
fn a_request_that_cannot_be_served_is_forgotten_by_the_peer() {
    let before = ["reserve", "find_peer", "adopt 1"];
    let made = [&before[..], &["create 1 Passive"]].concat();
    let no_room = refused(RefusalKind::NoResources, RejectReason::NoResources);
    for (fails, want) in [
        ("adopt", before.to_vec()),
        ("create", [&made[..], &["disown 1"]].concat()),
    ] {
        let mut fake = Fake::new();
        fake.fails = fails;
        fake.request(&connreq());
        let want = read_and(&want, no_room.clone());
        assert_eq!(brief(fake.did()), brief(want));
        assert!(fake.links.is_empty());
        assert!(fake.peer.is_idle());
        assert_eq!(fake.pending.get(), 0);
    }
    // The connection is there, and ends by itself.
    let failed = ["log CannotAccept(-5)", "feed 0 Failed(ConnectFailed(-5))"];
    let full = ["log CannotAccept(-12)", "feed 0 Failed(ConnectFailed(-12))"];
    let named = [&made[..], &["name 0 Taken"]].concat();
    for (fails, want) in [
        ("accept", [&named[..], &["accept 1"], &failed].concat()),
        ("list", [&named[..], &full].concat()),
    ] {
        let mut fake = Fake::new();
        fake.fails = fails;
        fake.request(&connreq());
        assert_eq!(fake.did(), read_and(&want, Vec::new()));
        assert_eq!(fake.links.len(), 1);
    }
}

#[test]
fn requests_are_served_in_order() {
    let mut fake = Fake::accepted();
    fake.serve(&[Request::Disconnect, Request::NotifyEstablished]);
    let want = ["notify 0", "disconnect 0", "fail_qp 0", "feed 0 QpError"];
    assert_eq!(fake.did(), [&want[..], &["kick 0"]].concat());
    fake.qp = FailedQp::Gone;
    fake.serve(&[Request::Disconnect]);
    let want = ["disconnect 0", "fail_qp 0", "feed 0 QpDestroyed"];
    assert_eq!(fake.did(), want);
    fake.qp = FailedQp::Destroyed;
    fake.serve(&[Request::Disconnect]);
    let want = [
        "disconnect 0",
        "fail_qp 0",
        "ForcedDrain",
        "feed 0 QpDestroyed",
    ];
    assert_eq!(fake.did(), want);
    fake.serve(&[Request::DestroyQp]);
    assert_eq!(fake.did(), ["destroy_qp 0", "feed 0 QpDestroyed"]);
}

#[test]
fn a_drained_connection_is_taken_down_in_order() {
    let mut fake = Fake::accepted();
    fake.serve(&[Request::TakeDown]);
    let want = ["destroy_qp 0", "destroy 1", "release 0", "forget 50"];
    assert_eq!(brief(fake.did()), want);
    assert!(fake.peer.is_idle());
    // Of an attempt: the abort comes first, and the id is gone only with the connection.
    let mut fake = Fake::requesting();
    let due = Instant(Span::from_secs(100).0);
    fake.now = due;
    assert!(sweep_peer(&mut fake.peer, TUNABLES.live(), due));
    assert!(!sweep_peer(&mut fake.peer, TUNABLES.live(), due));
    fake.serve(&[Request::TakeDown]);
    let want = ["AttemptFailed", "log", "feed 0 Close(ConnectTimeout)"];
    let down = ["fail 7", "down", "destroy_qp 0", "destroy 1", "release 0"];
    assert_eq!(brief(fake.did()), [&want[..], &down].concat());
    assert!(fake.peer.is_idle());
}

#[test]
fn a_peer_that_is_taken_down_closes_what_it_has() {
    let mut fake = Fake::accepted();
    let info = EstInfo {
        role: Role::Passive,
        version: Version::V2,
        queue_depth: 8,
        max_frags: 16,
        peer_stamp: Stamp(3),
    };
    let _ = fake.peer.submit(Instant(2), 9);
    let name = ConnId(50);
    fake.peer
        .handle_established(Instant(2), name, &info)
        .unwrap();
    fake.peer.delete(Cause::Deleted);
    Work::peer(()).run(&mut fake);
    assert_eq!(fake.did(), ["feed 0 Close(Deleted)", "fail 9"]);
    // One that is not in its list any more is left alone.
    let mut fake = Fake::accepted();
    fake.listed.clear();
    fake.peer.delete(Cause::Deleted);
    Work::peer(()).run(&mut fake);
    assert!(fake.did().is_empty());
}

#[test]
fn a_message_that_waited_goes_on() {
    let mut fake = Fake::accepted();
    let _ = fake.peer.submit(Instant(2), 9);
    let info = EstInfo {
        role: Role::Passive,
        version: Version::V2,
        queue_depth: 8,
        max_frags: 16,
        peer_stamp: Stamp(3),
    };
    let name = ConnId(50);
    fake.peer
        .handle_established(Instant(2), name, &info)
        .unwrap();
    Work::peer(()).run(&mut fake);
    assert_eq!(fake.did(), ["assign"]);
}

#[test]
fn nothing_can_be_offered() {
    let wanted = Wanted {
        role: Role::Active,
        ident: ko2iblnd_host::wire::Identity {
            peer: THEM,
            peer_stamp: Stamp::UNKNOWN,
            local: US,
            local_stamp: Stamp(17),
        },
        version: Version::V2,
        offer: Offer {
            queue_depth: 0,
            max_frags: 16,
        },
    };
    assert_eq!(wanted.limits(&TUNABLES, &CAPS), Err(-22));
}
