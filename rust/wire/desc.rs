// SPDX-License-Identifier: GPL-2.0

//! RDMA descriptors and their fragments (sections 4.3 and 4.4).

use super::{
    bytes::{
        Endian,
        Reader,
        Writer, //
    },
    EmitError,
    ParseError,
    MAX_FRAGS, //
};

/// Size of a fragment on the wire, in bytes.
const FRAG_SIZE: usize = 12;
/// Size of a descriptor without its fragments, in bytes.
pub(super) const DESC_HDR_SIZE: usize = 8;

/// A contiguous piece of the sink's memory, as the sink's device addresses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frag {
    /// RDMA address. Opaque: old FMR peers send zero-based ones.
    pub addr: u64,
    /// Length in bytes.
    pub nob: u32,
}

/// A descriptor of a received message: where its fragments are, and what was found when it was
/// parsed.
///
/// It does not borrow the message. Who keeps the receive buffer keeps this with it, and finds the
/// fragments again with [`Desc::view`] when they are needed.
///
/// # Invariants
///
/// When it was parsed, the message had `nfrags` fragments from `offset` on, 1 to 257, the sum of
/// whose lengths was `total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Desc {
    key: u32,
    nfrags: u16,
    /// Of the first fragment in the message, in bytes.
    offset: u16,
    /// Sum of the fragment lengths, in bytes.
    total: u32,
    endian: Endian,
}

impl Desc {
    /// Reads the descriptor at `offset` of `msg`, which is exactly the `nob` bytes of a message.
    pub(super) fn parse(
        msg: &[u8],
        offset: u16,
        endian: Endian,
    ) -> Result<DescView<'_>, ParseError> {
        let nob = u32::try_from(msg.len()).unwrap_or(u32::MAX);
        let mut reader = Reader::at(msg, usize::from(offset), endian);
        let (Some(key), Some(raw_nfrags)) = (reader.u32(), reader.u32()) else {
            return Err(ParseError::FragsTruncated { nfrags: 0, nob });
        };
        let nfrags = u16::try_from(raw_nfrags)
            .ok()
            .filter(|nfrags| (1..=MAX_FRAGS).contains(nfrags))
            .ok_or(ParseError::BadFragCount { nfrags: raw_nfrags })?;
        let desc = Self {
            key,
            nfrags,
            offset: offset.saturating_add(DESC_HDR_SIZE as u16),
            total: 0,
            endian,
        };
        let view = desc.view(msg).ok_or(ParseError::FragsTruncated {
            nfrags: raw_nfrags,
            nob,
        })?;
        let total = view
            .frags()
            .try_fold(0u32, |sum, frag| sum.checked_add(frag.nob))
            .ok_or(ParseError::FragSumOverflow)?;
        // INVARIANT: All of it has been checked above.
        let desc = Self { total, ..desc };
        Ok(DescView { desc, ..view })
    }

    /// The rkey, valid for all fragments.
    pub const fn key(&self) -> u32 {
        self.key
    }

    /// Number of fragments, 1 to 257.
    #[cfg(feature = "tests")]
    pub const fn nfrags(&self) -> u16 {
        self.nfrags
    }

    /// Sum of the fragment lengths, in bytes.
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// The descriptor with its fragments, from `buf` that starts with the message it was found in.
    ///
    /// Nothing is checked again. `None` when `buf` ends before the last fragment, so it does not
    /// hold that message.
    pub fn view<'a>(&self, buf: &'a [u8]) -> Option<DescView<'a>> {
        let len = usize::from(self.nfrags).checked_mul(FRAG_SIZE)?;
        let frags = buf.get(usize::from(self.offset)..)?.get(..len)?;
        Some(DescView { desc: *self, frags })
    }
}

/// A descriptor in a received message, borrowed from the receive buffer.
#[derive(Clone, Copy, Debug)]
pub struct DescView<'a> {
    desc: Desc,
    /// The fragments, 12 bytes each.
    frags: &'a [u8],
}

impl<'a> DescView<'a> {
    /// The descriptor without the borrow.
    pub const fn desc(&self) -> Desc {
        self.desc
    }

    /// Fragment `index`, `None` past the last one.
    pub fn frag(&self, index: u16) -> Option<Frag> {
        let start = usize::from(index).checked_mul(FRAG_SIZE)?;
        let bytes = self.frags.get(start..)?.get(..FRAG_SIZE)?;
        parse_frag(bytes, self.desc.endian)
    }

    /// All fragments in order.
    pub fn frags(&self) -> Frags<'a> {
        Frags {
            rest: self.frags,
            left: self.desc.nfrags,
            endian: self.desc.endian,
        }
    }
}

/// Two descriptors are equal when they name the same memory, wherever and in whichever byte order
/// they are kept.
impl PartialEq for DescView<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.desc.key == other.desc.key && self.frags().eq(other.frags())
    }
}

impl Eq for DescView<'_> {}

fn parse_frag(bytes: &[u8], endian: Endian) -> Option<Frag> {
    let mut reader = Reader::new(bytes, endian);
    let nob = reader.u32()?;
    let addr = reader.u64()?;
    Some(Frag { addr, nob })
}

/// Iterator over the fragments of a descriptor.
#[derive(Clone, Debug)]
pub struct Frags<'a> {
    rest: &'a [u8],
    /// Fragments in `rest`.
    left: u16,
    endian: Endian,
}

impl Iterator for Frags<'_> {
    type Item = Frag;

    fn next(&mut self) -> Option<Frag> {
        let (frag, rest) = self.rest.split_first_chunk::<FRAG_SIZE>()?;
        self.rest = rest;
        self.left = self.left.saturating_sub(1);
        parse_frag(frag, self.endian)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::from(self.left);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Frags<'_> {}

/// A descriptor to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescOut<'a> {
    /// The rkey, valid for all fragments.
    pub key: u32,
    /// 1 to 257 fragments. We register what we describe and send one; older peers send more.
    pub frags: &'a [Frag],
}

impl DescOut<'_> {
    /// Length of the fragments on the wire in bytes, if this descriptor may be sent.
    pub(super) fn frags_len(&self) -> Result<usize, EmitError> {
        let nfrags = self.frags.len();
        if !(1..=usize::from(MAX_FRAGS)).contains(&nfrags) {
            return Err(EmitError::BadFragCount { nfrags });
        }
        self.frags
            .iter()
            .try_fold(0u32, |sum, frag| sum.checked_add(frag.nob))
            .ok_or(EmitError::FragSumOverflow)?;
        nfrags
            .checked_mul(FRAG_SIZE)
            .ok_or(EmitError::BadFragCount { nfrags })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Option<()> {
        writer.u32(self.key)?;
        writer.u32(u32::try_from(self.frags.len()).ok()?)?;
        for frag in self.frags {
            writer.u32(frag.nob)?;
            writer.u64(frag.addr)?;
        }
        Some(())
    }
}
