// SPDX-License-Identifier: GPL-2.0

//! Kernel facilities that the `kernel` crate lacks.
//!
//! Each could go upstream as it stands; none knows RDMA or LNet. [`rdma`](crate::rdma) and the
//! driver build on them.

mod build_id;
mod clock;
pub(crate) mod debugfs;
pub(crate) mod errno;
mod event;
mod kthread;
mod loaded;
mod net;
mod netwatch;
mod nofs;
mod ratelimit;
mod runqueue;
mod storage;
mod table;
mod unload;
mod workqueue;

pub(crate) use crate::ffi::types::{
    Cpt,
    Kiov,
    Node, //
};
pub(crate) use build_id::BuildId;
pub(crate) use clock::{
    monotonic_ns,
    monotonic_secs,
    realtime_us, //
};
pub(crate) use event::Event;
pub(crate) use kthread::{
    cond_resched,
    Kthread,
    ShouldStop, //
};
pub(crate) use loaded::LoadedModule;
pub(crate) use net::Net;
pub(crate) use netwatch::NetWatch;
pub(crate) use nofs::NofsScope;
pub(crate) use ratelimit::RateLimit;
pub(crate) use runqueue::{
    Batch,
    Entry,
    RunQueue, //
};
pub(crate) use storage::new_buf;
pub(crate) use table::{
    Key,
    Reserved,
    Table, //
};
pub(crate) use unload::Unload;
pub(crate) use workqueue::WorkQueue;
