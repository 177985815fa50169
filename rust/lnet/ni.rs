// SPDX-License-Identifier: GPL-2.0

//! Network interfaces of LNet (NIs): one NID each.

use super::Tunables;
use crate::{
    ffi::{
        lnet as ffi,
        types::Cpt, //
    },
    kx::Net,
};
use core::ptr::NonNull;
use kernel::types::Opaque;

/// A `struct lnet_ni`.
///
/// Only references to it exist, borrowed from a [`NiHandle`](super::NiHandle).
///
/// # Invariants
///
/// LNet keeps the NI while such a reference exists.
#[repr(transparent)]
pub(crate) struct Ni(Opaque<ffi::RawNi>);

// SAFETY: The functions below take the locks they need; what they read without one does not change
// while the NI is up, or is read whole.
unsafe impl Send for Ni {}
// SAFETY: As for `Send`.
unsafe impl Sync for Ni {}

impl Ni {
    /// # Safety
    ///
    /// LNet must keep the NI for `'a`.
    pub(super) unsafe fn from_raw<'a>(ni: NonNull<ffi::RawNi>) -> &'a Self {
        // SAFETY: By the contract of this function; `Ni` is transparent.
        unsafe { ni.cast().as_ref() }
    }

    /// The pointer.
    pub(super) fn as_raw(&self) -> *mut ffi::RawNi {
        self.0.get()
    }

    /// The NID. Does not sleep.
    pub(crate) fn nid(&self) -> u64 {
        // SAFETY: By the type invariant.
        unsafe { ffi::ni_nid(self.as_raw()) }
    }

    /// The network number: 1 for o2ib1. Does not sleep.
    pub(crate) fn net_number(&self) -> u16 {
        // SAFETY: By the type invariant.
        unsafe { ffi::ni_netnum(self.as_raw()) }
    }

    /// The namespace of the task that configured the NI. Does not sleep.
    pub(crate) fn net_ns(&self) -> Option<Net> {
        // SAFETY: By the type invariant; LNet holds a reference to the namespace as long as the NI.
        unsafe { Net::get(ffi::ni_net_ns(self.as_raw())) }
    }

    /// Whether LNet has put the NI into service; only then it accepts connections. Does not sleep.
    pub(crate) fn is_active(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { ffi::ni_active(self.as_raw()) }
    }

    /// Tells LNet to avoid the NI, or not to; returns whether that is news. After news about an
    /// active NI call [`mark_ping_buffer`](super::mark_ping_buffer).
    pub(crate) fn set_fatal(&self, fatal: bool) -> bool {
        // SAFETY: By the type invariant.
        unsafe { ffi::ni_set_fatal(self.as_raw(), fatal) }
    }

    /// The CPTs that the NI is bound to, in order. Does not sleep.
    pub(crate) fn cpts(&self) -> impl Iterator<Item = Cpt> + '_ {
        // SAFETY: By the type invariant; the list does not change after startup.
        let nth = |i| unsafe { ffi::ni_cpt(self.as_raw(), i) };
        (0..)
            .map(nth)
            .map_while(|cpt| u32::try_from(cpt).ok().map(Cpt))
    }

    /// The CPT that serves the peer `nid`; always the same one for the same NI. Does not sleep.
    pub(crate) fn cpt_of(&self, nid: u64) -> Cpt {
        // SAFETY: By the type invariant.
        Cpt(unsafe { ffi::nid2cpt(nid, self.as_raw()) })
    }

    /// A copy of the tunables. Does not sleep.
    pub(crate) fn tunables(&self) -> Tunables {
        let mut t = Tunables::default();
        // SAFETY: By the type invariant; `t` is writable.
        unsafe { ffi::ni_tunables(self.as_raw(), &mut t) };
        t
    }

    /// `conns_per_peer` as it is now; may be changed to anything while the NI is up, 0 included.
    /// Does not sleep.
    pub(crate) fn conns_per_peer(&self) -> u16 {
        // SAFETY: By the type invariant.
        unsafe { ffi::ni_conns_per_peer(self.as_raw()) }
    }

    /// `tos` as it is now; may be changed while the NI is up. Does not sleep.
    pub(crate) fn tos(&self) -> i16 {
        // SAFETY: By the type invariant.
        unsafe { ffi::ni_tos(self.as_raw()) }
    }

    /// Tells LNet that the peer `nid` is down, `last_alive` being the monotonic second (not in the
    /// future) of its last sign of life.
    pub(crate) fn notify_down(&self, nid: u64, last_alive: i64) {
        // SAFETY: By the type invariant.
        unsafe { ffi::notify_down(self.as_raw(), nid, last_alive) };
    }
}
