// SPDX-License-Identifier: GPL-2.0

//! Messages that wait for a connection, and those on their way out of the engine.

use super::{
    ConnId,
    PeerAction, //
};
use crate::proto::{
    slab::{
        Links,
        List,
        ListId,
        Storage, //
    },
    Done,
    Instant, //
};

/// Goes with a message that was given to a connection, and comes back if the connection turns out
/// to take no more work: the message keeps its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub(super) deadline: Instant,
    pub(super) tries: u8,
}

/// What is to happen to a message on its way out.
#[derive(Clone, Copy)]
enum Fate {
    Assign(ConnId),
    Fail(Done),
}

struct Item<T> {
    tx: Option<T>,
    ticket: Ticket,
    fate: Fate,
}

/// Slots for messages. Every used slot is on exactly one of `waiting` and `out`.
pub(super) struct MsgQueue<S: Storage, T> {
    items: S::Buf<Item<T>>,
    links: Links<S>,
    free: List,
    waiting: List,
    out: List,
    /// Not later than any deadline in `waiting`.
    soonest: Option<Instant>,
}

impl<S: Storage, T> MsgQueue<S, T> {
    pub(super) fn new(storage: &mut S, n: u16) -> Result<Self, S::Error> {
        let nothing = Ticket {
            deadline: Instant::ZERO,
            tries: 0,
        };
        let mut links = Links::new(storage, n)?;
        let mut free = List::new(ListId::new(1));
        for idx in 0..n {
            links.push_back(&mut free, idx);
        }
        Ok(Self {
            items: storage.alloc(usize::from(n), |_| Item {
                tx: None,
                ticket: nothing,
                fate: Fate::Fail(Done::OK),
            })?,
            links,
            free,
            waiting: List::new(ListId::new(2)),
            out: List::new(ListId::new(3)),
            soonest: None,
        })
    }

    fn item(&mut self, idx: u16) -> Option<&mut Item<T>> {
        self.items.as_mut().get_mut(usize::from(idx))
    }

    /// Number of messages that wait.
    pub(super) fn waiting(&self) -> u16 {
        self.waiting.len()
    }

    /// Whether there is no message at all.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.out.is_empty()
    }

    /// When [`MsgQueue::fail_expired`] has work, at the earliest.
    pub(super) fn soonest(&self) -> Option<Instant> {
        self.soonest
    }

    /// Appends a message; gives it back when there is no room.
    pub(super) fn push(&mut self, tx: T, ticket: Ticket) -> Result<(), T> {
        let Some(idx) = self.free.front() else {
            return Err(tx);
        };
        match self.item(idx) {
            Some(item) => {
                item.tx = Some(tx);
                item.ticket = ticket;
            }
            None => return Err(tx),
        }
        self.links.pop_front(&mut self.free);
        self.links.push_back(&mut self.waiting, idx);
        self.soonest = Instant::earlier(self.soonest, Some(ticket.deadline));
        Ok(())
    }

    fn send_out(&mut self, idx: u16, fate: Fate) {
        self.links.remove(&mut self.waiting, idx);
        self.links.push_back(&mut self.out, idx);
        if let Some(item) = self.item(idx) {
            item.fate = fate;
        }
    }

    fn send_all_out(&mut self, fate: Fate) {
        while let Some(idx) = self.waiting.front() {
            self.send_out(idx, fate);
        }
        self.soonest = None;
    }

    /// Gives all waiting messages to `conn`, in order.
    pub(super) fn assign_all(&mut self, conn: ConnId) {
        self.send_all_out(Fate::Assign(conn));
    }

    /// Fails all waiting messages.
    pub(super) fn fail_all(&mut self, done: Done) {
        self.send_all_out(Fate::Fail(done));
    }

    /// Fails also what is on its way to a connection.
    pub(super) fn fail_assigned(&mut self, done: Done) {
        let mut next = self.out.front();
        while let Some(idx) = next {
            next = self.links.next(idx);
            if let Some(Item {
                fate: fate @ Fate::Assign(_),
                ..
            }) = self.item(idx)
            {
                *fate = Fate::Fail(done);
            }
        }
    }

    /// Fails the messages whose deadline has passed.
    pub(super) fn fail_expired(&mut self, now: Instant, done: Done) {
        if !self.soonest.is_some_and(|at| at.passed(now)) {
            return;
        }
        self.soonest = None;
        let mut next = self.waiting.front();
        while let Some(idx) = next {
            next = self.links.next(idx);
            let deadline = self.item(idx).map(|item| item.ticket.deadline);
            if deadline.is_some_and(|at| at.passed(now)) {
                self.send_out(idx, Fate::Fail(done));
            } else {
                self.soonest = Instant::earlier(self.soonest, deadline);
            }
        }
    }

    /// Takes the next message on its way out.
    pub(super) fn pop(&mut self) -> Option<PeerAction<T>> {
        let idx = self.links.pop_front(&mut self.out)?;
        self.links.push_back(&mut self.free, idx);
        let item = self.item(idx)?;
        let ticket = item.ticket;
        let tx = item.tx.take()?;
        Some(match item.fate {
            Fate::Assign(conn) => PeerAction::Assign { conn, tx, ticket },
            Fate::Fail(done) => PeerAction::Fail { tx, done },
        })
    }
}
