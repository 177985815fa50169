// SPDX-License-Identifier: GPL-2.0

//! What connection work needs done: two traits, implemented by the driver's connection daemon and
//! by the simulator.
//!
//! [`Ids`] is the connection manager and the table of its ids, [`Connect`] everything else. An id
//! and its [`Link`] belong to the thread that does the work for their peer, so they have no lock;
//! what another thread may change meanwhile is under the lock of a peer or of a connection, and
//! each function here that says so takes that lock and releases it. Errors are negative errnos.
//! All of it may sleep.

use super::super::{
    admission::{
        Found,
        RefusalKind,
        Request as Incoming, //
    },
    cm::{
        CmEvent,
        ConnInput, //
    },
    handshake::{
        Encoding,
        Proposal, //
    },
    send::Sending,
    shell::{
        Request,
        Shell, //
    },
};
use crate::{
    proto::{
        conn::Role,
        errno,
        passive::{
            NiInfo,
            RefuseCause, //
        },
        peer::{
            Claim,
            Offer,
            Peer, //
        },
        AttemptId,
        Cause,
        ConnId,
        DeviceCaps,
        Done,
        Instant,
        Limits,
        NiTunables,
        Span, //
    },
    wire::{
        Identity,
        MsgType,
        Nid,
        Reject,
        RejectReason,
        Version, //
    },
};

/// A peer of [`Ids`].
pub type PeerOf<C> = <<C as Ids>::Shell as Shell>::Peer;
/// A connection of [`Ids`].
pub type ConnOf<C> = <<C as Ids>::Shell as Shell>::Conn;
/// An NI of [`Ids`].
pub type NiOf<C> = <<C as Ids>::Shell as Shell>::Ni;
/// A transmit descriptor of [`Ids`].
pub type TxOf<C> = <<C as Ids>::Shell as Shell>::Tx;
/// The engine of a peer of [`Ids`].
pub type EngineOf<C> = Peer<<<C as Ids>::Shell as Shell>::Storage, TxOf<C>>;

/// An attempt of ours, and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its name.
    pub attempt: AttemptId,
    /// What it says.
    pub proposal: Proposal,
}

/// What a CM id is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An attempt of ours.
    Active(Plan),
    /// A connection that the peer asked for.
    Passive,
}

/// What belongs to a CM id.
pub struct Link<C: Ids> {
    /// What the id is for.
    pub purpose: Purpose,
    /// Of [`Purpose::Passive`], until it is established.
    pub pending: Option<C::Pending>,
    /// Its peer. Dropped after the id, because a callback may still run.
    pub peer: PeerOf<C>,
}

/// What a connection is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Our side of it.
    pub role: Role,
    /// Its ends.
    pub ident: Identity,
    /// Version.
    pub version: Version,
    /// Queue depth and fragments not to be exceeded.
    pub offer: Offer,
}

impl Wanted {
    /// What the connection is sized by.
    ///
    /// # Errors
    ///
    /// `EINVAL` when nothing can be offered.
    pub fn limits(&self, tunables: &NiTunables, caps: &DeviceCaps) -> Result<Limits, i32> {
        let offer = Some((self.offer.queue_depth, self.offer.max_frags));
        Limits::new(tunables, caps, self.version, offer).map_err(|_| errno::EINVAL.wrapping_neg())
    }
}

/// The connection manager, and the ids that a thread has with it.
pub trait Ids: Sized {
    /// What is done for peers and connections.
    type Shell: Shell;
    /// Names an id, and is never used for another one. A connection has the same number as its id.
    type Tag: Copy;
    /// A number set aside for an id and its connection. Both are found by it until it is dropped.
    type Reserved;
    /// Private data of an event.
    type Private: AsRef<[u8]>;
    /// The id of a connection request that is not answered.
    type Request;
    /// Counts an accepted connection that is not established, until it is dropped.
    type Pending;

    /// Makes an id for an attempt, with a number of its own, and keeps `link` with it.
    ///
    /// # Errors
    ///
    /// The device is gone, no memory.
    fn open(&mut self, link: Link<Self>) -> Result<Self::Tag, i32>;

    /// Gives the id of a request its number, and keeps `link` with it.
    ///
    /// # Errors
    ///
    /// No memory: the request comes back.
    fn adopt(
        &mut self,
        request: Self::Request,
        reserved: Self::Reserved,
        link: Link<Self>,
    ) -> Result<Self::Tag, Self::Request>;

    /// Drops the link and the number of an id that was adopted, and gives the request back.
    fn disown(&mut self, tag: Self::Tag) -> Option<Self::Request>;

    /// What belongs to an id, until it is destroyed.
    fn link(&mut self, tag: Self::Tag) -> Option<&mut Link<Self>>;

    /// The id of an attempt, if it has one.
    fn find_attempt(&mut self, peer: &PeerOf<Self>, attempt: AttemptId) -> Option<Self::Tag>;

    /// The connection of an id, once it is made.
    fn conn(&self, tag: Self::Tag) -> Option<ConnOf<Self>>;

    /// Destroys an id, which reports nothing more, and drops its link and its number. Its queue
    /// pair is gone, if it had one.
    fn destroy(&mut self, tag: Self::Tag);

    /// Starts to resolve the address of the peer, from the address of the NI; with `again`, from
    /// the one that the id is bound to. The answer is an event.
    ///
    /// # Errors
    ///
    /// Those of the CM.
    fn resolve_addr(&mut self, tag: Self::Tag, timeout: Span, again: bool) -> Result<(), i32>;

    /// Starts to resolve the route. The answer is an event.
    ///
    /// # Errors
    ///
    /// Those of the CM.
    fn resolve_route(&mut self, tag: Self::Tag, timeout: Span) -> Result<(), i32>;

    /// Sends a connection request with this private data. The answer is an event.
    ///
    /// # Errors
    ///
    /// Those of the CM.
    fn connect(&mut self, tag: Self::Tag, private: &[u8]) -> Result<(), i32>;

    /// Accepts a connection request with this private data. The answer is an event.
    ///
    /// # Errors
    ///
    /// Those of the CM, which rejects the request then.
    fn accept(&mut self, tag: Self::Tag, private: &[u8]) -> Result<(), i32>;

    /// Rejects a connection request and destroys its id.
    ///
    /// # Errors
    ///
    /// Those of the CM. The requester has gone, or will time out.
    fn reject(&mut self, request: Self::Request, reject: &Reject) -> Result<(), i32>;

    /// Tells the CM that the peer of a connection regards it as established, if it does not know.
    fn notify_established(&mut self, conn: &ConnOf<Self>);

    /// Disconnects, if there is a connection.
    fn disconnect(&mut self, conn: &ConnOf<Self>);

    /// The tag of the id of a connection.
    fn tag_of(&self, conn: &ConnOf<Self>) -> Self::Tag;
}

/// What became of a queue pair that was to be moved to the error state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedQp {
    /// It is in the error state, and takes the sentinels.
    Failed,
    /// There was none.
    Gone,
    /// It could not be moved, and has been destroyed.
    Destroyed,
}

/// Something to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// An attempt was started.
    Attempt,
    /// An attempt has failed.
    AttemptFailed,
    /// A connection request has come.
    Request,
    /// A connection request was rejected.
    Refused(RefusalKind),
    /// The drain of a queue pair was forced.
    ForcedDrain,
    /// An event that fits no object or no state.
    Unexpected,
    /// A connection message was sent.
    Sent(MsgType),
    /// A connection message was received.
    Received(MsgType),
}

/// A line of the log about a peer. They are limited in rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// An attempt cannot be started.
    CannotStart(i32),
    /// An attempt has failed.
    AttemptFailed(Cause),
    /// The peer has rejected a request, and says why.
    Rejected(RejectReason),
    /// The CM has failed.
    CmError {
        /// What it says.
        what: &'static str,
        /// Its number.
        status: i32,
    },
    /// A connection is closed because our address has moved.
    Moved,
    /// A connection request cannot be accepted.
    CannotAccept(i32),
}

/// Everything else: peers, connections and their queue pairs, NIs, counters, the log.
pub trait Connect: Ids {
    /// What is done for peers and connections.
    fn shell(&mut self) -> &mut Self::Shell;

    // Peers.

    /// The NID of a peer.
    fn nid(&self, peer: &PeerOf<Self>) -> Nid;

    /// The NI of a peer.
    fn info(&self, peer: &PeerOf<Self>) -> NiInfo;

    /// How messages to a peer are put on the wire now.
    fn encoding(&self, peer: &PeerOf<Self>) -> Encoding;

    /// The connection of a peer with this name, found under the lock of the peer.
    fn find_conn(&mut self, peer: &PeerOf<Self>, name: ConnId) -> Option<ConnOf<Self>>;

    /// Has the engine of a peer, under its lock, name a connection. If it does
    /// ([`Claim::Taken`]), the connection has that name from then on and the peer has it in its
    /// list, all with the same hold of the lock; the second result is `false` when the list is
    /// full.
    fn name_conn(
        &mut self,
        peer: &PeerOf<Self>,
        conn: &ConnOf<Self>,
        f: impl FnOnce(&mut EngineOf<Self>, Instant, ConnId) -> Claim,
    ) -> (Claim, bool);

    /// Takes a connection out of the list of a peer, and feeds its engine with the same hold of
    /// the lock.
    fn forget_conn(
        &mut self,
        peer: &PeerOf<Self>,
        name: ConnId,
        f: impl FnOnce(&mut EngineOf<Self>, Instant),
    );

    /// Takes a peer that has nothing left to do out of the table. `false` when it has.
    fn retire(&mut self, peer: &PeerOf<Self>) -> bool;

    /// Tells LNet that a peer is down.
    fn notify_down(&mut self, peer: &PeerOf<Self>, alive: Instant);

    /// A message that waited goes on.
    fn assign(&mut self, peer: &PeerOf<Self>, sending: Sending<Self::Shell>);

    /// Ends the messages of a descriptor that found no connection.
    fn fail(&mut self, peer: &PeerOf<Self>, tx: TxOf<Self>, done: Done);

    // Connections.

    /// Sets a number aside.
    ///
    /// # Errors
    ///
    /// No memory.
    fn reserve(&mut self) -> Result<Self::Reserved, i32>;

    /// The name that a connection with this number has for its peer.
    fn reserved_name(&self, reserved: &Self::Reserved) -> ConnId;

    /// Makes the connection of an id, its queue pair on the device that the id is bound to, with
    /// receives posted. It is sized by [`Wanted::limits`], or by less if the device has no room.
    ///
    /// # Errors
    ///
    /// `ENETDOWN` when that device is not the one of the NI, or is gone; those of
    /// [`Wanted::limits`]; no memory; and what the provider returns.
    fn create(&mut self, tag: Self::Tag, wanted: &Wanted) -> Result<(ConnOf<Self>, Limits), i32>;

    /// Feeds the engine of a connection under its lock, and has posted what it wants posted.
    fn feed(&mut self, conn: &ConnOf<Self>, input: ConnInput<'_>);

    /// Takes a request that was made by [`Shell::request`]. `false` when there is none.
    fn take_request(&mut self, conn: &ConnOf<Self>, request: Request) -> bool;

    /// Moves the queue pair to the error state.
    fn fail_qp(&mut self, conn: &ConnOf<Self>) -> FailedQp;

    /// Destroys the queue pair, if there is one.
    fn destroy_qp(&mut self, conn: &ConnOf<Self>);

    /// Schedules the executor of a connection.
    fn kick(&mut self, conn: &ConnOf<Self>);

    /// Gives up everything that a connection has on the device.
    fn release(&mut self, conn: &ConnOf<Self>);

    // Admission.

    /// The fields of a request that admission checks.
    fn incoming<'a>(&self, request: &Self::Request, private: &'a [u8]) -> Incoming<'a>;

    /// The NI with a NID, as a request at the listener `listener` finds it.
    fn find_ni(&self, listener: Self::Tag, nid: Nid) -> Option<(NiOf<Self>, Found)>;

    /// The identity of an NI.
    fn ni_info(&self, ni: &NiOf<Self>) -> NiInfo;

    /// Whether [`is_complete`](super::super::admission::is_complete) holds for the NIs of a
    /// listener.
    fn is_complete(&self, listener: Self::Tag) -> bool;

    /// Accepted connections that are not established.
    fn pending(&self) -> u64;

    /// Those of one peer.
    fn pending_of(&self, peer: &PeerOf<Self>) -> u32;

    /// Counts one more.
    fn hold_pending(&mut self, peer: &PeerOf<Self>) -> Self::Pending;

    /// An event of an id that has no link: of a listener, or of an id that is gone.
    fn listener_event(&mut self, tag: Self::Tag, event: CmEvent<&[u8]>);

    // Counters and log.

    /// Counts.
    fn count(&mut self, what: Count);

    /// Logs.
    fn log(&mut self, peer: &PeerOf<Self>, line: Line);

    /// Logs that a request was rejected.
    fn log_refused(&mut self, request: &Self::Request, cause: &RefuseCause);
}
