// SPDX-License-Identifier: GPL-2.0

//! Text of the engine's causes and states for log lines and dumps, one line each.

use super::{
    cause::{
        Cause,
        Violation, //
    },
    chain::ChainError,
    conn::ConnSnapshot,
    limits::LimitError,
    peer::PeerSnapshot, //
};
use core::fmt;

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroDepth => f.write_str("a queue depth that nothing can be sent with"),
            Self::ZeroFrags => f.write_str("0 fragments"),
            Self::DepthTooLarge { found, limit } => {
                write!(f, "queue depth {found}, and {limit} was proposed")
            }
            Self::FragsTooLarge { found, limit } => {
                write!(f, "{found} fragments, and {limit} were proposed")
            }
            Self::MsgTooLarge { found } => write!(f, "messages of {found} bytes"),
            Self::DeviceTooSmall => f.write_str("the device cannot serve a queue depth of 1"),
        }
    }
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SourceTooShort => "its descriptor wants more than the message has",
            Self::SinkTooShort => "its descriptor is shorter than the message",
            Self::TooManyWrites => "its descriptor takes more RDMA WRITEs than were agreed",
            Self::BadArgument => "its descriptor cannot be read any more",
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyCredits { held, given } => {
                write!(
                    f,
                    "{given} credits given back, {held} held: more than the queue is deep"
                )
            }
            Self::NoCredit(kind) => write!(f, "{} without a credit", kind.name()),
            Self::WrongType(kind) => write!(f, "{} on a queue pair", kind.name()),
            Self::WrongLnetType(kind) => {
                write!(f, "{} with an LNet header of the wrong type", kind.name())
            }
            Self::DescTooLong { desc, msg } => {
                write!(f, "fragments of {desc} bytes for a message of {msg}")
            }
            Self::NoSuchCookie(kind) => write!(f, "{} for nothing that waits", kind.name()),
            Self::ReplyTooLong { status, sink } => {
                write!(f, "{status} bytes written to a sink of {sink}")
            }
            Self::BadConnAck => f.write_str("not a CONNACK, or not an answer to our CONNREQ"),
            Self::BadParams(e) => write!(f, "a CONNACK with {e}"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMemory => f.write_str("no memory for the peer"),
            Self::Unreachable => f.write_str("no route, or nobody listens there"),
            Self::ConnectTimeout => f.write_str("no answer to the connection request"),
            Self::WaitTimeout => f.write_str("waited too long for a connection"),
            Self::Rejected => f.write_str("the peer rejected us"),
            Self::ConnectFailed(e) => write!(f, "connecting failed with {e}"),
            Self::PeerGone => f.write_str("the peer was given up meanwhile"),
            Self::Deleted => f.write_str("closed on request"),
            Self::Disconnected => f.write_str("closed by the peer"),
            Self::Timeout => f.write_str("a message was not done in time"),
            Self::Stale(e) => write!(f, "not who it was: {e}"),
            Self::NewIncarnation => f.write_str("the peer was restarted"),
            Self::BadMessage(e) => write!(f, "bad message: {e}"),
            Self::Protocol(e) => write!(f, "against the protocol: {e}"),
            Self::SendFailed(status) => write!(f, "a send failed, completion status {status}"),
            Self::RecvFailed => f.write_str("a receive failed"),
            Self::Flushed => f.write_str("the queue pair went into error by itself"),
            Self::PostFailed(e) => write!(f, "posting failed with {e}"),
            Self::LnetRefused(e) => write!(f, "LNet refused a message with {e}"),
            Self::BadCompletion => f.write_str("a completion that belongs to nothing"),
            Self::BadInput => f.write_str("driver bug: input against the engine's contract"),
            Self::CqError => f.write_str("the completion queue failed"),
            Self::DeviceGone => f.write_str("the device is in error or gone"),
            Self::TooMany => f.write_str("too many messages at a time"),
            Self::Remote(e) => write!(f, "the peer answered {e}"),
            Self::Descriptor(e) => write!(f, "the peer's answer does not fit: {e}"),
        }
    }
}

/// Fields by name, as the C driver's dump names what both have (lnd-contract.md 13.1).
impl fmt::Display for ConnSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "state {} depth {} credits {} outstanding {} reserved {} granted {} noops/sends {}/{}",
            self.state,
            self.queue_depth,
            self.credits,
            self.outstanding,
            self.reserved,
            self.granted,
            self.noops,
            self.sends,
        )?;
        write!(
            f,
            " sq {} rx posted {} unposted {} lnet {} early {} ops {} ({} ours)",
            self.sq_used,
            self.rx_posted,
            self.rx_to_post,
            self.rx_held,
            self.rx_parked,
            self.ops,
            self.ops_local,
        )?;
        write!(
            f,
            " queued rsrvd {} credit {} nocred {} inv {} drain {}",
            self.queue_reserve,
            self.queue_credit,
            self.queue_reply,
            self.queue_inv,
            self.queue_drain,
        )?;
        let c = &self.counters;
        write!(
            f,
            " alive {} s msgs rx {} tx {} noops {} writes {}",
            self.alive.0 / NANOS,
            c.rx_msgs,
            c.tx_msgs,
            c.tx_noops,
            c.tx_writes,
        )?;
        match &self.cause {
            Some(cause) => write!(f, " error {} ({cause})", cause.errno()),
            None => Ok(()),
        }
    }
}

/// Nanoseconds of a second.
const NANOS: u64 = 1_000_000_000;

impl fmt::Display for PeerSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "last_alive {} s races {} reconnected {} waiting {} conns {} up {} accepting {}",
            self.last_alive.0 / NANOS,
            self.races,
            self.retries,
            self.waiting,
            self.conns,
            self.up,
            self.accepting,
        )?;
        write!(
            f,
            " connecting {} reconnecting {} dying {}",
            self.connecting, self.reconnecting, self.dying,
        )?;
        match self.version {
            Some(version) => write!(f, " version {:#x} stamp {}", version.to_wire(), self.stamp)?,
            None => f.write_str(" version unknown")?,
        }
        write!(
            f,
            " offer {}/{}",
            self.offer.queue_depth, self.offer.max_frags
        )?;
        if self.deleted {
            f.write_str(" deleted")
        } else {
            Ok(())
        }
    }
}
