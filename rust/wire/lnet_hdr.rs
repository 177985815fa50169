// SPDX-License-Identifier: GPL-2.0

//! The LNet header that IMMEDIATE, PUT_REQ and GET_REQ carry (section 5).
//!
//! Unlike everything else it is always little-endian, whoever sends it.

use super::{
    bytes::{
        Endian,
        Reader,
        Writer, //
    },
    Nid,
    LNET_HDR_SIZE, //
};
use core::fmt;

/// Size of the part whose layout depends on the type, in bytes.
const UNION_SIZE: usize = 40;

/// Offset of the room for the REPLY in the part of a GET: a handle, match bits, portal and offset.
const SINK_LENGTH_OFFSET: usize = 32;

/// Type of an LNet message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LnetMsgType {
    /// Acknowledges a PUT.
    Ack,
    /// Carries data to the destination.
    Put,
    /// Asks for data.
    Get,
    /// Carries the data that a GET asked for.
    Reply,
    /// Never used by o2iblnd.
    Hello,
    /// No type that LNet has.
    Unknown(u32),
}

impl LnetMsgType {
    /// The type with wire value `raw`.
    pub const fn from_wire(raw: u32) -> Self {
        match raw {
            0 => Self::Ack,
            1 => Self::Put,
            2 => Self::Get,
            3 => Self::Reply,
            4 => Self::Hello,
            other => Self::Unknown(other),
        }
    }

    /// The wire value.
    pub const fn to_wire(self) -> u32 {
        match self {
            Self::Ack => 0,
            Self::Put => 1,
            Self::Get => 2,
            Self::Reply => 3,
            Self::Hello => 4,
            Self::Unknown(other) => other,
        }
    }
}

impl fmt::Display for LnetMsgType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ack => f.write_str("ACK"),
            Self::Put => f.write_str("PUT"),
            Self::Get => f.write_str("GET"),
            Self::Reply => f.write_str("REPLY"),
            Self::Hello => f.write_str("HELLO"),
            Self::Unknown(other) => write!(f, "LNet type {other:#x}"),
        }
    }
}

/// An LNet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LnetHdr {
    /// Final destination.
    pub dest_nid: Nid,
    /// Original source, which is not the router that forwarded the message.
    pub src_nid: Nid,
    /// Process id at the destination, normally 12345.
    pub dest_pid: u32,
    /// Process id at the source, normally 12345.
    pub src_pid: u32,
    /// Type of the message.
    pub kind: LnetMsgType,
    /// Payload bytes; 0 for ACK and GET.
    pub payload_len: u32,
    /// What depends on the type, as on the wire: little-endian or opaque, zero where unused.
    /// LNet keeps these bytes in the same form, so they are never swapped.
    pub msg: [u8; UNION_SIZE],
}

impl LnetHdr {
    /// Reads the header from its 72 wire bytes.
    pub fn from_bytes(bytes: &[u8; LNET_HDR_SIZE]) -> Self {
        // The length is right by type, so the default is never taken.
        Self::parse(&mut Reader::new(bytes, Endian::Little)).unwrap_or(Self::ZERO)
    }

    /// The 72 wire bytes.
    pub fn to_bytes(self) -> [u8; LNET_HDR_SIZE] {
        let mut bytes = [0; LNET_HDR_SIZE];
        // The length is right by type, so this always succeeds.
        let _ = self.emit_to(&mut Writer::new(&mut bytes, Endian::Little));
        bytes
    }

    /// Bytes that a GET has room for. `None` for another type of message.
    pub fn get_room(&self) -> Option<u32> {
        if self.kind != LnetMsgType::Get {
            return None;
        }
        Reader::at(&self.msg, SINK_LENGTH_OFFSET, Endian::Little).u32()
    }

    const ZERO: Self = Self {
        dest_nid: Nid(0),
        src_nid: Nid(0),
        dest_pid: 0,
        src_pid: 0,
        kind: LnetMsgType::Ack,
        payload_len: 0,
        msg: [0; UNION_SIZE],
    };

    /// Reads the header at `offset` of a message.
    pub(super) fn parse_at(msg: &[u8], offset: usize) -> Option<Self> {
        Self::parse(&mut Reader::at(msg, offset, Endian::Little))
    }

    fn parse(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            dest_nid: Nid(reader.u64()?),
            src_nid: Nid(reader.u64()?),
            dest_pid: reader.u32()?,
            src_pid: reader.u32()?,
            kind: LnetMsgType::from_wire(reader.u32()?),
            payload_len: reader.u32()?,
            msg: reader.array()?,
        })
    }

    /// Writes the 72 bytes, in little-endian order whatever the order of `writer`.
    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Option<()> {
        writer.bytes(&self.to_bytes())
    }

    fn emit_to(&self, writer: &mut Writer<'_>) -> Option<()> {
        writer.u64(self.dest_nid.0)?;
        writer.u64(self.src_nid.0)?;
        writer.u32(self.dest_pid)?;
        writer.u32(self.src_pid)?;
        writer.u32(self.kind.to_wire())?;
        writer.u32(self.payload_len)?;
        writer.bytes(&self.msg)
    }
}
