// SPDX-License-Identifier: GPL-2.0

//! One connection, from "QP exists" to "drained".
//!
//! # Use
//!
//! The driver keeps a [`Conn`] under the connection's lock. With the lock held it feeds inputs
//! (`handle_*`) and commands, then pulls [`Conn::poll_post`] until that is `None`, posting each
//! [`Post`] at once and reporting with [`Conn::posted`], and copies out what [`Conn::poll_action`]
//! has. It runs the actions after unlocking; one executor at a time, in the order in which they
//! came. It calls [`Conn::handle_timeout`] when [`Conn::poll_timeout`] has passed (or every
//! second), and polls again.
//!
//! Not pulling all posts is a bug: the last posting of a burst is signalled, and which one that is
//! is known in advance.
//!
//! # Life
//!
//! Receives are posted as soon as the connection is made. Messages that arrive before
//! [`Conn::handle_established`] are parked and handled then, in order. When there is a reason to
//! close, [`Action::Closed`] and [`Action::Disconnect`] come; the driver disconnects, moves the QP
//! to the error state and calls [`Conn::handle_qp_error_state`]. Then both sentinels are posted;
//! when they have been flushed, [`Action::FinishAfterDrain`] comes for what the device may have
//! known until then, and [`Action::Drained`] last. If sentinels cannot be posted or are not
//! flushed in time, [`Action::DestroyQp`] asks for [`Conn::handle_qp_destroyed`].
//!
//! Buffers that LNet holds stay valid and must be given back after that too; when
//! `Conn::is_released`, nothing refers to this connection.

mod action;
mod command;
mod credits;
mod input;
mod message;
mod ops;
mod post;
mod rx;
mod snapshot;
mod sq;
mod state;

#[cfg(feature = "tests")]
pub use self::post::OutBody;
pub use self::post::{
    OutMsg,
    Post,
    PostError, //
};
pub use self::snapshot::{
    ConnSnapshot,
    Counters, //
};

use self::{
    credits::Credits,
    ops::{
        OpEvent,
        OpPhase,
        Ops,
        Work, //
    },
    rx::RxSlots,
    sq::Sq,
    state::{
        ConnEvent,
        ConnState, //
        Effect,
    },
};
use super::{
    slab::Storage,
    Cause,
    Done,
    Instant,
    Limits,
    LiveTunables,
    NiTunables,
    OpId,
    RxId,
    Stage, //
};
use crate::wire::{
    Desc,
    Identity,
    LnetHdr,
    Stamp,
    Version, //
};

/// Which side of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// This node sent the CONNREQ.
    Active,
    /// This node answered the peer's CONNREQ.
    Passive,
}

/// A registered sink: one fragment, as the peer addresses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sink {
    /// The rkey of the MR.
    pub key: u32,
    /// Its RDMA address.
    pub addr: u64,
    /// Its length in bytes.
    pub nob: u32,
}

/// What LNet wants to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submit {
    /// A message with at most 3976 bytes of payload.
    Immediate {
        /// Header of the LNet message, as it goes on the wire.
        hdr: LnetHdr,
        /// Bytes of payload in a mapped buffer of the transmission.
        payload: u16,
    },
    /// A PUT or REPLY that goes by RDMA; the transmission holds the mapped source.
    Put {
        /// LNet header.
        hdr: LnetHdr,
        /// Length of the source in bytes.
        len: u32,
    },
    /// A GET whose reply comes by RDMA; the transmission holds the MR.
    Get {
        /// LNet header.
        hdr: LnetHdr,
        /// Where the reply is to be written.
        sink: Sink,
    },
}

/// How a work request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WcStatus {
    /// It succeeded.
    Success,
    /// It was flushed: the queue pair is in the error state.
    Flushed,
    /// It failed, with a number of `enum ib_wc_status`.
    Error(u32),
}

impl WcStatus {
    /// The status with number `raw` in `enum ib_wc_status`, which is part of the kernel's ABI.
    pub const fn from_raw(raw: u32) -> Self {
        match raw {
            0 => Self::Success,
            5 => Self::Flushed,
            other => Self::Error(other),
        }
    }
}

/// What the two ends of a connection agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EstInfo {
    /// Which side this node is.
    pub role: Role,
    /// Version of the protocol.
    pub version: Version,
    /// Credit-consuming messages that may be in flight in each direction.
    pub queue_depth: u16,
    /// Most RDMA WRITEs of a transfer.
    pub max_frags: u16,
    /// Incarnation of the peer.
    pub peer_stamp: Stamp,
}

/// What kind of message LNet is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The payload is in the buffer, behind the headers: `hdr.payload_len` bytes. Answer with
    /// [`Conn::rx_done`].
    Immediate,
    /// LNet is to say where it goes. Answer with [`Conn::put_sink`] or [`Conn::put_nak`].
    PutReq,
    /// LNet is to say what is sent. Answer with [`Conn::get_source`] or [`Conn::get_done`].
    GetReq {
        /// The peer's descriptor, whose fragments are in the buffer.
        desc: Desc,
    },
}

/// What the driver is to do after unlocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<T> {
    /// The connection may be used.
    Established(EstInfo),
    /// Tell the CM that traffic has arrived (`rdma_notify`, IB_EVENT_COMM_EST).
    NotifyEstablished,
    /// Give LNet a message (`lnet_parse`). The buffer is LNet's until one of [`Conn::rx_done`],
    /// [`Conn::rx_refused`], [`Conn::put_nak`], [`Conn::put_sink`], [`Conn::get_done`],
    /// [`Conn::get_source`] is called for it.
    Deliver {
        /// Receive buffer with the message; LNet's from now on.
        rx: RxId,
        /// Header of the LNet message.
        hdr: LnetHdr,
        /// What LNet is to do with it.
        kind: Delivery,
    },
    /// The sink of a PUT is known: count the WRITEs that fill it from the source and call
    /// [`Conn::put_planned`]. It is not longer than the source.
    Plan {
        /// The PUT.
        op: OpId,
        /// Receive buffer with the fragments of the descriptor; stays until the last WRITE is
        /// posted.
        rx: RxId,
        /// The peer's descriptor.
        desc: Desc,
    },
    /// The message has ended and no device knows its memory: unmap, release, finalize.
    Finish {
        /// The transmission, which the engine no longer has.
        tx: T,
        /// Status and health for LNet.
        done: Done,
    },
    /// The message has ended, the QP is drained, the state of its MR is unknown: deregister the
    /// MR, unmap, release, finalize.
    FinishAfterDrain {
        /// The transmission, which the engine no longer has.
        tx: T,
        /// Status and health for LNet.
        done: Done,
    },
    /// The connection is closed; what is submitted from now on is refused.
    Closed {
        /// Why: what happened first.
        cause: Cause,
        /// When the peer was last known to be alive.
        alive: Instant,
        /// Whether it had been established.
        established: bool,
    },
    /// Disconnect, move the QP to the error state, call [`Conn::handle_qp_error_state`].
    Disconnect {
        /// The first cause.
        cause: Cause,
    },
    /// Destroy the QP as it is, then call [`Conn::handle_qp_destroyed`].
    DestroyQp,
    /// No more completions and no more actions but [`Action::Deliver`] of what had arrived: QP,
    /// CQ and cm_id may be destroyed.
    Drained {
        /// The QP was destroyed with requests on it.
        forced: bool,
    },
}

/// Reports that are still to be made.
#[derive(Clone, Copy, Default, Hash)]
struct Reports {
    established: bool,
    notify: bool,
    closed: bool,
    disconnect: bool,
    destroy: bool,
    drained: bool,
}

/// What has been pulled by [`Conn::poll_post`] and not been reported as posted.
#[derive(Clone, Copy)]
enum Pending {
    Recv(RxId),
    /// For this operation; when its last WRITE is posted, its descriptor is no longer needed.
    Send(Option<OpId>),
    SentinelSq,
    SentinelRq,
}

/// One connection. See the [module](self).
pub struct Conn<S: Storage, T> {
    role: Role,
    ident: Identity,
    limits: Limits,
    live: LiveTunables,
    state: ConnState,
    was_established: bool,
    /// Receives were flushed before it was established.
    flushed: bool,
    notified: bool,
    credits: Credits,
    rx: RxSlots<S>,
    ops: Ops<S, T>,
    sq: Sq<S>,
    reports: Reports,
    pending: Option<Pending>,
    alive: Instant,
    last_send: Instant,
    counters: Counters,
}

impl<S: Storage, T> Conn<S, T> {
    /// A connection whose QP has just been created. All memory is taken here.
    ///
    /// On the active side `ident.peer_stamp` is not used: it comes with the CONNACK.
    ///
    /// # Errors
    ///
    /// When there is no memory.
    pub fn new(
        storage: &mut S,
        role: Role,
        ident: Identity,
        limits: Limits,
        tunables: &NiTunables,
        now: Instant,
    ) -> Result<Self, S::Error> {
        Ok(Self {
            role,
            ident,
            limits,
            live: tunables.live(),
            state: ConnState::Connecting {
                deadline: now.after(tunables.connect_timeout),
            },
            was_established: false,
            flushed: false,
            notified: false,
            credits: Credits::new(limits.queue_depth),
            rx: RxSlots::new(storage, limits.rx_slots)?,
            ops: Ops::new(storage, &limits)?,
            sq: Sq::new(storage, &limits)?,
            reports: Reports::default(),
            pending: None,
            alive: now,
            last_send: now,
            counters: Counters::default(),
        })
    }

    /// The limits in force: those of [`Conn::new`], or those agreed with the peer.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// NIDs and incarnations of the two ends.
    #[cfg(feature = "tests")]
    pub fn identity(&self) -> &Identity {
        &self.ident
    }

    /// Our side.
    #[cfg(feature = "tests")]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether messages may be submitted.
    pub fn is_established(&self) -> bool {
        matches!(self.state, ConnState::Established)
    }

    /// The first cause, when the connection is closed.
    pub fn cause(&self) -> Option<Cause> {
        self.state.cause()
    }

    /// Whether no more completions can come.
    pub fn is_drained(&self) -> bool {
        matches!(self.state, ConnState::Drained { .. })
    }

    /// Whether it is drained, all actions have been pulled and LNet holds no buffer.
    #[cfg(feature = "tests")]
    pub fn is_released(&self) -> bool {
        self.is_drained() && !self.has_actions() && self.rx.held() == 0
    }

    /// Takes over tunables that were changed. The LND timeout counts for what is under way, too;
    /// the deadlines of the connect and of the drain that have begun stay as they are.
    pub fn retune(&mut self, live: LiveTunables) {
        self.live = live;
    }

    /// What LNet was given with `rx`, as long as the buffer has not been given back. `None` for any
    /// other buffer.
    pub fn held(&self, rx: RxId) -> Option<Delivery> {
        self.rx.held_in(rx)
    }

    /// The transmission of an operation. `None` when the operation has ended.
    pub fn tx(&self, op: OpId) -> Option<&T> {
        self.ops.get(op)?.tx.as_ref()
    }

    /// As [`Conn::tx`], to be changed.
    pub fn tx_mut(&mut self, op: OpId) -> Option<&mut T> {
        self.ops.get_mut(op)?.tx.as_mut()
    }

    /// When the oldest operation or posting exceeds the LND timeout.
    fn overdue(&self) -> Option<Instant> {
        let since = Instant::earlier(self.ops.waiting_since(), self.sq.waiting_since());
        since.map(|since| since.after(self.live.timeout))
    }

    /// The one place where the state changes.
    fn event(&mut self, now: Instant, event: ConnEvent) {
        let (next, effect) = self.state.after(event, now.after(self.live.timeout));
        self.state = next;
        match effect {
            Effect::Nothing => {}
            Effect::Ignored => count(&mut self.counters.ignored_events),
            Effect::Open => self.open(now),
            Effect::Shut => {
                self.reports.disconnect = true;
                self.shut();
            }
            Effect::Destroy => self.reports.destroy = true,
            Effect::End => self.end(),
            Effect::ShutAndEnd => {
                self.shut();
                self.end();
            }
        }
    }

    fn open(&mut self, now: Instant) {
        self.was_established = true;
        self.reports.established = true;
        self.alive = now;
        self.last_send = now;
        while self.is_established() {
            let Some((rx, parsed)) = self.rx.unpark() else {
                break;
            };
            self.process(now, rx, parsed);
        }
    }

    /// No new work: fails everything that does not wait for a completion.
    fn shut(&mut self) {
        self.reports.closed = true;
        let dropped = self.rx.close();
        self.counters.dropped_msgs = self.counters.dropped_msgs.saturating_add(dropped);
        self.all_ops(OpEvent::Closed);
    }

    /// No more completions: ends everything that is left.
    fn end(&mut self) {
        // Every turn retires one.
        while let Some(record) = self.sq.retire() {
            self.retired(record, false);
        }
        self.pending = None;
        self.rx.drain();
        self.all_ops(OpEvent::Drained);
        self.reports.disconnect = false;
        self.reports.destroy = false;
        self.reports.drained = true;
    }

    fn all_ops(&mut self, event: OpEvent) {
        for idx in 0..self.ops.slots() {
            if let Some(op) = self.ops.live(idx) {
                self.op_event(op, event);
            }
        }
    }

    /// The one place where operations move because of their connection or their postings.
    fn op_event(&mut self, id: OpId, event: OpEvent) {
        let closed = self.state.cause();
        let Some(op) = self.ops.get_mut(id) else {
            return;
        };
        let phase = op.phase();
        let busy = op.postings > 0;
        let Some(next) = phase.after(event, op.exposed, busy) else {
            return;
        };
        let stage = stage(phase, &op.work, busy);
        let done = match event {
            OpEvent::SentOk | OpEvent::InvOk | OpEvent::Quiet => Done::OK,
            OpEvent::Closed
            | OpEvent::PostFailed
            | OpEvent::SentErr
            | OpEvent::InvErr
            | OpEvent::Drained => closed.unwrap_or(Cause::BadInput).outcome_at(stage).into(),
        };
        op.conclude(done);
        self.finish(id, next);
    }

    /// Moves an operation on. One that has ended and has no LNet message is over.
    fn finish(&mut self, id: OpId, next: OpPhase) {
        let over = matches!(next, OpPhase::Finish | OpPhase::Drain)
            && self.ops.get(id).is_some_and(|op| op.tx.is_none());
        if over {
            self.ops.end(id);
        } else {
            self.ops.enter(id, next);
        }
    }

    /// A receive buffer is free again.
    fn release_rx(&mut self, rx: RxId, grant: rx::Grant) {
        let open = self.is_established();
        self.rx.release(rx, grant, open);
    }
}

/// How far a message in `phase` has come.
const fn stage(phase: OpPhase, work: &Work, busy: bool) -> Stage {
    match phase {
        OpPhase::Free | OpPhase::Reserve | OpPhase::Credit => Stage::Unsent,
        OpPhase::Sent | OpPhase::Inv | OpPhase::InvSent | OpPhase::Abort => Stage::Sending,
        OpPhase::Wait | OpPhase::Plan | OpPhase::Planning => Stage::Waiting,
        OpPhase::Reply => match (busy, work) {
            (true, _) => Stage::Sending,
            (false, Work::Put { .. }) => Stage::Waiting,
            (
                false,
                Work::Immediate { .. }
                | Work::Get { .. }
                | Work::PutSink { .. }
                | Work::GetSource
                | Work::Nak { .. }
                | Work::NoData { .. },
            ) => Stage::Unsent,
        },
        OpPhase::Finish | OpPhase::Drain => Stage::Waiting,
    }
}

fn count(counter: &mut u32) {
    *counter = counter.saturating_add(1);
}
