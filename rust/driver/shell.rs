// SPDX-License-Identifier: GPL-2.0

//! The effects of the loop, as two traits: the driver implements them with locks, verbs and LNet,
//! the simulator with its world.
//!
//! [`Queue`] is what happens while a connection is locked, [`Shell`] what happens while nothing is.
//! Both are generic, so that nothing is called through a pointer on the data path. The loop is cut
//! where a lock is released: each function here and in the modules beside it that takes a shell
//! holds at most one lock at a time, and what remains to be done afterwards is a value. The driver
//! continues with it at once. The simulator continues when its seed says, so that it also tries
//! what other threads can do in between.
//!
//! The receivers are `&mut` for the simulator, whose state changes; the driver's shell has none.

use crate::{
    proto::{
        conn::{
            Conn,
            Delivery,
            Post,
            PostError, //
        },
        peer::{
            Peer,
            PeerSubmit, //
        },
        Cause,
        ConnId,
        Done,
        Instant,
        Refused,
        RxId,
        Storage, //
    },
    wire::{
        LnetHdr,
        Nid, //
    },
};

/// A connection under its lock: the engine and the queue pair that it drives.
pub trait Queue {
    /// Memory of the engine.
    type Storage: Storage;
    /// Transmit descriptor.
    type Tx;

    /// The engine.
    fn engine(&mut self) -> &mut Conn<Self::Storage, Self::Tx>;

    /// Posts to the queue pair. Does not sleep.
    ///
    /// # Errors
    ///
    /// How many requests of the chain the device has taken.
    fn post(&mut self, post: &Post) -> Result<(), PostError>;
}

/// Feeds the engine and posts the requests that follow. The second value is whether there are
/// actions, for which the executor must be kicked.
pub fn drive<Q: Queue, R>(
    queue: &mut Q,
    now: Instant,
    f: impl FnOnce(&mut Conn<Q::Storage, Q::Tx>, Instant) -> R,
) -> (R, bool) {
    let result = f(queue.engine(), now);
    post_all(queue, now);
    (result, queue.engine().has_actions())
}

/// Posts until the engine has nothing more.
fn post_all<Q: Queue>(queue: &mut Q, now: Instant) {
    while let Some(post) = queue.engine().poll_post(now) {
        let result = queue.post(&post);
        queue.engine().posted(now, result);
    }
}

/// What is known about a descriptor's MR at its end, which decides how its memory is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its MR was invalidated successfully, or never made known to the device.
    Clean,
    /// The queue pair is drained; nothing is known about the MR.
    Drained,
}

/// Work that may sleep, for connd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Tell the CM that traffic has arrived.
    NotifyEstablished,
    /// Disconnect and move the queue pair to the error state.
    Disconnect,
    /// Destroy the queue pair as it is.
    DestroyQp,
    /// Take everything down.
    TakeDown,
}

impl Request {
    /// All requests, in the order in which they are served.
    pub const ALL: [Self; 4] = [
        Self::NotifyEstablished,
        Self::Disconnect,
        Self::DestroyQp,
        Self::TakeDown,
    ];
}

/// Effects while no lock is held. Handles are cheap to clone.
pub trait Shell {
    /// Memory of the engines.
    type Storage: Storage;
    /// Transmit descriptor.
    type Tx;
    /// An NI.
    type Ni;
    /// A peer of an NI.
    type Peer: Clone;
    /// A connection.
    type Conn: Clone;

    // Peers.

    /// The peer of `ni` with this NID, which is made if there is none.
    ///
    /// # Errors
    ///
    /// [`Cause::NoMemory`], and [`Cause::Deleted`] when the NI is being shut down.
    fn find_peer(&mut self, ni: &Self::Ni, nid: Nid) -> Result<Self::Peer, Cause>;

    /// Takes a peer that is being deleted out of the table, if it is in it.
    fn forget_peer(&mut self, peer: &Self::Peer);

    /// Feeds the engine of a peer under its lock.
    fn peer<R>(
        &mut self,
        peer: &Self::Peer,
        f: impl FnOnce(&mut Peer<Self::Storage, Self::Tx>, Instant) -> R,
    ) -> R;

    /// As [`Shell::peer`]; also finds, under the same lock, the connection that is named, if it is
    /// still there.
    fn place(
        &mut self,
        peer: &Self::Peer,
        f: impl FnOnce(&mut Peer<Self::Storage, Self::Tx>, Instant) -> PeerSubmit<Self::Tx>,
    ) -> (PeerSubmit<Self::Tx>, Option<Self::Conn>);

    /// Has connd run the actions of a peer.
    fn kick_peer(&mut self, peer: &Self::Peer);

    // Connections.

    /// The peer of a connection.
    fn peer_of(&self, conn: &Self::Conn) -> Self::Peer;

    /// The name that a connection has for its peer's engine, if that knows of it.
    fn name_of(&self, conn: &Self::Conn) -> Option<ConnId>;

    /// Gives a message to a connection under its lock, and has posted what follows from that.
    ///
    /// # Errors
    ///
    /// The message, when the connection does not take it.
    fn submit(&mut self, conn: &Self::Conn, tx: Self::Tx) -> Result<(), Refused<Self::Tx>>;

    /// Has connd serve a request.
    fn request(&mut self, conn: &Self::Conn, request: Request);

    /// A connection is up: for counters.
    fn note_established(&mut self, conn: &Self::Conn);

    /// A connection has ended: for counters and, if `logged`, the log.
    fn note_closed(&mut self, conn: &Self::Conn, cause: Cause, logged: bool);

    // LNet.

    /// Gives LNet the message in `rx`.
    ///
    /// # Errors
    ///
    /// The negative errno with which LNet refused it.
    fn deliver(
        &mut self,
        conn: &Self::Conn,
        rx: RxId,
        hdr: &LnetHdr,
        kind: Delivery,
    ) -> Result<(), i32>;

    /// Ends the messages of a descriptor that a connection had.
    fn finish(&mut self, conn: &Self::Conn, tx: Self::Tx, done: Done, ended: Ended);

    /// Ends the messages of a descriptor that found no connection.
    fn fail(&mut self, ni: &Self::Ni, tx: Self::Tx, done: Done);
}
