// SPDX-License-Identifier: GPL-2.0

//! Storage that is taken once, and lists of indices in it.

/// Where an engine takes its memory from. All of it is taken when the engine is made.
pub trait Storage {
    /// A fixed number of `U`s.
    type Buf<U>: AsRef<[U]> + AsMut<[U]>;
    /// Why there is no memory.
    type Error;

    /// Makes a buffer of `n` elements, element `i` being `init(i)`.
    ///
    /// # Errors
    ///
    /// When there is no memory. What had been made is dropped then.
    fn alloc<U>(
        &mut self,
        n: usize,
        init: impl FnMut(usize) -> U,
    ) -> Result<Self::Buf<U>, Self::Error>;
}

const NIL: u16 = u16::MAX;

/// Number of a list among those that share one [`Links`]. Zero is "on no list".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListId(core::num::NonZeroU8);

impl ListId {
    /// List number `n`; number 0 becomes 1.
    pub const fn new(n: u8) -> Self {
        match core::num::NonZeroU8::new(n) {
            Some(n) => Self(n),
            None => Self(core::num::NonZeroU8::MIN),
        }
    }
}

/// The place of one element.
#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u16,
    next: u16,
    owner: Option<ListId>,
}

/// Head of a list of indices, first in first out.
#[derive(Clone, Copy, Debug)]
pub struct List {
    id: ListId,
    head: u16,
    tail: u16,
    len: u16,
}

impl List {
    /// An empty list. Lists that share one [`Links`] must differ in `id`.
    pub const fn new(id: ListId) -> Self {
        Self {
            id,
            head: NIL,
            tail: NIL,
            len: 0,
        }
    }

    /// The first element.
    pub const fn front(&self) -> Option<u16> {
        if self.head == NIL {
            None
        } else {
            Some(self.head)
        }
    }

    /// Number of elements.
    pub const fn len(&self) -> u16 {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Links for lists of indices. An index is on at most one of the lists that share these links; an
/// operation that would break this does nothing and says so.
pub struct Links<S: Storage> {
    buf: S::Buf<Link>,
}

impl<S: Storage> Clone for Links<S>
where
    S::Buf<Link>: Clone,
{
    fn clone(&self) -> Self {
        Self {
            buf: self.buf.clone(),
        }
    }
}

impl<S: Storage> Links<S> {
    /// Links for indices below `n`, which is at most 65,535.
    ///
    /// # Errors
    ///
    /// When there is no memory.
    pub fn new(storage: &mut S, n: u16) -> Result<Self, S::Error> {
        let buf = storage.alloc(usize::from(n), |_| Link {
            prev: NIL,
            next: NIL,
            owner: None,
        })?;
        Ok(Self { buf })
    }

    fn get(&self, idx: u16) -> Option<&Link> {
        self.buf.as_ref().get(usize::from(idx))
    }

    fn get_mut(&mut self, idx: u16) -> Option<&mut Link> {
        self.buf.as_mut().get_mut(usize::from(idx))
    }

    /// Appends `idx`. `false` when it is on a list already, or no index of these links.
    pub fn push_back(&mut self, list: &mut List, idx: u16) -> bool {
        let tail = list.tail;
        match self.get_mut(idx) {
            Some(link) if link.owner.is_none() => {
                *link = Link {
                    prev: tail,
                    next: NIL,
                    owner: Some(list.id),
                };
            }
            Some(_) | None => return false,
        }
        match self.get_mut(tail) {
            Some(link) => link.next = idx,
            None => list.head = idx,
        }
        list.tail = idx;
        list.len = list.len.saturating_add(1);
        true
    }

    /// Takes `idx` out of `list`. `false` when it is not on it.
    pub fn remove(&mut self, list: &mut List, idx: u16) -> bool {
        let (prev, next) = match self.get_mut(idx) {
            Some(link) if link.owner == Some(list.id) => {
                link.owner = None;
                (link.prev, link.next)
            }
            Some(_) | None => return false,
        };
        match self.get_mut(prev) {
            Some(link) => link.next = next,
            None => list.head = next,
        }
        match self.get_mut(next) {
            Some(link) => link.prev = prev,
            None => list.tail = prev,
        }
        list.len = list.len.saturating_sub(1);
        true
    }

    /// Takes the first element out of `list`.
    pub fn pop_front(&mut self, list: &mut List) -> Option<u16> {
        let idx = list.front()?;
        self.remove(list, idx).then_some(idx)
    }

    /// The element behind `idx` on its list.
    pub fn next(&self, idx: u16) -> Option<u16> {
        self.get(idx)
            .filter(|link| link.owner.is_some() && link.next != NIL)
            .map(|link| link.next)
    }
}
