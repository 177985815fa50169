// SPDX-License-Identifier: GPL-2.0

//! Identifiers in the interface between the engines and the driver.

/// A receive buffer of a connection: an index below [`Limits::rx_slots`](super::Limits::rx_slots).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RxId(pub u16);

/// A buffer for a message to be sent: an index below
/// [`Limits::send_slots`](super::Limits::send_slots).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotId(pub u16);

/// An operation of a connection. The generation tells apart those that use one slot in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId {
    /// Slot, below [`Limits::ops`](super::Limits::ops).
    pub idx: u16,
    /// How often the slot had been used before.
    pub gen: u16,
}

/// A connection of a peer, as the driver numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// A connection attempt of a peer, as the peer engine numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub u32);

/// The id that a work request is posted with and that its completion brings back.
///
/// | bits | content |
/// |---|---|
/// | 63..60 | kind: 1 receive, 2 send queue, 3 and 4 the sentinels; 0 and others are invalid |
/// | 59 | send queue: last work request of its posting |
/// | 58..56 | 0 |
/// | 55..0 | receive: generation << 16, buffer; send queue: number of the posting; sentinels: 0 |
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct WrId(u64);

/// What a [`WrId`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WrKind {
    /// A receive.
    Recv {
        /// Its buffer.
        rx: RxId,
        /// How often the buffer had been posted before, modulo 2^40.
        gen: u64,
    },
    /// A work request on the send queue.
    Send {
        /// Number of the posting (a chain made from one
        /// [`Post`](super::conn::Post)), modulo 2^56.
        seq: u64,
        /// Whether it is the last one of the posting.
        last: bool,
    },
    /// The sentinel on the send queue.
    SentinelSq,
    /// The sentinel on the receive queue.
    SentinelRq,
}

const KIND_SHIFT: u32 = 60;
const KIND_RECV: u64 = 1;
const KIND_SEND: u64 = 2;
const KIND_SENTINEL_SQ: u64 = 3;
const KIND_SENTINEL_RQ: u64 = 4;
const LAST: u64 = 1 << 59;
const SPARE: u64 = 7 << 56;
const GEN_SHIFT: u32 = 16;

/// Postings on a send queue are numbered modulo this.
pub(super) const SEQ_MASK: u64 = (1 << 56) - 1;
/// Generations of a receive buffer are counted modulo this.
pub(super) const GEN_MASK: u64 = (1 << 40) - 1;

impl WrId {
    /// The id of a receive into `rx`.
    pub const fn recv(rx: RxId, gen: u64) -> Self {
        Self(KIND_RECV << KIND_SHIFT | (gen & GEN_MASK) << GEN_SHIFT | rx.0 as u64)
    }

    /// The id of the last work request of posting `seq`.
    pub const fn send(seq: u64) -> Self {
        Self(KIND_SEND << KIND_SHIFT | LAST | (seq & SEQ_MASK))
    }

    /// The id of the sentinel on the send queue.
    pub const SENTINEL_SQ: Self = Self(KIND_SENTINEL_SQ << KIND_SHIFT);
    /// The id of the sentinel on the receive queue.
    pub const SENTINEL_RQ: Self = Self(KIND_SENTINEL_RQ << KIND_SHIFT);

    /// The id for the work requests of the same posting that are not its last one.
    pub const fn not_last(self) -> Self {
        Self(self.0 & !LAST)
    }

    /// The number to post a work request with.
    pub const fn to_raw(self) -> u64 {
        self.0
    }

    /// Reads the number that a completion brought. `None` when it is none of ours; zero never is.
    pub const fn from_raw(raw: u64) -> Option<Self> {
        let body = raw & SEQ_MASK;
        let last = raw & LAST != 0;
        let legal = match raw >> KIND_SHIFT {
            KIND_RECV => !last,
            KIND_SEND => true,
            KIND_SENTINEL_SQ | KIND_SENTINEL_RQ => !last && body == 0,
            _ => false,
        };
        if legal && raw & SPARE == 0 {
            Some(Self(raw))
        } else {
            None
        }
    }

    /// What this id says.
    pub const fn kind(self) -> WrKind {
        let body = self.0 & SEQ_MASK;
        match self.0 >> KIND_SHIFT {
            KIND_RECV => WrKind::Recv {
                rx: RxId((body & 0xffff) as u16),
                gen: body >> GEN_SHIFT,
            },
            KIND_SENTINEL_SQ => WrKind::SentinelSq,
            KIND_SENTINEL_RQ => WrKind::SentinelRq,
            // Nothing else can be constructed.
            _ => WrKind::Send {
                seq: body,
                last: self.0 & LAST != 0,
            },
        }
    }
}

impl core::fmt::Debug for WrId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.kind().fmt(f)
    }
}
