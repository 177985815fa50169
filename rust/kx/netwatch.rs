// SPDX-License-Identifier: GPL-2.0

//! Changes of network interfaces and addresses.

use super::Event;
use crate::ffi;
use kernel::{
    error::to_result,
    ffi::c_void,
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Full, //
        },
        Arc, //
    }, //
};

/// Tells a thread that some interface or address changed, in any namespace.
///
/// The kernel reports such changes in contexts that may not sleep, while finding out what the
/// state is now takes RTNL; so a change is only noted here, and the thread that sleeps on the
/// event looks for itself. Changes add up, none is lost, none needs memory.
pub(crate) struct NetWatch {
    shared: Arc<Shared>,
}

struct Shared {
    changed: AtomicFlag,
    event: Arc<Event>,
}

impl NetWatch {
    /// Starts watching. One watch can exist at a time. Sleeps (takes RTNL).
    ///
    /// The kernel reports the interfaces that are there already, so the first
    /// [`take`](Self::take) mostly says true.
    ///
    /// # Errors
    ///
    /// `EBUSY` when there is one; `ENOMEM`.
    pub(crate) fn new(event: Arc<Event>) -> Result<Self> {
        let shared = Arc::new(
            Shared {
                changed: AtomicFlag::new(false),
                event,
            },
            GFP_KERNEL,
        )?;
        let ctx = Arc::as_ptr(&shared).cast_mut().cast::<c_void>();
        // SAFETY: `ctx` points to a `Shared`, which outlives the registration: `drop` ends that
        // before it lets the reference go.
        to_result(unsafe { ffi::kx::netwatch_register(Some(changed), ctx) })?;
        Ok(Self { shared })
    }

    /// Whether anything changed since the last call. Any context.
    pub(crate) fn take(&self) -> bool {
        self.shared.changed.xchg(false, Full)
    }
}

impl Drop for NetWatch {
    /// Ends the watch. Sleeps (takes RTNL).
    fn drop(&mut self) {
        // SAFETY: There is a registration, made by `new`; it is the only one.
        unsafe { ffi::kx::netwatch_unregister() }
    }
}

/// Called by the kernel for each change, possibly in atomic context.
///
/// # Safety
///
/// `ctx` points to a live [`Shared`].
unsafe extern "C" fn changed(ctx: *mut c_void) {
    // SAFETY: By the contract of this function.
    let shared = unsafe { &*ctx.cast::<Shared>() };
    shared.changed.store(true, kernel::sync::atomic::Release);
    shared.event.signal();
}
