// SPDX-License-Identifier: GPL-2.0

//! Which completion vector and which scheduler thread serve a connection.

use crate::wire::Nid;

/// The completion vector for connection number `key` to `peer`; the device takes it modulo its
/// number of vectors. Peers are spread over the vectors, and so are the connections to one peer.
pub const fn vector(peer: Nid, key: u64) -> u32 {
    // Keys that exist at the same time differ in their lower half.
    peer.addr().wrapping_add(key as u32)
}

/// The scheduler thread of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// The thread with this number of the connection's own CPT.
    Own(usize),
    /// The thread with this number of all CPTs: a CPT without CPUs has no threads.
    Any(usize),
}

/// The thread for the connection created as number `turn`, in a CPT that has `own` of `all`
/// threads. `None` when there is no thread at all.
pub const fn thread(turn: usize, own: usize, all: usize) -> Option<Thread> {
    if let Some(at) = turn.checked_rem(own) {
        return Some(Thread::Own(at));
    }
    match turn.checked_rem(all) {
        Some(at) => Some(Thread::Any(at)),
        None => None,
    }
}
