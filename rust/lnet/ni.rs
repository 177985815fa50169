// SPDX-License-Identifier: GPL-2.0

//! Network interfaces of LNet (NIs): one NID each.

use super::{
    iface::Interface, //
    msg::RxHandle,
    ops::Lnd,
    Tunables,
};
use crate::{
    ffi::{
        lnet as ffi, //
        types::{
            Cpt,
            Net, //
        },
    },
    kx::errno::EAFNOSUPPORT,
};
use core::{
    marker::PhantomData, //
    ops::Deref,
    ptr::NonNull,
};
use kernel::{
    error::to_result, //
    prelude::*,
    str::CStr,
    sync::{
        Arc,
        Completion, //
    },
    types::Opaque,
};

/// A `struct lnet_ni`.
///
/// Only references to it exist, borrowed from a [`NiHandle`].
///
/// # Invariants
///
/// LNet keeps the NI while such a reference exists.
#[repr(transparent)]
pub(crate) struct Ni(Opaque<ffi::RawNi>);

// SAFETY: the functions below take the locks they need; what they read without one does not change
// while the NI is up, or is read whole.
unsafe impl Send for Ni {}
// SAFETY: as for `Send`.
unsafe impl Sync for Ni {}

impl Ni {
    /// # Safety
    ///
    /// LNet must keep the NI for `'a`.
    pub(super) unsafe fn from_raw<'a>(ni: NonNull<ffi::RawNi>) -> &'a Self {
        // SAFETY: by the contract of this function; `Ni` is transparent.
        unsafe { ni.cast().as_ref() }
    }

    /// The pointer.
    pub(super) fn as_raw(&self) -> *mut ffi::RawNi {
        self.0.get()
    }

    /// The NID. Does not sleep.
    pub(crate) fn nid(&self) -> u64 {
        // SAFETY: by the type invariant.
        unsafe { ffi::ni_nid(self.as_raw()) }
    }

    /// The network number: 1 for o2ib1. Does not sleep.
    pub(crate) fn net_number(&self) -> u16 {
        // SAFETY: by the type invariant.
        unsafe { ffi::ni_netnum(self.as_raw()) }
    }

    /// The namespace of the task that configured the NI. LNet holds a reference on it for the life
    /// of the NI; use it no longer. Does not sleep.
    pub(crate) fn net_ns(&self) -> Option<Net> {
        // SAFETY: by the type invariant; LNet holds the namespace as long as the NI.
        unsafe { Net::from_raw(ffi::ni_net_ns(self.as_raw())) }
    }

    /// Whether LNet has put the NI into service; only then it accepts connections. Does not sleep.
    pub(crate) fn is_active(&self) -> bool {
        // SAFETY: by the type invariant.
        unsafe { ffi::ni_active(self.as_raw()) }
    }

    /// Tells LNet to avoid the NI, or not to; returns whether that is news. After news about an
    /// active NI call [`mark_ping_buffer`](super::mark_ping_buffer).
    pub(crate) fn set_fatal(&self, fatal: bool) -> bool {
        // SAFETY: by the type invariant.
        unsafe { ffi::ni_set_fatal(self.as_raw(), fatal) }
    }

    /// The CPTs that the NI is bound to, in order. Does not sleep.
    pub(crate) fn cpts(&self) -> impl Iterator<Item = Cpt> + '_ {
        // SAFETY: by the type invariant; the list does not change after startup.
        let nth = |i| unsafe { ffi::ni_cpt(self.as_raw(), i) };
        (0..)
            .map(nth)
            .map_while(|cpt| u32::try_from(cpt).ok().map(Cpt))
    }

    /// The CPT that serves the peer `nid`; always the same one for the same NI. Does not sleep.
    pub(crate) fn cpt_of(&self, nid: u64) -> Cpt {
        // SAFETY: by the type invariant.
        Cpt(unsafe { ffi::nid2cpt(nid, self.as_raw()) })
    }

    /// A copy of the tunables. Does not sleep.
    pub(crate) fn tunables(&self) -> Tunables {
        let mut t = Tunables::default();
        // SAFETY: by the type invariant; `t` is writable.
        unsafe { ffi::ni_tunables(self.as_raw(), &mut t) };
        t
    }

    /// `conns_per_peer` as it is now; may be changed to anything while the NI is up, 0 included.
    /// Does not sleep.
    pub(crate) fn conns_per_peer(&self) -> u16 {
        // SAFETY: by the type invariant.
        unsafe { ffi::ni_conns_per_peer(self.as_raw()) }
    }

    /// `tos` as it is now; may be changed while the NI is up. Does not sleep.
    pub(crate) fn tos(&self) -> i16 {
        // SAFETY: by the type invariant.
        unsafe { ffi::ni_tos(self.as_raw()) }
    }

    /// Tells LNet that the peer `nid` is down, `last_alive` being the monotonic second (not in the
    /// future) of its last sign of life.
    pub(crate) fn notify_down(&self, nid: u64, last_alive: i64) {
        // SAFETY: by the type invariant.
        unsafe { ffi::notify_down(self.as_raw(), nid, last_alive) };
    }
}

/// The NI in the hands of the driver, from startup to the end of shutdown.
///
/// The driver's data of the NI owns it. LNet frees the NI when its shutdown returns, and shutdown
/// does not return before this is dropped: so drop it last.
///
/// # Invariants
///
/// LNet keeps the NI until `gone` is complete.
pub(crate) struct NiHandle<L> {
    ni: NonNull<ffi::RawNi>,
    gone: Arc<Completion>,
    _lnd: PhantomData<fn(L)>,
}

// SAFETY: it stands for a reference to an `Ni`, which is `Sync`.
unsafe impl<L> Send for NiHandle<L> {}
// SAFETY: as for `Send`.
unsafe impl<L> Sync for NiHandle<L> {}

impl<L> NiHandle<L> {
    /// # Safety
    ///
    /// LNet must keep `ni` until `gone` is complete.
    pub(super) unsafe fn from_raw(ni: NonNull<ffi::RawNi>, gone: Arc<Completion>) -> Self {
        // INVARIANT: by the contract of this function.
        NiHandle {
            ni,
            gone,
            _lnd: PhantomData,
        }
    }
}

impl<L: Lnd> NiHandle<L> {
    /// Hands a received message to LNet: its header in wire form, the NID of the node that sent
    /// it, and the receive slot, with `rdma` for PUT_REQ and GET_REQ.
    ///
    /// After success LNet calls [`Lnd::recv`] exactly once with `rx`: before this returns or at any
    /// time later, from any thread. The bytes of the message must stay until then.
    ///
    /// # Errors
    ///
    /// `EPROTO` for a header that makes no sense, `ESHUTDOWN`; `EBUSY` when the slot is with LNet
    /// already, a bug of the driver. `rx` comes back and `recv` is not called.
    pub(crate) fn parse(
        &self,
        hdr: &[u8; ffi::HDR_SIZE],
        from: u64,
        rx: RxHandle<L::Conn>,
        rdma: bool,
    ) -> Result<(), (Error, RxHandle<L::Conn>)> {
        let raw = rx.into_raw().map_err(|rx| (EBUSY, rx))?;
        // SAFETY: by the type invariant; the header has its 72 bytes; `raw` is what `Adapter::recv`
        // of the same `L` turns back.
        let rc = unsafe { ffi::parse(self.as_raw(), hdr.as_ptr(), from, raw.as_ptr(), rdma) };
        to_result(rc).map_err(|e| {
            // SAFETY: LNet refused the message, so it has not kept the handle.
            (e, unsafe { RxHandle::from_raw(raw) })
        })
    }
}

impl<L> Deref for NiHandle<L> {
    type Target = Ni;

    fn deref(&self) -> &Ni {
        // SAFETY: by the type invariant, as `gone` completes when `self` is dropped.
        unsafe { Ni::from_raw(self.ni) }
    }
}

impl<L> Drop for NiHandle<L> {
    fn drop(&mut self) {
        self.gone.complete_all();
    }
}

/// The address that the user wants an NI to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Any.
    Any,
    /// This IPv4 address, in host order.
    V4(u32),
    /// Some IPv6 address, for which the wire has no form.
    V6,
}

/// An NI that is being started.
pub(crate) struct Startup<L>(NiHandle<L>);

impl<L> Startup<L> {
    pub(super) fn new(ni: NiHandle<L>) -> Self {
        Startup(ni)
    }

    pub(super) fn as_raw(&self) -> *mut ffi::RawNi {
        self.0.as_raw()
    }

    /// The NI, whose NID has no address yet unless one was asked for.
    pub(crate) fn ni(&self) -> &Ni {
        &self.0
    }

    /// The address asked for.
    pub(crate) fn asked(&self) -> Asked {
        // SAFETY: LNet keeps the NI during its startup.
        let len = unsafe { ffi::ni_addr_len(self.as_raw()) };
        match len {
            0 => Asked::Any,
            4 => Asked::V4(self.ni().nid() as u32),
            _ => Asked::V6,
        }
    }

    /// The interface asked for.
    pub(crate) fn interface(&self) -> Option<&CStr> {
        // SAFETY: LNet keeps the NI during its startup.
        let name = unsafe { ffi::ni_interface(self.as_raw()) };
        // SAFETY: the name is a C string that changes only in `use_interface`, by `&mut self`.
        (!name.is_null()).then(|| unsafe { CStr::from_char_ptr(name) })
    }

    /// Gives the NI the address and, unless the user did, the name of an interface.
    ///
    /// # Errors
    ///
    /// `EAFNOSUPPORT` for an IPv6 address, `E2BIG`, `ENOMEM`.
    pub(crate) fn use_interface(&mut self, iface: &Interface) -> Result {
        let addr = iface.ipv4().ok_or(EAFNOSUPPORT)?;
        if self.interface().is_none() {
            // SAFETY: LNet keeps the NI during its startup; the name is a C string.
            let rc = unsafe { ffi::ni_set_interface(self.as_raw(), iface.name().as_char_ptr()) };
            to_result(rc)?;
        }
        // SAFETY: as above.
        unsafe { ffi::ni_set_addr(self.as_raw(), addr) };
        Ok(())
    }

    /// Says which CPT the RDMA device is near, and lets LNet bind the NI to CPTs unless the user
    /// did. Only then [`Ni::cpts`] and [`Ni::cpt_of`] mean something.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn set_device_cpt(&mut self, cpt: Option<Cpt>) -> Result {
        let cpt = cpt.and_then(|c| i32::try_from(c.0).ok()).unwrap_or(-1);
        // SAFETY: LNet keeps the NI during its startup.
        to_result(unsafe { ffi::ni_set_dev_cpt(self.as_raw(), cpt) })
    }

    /// Stores resolved tunables, which LNet shows and takes its credits from.
    pub(crate) fn set_tunables(&mut self, t: &Tunables) {
        // SAFETY: LNet keeps the NI during its startup.
        unsafe { ffi::ni_set_tunables(self.as_raw(), t) };
    }

    /// The handle that the driver's data of the NI keeps.
    pub(crate) fn into_handle(self) -> NiHandle<L> {
        self.0
    }
}
