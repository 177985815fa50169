// SPDX-License-Identifier: GPL-2.0

//! One slot for connection attempts. The attempts of a slot follow one another: the next may start
//! only when the resources of the one before were released.

use super::{
    AttemptId,
    ConnId,
    Offer, //
};
use crate::proto::{
    Cause,
    Instant, //
};
use crate::wire::Version;

/// An event of an attempt.
///
/// The driver reports what it did and what the CM said; which of several outcomes counts is
/// decided here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEvent<'a> {
    /// CM: ADDR_RESOLVED with status 0.
    AddrResolved,
    /// CM: ROUTE_RESOLVED with status 0.
    RouteResolved,
    /// `rdma_connect` was called and succeeded: the CONNREQ is on its way.
    Connecting,
    /// CM: ADDR_ERROR.
    AddrError,
    /// CM: ROUTE_ERROR.
    RouteError,
    /// Creating the id, a resolve call or `rdma_connect` failed, or ADDR_RESOLVED or
    /// ROUTE_RESOLVED came with a status: errno of either sign.
    CallFailed(i32),
    /// CQ, QP, buffers or limits could not be made: errno of either sign.
    CreateFailed(i32),
    /// The device cannot serve what was offered; the queues are this deep, and the CONNREQ says so.
    LimitsLowered(Offer),
    /// CM: ESTABLISHED. The connection has this name from now on; its engine checks the CONNACK.
    Connected(ConnId),
    /// CM: REJECTED.
    Rejected {
        /// The event's status, in the numbering of the IB CM. A driver of another kind of device
        /// translates: "consumer defined" is 28.
        cm_reason: i32,
        /// The event's private data, of any length.
        private: &'a [u8],
    },
    /// CM: UNREACHABLE.
    Unreachable,
    /// CM: CONNECT_ERROR.
    ConnectError,
    /// CM: DISCONNECTED.
    Disconnected,
    /// The device is being removed.
    DeviceGone,
    /// Id, QP and CQ of the attempt are gone: a retry may start.
    Released,
}

/// How far an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AttemptPhase {
    /// Resolving the address.
    Addr,
    /// Resolving the route.
    Route,
    /// Making CQ, QP and buffers.
    Create,
    /// The CONNREQ is on its way.
    Connect,
}

/// A planned attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retry {
    /// Not before this.
    pub(super) at: Instant,
    /// Why the one before failed.
    pub(super) cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptState {
    /// No attempt, no resources.
    Free,
    /// No resources; waiting to start.
    Delayed(Retry),
    /// To be started by the driver, which does not know it yet.
    Starting {
        /// When its first phase is given up.
        deadline: Instant,
    },
    /// The driver works on it. The outcome is open.
    Active {
        phase: AttemptPhase,
        deadline: Instant,
    },
    /// The outcome was claimed by ESTABLISHED; the connection's engine checks the CONNACK.
    Opening { conn: ConnId, deadline: Instant },
    /// The outcome was claimed by a failure; resources are being released.
    Dying {
        /// The driver has not been told yet.
        abort: Option<Cause>,
        /// The resources are this connection's.
        conn: Option<ConnId>,
        retry: Option<Retry>,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) state: AttemptState,
    pub(super) version: Version,
    pub(super) offer: Offer,
    gen: u32,
}

/// Slots per peer are fewer than this.
const SLOT_BITS: u32 = 8;

impl Attempt {
    pub(super) const fn new(offer: Offer) -> Self {
        Self {
            state: AttemptState::Free,
            version: Version::V2,
            offer,
            gen: 0,
        }
    }

    /// Makes the slot ready to start a new attempt, which gets an id of its own.
    pub(super) fn start(&mut self, version: Version, offer: Offer, deadline: Instant) {
        self.gen = self.gen.wrapping_add(1);
        self.version = version;
        self.offer = offer;
        self.state = AttemptState::Starting { deadline };
    }

    /// The id of the present attempt; `slot` is the number of the slot.
    pub(super) fn id(&self, slot: u8) -> AttemptId {
        AttemptId(self.gen.wrapping_shl(SLOT_BITS) | u32::from(slot))
    }

    /// The slot that an id names.
    pub(super) const fn slot(id: AttemptId) -> u8 {
        id.0.to_le_bytes()[0]
    }

    /// Whether the outcome is open, or the connection is being opened (section 14.1's
    /// `connecting`).
    pub(super) const fn is_connecting(&self) -> bool {
        match self.state {
            AttemptState::Starting { .. }
            | AttemptState::Active { .. }
            | AttemptState::Opening { .. } => true,
            AttemptState::Free | AttemptState::Delayed(_) | AttemptState::Dying { .. } => false,
        }
    }

    /// Whether this slot will lead to a connection, or to the failure of the waiting messages.
    pub(super) const fn is_in_progress(&self) -> bool {
        match self.state {
            AttemptState::Starting { .. }
            | AttemptState::Active { .. }
            | AttemptState::Opening { .. }
            | AttemptState::Delayed(_) => true,
            AttemptState::Dying { retry, .. } => retry.is_some(),
            AttemptState::Free => false,
        }
    }
}

/// What to do about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptStep<'a> {
    /// Nothing: the outcome was claimed before, or the event is of another attempt.
    Late,
    /// The attempt has come to this phase.
    AttemptPhase(AttemptPhase),
    /// It offers less than planned.
    Lowered(Offer),
    /// ESTABLISHED claims the outcome.
    Connected(ConnId),
    /// A failure claims the outcome.
    Failed(Cause),
    /// A reject claims the outcome.
    Rejected { cm_reason: i32, private: &'a [u8] },
    /// The driver released it without saying why.
    Lost,
    /// The resources of a failed attempt are gone.
    Released,
}

/// A failed call with `errno`, as a cause: those that say something of the network are not blamed
/// on this node (section 17.1, LU-13571).
fn call_failed(errno: i32) -> Cause {
    use crate::proto::errno::*;
    match errno.checked_abs() {
        Some(EHOSTUNREACH) => Cause::Unreachable,
        Some(ETIMEDOUT) => Cause::ConnectTimeout,
        Some(ECONNREFUSED) => Cause::Rejected,
        Some(_) | None => Cause::ConnectFailed(errno),
    }
}

/// The table: every state with every event.
pub(super) fn step<'a>(state: &AttemptState, event: AttemptEvent<'a>) -> AttemptStep<'a> {
    match state {
        // The driver does not know an attempt before it is started.
        AttemptState::Free | AttemptState::Delayed(_) | AttemptState::Starting { .. } => {
            AttemptStep::Late
        }
        AttemptState::Active { phase, .. } => step_active(*phase, event),
        AttemptState::Opening { .. } => after_claim(event, AttemptStep::Lost),
        AttemptState::Dying { .. } => after_claim(event, AttemptStep::Released),
    }
}

/// The outcome was claimed before: only the end of the resources matters, which is `released`.
const fn after_claim<'a>(event: AttemptEvent<'a>, released: AttemptStep<'a>) -> AttemptStep<'a> {
    match event {
        AttemptEvent::AddrResolved
        | AttemptEvent::RouteResolved
        | AttemptEvent::Connecting
        | AttemptEvent::AddrError
        | AttemptEvent::RouteError
        | AttemptEvent::CallFailed(_)
        | AttemptEvent::CreateFailed(_)
        | AttemptEvent::LimitsLowered(_)
        | AttemptEvent::Connected(_)
        | AttemptEvent::Rejected { .. }
        | AttemptEvent::Unreachable
        | AttemptEvent::ConnectError
        | AttemptEvent::Disconnected
        | AttemptEvent::DeviceGone => AttemptStep::Late,
        AttemptEvent::Released => released,
    }
}

fn step_active(phase: AttemptPhase, event: AttemptEvent<'_>) -> AttemptStep<'_> {
    use crate::proto::errno::{
        ECONNRESET,
        ENOTCONN, //
    };
    // Phases only go forward; an event of an earlier one is a repetition.
    let forward = |to: AttemptPhase| {
        if to > phase {
            AttemptStep::AttemptPhase(to)
        } else {
            AttemptStep::Late
        }
    };
    match event {
        AttemptEvent::AddrResolved => forward(AttemptPhase::Route),
        AttemptEvent::RouteResolved => forward(AttemptPhase::Create),
        AttemptEvent::Connecting => forward(AttemptPhase::Connect),
        AttemptEvent::AddrError | AttemptEvent::RouteError => {
            AttemptStep::Failed(Cause::Unreachable)
        }
        AttemptEvent::CallFailed(errno) => AttemptStep::Failed(call_failed(errno)),
        AttemptEvent::CreateFailed(errno) => AttemptStep::Failed(Cause::ConnectFailed(errno)),
        AttemptEvent::LimitsLowered(offer) => AttemptStep::Lowered(offer),
        AttemptEvent::Connected(conn) => AttemptStep::Connected(conn),
        AttemptEvent::Rejected { cm_reason, private } => {
            AttemptStep::Rejected { cm_reason, private }
        }
        AttemptEvent::Unreachable => AttemptStep::Failed(Cause::ConnectTimeout),
        AttemptEvent::ConnectError => AttemptStep::Failed(Cause::ConnectFailed(ENOTCONN)),
        AttemptEvent::Disconnected => AttemptStep::Failed(Cause::ConnectFailed(ECONNRESET)),
        AttemptEvent::DeviceGone => AttemptStep::Failed(Cause::DeviceGone),
        AttemptEvent::Released => AttemptStep::Lost,
    }
}

/// Why an attempt fails that stays in `phase` beyond its deadline.
pub(super) const fn timed_out(phase: AttemptPhase) -> Cause {
    match phase {
        AttemptPhase::Addr | AttemptPhase::Route => Cause::Unreachable,
        AttemptPhase::Create | AttemptPhase::Connect => Cause::ConnectTimeout,
    }
}
