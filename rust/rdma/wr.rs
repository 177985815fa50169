// SPDX-License-Identifier: GPL-2.0

//! Work requests and chains of them.

use super::{
    DmaAddr,
    Lkey,
    Mapped,
    Mr, //
};
use crate::ffi::verbs;
use kernel::prelude::*;

/// A local piece of memory in a work request, by DMA address.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Sge(verbs::Sge);

impl Sge {
    /// `len` bytes at `addr`, under `lkey`.
    pub(crate) const fn new(addr: DmaAddr, len: u32, lkey: Lkey) -> Self {
        Self(verbs::Sge::new(addr.to_raw(), len, lkey.0))
    }
}

/// Options of a send work request.
#[derive(Clone, Copy, Default)]
pub(crate) struct SendFlags {
    /// Success, too, makes a completion; failure always does.
    pub(crate) signaled: bool,
}

/// The chain has no room for the request, or the request has no room for its pieces. Nothing was
/// added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChainFull;

impl From<ChainFull> for Error {
    fn from(_: ChainFull) -> Self {
        ENOSPC
    }
}

/// A list of pieces with a fixed capacity, and where the next request's begin.
struct Sges(KVVec<verbs::Sge>);

impl Sges {
    fn new(max: u32) -> Result<Self> {
        Ok(Self(KVVec::with_capacity(max as usize, GFP_KERNEL)?))
    }

    fn has_room(&self, n: usize) -> bool {
        self.0.capacity() - self.0.len() >= n
    }

    /// Adds the pieces of one request; returns where they are. The caller checked the room.
    fn push(&mut self, sges: &[Sge]) -> *mut verbs::Sge {
        let at = self.0.len();
        for sge in sges {
            // Cannot fail: there is room.
            let _ = self.0.push_within_capacity(sge.0);
        }
        self.0.as_mut_ptr().wrapping_add(at)
    }
}

/// A chain of send work requests, in memory set aside once.
///
/// Filled, posted by [`Qp::post_send`](super::Qp::post_send) in one call, and empty again. The
/// device copies what it needs, so one chain per connection (or per thread) is enough.
///
/// # Invariants
///
/// Each request in `wrs` points to the one behind it, and to pieces in `sges`; neither vector is
/// ever reallocated.
pub(crate) struct SendChain {
    wrs: KVVec<verbs::SendWr>,
    sges: Sges,
}

// SAFETY: The pointers in the requests are to memory owned by the chain, and to MRs, which may be
// posted from any thread.
unsafe impl Send for SendChain {}

// SAFETY: Shared access is to numbers only.
unsafe impl Sync for SendChain {}

impl SendChain {
    /// Memory for `max_wrs` requests with `max_sges` pieces together. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_wrs: u32, max_sges: u32) -> Result<Self> {
        Ok(Self {
            wrs: KVVec::with_capacity(max_wrs as usize, GFP_KERNEL)?,
            sges: Sges::new(max_sges)?,
        })
    }

    /// Requests in the chain.
    pub(crate) fn len(&self) -> usize {
        self.wrs.len()
    }

    /// Whether `wrs` more requests with `sges` pieces together fit.
    pub(crate) fn has_room(&self, wrs: usize, sges: usize) -> bool {
        self.wrs.capacity() - self.wrs.len() >= wrs && self.sges.has_room(sges)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.wrs.clear();
        self.sges.0.clear();
    }

    /// The head, for posting; [`None`] when empty.
    pub(super) fn head(&mut self) -> Option<&mut verbs::SendWr> {
        self.wrs.first_mut()
    }

    fn push(
        &mut self,
        sges: &[Sge],
        make: impl FnOnce(*mut verbs::Sge, u16) -> verbs::SendWr,
    ) -> core::result::Result<(), ChainFull> {
        if !self.has_room(1, sges.len()) {
            return Err(ChainFull);
        }
        let n = u16::try_from(sges.len()).map_err(|_| ChainFull)?;
        let at = self.sges.push(sges);
        let behind = self.wrs.as_mut_ptr().wrapping_add(self.wrs.len());
        if let Some(last) = self.wrs.last_mut() {
            last.link(behind);
        }
        // Cannot fail: there is room. INVARIANT: It becomes the element at `behind`.
        let _ = self.wrs.push_within_capacity(make(at, n));
        Ok(())
    }

    /// Adds a SEND of `sges`.
    ///
    /// # Errors
    ///
    /// [`ChainFull`].
    pub(crate) fn send(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        sges: &[Sge],
    ) -> core::result::Result<(), ChainFull> {
        let common = common(wr_id, flags);
        self.push(sges, |at, n| verbs::SendWr::send(common, at, n))
    }

    /// Adds an RDMA WRITE of `sges` to the peer's memory at `remote`, under its key `rkey`.
    ///
    /// # Errors
    ///
    /// [`ChainFull`].
    pub(crate) fn write(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        sges: &[Sge],
        remote: u64,
        rkey: u32,
    ) -> core::result::Result<(), ChainFull> {
        let common = common(wr_id, flags);
        self.push(sges, |at, n| {
            verbs::SendWr::write(common, at, n, remote, rkey)
        })
    }

    /// Adds the registration of `mr`, for writing by the peer.
    ///
    /// When the device has taken it, turn `mr` into [`Mr::posted`].
    ///
    /// # Errors
    ///
    /// [`ChainFull`].
    pub(crate) fn reg(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        mr: &Mr<Mapped>,
    ) -> core::result::Result<(), ChainFull> {
        let common = common(wr_id, flags);
        self.push(&[], |_, _| {
            verbs::SendWr::reg(common, mr.as_raw(), mr.rkey())
        })
    }

    /// Adds the invalidation of `rkey`, a key of ours.
    ///
    /// # Errors
    ///
    /// [`ChainFull`].
    pub(crate) fn local_inv(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        rkey: u32,
    ) -> core::result::Result<(), ChainFull> {
        let common = common(wr_id, flags);
        self.push(&[], |_, _| verbs::SendWr::local_inv(common, rkey))
    }
}

fn common(wr_id: u64, flags: SendFlags) -> verbs::SendCommon {
    verbs::SendCommon {
        wr_id,
        signaled: flags.signaled,
    }
}

/// A chain of receive work requests with one piece each, as [`SendChain`].
///
/// # Invariants
///
/// As for [`SendChain`].
pub(crate) struct RecvChain {
    wrs: KVVec<verbs::RecvWr>,
    sges: Sges,
}

// SAFETY: The pointers in the requests are to memory owned by the chain.
unsafe impl Send for RecvChain {}

// SAFETY: Shared access is to numbers only.
unsafe impl Sync for RecvChain {}

impl RecvChain {
    /// Memory for `max` requests. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max: u32) -> Result<Self> {
        Ok(Self {
            wrs: KVVec::with_capacity(max as usize, GFP_KERNEL)?,
            sges: Sges::new(max)?,
        })
    }

    /// Whether another request fits.
    pub(crate) fn has_room(&self) -> bool {
        self.wrs.capacity() > self.wrs.len() && self.sges.has_room(1)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.wrs.clear();
        self.sges.0.clear();
    }

    /// The head, for posting; [`None`] when empty.
    pub(super) fn head(&mut self) -> Option<&mut verbs::RecvWr> {
        self.wrs.first_mut()
    }

    /// Adds a receive into `sge`.
    ///
    /// # Errors
    ///
    /// [`ChainFull`].
    pub(crate) fn recv(&mut self, wr_id: u64, sge: Sge) -> core::result::Result<(), ChainFull> {
        if !self.has_room() {
            return Err(ChainFull);
        }
        let at = self.sges.push(&[sge]);
        let behind = self.wrs.as_mut_ptr().wrapping_add(self.wrs.len());
        if let Some(last) = self.wrs.last_mut() {
            last.link(behind);
        }
        // Cannot fail: there is room. INVARIANT: It becomes the element at `behind`.
        let _ = self
            .wrs
            .push_within_capacity(verbs::RecvWr::new(wr_id, at, 1));
        Ok(())
    }
}
