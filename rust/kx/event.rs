// SPDX-License-Identifier: GPL-2.0

//! An event that one thread waits for.

use crate::ffi;
use kernel::{
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// What a thread sleeps on between two rounds of its loop.
///
/// Signals add up to one: a signal given before or during [`Event::wait`] ends that wait, so a
/// thread that checks its work after each wait misses nothing. Meant for one waiting thread;
/// with several, any one of them gets a signal.
#[pin_data]
pub(crate) struct Event {
    #[pin]
    raw: Opaque<ffi::kx::RawEvent>,
}

// SAFETY: `struct kor_event` is made of an atomic and a wait queue, both for use by many threads.
unsafe impl Send for Event {}

// SAFETY: As above.
unsafe impl Sync for Event {}

impl Event {
    /// An event that is not signalled.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for initialising a `struct kor_event`, which stays pinned.
            raw <- Opaque::ffi_init(|slot| unsafe { ffi::kx::event_init(slot) }),
        })
    }

    /// A shared event that is not signalled.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new_arc() -> Result<Arc<Self>> {
        Arc::pin_init(Self::new(), GFP_KERNEL)
    }

    /// Wakes the waiting thread, or lets its next wait return at once.
    ///
    /// Any context, hard interrupts included.
    pub(crate) fn signal(&self) {
        // SAFETY: `raw` was initialised by `new`.
        unsafe { ffi::kx::event_signal(self.raw.get()) }
    }

    /// Sleeps until the event is signalled, or the calling kthread is asked to stop.
    ///
    /// Process context, no lock held. The sleep does not count as load.
    pub(crate) fn wait(&self) {
        // SAFETY: `raw` was initialised by `new`.
        unsafe { ffi::kx::event_wait(self.raw.get(), ffi::kx::WAIT_FOREVER) };
    }

    /// As [`Event::wait`], for `timeout_ns` nanoseconds at most (rounded up to a tick).
    ///
    /// Returns whether the event was signalled.
    pub(crate) fn wait_timeout(&self, timeout_ns: u64) -> bool {
        // SAFETY: `raw` was initialised by `new`.
        unsafe { ffi::kx::event_wait(self.raw.get(), timeout_ns) }
    }
}
