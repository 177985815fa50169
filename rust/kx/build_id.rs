// SPDX-License-Identifier: GPL-2.0

//! GNU build-ids: which build of a module it is.
//!
//! Free of `kernel::` and of the generated bindings, so that `tests/host` compiles it too.

/// Most digits that are kept: ids are 20 bytes (SHA-1) or less, the kernel's own limit too.
const DIGITS_MAX: usize = 40;
/// Digits that name a build in a log line.
const SHORT: usize = 12;

/// A build-id, never empty, as lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BuildId {
    digits: [u8; DIGITS_MAX],
    len: usize,
}

impl BuildId {
    /// Most bytes of a note section that [`from_notes`](Self::from_notes) can need.
    pub(crate) const NOTE_MAX: usize = 128;

    /// From its digits. `None` if they are not an even number of lower-case ones, or too many.
    pub(crate) fn from_hex(hex: &[u8]) -> Option<Self> {
        let is_digit = |c: &u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        if hex.is_empty() || hex.len() % 2 != 0 || !hex.iter().all(is_digit) {
            return None;
        }
        let mut digits = [0; DIGITS_MAX];
        digits.get_mut(..hex.len())?.copy_from_slice(hex);
        Some(Self {
            digits,
            len: hex.len(),
        })
    }

    /// The first build-id in the content of an ELF note section of this machine.
    ///
    /// A note is three words (bytes of the name, bytes of the descriptor, type), then the name and
    /// the descriptor, each filled up to a word. `None` if there is no build-id, or one that is
    /// empty, too long or not whole.
    pub(crate) fn from_notes(mut notes: &[u8]) -> Option<Self> {
        const NT_GNU_BUILD_ID: usize = 3;
        loop {
            let (name_len, rest) = word(notes)?;
            let (desc_len, rest) = word(rest)?;
            let (kind, rest) = word(rest)?;
            let (name, rest) = filled(rest, name_len)?;
            let (desc, rest) = filled(rest, desc_len)?;
            if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
                return Self::from_bytes(desc);
            }
            notes = rest;
        }
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; DIGITS_MAX];
        let len = 2 * bytes.len();
        if bytes.is_empty() || len > DIGITS_MAX {
            return None;
        }
        for (pair, b) in digits.chunks_exact_mut(2).zip(bytes) {
            pair.copy_from_slice(&[HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]);
        }
        Some(Self { digits, len })
    }

    /// The first digits, enough to tell two builds from each other.
    pub(crate) fn short(&self) -> &str {
        let shown = self.digits.get(..self.len.min(SHORT)).unwrap_or(&[]);
        core::str::from_utf8(shown).unwrap_or("")
    }
}

/// The word at the beginning, and what follows it.
fn word(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((usize::try_from(u32::from_ne_bytes(*word)).ok()?, rest))
}

/// The first `len` bytes, and what follows the word that they end in.
fn filled(bytes: &[u8], len: usize) -> Option<(&[u8], &[u8])> {
    let end = len.checked_next_multiple_of(4)?;
    Some((bytes.get(..len)?, bytes.get(end..)?))
}
