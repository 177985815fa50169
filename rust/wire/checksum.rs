// SPDX-License-Identifier: GPL-2.0

//! The message checksum (protocol.md section 8).

use super::bytes::{
    Endian,
    Writer, //
};

/// Offset of the checksum field in a message.
const FIELD_OFFSET: usize = 12;
/// Size of the checksum field.
const FIELD_SIZE: usize = 4;

/// How a byte enters the sum.
///
/// The C driver adds a C plain `char`: on x86 kernels before 6.2 that is signed, everywhere else
/// it is unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteSign {
    /// 0..255. What we send.
    Unsigned,
    /// -128..127. What x86 peers before Linux 6.2 send and expect.
    Signed,
}

/// A checksum that is fed piece by piece.
///
/// `sum = rotate_left(sum, 1) + byte` over the bytes in order, modulo 2^32; the order of pieces
/// therefore matters. The checksum field itself counts as zero: feed a message whose field is
/// still zero, or use [`Checksum::of_message`].
#[derive(Clone, Copy, Debug)]
pub struct Checksum {
    sum: u32,
    sign: ByteSign,
}

impl Checksum {
    /// An empty checksum in the form we send.
    pub const fn new() -> Self {
        Self::with_sign(ByteSign::Unsigned)
    }

    /// An empty checksum that takes bytes as `sign` says.
    pub const fn with_sign(sign: ByteSign) -> Self {
        Self { sum: 0, sign }
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        let mut sum = self.sum;
        match self.sign {
            ByteSign::Unsigned => {
                for &byte in bytes {
                    sum = sum.rotate_left(1).wrapping_add(u32::from(byte));
                }
            }
            ByteSign::Signed => {
                for &byte in bytes {
                    let extended = i32::from(i8::from_ne_bytes([byte]));
                    sum = sum.rotate_left(1).wrapping_add_signed(extended);
                }
            }
        }
        self.sum = sum;
    }

    /// The value for the checksum field: never 0, which would mean "not checksummed".
    pub const fn finish(self) -> u32 {
        match self.sum {
            0 => 1,
            sum => sum,
        }
    }

    /// The checksum of a whole message, `message` being exactly its `nob` bytes. Whatever the
    /// checksum field holds is counted as zero.
    pub fn of_message(message: &[u8], sign: ByteSign) -> u32 {
        let mut sum = Self::with_sign(sign);
        match message.split_at_checked(FIELD_OFFSET) {
            None => sum.update(message),
            Some((before, rest)) => {
                sum.update(before);
                // A hostile nob may end inside the field.
                let (field, after) = rest.split_at_checked(FIELD_SIZE).unwrap_or((rest, &[]));
                sum.update([0u8; FIELD_SIZE].get(..field.len()).unwrap_or_default());
                sum.update(after);
            }
        }
        sum.finish()
    }

    /// Whether `found`, the field of a received `message`, is right in either form. A field of 0
    /// means that the sender did not checksum, which is right too.
    pub fn verify(message: &[u8], found: u32) -> bool {
        found == 0
            || found == Self::of_message(message, ByteSign::Unsigned)
            || found == Self::of_message(message, ByteSign::Signed)
    }

    /// Stores the checksum into the field of `message`. `None` when `message` has no such field.
    pub(super) fn store(self, message: &mut [u8], endian: Endian) -> Option<()> {
        let field = message.get_mut(FIELD_OFFSET..)?.get_mut(..FIELD_SIZE)?;
        Writer::new(field, endian).u32(self.finish())
    }
}

impl Default for Checksum {
    fn default() -> Self {
        Self::new()
    }
}
