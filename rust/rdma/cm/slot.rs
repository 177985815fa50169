// SPDX-License-Identifier: GPL-2.0

//! Slots for the events of ids, the table that finds them by number, and shares in an id.

use super::param::PrivateData;
use crate::{
    ffi::verbs::{
        self,
        cm_event as kind, //
    },
    kx::{
        Entry,
        RunQueue, //
    },
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    new_mutex,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Full,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
};

/// Connection requests that may be queued per listener.
pub(super) const BACKLOG: usize = 64;

kernel::sync::global_lock! {
    // SAFETY: Initialised by `Room::new` before anything else of this module runs.
    unsafe(uninit) static TABLE: Mutex<Option<RBTree<u64, Arc<CmSlot>>>> = None;
}

/// The next number for a slot; 0 is never used.
static NEXT_KEY: Atomic<u64> = Atomic::new(1);

/// Set once the room was made.
static ROOM_MADE: AtomicFlag = AtomicFlag::new(false);

/// The room's own state: to be made first and dropped last by the module.
pub(crate) struct Room(());

impl Room {
    /// Sets the room up.
    ///
    /// # Errors
    ///
    /// `EBUSY` when called a second time.
    pub(crate) fn new() -> Result<Self> {
        if ROOM_MADE.xchg(true, Full) {
            return Err(EBUSY);
        }
        // SAFETY: Once, by the flag above.
        unsafe { TABLE.init() };
        *TABLE.lock() = Some(RBTree::new());
        // SAFETY: No requirements.
        to_result(unsafe { verbs::dma_check_init() })?;
        Ok(Self(()))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let left = TABLE.lock().take().map_or(0, |table| table.iter().count());
        if left != 0 {
            pr_err!("{left} CM ids are left\n");
        }
        // SAFETY: No requirements.
        unsafe { verbs::dma_check_exit() }
    }
}

/// The slot of the id with number `key`; [`None`] once that id is destroyed.
pub(super) fn lookup(key: u64) -> Option<Arc<CmSlot>> {
    TABLE.lock().as_ref()?.get(&key).cloned()
}

/// Forgets the slot with number `key`.
pub(super) fn remove(key: u64) {
    let node = TABLE
        .lock()
        .as_mut()
        .and_then(|table| table.remove_node(&key));
    // Dropped after the lock.
    drop(node);
}

/// The queue of the ids that have events.
pub(crate) type CmQueue = RunQueue<SlotData>;

/// The slot of an id.
pub(super) type CmSlot = Entry<SlotData>;

/// What a [`CmQueue`] holds.
#[pin_data]
pub(crate) struct SlotData {
    pub(super) key: u64,
    pub(super) tag: Atomic<u64>,
    /// Of [`IdRef`]s.
    users: Atomic<u32>,
    #[pin]
    pub(super) inner: Mutex<SlotInner>,
}

/// What of a slot its lock protects.
pub(super) struct SlotInner {
    /// The owner is gone: nothing is reported any more.
    pub(super) dead: bool,
    /// Events in the order they came, each kind at most once.
    fifo: [u8; Self::KINDS],
    queued: usize,
    status: [i32; Self::KINDS],
    /// Of a connection request.
    pub(super) request: PrivateData,
    /// Of the answer to one.
    pub(super) answer: PrivateData,
    /// The id of a connection request that is queued, and its listener.
    pub(super) new_id: Option<NewId>,
    /// Of a listener: slots for new ids.
    pub(super) backlog: KVec<Arc<CmSlot>>,
    /// Of a listener: its requests that are queued.
    pub(super) pending: usize,
}

/// An id that the CM made for a connection request, and has handed over.
pub(super) struct NewId {
    pub(super) raw: NonNull<verbs::RdmaCmId>,
    pub(super) listener: Arc<CmSlot>,
}

// SAFETY: An id may be used from any thread.
unsafe impl Send for NewId {}

impl SlotInner {
    /// One more than the largest number of a kind that is kept.
    const KINDS: usize = kind::TIMEWAIT_EXIT as usize + 1;

    fn new() -> Self {
        Self {
            dead: false,
            fifo: [0; Self::KINDS],
            queued: 0,
            status: [0; Self::KINDS],
            request: PrivateData::EMPTY,
            answer: PrivateData::EMPTY,
            new_id: None,
            backlog: KVec::new(),
            pending: 0,
        }
    }

    /// Queues an event. `false` when it is not to be reported: its like is queued, or the owner is
    /// gone.
    pub(super) fn push(&mut self, event: u32, status: i32) -> bool {
        // Fits: checked against KINDS next.
        let (index, byte) = (event as usize, event as u8);
        let Some(slot) = self.status.get_mut(index) else {
            return false;
        };
        if self.dead || self.fifo.iter().take(self.queued).any(|&e| e == byte) {
            return false;
        }
        *slot = status;
        // There is room: each kind is in it once at most.
        if let Some(place) = self.fifo.get_mut(self.queued) {
            *place = byte;
            self.queued += 1;
        }
        true
    }

    /// Takes the oldest event: its kind and status.
    pub(super) fn pop(&mut self) -> Option<(u32, i32)> {
        if self.queued == 0 {
            return None;
        }
        let event = self.fifo[0];
        self.fifo.copy_within(1.., 0);
        self.queued -= 1;
        let status = self.status.get(usize::from(event)).copied().unwrap_or(0);
        Some((event.into(), status))
    }
}

/// Makes a slot, known by its number from here on.
pub(super) fn new_slot(queue: &Arc<CmQueue>, tag: u64) -> Result<Arc<CmSlot>> {
    let key = NEXT_KEY.fetch_add(1, Relaxed);
    let slot = Entry::new(
        queue,
        pin_init!(SlotData {
            key,
            tag: Atomic::new(tag),
            users: Atomic::new(0),
            inner <- new_mutex!(SlotInner::new(), "ko2iblnd::CmSlot"),
        }),
    )?;
    let node = RBTreeNode::new(key, slot.clone(), GFP_KERNEL)?;
    if let Some(table) = TABLE.lock().as_mut() {
        table.insert(node);
    }
    Ok(slot)
}

/// Fills the backlog of a listener as far as memory allows.
pub(super) fn fill_backlog(listener: &Arc<CmSlot>) -> Result {
    loop {
        {
            let inner = listener.inner.lock();
            if inner.dead || inner.backlog.len() + inner.pending >= BACKLOG {
                return Ok(());
            }
        }
        let slot = new_slot(listener.queue(), 0)?;
        let key = slot.key;
        let mut inner = listener.inner.lock();
        let room = inner.backlog.len() < inner.backlog.capacity();
        if inner.dead || !room || inner.backlog.push_within_capacity(slot).is_err() {
            drop(inner);
            remove(key);
            return Ok(());
        }
    }
}

/// A share in an id; the last one destroys it.
///
/// # Invariants
///
/// `raw` is alive; `slot` is its slot, whose `users` counts `self`.
pub(in crate::rdma) struct IdRef {
    raw: NonNull<verbs::RdmaCmId>,
    slot: Arc<CmSlot>,
}

// SAFETY: An id may be used from any thread.
unsafe impl Send for IdRef {}

// SAFETY: As above; the CM does its own locking.
unsafe impl Sync for IdRef {}

impl IdRef {
    /// The first share, of an id that was made for `slot` or has been handed over with it.
    pub(super) fn first(raw: NonNull<verbs::RdmaCmId>, slot: Arc<CmSlot>) -> Self {
        // INVARIANT: The only one.
        slot.users.store(1, Relaxed);
        Self { raw, slot }
    }

    /// The slot that the id's events go to.
    pub(super) fn slot(&self) -> &Arc<CmSlot> {
        &self.slot
    }

    /// The id as C knows it.
    pub(in crate::rdma) fn as_raw(&self) -> *mut verbs::RdmaCmId {
        self.raw.as_ptr()
    }
}

impl Clone for IdRef {
    fn clone(&self) -> Self {
        self.slot.users.add(1, Relaxed);
        // INVARIANT: Counted above.
        Self {
            raw: self.raw,
            slot: self.slot.clone(),
        }
    }
}

impl Drop for IdRef {
    /// Sleeps: waits for the callbacks of the id.
    fn drop(&mut self) {
        if self.slot.users.fetch_sub(1, Full) != 1 {
            return;
        }
        // SAFETY: By the type invariant the id is alive, and this was the last share. No lock of
        // the CM is held: callbacks drop no `IdRef`.
        unsafe { verbs::cm_destroy(self.raw.as_ptr()) };
        remove(self.slot.key);
    }
}
