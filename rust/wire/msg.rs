// SPDX-License-Identifier: GPL-2.0

//! Received messages: types, bodies and the checks of section 9.1.

use super::{
    bytes::{
        widen,
        Endian,
        Reader,
        Writer, //
    },
    header::RawHeader,
    ByteSign,
    Checksum,
    ConnParams,
    DescView,
    Header,
    LnetHdr,
    ParseError,
    Probe,
    HDR_SIZE,
    IMMEDIATE_HDR, //
};
use core::fmt;

/// Offset of the LNet header, where a message has one.
const LNET_HDR_OFFSET: usize = HDR_SIZE;
/// Offset of the descriptor in a PUT_ACK.
const PUT_ACK_DESC_OFFSET: u16 = 64;
/// Offset of the descriptor in a GET_REQ.
const GET_REQ_DESC_OFFSET: u16 = 128;
/// Offset of version and type: the end of magic and version.
const FROZEN_SIZE: usize = 6;

/// Type of a message (section 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MsgType {
    /// Connection request, in CM private data.
    ConnReq,
    /// Connection accepted, in CM private data.
    ConnAck,
    /// Returns credits, keeps the connection alive.
    Noop,
    /// A whole LNet message.
    Immediate,
    /// Source to sink: I have data.
    PutReq,
    /// Sink to source: I do not want it, or cannot take it.
    PutNak,
    /// Sink to source: write it here.
    PutAck,
    /// Source to sink: it is written.
    PutDone,
    /// Sink to source: write your data here.
    GetReq,
    /// Source to sink: it is written.
    GetDone,
}

impl MsgType {
    /// All types.
    pub const ALL: [Self; 10] = [
        Self::ConnReq,
        Self::ConnAck,
        Self::Noop,
        Self::Immediate,
        Self::PutReq,
        Self::PutNak,
        Self::PutAck,
        Self::PutDone,
        Self::GetReq,
        Self::GetDone,
    ];

    /// The type with wire value `raw`.
    pub const fn from_wire(raw: u8) -> Option<Self> {
        Some(match raw {
            0xc0 => Self::ConnReq,
            0xc1 => Self::ConnAck,
            0xd0 => Self::Noop,
            0xd1 => Self::Immediate,
            0xd2 => Self::PutReq,
            0xd3 => Self::PutNak,
            0xd4 => Self::PutAck,
            0xd5 => Self::PutDone,
            0xd6 => Self::GetReq,
            0xd7 => Self::GetDone,
            _ => return None,
        })
    }

    /// The wire value.
    pub const fn to_wire(self) -> u8 {
        match self {
            Self::ConnReq => 0xc0,
            Self::ConnAck => 0xc1,
            Self::Noop => 0xd0,
            Self::Immediate => 0xd1,
            Self::PutReq => 0xd2,
            Self::PutNak => 0xd3,
            Self::PutAck => 0xd4,
            Self::PutDone => 0xd5,
            Self::GetReq => 0xd6,
            Self::GetDone => 0xd7,
        }
    }

    /// Fewest bytes of a message of this type (section 4.9). A descriptor counts without its
    /// fragments, an IMMEDIATE without its payload.
    pub const fn min_nob(self) -> u32 {
        match self {
            Self::ConnReq | Self::ConnAck => 56,
            Self::Noop => 48,
            Self::Immediate => 120,
            Self::PutReq => 128,
            Self::PutAck => 72,
            Self::GetReq => 136,
            Self::PutNak | Self::PutDone | Self::GetDone => 60,
        }
    }

    /// The name, as in the specification.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConnReq => "CONNREQ",
            Self::ConnAck => "CONNACK",
            Self::Noop => "NOOP",
            Self::Immediate => "IMMEDIATE",
            Self::PutReq => "PUT_REQ",
            Self::PutNak => "PUT_NAK",
            Self::PutAck => "PUT_ACK",
            Self::PutDone => "PUT_DONE",
            Self::GetReq => "GET_REQ",
            Self::GetDone => "GET_DONE",
        }
    }
}

impl fmt::Display for MsgType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Names a transmission to the side that chose it.
///
/// The other side echoes it bit for bit, so it is never swapped: the number is the wire bytes read
/// in this machine's byte order, and means nothing for a cookie that somebody else chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cookie(pub u64);

impl Cookie {
    fn parse(reader: &mut Reader<'_>) -> Option<Self> {
        reader.array().map(u64::from_ne_bytes).map(Self)
    }

    pub(super) fn emit(self, writer: &mut Writer<'_>) -> Option<()> {
        writer.bytes(&self.0.to_ne_bytes())
    }
}

/// Body of PUT_NAK, PUT_DONE and GET_DONE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Completion {
    /// Cookie of the side that waits.
    pub cookie: Cookie,
    /// Negative Linux errno, or success: 0, or bytes moved (section 10.6).
    pub status: i32,
}

impl Completion {
    fn parse(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            cookie: Cookie::parse(reader)?,
            status: reader.i32()?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Option<()> {
        self.cookie.emit(writer)?;
        writer.i32(self.status)
    }
}

/// Body of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// CONNREQ.
    ConnReq(ConnParams),
    /// CONNACK.
    ConnAck(ConnParams),
    /// NOOP.
    Noop,
    /// IMMEDIATE.
    Immediate {
        /// LNet header.
        hdr: LnetHdr,
        /// Exactly `hdr.payload_len` bytes.
        payload: &'a [u8],
    },
    /// PUT_REQ.
    PutReq {
        /// LNet header.
        hdr: LnetHdr,
        /// The source's cookie.
        cookie: Cookie,
    },
    /// PUT_NAK.
    PutNak(Completion),
    /// PUT_ACK.
    PutAck {
        /// The cookie of the PUT_REQ.
        src_cookie: Cookie,
        /// The sink's cookie.
        dst_cookie: Cookie,
        /// The sink's buffer.
        desc: DescView<'a>,
    },
    /// PUT_DONE.
    PutDone(Completion),
    /// GET_REQ.
    GetReq {
        /// LNet header.
        hdr: LnetHdr,
        /// The sink's cookie.
        cookie: Cookie,
        /// The sink's buffer.
        desc: DescView<'a>,
    },
    /// GET_DONE.
    GetDone(Completion),
}

impl<'a> Body<'a> {
    /// The type of the message.
    pub const fn kind(&self) -> MsgType {
        match self {
            Self::ConnReq(_) => MsgType::ConnReq,
            Self::ConnAck(_) => MsgType::ConnAck,
            Self::Noop => MsgType::Noop,
            Self::Immediate { .. } => MsgType::Immediate,
            Self::PutReq { .. } => MsgType::PutReq,
            Self::PutNak(_) => MsgType::PutNak,
            Self::PutAck { .. } => MsgType::PutAck,
            Self::PutDone(_) => MsgType::PutDone,
            Self::GetReq { .. } => MsgType::GetReq,
            Self::GetDone(_) => MsgType::GetDone,
        }
    }

    /// Reads the body of `msg`, which is exactly the `nob` bytes of a message of type `kind`.
    fn parse(kind: MsgType, msg: &'a [u8], nob: u32, endian: Endian) -> Result<Self, ParseError> {
        let short = ParseError::BodyTooShort { kind, nob };
        // Behind the LNet header, for the types that have one.
        let mut tail = Reader::at(msg, IMMEDIATE_HDR, endian);
        let mut reader = Reader::at(msg, HDR_SIZE, endian);
        let lnet_hdr = || LnetHdr::parse_at(msg, LNET_HDR_OFFSET).ok_or(short);
        let mut params = || ConnParams::parse(&mut reader).ok_or(short);
        Ok(match kind {
            MsgType::ConnReq => Self::ConnReq(params()?),
            MsgType::ConnAck => Self::ConnAck(params()?),
            MsgType::Noop => Self::Noop,
            MsgType::Immediate => {
                let hdr = lnet_hdr()?;
                let payload_len = hdr.payload_len;
                let payload = tail
                    .bytes(widen(payload_len))
                    .ok_or(ParseError::PayloadTruncated { payload_len, nob })?;
                Self::Immediate { hdr, payload }
            }
            MsgType::PutReq => Self::PutReq {
                hdr: lnet_hdr()?,
                cookie: Cookie::parse(&mut tail).ok_or(short)?,
            },
            MsgType::PutNak => Self::PutNak(Completion::parse(&mut reader).ok_or(short)?),
            MsgType::PutAck => Self::PutAck {
                src_cookie: Cookie::parse(&mut reader).ok_or(short)?,
                dst_cookie: Cookie::parse(&mut reader).ok_or(short)?,
                desc: DescView::parse(msg, PUT_ACK_DESC_OFFSET, endian)?,
            },
            MsgType::PutDone => Self::PutDone(Completion::parse(&mut reader).ok_or(short)?),
            MsgType::GetReq => Self::GetReq {
                hdr: lnet_hdr()?,
                cookie: Cookie::parse(&mut tail).ok_or(short)?,
                desc: DescView::parse(msg, GET_REQ_DESC_OFFSET, endian)?,
            },
            MsgType::GetDone => Self::GetDone(Completion::parse(&mut reader).ok_or(short)?),
        })
    }
}

/// A received message that is legal in form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The header.
    pub hdr: Header,
    /// Whether the sender's byte order is not ours.
    pub swapped: bool,
    /// Length that the message states, in bytes. What arrived may be longer.
    pub nob: u32,
    /// The body.
    pub body: Body<'a>,
}

impl<'a> Message<'a> {
    /// Reads the message at the start of `buf`, which is exactly the bytes that were received.
    ///
    /// # Errors
    ///
    /// The first of the checks of section 9.1 that fails, in the order of section 9.1; then
    /// [`ParseError::FragSumOverflow`] and [`ParseError::PayloadTruncated`], which the C driver
    /// does not check here. Every error is a protocol error of the peer.
    pub fn parse(buf: &'a [u8]) -> Result<Self, ParseError> {
        let len = buf.len();
        let (version, endian) = match Probe::new(buf) {
            Probe::Known { version, endian } => (version, endian),
            Probe::TooShort { len } => return Err(ParseError::TooShort { len }),
            Probe::UnifiedMagic { magic } | Probe::UnknownMagic { magic } => {
                return Err(ParseError::BadMagic { magic })
            }
            Probe::UnknownVersion { version } => return Err(ParseError::BadVersion { version }),
        };
        let raw = RawHeader::parse(Reader::at(buf, FROZEN_SIZE, endian))
            .ok_or(ParseError::ShortHeader { len })?;
        let nob = raw.nob;
        let msg = buf
            .get(..widen(nob))
            .ok_or(ParseError::Truncated { nob, len })?;
        if !Checksum::verify(msg, raw.checksum) {
            return Err(ParseError::BadChecksum {
                found: raw.checksum,
                computed: Checksum::of_message(msg, ByteSign::Unsigned),
            });
        }
        if raw.src.is_any() {
            return Err(ParseError::SrcNidAny);
        }
        let kind =
            MsgType::from_wire(raw.kind).ok_or(ParseError::UnknownType { kind: raw.kind })?;
        if nob < kind.min_nob() {
            return Err(ParseError::BodyTooShort { kind, nob });
        }
        Ok(Self {
            hdr: Header {
                version,
                credits: raw.credits,
                src: raw.src,
                src_stamp: raw.src_stamp,
                dst: raw.dst,
                dst_stamp: raw.dst_stamp,
            },
            swapped: endian.is_swapped(),
            nob,
            body: Body::parse(kind, msg, nob, endian)?,
        })
    }

    /// The type of the message.
    pub const fn kind(&self) -> MsgType {
        self.body.kind()
    }
}
