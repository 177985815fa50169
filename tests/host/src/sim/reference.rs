// SPDX-License-Identifier: GPL-2.0

//! What of a node's messages looks different on the wire: the other byte order, and the manners of
//! the C driver.
//!
//! An engine of ours stands behind every node. What it sends is read again, changed and emitted
//! anew:
//!
//! - a node with one memory region for everything describes a sink by as many fragments as were
//!   agreed, up to 256 (LU-15186);
//! - when the C driver cannot set up what a GET_REQ asks for, there is no GET_DONE; the credits of
//!   the buffer come with a NOOP.

use crate::wire::{
    emit, Body, BodyOut, Completion, DescOut, DescView, Endian, Frag, Header, Message, PayloadOut,
    Version,
};

/// Fragments that the C driver before 2.15 describes at most.
const REFERENCE_FRAGS: u16 = 256;

/// How a node changes what its engine sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manners {
    pub(super) endian: Endian,
    pub(super) cksum: bool,
    /// Fragments of a sink, if it is cut to pieces.
    pub(super) cut: Option<u16>,
    /// A GET_DONE with an error is not sent.
    pub(super) no_get_done: bool,
    pub(super) credits_added: i8,
}

impl Manners {
    pub(super) const fn is_plain(&self) -> bool {
        matches!(self.endian, Endian::NATIVE)
            && self.cut.is_none()
            && !self.no_get_done
            && self.credits_added == 0
    }
}

fn pieces(desc: &DescView<'_>, limit: u16) -> Vec<Frag> {
    let total = desc.total_len().expect("sum of fragments");
    let whole = desc.frag(0).expect("one fragment");
    if desc.nfrags() != 1 {
        return desc.frags().collect();
    }
    let limit = u32::from(limit.min(REFERENCE_FRAGS));
    let each = total.div_ceil(limit).max(1);
    let mut frags = Vec::new();
    let mut at = 0;
    while at < total {
        let nob = each.min(total - at);
        let addr = whole.addr + u64::from(at);
        frags.push(Frag { addr, nob });
        at += nob;
    }
    frags
}

/// The message as the node with these manners sends it.
pub(super) fn translate(bytes: &[u8], manners: &Manners) -> Vec<u8> {
    let msg = Message::parse(bytes).expect("a message of ours");
    let credits = match manners.credits_added {
        0 => msg.hdr.credits,
        1 => msg.hdr.credits.saturating_add(1),
        _ => 0,
    };
    let hdr = Header { credits, ..msg.hdr };
    let mut buf = vec![0; 4096];
    let mut put = |body: &BodyOut<'_>| {
        let len = emit(&hdr, body, manners.cksum, manners.endian, &mut buf).expect("emitted anew");
        buf.truncate(len);
    };
    let frags = |desc: &DescView<'_>| match manners.cut {
        Some(limit) => pieces(desc, limit),
        None => desc.frags().collect(),
    };
    match msg.body {
        Body::ConnReq(params) => put(&BodyOut::ConnReq(params)),
        Body::ConnAck(params) => put(&BodyOut::ConnAck(params)),
        Body::Noop => put(&BodyOut::Noop),
        Body::Immediate { hdr, payload } => {
            let payload = PayloadOut::Copy(payload);
            put(&BodyOut::Immediate { hdr, payload });
        }
        Body::PutReq { hdr, cookie } => put(&BodyOut::PutReq { hdr, cookie }),
        Body::PutNak(completion) => put(&BodyOut::PutNak(completion)),
        Body::PutAck {
            src_cookie,
            dst_cookie,
            desc,
        } => {
            let (key, frags) = (desc.key(), &frags(&desc)[..]);
            let desc = DescOut { key, frags };
            put(&BodyOut::PutAck {
                src_cookie,
                dst_cookie,
                desc,
            });
        }
        Body::PutDone(completion) => put(&BodyOut::PutDone(completion)),
        Body::GetReq { hdr, cookie, desc } => {
            let (key, frags) = (desc.key(), &frags(&desc)[..]);
            let desc = DescOut { key, frags };
            put(&BodyOut::GetReq { hdr, cookie, desc });
        }
        Body::GetDone(Completion { status, .. })
            if status < 0 && manners.no_get_done && msg.hdr.version == Version::V2 =>
        {
            put(&BodyOut::Noop);
        }
        Body::GetDone(completion) => put(&BodyOut::GetDone(completion)),
    }
    buf
}
