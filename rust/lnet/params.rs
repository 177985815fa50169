// SPDX-License-Identifier: GPL-2.0

//! The module parameters as they are now.

use crate::ffi::lnet as ffi;
use kernel::str::{
    CStr,
    CStrExt as _, //
};

/// A copy of all 27 parameters.
///
/// Those with mode 0644 (`cksum`, `timeout`, `retry_count`, `rnr_retry_count`, `keepalive`,
/// `require_privileged_port`, `use_privileged_port`) may change at any time, so take a new copy to
/// see the current value. Taking one does not sleep.
#[derive(Clone, Copy)]
pub(crate) struct Params {
    raw: ffi::Params,
}

impl Params {
    /// Reads the parameters.
    pub(crate) fn read() -> Self {
        Params { raw: ffi::params() }
    }

    /// Interface used when an NI names none.
    pub(crate) fn ipif_name(&self) -> &'static CStr {
        if self.raw.ipif_name.is_null() {
            return c"";
        }
        // SAFETY: The parameter is a C string that cannot be changed after load (mode 0444).
        unsafe { CStr::from_char_ptr(self.raw.ipif_name) }
    }
}

impl core::ops::Deref for Params {
    type Target = ffi::Params;

    fn deref(&self) -> &ffi::Params {
        &self.raw
    }
}

// SAFETY: The only pointer is to a string that stays as long as the module.
unsafe impl Send for Params {}
// SAFETY: As for `Send`.
unsafe impl Sync for Params {}
