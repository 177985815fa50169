// SPDX-License-Identifier: GPL-2.0

//! Messages to be sent.

use super::{
    bytes::{
        widen,
        Endian,
        Writer, //
    },
    Checksum,
    Completion,
    ConnParams,
    Cookie,
    DescOut,
    EmitError,
    Header,
    LnetHdr,
    MsgType,
    CONN_MSG_SIZE,
    HDR_SIZE,
    IMMEDIATE_HDR,
    MAX_IMMEDIATE, //
};

/// Size of a message whose body is a completion, in bytes.
const COMPLETION_MSG_SIZE: usize = 60;
/// Size of a PUT_REQ, in bytes.
const PUT_REQ_SIZE: usize = 128;
/// Size of a PUT_ACK without its descriptor, in bytes.
const PUT_ACK_HDR: usize = 64;
/// Size of a GET_REQ without its descriptor, in bytes.
const GET_REQ_HDR: usize = 128;

/// Payload of an IMMEDIATE to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadOut<'a> {
    /// To be copied into the message buffer.
    Copy(&'a [u8]),
    /// Already in the message buffer, from [`IMMEDIATE_HDR`] on.
    InPlace,
}

/// Body of a message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyOut<'a> {
    /// CONNREQ.
    ConnReq(ConnParams),
    /// CONNACK.
    ConnAck(ConnParams),
    /// NOOP.
    Noop,
    /// IMMEDIATE, whose payload is `hdr.payload_len` bytes.
    Immediate {
        /// LNet header.
        hdr: LnetHdr,
        /// Payload.
        payload: PayloadOut<'a>,
    },
    /// PUT_REQ.
    PutReq {
        /// LNet header.
        hdr: LnetHdr,
        /// Our cookie.
        cookie: Cookie,
    },
    /// PUT_NAK.
    PutNak(Completion),
    /// PUT_ACK.
    PutAck {
        /// The cookie of the PUT_REQ.
        src_cookie: Cookie,
        /// Our cookie.
        dst_cookie: Cookie,
        /// Our buffer.
        desc: DescOut<'a>,
    },
    /// PUT_DONE.
    PutDone(Completion),
    /// GET_REQ.
    GetReq {
        /// LNet header.
        hdr: LnetHdr,
        /// Our cookie.
        cookie: Cookie,
        /// Our buffer.
        desc: DescOut<'a>,
    },
    /// GET_DONE.
    GetDone(Completion),
}

impl BodyOut<'_> {
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

    /// Length of the whole message in bytes, header included.
    ///
    /// # Errors
    ///
    /// What makes a body impossible to send: [`EmitError::PayloadTooLong`],
    /// [`EmitError::PayloadMismatch`], [`EmitError::BadFragCount`], [`EmitError::FragSumOverflow`].
    pub fn nob(&self) -> Result<usize, EmitError> {
        let desc_msg = |before: usize, desc: &DescOut<'_>| {
            // At most 257 fragments, so this does not saturate.
            desc.wire_len().map(|len| before.saturating_add(len))
        };
        match self {
            Self::ConnReq(_) | Self::ConnAck(_) => Ok(CONN_MSG_SIZE),
            Self::Noop => Ok(HDR_SIZE),
            Self::Immediate { hdr, payload } => {
                let payload_len = hdr.payload_len;
                match payload {
                    PayloadOut::Copy(bytes) if bytes.len() != widen(payload_len) => {
                        Err(EmitError::PayloadMismatch {
                            payload_len,
                            given: bytes.len(),
                        })
                    }
                    PayloadOut::Copy(_) | PayloadOut::InPlace => immediate_nob(hdr),
                }
            }
            Self::PutReq { .. } => Ok(PUT_REQ_SIZE),
            Self::PutAck { desc, .. } => desc_msg(PUT_ACK_HDR, desc),
            Self::GetReq { desc, .. } => desc_msg(GET_REQ_HDR, desc),
            Self::PutNak(_) | Self::PutDone(_) | Self::GetDone(_) => Ok(COMPLETION_MSG_SIZE),
        }
    }

    fn emit(&self, writer: &mut Writer<'_>) -> Option<()> {
        match self {
            Self::ConnReq(params) | Self::ConnAck(params) => params.emit(writer),
            Self::Noop => Some(()),
            Self::Immediate { hdr, payload } => {
                hdr.emit(writer)?;
                match payload {
                    PayloadOut::Copy(bytes) => writer.bytes(bytes),
                    PayloadOut::InPlace => Some(()),
                }
            }
            Self::PutReq { hdr, cookie } => {
                hdr.emit(writer)?;
                cookie.emit(writer)
            }
            Self::PutAck {
                src_cookie,
                dst_cookie,
                desc,
            } => {
                src_cookie.emit(writer)?;
                dst_cookie.emit(writer)?;
                desc.emit(writer)
            }
            Self::GetReq { hdr, cookie, desc } => {
                hdr.emit(writer)?;
                cookie.emit(writer)?;
                desc.emit(writer)
            }
            Self::PutNak(completion) | Self::PutDone(completion) | Self::GetDone(completion) => {
                completion.emit(writer)
            }
        }
    }
}

/// Length of an IMMEDIATE message in bytes.
fn immediate_nob(hdr: &LnetHdr) -> Result<usize, EmitError> {
    Some(widen(hdr.payload_len))
        .filter(|&len| len <= MAX_IMMEDIATE)
        .and_then(|len| len.checked_add(IMMEDIATE_HDR))
        .ok_or(EmitError::PayloadTooLong {
            payload_len: hdr.payload_len,
        })
}

/// Writes a message to the start of `buf` and returns its length in bytes. Bytes of `buf` behind
/// the message are left alone.
///
/// `endian` is [`Endian::NATIVE`] for everything we send. With `checksum` the message carries
/// one, else its field is 0.
///
/// # Errors
///
/// Those of [`BodyOut::nob`], [`EmitError::SrcNidAny`], and [`EmitError::BufferTooSmall`]. `buf` is
/// untouched then.
pub fn emit(
    hdr: &Header,
    body: &BodyOut<'_>,
    checksum: bool,
    endian: Endian,
    buf: &mut [u8],
) -> Result<usize, EmitError> {
    if hdr.src.is_any() {
        return Err(EmitError::SrcNidAny);
    }
    let nob = body.nob()?;
    let have = buf.len();
    let too_small = EmitError::BufferTooSmall { need: nob, have };
    let msg = buf.get_mut(..nob).ok_or(too_small)?;
    let wire_nob = u32::try_from(nob).map_err(|_| too_small)?;

    let mut writer = Writer::new(msg, endian);
    hdr.emit(body.kind(), wire_nob, &mut writer)
        .and_then(|()| body.emit(&mut writer))
        .ok_or(too_small)?;
    if checksum {
        let mut sum = Checksum::new();
        sum.update(msg);
        sum.store(msg, endian).ok_or(too_small)?;
    }
    Ok(nob)
}

/// Writes an IMMEDIATE without its payload, which the caller sends from somewhere else: the first
/// [`IMMEDIATE_HDR`] bytes of `buf`. The message states the length with the payload.
///
/// For a message with a checksum, feed the payload to the returned [`Detached`] in order and
/// finish it; for one without, drop it.
///
/// # Errors
///
/// [`EmitError::SrcNidAny`], [`EmitError::PayloadTooLong`] and [`EmitError::BufferTooSmall`]. `buf`
/// is untouched then.
pub fn emit_detached(
    hdr: &Header,
    lnet_hdr: &LnetHdr,
    endian: Endian,
    buf: &mut [u8],
) -> Result<Detached, EmitError> {
    if hdr.src.is_any() {
        return Err(EmitError::SrcNidAny);
    }
    let nob = immediate_nob(lnet_hdr)?;
    let too_small = EmitError::BufferTooSmall {
        need: IMMEDIATE_HDR,
        have: buf.len(),
    };
    let msg = buf.get_mut(..IMMEDIATE_HDR).ok_or(too_small)?;
    let wire_nob = u32::try_from(nob).map_err(|_| too_small)?;

    let mut writer = Writer::new(msg, endian);
    hdr.emit(MsgType::Immediate, wire_nob, &mut writer)
        .and_then(|()| lnet_hdr.emit(&mut writer))
        .ok_or(too_small)?;
    let mut sum = Checksum::new();
    sum.update(msg);
    Ok(Detached {
        sum,
        endian,
        payload_len: lnet_hdr.payload_len,
        given: 0,
    })
}

/// An IMMEDIATE whose payload is not in its message buffer.
#[derive(Clone, Copy, Debug)]
pub struct Detached {
    sum: Checksum,
    endian: Endian,
    payload_len: u32,
    given: usize,
}

impl Detached {
    /// Adds the next bytes of the payload to the checksum.
    pub fn update(&mut self, payload: &[u8]) {
        self.sum.update(payload);
        self.given = self.given.saturating_add(payload.len());
    }

    /// Stores the checksum into `buf`, which starts with the message.
    ///
    /// # Errors
    ///
    /// [`EmitError::PayloadMismatch`] when the payload was not as long as the LNet header says,
    /// [`EmitError::BufferTooSmall`] when `buf` has no header. `buf` is untouched then.
    pub fn finish(self, buf: &mut [u8]) -> Result<(), EmitError> {
        if self.given != widen(self.payload_len) {
            return Err(EmitError::PayloadMismatch {
                payload_len: self.payload_len,
                given: self.given,
            });
        }
        let have = buf.len();
        self.sum
            .store(buf, self.endian)
            .ok_or(EmitError::BufferTooSmall {
                need: IMMEDIATE_HDR,
                have,
            })
    }
}
