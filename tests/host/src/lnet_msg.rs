// SPDX-License-Identifier: GPL-2.0

//! The part of an LNet header that depends on the type of the message (protocol.md section 5), which
//! the driver passes on without looking at it, but for the room of a GET.

/// That part, as on the wire: little-endian, zero where unused.
pub type Union = [u8; 40];

/// A handle of a memory descriptor on the node that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireMd {
    /// Which LNet instance.
    pub interface: u64,
    /// Which object of it.
    pub object: u64,
}

impl WireMd {
    /// All ones: in a PUT, no acknowledgement is wanted.
    pub const NONE: Self = Self {
        interface: u64::MAX,
        object: u64::MAX,
    };
}

/// What an ACK says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LnetAck {
    /// The memory descriptor that the PUT named.
    pub dst_md: WireMd,
    /// Match bits of the PUT.
    pub match_bits: u64,
    /// Bytes that the destination took.
    pub mlength: u32,
}

/// What a PUT says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LnetPut {
    /// Where the ACK goes; [`WireMd::NONE`] when none is wanted.
    pub ack_md: WireMd,
    /// Which buffer of the portal.
    pub match_bits: u64,
    /// Data for the receiver's upper layer.
    pub hdr_data: u64,
    /// Portal.
    pub ptl_index: u32,
    /// Offset in the buffer, in bytes.
    pub offset: u32,
}

/// What a GET says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LnetGet {
    /// Where the REPLY goes.
    pub return_md: WireMd,
    /// Which buffer of the portal.
    pub match_bits: u64,
    /// Portal.
    pub ptl_index: u32,
    /// Offset in the buffer, in bytes.
    pub src_offset: u32,
    /// Room for the REPLY, in bytes.
    pub sink_length: u32,
}

/// What a REPLY says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LnetReply {
    /// The memory descriptor that the GET named.
    pub dst_md: WireMd,
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u32(&mut self) -> u32 {
        let (field, rest) = self.0.split_first_chunk().expect("a field");
        self.0 = rest;
        u32::from_le_bytes(*field)
    }

    fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    fn md(&mut self) -> WireMd {
        WireMd {
            interface: self.u64(),
            object: self.u64(),
        }
    }
}

fn union_of(md: WireMd, longs: &[u64], words: &[u32]) -> Union {
    let longs = [md.interface, md.object]
        .into_iter()
        .chain(longs.iter().copied());
    let bytes = longs.flat_map(u64::to_le_bytes);
    let bytes = bytes.chain(words.iter().copied().flat_map(u32::to_le_bytes));
    let mut union = [0; 40];
    for (to, from) in union.iter_mut().zip(bytes) {
        *to = from;
    }
    union
}

impl LnetAck {
    /// Reads the union of an ACK.
    pub fn from_union(msg: &Union) -> Self {
        let mut fields = Fields(msg);
        Self {
            dst_md: fields.md(),
            match_bits: fields.u64(),
            mlength: fields.u32(),
        }
    }

    /// The union of an ACK.
    pub fn to_union(self) -> Union {
        union_of(self.dst_md, &[self.match_bits], &[self.mlength])
    }
}

impl LnetPut {
    /// Reads the union of a PUT.
    pub fn from_union(msg: &Union) -> Self {
        let mut fields = Fields(msg);
        Self {
            ack_md: fields.md(),
            match_bits: fields.u64(),
            hdr_data: fields.u64(),
            ptl_index: fields.u32(),
            offset: fields.u32(),
        }
    }

    /// The union of a PUT.
    pub fn to_union(self) -> Union {
        let longs = [self.match_bits, self.hdr_data];
        union_of(self.ack_md, &longs, &[self.ptl_index, self.offset])
    }
}

impl LnetGet {
    /// Reads the union of a GET.
    pub fn from_union(msg: &Union) -> Self {
        let mut fields = Fields(msg);
        Self {
            return_md: fields.md(),
            match_bits: fields.u64(),
            ptl_index: fields.u32(),
            src_offset: fields.u32(),
            sink_length: fields.u32(),
        }
    }

    /// The union of a GET.
    pub fn to_union(self) -> Union {
        let words = [self.ptl_index, self.src_offset, self.sink_length];
        union_of(self.return_md, &[self.match_bits], &words)
    }
}

impl LnetReply {
    /// Reads the union of a REPLY.
    pub fn from_union(msg: &Union) -> Self {
        let dst_md = Fields(msg).md();
        Self { dst_md }
    }

    /// The union of a REPLY.
    pub fn to_union(self) -> Union {
        union_of(self.dst_md, &[], &[])
    }
}
