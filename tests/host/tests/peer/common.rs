// SPDX-License-Identifier: GPL-2.0

//! A peer on a bench: storage, names, and a record of what it asked for.

use ko2iblnd_host::proto::{
    conn::{
        EstInfo,
        Role, //
    },
    passive::{
        ConnReq,
        NiInfo, //
    },
    peer::{
        AttemptEvent,
        Claim,
        Offer,
        Peer,
        PeerAction,
        PeerConfig,
        PeerSubmit,
        Ticket,
        TieBreak,
        CM_REJ_CONSUMER_DEFINED, //
    },
    AttemptId,
    Cause,
    ConnId,
    Done,
    Instant,
    Span,
    Storage, //
};
use ko2iblnd_host::wire::{
    ConnParams,
    Endian,
    Nid,
    Reject,
    RejectReason,
    Stamp,
    Version, //
};
use std::convert::Infallible;

/// Storage on the heap.
pub(crate) struct Heap;

impl Storage for Heap {
    type Buf<U> = Vec<U>;
    type Error = Infallible;

    fn alloc<U>(&mut self, n: usize, init: impl FnMut(usize) -> U) -> Result<Vec<U>, Infallible> {
        Ok((0..n).map(init).collect())
    }
}

/// A message that must be consumed: it cannot be copied by mistake.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tx(pub(crate) u32);

pub(crate) const US: Nid = Nid::o2ib(0, 0xc0a8_0105);
pub(crate) const THEM: Nid = Nid::o2ib(0, 0xc0a8_0106);
pub(crate) const OUR_STAMP: Stamp = Stamp(0x0005_f0a1_b2c3_d4e5);
pub(crate) const THEIR_STAMP: Stamp = Stamp(0x0005_f0a1_b2c3_d4f6);
pub(crate) const CONNECT_TIMEOUT: Span = Span::from_millis(12_500);

pub(crate) fn ni() -> NiInfo {
    NiInfo {
        nid: US,
        stamp: OUR_STAMP,
        peer_credits: 128,
    }
}

pub(crate) fn config(conns_per_peer: u8) -> PeerConfig {
    PeerConfig {
        peer: THEM,
        ni: ni(),
        max_frags: 257,
        conns_per_peer,
        connect_timeout: CONNECT_TIMEOUT,
        max_waiting: 64,
        max_conns: 32,
        tie_break: TieBreak::Hash,
    }
}

pub(crate) fn peer(config: PeerConfig, now: Instant) -> Peer<Heap, Tx> {
    match Peer::new(&mut Heap, config, now) {
        Ok(peer) => peer,
        Err(never) => match never {},
    }
}

pub(crate) fn connreq() -> ConnReq {
    ConnReq {
        peer: THEM,
        stamp: THEIR_STAMP,
        version: Version::V2,
        queue_depth: 128,
        max_frags: 257,
    }
}

pub(crate) fn est() -> EstInfo {
    EstInfo {
        role: Role::Active,
        version: Version::V2,
        queue_depth: 128,
        max_frags: 257,
        peer_stamp: THEIR_STAMP,
    }
}

/// What a peer asked for, without the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Start(AttemptId, Version, Offer, Stamp),
    Abort(AttemptId, Cause),
    Assign(ConnId, u32),
    Fail(u32, Done),
    Close(ConnId, Cause),
    Down(Instant),
    Idle,
}

/// One peer and what happens to it.
pub(crate) struct Bench {
    pub(crate) now: Instant,
    pub(crate) peer: Peer<Heap, Tx>,
    next_tx: u32,
    pub(crate) tickets: Vec<(u32, Ticket)>,
}

pub(crate) fn secs(n: u64) -> Span {
    Span::from_secs(n)
}

impl Bench {
    pub(crate) fn new(config: PeerConfig) -> Self {
        let now = Instant(1_000_000_000_000);
        Self {
            now,
            peer: peer(config, now),
            next_tx: 0,
            tickets: Vec::new(),
        }
    }

    /// Everything the peer asks for.
    pub(crate) fn acts(&mut self) -> Vec<Act> {
        let mut acts = Vec::new();
        while let Some(action) = self.peer.poll_action() {
            acts.push(match action {
                PeerAction::StartAttempt {
                    id,
                    version,
                    offer,
                    dst_stamp,
                } => Act::Start(id, version, offer, dst_stamp),
                PeerAction::AbortAttempt { id, cause } => Act::Abort(id, cause),
                PeerAction::Assign { conn, tx, ticket } => {
                    self.tickets.push((tx.0, ticket));
                    Act::Assign(conn, tx.0)
                }
                PeerAction::Fail { tx, done } => Act::Fail(tx.0, done),
                PeerAction::CloseConn { conn, cause } => Act::Close(conn, cause),
                PeerAction::NotifyDown { alive } => Act::Down(alive),
                PeerAction::Idle => Act::Idle,
            });
        }
        assert!(self.peer.poll_action().is_none());
        acts
    }

    /// Ids of the attempts that are to be started; nothing else may be asked for.
    pub(crate) fn starts(&mut self) -> Vec<AttemptId> {
        self.acts()
            .iter()
            .map(|act| match act {
                Act::Start(id, ..) => *id,
                other => panic!("{other:?} in place of an attempt"),
            })
            .collect()
    }

    /// The id of the one attempt that is to be started.
    pub(crate) fn start(&mut self) -> AttemptId {
        let ids = self.starts();
        assert_eq!(ids.len(), 1);
        ids[0]
    }

    /// Submits the next message, which must wait.
    pub(crate) fn queue(&mut self) -> u32 {
        let tx = self.next_tx;
        self.next_tx += 1;
        match self.peer.submit(self.now, Tx(tx)) {
            PeerSubmit::Queued => tx,
            other => panic!("{other:?} in place of waiting"),
        }
    }

    /// Submits the next message, which must get a connection.
    pub(crate) fn send(&mut self) -> (ConnId, Tx, Ticket) {
        let tx = self.next_tx;
        self.next_tx += 1;
        match self.peer.submit(self.now, Tx(tx)) {
            PeerSubmit::Use { conn, tx, ticket } => (conn, tx, ticket),
            other => panic!("{other:?} in place of a connection"),
        }
    }

    pub(crate) fn event(&mut self, id: AttemptId, event: AttemptEvent<'_>) -> Claim {
        self.peer.handle_attempt(self.now, id, event)
    }

    /// An event that must count.
    pub(crate) fn ok(&mut self, id: AttemptId, event: AttemptEvent<'_>) {
        assert_eq!(self.event(id, event), Claim::Taken, "{event:?}");
    }

    /// An event that must not count, and change nothing.
    pub(crate) fn late(&mut self, id: AttemptId, event: AttemptEvent<'_>) {
        let before = self.peer.snapshot();
        let mut expected = before;
        expected.counters.late += 1;
        assert_eq!(self.event(id, event), Claim::Late, "{event:?}");
        assert_eq!(self.peer.snapshot(), expected, "{event:?}");
        let acts = self.acts();
        assert!(
            acts.is_empty() || acts == [Act::Idle],
            "{event:?}: {acts:?}"
        );
    }

    pub(crate) fn reject(&mut self, id: AttemptId, why: RejectReason) {
        let private = reject_bytes(Version::V2, why, THEIR_STAMP, 128, 257);
        self.ok(id, rejected(&private));
    }

    /// Brings an attempt up to an established connection.
    pub(crate) fn establish(&mut self, id: AttemptId, conn: ConnId) {
        self.ok(id, AttemptEvent::AddrResolved);
        self.ok(id, AttemptEvent::RouteResolved);
        self.ok(id, AttemptEvent::Connecting);
        self.ok(id, AttemptEvent::Connected(conn));
        assert_eq!(self.peer.handle_established(self.now, conn, &est()), Ok(()));
    }

    /// The same for one whose request is on its way.
    pub(crate) fn establish_now(&mut self, id: AttemptId, conn: ConnId) {
        self.ok(id, AttemptEvent::Connected(conn));
        assert_eq!(self.peer.handle_established(self.now, conn, &est()), Ok(()));
        self.acts();
    }

    pub(crate) fn pass(&mut self, span: Span) {
        self.now = self.now.after(span);
    }

    /// Lets time pass as far as the peer's next deadline, and tells it.
    pub(crate) fn pass_to_timeout(&mut self) {
        let at = self.peer.poll_timeout().expect("a deadline");
        self.now = self.now.max(at);
        self.peer.handle_timeout(self.now);
        assert_ne!(self.peer.poll_timeout(), Some(at), "due for ever");
    }

    pub(crate) fn gone(&mut self, conn: ConnId, cause: Cause) {
        self.peer.handle_closed(self.now, conn, cause, self.now);
        self.peer.handle_gone(self.now, conn);
    }
}

/// Private data of a reject, as long as InfiniBand says it is.
pub(crate) fn reject_bytes(
    version: Version,
    why: RejectReason,
    stamp: Stamp,
    queue_depth: u16,
    max_frags: u16,
) -> Vec<u8> {
    let reject = Reject {
        version: version.to_wire(),
        why,
        stamp,
        params: Some(ConnParams {
            queue_depth,
            max_frags,
            max_msg_size: 4096,
        }),
    };
    let mut private = vec![0; 148];
    reject.emit(Endian::NATIVE, &mut private).unwrap();
    private
}

pub(crate) fn rejected(private: &[u8]) -> AttemptEvent<'_> {
    AttemptEvent::Rejected {
        cm_reason: CM_REJ_CONSUMER_DEFINED,
        private,
    }
}
