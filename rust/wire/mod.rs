// SPDX-License-Identifier: GPL-2.0

//! The o2iblnd wire protocol: message formats, both byte orders, versions 1 and 2.
//!
//! The formats are those of Documentation/protocol.md, whose sections are cited as "section N"
//! throughout. This room is pure: no `unsafe`, no allocation, no kernel interface and no panic
//! that input can reach. The same files are compiled into the module and into the host tests.
//!
//! # Reading
//!
//! [`Message::parse`] makes the checks of section 9.1 in the order of section 9.1 and then those
//! that the C driver leaves out but that need nothing but the message itself. What it returns is
//! legal in form: every length fits, every fragment can be read. Payload and fragments stay in the
//! receive buffer and are borrowed; everything else is copied out and in native order. A
//! descriptor that must outlive the borrow is kept as a [`Desc`], which is not parsed again.
//! What a message means at this moment, on this connection, is the engine's to judge;
//! [`Header::check_identity`] is the check of section 9.3.
//!
//! A connection request is first looked at with [`Probe::new`] (section 14.3, steps 2 to 4).
//! The private data of a reject is read by [`Reject::parse`].
//!
//! # Writing
//!
//! [`emit()`] writes a whole message; [`emit_detached`] writes an IMMEDIATE whose payload follows
//! from somewhere else, with a checksum that the payload can be fed into. [`emit()`] refuses what
//! [`Message::parse`] would refuse, so what it accepts can be parsed back.
//! We always send in [`Endian::NATIVE`]; the other order exists to play a peer of the other kind.
//!
//! # Interface
//!
//! Fields are public except where a type has an invariant.
//!
//! ```text
//! identities   Nid(u64)  Stamp(u64)  Cookie(u64, never swapped)  Version { V1, V2 }
//!              Identity { peer, peer_stamp, local, local_stamp }
//! messages     Message { hdr: Header, swapped, nob, body: BodyIn }   Message::parse(&[u8])
//!              Body<D, P>: kind() map(D -> E, P -> Q)   BodyIn   BodyOut
//!              Header { version, credits, src, src_stamp, dst, dst_stamp }
//!              Header::check_identity(&self, &Identity)
//!              ConnParams { queue_depth, max_frags, max_msg_size }
//!              Completion { cookie, status }
//!              LnetHdr { dest_nid, src_nid, dest_pid, src_pid, kind, payload_len, msg: [u8; 40] }
//! descriptors  Desc: key() total() view(&[u8]) -> Option<DescView>
//!              DescView: desc() frag(u16) frags()
//!              Frag { addr: u64, nob: u32 }
//! emission     emit(&Header, &BodyOut, checksum: bool, Endian, &mut [u8]) -> length
//!              emit_detached(&Header, &LnetHdr, Endian, &mut [u8]) -> Detached
//!              Detached: update(&[u8]) finish(&mut [u8])
//! rejects      Reject { version: u16, why: RejectReason, stamp, params: Option<ConnParams> }
//!              Reject::parse(&[u8])  Reject::anonymous(why)  emit(&self, Endian, &mut [u8])
//! first look   Probe::new(&[u8])
//! errors       ParseError  EmitError  RejectError  IdentityError, with text for log lines
//! ```
//!
//! The [`Display`](core::fmt::Display) here is core's. The kernel's print macros want
//! `kernel::fmt::Display`, which the driver implements for these types by calling this one.

#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod bytes;
mod checksum;
mod connparams;
mod desc;
mod emit;
mod error;
mod frozen;
mod header;
mod lnet_hdr;
mod msg;
mod msg_type;
mod nid;
mod reject;
mod stamp;

pub use self::bytes::Endian;
pub use self::checksum::{
    ByteSign,
    Checksum, //
};
pub use self::connparams::ConnParams;
pub use self::desc::{
    Desc,
    DescOut,
    DescView,
    Frag, //
};
pub use self::emit::{
    emit,
    emit_detached,
    BodyOut,
    Detached, //
};
pub use self::error::{
    EmitError,
    IdentityError,
    ParseError,
    RejectError, //
};
pub use self::frozen::Probe;
pub use self::header::{
    Header,
    Identity, //
};
pub use self::lnet_hdr::{
    LnetHdr,
    LnetMsgType, //
};
pub use self::msg::{
    Body,
    Completion,
    Cookie,
    Message, //
};
pub use self::msg_type::MsgType;
pub use self::nid::Nid;
pub use self::reject::{
    Reject,
    RejectReason, //
};
pub use self::stamp::Stamp;

/// Magic of every o2iblnd message and reject.
pub const MAGIC: u32 = 0x0be9_1b91;

/// Magic set aside for a unified LNet protocol. Never sent; a connection request that carries it
/// is rejected, a reject that carries it is accepted.
pub const UNIFIED_MAGIC: u32 = 0x4572_6963;

/// Size of every message buffer, in bytes. Messages are never larger.
pub const MSG_SIZE: usize = ConnParams::MAX_MSG_SIZE as usize;

/// Size of the message header, in bytes.
pub const HDR_SIZE: usize = 48;

/// Size of the LNet header that IMMEDIATE, PUT_REQ and GET_REQ carry, in bytes.
pub const LNET_HDR_SIZE: usize = 72;

/// Offset of the payload in an IMMEDIATE message: header and LNet header, in bytes.
pub const IMMEDIATE_HDR: usize = HDR_SIZE + LNET_HDR_SIZE;

/// Largest payload of an IMMEDIATE message, in bytes.
pub const MAX_IMMEDIATE: usize = MSG_SIZE - IMMEDIATE_HDR;

/// Most fragments in a descriptor: 256 pages and one more for an unaligned start. Releases before
/// 2.15.0 use 256.
pub const MAX_FRAGS: u16 = 257;

/// Size of CONNREQ and CONNACK, in bytes: all that rdma_cm leaves in an InfiniBand CM REQ.
pub const CONN_MSG_SIZE: usize = HDR_SIZE + ConnParams::SIZE;

/// Size of the private data of a reject, in bytes.
pub const REJECT_SIZE: usize = 24;

/// NOOPs in flight that need no credit, in version 2.
pub const OOB_V2: u16 = 2;

/// NOOPs in flight that need no credit, in version 1.
pub const OOB_V1: u16 = 0;

/// Queue depth of every version 1 connection.
pub const V1_QUEUE_DEPTH: u16 = 8;

/// Owed credits at which a version 1 connection sends a NOOP.
pub const V1_CREDIT_HIGH_WATER: u16 = 7;

/// Version of the protocol that a message or connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Version 1, `0x11`.
    V1,
    /// Version 2, `0x12`: current, and the default.
    V2,
}

impl Version {
    /// The version with wire value `raw`.
    pub const fn from_wire(raw: u16) -> Option<Self> {
        match raw {
            0x11 => Some(Self::V1),
            0x12 => Some(Self::V2),
            _ => None,
        }
    }

    /// The wire value.
    pub const fn to_wire(self) -> u16 {
        match self {
            Self::V1 => 0x11,
            Self::V2 => 0x12,
        }
    }

    /// NOOPs in flight that need no credit.
    pub const fn oob(self) -> u16 {
        match self {
            Self::V1 => OOB_V1,
            Self::V2 => OOB_V2,
        }
    }
}
