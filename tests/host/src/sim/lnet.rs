// SPDX-License-Identifier: GPL-2.0

//! A model of LNet's messages and of the driver's transmissions.

use super::hca::Region;
use crate::lnet_msg::{LnetGet, LnetPut, WireMd};
use crate::proto::chain::{Cursor, SrcFrag};
use crate::proto::conn::Submit;
use crate::proto::{Done, Instant};
use crate::wire::{LnetHdr, LnetMsgType, Nid};

/// Number of a message of LNet.
pub(super) type MsgId = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Immediate,
    Put,
    Get,
}

/// A message from its acceptance by an engine on.
#[derive(Debug)]
pub(super) struct Msg {
    pub(super) kind: Kind,
    pub(super) len: u32,
    /// The node that it is for.
    pub(super) to: usize,
    /// How it ended at the side that submitted it.
    pub(super) done: Option<Done>,
    /// How often the other side was given it.
    pub(super) delivered: u32,
    /// How a PUT ended at its sink.
    pub(super) sink: Option<Done>,
    /// The other side answered that it does not want or have it.
    pub(super) declined: bool,
    /// What LNet there decided to answer without data: the status that the sender gets, if the
    /// answer gets through.
    pub(super) answer: Option<i32>,
    /// It must end well: nothing breaks.
    pub(super) must: bool,
}

/// A message of LNet's that goes with a received one. It may not be lost.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) msg: MsgId,
    /// Bytes that LNet wants or offers.
    pub(super) len: u32,
    /// Bytes that it really has.
    pub(super) have: u32,
    /// The driver has no memory for it.
    pub(super) fails: bool,
    armed: bool,
}

impl Given {
    pub(super) fn new(msg: MsgId, len: u32, have: u32, fails: bool) -> Self {
        let armed = true;
        Self {
            msg,
            len,
            have,
            fails,
            armed,
        }
    }

    /// It ends, or something else ends it.
    pub(super) fn end(mut self) {
        self.armed = false;
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if self.armed && !std::thread::panicking() {
            panic!("message {} was lost at its sink", self.msg);
        }
    }
}

/// Byte `i` of message `id`.
pub(super) fn byte(id: MsgId, i: usize) -> u8 {
    (id.wrapping_mul(151).wrapping_add(i.wrapping_mul(31)) ^ (i >> 8)) as u8
}

pub(super) fn fill(id: MsgId, range: std::ops::Range<usize>) -> Vec<u8> {
    range.map(|i| byte(id, i)).collect()
}

pub(super) fn check(id: MsgId, bytes: &[u8], what: &str) {
    let wrong = bytes.iter().enumerate().find(|&(i, &b)| b != byte(id, i));
    assert!(
        wrong.is_none(),
        "{what}: message {id} differs at byte {}",
        wrong.map_or(0, |(i, _)| i)
    );
}

/// The LNet header of a message. The id travels in the match bits.
pub(super) fn header(id: MsgId, kind: Kind, len: u32, from: Nid, to: Nid) -> LnetHdr {
    let match_bits = id as u64;
    let (lnet, payload_len, msg) = match kind {
        Kind::Immediate | Kind::Put => {
            let put = LnetPut {
                ack_md: WireMd::NONE,
                match_bits,
                hdr_data: 0,
                ptl_index: 4,
                offset: 0,
            };
            (LnetMsgType::Put, len, put.to_union())
        }
        Kind::Get => {
            let get = LnetGet {
                return_md: WireMd::NONE,
                match_bits,
                ptl_index: 4,
                src_offset: 0,
                sink_length: len,
            };
            (LnetMsgType::Get, 0, get.to_union())
        }
    };
    LnetHdr {
        dest_nid: to,
        src_nid: from,
        dest_pid: 12345,
        src_pid: 12345,
        kind: lnet,
        payload_len,
        msg,
    }
}

pub(super) fn id_of(hdr: &LnetHdr) -> MsgId {
    let bits = match hdr.kind {
        LnetMsgType::Get => LnetGet::from_union(&hdr.msg).match_bits,
        _ => LnetPut::from_union(&hdr.msg).match_bits,
    };
    bits as MsgId
}

/// Memory of a transmission.
#[derive(Debug)]
pub(super) enum Mem {
    None,
    Payload(Region),
    Source {
        regions: Vec<Region>,
        frags: Vec<SrcFrag>,
        /// The transfer, once its sink is known.
        cursor: Option<Cursor>,
        /// The C driver has written all of it.
        written: bool,
    },
    Sink {
        key: u32,
        region: Region,
    },
}

/// The driver's transmission. It may not be lost.
#[derive(Debug)]
pub(super) struct Tx {
    pub(super) msg: MsgId,
    /// Whether it is that of the side that submitted the message.
    pub(super) origin: bool,
    pub(super) mem: Mem,
    pub(super) since: Instant,
    /// What to submit, for a message of LNet.
    pub(super) what: Option<Submit>,
    armed: bool,
}

impl Tx {
    pub(super) fn new(
        msg: MsgId,
        origin: bool,
        mem: Mem,
        since: Instant,
        what: Option<Submit>,
    ) -> Self {
        let armed = true;
        Self {
            msg,
            origin,
            mem,
            since,
            what,
            armed,
        }
    }

    /// Takes it apart, which is the only way to end it.
    pub(super) fn end(mut self) -> (MsgId, bool, Mem, Instant) {
        self.armed = false;
        let mem = std::mem::replace(&mut self.mem, Mem::None);
        (self.msg, self.origin, mem, self.since)
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if self.armed && !std::thread::panicking() {
            panic!("message {} was lost", self.msg);
        }
    }
}
