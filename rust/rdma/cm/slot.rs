// SPDX-License-Identifier: GPL-2.0

//! Slots for the events of ids, and shares in an id.

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

/// Set once the room was made.
static ROOM_MADE: AtomicFlag = AtomicFlag::new(false);

/// The room's own state: to be made first and dropped last by the module. Nothing but the checks of
/// test builds needs it.
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
        // SAFETY: Once, by the flag above. Process context.
        to_result(unsafe { verbs::dma_check_init() })?;
        Ok(Self(()))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: `new` has initialised it, and there is one `Room`. Process context.
        unsafe { verbs::dma_check_exit() }
    }
}

/// The queue of the ids that have events.
pub(crate) type CmQueue = RunQueue<SlotData>;

/// The slot of an id.
pub(super) type CmSlot = Entry<SlotData>;

/// What a [`CmQueue`] holds.
#[pin_data]
pub(crate) struct SlotData {
    pub(super) tag: Atomic<u64>,
    /// Of [`IdRef`]s.
    users: Atomic<u32>,
    /// The id has a QP, or gets one.
    has_qp: AtomicFlag,
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
///
/// While it waits in its own slot, the two hold each other: whoever consumes the queue takes it
/// out.
pub(super) struct NewId {
    pub(super) id: IdRef,
    pub(super) listener: Arc<CmSlot>,
}

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

/// Makes a slot.
pub(super) fn new_slot(queue: &Arc<CmQueue>, tag: u64) -> Result<Arc<CmSlot>> {
    Entry::new(
        queue,
        pin_init!(SlotData {
            tag: Atomic::new(tag),
            users: Atomic::new(0),
            has_qp: AtomicFlag::new(false),
            inner <- new_mutex!(SlotInner::new(), "rdma::CmSlot"),
        }),
    )
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
        let mut inner = listener.inner.lock();
        if inner.dead {
            return Ok(());
        }
        let surplus = inner.backlog.push_within_capacity(slot);
        drop(inner);
        if surplus.is_err() {
            return Ok(());
        }
    }
}

/// A share in an id; the last one destroys it.
///
/// # Invariants
///
/// `raw` is alive and has the address of `slot` as its context; `users` of that counts `self`.
pub(in crate::rdma) struct IdRef {
    raw: NonNull<verbs::RdmaCmId>,
    slot: Arc<CmSlot>,
}

// SAFETY: An id may be used from any thread.
unsafe impl Send for IdRef {}

// SAFETY: As above; the CM does its own locking.
unsafe impl Sync for IdRef {}

impl IdRef {
    /// The first share, of an id whose context is `slot`.
    ///
    /// # Safety
    ///
    /// `raw` is alive, nobody else destroys it, and its context is the address of `slot`.
    pub(super) unsafe fn first(raw: NonNull<verbs::RdmaCmId>, slot: Arc<CmSlot>) -> Self {
        // INVARIANT: The only one; the rest is the contract of this function.
        slot.users.store(1, Relaxed);
        Self { raw, slot }
    }

    /// The slot that the id's events go to.
    pub(super) fn slot(&self) -> &Arc<CmSlot> {
        &self.slot
    }

    /// Whether the id has no QP; from here on it has one, until [`IdRef::release_qp`].
    pub(in crate::rdma) fn claim_qp(&self) -> bool {
        !self.slot.has_qp.xchg(true, Full)
    }

    /// The id has no QP any more.
    pub(in crate::rdma) fn release_qp(&self) {
        self.slot.has_qp.xchg(false, Full);
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
        // the CM is held: callbacks drop no `IdRef`. rdma_destroy_id() marks it under its handler
        // mutex, after which no callback is made, and a callback that has the context is over:
        // `slot` is dropped behind this.
        unsafe { verbs::cm_destroy(self.raw.as_ptr()) };
    }
}
