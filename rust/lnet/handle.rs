// SPDX-License-Identifier: GPL-2.0

//! What the driver holds of an NI.

use super::{
    msg::{
        RxHandle,
        RxOwner, //
    },
    ni::Ni, //
};
use crate::ffi::lnet as ffi;
use core::{
    marker::PhantomData, //
    ops::Deref,
    ptr::NonNull,
};
use kernel::{
    error::to_result, //
    prelude::*,
    sync::{
        Arc,
        Completion, //
    },
};

/// The NI in the hands of the driver, from startup to the end of shutdown.
///
/// The driver's data of the NI owns it. LNet frees the NI when its shutdown returns, and shutdown
/// does not return before this is dropped: so drop it last. `C` is the driver's connection.
///
/// # Invariants
///
/// LNet keeps the NI until `gone` is complete.
pub(crate) struct NiHandle<C> {
    ni: NonNull<ffi::RawNi>,
    gone: Arc<Completion>,
    _conn: PhantomData<fn(C)>,
}

// SAFETY: It stands for a reference to an `Ni`, which is `Sync`.
unsafe impl<C> Send for NiHandle<C> {}
// SAFETY: As for `Send`.
unsafe impl<C> Sync for NiHandle<C> {}

impl<C> NiHandle<C> {
    /// # Safety
    ///
    /// LNet must keep `ni` until `gone` is complete.
    pub(super) unsafe fn from_raw(ni: NonNull<ffi::RawNi>, gone: Arc<Completion>) -> Self {
        // INVARIANT: By the contract of this function.
        NiHandle {
            ni,
            gone,
            _conn: PhantomData,
        }
    }
}

impl<C: RxOwner> NiHandle<C> {
    /// Hands a received message to LNet: its header in wire form, the NID of the node that sent
    /// it, and the receive slot, with `rdma` for PUT_REQ and GET_REQ.
    ///
    /// After success LNet calls [`Lnd::recv`](super::Lnd::recv) exactly once with `rx`: before this
    /// returns or at any time later, from any thread. The bytes of the message must stay until
    /// then.
    ///
    /// # Errors
    ///
    /// `EPROTO` for a header that makes no sense, `ESHUTDOWN`; `EBUSY` when the slot is with LNet
    /// already, a bug of the driver. `rx` comes back and `recv` is not called.
    pub(crate) fn parse(
        &self,
        hdr: &[u8; ffi::HDR_SIZE],
        from: u64,
        rx: RxHandle<C>,
        rdma: bool,
    ) -> Result<(), (Error, RxHandle<C>)> {
        let raw = rx.into_raw().map_err(|rx| (EBUSY, rx))?;
        // SAFETY: By the type invariant; the header has its 72 bytes; `raw` is what `Adapter::recv`
        // of the same `C` turns back.
        let rc = unsafe { ffi::parse(self.as_raw(), hdr.as_ptr(), from, raw.as_ptr(), rdma) };
        to_result(rc).map_err(|e| {
            // SAFETY: LNet refused the message, so it has not kept the handle.
            (e, unsafe { RxHandle::from_raw(raw) })
        })
    }
}

impl<C> Deref for NiHandle<C> {
    type Target = Ni;

    fn deref(&self) -> &Ni {
        // SAFETY: By the type invariant, as `gone` completes when `self` is dropped.
        unsafe { Ni::from_raw(self.ni) }
    }
}

impl<C> Drop for NiHandle<C> {
    fn drop(&mut self) {
        self.gone.complete_all();
    }
}
