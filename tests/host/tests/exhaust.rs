// SPDX-License-Identifier: GPL-2.0

//! Every order of events in small cases: up to three messages, or four with `KOR_EXHAUST=4`, of all
//! kinds and in every distribution on the two sides. Connections are broken in every state, but
//! not with more than three messages.

use ko2iblnd_host::sim::exhaust::{cases, explore, orders_one_by_one, Case, Count, What};
use ko2iblnd_host::wire::Version;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// Version and depth; the first version has at least 3.
const SIZES: [(Version, u16); 4] = [
    (Version::V1, 3),
    (Version::V2, 1),
    (Version::V2, 2),
    (Version::V2, 3),
];

/// Orders of all cases of a size with one message, and with two. These, and the sum, were counted
/// when states were told apart by every bit of both engines: a hash that leaves out too much loses
/// some.
const ORDERS: [[u128; 2]; 4] = [
    [64, 2_872_476],
    [241, 61_632_394],
    [211, 122_275_863],
    [211, 87_658_855],
];

/// Orders of all cases of all sizes with up to three messages.
const ORDERS_TO_THREE: u128 = 222_273_839_800_884;

/// Explores all cases on as many threads as there are processors.
fn explore_all(cases: &[Case], breaks: bool) -> Count {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Count::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = explore(case, breaks);
                    *total.lock().expect("no case fails") += found;
                }
            });
        }
    });
    total.into_inner().expect("no case fails")
}

#[test]
fn all_orders_of_small_cases() {
    let most = std::env::var("KOR_EXHAUST").ok();
    let most: u32 = most.map_or(3, |text| text.parse().expect("a number"));
    let (mut total, mut to_three) = (Count::default(), 0);
    for ((version, depth), orders) in SIZES.into_iter().zip(ORDERS) {
        for msgs in 1..=most {
            let found = explore_all(&cases(version, depth, msgs), msgs <= 3);
            println!("{version:?} depth {depth}, {msgs} messages: {found:?}");
            if let Some(&orders) = orders.get(msgs as usize - 1) {
                assert_eq!(found.orders, orders, "{version:?} {depth} {msgs}");
            }
            total += found;
            to_three += if msgs <= 3 { found.orders } else { 0 };
        }
    }
    assert!(most < 3 || to_three == ORDERS_TO_THREE, "{to_three}");
    println!(
        "covered: {} small cases, {} states, {} orders of events, {} breaks",
        total.cases, total.states, total.orders, total.breaks
    );
    assert!(total.states > 1000 && total.orders > 10_000);
}

/// States that are taken for the same go on alike: the orders are as many as when each is followed
/// by itself.
#[test]
fn visiting_states_once_loses_no_order() {
    for (version, depth) in SIZES {
        let small = cases(version, depth, 1).into_iter();
        let both = [vec![What::Immediate], vec![What::Immediate]];
        let two = [vec![What::Immediate; 2], Vec::new()];
        let more = [both, two].map(|msgs| Case {
            version,
            depth,
            msgs,
        });
        for case in small.chain(more) {
            let found = explore(&case, false).orders;
            assert_eq!(found, orders_one_by_one(&case), "{case:?}");
        }
    }
}
