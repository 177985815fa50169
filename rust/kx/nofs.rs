// SPDX-License-Identifier: GPL-2.0

//! Allocations that do not call back into file systems.

use crate::ffi;
use core::marker::PhantomData;

/// While it lives, every allocation of this thread behaves as with `GFP_NOFS`.
///
/// LNet calls a driver from inside file systems and under memory pressure; reclaim that waited
/// for that file system would wait for ever. Scopes nest.
#[must_use = "the scope ends when this is dropped"]
pub(crate) struct NofsScope {
    flags: u32,
    /// Belongs to the thread that entered it.
    _not_send: PhantomData<*mut ()>,
}

impl NofsScope {
    /// Enters the scope. Any context.
    pub(crate) fn enter() -> Self {
        Self {
            // SAFETY: No requirements; undone in `drop`, by the same thread.
            flags: unsafe { ffi::kx::nofs_save() },
            _not_send: PhantomData,
        }
    }
}

impl Drop for NofsScope {
    fn drop(&mut self) {
        // SAFETY: `flags` is what `nofs_save` returned to this thread.
        unsafe { ffi::kx::nofs_restore(self.flags) }
    }
}
