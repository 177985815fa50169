// SPDX-License-Identifier: GPL-2.0

//! The message header (section 3) and the identities in it (sections 7 and 9.3).

use super::{
    bytes::{
        Reader,
        Writer, //
    },
    IdentityError,
    MsgType,
    Nid,
    Stamp,
    Version,
    MAGIC, //
};

/// The header of a message, less what its body implies (type, length) and the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Version of the message. It is *not* compared with that of the connection (section 9.1).
    pub version: Version,
    /// Receive credits that the sender gives back; 0 in CONNREQ and CONNACK.
    pub credits: u8,
    /// NID of the sender.
    pub src: Nid,
    /// Incarnation of the sender.
    pub src_stamp: Stamp,
    /// NID of the receiver.
    pub dst: Nid,
    /// Incarnation of the receiver as the sender knows it; in a CONNREQ it may be unknown.
    pub dst_stamp: Stamp,
}

/// Who is at the two ends of a connection, seen from this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// NID of the peer.
    pub peer: Nid,
    /// Incarnation of the peer when it connected.
    pub peer_stamp: Stamp,
    /// NID of our NI.
    pub local: Nid,
    /// Incarnation of our NI.
    pub local_stamp: Stamp,
}

impl Header {
    /// The identity check that every message on a QP must pass (section 9.3).
    ///
    /// # Errors
    ///
    /// The first of the four identities that is wrong; the connection is closed with `ESTALE`.
    pub fn check_identity(&self, expect: &Identity) -> Result<(), IdentityError> {
        if self.src != expect.peer {
            return Err(IdentityError::SrcNid {
                found: self.src,
                expected: expect.peer,
            });
        }
        if self.dst != expect.local {
            return Err(IdentityError::DstNid {
                found: self.dst,
                expected: expect.local,
            });
        }
        if self.src_stamp != expect.peer_stamp {
            return Err(IdentityError::SrcStamp {
                found: self.src_stamp,
                expected: expect.peer_stamp,
            });
        }
        if self.dst_stamp != expect.local_stamp {
            return Err(IdentityError::DstStamp {
                found: self.dst_stamp,
                expected: expect.local_stamp,
            });
        }
        Ok(())
    }

    /// Writes the 48 header bytes with a checksum of 0.
    pub(super) fn emit(&self, kind: MsgType, nob: u32, writer: &mut Writer<'_>) -> Option<()> {
        writer.u32(MAGIC)?;
        writer.u16(self.version.to_wire())?;
        writer.u8(kind.to_wire())?;
        writer.u8(self.credits)?;
        writer.u32(nob)?;
        writer.u32(0)?;
        writer.u64(self.src.0)?;
        writer.u64(self.src_stamp.0)?;
        writer.u64(self.dst.0)?;
        writer.u64(self.dst_stamp.0)
    }
}

/// The header as it is on the wire, in native byte order. The frozen part has been looked at.
pub(super) struct RawHeader {
    pub(super) kind: u8,
    pub(super) credits: u8,
    pub(super) nob: u32,
    pub(super) checksum: u32,
    pub(super) src: Nid,
    pub(super) src_stamp: Stamp,
    pub(super) dst: Nid,
    pub(super) dst_stamp: Stamp,
}

impl RawHeader {
    /// Reads everything behind the frozen part; `reader` stands at offset 6.
    pub(super) fn parse(mut reader: Reader<'_>) -> Option<Self> {
        Some(Self {
            kind: reader.u8()?,
            credits: reader.u8()?,
            nob: reader.u32()?,
            checksum: reader.u32()?,
            src: Nid(reader.u64()?),
            src_stamp: Stamp(reader.u64()?),
            dst: Nid(reader.u64()?),
            dst_stamp: Stamp(reader.u64()?),
        })
    }
}
