// SPDX-License-Identifier: GPL-2.0

//! Network interfaces and their addresses.

use super::ni::Ni;
use crate::{
    ffi::lnet as ffi,
    kx::Net, //
};
use kernel::{
    error::to_result, //
    prelude::*,
    str::CStr,
};

/// One address of one interface that is up.
pub(crate) struct Interface(ffi::InetDev);

impl Interface {
    /// Name; for an alias the address label, such as `ib0:1`.
    pub(crate) fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(as_bytes(&self.0.name)).unwrap_or(c"")
    }

    /// Index of the interface, which stays when the interface is renamed.
    pub(crate) fn index(&self) -> u32 {
        self.0.ifindex
    }

    /// IPv4 address in host order; `None` for IPv6.
    pub(crate) fn ipv4(&self) -> Option<u32> {
        (self.0.addr_len == 4).then_some(self.0.addr)
    }
}

/// `c_char` is `u8` in the kernel; this states it where a conversion would hide it.
fn as_bytes(name: &[kernel::ffi::c_char; ffi::IFNAMSIZ]) -> &[u8] {
    name
}

/// All addresses of a namespace, from one enumeration.
///
/// # Invariants
///
/// `list` is what LNet allocated, with `count` entries.
pub(crate) struct Interfaces {
    list: *mut ffi::RawInetDev,
    count: u32,
}

impl Interfaces {
    /// Lists the addresses of every interface that is up and not a loopback, IPv4 first. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOENT` when there is none, `ENOMEM`.
    pub(crate) fn enumerate(ns: &Net) -> Result<Self> {
        let mut list = core::ptr::null_mut();
        // SAFETY: `list` is writable, and we have a reference to the namespace.
        let rc = unsafe { ffi::inet_enumerate(&mut list, ns.as_ptr()) };
        // INVARIANT: LNet stores the array before it returns a count.
        let mut found = Interfaces { list, count: 0 };
        to_result(rc)?;
        found.count = u32::try_from(rc).map_err(|_| EINVAL)?;
        Ok(found)
    }

    /// The entry that LNet's rules choose for an NI that is being started: the one with the name
    /// and the address that the user asked for, or the first one when the user asked for neither.
    ///
    /// # Errors
    ///
    /// `EINVAL` when nothing matches; LNet has printed why.
    pub(crate) fn select(&self, ni: &Ni) -> Result<Interface> {
        // SAFETY: By the type invariants.
        let i = unsafe { ffi::inet_select(ni.as_raw(), self.list, self.count) };
        to_result(i)?;
        u32::try_from(i)
            .ok()
            .and_then(|i| self.get(i))
            .ok_or(EINVAL)
    }

    /// The `i`-th entry.
    pub(crate) fn get(&self, i: u32) -> Option<Interface> {
        if i >= self.count {
            return None;
        }
        let mut out = ffi::InetDev::default();
        // SAFETY: By the type invariant entry `i` exists.
        unsafe { ffi::inet_entry(self.list, i, &mut out) };
        Some(Interface(out))
    }

    /// All entries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Interface> + '_ {
        (0..self.count).filter_map(|i| self.get(i))
    }
}

impl Drop for Interfaces {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; NULL is fine, too. LNet says the array is ours to free.
        unsafe { ffi::inet_free(self.list) };
    }
}

/// Whether the interface `index` of `ns` can carry traffic: registered, operational, and with a
/// link unless its driver cannot tell. Takes RTNL, so it sleeps and must not be called from a
/// notifier that holds it.
///
/// # Errors
///
/// `ENODEV` when there is no such interface.
pub(crate) fn is_link_up(ns: &Net, index: u32) -> Result<bool> {
    // SAFETY: We have a reference to the namespace.
    let rc = unsafe { ffi::link_status(ns.as_ptr(), index) };
    to_result(rc)?;
    Ok(rc > 0)
}
