// SPDX-License-Identifier: GPL-2.0

//! What a connection looks like from outside, for dumps and for tests.

use super::{
    ops::{
        OpQueue, //
        Ops,
    },
    rx::RxSlots,
    sq::Sq,
    state::ConnState,
    Conn,
    Role, //
};
use crate::proto::{
    slab::Storage,
    Cause,
    Instant, //
};
#[cfg(feature = "tests")]
use crate::wire::Cookie;
#[cfg(feature = "tests")]
use core::hash::{
    Hash,
    Hasher, //
};

/// Events of a connection. They never wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages received, NOOPs included.
    pub rx_msgs: u32,
    /// Messages posted, NOOPs included.
    pub tx_msgs: u32,
    /// NOOPs posted.
    pub tx_noops: u32,
    /// RDMA WRITEs posted.
    pub tx_writes: u32,
    /// Messages that came when the connection was closed, or that LNet could no longer answer.
    pub dropped_msgs: u32,
    /// Completions that belong to nothing.
    pub bad_completions: u32,
    /// Commands and inputs that the contract rules out.
    pub bad_inputs: u32,
    /// Events that came in a state where they say nothing.
    pub ignored_events: u32,
}

/// A connection at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnSnapshot {
    /// ConnState as section 16.1 numbers it: 1 active connect, 2 passive wait, 3 established,
    /// 4 closing, 5 disconnected.
    pub state: u8,
    /// Whether no more completions can come.
    pub drained: bool,
    /// The first cause, when it is closed.
    pub cause: Option<Cause>,
    /// OpQueue depth in force.
    pub queue_depth: u16,
    /// Credits that we hold.
    pub credits: u16,
    /// Credits that we owe.
    pub outstanding: u16,
    /// Receives set aside for answers to our own requests.
    pub reserved: u16,
    /// Credits that the peer has, or that are on their way to it.
    pub granted: u16,
    /// SENDs in flight.
    pub sends: u16,
    /// NOOPs among them.
    pub noops: u16,
    /// Work requests on the send queue.
    pub sq_used: u32,
    /// Receives that the device has.
    pub rx_posted: u16,
    /// Receive buffers to be posted.
    pub rx_to_post: u16,
    /// Receive buffers that LNet has.
    pub rx_held: u16,
    /// Messages that came before the connection was established.
    pub rx_parked: u16,
    /// Messages that LNet is about to get.
    pub rx_deliver: u16,
    /// Operations that have not been handed out.
    pub ops: u16,
    /// Those of them that LNet started here.
    pub ops_local: u16,
    /// Requests that wait for a receive to be set aside.
    pub queue_reserve: u16,
    /// Messages that wait for a credit.
    pub queue_credit: u16,
    /// Messages that need no credit.
    pub queue_reply: u16,
    /// LOCAL_INVs to be posted.
    pub queue_inv: u16,
    /// Operations that wait for the drain.
    pub queue_drain: u16,
    /// When the peer was last known to be alive.
    pub alive: Instant,
    /// When something was last sent.
    pub last_send: Instant,
    /// Counters.
    pub counters: Counters,
}

/// For searches, with a [`Storage`] whose buffers can be copied.
impl<S: Storage, T> Clone for Conn<S, T>
where
    RxSlots<S>: Clone,
    Ops<S, T>: Clone,
    Sq<S>: Clone,
{
    fn clone(&self) -> Self {
        Self {
            rx: self.rx.clone(),
            ops: self.ops.clone(),
            sq: self.sq.clone(),
            ..*self
        }
    }
}

#[cfg(feature = "tests")]
impl<S: Storage, T: Copy + Ord + Hash> Conn<S, T> {
    /// Hashes all that decides what a connection does next, for searches that are to visit each
    /// state once. Which buffer, slot, number or cookie something has got is left out: where it
    /// came by its name is history. Two connections of the same limits and tunables with the same
    /// hash behave alike, if the connections of their peers, whose answer to
    /// [`Conn::waits_for`] is `theirs`, do.
    ///
    /// For a connection at rest, with no posting begun and no message to be handed out, whose
    /// operations all belong to different messages `T`.
    pub fn hash_future<H: Hasher>(&self, theirs: impl Fn(Cookie) -> Option<T>, state: &mut H) {
        (self.role, self.state, self.was_established, self.notified).hash(state);
        (self.flushed, self.credits, self.reports).hash(state);
        (self.alive, self.last_send).hash(state);
        self.rx.hash_future(state);
        self.ops.hash_future(theirs, state);
        let name = |id| self.ops.get(id).and_then(|op| op.tx);
        self.sq.hash_future(name, state);
    }
}

impl<S: Storage, T> Conn<S, T> {
    /// The message whose operation waits for the peer to answer with `cookie`.
    #[cfg(feature = "tests")]
    pub fn waits_for(&self, cookie: Cookie) -> Option<&T> {
        self.ops.waiting(cookie).and_then(|(_, op)| op.tx.as_ref())
    }

    /// The connection as it is now.
    pub fn snapshot(&self) -> ConnSnapshot {
        let state = match (self.state, self.role) {
            (ConnState::Connecting { .. }, Role::Active) => 1,
            (ConnState::Connecting { .. }, Role::Passive) => 2,
            (ConnState::Established, Role::Active | Role::Passive) => 3,
            (ConnState::Closing { .. }, Role::Active | Role::Passive) => 4,
            (
                ConnState::Draining { .. } | ConnState::Drained { .. },
                Role::Active | Role::Passive,
            ) => 5,
        };
        ConnSnapshot {
            state,
            drained: self.is_drained(),
            cause: self.cause(),
            queue_depth: self.limits.queue_depth,
            credits: self.credits.held(),
            outstanding: self.credits.outstanding(),
            reserved: self.credits.reserved(),
            granted: self.credits.granted(),
            sends: self.sq.sends(),
            noops: self.sq.noops(),
            sq_used: self.sq.used(),
            rx_posted: self.rx.posted(),
            rx_to_post: self.rx.to_post_len(),
            rx_held: self.rx.held(),
            rx_parked: self.rx.parked_len(),
            rx_deliver: self.rx.deliver_len(),
            ops: self.ops.in_use(),
            ops_local: self.ops.local(),
            queue_reserve: self.ops.len(OpQueue::Reserve),
            queue_credit: self.ops.len(OpQueue::Credit),
            queue_reply: self.ops.len(OpQueue::Reply),
            queue_inv: self.ops.len(OpQueue::Inv),
            queue_drain: self.ops.len(OpQueue::Drain),
            alive: self.alive,
            last_send: self.last_send,
            counters: self.counters,
        }
    }
}
