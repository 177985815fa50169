// SPDX-License-Identifier: GPL-2.0

//! Every order of events in small cases: up to two messages. `KOR_EXHAUST=n` takes up to `n`
//! messages; with more than three, only cases in which all messages are of one kind.
//! Connections are broken in every state with one message, in the long run with two.

use ko2iblnd_host::sim::exhaust::{cases, explore, orders_one_by_one, Case, Count, What};
use ko2iblnd_host::wire::Version;

fn is_uniform(case: &Case) -> bool {
    let mut all = case.msgs.iter().flatten();
    let first = all.next();
    all.all(|what| Some(what) == first)
}

#[test]
fn all_orders_of_small_cases() {
    let asked = std::env::var("KOR_EXHAUST").ok();
    let long: Option<u32> = asked.map(|text| text.parse().expect("a number"));
    let mut total = Count::default();
    for version in [Version::V1, Version::V2] {
        let first = if version == Version::V1 { 3 } else { 1 };
        for depth in first..=3 {
            for msgs in 1..=long.unwrap_or(2) {
                let mut count = Count::default();
                let cases = cases(version, depth, msgs).into_iter();
                for case in cases.filter(|case| msgs <= 3 || is_uniform(case)) {
                    let breaks = msgs == 1 || (long.is_some() && msgs == 2);
                    let found = explore(&case, breaks);
                    if msgs > 3 {
                        println!("  {:?}: {} states", case.msgs, found.states);
                    }
                    count += found;
                }
                println!("{version:?} depth {depth}, {msgs} messages: {count:?}");
                total += count;
            }
        }
    }
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
    for version in [Version::V1, Version::V2] {
        let first = if version == Version::V1 { 3 } else { 1 };
        for depth in first..=3 {
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
}
