// SPDX-License-Identifier: GPL-2.0

//! Message types (protocol.md section 1).

use core::fmt;

/// Type of a message (section 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MsgType {
    /// Connection request, in CM private data.
    ConnReq,
    /// Connection accepted, in CM private data.
    ConnAck,
    /// Returns credits, keeps the connection alive.
    Noop,
    /// A whole LNet message.
    Immediate,
    /// Source to sink: I have data.
    PutReq,
    /// Sink to source: I do not want it, or cannot take it.
    PutNak,
    /// Sink to source: write it here.
    PutAck,
    /// Source to sink: it is written.
    PutDone,
    /// Sink to source: write your data here.
    GetReq,
    /// Source to sink: it is written.
    GetDone,
}

impl MsgType {
    /// All types.
    pub const ALL: [Self; 10] = [
        Self::ConnReq,
        Self::ConnAck,
        Self::Noop,
        Self::Immediate,
        Self::PutReq,
        Self::PutNak,
        Self::PutAck,
        Self::PutDone,
        Self::GetReq,
        Self::GetDone,
    ];

    /// The type with wire value `raw`.
    pub const fn from_wire(raw: u8) -> Option<Self> {
        Some(match raw {
            0xc0 => Self::ConnReq,
            0xc1 => Self::ConnAck,
            0xd0 => Self::Noop,
            0xd1 => Self::Immediate,
            0xd2 => Self::PutReq,
            0xd3 => Self::PutNak,
            0xd4 => Self::PutAck,
            0xd5 => Self::PutDone,
            0xd6 => Self::GetReq,
            0xd7 => Self::GetDone,
            _ => return None,
        })
    }

    /// The wire value.
    pub const fn to_wire(self) -> u8 {
        match self {
            Self::ConnReq => 0xc0,
            Self::ConnAck => 0xc1,
            Self::Noop => 0xd0,
            Self::Immediate => 0xd1,
            Self::PutReq => 0xd2,
            Self::PutNak => 0xd3,
            Self::PutAck => 0xd4,
            Self::PutDone => 0xd5,
            Self::GetReq => 0xd6,
            Self::GetDone => 0xd7,
        }
    }

    /// The name, as in the specification.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConnReq => "CONNREQ",
            Self::ConnAck => "CONNACK",
            Self::Noop => "NOOP",
            Self::Immediate => "IMMEDIATE",
            Self::PutReq => "PUT_REQ",
            Self::PutNak => "PUT_NAK",
            Self::PutAck => "PUT_ACK",
            Self::PutDone => "PUT_DONE",
            Self::GetReq => "GET_REQ",
            Self::GetDone => "GET_DONE",
        }
    }
}

impl fmt::Display for MsgType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
