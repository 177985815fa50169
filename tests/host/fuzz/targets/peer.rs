// SPDX-License-Identifier: GPL-2.0

//! A peer under a network and a driver that the input controls.

#![no_main]
#![allow(dead_code, unused_imports)]

#[path = "../../tests/peer/common.rs"]
mod common;
#[path = "../../tests/peer/fuzz.rs"]
mod fuzz;
#[path = "../../tests/peer/random.rs"]
mod random;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::target(input));
