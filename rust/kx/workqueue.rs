// SPDX-License-Identifier: GPL-2.0

//! Queues of shared objects that never allocate.
//!
//! An object is on a queue at most once: whoever wants it looked at records why in the object
//! first and pushes it then; whoever pops it looks at the reasons afterwards. If the object is on
//! the queue already, the push does nothing, and the reason is found when it is popped.
//!
//! A [`RunQueue`](super::RunQueue) does the same for interrupt handlers and takes no lock, but what
//! it holds has to be made for one queue, with the memory for that.

use super::Event;
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

/// A first-in first-out queue of [`Arc`]s, served by a thread that sleeps on an [`Event`].
///
/// The lock is a leaf. No object is dropped under it.
#[pin_data]
pub(crate) struct WorkQueue<T: ?Sized + ListItem<0> + TryNewListArc<0>> {
    event: Arc<Event>,
    #[pin]
    list: SpinLock<List<T>>,
}

impl<T: ListItem<0> + TryNewListArc<0>> WorkQueue<T> {
    /// An empty queue; each push signals `event`, which may serve several queues.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(event: Arc<Event>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                event,
                list <- new_spinlock!(List::new(), "kx::WorkQueue"),
            }),
            GFP_KERNEL,
        )
    }

    /// Puts `item` at the end, unless it is on a queue already, and wakes the serving thread.
    pub(crate) fn push(&self, item: Arc<T>) {
        if let Ok(node) = ListArc::try_from_arc(item) {
            self.list.lock().push_back(node);
        }
        self.event.signal();
    }

    /// Takes the first object.
    pub(crate) fn pop(&self) -> Option<Arc<T>> {
        let node = self.list.lock().pop_front();
        // From here on the object can be pushed again.
        node.map(ListArc::into_arc)
    }
}
