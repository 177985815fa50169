// SPDX-License-Identifier: GPL-2.0

//! The executor of a connection: how its completions, asynchronous events and actions are handled.

use super::shell::{
    Ended,
    Request,
    Shell, //
};
use crate::{
    proto::{
        chain::ChainError,
        conn::{
            Action,
            Conn,
            WcStatus, //
        },
        Cause,
        Instant,
        Limits,
        OpId,
        RxId,
        Storage,
        WrId,
        WrKind, //
    },
    wire::{
        Desc,
        Message,
        ParseError, //
    },
};

/// A work completion, by what is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// A message is in receive buffer `rx`: parse it and call [`received`].
    Received {
        /// The request.
        wr: WrId,
        /// Its receive buffer.
        rx: RxId,
    },
    /// A receive failed.
    RecvFailed {
        /// The request.
        wr: WrId,
        /// It was flushed, which is not an error by itself.
        flushed: bool,
    },
    /// A request of the send queue has completed.
    Sent {
        /// The request.
        wr: WrId,
        /// How it ended.
        status: WcStatus,
    },
    /// The identifier is none that we post with.
    Unknown,
}

impl Completion {
    /// Reads a completion with identifier `id` and `status`.
    pub fn new(id: u64, status: WcStatus) -> Self {
        let Some(wr) = WrId::from_raw(id) else {
            return Self::Unknown;
        };
        match (wr.kind(), status) {
            (WrKind::Recv { rx, .. }, WcStatus::Success) => Self::Received { wr, rx },
            (WrKind::Recv { .. } | WrKind::SentinelRq, _) => Self::RecvFailed {
                wr,
                flushed: status == WcStatus::Flushed,
            },
            (WrKind::Send { .. } | WrKind::SentinelSq, _) => Self::Sent { wr, status },
        }
    }

    /// What has failed, when that is worth a line in the log.
    pub const fn failure(&self) -> Option<&'static str> {
        match self {
            Self::RecvFailed { flushed: false, .. } => Some("receive"),
            Self::Sent {
                status: WcStatus::Error(_),
                ..
            } => Some("send"),
            Self::RecvFailed { flushed: true, .. }
            | Self::Sent {
                status: WcStatus::Success | WcStatus::Flushed,
                ..
            }
            | Self::Received { .. }
            | Self::Unknown => None,
        }
    }

    /// Feeds the engine with a completion that brought no message. A receive whose buffer cannot be
    /// read counts as [`Completion::Unknown`].
    pub fn feed<S: Storage, T>(self, engine: &mut Conn<S, T>, now: Instant) {
        match self {
            Self::RecvFailed { wr, flushed } => engine.handle_recv_error(now, wr, flushed),
            Self::Sent { wr, status } => engine.handle_send_completion(now, wr, status),
            Self::Received { .. } | Self::Unknown => engine.handle_unknown_completion(now),
        }
    }
}

/// Feeds the engine with the message that receive `wr` brought.
pub fn received<S: Storage, T>(
    engine: &mut Conn<S, T>,
    now: Instant,
    wr: WrId,
    message: &Result<Message<'_>, ParseError>,
) {
    match message {
        Ok(msg) => engine.handle_msg(now, wr, msg),
        Err(error) => engine.handle_bad_msg(now, wr, *error),
    }
}

/// Asynchronous events of a connection's CQ and QP since the last check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsyncEvents {
    /// A message arrived before the CM said that the connection is up.
    pub comm_est: bool,
    /// The completion queue is in error.
    pub cq_error: bool,
    /// The queue pair is in error by itself, or its device.
    pub qp_error: bool,
    /// The queue pair is in error because of what the peer has sent.
    pub peer_error: bool,
}

impl AsyncEvents {
    /// Why the connection is to be closed, if so.
    pub const fn cause(&self) -> Option<Cause> {
        match (self.cq_error, self.qp_error, self.peer_error) {
            (true, _, _) => Some(Cause::CqError),
            (false, true, _) => Some(Cause::DeviceGone),
            // What a peer does to its connection must not count against this node.
            (false, false, true) => Some(Cause::RecvFailed),
            (false, false, false) => None,
        }
    }
}

/// The second part of an action, to be done under the lock of the connection before its next
/// action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// The peer's engine does not want the connection.
    Close(Cause),
    /// LNet refused the message.
    Refused {
        /// Receive buffer of the message.
        rx: RxId,
        /// Negative errno of LNet.
        status: i32,
    },
    /// The WRITEs of a PUT are to be planned.
    Plan {
        /// The PUT.
        op: OpId,
        /// Receive buffer with the fragments of the descriptor.
        rx: RxId,
        /// The peer's descriptor.
        desc: Desc,
    },
}

impl Step {
    /// Does it. `plan` sets out to fill a sink, whose fragments are in `rx`, from the source that
    /// a transmit descriptor has, and counts the WRITEs.
    pub fn feed<S: Storage, T>(
        self,
        engine: &mut Conn<S, T>,
        now: Instant,
        plan: impl FnOnce(&mut T, RxId, Desc, &Limits) -> Result<u16, ChainError>,
    ) {
        match self {
            Self::Close(cause) => engine.close(now, cause),
            Self::Refused { rx, status } => engine.rx_refused(now, rx, status),
            Self::Plan { op, rx, desc } => {
                let limits = *engine.limits();
                // Without it, the connection was closed meanwhile.
                if let Some(tx) = engine.tx_mut(op) {
                    let writes = plan(tx, rx, desc, &limits);
                    engine.put_planned(now, op, writes);
                }
            }
        }
    }
}

/// Whether the end of a connection is worth a line in the log. Why one was not established is the
/// matter of its attempt or its request.
pub const fn is_logged(cause: Cause, established: bool) -> bool {
    established && cause.errno() != 0
}

/// Runs an action of a connection. No lock may be held.
pub fn act<S: Shell>(shell: &mut S, conn: &S::Conn, action: Action<S::Tx>) -> Option<Step> {
    match action {
        Action::Established(info) => {
            shell.note_established(conn);
            let Some(id) = shell.name_of(conn) else {
                // It is named before it can be established.
                return Some(Step::Close(Cause::PeerGone));
            };
            let peer = shell.peer_of(conn);
            let accepted = shell.peer(&peer, |engine, now| {
                engine.handle_established(now, id, &info)
            });
            shell.kick_peer(&peer);
            return accepted.err().map(Step::Close);
        }
        Action::Closed {
            cause,
            alive,
            established,
        } => {
            shell.note_closed(conn, cause, is_logged(cause, established));
            // What the peer does not know yet is the matter of its attempt.
            let id = shell.name_of(conn)?;
            let peer = shell.peer_of(conn);
            shell.peer(&peer, |engine, now| {
                engine.handle_closed(now, id, cause, alive);
            });
            shell.kick_peer(&peer);
        }
        Action::Deliver { rx, hdr, kind } => {
            let refused = shell.deliver(conn, rx, &hdr, kind).err()?;
            return Some(Step::Refused {
                rx,
                status: refused,
            });
        }
        Action::Plan { op, rx, desc } => return Some(Step::Plan { op, rx, desc }),
        Action::Finish { tx, done } => shell.finish(conn, tx, done, Ended::Clean),
        Action::FinishAfterDrain { tx, done } => shell.finish(conn, tx, done, Ended::Drained),
        Action::NotifyEstablished => shell.request(conn, Request::NotifyEstablished),
        Action::Disconnect { cause: _ } => shell.request(conn, Request::Disconnect),
        Action::DestroyQp => shell.request(conn, Request::DestroyQp),
        Action::Drained { forced: _ } => shell.request(conn, Request::TakeDown),
    }
    None
}
