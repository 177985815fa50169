// SPDX-License-Identifier: GPL-2.0

//! CM ids, and what belongs to them.

use super::Worker;
use crate::{
    driver::connect::effects::Link,
    kx::Reserved,
    lnd::{
        conn::{
            Conn,
            Peer, //
        },
        stats::{
            Counted,
            Live, //
        }, //
    },
    rdma::CmId, //
};
use kernel::sync::{
    atomic::Relaxed,
    Arc, //
};

/// An id of the daemon.
pub(super) struct Entry<'a> {
    /// Dropped before the link, because a callback may still run.
    pub(super) id: CmId,
    pub(super) link: Link<Worker<'a>>,
    /// Its number. The connection that was made for the id is found by it, too, until both go.
    pub(super) reserved: Reserved<'a, Conn>,
}

/// Counts a connection that was accepted and is not established.
pub(super) struct Pending {
    peer: Arc<Peer>,
    _live: Counted,
}

impl Pending {
    /// Counts one more of `peer`. Only this thread counts.
    pub(super) fn new(peer: &Arc<Peer>) -> Self {
        peer.pending.fetch_add(1, Relaxed);
        Self {
            peer: peer.clone(),
            _live: Live::Pending.hold(),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.peer.pending.fetch_sub(1, Relaxed);
    }
}
