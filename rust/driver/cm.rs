// SPDX-License-Identifier: GPL-2.0

//! What an event of the connection manager leads to.

use crate::{
    proto::{
        conn::Conn,
        errno,
        peer::AttemptEvent,
        Cause,
        Instant,
        Storage, //
    },
    wire::{
        Message,
        ParseError, //
    },
};

/// An event of the CM about an id that exists. Numbers are the CM's: negative errnos, but for
/// rejections. `D` is private data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmEvent<D> {
    /// The address was resolved; the id is bound to a device.
    AddrResolved,
    /// It was not.
    AddrError(i32),
    /// The route was resolved.
    RouteResolved,
    /// It was not.
    RouteError(i32),
    /// Connecting failed.
    ConnectError(i32),
    /// The peer does not answer.
    Unreachable(i32),
    /// The peer refused.
    Rejected {
        /// The CM's reason.
        reason: i32,
        /// Private data of the reject.
        private: D,
    },
    /// The connection is there.
    Established {
        /// Private data of the answer, on the active side.
        private: D,
    },
    /// The peer disconnected, or the connection was lost.
    Disconnected,
    /// The device goes away.
    DeviceRemoval,
    /// The address moved to another device.
    AddrChange,
    /// The QP number of a former connection can be used again.
    TimewaitExit,
}

/// An input of a connection's engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnInput<'a> {
    /// The passive side is established.
    Established,
    /// The active side is: the CONNACK.
    Opened(Result<Message<'a>, ParseError>),
    /// An orderly end, for which nobody is blamed.
    Disconnected,
    /// It was not established.
    Failed(Cause),
    /// It is to be closed.
    Close(Cause),
    /// Its queue pair is in the error state.
    QpError,
    /// Its queue pair is gone.
    QpDestroyed,
}

impl ConnInput<'_> {
    /// Feeds the engine.
    pub fn feed<S: Storage, T>(self, engine: &mut Conn<S, T>, now: Instant) {
        match self {
            Self::Established => engine.handle_established(now, None),
            Self::Opened(ack) => engine.handle_established(now, Some(ack)),
            Self::Disconnected => engine.handle_disconnected(now),
            Self::Failed(cause) => engine.handle_conn_failed(now, cause),
            Self::Close(cause) => engine.close(now, cause),
            Self::QpError => engine.handle_qp_error_state(now),
            Self::QpDestroyed => engine.handle_qp_destroyed(now),
        }
    }

    /// Whether a connection that its peer does not know yet is told, too. The attempt answers for
    /// it until then.
    pub const fn is_for_unknown(self) -> bool {
        match self {
            Self::Close(_) => true,
            Self::Established
            | Self::Opened(_)
            | Self::Disconnected
            | Self::Failed(_)
            | Self::QpError
            | Self::QpDestroyed => false,
        }
    }

    /// Whether an accepted connection counts no longer as one that is not established.
    pub const fn ends_pending(self) -> bool {
        match self {
            Self::Established => true,
            Self::Opened(_)
            | Self::Disconnected
            | Self::Failed(_)
            | Self::Close(_)
            | Self::QpError
            | Self::QpDestroyed => false,
        }
    }
}

/// What an event of an attempt of ours, or of the connection that it has become, leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Active<'a> {
    /// The peer is told [`AttemptEvent::AddrResolved`]; the route is resolved if that is not late.
    ResolveRoute,
    /// The peer is told [`AttemptEvent::RouteResolved`]; if that is not late, the connection is
    /// made and the CONNREQ sent.
    Request,
    /// The address is to be resolved once more. The CM is asked in slices, because a neighbour that
    /// answers just as the CM queues its request is not noticed before the slice is over. When to
    /// give up is the peer's to say.
    ResolveAgain,
    /// The peer is told [`AttemptEvent::Connected`]; the connection judges the CONNACK if that is
    /// not late.
    Open {
        /// Private data: the CONNACK.
        private: &'a [u8],
    },
    /// The connection, if there is one ([`ConnInput::is_for_unknown`]), is told first, then the
    /// peer.
    Report {
        /// To the connection.
        conn: Option<ConnInput<'a>>,
        /// To the peer.
        attempt: Option<AttemptEvent<'a>>,
    },
}

/// What an event of an attempt of ours, or of the connection that it has become, leads to.
pub const fn active(event: CmEvent<&[u8]>) -> Active<'_> {
    const TIMED_OUT: i32 = errno::ETIMEDOUT.wrapping_neg();
    let (conn, attempt) = match event {
        CmEvent::AddrResolved => return Active::ResolveRoute,
        CmEvent::RouteResolved => return Active::Request,
        CmEvent::Established { private } => return Active::Open { private },
        CmEvent::AddrError(TIMED_OUT) => return Active::ResolveAgain,
        CmEvent::AddrError(_) => (None, Some(AttemptEvent::AddrError)),
        CmEvent::RouteError(_) => (None, Some(AttemptEvent::RouteError)),
        CmEvent::ConnectError(_) => (None, Some(AttemptEvent::ConnectError)),
        CmEvent::Unreachable(_) => (None, Some(AttemptEvent::Unreachable)),
        CmEvent::Rejected { reason, private } => {
            let cm_reason = reason;
            (None, Some(AttemptEvent::Rejected { cm_reason, private }))
        }
        CmEvent::Disconnected => (
            Some(ConnInput::Disconnected),
            Some(AttemptEvent::Disconnected),
        ),
        CmEvent::DeviceRemoval => (
            Some(ConnInput::Close(Cause::DeviceGone)),
            Some(AttemptEvent::DeviceGone),
        ),
        // The peer sends to where the address was. An orderly end: the next message finds the new
        // way.
        CmEvent::AddrChange => (Some(ConnInput::Disconnected), None),
        CmEvent::TimewaitExit => (None, None),
    };
    Active::Report { conn, attempt }
}

/// What an event of an accepted connection leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passive {
    /// The connection is told.
    Conn(ConnInput<'static>),
    /// Nothing.
    Nothing,
    /// Nothing; this event cannot come.
    Unexpected,
}

/// What an event of an accepted connection leads to.
pub const fn passive(event: CmEvent<&[u8]>) -> Passive {
    let input = match event {
        CmEvent::Established { .. } => ConnInput::Established,
        // As on the active side.
        CmEvent::Disconnected | CmEvent::AddrChange => ConnInput::Disconnected,
        CmEvent::Rejected { .. } | CmEvent::ConnectError(_) => ConnInput::Failed(Cause::Rejected),
        CmEvent::Unreachable(_) => ConnInput::Failed(Cause::ConnectTimeout),
        CmEvent::DeviceRemoval => ConnInput::Close(Cause::DeviceGone),
        CmEvent::TimewaitExit => return Passive::Nothing,
        CmEvent::AddrResolved
        | CmEvent::AddrError(_)
        | CmEvent::RouteResolved
        | CmEvent::RouteError(_) => return Passive::Unexpected,
    };
    Passive::Conn(input)
}

/// What an event of a listener, or of an id that is gone, leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// The address is looked for on other devices.
    Moved,
    /// A line in the log: the client of the RDMA core is told, too, and does the rest.
    Removed,
    /// Nothing; this event cannot come.
    Unexpected,
}

/// What an event of a listener, or of an id that is gone, leads to.
pub const fn listener(event: CmEvent<&[u8]>) -> Listener {
    match event {
        CmEvent::AddrChange => Listener::Moved,
        CmEvent::DeviceRemoval => Listener::Removed,
        CmEvent::AddrResolved
        | CmEvent::AddrError(_)
        | CmEvent::RouteResolved
        | CmEvent::RouteError(_)
        | CmEvent::ConnectError(_)
        | CmEvent::Unreachable(_)
        | CmEvent::Rejected { .. }
        | CmEvent::Established { .. }
        | CmEvent::Disconnected
        | CmEvent::TimewaitExit => Listener::Unexpected,
    }
}

impl<D: AsRef<[u8]>> CmEvent<D> {
    /// Its private data.
    pub fn private(&self) -> &[u8] {
        match self.borrowed() {
            CmEvent::Rejected { private, .. } | CmEvent::Established { private } => private,
            CmEvent::AddrResolved
            | CmEvent::AddrError(_)
            | CmEvent::RouteResolved
            | CmEvent::RouteError(_)
            | CmEvent::ConnectError(_)
            | CmEvent::Unreachable(_)
            | CmEvent::Disconnected
            | CmEvent::DeviceRemoval
            | CmEvent::AddrChange
            | CmEvent::TimewaitExit => &[],
        }
    }

    /// The same with borrowed private data.
    pub fn borrowed(&self) -> CmEvent<&[u8]> {
        match self {
            Self::AddrResolved => CmEvent::AddrResolved,
            Self::AddrError(e) => CmEvent::AddrError(*e),
            Self::RouteResolved => CmEvent::RouteResolved,
            Self::RouteError(e) => CmEvent::RouteError(*e),
            Self::ConnectError(e) => CmEvent::ConnectError(*e),
            Self::Unreachable(e) => CmEvent::Unreachable(*e),
            Self::Rejected { reason, private } => CmEvent::Rejected {
                reason: *reason,
                private: private.as_ref(),
            },
            Self::Established { private } => CmEvent::Established {
                private: private.as_ref(),
            },
            Self::Disconnected => CmEvent::Disconnected,
            Self::DeviceRemoval => CmEvent::DeviceRemoval,
            Self::AddrChange => CmEvent::AddrChange,
            Self::TimewaitExit => CmEvent::TimewaitExit,
        }
    }
}

impl CmEvent<&[u8]> {
    /// What went wrong, for the log: a text, and the CM's number. `None` when nothing did.
    pub const fn failure(&self) -> Option<(&'static str, i32)> {
        match *self {
            Self::AddrError(e) => Some(("no address", e)),
            Self::RouteError(e) => Some(("no route", e)),
            Self::ConnectError(e) => Some(("connect error", e)),
            Self::Unreachable(e) => Some(("unreachable", e)),
            Self::Rejected { reason, .. } => Some(("rejected", reason)),
            Self::AddrResolved
            | Self::RouteResolved
            | Self::Established { .. }
            | Self::Disconnected
            | Self::DeviceRemoval
            | Self::AddrChange
            | Self::TimewaitExit => None,
        }
    }
}
