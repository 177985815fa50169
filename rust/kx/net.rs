// SPDX-License-Identifier: GPL-2.0

//! Network namespaces.

use crate::ffi::{
    self,
    types::RawNet, //
};
use core::ptr::NonNull;

/// A network namespace (`struct net`), kept from being dismantled.
///
/// # Invariants
///
/// `self` owns a reference to the namespace, of those that keep it in service.
#[derive(Debug)]
pub(crate) struct Net(NonNull<RawNet>);

// SAFETY: References to a namespace may be taken and given back by any thread.
unsafe impl Send for Net {}

// SAFETY: Shared access gives the pointer only, and functions that take that are reentrant.
unsafe impl Sync for Net {}

impl Net {
    /// Takes a reference to a namespace; `None` for NULL. Any context.
    ///
    /// # Safety
    ///
    /// Somebody else owns a reference to it during the call.
    pub(crate) unsafe fn get(ns: *mut RawNet) -> Option<Self> {
        let ns = NonNull::new(ns)?;
        // SAFETY: By the contract of this function it has a reference, so there may be another.
        unsafe { ffi::kx::net_get(ns.as_ptr().cast()) };
        // INVARIANT: Taken above.
        Some(Self(ns))
    }

    /// The namespace of the calling thread.
    #[cfg(KOR_DMA_CHECK)]
    pub(crate) fn of_current() -> Option<Self> {
        // SAFETY: The calling thread refers to its namespace during the call, and does not change
        // it.
        unsafe { Self::get(ffi::kx::net_of_current().cast()) }
    }

    /// The pointer, for a shim or a binding; good while `self` is borrowed.
    pub(crate) fn as_ptr(&self) -> *mut RawNet {
        self.0.as_ptr()
    }
}

impl PartialEq for Net {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Net {}

impl Clone for Net {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariant it has a reference, so there may be another.
        unsafe { ffi::kx::net_get(self.as_ptr().cast()) };
        // INVARIANT: Taken above.
        Self(self.0)
    }
}

impl Drop for Net {
    /// Any context.
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reference is ours.
        unsafe { ffi::kx::net_put(self.as_ptr().cast()) }
    }
}
