// SPDX-License-Identifier: GPL-2.0

//! Errors of messages. Their [`Display`](core::fmt::Display) texts are for log lines: they give the
//! value that was found and the one that was expected.

use super::{
    MsgType,
    Nid,
    Stamp,
    MAX_FRAGS,
    MAX_IMMEDIATE, //
};
use core::fmt;

/// Why a received message is not an o2iblnd message. One variant per check, in the order in which
/// [`Message::parse`](super::Message::parse) makes them (section 9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParseError {
    /// Fewer bytes than the frozen part of the header.
    TooShort {
        /// Bytes received.
        len: usize,
    },
    /// The magic is neither ours nor its byte swap.
    BadMagic {
        /// The magic, as read in this machine's byte order.
        magic: u32,
    },
    /// The version is neither 1 nor 2.
    BadVersion {
        /// The version received.
        version: u16,
    },
    /// Fewer bytes than a header.
    ShortHeader {
        /// Bytes received.
        len: usize,
    },
    /// The message says that it is longer than what arrived.
    Truncated {
        /// Length that the message states.
        nob: u32,
        /// Bytes received.
        len: usize,
    },
    /// The checksum is there and wrong in both forms.
    BadChecksum {
        /// Checksum that the message states.
        found: u32,
        /// Checksum of what arrived, in the form that we send.
        computed: u32,
    },
    /// The source NID is the wildcard.
    SrcNidAny,
    /// The message is too short for its type.
    BodyTooShort {
        /// Type of the message.
        kind: MsgType,
        /// Length that the message states.
        nob: u32,
    },
    /// There is no such message type.
    UnknownType {
        /// The type received.
        kind: u8,
    },
    /// A descriptor with no or with too many fragments.
    BadFragCount {
        /// Fragments that the descriptor states.
        nfrags: u32,
    },
    /// The message ends before its last fragment.
    FragsTruncated {
        /// Fragments that the descriptor states.
        nfrags: u32,
        /// Length that the message states.
        nob: u32,
    },
    /// The sum of the fragment lengths does not fit 32 bits. Not checked by the C driver.
    FragSumOverflow,
    /// An IMMEDIATE that is shorter than the payload it states. The C driver finds this later,
    /// if at all.
    PayloadTruncated {
        /// Payload length in the LNet header.
        payload_len: u32,
        /// Length that the message states.
        nob: u32,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { len } => write!(f, "{len} bytes are too short for any message"),
            Self::BadMagic { magic } => write!(f, "bad magic {magic:#010x}"),
            Self::BadVersion { version } => write!(f, "bad version {version:#x}"),
            Self::ShortHeader { len } => write!(f, "{len} bytes are too short for a header"),
            Self::Truncated { nob, len } => write!(f, "{len} bytes of a message of {nob}"),
            Self::BadChecksum { found, computed } => {
                write!(f, "bad checksum {found:#010x}, expected {computed:#010x}")
            }
            Self::SrcNidAny => f.write_str("source NID is the wildcard"),
            Self::BodyTooShort { kind, nob } => {
                write!(f, "{nob} bytes are too short for {kind}")
            }
            Self::UnknownType { kind } => write!(f, "unknown message type {kind:#04x}"),
            Self::BadFragCount { nfrags } => {
                write!(f, "{nfrags} fragments, expected 1 to {MAX_FRAGS}")
            }
            Self::FragsTruncated { nfrags, nob } => {
                write!(f, "{nob} bytes are too short for {nfrags} fragments")
            }
            Self::FragSumOverflow => f.write_str("sum of fragment lengths overflows"),
            Self::PayloadTruncated { payload_len, nob } => {
                write!(
                    f,
                    "{nob} bytes are too short for a payload of {payload_len}"
                )
            }
        }
    }
}

/// Why a message cannot be emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitError {
    /// The buffer is smaller than the message.
    BufferTooSmall {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// The source NID is the wildcard.
    SrcNidAny,
    /// More payload than fits an IMMEDIATE.
    PayloadTooLong {
        /// Payload length in the LNet header.
        payload_len: u32,
    },
    /// The payload is not as long as the LNet header says.
    PayloadMismatch {
        /// Payload length in the LNet header.
        payload_len: u32,
        /// Payload bytes given.
        given: usize,
    },
    /// A descriptor with no or with too many fragments.
    BadFragCount {
        /// Fragments given.
        nfrags: usize,
    },
    /// The sum of the fragment lengths does not fit 32 bits.
    FragSumOverflow,
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferTooSmall { need, have } => {
                write!(f, "a message of {need} bytes for a buffer of {have}")
            }
            Self::SrcNidAny => f.write_str("source NID is the wildcard"),
            Self::PayloadTooLong { payload_len } => {
                write!(
                    f,
                    "payload of {payload_len} bytes, at most {MAX_IMMEDIATE} fit"
                )
            }
            Self::PayloadMismatch { payload_len, given } => {
                write!(f, "payload of {given} bytes, header says {payload_len}")
            }
            Self::BadFragCount { nfrags } => {
                write!(f, "{nfrags} fragments, expected 1 to {MAX_FRAGS}")
            }
            Self::FragSumOverflow => f.write_str("sum of fragment lengths overflows"),
        }
    }
}

/// Why the private data of a CM reject is not an o2iblnd reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectError {
    /// Fewer than 7 bytes, so there is not even a reason.
    TooShort {
        /// Bytes received.
        len: usize,
    },
    /// The magic is neither ours nor the unified one, in either byte order.
    BadMagic {
        /// The magic, as read in this machine's byte order.
        magic: u32,
    },
}

impl fmt::Display for RejectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { len } => write!(f, "{len} bytes are too short for a reject"),
            Self::BadMagic { magic } => write!(f, "bad magic {magic:#010x} in a reject"),
        }
    }
}

/// Which identity in a message is not the one of its connection (section 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdentityError {
    /// The source is not the peer.
    SrcNid {
        /// Source of the message.
        found: Nid,
        /// NID of the peer.
        expected: Nid,
    },
    /// The destination is not this NI.
    DstNid {
        /// Destination of the message.
        found: Nid,
        /// NID of this NI.
        expected: Nid,
    },
    /// The source is another incarnation of the peer.
    SrcStamp {
        /// Source incarnation in the message.
        found: Stamp,
        /// Incarnation of the peer when it connected.
        expected: Stamp,
    },
    /// The message is for another incarnation of this NI.
    DstStamp {
        /// Destination incarnation in the message.
        found: Stamp,
        /// Incarnation of this NI.
        expected: Stamp,
    },
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SrcNid { found, expected } => write!(f, "message from {found}, not {expected}"),
            Self::DstNid { found, expected } => write!(f, "message for {found}, not {expected}"),
            Self::SrcStamp { found, expected } => {
                write!(f, "message from incarnation {found}, not {expected}")
            }
            Self::DstStamp { found, expected } => {
                write!(f, "message for incarnation {found}, not {expected}")
            }
        }
    }
}
