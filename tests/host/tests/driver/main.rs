// SPDX-License-Identifier: GPL-2.0

//! Tests of `rust/driver`.

mod admission;
mod cm;
mod form;
mod handshake;
mod placement;
mod tunables;
mod usable;
