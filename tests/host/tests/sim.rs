// SPDX-License-Identifier: GPL-2.0

//! The simulator, a bounded number of seeds.

use ko2iblnd_host::sim;

/// Seeds of a default run; `KOR_SIM_SEEDS` runs another number of them.
const SEEDS: u64 = 400;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn simulated_connections_keep_the_rules() {
    if let Some(seed) = number("KOR_SIM_SEED") {
        println!("{:#?}", sim::run(seed, true));
        return;
    }
    let count = number("KOR_SIM_SEEDS").unwrap_or(SEEDS);
    let first = number("KOR_SIM_FIRST").unwrap_or(0);
    let report = sim::seeds(first, count);
    println!("{count} seeds: {report:#?}");
    // A simulator that reaches nothing proves nothing.
    assert!(report.accepted > 20 * count);
    assert!(report.good * 2 > report.accepted);
    assert!(report.faults > count);
}
