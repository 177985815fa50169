// SPDX-License-Identifier: GPL-2.0

//! How long to wait between attempts, and which of two crossing connection requests gives way.

use crate::proto::{
    Instant,
    Span, //
};
use crate::wire::Nid;

/// Consecutive retries that are made at once; later ones are delayed.
const IMMEDIATE_RETRIES: u16 = 10;

/// Races that a peer loses before we give way to it (section 14.7).
pub const MAX_RACES: u8 = 20;

/// Delay of the first delayed retry.
const FIRST_DELAY: Span = Span::from_secs(1);
/// What each further retry adds.
const DELAY_STEP: Span = Span::from_millis(100);
/// The longest delay.
const MAX_DELAY: Span = Span::from_secs(5);
/// What the node with the higher NID adds, so that two nodes that reject each other in step
/// (they may disagree on the rule of [`TieBreak`]) fall out of step.
const SKEW: Span = Span::from_millis(250);

/// Which connection request gives way when both nodes connect at the same time (section 14.7).
///
/// Two nodes that use different rules may both reject, or both accept. Both cases end. In the
/// first, each is told by the other that it loses; we believe that and reject no more. (The
/// reference rejects up to [`MAX_RACES`] times; against one that does so longer, the skew of
/// [`retry_at`] helps.) The second makes two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieBreak {
    /// The lower [`Nid::race_hash`], as in releases 2.16 and later.
    Hash,
    /// The lower number, as in releases before 2.16.
    #[cfg(feature = "tests")]
    Numeric,
}

impl TieBreak {
    /// Whether a request from `requester` to `local` gives way to one from `local`.
    pub fn gives_way(self, requester: Nid, local: Nid) -> bool {
        match self {
            Self::Hash => requester.race_hash() < local.race_hash(),
            #[cfg(feature = "tests")]
            Self::Numeric => requester < local,
        }
    }
}

/// When retry number `retries` (the first is 0) may start: at once for the first
/// [`IMMEDIATE_RETRIES`], then a second after its predecessor failed and a little more each time,
/// at most five seconds.
pub(super) fn retry_at(now: Instant, retries: u16, local: Nid, peer: Nid) -> Instant {
    let Some(late) = retries.checked_sub(IMMEDIATE_RETRIES) else {
        return now;
    };
    let delay = FIRST_DELAY
        .plus(DELAY_STEP.times(u64::from(late)))
        .min(MAX_DELAY);
    let skew = if local > peer { SKEW } else { Span::ZERO };
    now.after(delay.plus(skew))
}
