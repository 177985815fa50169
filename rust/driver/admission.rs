// SPDX-License-Identifier: GPL-2.0

//! Admission limits: of connection requests (protocol.md section 14.3), and of requests of peers
//! that need a transmit descriptor.

use crate::{
    proto::passive::{
        admit,
        screen,
        ConnReq,
        NiInfo,
        Refusal,
        RefuseCause,
        Target, //
    },
    wire::{
        Nid,
        Reject,
        RejectReason, //
    },
};

/// Connections, of all peers together, that may be accepted and not established. Each has a QP, a
/// CQ and receive buffers until the connect timeout, for a requester that has sent one packet. An
/// honest requester answers within a round trip, so few wait at a time even when all clients of a
/// server connect at once. A refused requester retries.
pub const MAX_PENDING: u64 = 1024;

/// As [`MAX_PENDING`], of one peer, so that no node uses up what is there for all. The
/// configuration that comes with Lustre starts up to 4 connections per peer together.
pub const MAX_PENDING_OF_PEER: u32 = 32;

/// Descriptors that may serve requests of peers at a time, as a multiple of what their pool keeps.
///
/// LNet limits what it sends itself, for which `ntx` is made. Requests of peers are limited only by
/// the queue depth of each connection, and there can be any number of connections. A few times
/// `ntx` leaves room for bursts and bounds what peers can make this node allocate.
pub const MAX_SERVED: u32 = 4;

/// Whether one more connection may be accepted while `pending`, of all peers, are not established.
pub const fn has_room(pending: u64) -> bool {
    pending < MAX_PENDING
}

/// Whether one more connection of a peer may be accepted while `pending` of it are not established.
pub const fn peer_has_room(pending: u32) -> bool {
    pending < MAX_PENDING_OF_PEER
}

/// Whether one more request of a peer may be served while `served` descriptors serve requests, from
/// a pool that keeps `kept`.
pub const fn may_serve(served: u32, kept: u32) -> bool {
    served < kept.saturating_mul(MAX_SERVED)
}

/// A connection request as the CM hands it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Its private data.
    pub private: &'a [u8],
    /// IPv4 address of the requester, host order.
    pub addr: Option<u32>,
    /// Port of the requester, host order.
    pub port: u16,
    /// `require_privileged_port`.
    pub privileged: bool,
}

/// An NI as a connection request to its NID finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// NID, incarnation and queue depth.
    pub info: NiInfo,
    /// The request arrived at the listener of the NI's address.
    pub on_listener: bool,
    /// It has started and is not being shut down.
    pub in_service: bool,
}

/// Steps 1 to 10 of section 14.3: everything that needs no peer.
///
/// `readable` is called when the request is a message that can be read, `find` looks for the NI
/// with a NID and says how it was found, `complete` says whether [`is_complete`] holds for the NIs
/// of the listener. The result has the NI and the request.
///
/// # Errors
///
/// The [`Refusal`] to answer with.
pub fn judge<N>(
    request: &Request<'_>,
    readable: impl FnOnce(),
    find: impl FnOnce(Nid) -> Option<(N, Found)>,
    complete: impl FnOnce() -> bool,
) -> Result<(N, ConnReq), Refusal> {
    let screened = screen(request.private, request.port, request.privileged)?;
    readable();
    let screened = screened.verify_source(request.addr)?;
    let nid = screened.dst();
    match find(nid) {
        Some((ni, found)) => Ok((ni, admit(&screened, target(&found))?)),
        None => {
            let target = if complete() {
                Target::Unknown
            } else {
                Target::NotReady
            };
            // There is no NI to accept it.
            let hopeless = Refusal {
                reject: Reject::anonymous(RejectReason::Fatal),
                cause: RefuseCause::NoNi { nid },
            };
            Err(admit(&screened, target).err().unwrap_or(hopeless))
        }
    }
}

fn target(found: &Found) -> Target<'_> {
    match (found.on_listener, found.in_service) {
        (false, _) => Target::WrongDevice(&found.info),
        (true, true) => Target::Ni(&found.info),
        (true, false) => Target::NotReady,
    }
}

/// Whether a listener's NIs, of which `in_service` says whether each is in service, are complete: a
/// request for a NID that none of them has is hopeless. It is not while one starts or stops, nor
/// before the first.
pub fn is_complete(in_service: impl Iterator<Item = bool>) -> bool {
    let mut in_service = in_service.peekable();
    in_service.peek().is_some() && in_service.all(|it| it)
}

/// The refusal by the NI `ni` of a request for which there is no memory, no queue pair, or, when
/// `pending`, no room among those that are not established.
pub const fn no_resources(ni: &NiInfo, req: &ConnReq, pending: bool) -> Refusal {
    Refusal {
        reject: ni.reject(req.version, RejectReason::NoResources),
        cause: if pending {
            RefuseCause::TooManyPending
        } else {
            RefuseCause::NoResources
        },
    }
}

/// The kinds of refusals that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// Not a legal CONNREQ, or not for us.
    Bad,
    /// From a port that is not privileged.
    Port,
    /// With the NID of another node.
    Forged,
    /// Before the NI was in service.
    Early,
    /// Means another incarnation, of us or of the requester.
    Stale,
    /// Crosses a request of ours, which goes on.
    Race,
    /// Too many accepted connections are not established.
    Pending,
    /// No memory or no queue pair.
    NoResources,
}

impl From<&RefuseCause> for RefusalKind {
    fn from(cause: &RefuseCause) -> Self {
        match cause {
            RefuseCause::Forged { .. } => Self::Forged,
            RefuseCause::Port { .. } => Self::Port,
            RefuseCause::NotReady { .. } => Self::Early,
            RefuseCause::TooManyPending => Self::Pending,
            RefuseCause::NoResources => Self::NoResources,
            RefuseCause::StaleDst { .. } | RefuseCause::StaleSrc { .. } => Self::Stale,
            RefuseCause::Race => Self::Race,
            RefuseCause::Parse(_)
            | RefuseCause::UnifiedMagic
            | RefuseCause::NoNi { .. }
            | RefuseCause::WrongDevice { .. }
            | RefuseCause::NotConnReq { .. }
            | RefuseCause::ZeroParams
            | RefuseCause::QueueDepth { .. }
            | RefuseCause::Frags { .. }
            | RefuseCause::MsgSize { .. } => Self::Bad,
        }
    }
}
