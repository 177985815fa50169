// SPDX-License-Identifier: GPL-2.0

//! What is passed to and from the CM: parameters, private data, addresses.

use crate::ffi::verbs;
use core::{
    ops::Deref,
    slice, //
};
use kernel::{
    fmt,
    prelude::*, //
};

/// What a connection is made or accepted with.
#[derive(Clone, Copy)]
pub(crate) struct ConnParam<'a> {
    /// For the peer: 56 bytes at most in a request, 196 in an answer.
    pub(crate) private_data: &'a [u8],
    /// Incoming RDMA READs and atomics at a time.
    pub(crate) responder_resources: u8,
    /// Outgoing ones.
    pub(crate) initiator_depth: u8,
    /// Whether there is end-to-end flow control.
    pub(crate) flow_control: bool,
    /// Retransmissions, up to 7.
    pub(crate) retry_count: u8,
    /// Retries when the receiver is not ready, up to 6; 7: without limit.
    pub(crate) rnr_retry_count: u8,
}

impl ConnParam<'_> {
    pub(super) fn to_raw(self) -> Result<verbs::CmParam> {
        Ok(verbs::CmParam {
            private_data: self.private_data.as_ptr(),
            private_data_len: u8::try_from(self.private_data.len())?,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            flow_control: self.flow_control.into(),
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
        })
    }
}

/// A socket address.
#[derive(Clone, Copy)]
pub(crate) struct SockAddr(pub(super) verbs::SockAddr);

impl SockAddr {
    /// No address, port 0.
    pub(super) const ANY_V4: Self = Self::v4([0; 4], 0);

    /// An IPv4 address (as bytes, in the order they are written) and port.
    pub(crate) const fn v4(addr: [u8; 4], port: u16) -> Self {
        let [a, b, c, d] = addr;
        Self(verbs::SockAddr {
            family: verbs::AF_INET,
            port,
            scope_id: 0,
            addr: [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        })
    }

    /// The same address with another port.
    pub(crate) const fn with_port(mut self, port: u16) -> Self {
        self.0.port = port;
        self
    }

    /// The port.
    pub(crate) const fn port(&self) -> u16 {
        self.0.port
    }

    /// The IPv4 address, if it is one.
    pub(crate) fn ipv4(&self) -> Option<[u8; 4]> {
        let [a, b, c, d, ..] = self.0.addr;
        (self.0.family == verbs::AF_INET).then_some([a, b, c, d])
    }
}

impl fmt::Display for SockAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ipv4() {
            Some([a, b, c, d]) => write!(f, "{a}.{b}.{c}.{d}:{}", self.port()),
            None => write!(f, "[{:x?}]:{}", self.0.addr, self.port()),
        }
    }
}

/// Private data of a CM message: up to 256 bytes, of which an InfiniBand CM passes fewer, padded
/// with zeroes.
#[derive(Clone, Copy)]
pub(crate) struct PrivateData {
    len: u16,
    bytes: [u8; Self::MAX],
}

impl PrivateData {
    /// More than any CM carries.
    const MAX: usize = 256;
    pub(super) const EMPTY: Self = Self {
        len: 0,
        bytes: [0; Self::MAX],
    };

    /// Copies what the CM passes along.
    ///
    /// # Safety
    ///
    /// `data` is null or points to `len` bytes.
    pub(super) unsafe fn copy_from(data: *const u8, len: u32) -> Self {
        let mut this = Self::EMPTY;
        if data.is_null() {
            return this;
        }
        let len = Self::MAX.min(len as usize);
        // SAFETY: By the contract of this function.
        let data = unsafe { slice::from_raw_parts(data, len) };
        for (to, from) in this.bytes.iter_mut().zip(data) {
            *to = *from;
        }
        // Fits: not more than MAX.
        this.len = len as u16;
        this
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl AsRef<[u8]> for PrivateData {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for PrivateData {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or(&self.bytes)
    }
}
