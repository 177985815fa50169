// SPDX-License-Identifier: GPL-2.0

//! Byte order and cursors over byte slices.
//!
//! Every multi-byte o2iblnd field is in its sender's byte order and many are misaligned
//! (protocol.md sections 2 and 4), so fields are copied out of and into byte arrays and never
//! referenced in place.

/// A byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    /// The byte order of this machine. Everything we send is in this order.
    pub const NATIVE: Self = if cfg!(target_endian = "little") {
        Self::Little
    } else {
        Self::Big
    };

    /// The other byte order.
    pub const fn opposite(self) -> Self {
        match self {
            Self::Little => Self::Big,
            Self::Big => Self::Little,
        }
    }

    /// Whether data in this order has to be swapped on this machine.
    pub const fn is_swapped(self) -> bool {
        !matches!(
            (self, Self::NATIVE),
            (Self::Little, Self::Little) | (Self::Big, Self::Big)
        )
    }
}

/// Reads fields from the front of a slice. Methods return `None` when too few bytes are left.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    endian: Endian,
}

impl<'a> Reader<'a> {
    /// A reader over the whole of `bytes`.
    pub(super) const fn new(bytes: &'a [u8], endian: Endian) -> Self {
        Self {
            rest: bytes,
            endian,
        }
    }

    /// A reader over `bytes` from `offset` on; empty when `offset` is past the end.
    pub(super) fn at(bytes: &'a [u8], offset: usize, endian: Endian) -> Self {
        Self::new(bytes.get(offset..).unwrap_or_default(), endian)
    }

    /// This reader, from here on in another byte order.
    pub(super) const fn with_endian(self, endian: Endian) -> Self {
        Self { endian, ..self }
    }

    /// The next `N` bytes as they are on the wire.
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    /// The next `len` bytes, borrowed.
    pub(super) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(head)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_ne_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(|bytes| match self.endian {
            Endian::Little => u16::from_le_bytes(bytes),
            Endian::Big => u16::from_be_bytes(bytes),
        })
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(|bytes| match self.endian {
            Endian::Little => u32::from_le_bytes(bytes),
            Endian::Big => u32::from_be_bytes(bytes),
        })
    }

    pub(super) fn i32(&mut self) -> Option<i32> {
        self.array().map(|bytes| match self.endian {
            Endian::Little => i32::from_le_bytes(bytes),
            Endian::Big => i32::from_be_bytes(bytes),
        })
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(|bytes| match self.endian {
            Endian::Little => u64::from_le_bytes(bytes),
            Endian::Big => u64::from_be_bytes(bytes),
        })
    }
}

/// Writes fields to the front of a slice. Methods return `None` when there is no room.
///
/// It only ever moves forward, so a field that is left out shifts everything behind it and
/// cannot go unnoticed as a gap of stale bytes.
pub(super) struct Writer<'a> {
    rest: &'a mut [u8],
    endian: Endian,
}

impl<'a> Writer<'a> {
    /// A writer over the whole of `bytes`.
    pub(super) fn new(bytes: &'a mut [u8], endian: Endian) -> Self {
        Self {
            rest: bytes,
            endian,
        }
    }

    /// Writes `bytes` as they are.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        let (head, rest) = core::mem::take(&mut self.rest).split_at_mut_checked(bytes.len())?;
        head.copy_from_slice(bytes);
        self.rest = rest;
        Some(())
    }

    pub(super) fn u8(&mut self, value: u8) -> Option<()> {
        self.bytes(&[value])
    }

    pub(super) fn u16(&mut self, value: u16) -> Option<()> {
        match self.endian {
            Endian::Little => self.bytes(&value.to_le_bytes()),
            Endian::Big => self.bytes(&value.to_be_bytes()),
        }
    }

    pub(super) fn u32(&mut self, value: u32) -> Option<()> {
        match self.endian {
            Endian::Little => self.bytes(&value.to_le_bytes()),
            Endian::Big => self.bytes(&value.to_be_bytes()),
        }
    }

    pub(super) fn i32(&mut self, value: i32) -> Option<()> {
        match self.endian {
            Endian::Little => self.bytes(&value.to_le_bytes()),
            Endian::Big => self.bytes(&value.to_be_bytes()),
        }
    }

    pub(super) fn u64(&mut self, value: u64) -> Option<()> {
        match self.endian {
            Endian::Little => self.bytes(&value.to_le_bytes()),
            Endian::Big => self.bytes(&value.to_be_bytes()),
        }
    }
}

/// Widens a 32-bit wire length. Linux has no target where `usize` is narrower, so nothing is cut.
pub(super) const fn widen(value: u32) -> usize {
    value as usize
}
