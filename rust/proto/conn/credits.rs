// SPDX-License-Identifier: GPL-2.0

//! Credits of a connection (protocol.md section 12).

/// The counters of one connection.
///
/// # Invariants
///
/// Each is at most `depth`. A credit is in one place at a time: `granted` (the peer may use it),
/// `outstanding` (its receive is posted, the peer has not been told), or with the message that
/// used it; likewise `credits` and what the peer has of ours.
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
