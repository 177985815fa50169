// SPDX-License-Identifier: GPL-2.0

//! The state of a connection. One function changes it.

use crate::proto::{
    Cause,
    Instant, //
};

/// ConnState of a connection.
///
/// *Closed* (no new work) starts at [`ConnState::Closing`]; *drained* (no more completions) is
/// [`ConnState::Drained`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ConnState {
    /// The QP exists, receives are posted, nothing may be sent.
    Connecting {
        /// When the attempt is given up.
        deadline: Instant,
    },
    /// Messages may be sent and are processed.
    Established,
    /// Closed; the QP is on its way to the error state. Nothing is posted.
    Closing {
        /// Why it was closed: what happened first.
        cause: Cause,
    },
    /// The QP is in the error state; the sentinels are being flushed.
    Draining {
        /// Why it was closed: what happened first.
        cause: Cause,
        /// When the drain is given up and the QP destroyed as it is.
        deadline: Instant,
        /// Sentinel on the send queue.
        sq: Sentinel,
        /// Sentinel on the receive queue.
        rq: Sentinel,
        /// The QP has to be destroyed with requests on it.
        stuck: bool,
    },
    /// No more completions can come.
    Drained {
        /// Why it was closed: what happened first.
        cause: Cause,
        /// The QP was destroyed before everything had been flushed.
        forced: bool,
    },
}

/// ConnState of a sentinel: a request posted behind all others, to see them all flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sentinel {
    Unposted,
    Posted,
    Flushed,
}

/// What can happen to a connection as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnEvent {
    /// The CM reports the connection as established, and the CONNACK is legal.
    Established,
    /// The connection is to be closed, for this cause.
    Close(Cause),
    /// The QP is in the error state.
    QpError,
    /// The send sentinel was posted.
    SqPosted,
    /// The receive sentinel was posted.
    RqPosted,
    /// The send sentinel was flushed.
    SqFlushed,
    /// The receive sentinel was flushed.
    RqFlushed,
    /// A sentinel could not be posted, or was not flushed in time.
    DrainFailed,
    /// The QP is gone.
    QpDestroyed,
}

/// What a change of state calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing else is to be done.
    Nothing,
    /// The event does not belong here; it is counted and changes nothing.
    Ignored,
    /// Process the messages that came early, and begin to send.
    Open,
    /// No new work; fail what has not been sent; disconnect.
    Shut,
    /// The QP must be destroyed as it is.
    Destroy,
    /// Everything that is left ends.
    End,
    /// [`Effect::Shut`] and then [`Effect::End`].
    ShutAndEnd,
}

impl ConnState {
    /// The state after `event`. `drain_deadline` is for a drain that begins now.
    pub(super) const fn after(self, event: ConnEvent, drain_deadline: Instant) -> (Self, Effect) {
        match self {
            Self::Connecting { .. } => self.after_connecting(event),
            Self::Established => self.after_established(event),
            Self::Closing { cause } => Self::after_closing(cause, event, drain_deadline),
            Self::Draining {
                cause,
                deadline,
                sq,
                rq,
                stuck,
            } => Self::after_draining((cause, deadline), (sq, rq, stuck), event),
            Self::Drained { .. } => match event {
                // A close or an error that is noticed late is no news.
                ConnEvent::Close(_)
                | ConnEvent::QpError
                | ConnEvent::QpDestroyed
                | ConnEvent::DrainFailed => (self, Effect::Nothing),
                ConnEvent::Established
                | ConnEvent::SqPosted
                | ConnEvent::RqPosted
                | ConnEvent::SqFlushed
                | ConnEvent::RqFlushed => (self, Effect::Ignored),
            },
        }
    }

    const fn after_connecting(self, event: ConnEvent) -> (Self, Effect) {
        match event {
            ConnEvent::Established => (Self::Established, Effect::Open),
            ConnEvent::Close(_)
            | ConnEvent::QpError
            | ConnEvent::SqPosted
            | ConnEvent::RqPosted
            | ConnEvent::SqFlushed
            | ConnEvent::RqFlushed
            | ConnEvent::DrainFailed
            | ConnEvent::QpDestroyed => self.after_open(event),
        }
    }

    const fn after_established(self, event: ConnEvent) -> (Self, Effect) {
        match event {
            ConnEvent::Established => (self, Effect::Ignored),
            ConnEvent::Close(_)
            | ConnEvent::QpError
            | ConnEvent::SqPosted
            | ConnEvent::RqPosted
            | ConnEvent::SqFlushed
            | ConnEvent::RqFlushed
            | ConnEvent::DrainFailed
            | ConnEvent::QpDestroyed => self.after_open(event),
        }
    }

    /// What a connection that is not closed does, established or not.
    const fn after_open(self, event: ConnEvent) -> (Self, Effect) {
        match event {
            ConnEvent::Close(cause) => (Self::Closing { cause }, Effect::Shut),
            // Nobody had asked for it. The QP is moved to the error state again, in order.
            ConnEvent::QpError => (
                Self::Closing {
                    cause: Cause::DeviceGone,
                },
                Effect::Shut,
            ),
            ConnEvent::QpDestroyed => (
                Self::Drained {
                    cause: Cause::DeviceGone,
                    forced: true,
                },
                Effect::ShutAndEnd,
            ),
            ConnEvent::Established
            | ConnEvent::SqPosted
            | ConnEvent::RqPosted
            | ConnEvent::SqFlushed
            | ConnEvent::RqFlushed
            | ConnEvent::DrainFailed => (self, Effect::Ignored),
        }
    }

    const fn after_closing(cause: Cause, event: ConnEvent, deadline: Instant) -> (Self, Effect) {
        let same = Self::Closing { cause };
        match event {
            ConnEvent::QpError => (
                Self::Draining {
                    cause,
                    deadline,
                    sq: Sentinel::Unposted,
                    rq: Sentinel::Unposted,
                    stuck: false,
                },
                Effect::Nothing,
            ),
            ConnEvent::QpDestroyed => (
                Self::Drained {
                    cause,
                    forced: true,
                },
                Effect::End,
            ),
            ConnEvent::Close(_) => (same, Effect::Nothing),
            ConnEvent::Established
            | ConnEvent::SqPosted
            | ConnEvent::RqPosted
            | ConnEvent::SqFlushed
            | ConnEvent::RqFlushed
            | ConnEvent::DrainFailed => (same, Effect::Ignored),
        }
    }

    const fn after_draining(
        (cause, deadline): (Cause, Instant),
        (sq, rq, stuck): (Sentinel, Sentinel, bool),
        event: ConnEvent,
    ) -> (Self, Effect) {
        let (sq, rq, stuck, effect) = match event {
            ConnEvent::SqPosted => (Sentinel::Posted, rq, stuck, Effect::Nothing),
            ConnEvent::RqPosted => (sq, Sentinel::Posted, stuck, Effect::Nothing),
            ConnEvent::SqFlushed => match sq {
                Sentinel::Posted => (Sentinel::Flushed, rq, stuck, Effect::Nothing),
                Sentinel::Unposted | Sentinel::Flushed => (sq, rq, stuck, Effect::Ignored),
            },
            ConnEvent::RqFlushed => match rq {
                Sentinel::Posted => (sq, Sentinel::Flushed, stuck, Effect::Nothing),
                Sentinel::Unposted | Sentinel::Flushed => (sq, rq, stuck, Effect::Ignored),
            },
            ConnEvent::DrainFailed => match stuck {
                false => (sq, rq, true, Effect::Destroy),
                true => (sq, rq, true, Effect::Nothing),
            },
            ConnEvent::QpDestroyed => {
                return (
                    Self::Drained {
                        cause,
                        forced: true,
                    },
                    Effect::End,
                )
            }
            ConnEvent::Close(_) | ConnEvent::QpError => (sq, rq, stuck, Effect::Nothing),
            ConnEvent::Established => (sq, rq, stuck, Effect::Ignored),
        };
        if matches!((sq, rq), (Sentinel::Flushed, Sentinel::Flushed)) && !stuck {
            let forced = false;
            return (Self::Drained { cause, forced }, Effect::End);
        }
        let next = Self::Draining {
            cause,
            deadline,
            sq,
            rq,
            stuck,
        };
        (next, effect)
    }

    /// The first cause, if there is one.
    pub(super) const fn cause(self) -> Option<Cause> {
        match self {
            Self::Connecting { .. } | Self::Established => None,
            Self::Closing { cause }
            | Self::Draining { cause, .. }
            | Self::Drained { cause, .. } => Some(cause),
        }
    }
}
