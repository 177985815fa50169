// SPDX-License-Identifier: GPL-2.0

//! Kernel threads.

use super::Node;
use crate::ffi;
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*, //
};

/// A kernel thread that runs a closure; stopped and waited for when dropped.
///
/// The closure gets a [`ShouldStop`]. It loops until that says so, or returns earlier; either way
/// the thread stays accounted for until the `Kthread` is dropped. To be bound to a CPU set, the
/// closure binds itself first (for a CPT: LNet's bind function, which acts on the calling thread).
///
/// # Invariants
///
/// `task` is a thread created by `spawn`, of which `self` owns a task reference. `data` is the
/// boxed closure given to it, to be freed with `free` by the caller that learns that the thread
/// never ran it.
pub(crate) struct Kthread {
    task: NonNull<ffi::kx::Task>,
    data: *mut c_void,
    free: unsafe fn(*mut c_void),
}

// SAFETY: A task reference may be owned by any thread; the closure is `Send` by `spawn`'s bound.
unsafe impl Send for Kthread {}

// SAFETY: A shared reference gives access to nothing.
unsafe impl Sync for Kthread {}

/// Given to a kthread's closure: tells it when to return.
pub(crate) struct ShouldStop(PhantomData<*mut ()>);

impl ShouldStop {
    /// Whether the thread was asked to stop. [`Event::wait`](super::Event::wait) then returns at
    /// once.
    pub(crate) fn requested(&self) -> bool {
        // SAFETY: A `ShouldStop` exists only inside a kthread, on its own stack, and cannot leave
        // it because it is not `Send`.
        unsafe { ffi::kx::kthread_should_stop() }
    }
}

/// Lets other threads run if it is their turn: for loops that may go round for long without
/// sleeping. Process context, no spinlock held.
pub(crate) fn cond_resched() {
    // SAFETY: No requirements but the context.
    unsafe { ffi::kx::cond_resched() }
}

impl Kthread {
    /// Creates and starts a thread named `name` (15 bytes of it are kept), with its stack and
    /// task structure on `node`.
    ///
    /// Process context, sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or `EINTR` when the caller is being killed.
    pub(crate) fn spawn<F>(name: &CStr, node: Node, f: F) -> Result<Self>
    where
        F: FnOnce(&ShouldStop) + Send + 'static,
    {
        let data: *mut c_void = KBox::into_raw(KBox::new(f, GFP_KERNEL)?).cast();
        // SAFETY: `main::<F>` may be called with `data`, at most once. The name is copied.
        let task = unsafe {
            ffi::kx::kthread_create(Some(main::<F>), data, node.as_raw(), name.as_char_ptr())
        };
        let task = match from_err_ptr(task).map(NonNull::new) {
            Ok(Some(task)) => task,
            other => {
                // SAFETY: There is no thread, so the box is still only ours.
                unsafe { free::<F>(data) };
                return Err(other.err().unwrap_or(ENOMEM));
            }
        };
        // SAFETY: The task was created above, has not been started, and we hold a reference.
        unsafe { ffi::kx::kthread_start(task.as_ptr()) };
        // INVARIANT: The shim gave us a task reference.
        Ok(Self {
            task,
            data,
            free: free::<F>,
        })
    }
}

impl Drop for Kthread {
    /// Asks the thread to stop and waits until it has returned.
    ///
    /// Process context, no lock held that the thread may take; not from the thread itself.
    fn drop(&mut self) {
        // SAFETY: By the type invariant we hold a reference, which this gives up.
        let ret = unsafe { ffi::kx::kthread_stop(self.task.as_ptr()) };
        if ret != 0 {
            // SAFETY: `main` returns 0, so the thread was stopped before it called `main`, and
            // the box is still only ours.
            unsafe { (self.free)(self.data) };
        }
    }
}

/// The body of the thread.
///
/// # Safety
///
/// `data` is a `KBox<F>` turned raw, and is given over.
unsafe extern "C" fn main<F: FnOnce(&ShouldStop)>(data: *mut c_void) -> c_int {
    // SAFETY: By the contract of this function.
    let f = unsafe { KBox::from_raw(data.cast::<F>()) };
    KBox::into_inner(f)(&ShouldStop(PhantomData));
    0
}

/// Frees a closure that no thread ran.
///
/// # Safety
///
/// As for [`main`].
unsafe fn free<F>(data: *mut c_void) {
    // SAFETY: By the contract of this function.
    drop(unsafe { KBox::from_raw(data.cast::<F>()) });
}
