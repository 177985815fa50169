// SPDX-License-Identifier: GPL-2.0

//! The end of the module.

use crate::ffi;

/// To be dropped last by a module.
///
/// A thread of somebody else's that we have been called by (LNet, in `send` and `recv`) may have
/// dropped the last thing that kept the module, and still have some of our instructions before it:
/// it is not on any list that one could wait for. Dropping this waits until it has returned, as
/// tracing does before it frees a trampoline. Sleeps; a grace period of RCU-tasks, which can take
/// a tenth of a second.
pub(crate) struct Unload(());

impl Unload {
    /// To be made by the module's init.
    pub(crate) const fn new() -> Self {
        Self(())
    }
}

impl Drop for Unload {
    fn drop(&mut self) {
        // SAFETY: A module's init (when it fails) and exit run in process context, no lock held.
        unsafe { ffi::kx::synchronize_text() }
    }
}
