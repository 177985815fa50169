// SPDX-License-Identifier: GPL-2.0

//! Screening of connection requests before a peer exists (protocol.md sections 14.3 and 14.4).
//!
//! Steps 1 to 4 need only what arrived ([`screen`]); then the driver looks for the NI that the
//! request is addressed to; steps 5 to 10 need that NI ([`admit`]). Step 12 is the peer's:
//! [`Peer::handle_connreq`](crate::proto::peer::Peer::handle_connreq). A request that is refused
//! costs nothing but its reject: nothing has been allocated for it.

use crate::wire::{
    Body,
    ConnParams,
    Header,
    Message,
    MsgType,
    Nid,
    ParseError,
    Probe,
    Reject,
    RejectReason,
    Stamp,
    Version,
    MAX_FRAGS,
    MSG_SIZE,
    V1_QUEUE_DEPTH, //
};
use core::fmt;

/// Ports below this are privileged.
const PRIVILEGED_PORTS: u16 = 1024;

/// What a connection request is measured against: one NI of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NiInfo {
    /// The NI's NID.
    pub nid: Nid,
    /// The NI's incarnation.
    pub stamp: Stamp,
    /// The NI's `peer_credits`: the deepest queue it accepts in version 2.
    pub peer_credits: u16,
}

impl NiInfo {
    /// The deepest queue that the NI accepts on a connection of `version`.
    pub const fn queue_depth(&self, version: Version) -> u16 {
        match version {
            Version::V1 => V1_QUEUE_DEPTH,
            Version::V2 => self.peer_credits,
        }
    }

    /// A reject by this NI, which tells the requester the NI's incarnation and limits.
    pub const fn reject(&self, version: Version, why: RejectReason) -> Reject {
        Reject {
            version: version.to_wire(),
            why,
            stamp: self.stamp,
            params: Some(ConnParams {
                queue_depth: self.queue_depth(version),
                max_frags: MAX_FRAGS,
                max_msg_size: MSG_SIZE as u32,
            }),
        }
    }
}

/// Why a connection request is refused. The texts are made for log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefuseCause {
    /// The source NID is not that of the node that the request came from.
    Forged {
        /// The NID that it gives.
        src: Nid,
    },
    /// The requester's port is not privileged and `require_privileged_port` is set.
    Port {
        /// The requester's port.
        port: u16,
    },
    /// The request is no message of this protocol.
    Parse(ParseError),
    /// The unified LNet magic, which nobody speaks.
    UnifiedMagic,
    /// No NI has this NID, and none is starting or stopping on the device.
    NoNi {
        /// The NID asked for.
        nid: Nid,
    },
    /// No NI has this NID yet, or not any more.
    NotReady {
        /// The NID asked for.
        nid: Nid,
    },
    /// The NI is on another device than the one that the request arrived at.
    WrongDevice {
        /// The NID asked for.
        nid: Nid,
    },
    /// The requester means an earlier incarnation of the NI.
    StaleDst {
        /// The incarnation that it means.
        found: Stamp,
    },
    /// A message that is not a CONNREQ.
    NotConnReq {
        /// Its type.
        kind: MsgType,
    },
    /// A queue depth or a number of fragments of zero.
    ZeroParams,
    /// The queue is deeper than ours.
    QueueDepth {
        /// The depth asked for.
        asked: u16,
        /// The deepest we accept.
        limit: u16,
    },
    /// More fragments than the protocol allows.
    Frags {
        /// The number asked for.
        asked: u16,
    },
    /// Larger messages than the protocol's.
    MsgSize {
        /// The size asked for, in bytes.
        asked: u32,
    },
    /// The peer has restarted, or speaks another version than before; its old connections were
    /// closed.
    StaleSrc {
        /// The incarnation that the peer has now.
        found: Stamp,
    },
    /// We are connecting to the requester, and its request gives way.
    Race,
    /// Too many accepted connections are not established yet. The requester retries.
    TooManyPending,
    /// No room for another connection of this peer, or the peer is being deleted.
    NoResources,
}

impl fmt::Display for RefuseCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forged { src } => write!(f, "NID {src} is not the requester's"),
            Self::Port { port } => write!(f, "port {port} is not privileged"),
            Self::Parse(e) => e.fmt(f),
            Self::UnifiedMagic => f.write_str("unified LNet magic"),
            Self::NoNi { nid } => write!(f, "no NI {nid}"),
            Self::NotReady { nid } => write!(f, "NI {nid} is not ready"),
            Self::WrongDevice { nid } => write!(f, "NI {nid} is on another device"),
            Self::StaleDst { found } => write!(f, "it means incarnation {found}"),
            Self::NotConnReq { kind } => write!(f, "{kind} in place of CONNREQ"),
            Self::ZeroParams => f.write_str("queue depth or fragments of zero"),
            Self::QueueDepth { asked, limit } => write!(f, "queue depth {asked}, limit {limit}"),
            Self::Frags { asked } => write!(f, "{asked} fragments, limit {MAX_FRAGS}"),
            Self::MsgSize { asked } => write!(f, "messages of {asked} bytes, limit {MSG_SIZE}"),
            Self::StaleSrc { found } => write!(f, "peer restarted, incarnation {found}"),
            Self::Race => f.write_str("connection race"),
            Self::TooManyPending => f.write_str("too many connections wait to be established"),
            Self::NoResources => f.write_str("no resources"),
        }
    }
}

/// A refused connection request: what to tell the requester, and what to tell the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Private data of the CM reject.
    pub reject: Reject,
    /// The reason in detail.
    pub cause: RefuseCause,
}

/// A connection request that is legal in form. Its NI is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screened {
    hdr: Header,
    kind: MsgType,
    params: Option<ConnParams>,
}

impl Screened {
    /// The NID that the request is addressed to.
    pub const fn dst(&self) -> Nid {
        self.hdr.dst
    }

    /// Takes the source NID for the requester's when it is on the network that is asked for and
    /// its address is `from`, the IPv4 address that the request came from.
    ///
    /// Every node connects from the address in its NID. Without this check one node could have the
    /// connections of another closed, by a request with its NID and a new incarnation, and could
    /// have any number of peers.
    ///
    /// # Errors
    ///
    /// The [`Refusal`] to answer with, FATAL.
    pub fn verify_source(self, from: Option<u32>) -> Result<Self, Refusal> {
        let src = self.hdr.src;
        if from == Some(src.addr()) && src.net() == self.hdr.dst.net() {
            return Ok(self);
        }
        Err(Refusal {
            reject: Reject::anonymous(RejectReason::Fatal),
            cause: RefuseCause::Forged { src },
        })
    }
}

/// What the driver found for [`Screened::dst`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// The NI, on the device that the request arrived at.
    Ni(&'a NiInfo),
    /// The NI, on another device.
    WrongDevice(&'a NiInfo),
    /// No NI, but there is no NI on the device yet, or one on it is not active.
    NotReady,
    /// No NI.
    Unknown,
}

/// A connection request that an NI of ours can accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnReq {
    /// The requester's NID.
    pub peer: Nid,
    /// The requester's incarnation.
    pub stamp: Stamp,
    /// Version of the request, and of the connection if it is accepted.
    pub version: Version,
    /// Queue depth proposed: 1 up to our own.
    pub queue_depth: u16,
    /// Fragments proposed: 1 up to [`MAX_FRAGS`].
    pub max_frags: u16,
}

/// Steps 1 to 4: `private` is the private data of the CONNECT_REQUEST event, `peer_port` the
/// requester's port in this machine's byte order.
///
/// # Errors
///
/// The [`Refusal`] to answer with, always FATAL.
pub fn screen(
    private: &[u8],
    peer_port: u16,
    require_privileged: bool,
) -> Result<Screened, Refusal> {
    let refuse = |cause| Refusal {
        reject: Reject::anonymous(RejectReason::Fatal),
        cause,
    };
    if require_privileged && peer_port >= PRIVILEGED_PORTS {
        return Err(refuse(RefuseCause::Port { port: peer_port }));
    }
    if let Probe::UnifiedMagic { .. } = Probe::new(private) {
        return Err(refuse(RefuseCause::UnifiedMagic));
    }
    let msg = Message::parse(private).map_err(|e| refuse(RefuseCause::Parse(e)))?;
    Ok(Screened {
        hdr: msg.hdr,
        kind: msg.kind(),
        params: match msg.body {
            Body::ConnReq(params) => Some(params),
            Body::ConnAck(_)
            | Body::Noop
            | Body::Immediate { .. }
            | Body::PutReq { .. }
            | Body::PutNak(_)
            | Body::PutAck { .. }
            | Body::PutDone(_)
            | Body::GetReq { .. }
            | Body::GetDone(_) => None,
        },
    })
}

/// Steps 5 to 10, for what the driver found at [`Screened::dst`].
///
/// # Errors
///
/// The [`Refusal`] to answer with, its contents as section 14.4 has them.
pub fn admit(screened: &Screened, target: Target<'_>) -> Result<ConnReq, Refusal> {
    let nid = screened.hdr.dst;
    let refuse = |reject, cause| Err(Refusal { reject, cause });
    let ni = match target {
        Target::Ni(ni) => ni,
        Target::WrongDevice(ni) => {
            let reject = ni.reject(Version::V2, RejectReason::Fatal);
            return refuse(reject, RefuseCause::WrongDevice { nid });
        }
        Target::NotReady => {
            return refuse(
                Reject::anonymous(RejectReason::Early),
                RefuseCause::NotReady { nid },
            )
        }
        Target::Unknown => {
            return refuse(
                Reject::anonymous(RejectReason::Fatal),
                RefuseCause::NoNi { nid },
            )
        }
    };
    let dst_stamp = screened.hdr.dst_stamp;
    if !dst_stamp.is_unknown() && dst_stamp != ni.stamp {
        let reject = ni.reject(Version::V2, RejectReason::ConnStale);
        return refuse(reject, RefuseCause::StaleDst { found: dst_stamp });
    }
    let version = screened.hdr.version;
    let (why, cause) = match check_params(screened, ni) {
        Ok(params) => {
            return Ok(ConnReq {
                peer: screened.hdr.src,
                stamp: screened.hdr.src_stamp,
                version,
                queue_depth: params.queue_depth,
                max_frags: params.max_frags,
            })
        }
        Err(refused) => refused,
    };
    // A version 1 requester cannot read the hint in a reject.
    let why = match version {
        Version::V1 => RejectReason::Fatal,
        Version::V2 => why,
    };
    refuse(ni.reject(version, why), cause)
}

/// Steps 7 to 10, and the lower bounds that the reference does not check.
fn check_params(
    screened: &Screened,
    ni: &NiInfo,
) -> Result<ConnParams, (RejectReason, RefuseCause)> {
    let Some(params) = screened.params else {
        let kind = screened.kind;
        return Err((RejectReason::Fatal, RefuseCause::NotConnReq { kind }));
    };
    if params.queue_depth == 0 || params.max_frags == 0 {
        return Err((RejectReason::Fatal, RefuseCause::ZeroParams));
    }
    let limit = ni.queue_depth(screened.hdr.version);
    if params.queue_depth > limit {
        let asked = params.queue_depth;
        let cause = RefuseCause::QueueDepth { asked, limit };
        return Err((RejectReason::MsgQueueSize, cause));
    }
    if params.max_frags > MAX_FRAGS {
        let asked = params.max_frags;
        return Err((RejectReason::RdmaFrags, RefuseCause::Frags { asked }));
    }
    if params.max_msg_size > MSG_SIZE as u32 {
        let asked = params.max_msg_size;
        return Err((RejectReason::Fatal, RefuseCause::MsgSize { asked }));
    }
    Ok(params)
}
