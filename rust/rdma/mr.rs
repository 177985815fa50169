// SPDX-License-Identifier: GPL-2.0

//! Fast-registration memory regions.
//!
//! Only memory that a peer writes is registered. What a region allows a peer to do is in its type:
//!
//! ```text
//!           map()              posted()               invalidated()
//!   Free ----------> Mapped -------------> Posted ------------------> Free
//!                      | cancel(): Free      | dereg(): gone
//! ```
//!
//! `Posted` covers every state that is not known: a registration or an invalidation that is in
//! progress, was flushed or failed. A region in it is good only for deregistering, which puts an
//! end to the peer's access whatever the state was; so dropping it is right, too.

use super::{
    DmaSg,
    FromDevice,
    Pd, //
};
use crate::ffi::verbs;
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};

/// Nothing is mapped and the peer has no valid key.
pub(crate) struct Free(());

/// Memory is entered under a new key that is not valid yet.
pub(crate) struct Mapped {
    sg: DmaSg<FromDevice>,
}

/// The peer may be able to write the memory.
pub(crate) struct Posted {
    sg: DmaSg<FromDevice>,
}

/// A memory region in state `S`.
///
/// # Invariants
///
/// In state [`Free`] and [`Mapped`] the region's key is not valid at the device. Fields drop in
/// this order: first the region, which ends all access, then the mapping.
pub(crate) struct Mr<S> {
    region: Region,
    state: S,
}

/// The region itself; deregistered when dropped.
struct Region {
    raw: NonNull<verbs::IbMr>,
    /// Lives longer than the region.
    _pd: Arc<Pd>,
}

// SAFETY: An MR may be used from any thread.
unsafe impl Send for Region {}

// SAFETY: Shared access reads keys only.
unsafe impl Sync for Region {}

impl Drop for Region {
    /// Sleeps.
    fn drop(&mut self) {
        // SAFETY: Allocated by `Mr::new`, and owned.
        let rc = unsafe { verbs::mr_free(self.raw.as_ptr()) };
        if rc != 0 {
            // Not done by any provider for a region of a kernel user; if one did, its memory
            // would stay open to the peer.
            pr_err!("deregistering a memory region failed: {rc}\n");
        }
    }
}

impl Region {
    fn rkey(&self) -> u32 {
        // SAFETY: The region is owned.
        unsafe { verbs::mr_rkey(self.raw.as_ptr()) }
    }
}

impl Mr<Free> {
    /// Allocates a region for up to `max_pages` pages; `gaps`: whose inner borders need not be
    /// page-aligned (only where [`DeviceCaps::sg_gaps`](super::device::DeviceCaps) is set). Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL`, and what the provider returns.
    pub(crate) fn new(pd: &Arc<Pd>, max_pages: u32, gaps: bool) -> Result<Self> {
        // SAFETY: The PD lives as long as the region.
        let raw = from_err_ptr(unsafe { verbs::mr_alloc(pd.as_raw(), max_pages, gaps) })?;
        // INVARIANT: No key of it was ever made valid.
        Ok(Self {
            region: Region {
                raw: NonNull::new(raw).ok_or(ENOMEM)?,
                _pd: pd.clone(),
            },
            state: Free(()),
        })
    }

    /// Enters `sg` under a new key. Does not sleep.
    ///
    /// # Errors
    ///
    /// With both arguments: `EINVAL` when the region cannot hold all of it (too many pages, or an
    /// inner border that is not page-aligned), and what the provider returns.
    pub(crate) fn map(
        self,
        sg: DmaSg<FromDevice>,
    ) -> core::result::Result<Mr<Mapped>, (Error, Self, DmaSg<FromDevice>)> {
        let (sgl, nents) = sg.raw();
        // SAFETY: The region is owned and not valid at the device; the list is mapped.
        let rc = unsafe { verbs::mr_map(self.region.raw.as_ptr(), sgl, nents) };
        if rc < 0 {
            return Err((Error::from_errno(rc), self, sg));
        }
        // SAFETY: The region is owned.
        let length = unsafe { verbs::mr_length(self.region.raw.as_ptr()) };
        // All entries, and all their bytes: a provider may take part of the last one.
        if u32::try_from(rc) != Ok(nents) || length != sg.len() {
            return Err((EINVAL, self, sg));
        }
        // INVARIANT: The new key becomes valid by a posted registration only.
        Ok(Mr {
            region: self.region,
            state: Mapped { sg },
        })
    }
}

impl Mr<Mapped> {
    /// The key for the peer; also what [`SendChain::reg`](super::SendChain::reg) registers.
    pub(crate) fn rkey(&self) -> u32 {
        self.region.rkey()
    }

    /// The address that the peer names for the first byte.
    pub(crate) fn iova(&self) -> u64 {
        // SAFETY: The region is owned.
        unsafe { verbs::mr_iova(self.region.raw.as_ptr()) }
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        self.state.sg.len()
    }

    pub(super) fn as_raw(&self) -> *mut verbs::IbMr {
        self.region.raw.as_ptr()
    }

    /// To be called when the registration is given to the device, however that ends.
    pub(crate) fn posted(self) -> Mr<Posted> {
        Mr {
            region: self.region,
            state: Posted { sg: self.state.sg },
        }
    }

    /// Takes the memory back when the peer never had access.
    ///
    /// # Safety
    ///
    /// No registration of the region was given to the device since it was mapped.
    pub(crate) unsafe fn cancel(self) -> (Mr<Free>, DmaSg<FromDevice>) {
        // INVARIANT: The key never became valid, by the contract of this function.
        let mr = Mr {
            region: self.region,
            state: Free(()),
        };
        (mr, self.state.sg)
    }
}

impl Mr<Posted> {
    /// The key for the peer; also what [`SendChain::local_inv`](super::SendChain::local_inv) takes.
    pub(crate) fn rkey(&self) -> u32 {
        self.region.rkey()
    }

    /// Takes the memory back after the peer lost access.
    ///
    /// # Safety
    ///
    /// A LOCAL_INV of [`Mr::rkey`], posted after the registration, has completed successfully.
    pub(crate) unsafe fn invalidated(self) -> (Mr<Free>, DmaSg<FromDevice>) {
        // INVARIANT: The key is not valid by the contract of this function.
        let mr = Mr {
            region: self.region,
            state: Free(()),
        };
        (mr, self.state.sg)
    }

    /// Ends the peer's access, whatever the state, and takes the memory back. Sleeps.
    ///
    /// Requests that name the region must be over: the QP is drained or gone.
    ///
    /// `ib_dereg_mr` can return an error; then the memory comes back although the peer may still
    /// be able to write it, with a line in the log. No provider fails so for a region of a kernel
    /// user, whose memory is not pinned by it. To keep the memory for ever would keep LNet's
    /// message, and with it the NI, for ever.
    pub(crate) fn dereg(self) -> DmaSg<FromDevice> {
        drop(self.region);
        self.state.sg
    }
}

/// Free regions of one PD, shared by its connections; one pool per CPT.
///
/// Grows when it is empty and keeps what fits its limit.
#[pin_data]
pub(crate) struct MrPool {
    #[pin]
    free: SpinLock<KVVec<Mr<Free>>>,
    pd: Arc<Pd>,
    max_pages: u32,
    gaps: bool,
}

impl MrPool {
    /// Makes a pool of `fill` regions that keeps `limit` of them. Sleeps.
    ///
    /// # Errors
    ///
    /// As for [`Mr::new`].
    pub(crate) fn new(
        pd: &Arc<Pd>,
        max_pages: u32,
        gaps: bool,
        fill: u32,
        limit: u32,
    ) -> Result<Arc<Self>> {
        let mut free = KVVec::with_capacity(limit as usize, GFP_KERNEL)?;
        for _ in 0..fill.min(limit) {
            free.push(Mr::new(pd, max_pages, gaps)?, GFP_KERNEL)?;
        }
        let pd = pd.clone();
        Arc::pin_init(
            pin_init!(Self {
                free <- new_spinlock!(free, "ko2iblnd::MrPool"),
                pd,
                max_pages,
                gaps,
            }),
            GFP_KERNEL,
        )
    }

    /// Takes a region that is there. Does not sleep.
    pub(crate) fn get_cached(&self) -> Option<Mr<Free>> {
        self.free.lock().pop()
    }

    /// Takes a region, a new one if none is there. Sleeps.
    ///
    /// # Errors
    ///
    /// As for [`Mr::new`].
    pub(crate) fn get(&self) -> Result<Mr<Free>> {
        match self.get_cached() {
            Some(mr) => Ok(mr),
            None => Mr::new(&self.pd, self.max_pages, self.gaps),
        }
    }

    /// Gives a region back. Sleeps when the pool is full, to deregister it.
    pub(crate) fn put(&self, mr: Mr<Free>) {
        let surplus = self.free.lock().push_within_capacity(mr);
        // Dropped after the lock.
        drop(surplus);
    }
}
