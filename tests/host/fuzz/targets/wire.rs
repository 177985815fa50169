// SPDX-License-Identifier: GPL-2.0

//! Any bytes as a message, a reject, a connection request.

#![no_main]
#![allow(dead_code, unused_imports)]

#[path = "../../tests/wire/fuzz.rs"]
mod fuzz;
#[path = "../../tests/wire/props.rs"]
mod props;
#[path = "../../tests/wire/samples.rs"]
mod samples;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::target(input));
