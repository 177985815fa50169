// SPDX-License-Identifier: GPL-2.0

//! The shell around [`driver`](crate::driver) and the engines of [`proto`](crate::proto): threads,
//! locks, memory, and calls of LNet, the verbs and the connection manager.
//!
//! What a message, a completion, an action, a connection request, an event of the CM or a deadline
//! leads to, and in which order, is decided in `crate::driver`, by way of the traits that [`conn`],
//! [`traffic`] and [`connd`] implement. What is decided here concerns the kernel, not the
//! protocol:
//!
//! - the order in which threads take up their work ([`traffic::sched`], [`connd`]), and that
//!   deadlines are checked once a second;
//! - that a connection for which the device has no room (`ENOMEM`) is lowered, step by step as
//!   `proto::Limits` has the steps ([`conn`]);
//! - the interface, the device and the port of an NI, and what becomes of NIs when one of those
//!   goes, comes or moves ([`ops`], [`device`], [`removal`]);
//! - pools of descriptors and memory regions, and how memory is registered ([`tx`], [`device`]);
//! - the text of log lines and the names of counters ([`stats`]).
//!
//! What runs where:
//!
//! - LNet's threads call [`traffic::send`] and [`traffic::recv`], which map memory, feed a
//!   connection's engine under its lock and post what it wants posted;
//! - scheduler threads ([`traffic::sched`], [`traffic::exec`]) poll completions and call LNet;
//! - one thread, [`connd`], does what sleeps: CM events, making and destroying connections, and
//!   deadlines.
//!
//! Threads, and everything else but the counters, exist between the first NI and the last.
//!
//! # Direction
//!
//! From the top down; each names only what comes after it, and `tests/host/tests/circles.rs` fails
//! otherwise. [`ops`] and [`driver`] alone know `Driver`, which holds everything; what is below is
//! given the parts that it needs.
//!
//! - [`debugfs`], [`ops`], [`driver`], [`ctl`]: entry points of LNet and of debugfs;
//! - [`connd`], [`removal`]: connections and devices; what sleeps;
//! - [`traffic`]: the data path;
//! - [`networks`], [`conn`], [`peer`], [`ni`]: what there is. An NI and a peer do not know what a
//!   connection is, and take its type as a parameter;
//! - [`tx`], [`device`]: descriptors, RDMA devices and addresses;
//! - [`display`], [`storage`], [`stats`], [`clock`].
//!
//! # Locks
//!
//! In this order: the mutexes of start and stop, of the list of NIs, of addresses, of devices; a
//! shard of a network; a peer. The lock of a connection is taken with none of the spinlocks before
//! held. All others are leaves. Nothing that sleeps, calls LNet or drops a reference happens under
//! a spinlock.

mod clock;
mod conn;
mod connd;
mod ctl;
mod debugfs;
mod device;
mod display;
mod driver;
mod networks;
mod ni;
mod ops;
mod peer;
mod removal;
mod stats;
mod storage;
mod traffic;
mod tx;

pub(crate) use debugfs::Files;
pub(crate) use ops::Ko2iblnd;
pub(crate) use stats::LeakCheck;
