// SPDX-License-Identifier: GPL-2.0

//! Tests of `rust/proto/peer` and `rust/proto/passive.rs`: every state with every event, the rules
//! of the bug catalogue by their ids, random schedules of one peer, and two peers that talk
//! through a CM that loses, delays and reorders.

mod common;
mod details;
mod fuzz;
mod pair;
mod passive;
mod random;
mod rules;
mod table;
