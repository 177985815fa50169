// SPDX-License-Identifier: GPL-2.0

//! Whether the LNet that is loaded is the one that this module was built for.

use crate::{
    ffi,
    kx::{
        BuildId,
        LoadedModule, //
    }, //
};
use kernel::prelude::*;

/// Checks the modules of LNet against the builds that ours was built for.
///
/// The shim reads LNet's structures at the offsets of that build, and Debian's kernels have nothing
/// (no MODVERSIONS) that would keep another build from resolving our symbols. To be called before
/// anything else of LNet is. May sleep.
///
/// # Errors
///
/// `ENOEXEC` when one differs or cannot be known, with a line in the log.
pub(crate) fn check_loaded_build() -> Result {
    let mut i = 0;
    // SAFETY: Returns NULL or a constant of this module.
    while let Some(built_for) = unsafe { ffi::lnet::built_for(i).as_ref() } {
        check(built_for)?;
        i += 1;
    }
    Ok(())
}

fn check(built_for: &ffi::lnet::BuiltFor) -> Result {
    // SAFETY: Both are string literals of this module.
    let (module, wanted) = unsafe {
        (
            CStr::from_char_ptr(built_for.module),
            CStr::from_char_ptr(built_for.build_id),
        )
    };
    let name = module.to_str()?;
    let wanted = BuildId::from_hex(wanted.to_bytes()).ok_or(ENOEXEC)?;
    // SAFETY: These are LNet and what LNet uses, and ours uses LNet's symbols.
    let Some(loaded) = (unsafe { LoadedModule::find(module) }) else {
        pr_err!(
            "built for an LNet with the module {name}, which is not loaded: \
             rebuild with LNET= naming the Lustre tree of the LNet that is loaded\n"
        );
        return Err(ENOEXEC);
    };
    match loaded.build_id() {
        Some(found) if found == wanted => return Ok(()),
        Some(found) => pr_err!(
            "built for another build of {name} (build-id {}) than is loaded ({}): \
             rebuild with LNET= naming the Lustre tree of the LNet that is loaded\n",
            wanted.short(),
            found.short()
        ),
        None => pr_err!(
            "the {name} that is loaded has no build-id, so it may not be the build that this \
             module is for ({}): load it as it was built, with its notes\n",
            wanted.short()
        ),
    }
    Err(ENOEXEC)
}
