// SPDX-License-Identifier: GPL-2.0

//! Where a connection's work is done.

use crate::wire::Nid;

/// The completion vector of the connection with number `key` to `peer`, before the device takes it
/// modulo the vectors that it has: peers spread, and so do the connections to one of them.
pub const fn vector(peer: Nid, key: u64) -> u32 {
    // Keys that exist at the same time differ in their lower half.
    peer.addr().wrapping_add(key as u32)
}

/// Which thread a new connection gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// This one of its CPT's.
    Own(usize),
    /// This one of all: a CPT without CPUs has none.
    Any(usize),
}

/// The thread for the connection that has its turn, in a CPT with `own` threads of `all`. `None`
/// when there is none at all.
pub const fn thread(turn: usize, own: usize, all: usize) -> Option<Thread> {
    if let Some(at) = turn.checked_rem(own) {
        return Some(Thread::Own(at));
    }
    match turn.checked_rem(all) {
        Some(at) => Some(Thread::Any(at)),
        None => None,
    }
}
