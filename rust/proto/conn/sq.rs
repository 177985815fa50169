// SPDX-License-Identifier: GPL-2.0

//! What is on the send queue.
//!
//! One posting is one [`Post`](super::Post): a chain of work requests whose last one carries the
//! LAST tag. The send queue completes in order, so the completion of posting `n` says that all
//! before it have ended well, whether they were signalled or not.

use crate::proto::{
    slab::Storage,
    Instant,
    Limits,
    OpId,
    SlotId,
    WrId, //
};
use core::hash::Hash;
#[cfg(feature = "tests")]
use core::hash::Hasher;

/// What a posting was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// A SEND that uses nothing but its slot.
    Message,
    /// A NOOP, of which only so many may be in flight.
    Noop,
    /// A SEND whose completion ends its operation.
    Final,
    /// RDMA WRITEs.
    Writes,
    /// LOCAL_INV.
    Inv,
}

impl Purpose {
    const fn is_send(self) -> bool {
        match self {
            Self::Message | Self::Noop | Self::Final => true,
            Self::Writes | Self::Inv => false,
        }
    }
}

/// One posting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) purpose: Purpose,
    pub(super) op: Option<OpId>,
    wrs: u32,
    since: Instant,
    signal: bool,
}

/// The send queue of a connection.
///
/// # Invariants
///
/// `head..tail` are the numbers of the postings that have not been retired, and the counters are
/// sums over them.
pub(super) struct Sq<S: Storage> {
    ring: S::Buf<Option<Record>>,
    /// Room for work requests, without the sentinel.
    capacity: u32,
    /// A signal at least every so many work requests.
    signal_every: u32,
    send_slots: u16,
    next_slot: u16,
    head: u64,
    tail: u64,
    used: u32,
    sends: u16,
    noops: u16,
    /// Signalled postings.
    signals: u32,
    /// Work requests since the last signalled one.
    unsignalled: u32,
}

impl<S: Storage> Clone for Sq<S>
where
    S::Buf<Option<Record>>: Clone,
{
    fn clone(&self) -> Self {
        Self {
            ring: self.ring.clone(),
            ..*self
        }
    }
}

impl<S: Storage> Sq<S> {
    pub(super) fn new(storage: &mut S, limits: &Limits) -> Result<Self, S::Error> {
        let capacity = limits.sq_wrs.saturating_sub(1);
        let entries = usize::try_from(limits.sq_wrs).unwrap_or(usize::MAX);
        Ok(Self {
            ring: storage.alloc(entries, |_| None)?,
            capacity,
            signal_every: (limits.sq_wrs / 4).max(1),
            send_slots: limits.send_slots,
            next_slot: 0,
            head: 0,
            tail: 0,
            used: 0,
            sends: 0,
            noops: 0,
            signals: 0,
            unsignalled: 0,
        })
    }

    /// Room for work requests.
    pub(super) fn avail(&self) -> u32 {
        self.capacity.saturating_sub(self.used)
    }

    /// Room when nothing is posted.
    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// SENDs posted and not retired.
    pub(super) fn sends(&self) -> u16 {
        self.sends
    }

    /// NOOPs posted and not retired.
    pub(super) fn noops(&self) -> u16 {
        self.noops
    }

    /// Work requests posted and not retired.
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    /// Since when the oldest posting waits, if a completion that would retire it is to be expected.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        if self.signals == 0 {
            return None;
        }
        self.record(self.head).map(|record| record.since)
    }

    fn index(&self, seq: u64) -> Option<usize> {
        let len = u64::try_from(self.ring.as_ref().len()).ok()?;
        usize::try_from(seq.checked_rem(len)?).ok()
    }

    fn entry(&mut self, seq: u64) -> Option<&mut Option<Record>> {
        let idx = self.index(seq)?;
        self.ring.as_mut().get_mut(idx)
    }

    fn record(&self, seq: u64) -> Option<&Record> {
        if seq < self.head || seq >= self.tail {
            return None;
        }
        self.ring.as_ref().get(self.index(seq)?)?.as_ref()
    }

    /// Whether posting `seq` has not been retired.
    pub(super) fn contains(&self, seq: u64) -> bool {
        self.record(seq).is_some()
    }

    /// Number of the oldest posting.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Enters a posting of `wrs` work requests; its id and, for a SEND, its slot. The caller has
    /// looked at [`Sq::avail`] and [`Sq::sends`].
    pub(super) fn push(
        &mut self,
        purpose: Purpose,
        op: Option<OpId>,
        wrs: u32,
        now: Instant,
    ) -> (WrId, SlotId) {
        let seq = self.tail;
        self.tail = self.tail.saturating_add(1);
        let record = Record {
            purpose,
            op,
            wrs,
            since: now,
            signal: false,
        };
        if let Some(entry) = self.entry(seq) {
            *entry = Some(record);
        }
        self.used = self.used.saturating_add(wrs);
        self.unsignalled = self.unsignalled.saturating_add(wrs);
        let slot = SlotId(self.next_slot);
        if purpose.is_send() {
            // SENDs retire in order, so at most `send_slots` of them take the slots in turn.
            self.sends = self.sends.saturating_add(1);
            let next = self.next_slot.saturating_add(1);
            self.next_slot = if next < self.send_slots { next } else { 0 };
        }
        if purpose == Purpose::Noop {
            self.noops = self.noops.saturating_add(1);
        }
        (WrId::send(seq), slot)
    }

    /// Whether the posting entered last must be signalled whatever follows.
    pub(super) fn signal_due(&self) -> bool {
        self.unsignalled >= self.signal_every
    }

    /// The posting entered last is signalled.
    pub(super) fn set_signal(&mut self) {
        self.unsignalled = 0;
        self.signals = self.signals.saturating_add(1);
        if let Some(Some(record)) = self.entry(self.tail.saturating_sub(1)) {
            record.signal = true;
        }
    }

    /// For [`Conn::hash_future`](super::Conn::hash_future). The other counters are sums over the
    /// postings; slots are taken in turn, whatever their number.
    #[cfg(feature = "tests")]
    pub(super) fn hash_future<H: Hasher, N: Hash>(
        &self,
        name: impl Fn(OpId) -> Option<N>,
        state: &mut H,
    ) {
        for seq in self.head..self.tail {
            if let Some(record) = self.record(seq) {
                (record.purpose, record.op.and_then(&name)).hash(state);
                (record.wrs, record.since, record.signal).hash(state);
            }
        }
        self.unsignalled.hash(state);
    }

    /// Retires the oldest posting.
    pub(super) fn retire(&mut self) -> Option<Record> {
        if self.head >= self.tail {
            return None;
        }
        let record = self.entry(self.head)?.take()?;
        self.head = self.head.saturating_add(1);
        self.used = self.used.saturating_sub(record.wrs);
        if record.purpose.is_send() {
            self.sends = self.sends.saturating_sub(1);
        }
        if record.purpose == Purpose::Noop {
            self.noops = self.noops.saturating_sub(1);
        }
        if record.signal {
            self.signals = self.signals.saturating_sub(1);
        }
        Some(record)
    }
}
