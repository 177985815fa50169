// SPDX-License-Identifier: GPL-2.0

//! A queue of shared objects that interrupt handlers may push to.

use super::Event;
use crate::ffi;
use core::{
    marker::PhantomData,
    ops::Deref,
    ptr, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Full, //
        },
        Arc,
        ArcBorrow, //
    },
    types::Opaque, //
};

/// A queue of [`Entry`]s, served by a thread that sleeps on an [`Event`].
///
/// Pushing takes no lock, allocates nothing and works in any context. An entry is on the queue at
/// most once however often it is [kicked](Entry::kick), so nothing overflows: a kick means "look
/// at it again". Taking is in the order of pushing.
///
/// The entries on the queue keep the queue alive and the reverse, so its last thread
/// [takes](RunQueue::take) what is left before it ends.
pub(crate) struct RunQueue<T> {
    list: Opaque<ffi::kx::LlistHead>,
    event: Arc<Event>,
    _entries: PhantomData<Entry<T>>,
}

// SAFETY: The list is used by atomic operations only, and what it holds may be sent.
unsafe impl<T: Send + Sync> Send for RunQueue<T> {}

// SAFETY: As above.
unsafe impl<T: Send + Sync> Sync for RunQueue<T> {}

impl<T> RunQueue<T> {
    /// An empty queue; each push signals `event`, which may serve several queues.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(event: Arc<Event>) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                // An empty list is a null pointer.
                list: Opaque::zeroed(),
                event,
                _entries: PhantomData,
            },
            GFP_KERNEL,
        )?)
    }

    /// The event that pushes signal: what the serving thread sleeps on.
    pub(crate) fn event(&self) -> &Event {
        &self.event
    }

    /// Takes all entries, oldest first. Any context; several threads may take.
    pub(crate) fn take(&self) -> Batch<T> {
        Batch {
            // SAFETY: `list` is initialised and holds nodes of `Entry<T>`s, whose references this
            // call passes to the batch.
            next: unsafe { ffi::kx::llist_take(self.list.get()) },
            _entries: PhantomData,
        }
    }
}

/// What a [`RunQueue`] holds: a `T` that can be kicked.
///
/// # Invariants
///
/// While `queued` is set, the queue (or a [`Batch`] taken from it) owns one reference to `self`.
#[repr(C)]
#[pin_data]
pub(crate) struct Entry<T> {
    /// First, so that a pointer to it is one to the entry.
    link: Opaque<ffi::kx::LlistNode>,
    queued: AtomicFlag,
    queue: Arc<RunQueue<T>>,
    #[pin]
    data: T,
}

// SAFETY: `link` is touched only by the holder of `queued`; the rest is shareable by bound.
unsafe impl<T: Send + Sync> Send for Entry<T> {}

// SAFETY: As above.
unsafe impl<T: Send + Sync> Sync for Entry<T> {}

impl<T> Deref for Entry<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.data
    }
}

impl<T> Entry<T> {
    /// An entry for `queue`, not on it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of `data`.
    pub(crate) fn new<E>(queue: &Arc<RunQueue<T>>, data: impl PinInit<T, E>) -> Result<Arc<Self>>
    where
        Error: From<E>,
    {
        let queue = queue.clone();
        Arc::try_pin_init(
            try_pin_init!(Self {
                link: Opaque::zeroed(),
                queued: AtomicFlag::new(false),
                queue,
                data <- data,
            }? Error),
            GFP_KERNEL,
        )
    }

    /// The queue it is for.
    pub(crate) fn queue(&self) -> &Arc<RunQueue<T>> {
        &self.queue
    }

    /// Puts the entry on its queue unless it is there, and wakes the serving thread.
    ///
    /// Any context, hard interrupts included: no lock, no allocation, no reference dropped.
    pub(crate) fn kick(this: ArcBorrow<'_, Self>) {
        if this.queued.xchg(true, Full) {
            return;
        }
        // INVARIANT: `queued` is set by us alone, and this reference goes to the queue.
        let entry = Arc::into_raw(Arc::from(this)).cast_mut();
        // SAFETY: `entry` is alive by the reference above; its node is on no list, because
        // `queued` was clear. The node is the entry's first field.
        unsafe {
            ffi::kx::llist_add(entry.cast::<ffi::kx::LlistNode>(), this.queue.list.get());
        }
        this.queue.event.signal();
    }
}

/// Entries taken from a [`RunQueue`]; what is left is let go when dropped.
///
/// # Invariants
///
/// `next` is a list of nodes of `Entry<T>`s that are `queued`, whose references `self` owns.
pub(crate) struct Batch<T> {
    next: *mut ffi::kx::LlistNode,
    _entries: PhantomData<Arc<Entry<T>>>,
}

// SAFETY: A batch owns references to entries that may be sent.
unsafe impl<T: Send + Sync> Send for Batch<T> {}

impl<T> Iterator for Batch<T> {
    type Item = Arc<Entry<T>>;

    /// Takes the oldest entry. From here on it can be kicked again, so a caller that looks at the
    /// entry's work after this misses no kick.
    fn next(&mut self) -> Option<Self::Item> {
        if self.next.is_null() {
            return None;
        }
        let node = self.next;
        // SAFETY: By the type invariant `node` is alive and ours until `queued` is cleared.
        self.next = unsafe { ptr::read(node).next };
        // SAFETY: By the type invariant the reference is ours; the node is the first field.
        let entry = unsafe { Arc::from_raw(node.cast::<Entry<T>>()) };
        // Full, to come before the caller's look at the work: pairs with the one in `kick`.
        entry.queued.xchg(false, Full);
        Some(entry)
    }
}

impl<T> Drop for Batch<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
