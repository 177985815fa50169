// SPDX-License-Identifier: GPL-2.0

//! Receive buffers of a connection, and what is in them.

use super::Delivery;
use crate::proto::{
    ids::GEN_MASK,
    slab::{
        Links,
        List,
        ListId,
        Storage, //
    },
    RxId,
    WrId,
    WrKind, //
};
use crate::wire::{
    Body,
    Desc,
    Header,
    LnetHdr,
    Message, //
};
use core::hash::Hash;
#[cfg(feature = "tests")]
use core::hash::Hasher;

/// What a receive does for the credits once it is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Grant {
    /// The peer gets no credit for it.
    Nothing,
    /// The peer gets a credit.
    Credit,
    /// One more of our own requests can be answered.
    Reserve,
}

/// Who has a receive buffer, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RxState {
    /// To be posted.
    ToPost(Grant),
    /// Pulled by the driver, not yet reported as posted.
    Posting(Grant),
    /// Posted: the device may write it.
    Posted,
    /// Holds a message that came before the connection was established.
    Parked,
    /// Holds a message for LNet.
    Deliver,
    /// LNet's, until a command gives it back: the only record of that.
    Held,
    /// Of an operation: a descriptor that is still needed, or a credit that is not yet due.
    Lent,
    /// Not used again.
    Dead,
}

/// A received message without the borrow of its buffer: what is kept while its turn has not come,
/// or LNet has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parsed {
    pub(super) hdr: Header,
    pub(super) body: Body<Desc, ()>,
}

impl Parsed {
    pub(super) fn new(msg: &Message<'_>) -> Self {
        Self {
            hdr: msg.hdr,
            body: msg.body.map(|view| view.desc(), |_payload| ()),
        }
    }

    /// What LNet is given, if this is a message for it.
    pub(super) const fn delivery(&self) -> Option<(LnetHdr, Delivery)> {
        match self.body {
            Body::Immediate { hdr, .. } => Some((hdr, Delivery::Immediate)),
            Body::PutReq { hdr, .. } => Some((hdr, Delivery::PutReq)),
            Body::GetReq { hdr, desc, .. } => Some((hdr, Delivery::GetReq { desc })),
            Body::ConnReq(_)
            | Body::ConnAck(_)
            | Body::Noop
            | Body::PutNak(_)
            | Body::PutAck { .. }
            | Body::PutDone(_)
            | Body::GetDone(_) => None,
        }
    }
}

#[derive(Clone)]
struct RxSlot {
    state: RxState,
    /// How often the buffer has been posted.
    gen: u64,
    /// The message, from arrival until the buffer is to be posted again.
    parsed: Option<Parsed>,
}

/// All receive buffers of a connection.
pub(super) struct RxSlots<S: Storage> {
    slots: S::Buf<RxSlot>,
    links: Links<S>,
    to_post: List,
    parked: List,
    deliver: List,
    posted: u16,
    held: u16,
}

impl<S: Storage> Clone for RxSlots<S>
where
    S::Buf<RxSlot>: Clone,
    Links<S>: Clone,
{
    fn clone(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            links: self.links.clone(),
            ..*self
        }
    }
}

impl<S: Storage> RxSlots<S> {
    pub(super) fn new(storage: &mut S, n: u16) -> Result<Self, S::Error> {
        let slots = storage.alloc(usize::from(n), |_| RxSlot {
            state: RxState::ToPost(Grant::Nothing),
            gen: 0,
            parsed: None,
        })?;
        let mut links = Links::new(storage, n)?;
        let mut to_post = List::new(ListId::new(1));
        for idx in 0..n {
            links.push_back(&mut to_post, idx);
        }
        Ok(Self {
            slots,
            links,
            to_post,
            parked: List::new(ListId::new(2)),
            deliver: List::new(ListId::new(3)),
            posted: 0,
            held: 0,
        })
    }

    fn get(&self, rx: RxId) -> Option<&RxSlot> {
        self.slots.as_ref().get(usize::from(rx.0))
    }

    fn get_mut(&mut self, rx: RxId) -> Option<&mut RxSlot> {
        self.slots.as_mut().get_mut(usize::from(rx.0))
    }

    pub(super) fn state(&self, rx: RxId) -> Option<RxState> {
        self.get(rx).map(|slot| slot.state)
    }

    pub(super) fn parsed(&self, rx: RxId) -> Option<Parsed> {
        self.get(rx).and_then(|slot| slot.parsed)
    }

    /// Receives that the device has.
    pub(super) fn posted(&self) -> u16 {
        self.posted
    }

    /// Buffers that LNet has.
    pub(super) fn held(&self) -> u16 {
        self.held
    }

    pub(super) fn to_post_len(&self) -> u16 {
        self.to_post.len()
    }

    pub(super) fn parked_len(&self) -> u16 {
        self.parked.len()
    }

    pub(super) fn deliver_len(&self) -> u16 {
        self.deliver.len()
    }

    /// Moves `rx` to `state`, and to and from the lists and counts that go with the states.
    fn enter(&mut self, rx: RxId, state: RxState) {
        let Some(slot) = self.get_mut(rx) else {
            return;
        };
        let old = core::mem::replace(&mut slot.state, state);
        match old {
            RxState::ToPost(_) => {
                self.links.remove(&mut self.to_post, rx.0);
            }
            RxState::Parked => {
                self.links.remove(&mut self.parked, rx.0);
            }
            RxState::Deliver => {
                self.links.remove(&mut self.deliver, rx.0);
            }
            RxState::Posted => self.posted = self.posted.saturating_sub(1),
            RxState::Held => self.held = self.held.saturating_sub(1),
            RxState::Posting(_) | RxState::Lent | RxState::Dead => {}
        }
        match state {
            RxState::ToPost(_) => {
                self.links.push_back(&mut self.to_post, rx.0);
            }
            RxState::Parked => {
                self.links.push_back(&mut self.parked, rx.0);
            }
            RxState::Deliver => {
                self.links.push_back(&mut self.deliver, rx.0);
            }
            RxState::Posted => self.posted = self.posted.saturating_add(1),
            RxState::Held => self.held = self.held.saturating_add(1),
            RxState::Posting(_) | RxState::Lent | RxState::Dead => {}
        }
    }

    /// The next buffer to post, and whether there is another one behind it.
    pub(super) fn start_post(&mut self) -> Option<(WrId, RxId, bool)> {
        let rx = RxId(self.to_post.front()?);
        let slot = self.get_mut(rx)?;
        let RxState::ToPost(grant) = slot.state else {
            return None;
        };
        slot.gen = slot.gen.wrapping_add(1) & GEN_MASK;
        slot.parsed = None;
        let wr = WrId::recv(rx, slot.gen);
        self.enter(rx, RxState::Posting(grant));
        Some((wr, rx, !self.to_post.is_empty()))
    }

    /// The buffer last started has been posted; what that does for the credits.
    pub(super) fn end_post(&mut self, rx: RxId) -> Option<Grant> {
        match self.state(rx)? {
            RxState::Posting(grant) => {
                self.enter(rx, RxState::Posted);
                Some(grant)
            }
            RxState::ToPost(_)
            | RxState::Posted
            | RxState::Parked
            | RxState::Deliver
            | RxState::Held
            | RxState::Lent
            | RxState::Dead => None,
        }
    }

    /// The buffer that a completion is for, if it is one that the device has.
    pub(super) fn completed(&mut self, wr: WrId) -> Option<RxId> {
        let WrKind::Recv { rx, gen } = wr.kind() else {
            return None;
        };
        let slot = self.get(rx)?;
        if slot.state != RxState::Posted || slot.gen != gen {
            return None;
        }
        // The caller decides what becomes of it.
        self.enter(rx, RxState::Lent);
        Some(rx)
    }

    /// Keeps a parsed message while its buffer is in `state`.
    fn keep(&mut self, rx: RxId, parsed: Parsed, state: RxState) {
        if let Some(slot) = self.get_mut(rx) {
            slot.parsed = Some(parsed);
        }
        self.enter(rx, state);
    }

    pub(super) fn park(&mut self, rx: RxId, parsed: Parsed) {
        self.keep(rx, parsed, RxState::Parked);
    }

    /// The oldest parked message.
    pub(super) fn unpark(&mut self) -> Option<(RxId, Parsed)> {
        let rx = RxId(self.parked.front()?);
        self.enter(rx, RxState::Lent);
        self.parsed(rx).map(|parsed| (rx, parsed))
    }

    pub(super) fn deliver(&mut self, rx: RxId, parsed: Parsed) {
        self.keep(rx, parsed, RxState::Deliver);
    }

    /// The next message for LNet; its buffer is LNet's from now on.
    pub(super) fn hand_over(&mut self) -> Option<(RxId, LnetHdr, Delivery)> {
        let rx = RxId(self.deliver.front()?);
        self.enter(rx, RxState::Held);
        let (hdr, kind) = self.parsed(rx)?.delivery()?;
        Some((rx, hdr, kind))
    }

    /// What LNet was given with `rx`, as long as it or the driver's answer for it has the buffer.
    pub(super) fn held_in(&self, rx: RxId) -> Option<Delivery> {
        let slot = self.get(rx).filter(|slot| slot.state == RxState::Held)?;
        slot.parsed?.delivery().map(|(_, kind)| kind)
    }

    /// LNet gives `rx` back; what was in it. `None` when it is not LNet's.
    pub(super) fn take_back(&mut self, rx: RxId) -> Option<Parsed> {
        match self.state(rx)? {
            RxState::Held => {
                self.enter(rx, RxState::Lent);
                self.parsed(rx)
            }
            RxState::ToPost(_)
            | RxState::Posting(_)
            | RxState::Posted
            | RxState::Parked
            | RxState::Deliver
            | RxState::Lent
            | RxState::Dead => None,
        }
    }

    /// For [`Conn::hash_future`](super::Conn::hash_future): one buffer is as good as another.
    #[cfg(feature = "tests")]
    pub(super) fn hash_future<H: Hasher>(&self, state: &mut H) {
        (self.posted, self.held).hash(state);
        (self.parked.len(), self.deliver.len()).hash(state);
        let mut next = self.to_post.front();
        while let Some(idx) = next {
            self.state(RxId(idx)).hash(state);
            next = self.links.next(idx);
        }
    }

    /// What was in it is no longer needed. `open` tells whether the connection takes messages.
    pub(super) fn release(&mut self, rx: RxId, grant: Grant, open: bool) {
        let next = if open {
            RxState::ToPost(grant)
        } else {
            RxState::Dead
        };
        self.enter(rx, next);
    }

    /// The connection closes: drops the messages that have not been handed over, except IMMEDIATEs
    /// for LNet, which are complete whatever becomes of the connection. A request could not be
    /// answered any more. Returns the number of messages dropped.
    pub(super) fn close(&mut self) -> u32 {
        let mut dropped = 0u32;
        for idx in 0..u16::try_from(self.slots.as_ref().len()).unwrap_or(u16::MAX) {
            let rx = RxId(idx);
            let immediate = matches!(
                self.parsed(rx).map(|parsed| parsed.body),
                Some(Body::Immediate { .. })
            );
            match self.state(rx) {
                Some(RxState::Deliver) if immediate => {}
                Some(RxState::Parked | RxState::Deliver) => {
                    dropped = dropped.saturating_add(1);
                    self.enter(rx, RxState::Dead);
                }
                Some(RxState::ToPost(_)) => self.enter(rx, RxState::Dead),
                Some(
                    RxState::Posting(_)
                    | RxState::Posted
                    | RxState::Held
                    | RxState::Lent
                    | RxState::Dead,
                )
                | None => {}
            }
        }
        dropped
    }

    /// No more completions can come.
    pub(super) fn drain(&mut self) {
        for idx in 0..u16::try_from(self.slots.as_ref().len()).unwrap_or(u16::MAX) {
            match self.state(RxId(idx)) {
                Some(
                    RxState::ToPost(_)
                    | RxState::Posting(_)
                    | RxState::Posted
                    | RxState::Parked
                    | RxState::Lent,
                ) => self.enter(RxId(idx), RxState::Dead),
                Some(RxState::Deliver | RxState::Held | RxState::Dead) | None => {}
            }
        }
    }
}
