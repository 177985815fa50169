// SPDX-License-Identifier: GPL-2.0

//! How a message gets ready, and what happens until a connection has it.

use ko2iblnd_host::driver::exec::{act, Step};
use ko2iblnd_host::driver::form::Request as Form;
use ko2iblnd_host::driver::send::{prepare, Outgoing, Sending};
use ko2iblnd_host::driver::shell::{Ended, Request, Shell};
use ko2iblnd_host::proto::conn::{Action, Delivery, EstInfo, Role, Sink, Submit};
use ko2iblnd_host::proto::passive::NiInfo;
use ko2iblnd_host::proto::peer::{Peer, PeerAction, PeerConfig, PeerSubmit};
use ko2iblnd_host::proto::{Cause, ConnId, Done, Health, Instant, NiTunables, Refused, RxId, Span};
use ko2iblnd_host::sim::Heap;
use ko2iblnd_host::wire::{LnetHdr, LnetMsgType, Nid, Stamp, Version};

const NID: Nid = Nid::o2ib(0, 2);

/// Peers by number; what was done with them.
#[derive(Default)]
struct Fake {
    peers: Vec<Peer<Heap, u32>>,
    /// A new peer is being deleted.
    deleted: bool,
    no_memory: bool,
    unknown: bool,
    /// What LNet says about a message.
    parse: i32,
    did: Vec<String>,
}

fn peer() -> Peer<Heap, u32> {
    let tunables = NiTunables {
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
    let ni = NiInfo {
        nid: Nid::o2ib(0, 1),
        stamp: Stamp(1),
        peer_credits: 8,
    };
    let Ok(peer) = Peer::new(&mut Heap, PeerConfig::new(NID, ni, &tunables), Instant(1));
    peer
}

impl Fake {
    fn did(&mut self) -> Vec<String> {
        std::mem::take(&mut self.did)
    }

    fn run(&mut self, sending: Sending<Self>) {
        let mut next = Some(sending);
        for _ in 0..100 {
            let Some(sending) = next else { return };
            next = sending.step(self, &(), NID);
        }
        panic!("it goes round and round");
    }
}

impl Shell for Fake {
    type Storage = Heap;
    type Tx = u32;
    type Ni = ();
    type Peer = usize;
    type Conn = u64;

    fn find_peer(&mut self, _ni: &(), nid: Nid) -> Result<usize, Cause> {
        assert_eq!(nid, NID);
        if self.no_memory {
            return Err(Cause::NoMemory);
        }
        let mut peer = peer();
        if self.deleted {
            peer.delete(Cause::Deleted);
        }
        self.peers.push(peer);
        Ok(self.peers.len() - 1)
    }

    fn forget_peer(&mut self, peer: &usize) {
        self.did.push(format!("forget {peer}"));
    }

    fn peer<R>(&mut self, peer: &usize, f: impl FnOnce(&mut Peer<Heap, u32>, Instant) -> R) -> R {
        f(&mut self.peers[*peer], Instant(2))
    }

    fn place(
        &mut self,
        peer: &usize,
        f: impl FnOnce(&mut Peer<Heap, u32>, Instant) -> PeerSubmit<u32>,
    ) -> (PeerSubmit<u32>, Option<u64>) {
        let placed = self.peer(peer, f);
        let conn = match &placed {
            // That with number 9 has gone.
            PeerSubmit::Use { conn, .. } => (conn.0 != 9).then_some(conn.0),
            _ => None,
        };
        (placed, conn)
    }

    fn kick_peer(&mut self, peer: &usize) {
        self.did.push(format!("kick {peer}"));
    }

    fn peer_of(&self, _conn: &u64) -> usize {
        0
    }

    fn name_of(&self, conn: &u64) -> Option<ConnId> {
        (!self.unknown).then_some(ConnId(*conn))
    }

    fn submit(&mut self, conn: &u64, tx: u32) -> Result<(), Refused<u32>> {
        self.did.push(format!("submit {conn}"));
        match conn {
            5 => Ok(()),
            _ => Err(Refused {
                tx,
                cause: Cause::Disconnected,
            }),
        }
    }

    fn request(&mut self, _conn: &u64, request: Request) {
        self.did.push(format!("{request:?}"));
    }

    fn note_established(&mut self, _conn: &u64) {
        self.did.push("established".into());
    }

    fn note_closed(&mut self, _conn: &u64, cause: Cause, _established: bool) {
        self.did.push(format!("closed {cause:?}"));
    }

    fn deliver(
        &mut self,
        _conn: &u64,
        rx: RxId,
        _hdr: &LnetHdr,
        _kind: Delivery,
    ) -> Result<(), i32> {
        self.did.push(format!("deliver {}", rx.0));
        match self.parse {
            0 => Ok(()),
            errno => Err(errno),
        }
    }

    fn finish(&mut self, _conn: &u64, tx: u32, done: Done, ended: Ended) {
        self.did
            .push(format!("finish {tx} {} {ended:?}", done.status));
    }

    fn fail(&mut self, _ni: &(), tx: u32, done: Done) {
        let Done { status, health, .. } = done;
        self.did.push(format!("fail {tx} {status} {health:?}"));
    }
}

#[test]
fn a_message_without_a_connection_waits() {
    let mut fake = Fake::default();
    fake.run(Sending::new(1));
    assert_eq!(fake.did(), ["kick 0"]);
    let action = fake.peers[0].poll_action();
    assert!(matches!(action, Some(PeerAction::StartAttempt { .. })));
}

#[test]
fn a_peer_that_is_deleted_makes_room_for_another() {
    let mut fake = Fake {
        deleted: true,
        ..Fake::default()
    };
    fake.run(Sending::new(1));
    let Done { status, health, .. } = Cause::Deleted.outcome_waiting().into();
    let last = format!("fail 1 {status} {health:?}");
    let mut want: Vec<String> = Vec::new();
    for n in 0..3 {
        want.extend([format!("kick {n}"), format!("forget {n}")]);
    }
    want.extend(["kick 3".into(), last]);
    assert_eq!(fake.did(), want);
}

#[test]
fn a_message_fails_without_a_peer() {
    let mut fake = Fake {
        no_memory: true,
        ..Fake::default()
    };
    fake.run(Sending::new(1));
    assert_eq!(fake.did(), ["fail 1 -113 LocalError"]);
    assert_eq!(Health::LocalError as u8, 5);
}

/// A ticket, which only a peer makes.
fn ticket(fake: &mut Fake) -> (usize, ko2iblnd_host::proto::peer::Ticket) {
    let id = ConnId(5);
    let req = ko2iblnd_host::proto::passive::ConnReq {
        peer: NID,
        stamp: Stamp(3),
        version: Version::V2,
        queue_depth: 8,
        max_frags: 16,
    };
    let mut peer = peer();
    let _ = peer.handle_connreq(Instant(1), id, &req);
    let info = EstInfo {
        role: Role::Passive,
        version: Version::V2,
        queue_depth: 8,
        max_frags: 16,
        peer_stamp: Stamp(3),
    };
    peer.handle_established(Instant(1), id, &info).unwrap();
    let PeerSubmit::Use { ticket, .. } = peer.submit(Instant(1), 0) else {
        panic!("not placed");
    };
    fake.peers.push(peer);
    (0, ticket)
}

#[test]
fn an_assigned_message_goes_to_its_connection_or_back() {
    let mut fake = Fake::default();
    let (at, ticket) = ticket(&mut fake);
    fake.run(Sending::assigned(at, ConnId(5), 1, ticket));
    assert_eq!(fake.did(), ["submit 5"]);
    // One that refuses, and one that has gone: the peer names another.
    for (id, did) in [(6, &["submit 6", "submit 5"][..]), (9, &["submit 5"])] {
        fake.run(Sending::assigned(at, ConnId(id), 1, ticket));
        assert_eq!(fake.did(), did);
    }
    // Of a peer that is deleted: it fails, and no new peer is made for it.
    fake.peers[at].delete(Cause::Deleted);
    fake.run(Sending::assigned(at, ConnId(9), 1, ticket));
    let Done { status, health, .. } = Cause::Deleted.outcome_waiting().into();
    assert_eq!(
        fake.did(),
        ["kick 0".into(), format!("fail 1 {status} {health:?}")]
    );
}

#[test]
fn actions_lead_to_what_they_say() {
    let mut fake = Fake::default();
    let (_, _) = ticket(&mut fake);
    let done = Done::OK;
    let finish = [
        (Action::Finish { tx: 4, done }, "finish 4 0 Clean"),
        (
            Action::FinishAfterDrain { tx: 4, done },
            "finish 4 0 Drained",
        ),
        (Action::NotifyEstablished, "NotifyEstablished"),
        (
            Action::Disconnect {
                cause: Cause::Deleted,
            },
            "Disconnect",
        ),
        (Action::DestroyQp, "DestroyQp"),
        (Action::Drained { forced: false }, "TakeDown"),
    ];
    for (action, did) in finish {
        assert_eq!(act(&mut fake, &5, action), None);
        assert_eq!(fake.did(), [did]);
    }
}

#[test]
fn a_refused_message_is_told_to_the_connection() {
    let deliver = || Action::Deliver {
        rx: RxId(3),
        hdr: LnetHdr::from_bytes(&[0; 72]),
        kind: Delivery::PutReq,
    };
    let mut fake = Fake::default();
    assert_eq!(act(&mut fake, &5, deliver()), None);
    fake.parse = -71;
    let refused = Step::Refused {
        rx: RxId(3),
        status: -71,
    };
    assert_eq!(act(&mut fake, &5, deliver()), Some(refused));
}

#[test]
fn the_peer_hears_of_beginning_and_end() {
    let established = |info| Action::Established(info);
    let info = EstInfo {
        role: Role::Passive,
        version: Version::V2,
        queue_depth: 8,
        max_frags: 16,
        peer_stamp: Stamp(3),
    };
    let mut fake = Fake::default();
    ticket(&mut fake);
    assert_eq!(act(&mut fake, &5, established(info)), None);
    assert_eq!(fake.did(), ["established", "kick 0"]);
    // The peer does not know it, or it is not named yet.
    let unwanted = Some(Step::Close(Cause::PeerGone));
    assert_eq!(act(&mut fake, &6, established(info)), unwanted);
    assert_eq!(fake.did(), ["established", "kick 0"]);
    fake.unknown = true;
    assert_eq!(act(&mut fake, &5, established(info)), unwanted);
    assert_eq!(fake.did(), ["established"]);
    let closed = || Action::Closed {
        cause: Cause::Timeout,
        alive: Instant(1),
        established: true,
    };
    assert_eq!(act(&mut fake, &5, closed()), None);
    assert_eq!(fake.did(), ["closed Timeout"]);
    fake.unknown = false;
    assert_eq!(fake.peers[0].snapshot().up, 1);
    assert_eq!(act(&mut fake, &5, closed()), None);
    assert_eq!(fake.did(), ["closed Timeout", "kick 0"]);
    assert_eq!(fake.peers[0].snapshot().up, 0);
}

/// How the memory of a message behaves, and what was done with it.
#[derive(Default)]
struct Memory {
    errno: i32,
    no_reply: bool,
    did: Vec<String>,
}

impl Memory {
    fn result(&mut self, did: String) -> Result<(), i32> {
        self.did.push(did);
        match self.errno {
            0 => Ok(()),
            errno => Err(errno),
        }
    }
}

const SINK: Sink = Sink {
    key: 1,
    addr: 2,
    nob: 3,
};

impl Outgoing for Memory {
    fn copy_in(&mut self, len: u32) -> Result<(), i32> {
        self.result(format!("copy {len}"))
    }

    fn map_source(&mut self) -> Result<(), i32> {
        self.result("source".into())
    }

    fn map_sink(&mut self) -> Result<Sink, i32> {
        self.result("sink".into()).map(|()| SINK)
    }

    fn make_reply(&mut self) -> bool {
        self.did.push("reply".into());
        !self.no_reply
    }
}

#[test]
fn memory_is_made_ready_for_the_form() {
    let hdr = LnetHdr::from_bytes(&[0; 72]);
    let form = |kind, len| Form {
        kind,
        payload: len,
        md_len: len,
        gpu: false,
        routing: false,
        to_router: false,
    };
    let get = Submit::Get { hdr, sink: SINK };
    let cases = [
        (
            LnetMsgType::Put,
            10,
            Submit::Immediate { hdr, payload: 10 },
            &["copy 10"][..],
        ),
        (
            LnetMsgType::Put,
            5000,
            Submit::Put { hdr, len: 5000 },
            &["source"],
        ),
        (
            LnetMsgType::Get,
            10,
            Submit::Immediate { hdr, payload: 0 },
            &["copy 0"],
        ),
        (LnetMsgType::Get, 5000, get, &["sink", "reply"]),
    ];
    for (kind, len, want, did) in cases {
        let mut memory = Memory::default();
        assert_eq!(prepare(&mut memory, &form(kind, len), hdr), Ok(want));
        assert_eq!(memory.did, did);
        // What fails is what LNet is told, and nothing is done after it.
        let mut memory = Memory {
            errno: -14,
            ..Memory::default()
        };
        assert_eq!(prepare(&mut memory, &form(kind, len), hdr), Err(-14));
        assert_eq!(memory.did, did[..1]);
    }
    let mut memory = Memory {
        no_reply: true,
        ..Memory::default()
    };
    assert_eq!(
        prepare(&mut memory, &form(LnetMsgType::Get, 5000), hdr),
        Err(-5)
    );
    let hello = form(LnetMsgType::Hello, 0);
    assert_eq!(prepare(&mut memory, &hello, hdr), Err(-22));
}
