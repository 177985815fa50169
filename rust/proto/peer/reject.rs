// SPDX-License-Identifier: GPL-2.0

//! What a rejected connection request means to the side that made it (sections 14.5 and 14.6).

use crate::wire::{
    ConnParams,
    Reject,
    RejectReason,
    Stamp,
    Version, //
};

/// CM reject reason "invalid service id": nobody listens (IBTA numbering, `IB_CM_REJ_*`).
pub const CM_REJ_INVALID_SERVICE_ID: i32 = 8;
/// CM reject reason "stale connection".
pub const CM_REJ_STALE_CONN: i32 = 10;
/// CM reject reason "consumer defined": the private data is a reject of this protocol.
pub const CM_REJ_CONSUMER_DEFINED: i32 = 28;

/// What an attempt proposed, or may propose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Credit-consuming messages in flight in each direction.
    pub queue_depth: u16,
    /// Fragments of a transfer.
    pub max_frags: u16,
}

impl Offer {
    /// The lower of both in each part.
    pub(super) fn min(self, other: Self) -> Self {
        Self {
            queue_depth: self.queue_depth.min(other.queue_depth),
            max_frags: self.max_frags.min(other.max_frags),
        }
    }
}

/// What a reject tells about the peer, for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerHint {
    /// Version that the peer speaks.
    pub(super) version: Version,
    /// Incarnation of the peer, or [`Stamp::UNKNOWN`] when the reject did not say.
    pub(super) stamp: Stamp,
}

/// What a reject means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RejectMeaning {
    /// There is no listener: not retried, so that messages to a dead node fail fast.
    NoListener,
    /// The peer refuses, and a retry would not help.
    Final,
    /// The peer connects to us at the same time and has the right of way.
    Race(PeerHint),
    /// Another attempt may succeed, with this hint.
    Retry(PeerHint),
    /// Another attempt may succeed, with this hint and this lower offer.
    Lower(PeerHint, Offer),
}

/// Reads a CM reject with reason `cm_reason` and private data `private`, received by an attempt
/// of `version` that proposed `offer`.
pub(super) fn reject_meaning(
    cm_reason: i32,
    private: &[u8],
    version: Version,
    offer: Offer,
) -> RejectMeaning {
    match cm_reason {
        CM_REJ_INVALID_SERVICE_ID => RejectMeaning::NoListener,
        CM_REJ_STALE_CONN => RejectMeaning::Retry(PeerHint {
            version: Version::V2,
            stamp: Stamp::UNKNOWN,
        }),
        CM_REJ_CONSUMER_DEFINED => match Reject::parse(private) {
            Ok(reject) => consumer(&reject, version, offer),
            Err(_) => RejectMeaning::Final,
        },
        _ => RejectMeaning::Final,
    }
}

fn consumer(reject: &Reject, version: Version, offer: Offer) -> RejectMeaning {
    let Some(theirs) = Version::from_wire(reject.version) else {
        return RejectMeaning::Final;
    };
    let hint = PeerHint {
        version: theirs,
        stamp: reject.stamp,
    };
    // The limits in a reject are hints: a zero or a higher one is no hint.
    let lower =
        |of: fn(&ConnParams) -> u16, asked: u16, lowered: fn(Offer, u16) -> Offer| match reject
            .params
            .as_ref()
            .map(of)
        {
            Some(limit) if limit > 0 && limit < asked => {
                RejectMeaning::Lower(hint, lowered(offer, limit))
            }
            Some(_) | None => RejectMeaning::Final,
        };
    match reject.why {
        RejectReason::ConnRace => RejectMeaning::Race(hint),
        RejectReason::ConnStale | RejectReason::ConnUncompat => RejectMeaning::Retry(hint),
        // How a version 1 peer answers a version 2 request (section 14.6).
        RejectReason::Fatal if theirs == Version::V1 && version == Version::V2 => {
            RejectMeaning::Retry(hint)
        }
        RejectReason::MsgQueueSize => lower(
            |params| params.queue_depth,
            offer.queue_depth,
            |offer, queue_depth| Offer {
                queue_depth,
                ..offer
            },
        ),
        RejectReason::RdmaFrags => lower(
            |params| params.max_frags,
            offer.max_frags,
            |offer, max_frags| Offer { max_frags, ..offer },
        ),
        RejectReason::Fatal
        | RejectReason::NoResources
        | RejectReason::InvalidSrvId
        | RejectReason::Early
        | RejectReason::Unknown(_) => RejectMeaning::Final,
    }
}
