// SPDX-License-Identifier: GPL-2.0

//! The pure rooms of ko2iblnd, compiled for the host.
//!
//! The module crate declares the same modules at its root, so a path such as `crate::wire::Nid`
//! means the same thing in both.

pub mod corpus;
pub mod lnet_msg;
pub mod prng;
pub mod sim;
pub mod table;

#[path = "../../../rust/wire/mod.rs"]
pub mod wire;

#[path = "../../../rust/proto/mod.rs"]
pub mod proto;

#[path = "../../../rust/driver/mod.rs"]
pub mod driver;
