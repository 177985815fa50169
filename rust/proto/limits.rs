// SPDX-License-Identifier: GPL-2.0

//! The sizes of a connection.
//!
//! All sizes of a connection - queues, buffers, thresholds - are in one [`Limits`], so that nothing
//! is allocated by one number and used by another.

use super::time::Span;
use crate::wire::{
    ConnParams,
    Version,
    MAX_FRAGS,
    MSG_SIZE,
    V1_CREDIT_HIGH_WATER,
    V1_QUEUE_DEPTH, //
};

/// Deepest queue of a connection: the credit field is one byte.
pub const MAX_QUEUE_DEPTH: u16 = 255;
/// Most SGEs of a work request that we ask a device for.
pub const MAX_SEND_SGE: u16 = 32;
/// Fewest SGEs that we can work with: the message buffer, and the payload of an IMMEDIATE.
pub const MIN_SEND_SGE: u16 = 2;
/// Most work requests on a send queue, sentinel included. What is worth having in flight is
/// bounded by the wire, and a provider allocates the queue at once.
pub const MAX_SQ_WRS: u32 = 4096;

/// Tunables of an NI, already clamped as the C driver clamps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NiTunables {
    /// `peer_credits`: queue depth of version 2, and LNet messages in flight to a peer.
    pub peer_credits: u16,
    /// `peercredits_hiw`: owed credits at which a NOOP returns them, for a depth of
    /// `peer_credits`.
    pub credits_hiw: u16,
    /// `concurrent_sends`: SENDs posted and not completed. 0: as many as the queue is deep.
    pub concurrent_sends: u16,
    /// Fragments, which is RDMA WRITEs, of a transfer.
    pub max_frags: u16,
    /// `wrq_sge`: SGEs of a work request to ask for at least, if the device has them.
    pub wrq_sge: u16,
    /// LND timeout: deadline of everything that is queued, posted or waits for the peer.
    pub timeout: Span,
    /// Deadline of a connection that is not established yet.
    pub connect_timeout: Span,
    /// Idle time after which a NOOP is sent.
    pub keepalive: Option<Span>,
    /// `conns_per_peer`, at least 1.
    pub conns_per_peer: u8,
    /// `cksum`: checksum what we send.
    pub cksum: bool,
}

/// The tunables that act on existing connections and peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveTunables {
    /// LND timeout of everything that is queued, posted or waits for the peer.
    pub timeout: Span,
    /// Deadline of attempts to connect from now on.
    pub connect_timeout: Span,
    /// Idle time after which a NOOP is sent.
    pub keepalive: Option<Span>,
    /// Checksum what we send from now on.
    pub cksum: bool,
}

impl NiTunables {
    /// Those that may change while a connection lives.
    pub fn live(&self) -> LiveTunables {
        LiveTunables {
            timeout: self.timeout,
            connect_timeout: self.connect_timeout,
            keepalive: self.keepalive,
            cksum: self.cksum,
        }
    }
}

/// Limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCaps {
    /// Most work requests on a send or receive queue.
    pub max_qp_wr: u32,
    /// Most entries of a completion queue.
    pub max_cqe: u32,
    /// Most SGEs of a send work request.
    pub max_send_sge: u16,
    /// Most pages of a fast-registration MR.
    pub max_mr_pages: u32,
}

/// Why a connection cannot be sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitError {
    /// A queue depth that nothing can be sent with: 0; in version 1, whose NOOPs use credits, also
    /// 1 and 2.
    ZeroDepth,
    /// A fragment count of 0.
    ZeroFrags,
    /// The peer chose a deeper queue than proposed.
    DepthTooLarge {
        /// What it chose.
        found: u16,
        /// What we had proposed.
        limit: u16,
    },
    /// The peer chose more fragments than proposed.
    FragsTooLarge {
        /// What it chose.
        found: u16,
        /// What we had proposed.
        limit: u16,
    },
    /// The peer's messages are larger than ours.
    MsgTooLarge {
        /// What it sends, in bytes.
        found: u32,
    },
    /// The device cannot even serve a queue depth of 1.
    DeviceTooSmall,
}

/// The sizes and thresholds of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Version of the protocol that the connection speaks.
    pub version: Version,
    /// Credit-consuming messages in flight in each direction, 1 to 255.
    pub queue_depth: u16,
    /// RDMA WRITEs of a transfer, 1 to 257.
    pub max_frags: u16,
    /// Receive buffers: `2 * queue_depth + OOB` (section 12.5) for the depth that they were
    /// allocated for, which a CONNACK does not change.
    pub rx_slots: u16,
    /// Buffers for messages to be sent; one per SEND in flight.
    pub send_slots: u16,
    /// Size of the send queue in work requests, sentinel included.
    pub sq_wrs: u32,
    /// Size of the receive queue in work requests, sentinel included.
    pub rq_wrs: u32,
    /// Size of one completion queue for both: every request completes when it is flushed.
    pub cqe: u32,
    /// Owed credits at which a NOOP returns them: 1 to `queue_depth - 1` (LU-12569).
    pub hiw: u16,
    /// SENDs posted and not completed, at least 1.
    pub concurrent_sends: u16,
    /// Operations at a time: [`Limits::local_ops`] of ours, the rest for the peer's.
    pub ops: u16,
    /// Operations at a time that LNet started here. LNet keeps to `peer_credits` by itself.
    pub local_ops: u16,
    /// SGEs of a work request on the send queue, at least 2.
    pub max_send_sge: u16,
    /// What the sizes above were computed from, to compute them again.
    basis: Basis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Basis {
    peer_credits: u16,
    credits_hiw: u16,
    concurrent_sends: u16,
    max_qp_wr: u32,
    max_cqe: u32,
}

impl Limits {
    /// The limits of a connection that is about to be made.
    ///
    /// `propose` is a depth and a fragment count not to be exceeded: what the peer has made known
    /// (active side), or what it asks for (passive side).
    ///
    /// # Errors
    ///
    /// [`LimitError::ZeroDepth`] and [`LimitError::ZeroFrags`] for a proposal of 0,
    /// [`LimitError::DeviceTooSmall`].
    pub fn new(
        tunables: &NiTunables,
        device: &DeviceCaps,
        version: Version,
        propose: Option<(u16, u16)>,
    ) -> Result<Self, LimitError> {
        let own_depth = match version {
            Version::V1 => V1_QUEUE_DEPTH,
            Version::V2 => tunables.peer_credits.clamp(1, MAX_QUEUE_DEPTH),
        };
        let own_frags = tunables.max_frags.clamp(1, MAX_FRAGS);
        let (depth, frags) = propose.unwrap_or((own_depth, own_frags));
        if depth < min_depth(version) {
            return Err(LimitError::ZeroDepth);
        }
        if frags == 0 {
            return Err(LimitError::ZeroFrags);
        }
        let wanted_sge = MAX_SEND_SGE.max(tunables.wrq_sge);
        let sge = device.max_send_sge.min(wanted_sge);
        if sge < MIN_SEND_SGE {
            return Err(LimitError::DeviceTooSmall);
        }
        let basis = Basis {
            peer_credits: tunables.peer_credits.max(1),
            credits_hiw: tunables.credits_hiw,
            concurrent_sends: tunables.concurrent_sends,
            max_qp_wr: device.max_qp_wr,
            max_cqe: device.max_cqe,
        };
        let size = Size {
            version,
            depth: depth.min(own_depth),
            frags: frags.min(own_frags),
            sge,
            sq_cap: MAX_SQ_WRS,
        };
        size.fit(basis)
    }

    /// The next smaller limits to try when the QP could not be created for lack of memory: the
    /// send queue down to its floor, then SGEs, then the queue depth, each by half. `None` when
    /// there is nothing left to lower.
    pub fn lowered(&self) -> Option<Self> {
        let mut size = self.size();
        let floor = sq_floor(size.depth);
        if self.sq_wrs > floor {
            size.sq_cap = (self.sq_wrs / 2).max(floor);
        } else if self.max_send_sge > MIN_SEND_SGE {
            size.sge = (self.max_send_sge / 2).max(MIN_SEND_SGE);
        } else if size.depth > min_depth(size.version) {
            size.depth = (size.depth / 2).max(min_depth(size.version));
            size.sq_cap = sq_floor(size.depth);
        } else {
            return None;
        }
        size.fit(self.basis).ok()
    }

    /// The limits after the CONNACK: buffers and queues stay as they are, thresholds follow what
    /// was agreed.
    ///
    /// # Errors
    ///
    /// When the peer chose more than was proposed, or nothing.
    pub fn negotiated(&self, agreed: ConnParams) -> Result<Self, LimitError> {
        let ConnParams {
            queue_depth,
            max_frags,
            max_msg_size,
        } = agreed;
        if queue_depth < min_depth(self.version) {
            return Err(LimitError::ZeroDepth);
        }
        if max_frags == 0 {
            return Err(LimitError::ZeroFrags);
        }
        if queue_depth > self.queue_depth {
            return Err(LimitError::DepthTooLarge {
                found: queue_depth,
                limit: self.queue_depth,
            });
        }
        if max_frags > self.max_frags {
            return Err(LimitError::FragsTooLarge {
                found: max_frags,
                limit: self.max_frags,
            });
        }
        if max_msg_size > const { MSG_SIZE as u32 } {
            return Err(LimitError::MsgTooLarge {
                found: max_msg_size,
            });
        }
        Ok(Self {
            queue_depth,
            max_frags,
            hiw: high_water(self.version, queue_depth, &self.basis),
            ..*self
        })
    }

    /// What goes into our CONNREQ or CONNACK.
    pub const fn params(&self) -> ConnParams {
        ConnParams {
            queue_depth: self.queue_depth,
            max_frags: self.max_frags,
            max_msg_size: MSG_SIZE as u32,
        }
    }

    fn size(&self) -> Size {
        Size {
            version: self.version,
            depth: self.queue_depth,
            frags: self.max_frags,
            sge: self.max_send_sge,
            sq_cap: self.sq_wrs,
        }
    }
}

/// What the other sizes are computed from.
#[derive(Clone, Copy)]
struct Size {
    version: Version,
    depth: u16,
    frags: u16,
    sge: u16,
    sq_cap: u32,
}

impl Size {
    /// Lowers the depth until the device can serve it.
    fn fit(mut self, basis: Basis) -> Result<Limits, LimitError> {
        while self.depth >= min_depth(self.version) {
            if let Some(limits) = self.limits(basis) {
                return Ok(limits);
            }
            self.depth = self.depth.saturating_sub(1);
        }
        Err(LimitError::DeviceTooSmall)
    }

    fn limits(&self, basis: Basis) -> Option<Limits> {
        let rx_slots = self
            .depth
            .saturating_mul(2)
            .saturating_add(self.version.oob());
        let rq_wrs = u32::from(rx_slots).saturating_add(1);
        let floor = sq_floor(self.depth);
        let wanted_sends = wanted_sends(self.version, self.depth, basis.concurrent_sends);
        let sq_wrs = self
            .sq_wanted(wanted_sends)
            .min(self.sq_cap)
            .min(basis.max_qp_wr)
            .min(basis.max_cqe.saturating_sub(rq_wrs));
        if sq_wrs < floor || rq_wrs > basis.max_qp_wr {
            return None;
        }
        // REG and SEND of a sink are posted together.
        let sq_sends = u16::try_from(sq_wrs.saturating_sub(1) / 2).unwrap_or(u16::MAX);
        let concurrent_sends = wanted_sends.min(sq_sends).max(1);
        let local_ops = basis.peer_credits.saturating_mul(2).clamp(16, 4096);
        Some(Limits {
            version: self.version,
            queue_depth: self.depth,
            max_frags: self.frags,
            rx_slots,
            send_slots: concurrent_sends,
            sq_wrs,
            rq_wrs,
            cqe: sq_wrs.saturating_add(rq_wrs),
            hiw: high_water(self.version, self.depth, &basis),
            concurrent_sends,
            ops: local_ops.saturating_add(peer_ops(self.depth, concurrent_sends)),
            local_ops,
            max_send_sge: self.sge,
            basis,
        })
    }

    /// Work requests that are worth having room for:
    ///
    /// - 1 sentinel;
    /// - `2 * sends`: every SEND in flight, each with a REG in front of it;
    /// - `depth`: a LOCAL_INV for every sink that the peer can have finished at a time;
    /// - `min(sends, depth) * ceil(frags / sge)`: the WRITEs of as many transfers, of as many
    ///   pages as one can have.
    ///
    /// The C driver asks for `depth * (frags + 3)`. More fragments on the peer's side than that
    /// are served too: the engine splits a chain where the queue ends.
    fn sq_wanted(&self, sends: u16) -> u32 {
        let writes = u32::from(self.frags).div_ceil(u32::from(self.sge.max(1)));
        let transfers = u32::from(sends.min(self.depth));
        1u32.saturating_add(u32::from(sends).saturating_mul(2))
            .saturating_add(u32::from(self.depth))
            .saturating_add(transfers.saturating_mul(writes))
    }
}

/// Shallowest queue that something can be sent with. In version 1 the last credit is kept for a
/// NOOP, and a NOOP uses one: with 2, every NOOP would call for another, without end.
const fn min_depth(version: Version) -> u16 {
    match version {
        Version::V1 => 3,
        Version::V2 => 1,
    }
}

/// Fewest work requests of a send queue: the sentinel, one REG and SEND, and one more per depth.
fn sq_floor(depth: u16) -> u32 {
    u32::from(depth).saturating_add(3)
}

/// Operations that a peer which keeps to the protocol can have under way here: as many PUTs as the
/// queue is deep, because the credit of a PUT_REQ comes back when its sink has ended; as many other
/// requests that are not answered, because it sets a receive aside for each answer; answers with
/// data in flight; and as many as the queue is deep that have ended and are to be handed out.
fn peer_ops(depth: u16, concurrent_sends: u16) -> u16 {
    depth.saturating_mul(3).saturating_add(concurrent_sends)
}

fn wanted_sends(version: Version, depth: u16, option: u16) -> u16 {
    let wanted = if option == 0 { depth } else { option };
    match version {
        Version::V1 => wanted.clamp(4, 16),
        Version::V2 => wanted.max(1),
    }
}

/// Owed credits at which a NOOP returns them (section 12.3).
fn high_water(version: Version, depth: u16, basis: &Basis) -> u16 {
    let wanted = match version {
        Version::V1 => V1_CREDIT_HIGH_WATER,
        Version::V2 => {
            let scaled = u32::from(depth)
                .saturating_mul(u32::from(basis.credits_hiw))
                .checked_div(u32::from(basis.peer_credits))
                .unwrap_or(0);
            u16::try_from(scaled).unwrap_or(u16::MAX)
        }
    };
    wanted.clamp(1, depth.saturating_sub(1).max(1))
}
