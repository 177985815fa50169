// SPDX-License-Identifier: GPL-2.0

//! Whether the RDMA stack that is loaded is the kernel's own.

use crate::kx::LoadedModule;
use kernel::prelude::*;

/// The modules whose structures the shims read.
const STACK: [&CStr; 2] = [c"ib_core", c"rdma_cm"];

/// Checks that the RDMA stack that is loaded is the kernel's own.
///
/// The shims read its structures at the offsets of the kernel's own headers, which the vermagic
/// stands for; those of an external stack differ, and nothing else would say so. What is built into
/// the kernel is the kernel's own. To be called before anything else of it is. May sleep.
///
/// # Errors
///
/// `ENOEXEC` when a part of it was built outside the kernel's tree, with a line in the log.
pub(crate) fn check_loaded_stack() -> Result {
    for module in STACK {
        // SAFETY: Ours uses symbols of both.
        let Some(loaded) = (unsafe { LoadedModule::find(module) }) else {
            continue;
        };
        if loaded.is_out_of_tree() {
            let name = module.to_str()?;
            pr_err!(
                "built for the kernel's own RDMA stack, but the {name} that is loaded is not the \
                 kernel's: remove the external stack, run depmod and load the kernel's own\n"
            );
            return Err(ENOEXEC);
        }
    }
    Ok(())
}
