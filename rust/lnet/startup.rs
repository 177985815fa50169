// SPDX-License-Identifier: GPL-2.0

//! An NI while it is being started.

use super::{
    handle::NiHandle,
    iface::Interface,
    ni::Ni,
    Tunables, //
};
use crate::{
    ffi::{
        lnet as ffi, //
        types::Cpt,
    },
    kx::errno::EAFNOSUPPORT,
};
use kernel::{
    error::to_result, //
    prelude::*,
    str::CStr,
};

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
pub(crate) struct Startup<C>(NiHandle<C>);

impl<C> Startup<C> {
    pub(super) fn new(ni: NiHandle<C>) -> Self {
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
        // SAFETY: The name is a C string that changes only in `use_interface`, by `&mut self`.
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
        // SAFETY: As above.
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
    pub(crate) fn into_handle(self) -> NiHandle<C> {
        self.0
    }
}
