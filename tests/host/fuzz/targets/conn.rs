// SPDX-License-Identifier: GPL-2.0

//! A connection under a peer, a device and a driver that the input controls.

#![no_main]
#![allow(dead_code, unused_imports)]

#[path = "../../tests/conn/common.rs"]
mod common;
#[path = "../../tests/conn/fuzz.rs"]
mod fuzz;
#[path = "../../tests/conn/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::target(input));
