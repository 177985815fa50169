// SPDX-License-Identifier: GPL-2.0

//! Rejects, the private data of a CM REJ with reason "consumer defined" (section 6).

use super::{
    bytes::{
        Endian,
        Reader,
        Writer, //
    },
    ConnParams,
    EmitError,
    RejectError,
    Stamp,
    Version,
    MAGIC,
    REJECT_SIZE,
    UNIFIED_MAGIC, //
};
use core::fmt;

/// Fewest bytes of a reject: up to the reason.
const MIN_SIZE: usize = 7;

/// Why a connection request was rejected (section 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// You lost a connection race.
    ConnRace,
    /// Out of memory or other resources.
    NoResources,
    /// Anything else.
    Fatal,
    /// Incompatible version. Not sent by current peers.
    ConnUncompat,
    /// Your or my incarnation is stale.
    ConnStale,
    /// Your `max_frags` is too large; mine is in the reject.
    RdmaFrags,
    /// Your queue depth is too large; mine is in the reject.
    MsgQueueSize,
    /// No NI behind this service id. Not sent by current peers.
    InvalidSrvId,
    /// The NI is not ready yet. Since 2.16.
    Early,
    /// A reason that this protocol does not have.
    Unknown(u8),
}

impl RejectReason {
    /// The reason with wire value `raw`.
    pub const fn from_wire(raw: u8) -> Self {
        match raw {
            1 => Self::ConnRace,
            2 => Self::NoResources,
            3 => Self::Fatal,
            4 => Self::ConnUncompat,
            5 => Self::ConnStale,
            6 => Self::RdmaFrags,
            7 => Self::MsgQueueSize,
            8 => Self::InvalidSrvId,
            9 => Self::Early,
            other => Self::Unknown(other),
        }
    }

    /// The wire value.
    pub const fn to_wire(self) -> u8 {
        match self {
            Self::ConnRace => 1,
            Self::NoResources => 2,
            Self::Fatal => 3,
            Self::ConnUncompat => 4,
            Self::ConnStale => 5,
            Self::RdmaFrags => 6,
            Self::MsgQueueSize => 7,
            Self::InvalidSrvId => 8,
            Self::Early => 9,
            Self::Unknown(other) => other,
        }
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConnRace => "CONN_RACE",
            Self::NoResources => "NO_RESOURCES",
            Self::Fatal => "FATAL",
            Self::ConnUncompat => "CONN_UNCOMPAT",
            Self::ConnStale => "CONN_STALE",
            Self::RdmaFrags => "RDMA_FRAGS",
            Self::MsgQueueSize => "MSG_QUEUE_SIZE",
            Self::InvalidSrvId => "INVALID_SRV_ID",
            Self::Early => "EARLY",
            Self::Unknown(other) => return write!(f, "reject reason {other}"),
        })
    }
}

/// A reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Version that the rejecting side speaks, unchecked: a peer of another version says so here.
    pub version: u16,
    /// The reason.
    pub why: RejectReason,
    /// Incarnation of the rejecting NI. [`Stamp::UNKNOWN`] when no NI was identified, and for a
    /// reject that has no incarnation (`params` is `None` then).
    pub stamp: Stamp,
    /// What the rejecting NI would have accepted, all but the message size zero when no NI was
    /// identified. `None` for a reject that has no parameters: version 1, or too short.
    pub params: Option<ConnParams>,
}

impl Reject {
    /// The reject of a request for which no NI was identified: current version, no incarnation, no
    /// parameters but the message size (section 14.4).
    pub const fn anonymous(why: RejectReason) -> Self {
        Self {
            version: Version::V2.to_wire(),
            why,
            stamp: Stamp::UNKNOWN,
            params: Some(ConnParams {
                queue_depth: 0,
                max_frags: 0,
                max_msg_size: ConnParams::MAX_MSG_SIZE,
            }),
        }
    }

    /// Reads the reject at the start of `buf`.
    ///
    /// InfiniBand reports 148 bytes whatever was sent, so what follows a version 1 reject is not
    /// looked at: the version decides, not the length.
    ///
    /// # Errors
    ///
    /// [`RejectError`] when this is not a reject of this protocol. A version that we do not speak
    /// is no error here.
    pub fn parse(buf: &[u8]) -> Result<Self, RejectError> {
        let short = RejectError::TooShort { len: buf.len() };
        if buf.len() < MIN_SIZE {
            return Err(short);
        }
        let mut reader = Reader::new(buf, Endian::NATIVE);
        let magic = reader.u32().ok_or(short)?;
        let endian = if magic == MAGIC || magic == UNIFIED_MAGIC {
            Endian::NATIVE
        } else if magic == MAGIC.swap_bytes() || magic == UNIFIED_MAGIC.swap_bytes() {
            Endian::NATIVE.opposite()
        } else {
            return Err(RejectError::BadMagic { magic });
        };
        let mut reader = reader.with_endian(endian);
        let version = reader.u16().ok_or(short)?;
        let why = reader.u8().map(RejectReason::from_wire).ok_or(short)?;
        let details = if version > Version::V1.to_wire() {
            Self::parse_details(reader)
        } else {
            None
        };
        Ok(Self {
            version,
            why,
            stamp: details.map_or(Stamp::UNKNOWN, |(stamp, _)| stamp),
            params: details.map(|(_, params)| params),
        })
    }

    /// Reads incarnation and parameters; `reader` stands behind the reason.
    fn parse_details(mut reader: Reader<'_>) -> Option<(Stamp, ConnParams)> {
        let _padding = reader.u8()?;
        let stamp = Stamp(reader.u64()?);
        let params = ConnParams::parse(&mut reader)?;
        Some((stamp, params))
    }

    /// Writes the reject to the start of `buf` and returns its length, always 24 bytes. Without
    /// `params`, those bytes are zero.
    ///
    /// `endian` is [`Endian::NATIVE`] for everything we send.
    ///
    /// # Errors
    ///
    /// [`EmitError::BufferTooSmall`]; `buf` is untouched then.
    pub fn emit(&self, endian: Endian, buf: &mut [u8]) -> Result<usize, EmitError> {
        let too_small = EmitError::BufferTooSmall {
            need: REJECT_SIZE,
            have: buf.len(),
        };
        let msg = buf.get_mut(..REJECT_SIZE).ok_or(too_small)?;
        self.write(&mut Writer::new(msg, endian)).ok_or(too_small)?;
        Ok(REJECT_SIZE)
    }

    fn write(&self, writer: &mut Writer<'_>) -> Option<()> {
        writer.u32(MAGIC)?;
        writer.u16(self.version)?;
        writer.u8(self.why.to_wire())?;
        writer.u8(0)?;
        writer.u64(self.stamp.0)?;
        match self.params {
            Some(params) => params.emit(writer),
            None => writer.u64(0),
        }
    }
}
