// SPDX-License-Identifier: GPL-2.0

//! Messages: their bodies, and the checks of section 9.1 on those that are received.

use super::{
    bytes::{
        widen,
        Endian,
        Reader,
        Writer, //
    },
    desc::{
        Desc,
        DESC_HDR_SIZE, //
    },
    header::RawHeader,
    ByteSign,
    Checksum,
    ConnParams,
    DescView,
    Header,
    LnetHdr,
    MsgType,
    ParseError,
    Probe,
    HDR_SIZE,
    IMMEDIATE_HDR, //
};

/// Offset of the LNet header, where a message has one.
const LNET_HDR_OFFSET: usize = HDR_SIZE;
/// Size of a cookie, in bytes.
const COOKIE_SIZE: usize = 8;
/// Size of a cookie and a status, in bytes.
const COMPLETION_SIZE: usize = COOKIE_SIZE + 4;
/// Offset of the descriptor in a PUT_ACK: header and two cookies.
const PUT_ACK_DESC_OFFSET: u16 = (HDR_SIZE + 2 * COOKIE_SIZE) as u16;
/// Offset of the descriptor in a GET_REQ: both headers and a cookie.
const GET_REQ_DESC_OFFSET: u16 = (IMMEDIATE_HDR + COOKIE_SIZE) as u16;
/// End of magic and version, the part of the header that no version changes.
const FROZEN_SIZE: usize = 6;

impl MsgType {
    /// Fewest bytes of a message of this type (section 4.9). A descriptor counts without its
    /// fragments, an IMMEDIATE without its payload.
    pub const fn min_nob(self) -> u32 {
        let nob = match self {
            Self::ConnReq | Self::ConnAck => const { HDR_SIZE + ConnParams::SIZE },
            Self::Noop => HDR_SIZE,
            Self::Immediate => IMMEDIATE_HDR,
            Self::PutReq => const { IMMEDIATE_HDR + COOKIE_SIZE },
            Self::PutAck => const { PUT_ACK_DESC_OFFSET as usize + DESC_HDR_SIZE },
            Self::GetReq => const { GET_REQ_DESC_OFFSET as usize + DESC_HDR_SIZE },
            Self::PutNak | Self::PutDone | Self::GetDone => const { HDR_SIZE + COMPLETION_SIZE },
        };
        nob as u32
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

/// Body of a message, with its RDMA descriptor as a `D` and the payload of an IMMEDIATE as a `P`.
///
/// [`BodyIn`] borrows both from a receive buffer, [`BodyOut`](super::BodyOut) from whoever sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<D, P> {
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
        /// The `hdr.payload_len` bytes behind the LNet header.
        payload: P,
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
        /// Where the source is to write.
        desc: D,
    },
    /// PUT_DONE.
    PutDone(Completion),
    /// GET_REQ.
    GetReq {
        /// LNet header.
        hdr: LnetHdr,
        /// The sink's cookie.
        cookie: Cookie,
        /// Where the source is to write.
        desc: D,
    },
    /// GET_DONE.
    GetDone(Completion),
}

/// Body of a received message. Borrows the receive buffer.
pub(super) type BodyIn<'a> = Body<DescView<'a>, &'a [u8]>;

impl<D, P> Body<D, P> {
    /// The same body with descriptor and payload in another form.
    pub fn map<E, Q>(self, desc: impl FnOnce(D) -> E, payload: impl FnOnce(P) -> Q) -> Body<E, Q> {
        match self {
            Self::ConnReq(params) => Body::ConnReq(params),
            Self::ConnAck(params) => Body::ConnAck(params),
            Self::Noop => Body::Noop,
            Self::Immediate { hdr, payload: from } => Body::Immediate {
                hdr,
                payload: payload(from),
            },
            Self::PutReq { hdr, cookie } => Body::PutReq { hdr, cookie },
            Self::PutNak(completion) => Body::PutNak(completion),
            Self::PutAck {
                src_cookie,
                dst_cookie,
                desc: from,
            } => Body::PutAck {
                src_cookie,
                dst_cookie,
                desc: desc(from),
            },
            Self::PutDone(completion) => Body::PutDone(completion),
            Self::GetReq {
                hdr,
                cookie,
                desc: from,
            } => Body::GetReq {
                hdr,
                cookie,
                desc: desc(from),
            },
            Self::GetDone(completion) => Body::GetDone(completion),
        }
    }

    /// The descriptor, of those that have one.
    pub const fn desc(&self) -> Option<&D> {
        match self {
            Self::PutAck { desc, .. } | Self::GetReq { desc, .. } => Some(desc),
            Self::ConnReq(_)
            | Self::ConnAck(_)
            | Self::Noop
            | Self::Immediate { .. }
            | Self::PutReq { .. }
            | Self::PutNak(_)
            | Self::PutDone(_)
            | Self::GetDone(_) => None,
        }
    }

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
}

impl<'a> BodyIn<'a> {
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
                desc: Desc::parse(msg, PUT_ACK_DESC_OFFSET, endian)?,
            },
            MsgType::PutDone => Self::PutDone(Completion::parse(&mut reader).ok_or(short)?),
            MsgType::GetReq => Self::GetReq {
                hdr: lnet_hdr()?,
                cookie: Cookie::parse(&mut tail).ok_or(short)?,
                desc: Desc::parse(msg, GET_REQ_DESC_OFFSET, endian)?,
            },
            MsgType::GetDone => Self::GetDone(Completion::parse(&mut reader).ok_or(short)?),
        })
    }
}

/// A received message that has passed the checks of section 9.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The header.
    pub hdr: Header,
    /// Whether the sender's byte order is not ours.
    pub swapped: bool,
    /// Length that the message states, in bytes. What arrived may be longer.
    pub nob: u32,
    /// The body.
    pub body: BodyIn<'a>,
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
            body: BodyIn::parse(kind, msg, nob, endian)?,
        })
    }

    /// The type of the message.
    pub const fn kind(&self) -> MsgType {
        self.body.kind()
    }
}
