// SPDX-License-Identifier: GPL-2.0

//! Other modules that are loaded.

use super::BuildId;
use crate::ffi;
use core::ptr::NonNull;
use kernel::prelude::*;

/// A module that is loaded and that ours depends on, so that it stays as long as ours.
pub(crate) struct LoadedModule {
    kobj: NonNull<ffi::kx::Kobject>,
}

impl LoadedModule {
    /// The module of this name; `None` when it is not loaded. What is built into the kernel is
    /// found if it has parameters, too.
    ///
    /// # Safety
    ///
    /// A module of this name, if one is loaded, must not be unloaded while the result exists: ours
    /// uses its symbols, or those of a module that does.
    pub(crate) unsafe fn find(name: &CStr) -> Option<Self> {
        // SAFETY: `name` is terminated; our own kobject is in its kset since before init.
        let kobj = unsafe { ffi::kx::loaded_find(name.as_char_ptr()) };
        Some(Self {
            kobj: NonNull::new(kobj)?,
        })
    }

    /// Whether it was built outside the kernel's tree: the kernel marks what lacks the word
    /// `intree`, which modpost gives to modules of the kernel's own build alone.
    pub(crate) fn is_out_of_tree(&self) -> bool {
        // SAFETY: `kobj` is of a module, held by our reference, and by the contract of `find` the
        // module that it names stays, too.
        unsafe { ffi::kx::loaded_out_of_tree(self.kobj.as_ptr()) }
    }

    /// Its GNU build-id; `None` when it has none, or none that can be read. May sleep.
    pub(crate) fn build_id(&self) -> Option<BuildId> {
        let mut note = [0; BuildId::NOTE_MAX];
        // SAFETY: As for `is_out_of_tree`; `note` has as many bytes as are said.
        let len = unsafe {
            ffi::kx::loaded_build_id_note(
                self.kobj.as_ptr(),
                note.as_mut_ptr(),
                BuildId::NOTE_MAX as u32,
            )
        };
        BuildId::from_notes(note.get(..len as usize)?)
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        // SAFETY: The reference is ours, from `find`.
        unsafe { ffi::kx::loaded_put(self.kobj.as_ptr()) }
    }
}
