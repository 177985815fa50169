// SPDX-License-Identifier: GPL-2.0

//! Fuzz target, and a short run of it. `make fuzz` runs it long.

use crate::hostile::schedule;
use ko2iblnd_host::{corpus::replay, prng::Prng};

/// Messages, completions, posts that fail, commands: the input decides what comes.
pub(crate) fn target(input: &[u8]) {
    schedule(Prng::from_bytes(input));
}

#[test]
fn corpus_and_changes() {
    replay("conn", 4_000, target);
}
