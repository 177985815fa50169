// SPDX-License-Identifier: GPL-2.0

//! Work requests and chains of them.

use super::{
    DeviceId,
    DmaAddr,
    DmaBuf,
    DmaSg,
    FromDevice,
    Mapped,
    Mr,
    Pd,
    PdId,
    Posted,
    ToDevice, //
};
use crate::ffi::verbs;
use kernel::prelude::*;

/// A local piece of memory for a work request, by DMA address on one device.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    addr: DmaAddr,
    len: u32,
    dev: DeviceId,
}

impl Piece {
    /// `len` bytes at `addr` on `dev`.
    pub(super) const fn new(dev: DeviceId, addr: DmaAddr, len: u32) -> Self {
        Self { addr, len, dev }
    }
}

/// Options of a send work request.
#[derive(Clone, Copy, Default)]
pub(crate) struct SendFlags {
    /// Success, too, makes a completion; failure always does.
    pub(crate) signaled: bool,
}

/// Nothing was added to a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChainError {
    /// The chain has no room for the request, or the request for its pieces.
    Full,
    /// A piece is not mapped on the device of the chain, or a region is not in its PD.
    Foreign,
}

impl From<ChainError> for Error {
    fn from(e: ChainError) -> Self {
        match e {
            ChainError::Full => ENOSPC,
            ChainError::Foreign => EXDEV,
        }
    }
}

/// What [`SendChain::reg`] makes of a region; on error it is as it was.
pub(crate) type Registered = core::result::Result<Mr<Posted>, (ChainError, Mr<Mapped>)>;

/// Where the requests of a chain may go: to QPs in one PD.
///
/// Numbers only: a chain does not keep its PD.
#[derive(Clone, Copy)]
struct Target {
    pd: PdId,
    dev: DeviceId,
    lkey: u32,
}

impl Target {
    fn new(pd: &Pd) -> Self {
        Self {
            pd: pd.id(),
            dev: pd.device().id(),
            lkey: pd.lkey(),
        }
    }
}

/// A list of pieces with a fixed capacity.
struct Sges(KVVec<verbs::Sge>);

impl Sges {
    fn new(max: u32) -> Result<Self> {
        Ok(Self(KVVec::with_capacity(max as usize, GFP_KERNEL)?))
    }

    fn room(&self) -> usize {
        self.0.capacity() - self.0.len()
    }

    /// Adds the pieces of one request, all or none; returns where they are and how many.
    fn push(
        &mut self,
        lkey: u32,
        pieces: impl Iterator<Item = (DmaAddr, u32)>,
    ) -> core::result::Result<(*mut verbs::Sge, u16), ChainError> {
        let at = self.0.len();
        for (addr, len) in pieces {
            let sge = verbs::Sge::new(addr.to_raw(), len, lkey);
            if self.0.push_within_capacity(sge).is_err() {
                self.0.truncate(at);
                return Err(ChainError::Full);
            }
        }
        let n = u16::try_from(self.0.len() - at).map_err(|_| ChainError::Full)?;
        Ok((self.0.as_mut_ptr().wrapping_add(at), n))
    }
}

/// A chain of send work requests for QPs in one PD, in memory set aside once.
///
/// Filled, posted by [`Qp::post_send`](super::Qp::post_send) in one call, and empty again. The
/// device copies what it needs, so one chain per connection (or per thread) is enough.
///
/// # Invariants
///
/// Each request in `wrs` points to the one behind it, and to pieces in `sges`; neither vector is
/// ever reallocated. Pieces are under the key of `to`, regions in its PD and not deregistered
/// before the chain is posted or emptied.
pub(crate) struct SendChain {
    wrs: KVVec<verbs::SendWr>,
    sges: Sges,
    to: Target,
}

// SAFETY: The pointers in the requests are to memory owned by the chain, and to MRs, which may be
// posted from any thread.
unsafe impl Send for SendChain {}

// SAFETY: Shared access is to numbers only.
unsafe impl Sync for SendChain {}

impl SendChain {
    /// Memory for `max_wrs` requests with `max_sges` pieces together, for QPs in `pd`. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(pd: &Pd, max_wrs: u32, max_sges: u32) -> Result<Self> {
        Ok(Self {
            wrs: KVVec::with_capacity(max_wrs as usize, GFP_KERNEL)?,
            sges: Sges::new(max_sges)?,
            to: Target::new(pd),
        })
    }

    /// The PD of the QPs that it is for.
    pub(super) fn pd(&self) -> PdId {
        self.to.pd
    }

    /// Requests in the chain.
    pub(crate) fn len(&self) -> usize {
        self.wrs.len()
    }

    /// Whether `wrs` more requests with `sges` pieces together fit.
    pub(crate) fn has_room(&self, wrs: usize, sges: usize) -> bool {
        self.wrs.capacity() - self.wrs.len() >= wrs && self.sges.room() >= sges
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
        pieces: impl Iterator<Item = (DmaAddr, u32)>,
        make: impl FnOnce(*mut verbs::Sge, u16) -> verbs::SendWr,
    ) -> core::result::Result<(), ChainError> {
        if !self.has_room(1, 0) {
            return Err(ChainError::Full);
        }
        let (at, n) = self.sges.push(self.to.lkey, pieces)?;
        let behind = self.wrs.as_mut_ptr().wrapping_add(self.wrs.len());
        if let Some(last) = self.wrs.last_mut() {
            last.link(behind);
        }
        // Cannot fail: there is room. INVARIANT: It becomes the element at `behind`.
        let _ = self.wrs.push_within_capacity(make(at, n));
        Ok(())
    }

    /// Adds a SEND of `pieces`.
    ///
    /// # Errors
    ///
    /// [`ChainError`].
    pub(crate) fn send(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        pieces: &[Piece],
    ) -> core::result::Result<(), ChainError> {
        if pieces.iter().any(|piece| piece.dev != self.to.dev) {
            return Err(ChainError::Foreign);
        }
        let common = common(wr_id, flags);
        let pieces = pieces.iter().map(|piece| (piece.addr, piece.len));
        self.push(pieces, |at, n| verbs::SendWr::send(common, at, n))
    }

    /// Adds an RDMA WRITE to the peer's memory at `remote`, under its key `rkey`, of `pieces` of
    /// `source`: addresses within its segments, and bytes.
    ///
    /// # Errors
    ///
    /// [`ChainError`].
    pub(crate) fn write(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        source: &DmaSg<ToDevice>,
        pieces: impl Iterator<Item = (DmaAddr, u32)>,
        remote: u64,
        rkey: u32,
    ) -> core::result::Result<(), ChainError> {
        if source.device_id() != self.to.dev {
            return Err(ChainError::Foreign);
        }
        let common = common(wr_id, flags);
        self.push(pieces, |at, n| {
            verbs::SendWr::write(common, at, n, remote, rkey)
        })
    }

    /// Adds an RDMA WRITE of nothing to nowhere, for a QP that flushes it.
    pub(super) fn write_nothing(&mut self, wr_id: u64) -> core::result::Result<(), ChainError> {
        let common = common(wr_id, SendFlags { signaled: true });
        self.push(core::iter::empty(), |at, n| {
            verbs::SendWr::write(common, at, n, 0, 0)
        })
    }

    /// Adds the registration of `mr`, for writing by the peer.
    ///
    /// From here on it counts as [`Posted`], whatever becomes of the chain, so that it cannot be
    /// deregistered behind the back of the request.
    ///
    /// # Errors
    ///
    /// [`ChainError`], with the region as it was.
    pub(crate) fn reg(&mut self, wr_id: u64, flags: SendFlags, mr: Mr<Mapped>) -> Registered {
        if mr.pd_id() != self.to.pd {
            return Err((ChainError::Foreign, mr));
        }
        let common = common(wr_id, flags);
        let added = self.push(core::iter::empty(), |_, _| {
            verbs::SendWr::reg(common, mr.as_raw(), mr.rkey())
        });
        match added {
            Ok(()) => Ok(mr.posted()),
            Err(e) => Err((e, mr)),
        }
    }

    /// Adds the invalidation of the key of `mr`.
    ///
    /// # Errors
    ///
    /// [`ChainError`].
    pub(crate) fn local_inv(
        &mut self,
        wr_id: u64,
        flags: SendFlags,
        mr: &Mr<Posted>,
    ) -> core::result::Result<(), ChainError> {
        if mr.pd_id() != self.to.pd {
            return Err(ChainError::Foreign);
        }
        let common = common(wr_id, flags);
        self.push(core::iter::empty(), |_, _| {
            verbs::SendWr::local_inv(common, mr.rkey())
        })
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
    to: Target,
}

// SAFETY: The pointers in the requests are to memory owned by the chain.
unsafe impl Send for RecvChain {}

// SAFETY: Shared access is to numbers only.
unsafe impl Sync for RecvChain {}

impl RecvChain {
    /// Memory for `max` requests, for QPs in `pd`. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(pd: &Pd, max: u32) -> Result<Self> {
        Ok(Self {
            wrs: KVVec::with_capacity(max as usize, GFP_KERNEL)?,
            sges: Sges::new(max)?,
            to: Target::new(pd),
        })
    }

    /// The PD of the QPs that it is for.
    pub(super) fn pd(&self) -> PdId {
        self.to.pd
    }

    /// Whether another request fits.
    pub(crate) fn has_room(&self) -> bool {
        self.wrs.capacity() > self.wrs.len() && self.sges.room() > 0
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

    /// Adds a receive into all of `buf`, which is handed to the device.
    ///
    /// # Errors
    ///
    /// [`ChainError`].
    pub(crate) fn recv(
        &mut self,
        wr_id: u64,
        buf: &DmaBuf<FromDevice>,
    ) -> core::result::Result<(), ChainError> {
        if !self.has_room() {
            return Err(ChainError::Full);
        }
        if buf.device_id() != self.to.dev {
            return Err(ChainError::Foreign);
        }
        let piece = core::iter::once(buf.recv_piece());
        let (at, n) = self.sges.push(self.to.lkey, piece)?;
        let behind = self.wrs.as_mut_ptr().wrapping_add(self.wrs.len());
        if let Some(last) = self.wrs.last_mut() {
            last.link(behind);
        }
        // Cannot fail: there is room. INVARIANT: It becomes the element at `behind`.
        let _ = self
            .wrs
            .push_within_capacity(verbs::RecvWr::new(wr_id, at, n));
        Ok(())
    }
}
