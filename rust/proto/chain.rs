// SPDX-License-Identifier: GPL-2.0

//! The plan of RDMA WRITEs from a source to a sink (protocol.md section 11.4).
//!
//! Each WRITE goes to one fragment of the sink and gathers up to a number of pieces of the source.
//! A WRITE that is still open at the end counts: the reference forgets it.

use super::errno::{
    EMSGSIZE,
    EPROTO, //
};
use crate::wire::{
    Desc,
    DescView, //
};

/// A piece of the source, as the local device addresses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrcFrag {
    /// DMA address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChainError {
    /// The source has fewer bytes than are to be moved.
    SourceTooShort,
    /// The sink has fewer bytes than are to be moved.
    SinkTooShort,
    /// More WRITEs are needed than the connection allows.
    TooManyWrites,
    /// The buffer does not hold the fragments of the descriptor, or there is no room for an SGE.
    BadArgument,
}

impl ChainError {
    /// The errno, positive, that both ends are told.
    pub const fn errno(self) -> i32 {
        match self {
            Self::SourceTooShort | Self::SinkTooShort | Self::BadArgument => EPROTO,
            Self::TooManyWrites => EMSGSIZE,
        }
    }
}

/// One RDMA WRITE. Its SGEs are in the array that [`Cursor::next`] was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Address in the sink.
    pub remote: u64,
    /// Key of the sink.
    pub rkey: u32,
    /// Number of SGEs, at least 1.
    pub nsge: usize,
}

/// A transfer from a source to the sink of the peer, and how far it has been planned.
///
/// The source and the receive buffer with the fragments of the sink are not in it, but the same in
/// every call. The fragments are read one by one as they are needed; the descriptor is not parsed
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The sink.
    desc: Desc,
    /// Bytes still to be moved.
    rest: u32,
    src_frag: usize,
    /// Bytes of that fragment that have been used.
    src_used: u32,
    sink_frag: u16,
    sink_used: u32,
}

impl Cursor {
    /// The start of a transfer of `total` bytes to `desc`.
    pub const fn new(desc: Desc, total: u32) -> Self {
        Self {
            desc,
            rest: total,
            src_frag: 0,
            src_used: 0,
            sink_frag: 0,
            sink_used: 0,
        }
    }

    /// Bytes still to be moved.
    #[cfg(feature = "tests")]
    pub const fn rest(&self) -> u32 {
        self.rest
    }

    /// Plans the next WRITE with at most `sges.len()` SGEs, from the pieces of `src` to the
    /// fragments in `buf`. `None` when everything has been moved.
    ///
    /// Fragments of no bytes are passed over.
    ///
    /// # Errors
    ///
    /// When source or sink end before the transfer, `buf` before the fragments, or there is no
    /// room for an SGE. The cursor is where it was then.
    pub fn next(
        &mut self,
        src: &[SrcFrag],
        buf: &[u8],
        sges: &mut [SrcFrag],
    ) -> Result<Option<Write>, ChainError> {
        let sink = self.desc.view(buf).ok_or(ChainError::BadArgument)?;
        if self.rest == 0 {
            return Ok(None);
        }
        let mut at = *self;
        let remote = at.sink_position(&sink)?;
        let mut nsge = 0usize;
        for sge in sges.iter_mut() {
            let (piece, sink_ended) = at.take(src, &sink)?;
            *sge = piece;
            nsge = nsge.saturating_add(1);
            if sink_ended || at.rest == 0 {
                break;
            }
        }
        if nsge == 0 {
            return Err(ChainError::BadArgument);
        }
        *self = at;
        Ok(Some(Write {
            remote,
            rkey: self.desc.key(),
            nsge,
        }))
    }

    /// Counts the WRITEs from here to the end, with at most `max_sge` SGEs each.
    ///
    /// # Errors
    ///
    /// As of [`Cursor::next`]; [`ChainError::TooManyWrites`] when more than `max_frags` WRITEs
    /// would be needed.
    pub fn count(
        mut self,
        src: &[SrcFrag],
        buf: &[u8],
        max_sge: u16,
        max_frags: u16,
    ) -> Result<u16, ChainError> {
        let sink = self.desc.view(buf).ok_or(ChainError::BadArgument)?;
        let mut writes = 0u16;
        while self.skip(src, &sink, max_sge)? {
            if writes >= max_frags {
                return Err(ChainError::TooManyWrites);
            }
            writes = writes.saturating_add(1);
        }
        Ok(writes)
    }

    /// Passes over finished fragments of the sink; the address of the first free byte.
    fn sink_position(&mut self, sink: &DescView<'_>) -> Result<u64, ChainError> {
        // Ends after at most 257 fragments.
        loop {
            let frag = sink.frag(self.sink_frag).ok_or(ChainError::SinkTooShort)?;
            if self.sink_used < frag.nob {
                return Ok(frag.addr.wrapping_add(u64::from(self.sink_used)));
            }
            self.sink_frag = self.sink_frag.saturating_add(1);
            self.sink_used = 0;
        }
    }

    /// The next piece, which lies in one fragment of each side, and whether it ends that of the
    /// sink.
    fn take(
        &mut self,
        src: &[SrcFrag],
        sink: &DescView<'_>,
    ) -> Result<(SrcFrag, bool), ChainError> {
        let (from, src_rest) = loop {
            let frag = src.get(self.src_frag).ok_or(ChainError::SourceTooShort)?;
            match frag.len.checked_sub(self.src_used) {
                Some(rest) if rest > 0 => {
                    break (frag.addr.wrapping_add(u64::from(self.src_used)), rest)
                }
                Some(_) | None => {
                    self.src_frag = self.src_frag.saturating_add(1);
                    self.src_used = 0;
                }
            }
        };
        let frag = sink.frag(self.sink_frag).ok_or(ChainError::SinkTooShort)?;
        let sink_rest = frag.nob.saturating_sub(self.sink_used);
        let len = src_rest.min(sink_rest).min(self.rest);
        self.src_used = self.src_used.saturating_add(len);
        self.sink_used = self.sink_used.saturating_add(len);
        self.rest = self.rest.saturating_sub(len);
        Ok((SrcFrag { addr: from, len }, len == sink_rest))
    }

    /// As [`Cursor::next`] with `max_sge` SGEs, without saying what they are. `false` at the end.
    fn skip(
        &mut self,
        src: &[SrcFrag],
        sink: &DescView<'_>,
        max_sge: u16,
    ) -> Result<bool, ChainError> {
        if self.rest == 0 {
            return Ok(false);
        }
        if max_sge == 0 {
            return Err(ChainError::BadArgument);
        }
        let mut at = *self;
        at.sink_position(sink)?;
        for _ in 0..max_sge {
            let (_, sink_ended) = at.take(src, sink)?;
            if sink_ended || at.rest == 0 {
                break;
            }
        }
        *self = at;
        Ok(true)
    }
}
