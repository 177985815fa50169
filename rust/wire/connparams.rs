// SPDX-License-Identifier: GPL-2.0

//! Connection parameters, the body of CONNREQ and CONNACK and the tail of a reject
//! (protocol.md section 4.1).

use super::bytes::{
    Reader,
    Writer, //
};

/// What the two ends of a connection negotiate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnParams {
    /// Credit-consuming messages that may be in flight in each direction.
    pub queue_depth: u16,
    /// Most fragments, which is most RDMA work requests, of one transfer.
    pub max_frags: u16,
    /// Largest message in bytes. Always sent as 4096; a larger one is rejected by the receiver, a
    /// smaller one has no effect.
    pub max_msg_size: u32,
}

impl ConnParams {
    /// The message size that is always sent, in bytes: that of a message buffer.
    pub const MAX_MSG_SIZE: u32 = 4096;

    /// Size on the wire, in bytes.
    pub(super) const SIZE: usize = 8;

    pub(super) fn parse(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            queue_depth: reader.u16()?,
            max_frags: reader.u16()?,
            max_msg_size: reader.u32()?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Option<()> {
        writer.u16(self.queue_depth)?;
        writer.u16(self.max_frags)?;
        writer.u32(self.max_msg_size)
    }
}
