// SPDX-License-Identifier: GPL-2.0

//! Credits of a connection (protocol.md section 12).
//!
//! # The life of a credit
//!
//! A credit stands for one receive that is posted here and that the peer may use for a message of
//! its own accord: IMMEDIATE, PUT_REQ, GET_REQ, and in version 1 a NOOP. There are `depth` of them
//! in each direction as long as the connection is established. Seen from the node that owns the
//! receive, a credit is always in one of these places:
//!
//! 1. **With the peer** (`granted`): all of them at first. The peer counts the same ones in its
//!    `held`.
//! 2. **In use.** The peer sends a message with it ([`Credits::take`] there); when it arrives, it
//!    leaves `granted` ([`Credits::consume`]). Without one the message breaks the protocol, for it
//!    lies in a receive that was meant for something else. The buffer is now LNet's or an
//!    operation's (`RxState::Held`, `RxState::Lent`), for as long as LNet takes.
//! 3. **About to be posted.** Whoever ends with the buffer says what its next posting is for
//!    (`Grant`), and [`Conn::posted`](super::Conn::posted) acts on it once the receive *has* been
//!    posted: before that, the peer must not be told.
//! 4. **Owed** (`outstanding`): the receive is posted, the peer does not know ([`Credits::owe`]).
//! 5. **On its way**: the next message of any kind carries all that is owed in its header
//!    ([`Credits::announce`]), and they count as the peer's from then on. If nothing is to be sent
//!    and `Limits::hiw` are owed, a NOOP is. The peer adds them to `held` ([`Credits::give`])
//!    before it looks at the message's type.
//!
//! Which posting returns the credit depends on what the message was for:
//!
//! - IMMEDIATE and GET_REQ: the next posting of their buffer.
//! - PUT_REQ that is answered with PUT_NAK: likewise.
//! - PUT_REQ that is answered with PUT_ACK: its buffer is posted again for the PUT_DONE, which
//!   needs no credit of its own, and the peer is granted nothing. The credit returns with the
//!   buffer in which the PUT_DONE came, and not before the LOCAL_INV of its sink has completed: so
//!   a peer that keeps to its credits has at most `depth` sinks here.
//!
//! Answers (PUT_ACK, PUT_NAK, PUT_DONE, GET_DONE) and the NOOPs of version 2 need no credit, for
//! there are receives for them: whoever sends a PUT_REQ or GET_REQ first sets one of its own
//! receives aside ([`Credits::reserve`]), and frees it when the answer's buffer has been posted
//! again ([`Credits::unreserve`]); two more are for NOOPs. In version 1 a NOOP uses a credit, so
//! the last one is kept for it; without that both sides could owe each other everything and have
//! no means to say so.

/// The counters of one connection.
///
/// # Invariants
///
/// `held`, `reserved` and `granted + outstanding` are at most `depth`, which is 1 to 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Credits {
    depth: u16,
    /// Receives of the peer that we may use for credit-consuming messages.
    held: u16,
    /// Our reposted receives that the peer has not been told of.
    outstanding: u16,
    /// Our receives that are set aside for answers to our own requests.
    reserved: u16,
    /// Credits that the peer holds, or that are on their way to it.
    granted: u16,
}

impl Credits {
    pub(super) const fn new(depth: u16) -> Self {
        Self {
            depth,
            held: depth,
            outstanding: 0,
            reserved: depth,
            granted: depth,
        }
    }

    pub(super) const fn held(&self) -> u16 {
        self.held
    }

    pub(super) const fn outstanding(&self) -> u16 {
        self.outstanding
    }

    pub(super) const fn reserved(&self) -> u16 {
        self.reserved
    }

    pub(super) const fn granted(&self) -> u16 {
        self.granted
    }

    /// Takes one of the peer's receives. `false` when there is none.
    pub(super) fn take(&mut self) -> bool {
        take_one(&mut self.held)
    }

    /// The peer gave `n` back. `false` when that is more than it can have.
    pub(super) fn give(&mut self, n: u8) -> bool {
        match self.held.checked_add(u16::from(n)) {
            Some(held) if held <= self.depth => {
                self.held = held;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Sets one receive aside for an answer. `false` when there is none.
    pub(super) fn reserve(&mut self) -> bool {
        take_one(&mut self.reserved)
    }

    /// A receive set aside has been posted again. `false` when that is one too many.
    pub(super) fn unreserve(&mut self) -> bool {
        add_one(&mut self.reserved, self.depth)
    }

    /// The peer used a receive of ours. `false` when it had no credit for it.
    pub(super) fn consume(&mut self) -> bool {
        take_one(&mut self.granted)
    }

    /// A receive that the peer had used has been posted again. `false` when that is one too many.
    pub(super) fn owe(&mut self) -> bool {
        let unused = self.depth.saturating_sub(self.granted);
        add_one(&mut self.outstanding, unused)
    }

    /// All owed credits, to be carried by a message that is posted now.
    pub(super) fn announce(&mut self) -> u8 {
        // The depth is at most 255, so nothing is left behind.
        let n = u8::try_from(self.outstanding).unwrap_or(u8::MAX);
        self.outstanding = self.outstanding.saturating_sub(u16::from(n));
        self.granted = self.granted.saturating_add(u16::from(n));
        n
    }
}

fn take_one(counter: &mut u16) -> bool {
    match counter.checked_sub(1) {
        Some(rest) => {
            *counter = rest;
            true
        }
        None => false,
    }
}

fn add_one(counter: &mut u16, max: u16) -> bool {
    let room = *counter < max;
    if room {
        *counter = counter.saturating_add(1);
    }
    room
}
