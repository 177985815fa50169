// SPDX-License-Identifier: GPL-2.0

//! The simulator, a bounded number of seeds.

use ko2iblnd_host::sim;

/// Seeds of a default run; `KOR_SIM_SEEDS` runs another number of them.
const SEEDS: u64 = 300;

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
    assert!(report.early > count / 4 && report.forced > count / 4);
    assert!(report.attempts > count && report.retries > count / 10);
    let all_kinds = [report.races, report.stale, report.split, report.came_back];
    assert!(
        count < SEEDS || all_kinds.iter().all(|&n| n > 0),
        "{all_kinds:?}"
    );
}
