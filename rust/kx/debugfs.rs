// SPDX-License-Identifier: GPL-2.0

//! Files of debugfs that keep the module while they are open.
//!
//! Those of the `kernel` crate (as of 7.3) have file operations without an owner: a file that is
//! held open over the end of its module is released by code that is not there any more. See
//! `Documentation/upstream.md`.

use crate::ffi;
use core::ptr;
use kernel::{
    ffi::c_void,
    fmt,
    prelude::*,
    sync::Arc, //
};

/// A directory in the root of debugfs, removed when dropped.
///
/// # Invariants
///
/// `raw` was returned by `debugfs_create_dir()`, and is not removed before `self` is dropped.
pub(crate) struct Dir {
    raw: *mut ffi::kx::Dentry,
}

// SAFETY: A dentry is used by calls of debugfs only, which any thread may make.
unsafe impl Send for Dir {}

// SAFETY: As above; debugfs does its own locking.
unsafe impl Sync for Dir {}

impl Dir {
    /// Makes the directory. Process context, sleeps.
    ///
    /// As everywhere in debugfs, a failure is no error: then there is nothing to be seen.
    pub(crate) fn new(name: &CStr) -> Self {
        // SAFETY: The name is a C string, and is copied.
        let raw = unsafe { ffi::kx::debugfs_dir(name.as_char_ptr()) };
        // INVARIANT: Made above.
        Self { raw }
    }
}

impl Drop for Dir {
    /// Sleeps.
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Every `File` in it held it, so none is left.
        unsafe { ffi::kx::debugfs_remove(self.raw) }
    }
}

/// A file that all may read; what it shows is printed by a function when it is read.
///
/// # Examples
///
/// ```ignore
/// let dir = Arc::new(Dir::new(c"my_module"), GFP_KERNEL)?;
/// let file = File::new(&dir, c"count", 17u32, |count, f| writeln!(f, "{count}"))?;
/// ```
///
/// # Invariants
///
/// `dentry` was returned for `_shown`, which nobody changes until it is removed.
pub(crate) struct File<T: Send + Sync + 'static> {
    dentry: *mut ffi::kx::Dentry,
    /// Until the file is removed.
    _shown: KBox<Shown<T>>,
    /// Removed after the file.
    _dir: Arc<Dir>,
}

/// What a file shows, and how.
struct Shown<T> {
    raw: ffi::kx::DebugfsFile,
    data: T,
    print: fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
}

// SAFETY: The dentry may be used by any thread; the data is `Send`, and its pointer to itself is
// used by debugfs alone.
unsafe impl<T: Send + Sync> Send for File<T> {}

// SAFETY: Readers share the data, which is `Sync`; the rest is not accessible.
unsafe impl<T: Send + Sync> Sync for File<T> {}

impl<T: Send + Sync + 'static> File<T> {
    /// Makes the file `name` in `dir`. Process context, sleeps.
    ///
    /// `print` runs in the reader's context, which may sleep, possibly more than once for one
    /// reading and in several threads at a time.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        dir: &Arc<Dir>,
        name: &CStr,
        data: T,
        print: fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> Result<Self> {
        let raw = ffi::kx::DebugfsFile {
            show: Some(show::<T>),
            ctx: ptr::null_mut(),
        };
        let mut shown = KBox::new(Shown { raw, data, print }, GFP_KERNEL)?;
        shown.raw.ctx = ptr::from_ref(&*shown).cast_mut().cast::<c_void>();
        // SAFETY: The name is copied; the directory is there, as we hold it; `shown` stays where it
        // is until `drop` has removed the file, and `show::<T>` may be called with its address.
        let dentry = unsafe { ffi::kx::debugfs_create(name.as_char_ptr(), dir.raw, &shown.raw) };
        // INVARIANT: Made above.
        Ok(Self {
            dentry,
            _shown: shown,
            _dir: dir.clone(),
        })
    }
}

impl<T: Send + Sync> Drop for File<T> {
    /// Sleeps until nobody reads the file.
    fn drop(&mut self) {
        // SAFETY: By the type invariant; its directory is removed later. It waits for calls of
        // `show`, and a file that is still open afterwards reads nothing.
        unsafe { ffi::kx::debugfs_remove(self.dentry) }
    }
}

/// Where a file's content goes.
struct Content(*mut ffi::kx::SeqFile);

impl fmt::Write for Content {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        // SAFETY: A `Content` exists only in `show`, on whose stack it stays, with the seq_file
        // that it was called with, and which no other thread uses meanwhile (its lock is held).
        // When it is full, that is noted in it, and `show` is called again with a larger buffer.
        unsafe { ffi::kx::seq_write(self.0, s.as_ptr().cast::<c_void>(), s.len()) };
        Ok(())
    }
}

/// Prints by way of the function of a [`Shown`].
struct Printed<'a, T>(&'a Shown<T>);

impl<T> fmt::Display for Printed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0.print)(&self.0.data, f)
    }
}

/// Called for a reader of a file, in its context; may sleep.
///
/// # Safety
///
/// `ctx` points to the [`Shown`] of a [`File`] that is not dropped during the call, `seq` is its
/// open file, used by this call alone.
unsafe extern "C" fn show<T: Send + Sync>(ctx: *mut c_void, seq: *mut ffi::kx::SeqFile) {
    // SAFETY: By the contract of this function. Other readers, too, only share it.
    let shown = unsafe { &*ctx.cast::<Shown<T>>() };
    // An error is one of `print`, and then what was printed before it is all there is.
    let _ = fmt::Write::write_fmt(&mut Content(seq), fmt!("{}", Printed(shown)));
}
