// SPDX-License-Identifier: GPL-2.0

//! Messages to be sent.

use super::{
    bytes::{
        widen,
        Endian,
        Writer, //
    },
    Body,
    Checksum,
    DescOut,
    EmitError,
    Header,
    LnetHdr,
    MsgType,
    IMMEDIATE_HDR,
    MAX_IMMEDIATE, //
};

/// Body of a message to be sent: with the fragments of our sink, and the payload of an IMMEDIATE
/// to be copied into the message buffer.
pub type BodyOut<'a> = Body<DescOut<'a>, &'a [u8]>;

impl BodyOut<'_> {
    /// Length of the whole message in bytes, header included.
    ///
    /// # Errors
    ///
    /// What makes a body impossible to send: [`EmitError::PayloadTooLong`],
    /// [`EmitError::PayloadMismatch`], [`EmitError::BadFragCount`], [`EmitError::FragSumOverflow`].
    pub fn nob(&self) -> Result<usize, EmitError> {
        let varies = match self {
            Self::Immediate { hdr, payload } => copied_len(hdr, payload)?,
            Self::PutAck { desc, .. } | Self::GetReq { desc, .. } => desc.frags_len()?,
            Self::ConnReq(_)
            | Self::ConnAck(_)
            | Self::Noop
            | Self::PutReq { .. }
            | Self::PutNak(_)
            | Self::PutDone(_)
            | Self::GetDone(_) => 0,
        };
        // At most a message buffer, so this does not saturate.
        Ok(widen(self.kind().min_nob()).saturating_add(varies))
    }

    fn emit(&self, writer: &mut Writer<'_>) -> Option<()> {
        match self {
            Self::ConnReq(params) | Self::ConnAck(params) => params.emit(writer),
            Self::Noop => Some(()),
            Self::Immediate { hdr, payload } => {
                hdr.emit(writer)?;
                writer.bytes(payload)
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

/// Length of `payload` in bytes, if it is what `hdr` announces.
fn copied_len(hdr: &LnetHdr, payload: &[u8]) -> Result<usize, EmitError> {
    if payload.len() != widen(hdr.payload_len) {
        return Err(EmitError::PayloadMismatch {
            payload_len: hdr.payload_len,
            given: payload.len(),
        });
    }
    payload_len(hdr)
}

/// Length of the payload that `hdr` announces, in bytes, if it fits an IMMEDIATE.
fn payload_len(hdr: &LnetHdr) -> Result<usize, EmitError> {
    Some(widen(hdr.payload_len))
        .filter(|&len| len <= MAX_IMMEDIATE)
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
    let nob = payload_len(lnet_hdr)?.saturating_add(IMMEDIATE_HDR);
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
