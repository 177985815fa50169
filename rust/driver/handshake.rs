// SPDX-License-Identifier: GPL-2.0

//! What a connection request and its answers say, and who the ends of a connection are.

use crate::{
    proto::{
        passive::{
            ConnReq,
            NiInfo, //
        },
        peer::Offer,
        Limits, //
    },
    wire::{
        emit,
        BodyOut,
        EmitError,
        Endian,
        Header,
        Identity,
        Nid,
        Reject,
        Stamp,
        Version,
        CONN_MSG_SIZE,
        REJECT_SIZE, //
    },
};

/// How messages are put on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// With a checksum.
    pub cksum: bool,
    /// In this byte order.
    pub endian: Endian,
}

/// What an attempt of ours says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The NID that it is for.
    pub peer: Nid,
    /// Version.
    pub version: Version,
    /// Queue depth and fragments not to be exceeded.
    pub offer: Offer,
    /// The incarnation of the peer that is meant.
    pub dst_stamp: Stamp,
}

impl Proposal {
    /// The ends of the connection that is requested.
    pub const fn identity(&self, ni: &NiInfo) -> Identity {
        Identity {
            peer: self.peer,
            // It comes with the CONNACK.
            peer_stamp: Stamp::UNKNOWN,
            local: ni.nid,
            local_stamp: ni.stamp,
        }
    }

    /// What the device made less than was planned, if so: the peer has to know before the CONNREQ
    /// leaves.
    pub fn lowered(&self, limits: &Limits) -> Option<Offer> {
        let made = Offer {
            queue_depth: limits.queue_depth,
            max_frags: limits.max_frags,
        };
        (made != self.offer).then_some(made)
    }

    /// The CONNREQ of the NI `ni`, for a connection with `limits`.
    ///
    /// # Errors
    ///
    /// None that these inputs can cause.
    pub fn connreq(
        &self,
        ni: &NiInfo,
        limits: &Limits,
        encoding: Encoding,
    ) -> Result<[u8; CONN_MSG_SIZE], EmitError> {
        let hdr = Header {
            version: self.version,
            credits: 0,
            src: ni.nid,
            src_stamp: ni.stamp,
            dst: self.peer,
            dst_stamp: self.dst_stamp,
        };
        message(&hdr, &BodyOut::ConnReq(limits.params()), encoding)
    }
}

/// The ends of the connection that the NI `ni` accepts.
pub const fn accepted_identity(ni: &NiInfo, req: &ConnReq) -> Identity {
    Identity {
        peer: req.peer,
        peer_stamp: req.stamp,
        local: ni.nid,
        local_stamp: ni.stamp,
    }
}

/// The CONNACK of the end `ident` of a connection with `limits`.
///
/// # Errors
///
/// None that these inputs can cause.
pub fn connack(
    ident: &Identity,
    limits: &Limits,
    encoding: Encoding,
) -> Result<[u8; CONN_MSG_SIZE], EmitError> {
    let hdr = Header {
        version: limits.version,
        credits: 0,
        src: ident.local,
        src_stamp: ident.local_stamp,
        dst: ident.peer,
        dst_stamp: ident.peer_stamp,
    };
    message(&hdr, &BodyOut::ConnAck(limits.params()), encoding)
}

/// The private data of a reject.
///
/// # Errors
///
/// None that these inputs can cause.
pub fn reject(reject: &Reject, endian: Endian) -> Result<[u8; REJECT_SIZE], EmitError> {
    let mut msg = [0; REJECT_SIZE];
    reject.emit(endian, &mut msg)?;
    Ok(msg)
}

fn message(
    hdr: &Header,
    body: &BodyOut<'_>,
    encoding: Encoding,
) -> Result<[u8; CONN_MSG_SIZE], EmitError> {
    let mut msg = [0; CONN_MSG_SIZE];
    emit(hdr, body, encoding.cksum, encoding.endian, &mut msg)?;
    Ok(msg)
}
