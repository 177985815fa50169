// SPDX-License-Identifier: GPL-2.0

//! Every order of events in small cases. Without more, a part that takes seconds; `KOR_EXHAUST=n`
//! takes up to `n` messages, all depths, and breaks the connection in every state.

use ko2iblnd_host::sim::exhaust::{cases, explore, Count};
use ko2iblnd_host::wire::Version;

#[test]
fn all_orders_of_small_cases() {
    let asked = std::env::var("KOR_EXHAUST").ok();
    let long: Option<u32> = asked.map(|text| text.parse().expect("a number"));
    let mut total = Count::default();
    for version in [Version::V1, Version::V2] {
        let first = if version == Version::V1 { 3 } else { 1 };
        for depth in first..=3 {
            let most = if depth == first { 2 } else { 1 };
            for msgs in 1..=long.unwrap_or(most) {
                let mut count = Count::default();
                for case in cases(version, depth, msgs) {
                    // Breaking takes most of the time.
                    let breaks = msgs == 1 || (long.is_some() && msgs == 2);
                    count += explore(&case, breaks);
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
