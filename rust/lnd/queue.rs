// SPDX-License-Identifier: GPL-2.0

//! Queues of shared objects that never allocate.
//!
//! An object is on a queue at most once: whoever wants it looked at records why in the object
//! first and pushes it then; whoever pops it looks at the reasons afterwards. If the object is on
//! the queue already, the push does nothing, and the reason is found when it is popped.

use kernel::{
    list::{
        List,
        ListArc,
        ListItem,
        TryNewListArc, //
    },
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};

/// A first-in first-out queue of [`Arc`]s.
///
/// The lock is a leaf. No object is dropped under it.
#[pin_data]
pub(crate) struct WorkQueue<T: ?Sized + ListItem<0> + TryNewListArc<0>> {
    #[pin]
    list: SpinLock<List<T>>,
}

impl<T: ListItem<0> + TryNewListArc<0>> WorkQueue<T> {
    /// An empty queue.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_spinlock!(List::new(), "ko2iblnd::WorkQueue"),
        })
    }

    /// Puts `item` at the end, unless it is on a queue already.
    pub(crate) fn push(&self, item: Arc<T>) {
        if let Ok(node) = ListArc::try_from_arc(item) {
            self.list.lock().push_back(node);
        }
    }

    /// Takes the first object.
    pub(crate) fn pop(&self) -> Option<Arc<T>> {
        let node = self.list.lock().pop_front();
        // From here on the object can be pushed again.
        node.map(ListArc::into_arc)
    }
}
