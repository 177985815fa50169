// SPDX-License-Identifier: GPL-2.0

//! Every order of events in small cases: up to two messages. `KOR_EXHAUST=n` takes up to `n`
//! messages; with more than three, only cases in which all messages are of one kind.
//! Connections are broken in every state with one message, in the long run with two.

use ko2iblnd_host::sim::exhaust::{cases, explore, Case, Count};
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
