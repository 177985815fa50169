// SPDX-License-Identifier: GPL-2.0

//! Completion vectors and threads.

use ko2iblnd_host::driver::placement::{thread, vector, Thread};
use ko2iblnd_host::wire::Nid;

#[test]
fn connections_spread_over_vectors() {
    let peer = |n: u32| Nid::o2ib(0, 0xc0a8_0100 + n);
    // Peers with neighbouring addresses, and the connections of one peer.
    let of = |n, key| vector(peer(n), key) % 8;
    let peers: std::collections::BTreeSet<u32> = (0..8).map(|n| of(n, 1 << 24)).collect();
    assert_eq!(peers.len(), 8);
    let conns: std::collections::BTreeSet<u32> = (0..8).map(|key| of(3, key)).collect();
    assert_eq!(conns.len(), 8);
    assert_eq!(vector(peer(0), u64::MAX), 0xc0a8_00ff);
}

#[test]
fn threads_take_turns() {
    assert_eq!(thread(0, 2, 5), Some(Thread::Own(0)));
    assert_eq!(thread(5, 2, 5), Some(Thread::Own(1)));
    // A CPT without threads borrows those of others.
    assert_eq!(thread(7, 0, 5), Some(Thread::Any(2)));
    assert_eq!(thread(7, 0, 0), None);
}
