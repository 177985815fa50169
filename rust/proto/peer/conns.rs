// SPDX-License-Identifier: GPL-2.0

//! The connections of a peer, as far as the peer needs to know them.

use super::ConnId;
use crate::proto::{
    slab::Storage,
    Cause,
    Instant, //
};
use crate::wire::{
    Stamp,
    Version, //
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerConnState {
    /// No connection.
    Free,
    /// We accepted the peer's request and wait for ESTABLISHED.
    Accepting { deadline: Instant },
    /// Our attempt in `slot` was answered; the CONNACK is being judged.
    Opening { slot: u8 },
    /// Established: takes work.
    Up,
    /// Was established; its end has not been reported yet. Takes no work.
    Leaving,
    /// Ended, or never came up; the driver is taking it down.
    Closing,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Conn {
    pub(super) id: ConnId,
    pub(super) state: PeerConnState,
    pub(super) version: Version,
    pub(super) stamp: Stamp,
    /// The driver is to close it and has not been told yet.
    pub(super) close: Option<Cause>,
}

/// Slots for connections. Used ones are below `high`.
pub(super) struct Conns<S: Storage> {
    slots: S::Buf<Conn>,
    high: usize,
    /// Where the search for the next connection to use begins.
    cursor: usize,
}

impl<S: Storage> Conns<S> {
    pub(super) fn new(storage: &mut S, n: u16) -> Result<Self, S::Error> {
        Ok(Self {
            slots: storage.alloc(usize::from(n), |_| Conn {
                id: ConnId(0),
                state: PeerConnState::Free,
                version: Version::V2,
                stamp: Stamp::UNKNOWN,
                close: None,
            })?,
            high: 0,
            cursor: 0,
        })
    }

    /// The connections there are.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Conn> {
        let used = self.slots.as_ref().get(..self.high).unwrap_or(&[]);
        used.iter().filter(|conn| conn.state != PeerConnState::Free)
    }

    /// The connections there are.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Conn> {
        let high = self.high;
        let used = self.slots.as_mut().get_mut(..high).unwrap_or(&mut []);
        used.iter_mut()
            .filter(|conn| conn.state != PeerConnState::Free)
    }

    /// Number of slots.
    pub(super) fn capacity(&self) -> usize {
        self.slots.as_ref().len()
    }

    pub(super) fn get(&self, id: ConnId) -> Option<&Conn> {
        self.iter().find(|conn| conn.id == id)
    }

    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.iter_mut().find(|conn| conn.id == id)
    }

    /// Adds a connection. `false` when the id is in use or there is no room.
    pub(super) fn insert(&mut self, conn: Conn) -> bool {
        if self.get(conn.id).is_some() {
            return false;
        }
        let mut slots = self.slots.as_mut().iter_mut().enumerate();
        let Some((idx, slot)) = slots.find(|(_, slot)| slot.state == PeerConnState::Free) else {
            return false;
        };
        *slot = conn;
        self.high = self.high.max(idx.saturating_add(1));
        true
    }

    /// Forgets a connection.
    pub(super) fn remove(&mut self, id: ConnId) {
        if let Some(conn) = self.get_mut(id) {
            conn.state = PeerConnState::Free;
            conn.close = None;
        }
        let used = self.slots.as_ref().get(..self.high).unwrap_or(&[]);
        let last = used
            .iter()
            .rposition(|conn| conn.state != PeerConnState::Free);
        self.high = last.map_or(0, |last| last.saturating_add(1));
    }

    /// The next established connection, each in turn.
    pub(super) fn pick(&mut self) -> Option<ConnId> {
        let used = self.slots.as_ref().get(..self.high).unwrap_or(&[]);
        let from = if self.cursor < self.high {
            self.cursor
        } else {
            0
        };
        let (before, behind) = used.split_at_checked(from)?;
        let at = behind
            .iter()
            .position(|conn| conn.state == PeerConnState::Up)
            .map(|at| at.saturating_add(from))
            .or_else(|| {
                before
                    .iter()
                    .position(|conn| conn.state == PeerConnState::Up)
            })?;
        self.cursor = at.saturating_add(1);
        used.get(at).map(|conn| conn.id)
    }

    /// Takes a connection to the pending command.
    pub(super) fn take_close(&mut self) -> Option<(ConnId, Cause)> {
        self.iter_mut()
            .find_map(|conn| conn.close.take().map(|cause| (conn.id, cause)))
    }

    /// Number of connections in a state.
    pub(super) fn count(&self, is: fn(&PeerConnState) -> bool) -> usize {
        self.iter().filter(|conn| is(&conn.state)).count()
    }

    /// Whether some connection is in a state.
    pub(super) fn any(&self, is: fn(&PeerConnState) -> bool) -> bool {
        self.iter().any(|conn| is(&conn.state))
    }
}

impl PeerConnState {
    pub(super) const fn is_accepting(&self) -> bool {
        matches!(self, Self::Accepting { .. })
    }

    pub(super) const fn is_up(&self) -> bool {
        matches!(self, Self::Up)
    }

    /// Whether this was established and its end has not been reported.
    pub(super) const fn is_alive(&self) -> bool {
        matches!(self, Self::Up | Self::Leaving)
    }
}
