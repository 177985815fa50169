// SPDX-License-Identifier: GPL-2.0

//! Fast-registration memory regions.
//!
//! Only memory that a peer writes is registered. What a region allows a peer to do is in its type:
//!
//! ```text
//!           map()           SendChain::reg()          invalidated()
//!   Free ----------> Mapped -----------------> Posted --------------> Free
//!                      | cancel(): Free          | dereg(): gone
//! ```
//!
//! `Posted` covers every state that is not known: a registration that is in a chain or in progress,
//! an invalidation that is in progress, was flushed or failed. A region in it is good only for
//! deregistering, which puts an end to the peer's access whatever the state was. Requests that name
//! the region must be over then, and the device can refuse; so that is asked for, and a region that
//! is dropped in this state stays registered, and its memory mapped, for ever.

use super::{
    DmaSg,
    FromDevice,
    Pd,
    PdId, //
};
use crate::ffi::verbs;
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
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
    sg: Kept,
}

/// A mapping that is not undone when it is dropped.
struct Kept(ManuallyDrop<DmaSg<FromDevice>>);

impl Drop for Kept {
    fn drop(&mut self) {
        pr_err!("a memory region that a peer may write was dropped: it stays registered\n");
    }
}

impl Kept {
    fn new(sg: DmaSg<FromDevice>) -> Self {
        Self(ManuallyDrop::new(sg))
    }

    fn take(self) -> DmaSg<FromDevice> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used or dropped any more, so the mapping is taken once.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

/// A memory region in state `S`.
///
/// # Examples
///
/// ```ignore
/// let mr = pool.get()?;
/// let mr = mr.map(sg).map_err(|(e, _, _)| e)?;
/// let key = mr.rkey();
/// // From here on the peer may have access, even if posting fails.
/// let mr = chain.reg(wr_id, flags, mr).map_err(|(e, _)| e)?;
/// // SAFETY: ...
/// unsafe { qp.post_send(&mut chain) }?;
/// // ... the queue pair has been drained:
/// // SAFETY: Nothing that names the region is in progress.
/// let sg = unsafe { mr.dereg() }.map_err(|(e, _still)| e)?;
/// ```
///
/// # Invariants
///
/// In state [`Free`] and [`Mapped`] the region's key is not valid at the device, and no request
/// names it. Fields drop in this order: first the region, which ends all access, then the mapping.
/// In state [`Posted`] neither is given back by dropping it.
pub(crate) struct Mr<S> {
    region: Region,
    state: S,
}

/// The region itself; deregistered when dropped, unless it may be in use.
struct Region {
    raw: NonNull<verbs::IbMr>,
    /// A peer may have access, and requests may name it.
    in_use: bool,
    /// Lives longer than the region.
    pd: ManuallyDrop<Arc<Pd>>,
}

// SAFETY: An MR may be used from any thread.
unsafe impl Send for Region {}

// SAFETY: Shared access reads keys only.
unsafe impl Sync for Region {}

impl Drop for Region {
    /// Sleeps.
    fn drop(&mut self) {
        if self.in_use {
            return;
        }
        if let Err(e) = self.free() {
            // Its PD stays with it. No memory is: the peer never had a key, or has lost it.
            pr_err!("a memory region cannot be deregistered: {e:?}\n");
        }
    }
}

impl Region {
    fn rkey(&self) -> u32 {
        // SAFETY: The region is owned; the key changes only in `Mr::map`, which takes it by value.
        unsafe { verbs::mr_rkey(self.raw.as_ptr()) }
    }

    /// Deregisters it. After success it is not used any more. Sleeps.
    fn free(&mut self) -> Result {
        // SAFETY: Allocated by `Mr::new`, and owned; no request that names it is in progress, by
        // the invariant of `Mr` or the contract of `dereg`. When the provider fails, it is as it
        // was.
        to_result(unsafe { verbs::mr_free(self.raw.as_ptr()) })?;
        // SAFETY: Once, because the callers do not use the region after success.
        unsafe { ManuallyDrop::drop(&mut self.pd) };
        Ok(())
    }
}

impl<S> Mr<S> {
    /// The PD that it is in.
    pub(super) fn pd_id(&self) -> PdId {
        self.region.pd.id()
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
                in_use: false,
                pd: ManuallyDrop::new(pd.clone()),
            },
            state: Free(()),
        })
    }

    /// Enters `sg` under a new key. Does not sleep.
    ///
    /// # Errors
    ///
    /// With both arguments: `EXDEV` when the memory is mapped on another device; `EINVAL` when the
    /// region cannot hold all of it (too many pages, or an inner border that is not page-aligned);
    /// and what the provider returns.
    pub(crate) fn map(
        self,
        sg: DmaSg<FromDevice>,
    ) -> core::result::Result<Mr<Mapped>, (Error, Self, DmaSg<FromDevice>)> {
        if sg.device_id() != self.region.pd.device().id() {
            return Err((EXDEV, self, sg));
        }
        let (sgl, nents) = sg.raw();
        // SAFETY: The region is owned, by this call alone, and not valid at the device; the list is
        // mapped on the region's device.
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

    /// A request names it.
    pub(super) fn posted(self) -> Mr<Posted> {
        let Self { mut region, state } = self;
        region.in_use = true;
        let sg = Kept::new(state.sg);
        // INVARIANT: Neither is given back when it is dropped.
        Mr {
            region,
            state: Posted { sg },
        }
    }

    /// Takes the memory back: the peer never had access, because what
    /// [`SendChain::reg`](super::SendChain::reg) has taken is not in this state any more.
    pub(crate) fn cancel(self) -> (Mr<Free>, DmaSg<FromDevice>) {
        // INVARIANT: The key never became valid, and no request has it.
        let mr = Mr {
            region: self.region,
            state: Free(()),
        };
        (mr, self.state.sg)
    }
}

impl Mr<Posted> {
    /// The key for the peer; also what [`SendChain::local_inv`](super::SendChain::local_inv)
    /// invalidates.
    pub(crate) fn rkey(&self) -> u32 {
        self.region.rkey()
    }

    /// Takes the memory back after the peer lost access.
    ///
    /// # Safety
    ///
    /// A LOCAL_INV of [`Mr::rkey`], posted after the registration, has completed successfully on
    /// the same QP, and no other request names the region.
    pub(crate) unsafe fn invalidated(self) -> (Mr<Free>, DmaSg<FromDevice>) {
        let Self { mut region, state } = self;
        region.in_use = false;
        // INVARIANT: The key is not valid, and no request has it, by the contract of this function.
        let mr = Mr {
            region,
            state: Free(()),
        };
        (mr, state.sg.take())
    }

    /// Ends the peer's access, whatever the state, and takes the memory back. Sleeps.
    ///
    /// # Errors
    ///
    /// What the provider returns, with the region: the peer may still be able to write the memory,
    /// which must stay as it is. Drivers of adapters return what the firmware says. It can be tried
    /// again.
    ///
    /// # Safety
    ///
    /// Requests that name the region are over: none is in a chain, and the QP that they were posted
    /// to is drained or gone.
    pub(crate) unsafe fn dereg(mut self) -> core::result::Result<DmaSg<FromDevice>, (Error, Self)> {
        if let Err(e) = self.region.free() {
            return Err((e, self));
        }
        // As it is in use, dropping it does nothing.
        Ok(self.state.sg.take())
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
                free <- new_spinlock!(free, "rdma::MrPool"),
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
