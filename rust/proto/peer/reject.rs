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

/// What to believe about the peer for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lesson {
    /// Version that the peer speaks.
    pub(super) version: Version,
    /// Incarnation of the peer, or [`Stamp::UNKNOWN`] when the reject did not say.
    pub(super) stamp: Stamp,
}

/// What a reject means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Nobody listens there: not retried, so that a dead node fails fast.
    NoListener,
    /// The peer refuses; asking again would not help.
    Final,
    /// The peer connects to us at the same time and has the right of way.
    Race(Lesson),
    /// Another attempt may succeed, with this lesson.
    Retry(Lesson),
    /// Another attempt may succeed, with this lesson and this lower offer.
    Lower(Lesson, Offer),
}

/// Reads a CM reject with reason `cm_reason` and private data `private`, received by an attempt
/// of `version` that proposed `offer`.
pub(super) fn meaning(cm_reason: i32, private: &[u8], version: Version, offer: Offer) -> Meaning {
    match cm_reason {
        CM_REJ_INVALID_SERVICE_ID => Meaning::NoListener,
        CM_REJ_STALE_CONN => Meaning::Retry(Lesson {
            version: Version::V2,
            stamp: Stamp::UNKNOWN,
        }),
        CM_REJ_CONSUMER_DEFINED => match Reject::parse(private) {
            Ok(reject) => consumer(&reject, version, offer),
            Err(_) => Meaning::Final,
        },
        _ => Meaning::Final,
    }
}

fn consumer(reject: &Reject, version: Version, offer: Offer) -> Meaning {
    let Some(theirs) = Version::from_wire(reject.version) else {
        return Meaning::Final;
    };
    let lesson = Lesson {
        version: theirs,
        stamp: reject.stamp,
    };
    // The limits in a reject are hints: a zero or a higher one is no hint.
    let lower =
        |hint: fn(&ConnParams) -> u16, asked: u16, lowered: fn(Offer, u16) -> Offer| match reject
            .params
            .as_ref()
            .map(hint)
        {
            Some(hint) if hint > 0 && hint < asked => Meaning::Lower(lesson, lowered(offer, hint)),
            Some(_) | None => Meaning::Final,
        };
    match reject.why {
        RejectReason::ConnRace => Meaning::Race(lesson),
        RejectReason::ConnStale | RejectReason::ConnUncompat => Meaning::Retry(lesson),
        // How a version 1 peer answers a version 2 request (section 14.6).
        RejectReason::Fatal if theirs == Version::V1 && version == Version::V2 => {
            Meaning::Retry(lesson)
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
        | RejectReason::Unknown(_) => Meaning::Final,
    }
}
