// SPDX-License-Identifier: GPL-2.0

//! Which form a message takes on the wire (protocol.md 10.1).
//!
//! Depends only on what LNet says about the message.

use crate::wire::{
    LnetMsgType,
    MAX_IMMEDIATE, //
};

/// What LNet says about a message that it wants sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Type of the message.
    pub kind: LnetMsgType,
    /// Payload in bytes; 0 for ACK and GET.
    pub payload: u32,
    /// Length of the memory descriptor in bytes: the room that a GET has for the reply. 0 when
    /// there is none, as in a message that a router forwards.
    pub md_len: u32,
    /// The memory is a GPU's, so the CPU must not copy it.
    pub gpu: bool,
    /// The message is being forwarded.
    pub routing: bool,
    /// The next hop is a router.
    pub to_router: bool,
}

/// The form of a message on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One message with this many bytes of payload.
    Immediate(u32),
    /// PUT_REQ for this many bytes.
    Put(u32),
    /// GET_REQ with a sink of this many bytes, and a reply message of our own making.
    Get(u32),
    /// No message of this type is ever sent.
    Unsupported,
}

impl Request {
    /// Chooses the form.
    pub fn form(&self) -> Form {
        let fits = |len: u32| len as usize <= MAX_IMMEDIATE && !self.gpu;
        match self.kind {
            LnetMsgType::Ack => Form::Immediate(0),
            LnetMsgType::Get if self.routing || self.to_router || fits(self.md_len) => {
                Form::Immediate(0)
            }
            // A GET into nothing needs no sink, wherever the nothing is.
            LnetMsgType::Get if self.md_len == 0 => Form::Immediate(0),
            LnetMsgType::Get => Form::Get(self.md_len),
            LnetMsgType::Put | LnetMsgType::Reply if self.payload == 0 || fits(self.payload) => {
                Form::Immediate(self.payload)
            }
            LnetMsgType::Put | LnetMsgType::Reply => Form::Put(self.payload),
            LnetMsgType::Hello | LnetMsgType::Unknown(_) => Form::Unsupported,
        }
    }
}
