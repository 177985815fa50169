// SPDX-License-Identifier: GPL-2.0

//! Tests of `rust/driver`.

mod admission;
mod cm;
mod connect;
mod exec;
mod form;
mod handshake;
mod placement;
mod recv;
mod send;
mod tunables;
mod usable;
