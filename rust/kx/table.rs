// SPDX-License-Identifier: GPL-2.0

//! Objects by number.
//!
//! A callback must not outlive what it is about, nor keep it alive; so it names an object by its
//! [`Key`] in a [`Table`]. A key of an object that is gone finds nothing: the number of the slot is
//! used again, the generation in the key is not.

use kernel::{
    alloc::KVVec,
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};

/// Bits of a key that number the slot.
const INDEX_BITS: u32 = 24;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;
/// Bits of a key in all.
const KEY_BITS: u32 = 52;
const GEN_MASK: u64 = (1 << (KEY_BITS - INDEX_BITS)) - 1;

/// Number of an object in a [`Table`]: never 0, below `1 << KEY_BITS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Key {
    fn new(index: usize, generation: u64) -> Self {
        Self((index as u64 & INDEX_MASK) | ((generation & GEN_MASK) << INDEX_BITS))
    }

    /// The number.
    pub(crate) const fn raw(self) -> u64 {
        self.0
    }

    const fn index(self) -> usize {
        (self.0 & INDEX_MASK) as usize
    }

    const fn generation(self) -> u64 {
        self.0 >> INDEX_BITS
    }
}

struct Slot<T> {
    /// Never 0, so that no key is 0.
    generation: u64,
    used: bool,
    object: Option<Arc<T>>,
}

struct Slots<T> {
    slots: KVVec<Slot<T>>,
    /// Numbers of unused slots. As much capacity as there are slots, so pushing never allocates.
    free: KVVec<usize>,
}

/// Objects by [`Key`].
///
/// The lock is a leaf. No object is dropped under it.
#[pin_data]
pub(crate) struct Table<T> {
    #[pin]
    slots: SpinLock<Slots<T>>,
}

impl<T> Table<T> {
    /// An empty table.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            slots <- new_spinlock!(
                Slots {
                    slots: KVVec::new(),
                    free: KVVec::new(),
                },
                "kx::Table"
            ),
        })
    }

    /// Sets a number aside for an object that is about to be made.
    ///
    /// # Errors
    ///
    /// ENOMEM: no memory, or 16 million objects.
    pub(crate) fn reserve(&self) -> Result<Reserved<'_, T>> {
        loop {
            let have = {
                let mut guard = self.slots.lock();
                if let Some(key) = guard.take() {
                    return Ok(Reserved { table: self, key });
                }
                guard.slots.len()
            };
            self.grow(have)?;
        }
    }

    /// Makes room for more than `have` slots.
    fn grow(&self, have: usize) -> Result {
        let want = have.saturating_mul(2).clamp(64, INDEX_MASK as usize);
        if want <= have {
            return Err(ENOMEM);
        }
        let mut slots = KVVec::with_capacity(want, GFP_KERNEL)?;
        let mut free = KVVec::with_capacity(want, GFP_KERNEL)?;
        let mut guard = self.slots.lock();
        if guard.slots.len() > have {
            // Somebody else was faster. What we allocated is dropped after the lock.
            drop(guard);
            return Ok(());
        }
        for slot in guard.slots.drain_all() {
            let _ = slots.push_within_capacity(slot);
        }
        for index in guard.free.drain_all() {
            let _ = free.push_within_capacity(index);
        }
        for index in (have..want).rev() {
            let _ = slots.push_within_capacity(Slot {
                generation: 1,
                used: false,
                object: None,
            });
            let _ = free.push_within_capacity(index);
        }
        core::mem::swap(&mut guard.slots, &mut slots);
        core::mem::swap(&mut guard.free, &mut free);
        drop(guard);
        Ok(())
    }

    /// The object with number `key`, if it is there.
    pub(crate) fn get(&self, key: Key) -> Option<Arc<T>> {
        self.slots.lock().slot(key)?.object.clone()
    }

    /// Gives the number back. Returns the object that was in the slot.
    fn remove(&self, key: Key) -> Option<Arc<T>> {
        let mut guard = self.slots.lock();
        let slot = guard.slot(key)?;
        slot.used = false;
        slot.generation = match slot.generation & GEN_MASK {
            GEN_MASK => 1,
            generation => generation.wrapping_add(1),
        };
        let object = slot.object.take();
        // The capacity is that of `slots`.
        let _ = guard.free.push_within_capacity(key.index());
        object
    }

    /// The first object in slot `from` or behind it, with the number of the slot after it.
    ///
    /// To walk the table without holding its lock: objects that come or go meanwhile are seen or
    /// not, all others are seen once.
    pub(crate) fn next_from(&self, from: usize) -> Option<(usize, Arc<T>)> {
        let guard = self.slots.lock();
        let tail = guard.slots.get(from..)?;
        tail.iter().enumerate().find_map(|(at, slot)| {
            Some((from.wrapping_add(at).wrapping_add(1), slot.object.clone()?))
        })
    }

    /// All objects, see [`Table::next_from`].
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<T>> + '_ {
        let mut at = 0;
        core::iter::from_fn(move || {
            let (next, object) = self.next_from(at)?;
            at = next;
            Some(object)
        })
    }
}

/// A number that was set aside. Dropped, it gives the number back, with the object that may have
/// been put there.
pub(crate) struct Reserved<'a, T> {
    table: &'a Table<T>,
    key: Key,
}

impl<T> Reserved<'_, T> {
    /// The number.
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// Puts an object there, which is found from here on.
    pub(crate) fn fill(&self, object: Arc<T>) {
        drop(self.swap(Some(object)));
    }

    /// Takes the object out, which is found no more; the number stays set aside.
    pub(crate) fn take(&self) -> Option<Arc<T>> {
        self.swap(None)
    }

    /// The object that was put there.
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        self.table.get(self.key)
    }

    fn swap(&self, object: Option<Arc<T>>) -> Option<Arc<T>> {
        let mut guard = self.table.slots.lock();
        match guard.slot(self.key) {
            Some(slot) => core::mem::replace(&mut slot.object, object),
            // Cannot be: the slot is ours until we are dropped.
            None => object,
        }
    }
}

impl<T> Drop for Reserved<'_, T> {
    fn drop(&mut self) {
        drop(self.table.remove(self.key));
    }
}

impl<T> Slots<T> {
    fn take(&mut self) -> Option<Key> {
        let index = self.free.pop()?;
        let slot = self.slots.get_mut(index)?;
        slot.used = true;
        Some(Key::new(index, slot.generation))
    }

    fn slot(&mut self, key: Key) -> Option<&mut Slot<T>> {
        self.slots
            .get_mut(key.index())
            .filter(|slot| slot.used && slot.generation == key.generation())
    }
}
