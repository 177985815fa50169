// SPDX-License-Identifier: GPL-2.0

//! Fuzz target, and a short run of it. `make fuzz` runs it long.

use ko2iblnd_host::corpus::replay;

pub(crate) use super::random::schedule as target;

#[test]
fn corpus_and_changes() {
    replay("peer", 4_000, target);
}
