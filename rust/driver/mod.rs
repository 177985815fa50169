// SPDX-License-Identifier: GPL-2.0

//! The loop around the engines of [`proto`](crate::proto): all decisions of the driver, without its
//! effects.
//!
//! The engines say what is to happen on one connection and with one peer. This room decides the
//! rest: which form a message takes, what a request or an event of the connection manager leads
//! to, who is admitted, how things are sized and placed.
//!
//! Pure code as in `proto`: no `unsafe`, no kernel interface, no clock, no lock, no allocation, and
//! no panic that the wire, the verbs, the CM, LNet or a tunable can reach. The same files are
//! compiled into the module and into `tests/host`.
//!
//! - [`shell`]: the effects of the loop, under a lock and with none held.
//! - [`send`]: from LNet to a connection.
//! - [`recv`]: what a received message is answered with.
//! - [`exec`]: completions, asynchronous events and actions of a connection.
//! - [`form`]: which form a message takes on the wire.
//! - [`tunables`]: from what the user gave to what an NI uses; sizes of pools and threads.
//! - [`usable`]: whether LNet should avoid an NI.
//! - [`admission`]: which connection requests and served requests there is room for.
//! - [`cm`]: what an event of the connection manager leads to.
//! - [`connect`]: connection work: attempts, connection requests, the end of a connection.
//! - [`sweep`]: checks deadlines.
//! - [`handshake`]: what a connection request and its answers say.
//! - [`placement`]: which completion vector and which thread serve a connection.

#![forbid(unsafe_code)]
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

pub mod admission;
pub mod cm;
pub mod connect;
pub mod exec;
pub mod form;
pub mod handshake;
pub mod placement;
pub mod recv;
pub mod send;
pub mod shell;
pub mod sweep;
pub mod tunables;
pub mod usable;
