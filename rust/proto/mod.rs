// SPDX-License-Identifier: GPL-2.0

//! The protocol engine: everything that decides.
//!
//! Pure code: no `unsafe`, no kernel interface, no clock, no lock, no allocator of its own, and no
//! panic that the wire, the verbs, the CM or LNet can reach. The same files are compiled into the
//! module and into `tests/host`, where a simulator runs them.
//!
//! - [`conn`]: one connection, from "QP exists" to "drained": credits, send slots, operations.
//! - [`peer`]: one (NI, NID) pair: attempts, races, pacing, waiting messages.
//! - [`passive`]: screening of connection requests before a peer exists.
//! - [`chain`]: the plan of RDMA WRITEs from a source to a sink.
//! - [`limits`]: the sizes of a connection.
//! - [`cause`]: why messages and connections fail, and the status and health that LNet gets.
//!
//! # Grammar
//!
//! Inputs are `handle_*` and take the present time, commands are verbs, outputs are pulled with
//! `poll_*`. Time is an argument and must not go backwards between calls on one engine.

#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

pub mod cause;
pub mod chain;
pub mod conn;
pub mod errno;
pub mod ids;
pub mod limits;
pub mod passive;
pub mod peer;
pub mod slab;
mod text;
pub mod time;

pub use self::cause::{
    Cause,
    Done,
    Refused,
    Stage, //
};
pub use self::ids::{
    AttemptId,
    ConnId,
    OpId,
    RxId,
    SlotId,
    WrId,
    WrKind, //
};
pub use self::limits::{
    DeviceCaps,
    Limits,
    LiveTunables,
    NiTunables, //
};
pub use self::slab::Storage;
pub use self::time::{
    Instant,
    Span, //
};
#[cfg(feature = "tests")]
pub use self::{
    cause::{
        Health,
        Outcome, //
    },
    limits::LimitError, //
};
