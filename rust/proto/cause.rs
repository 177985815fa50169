// SPDX-License-Identifier: GPL-2.0

//! Why messages and connections fail, and the status and health that LNet gets (protocol.md
//! section 17).

use super::{
    chain::ChainError,
    errno::*,
    limits::LimitError, //
};
use crate::wire::{
    IdentityError,
    MsgType,
    ParseError, //
};

/// LNet health status of a message, with LNet's numbers (section 17.2); those that this driver
/// gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Health {
    /// Nothing to blame.
    Ok = 0,
    /// Local NI, may be resent.
    LocalDropped = 2,
    /// Local NI, not resent.
    LocalError = 5,
    /// Local NI, may be resent.
    LocalTimeout = 6,
    /// Peer NI, not resent.
    RemoteError = 7,
    /// Peer NI, may be resent.
    RemoteDropped = 8,
    /// Peer NI, not resent.
    RemoteTimeout = 9,
    /// Both NIs, not resent.
    NetworkTimeout = 10,
}

/// What LNet is told about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// Negative errno.
    pub status: i32,
    /// Whom LNet is to blame. [`Health::Ok`] leaves all health values alone.
    pub health: Health,
}

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Done {
    /// 0, or a negative errno.
    pub status: i32,
    /// Whom LNet is to blame.
    pub health: Health,
    /// GET that succeeded: bytes received.
    pub reply_len: Option<u32>,
}

impl Done {
    /// Success.
    pub const OK: Self = Self {
        status: 0,
        health: Health::Ok,
        reply_len: None,
    };

    /// A GET that brought `len` bytes.
    pub const fn reply(len: u32) -> Self {
        Self {
            reply_len: Some(len),
            ..Self::OK
        }
    }
}

impl From<Outcome> for Done {
    fn from(outcome: Outcome) -> Self {
        Self {
            status: outcome.status,
            health: outcome.health,
            reply_len: None,
        }
    }
}

/// Work that was not accepted comes back with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<T> {
    /// The work.
    pub tx: T,
    /// Why.
    pub cause: Cause,
}

/// How far a message had come when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Nothing of it has been posted.
    Unsent,
    /// Posted, completion outstanding.
    Sending,
    /// Sent; waiting for the peer.
    Waiting,
}

/// What a peer did against the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Violation {
    /// It gave back more credits than it had been sent messages.
    TooManyCredits {
        /// Credits we held.
        held: u16,
        /// Credits that it gave.
        given: u8,
    },
    /// It sent a message that needs a credit when it had none.
    NoCredit(MsgType),
    /// A message that does not belong on a queue pair.
    WrongType(MsgType),
    /// The LNet header inside does not go with the type of the message.
    WrongLnetType(MsgType),
    /// The fragments are more than the message inside.
    DescTooLong {
        /// Sum of the fragments in bytes.
        desc: u32,
        /// Length of the message inside in bytes.
        msg: u32,
    },
    /// An answer whose cookie names no operation that waits for it.
    NoSuchCookie(MsgType),
    /// A GET_DONE says that more was written than there is room for.
    ReplyTooLong {
        /// Bytes that it says were written.
        status: i32,
        /// Size of the sink in bytes.
        sink: u32,
    },
    /// The answer to our CONNREQ is not a CONNACK, or one of another version.
    BadConnAck,
    /// The CONNACK chooses what was not proposed.
    BadParams(LimitError),
}

/// Why an attempt, a connection or an operation failed. The first cause is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    // Before there is a connection.
    /// No memory for a peer.
    NoMemory,
    /// No address, no route, or nobody listens (invalid service id).
    Unreachable,
    /// The attempt took too long: our timer, or the CM's UNREACHABLE.
    ConnectTimeout,
    /// The message waited too long for a connection.
    WaitTimeout,
    /// The peer rejected us.
    Rejected,
    /// The attempt failed for another reason: negative errno.
    ConnectFailed(i32),
    /// A connection came up, but its peer is gone.
    PeerGone,
    // The end of a connection.
    /// Closed by us on request: peer deleted, NI shut down.
    Deleted,
    /// Closed by the peer.
    Disconnected,
    /// A deadline passed.
    Timeout,
    /// Wrong NID or incarnation in a message.
    Stale(IdentityError),
    /// The peer has been restarted.
    NewIncarnation,
    /// A message that cannot be parsed.
    BadMessage(ParseError),
    /// A message that the protocol does not allow here.
    Protocol(Violation),
    /// A send work request failed: vendor-neutral completion status.
    SendFailed(u32),
    /// A receive failed.
    RecvFailed,
    /// Requests were flushed although nobody here had moved the QP to the error state.
    Flushed,
    /// A post call failed: negative errno.
    PostFailed(i32),
    /// LNet refused a message: negative errno.
    LnetRefused(i32),
    /// A completion that belongs to nothing.
    BadCompletion,
    /// The engine was given what its contract rules out.
    BadInput,
    /// A poll or re-arm of the completion queue failed.
    CqError,
    /// The queue pair or the device is in error, or gone.
    DeviceGone,
    // The end of one operation only.
    /// The engine's table of operations is full.
    TooMany,
    /// The peer answered with this negative errno.
    Remote(i32),
    /// The peer's descriptor does not fit what we have.
    Descriptor(ChainError),
}

/// `errno` as a negative number, whichever sign it came with; 0 becomes `-EIO`.
const fn negative(errno: i32) -> i32 {
    match errno {
        0 => const { 0i32.wrapping_sub(EIO) },
        e if e > 0 => 0i32.wrapping_sub(e),
        e => e,
    }
}

const fn outcome(errno: i32, health: Health) -> Outcome {
    Outcome {
        status: negative(errno),
        health,
    }
}

impl Cause {
    /// What LNet is told about a message that fails for this reason after having come to `stage`.
    ///
    /// The table of section 17.1, with these differences: a connect timeout and UNREACHABLE are
    /// network timeouts (LU-13571); an answer of the peer that refuses us is a remote status
    /// (LU-14540); a message that is in flight when its connection times out keeps that cause.
    pub const fn outcome_at(self, stage: Stage) -> Outcome {
        match self {
            Self::NoMemory => outcome(EHOSTUNREACH, Health::LocalError),
            Self::Unreachable => outcome(EHOSTUNREACH, Health::NetworkTimeout),
            Self::ConnectTimeout | Self::WaitTimeout => outcome(ETIMEDOUT, Health::NetworkTimeout),
            Self::Rejected => outcome(ECONNREFUSED, Health::RemoteDropped),
            Self::ConnectFailed(errno) => outcome(errno, Health::LocalDropped),
            Self::PeerGone => outcome(ECONNABORTED, Health::LocalError),
            Self::TooMany => outcome(ENOMEM, Health::Ok),
            Self::Remote(status) => outcome(status, Health::RemoteError),
            Self::Descriptor(error) => outcome(error.errno(), Health::RemoteError),
            Self::DeviceGone => outcome(ENETDOWN, Health::LocalError),
            Self::Timeout => match stage {
                Stage::Unsent => outcome(ECONNABORTED, Health::LocalTimeout),
                Stage::Sending => outcome(ECONNABORTED, Health::NetworkTimeout),
                Stage::Waiting => outcome(ECONNABORTED, Health::RemoteTimeout),
            },
            Self::PostFailed(errno) => match stage {
                Stage::Unsent => outcome(ECONNABORTED, Health::LocalError),
                Stage::Sending => outcome(errno, Health::Ok),
                Stage::Waiting => outcome(ECONNABORTED, Health::Ok),
            },
            Self::Deleted
            | Self::Disconnected
            | Self::Stale(_)
            | Self::NewIncarnation
            | Self::BadMessage(_)
            | Self::Protocol(_)
            | Self::SendFailed(_)
            | Self::RecvFailed
            | Self::Flushed
            | Self::LnetRefused(_)
            | Self::BadCompletion
            | Self::BadInput
            | Self::CqError => match stage {
                Stage::Unsent => outcome(ECONNABORTED, Health::LocalError),
                Stage::Sending => outcome(EIO, Health::RemoteDropped),
                Stage::Waiting => outcome(ECONNABORTED, Health::Ok),
            },
        }
    }

    /// What LNet is told about a message of which nothing has been sent.
    pub const fn outcome(self) -> Outcome {
        self.outcome_at(Stage::Unsent)
    }

    /// What LNet is told about waiting messages of a peer that is deleted or whose NI is shut
    /// down: they have no connection, and the table has a line of its own for them.
    pub const fn outcome_waiting(self) -> Outcome {
        match self {
            Self::Deleted => outcome(EIO, Health::LocalError),
            _ => self.outcome(),
        }
    }

    /// The error of a connection that ends for this reason: negative errno, or 0 when it is an
    /// orderly end, after which LNet is not told that the peer is down.
    pub const fn errno(self) -> i32 {
        match self {
            Self::Deleted | Self::Disconnected => 0,
            Self::Timeout => negative(ETIMEDOUT),
            Self::Stale(_) | Self::NewIncarnation => negative(ESTALE),
            Self::BadMessage(_) | Self::Protocol(_) => negative(EPROTO),
            Self::PostFailed(errno) | Self::LnetRefused(errno) => negative(errno),
            Self::SendFailed(_)
            | Self::RecvFailed
            | Self::Flushed
            | Self::BadCompletion
            | Self::BadInput
            | Self::CqError => negative(EIO),
            Self::NoMemory
            | Self::Unreachable
            | Self::ConnectTimeout
            | Self::WaitTimeout
            | Self::Rejected
            | Self::ConnectFailed(_)
            | Self::PeerGone
            | Self::DeviceGone
            | Self::TooMany
            | Self::Remote(_)
            | Self::Descriptor(_) => self.outcome().status,
        }
    }
}
