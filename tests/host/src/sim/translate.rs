// SPDX-License-Identifier: GPL-2.0

//! What of a node's messages looks different on the wire than to our engine, which sends them: the
//! other byte order, and credits that are wrong on purpose.
//!
//! What the engine sends is read again, changed and emitted anew. (The model of the C driver has
//! its byte order from the start.)

use crate::wire::{emit, Body, BodyOut, DescOut, DescView, Endian, Frag, Header, Message};

/// How a node changes what is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manners {
    pub(super) endian: Endian,
    pub(super) cksum: bool,
    pub(super) credits_added: i8,
}

impl Manners {
    pub(super) const fn is_plain(&self) -> bool {
        matches!(self.endian, Endian::NATIVE) && self.credits_added == 0
    }
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
    let frags = |desc: &DescView<'_>| desc.frags().collect::<Vec<Frag>>();
    match msg.body {
        Body::ConnReq(params) => put(&BodyOut::ConnReq(params)),
        Body::ConnAck(params) => put(&BodyOut::ConnAck(params)),
        Body::Noop => put(&BodyOut::Noop),
        Body::Immediate { hdr, payload } => {
            put(&BodyOut::Immediate { hdr, payload });
        }
        Body::PutReq { hdr, cookie } => put(&BodyOut::PutReq { hdr, cookie }),
        Body::PutNak(completion) => put(&BodyOut::PutNak(completion)),
        Body::PutAck {
            src_cookie,
            dst_cookie,
            desc,
        } => {
            let (key, frags) = (desc.desc().key(), &frags(&desc)[..]);
            let desc = DescOut { key, frags };
            put(&BodyOut::PutAck {
                src_cookie,
                dst_cookie,
                desc,
            });
        }
        Body::PutDone(completion) => put(&BodyOut::PutDone(completion)),
        Body::GetReq { hdr, cookie, desc } => {
            let (key, frags) = (desc.desc().key(), &frags(&desc)[..]);
            let desc = DescOut { key, frags };
            put(&BodyOut::GetReq { hdr, cookie, desc });
        }
        Body::GetDone(completion) => put(&BodyOut::GetDone(completion)),
    }
    buf
}
