// SPDX-License-Identifier: GPL-2.0

//! Tests of `rust/wire`: the bytes of the specification and of the C driver, every rejected form,
//! and properties over random messages.

mod capture;
mod fuzz;
mod golden;
mod invalid;
mod props;
mod reject;
mod samples;
mod types;
