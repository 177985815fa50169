// SPDX-License-Identifier: GPL-2.0

//! The connection engine: unit tests, and those of the bug catalogue that touch a connection,
//! named by its ids.

mod catalogue;
mod cdriver;
mod chain;
mod common;
mod credits;
mod details;
mod exchanges;
mod fuzz;
mod history;
mod hostile;
mod limits;
mod misuse;
mod small;
mod table;
mod text;
