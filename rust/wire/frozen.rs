// SPDX-License-Identifier: GPL-2.0

//! The first six bytes of a message, whose layout is frozen for all versions of the protocol.

use super::bytes::{
    Endian,
    Reader, //
};
use super::{
    Version,
    MAGIC,
    UNIFIED_MAGIC, //
};

/// The frozen part (magic and version) of a received message.
///
/// The passive side of a connection request looks at this first (protocol.md section 14.3, steps
/// 2 to 4). Every case but [`Probe::Known`] is rejected with reason FATAL, version 0x12 and zero
/// parameters (section 14.4); the cases differ in the log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Fewer than six bytes, which are not even the frozen part.
    TooShort {
        /// Bytes received.
        len: usize,
    },
    /// The magic set aside for a unified LNet protocol, in either byte order.
    UnifiedMagic {
        /// The magic, as read in this machine's byte order.
        magic: u32,
    },
    /// A magic of no protocol we know.
    UnknownMagic {
        /// The magic, as read in this machine's byte order.
        magic: u32,
    },
    /// The o2iblnd magic with a version that is neither 1 nor 2.
    UnknownVersion {
        /// The version, in our byte order.
        version: u16,
    },
    /// An o2iblnd message of a version that we speak; parse it.
    Known {
        /// Version of the message.
        version: Version,
        /// Byte order of the sender.
        endian: Endian,
    },
}

impl Probe {
    /// Reads the frozen part of `buf`.
    pub fn new(buf: &[u8]) -> Self {
        Self::read(buf).unwrap_or(Self::TooShort { len: buf.len() })
    }

    fn read(buf: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(buf, Endian::NATIVE);
        let magic = reader.u32()?;
        // All six bytes must be there before any of them means anything.
        let version: [u8; 2] = reader.array()?;
        let endian = if magic == MAGIC {
            Endian::NATIVE
        } else if magic == MAGIC.swap_bytes() {
            Endian::NATIVE.opposite()
        } else if magic == UNIFIED_MAGIC || magic == UNIFIED_MAGIC.swap_bytes() {
            return Some(Self::UnifiedMagic { magic });
        } else {
            return Some(Self::UnknownMagic { magic });
        };
        let raw = Reader::new(&version, endian).u16()?;
        Some(match Version::from_wire(raw) {
            Some(version) => Self::Known { version, endian },
            None => Self::UnknownVersion { version: raw },
        })
    }
}
