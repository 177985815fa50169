// SPDX-License-Identifier: GPL-2.0

//! Memory mapped for a device.

use super::{
    Device,
    DeviceId,
    Piece, //
};
use crate::{
    ffi::{
        types::PageSlice,
        verbs, //
    },
    kx::Node,
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::NonNull,
    slice, //
};
use kernel::{
    ffi::c_void,
    prelude::*,
    sync::Arc, //
};

/// An address as the device knows it. On rxe and siw it happens to be a kernel virtual address;
/// elsewhere it is not, so the two never mix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DmaAddr(u64);

impl DmaAddr {
    /// An address that came from [`DmaAddr::to_raw`], or an offset into the same mapping.
    pub(crate) const fn from_raw(addr: u64) -> Self {
        Self(addr)
    }

    /// The number, for bookkeeping.
    pub(crate) const fn to_raw(self) -> u64 {
        self.0
    }
}

mod private {
    pub(crate) trait Sealed {}
}

/// Which way data goes.
pub(crate) trait Direction: private::Sealed {
    #[doc(hidden)]
    const DIR: u32;
}

/// The device reads the memory.
pub(crate) struct ToDevice;
/// The device writes the memory.
pub(crate) struct FromDevice;

impl private::Sealed for ToDevice {}
impl private::Sealed for FromDevice {}

impl Direction for ToDevice {
    const DIR: u32 = verbs::dma_dir::TO_DEVICE;
}

impl Direction for FromDevice {
    const DIR: u32 = verbs::dma_dir::FROM_DEVICE;
}

/// A kernel buffer, mapped from its allocation to its end.
///
/// Mapping it once and syncing at each use is what makes it correct where DMA bounces through
/// other memory or is not coherent.
///
/// # Invariants
///
/// `cpu` points to `len` initialised bytes owned by `self`, mapped on `dev` at `addr` in direction
/// `D`.
pub(crate) struct DmaBuf<D: Direction> {
    dev: Arc<Device>,
    cpu: NonNull<u8>,
    addr: DmaAddr,
    len: u32,
    _dir: PhantomData<D>,
}

// SAFETY: The buffer is owned memory, and mappings may be undone by any thread.
unsafe impl<D: Direction> Send for DmaBuf<D> {}

// SAFETY: Shared access is to syncs, which the DMA layer allows from any thread, and to unsafe
// functions.
unsafe impl<D: Direction> Sync for DmaBuf<D> {}

impl<D: Direction> DmaBuf<D> {
    /// Allocates `len` zeroed bytes on `node` and maps them. Physically contiguous; 4 KiB are one
    /// page. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EIO` when the mapping fails; `EINVAL` for no bytes.
    pub(crate) fn new(dev: &Arc<Device>, len: u32, node: Node) -> Result<Self> {
        if len == 0 {
            return Err(EINVAL);
        }
        let size = len as usize;
        // SAFETY: No requirements.
        let buf = unsafe { verbs::buf_alloc(size, node.as_raw()) };
        let cpu = NonNull::new(buf.cast::<u8>()).ok_or(ENOMEM)?;
        let mut addr = 0;
        // SAFETY: The device is registered; the buffer has `size` bytes.
        let rc = unsafe { verbs::dma_map(dev.as_raw(), buf, size, D::DIR, &mut addr) };
        if rc != 0 {
            // SAFETY: Allocated above.
            unsafe { verbs::buf_free(buf) };
            return Err(Error::from_errno(rc));
        }
        // INVARIANT: Allocated and mapped above.
        Ok(Self {
            dev: dev.clone(),
            cpu,
            addr: DmaAddr(addr),
            len,
            _dir: PhantomData,
        })
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The device that it is mapped on.
    pub(super) fn device_id(&self) -> DeviceId {
        self.dev.id()
    }

    /// Hands the first `len` bytes to the CPU.
    fn to_cpu(&self, len: u32) {
        let len = len.min(self.len) as usize;
        // SAFETY: By the type invariant.
        unsafe { verbs::dma_sync_for_cpu(self.dev.as_raw(), self.addr.0, len, D::DIR) }
    }

    /// Hands the first `len` bytes to the device.
    fn to_device(&self, len: u32) {
        let len = len.min(self.len) as usize;
        // SAFETY: By the type invariant.
        unsafe { verbs::dma_sync_for_device(self.dev.as_raw(), self.addr.0, len, D::DIR) }
    }
}

impl DmaBuf<ToDevice> {
    /// The first `len` bytes (or all there are), to be filled by the CPU. Does not sleep.
    ///
    /// A request that is still in progress with this buffer would send what is written now.
    pub(crate) fn fill(&mut self, len: u32) -> &mut [u8] {
        self.to_cpu(len);
        let len = len.min(self.len) as usize;
        // SAFETY: By the type invariant; `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.cpu.as_ptr(), len) }
    }

    /// Hands the first `len` bytes (or all there are) to the device and describes them for a
    /// request. Does not sleep.
    pub(crate) fn piece(&self, len: u32) -> Piece {
        self.to_device(len);
        Piece::new(self.dev.id(), self.addr, len.min(self.len))
    }
}

impl DmaBuf<FromDevice> {
    /// Hands the first `len` bytes to the CPU: once, when a receive into them has completed. Does
    /// not sleep.
    pub(crate) fn sync_for_cpu(&self, len: u32) {
        self.to_cpu(len);
    }

    /// The first `len` bytes, or all there are. Does not sleep.
    ///
    /// # Safety
    ///
    /// The device does not write them during `'_`: a receive into the buffer has completed,
    /// [`sync_for_cpu`](Self::sync_for_cpu) was called since, and it is not posted again.
    pub(crate) unsafe fn bytes(&self, len: u32) -> &[u8] {
        let len = len.min(self.len) as usize;
        #[cfg(KOR_DMA_CHECK)]
        // SAFETY: By the type invariant.
        unsafe {
            verbs::dma_check_cpu(self.dev.as_raw(), self.addr.0, len);
        }
        // SAFETY: By the type invariant, and nobody writes by the contract of this function.
        unsafe { slice::from_raw_parts(self.cpu.as_ptr(), len) }
    }

    /// Hands the whole buffer to the device and describes it for a receive. Does not sleep.
    pub(super) fn recv_piece(&self) -> (DmaAddr, u32) {
        self.to_device(self.len);
        (self.addr, self.len)
    }
}

impl<D: Direction> Drop for DmaBuf<D> {
    fn drop(&mut self) {
        // SAFETY: Mapped and allocated by `new`; by the contract of posting, no request that
        // names the buffer is in progress.
        unsafe {
            verbs::dma_unmap(self.dev.as_raw(), self.addr.0, self.len as usize, D::DIR);
            verbs::buf_free(self.cpu.as_ptr().cast::<c_void>());
        }
    }
}

/// A mapped piece of memory.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct DmaSeg(verbs::DmaSeg);

impl DmaSeg {
    /// Where it starts.
    pub(crate) fn addr(&self) -> DmaAddr {
        DmaAddr(self.0.addr())
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u32 {
        self.0.len()
    }
}

/// A scatter list that maps nothing yet: memory set aside for mapping up to `max` slices.
///
/// # Invariants
///
/// `sgl` is a list of `max` entries owned by `self`; `segs` has `max` elements.
pub(crate) struct SgTable {
    sgl: NonNull<verbs::Scatterlist>,
    max: u32,
    segs: KVVec<DmaSeg>,
}

// SAFETY: The table is owned memory.
unsafe impl Send for SgTable {}

// SAFETY: Shared access is to numbers only.
unsafe impl Sync for SgTable {}

impl SgTable {
    /// Allocates a table for `max` slices. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max: u32, node: Node) -> Result<Self> {
        let segs = KVVec::from_elem(DmaSeg(verbs::DmaSeg::EMPTY), max as usize, GFP_KERNEL)?;
        // SAFETY: No requirements.
        let sgl = unsafe { verbs::sgl_alloc(max, node.as_raw()) };
        // INVARIANT: As allocated above.
        Ok(Self {
            sgl: NonNull::new(sgl).ok_or(ENOMEM)?,
            max,
            segs,
        })
    }

    /// Maps `slices` on `dev`. Does not sleep.
    ///
    /// # Errors
    ///
    /// With the table: `EMSGSIZE` when there are more slices than the table has room for; `EINVAL`
    /// when there are none, or an empty one; `EIO` when the mapping fails.
    ///
    /// # Safety
    ///
    /// The memory that the slices describe stays until the [`DmaSg`] is gone.
    pub(crate) unsafe fn map<D: Direction>(
        mut self,
        dev: &Arc<Device>,
        slices: impl Iterator<Item = PageSlice>,
    ) -> core::result::Result<DmaSg<D>, (Error, Self)> {
        let n = match self.set(slices) {
            Ok(n) => n,
            Err(e) => return Err((e, self)),
        };
        // SAFETY: The device is registered; `set` has set `n` entries.
        let mapped = unsafe { verbs::sgl_map(dev.as_raw(), self.sgl.as_ptr(), n, D::DIR) };
        let mapped = match usize::try_from(mapped) {
            Ok(mapped) if (1..=n as usize).contains(&mapped) => mapped,
            _ => return Err((EIO, self)),
        };
        let raw = self.segs.as_mut_ptr().cast::<verbs::DmaSeg>();
        // SAFETY: `segs` has `max` elements, `mapped <= n <= max`; the list is mapped.
        unsafe {
            let segs = slice::from_raw_parts_mut(raw, mapped);
            verbs::sgl_read(self.sgl.as_ptr(), segs);
        }
        // INVARIANT: As mapped above.
        Ok(DmaSg {
            dev: ManuallyDrop::new(dev.clone()),
            table: ManuallyDrop::new(self),
            n,
            mapped,
            _dir: PhantomData,
        })
    }

    /// Enters the slices; returns how many.
    fn set(&mut self, slices: impl Iterator<Item = PageSlice>) -> Result<u32> {
        let mut n = 0;
        for slice in slices {
            if n == self.max {
                return Err(EMSGSIZE);
            }
            if slice.len == 0 {
                return Err(EINVAL);
            }
            // SAFETY: `n < max`, and the entries before it were set by this loop.
            unsafe { verbs::sgl_set(self.sgl.as_ptr(), n, &slice) };
            n += 1;
        }
        if n == 0 {
            return Err(EINVAL);
        }
        Ok(n)
    }
}

impl Drop for SgTable {
    fn drop(&mut self) {
        // SAFETY: Allocated by `new`.
        unsafe { verbs::sgl_free(self.sgl.as_ptr()) }
    }
}

/// Mapped slices; unmapped when dropped.
///
/// The device may have fewer segments than there were slices, because an IOMMU can merge them.
/// Only [`DmaSg::segs`] says what the device sees.
///
/// # Invariants
///
/// The first `n` entries of `table` are mapped on `dev` in direction `D`, to `mapped` segments.
pub(crate) struct DmaSg<D: Direction> {
    dev: ManuallyDrop<Arc<Device>>,
    table: ManuallyDrop<SgTable>,
    n: u32,
    mapped: usize,
    _dir: PhantomData<D>,
}

// SAFETY: Mappings may be undone by any thread.
unsafe impl<D: Direction> Send for DmaSg<D> {}

// SAFETY: Shared access is to numbers only.
unsafe impl<D: Direction> Sync for DmaSg<D> {}

impl<D: Direction> DmaSg<D> {
    /// What the device sees, in order.
    pub(crate) fn segs(&self) -> &[DmaSeg] {
        let segs = self.table.segs.as_slice();
        segs.get(..self.mapped).unwrap_or(segs)
    }

    /// All bytes.
    pub(crate) fn len(&self) -> u64 {
        self.segs().iter().map(|seg| u64::from(seg.len())).sum()
    }

    /// The device that it is mapped on.
    pub(super) fn device_id(&self) -> DeviceId {
        self.dev.id()
    }

    /// The list and how many entries of it are mapped.
    pub(super) fn raw(&self) -> (*mut verbs::Scatterlist, u32) {
        // Fits: not more than `n`.
        (self.table.sgl.as_ptr(), self.mapped as u32)
    }

    fn undo(&mut self) {
        let sgl = self.table.sgl.as_ptr();
        // SAFETY: By the type invariant; by the contract of posting and of the MRs, nothing in
        // progress names the memory.
        unsafe { verbs::sgl_unmap(self.dev.as_raw(), sgl, self.n, D::DIR) }
    }

    /// Ends the mapping and gives the table back for another. Does not sleep.
    pub(crate) fn unmap(self) -> SgTable {
        let mut this = ManuallyDrop::new(self);
        this.undo();
        // SAFETY: `this` is not used or dropped any more, so both fields are taken once.
        unsafe {
            ManuallyDrop::drop(&mut this.dev);
            ManuallyDrop::take(&mut this.table)
        }
    }
}

impl<D: Direction> Drop for DmaSg<D> {
    fn drop(&mut self) {
        self.undo();
        // SAFETY: The fields are dropped once, here.
        unsafe {
            ManuallyDrop::drop(&mut self.table);
            ManuallyDrop::drop(&mut self.dev);
        }
    }
}
