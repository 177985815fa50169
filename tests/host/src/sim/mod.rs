// SPDX-License-Identifier: GPL-2.0

//! The simulator: engines, a model of the device, of LNet and of the driver, in virtual time.
//!
//! One seed decides everything: sizes, delays, faults, traffic. A run has two phases. In the
//! *safety* phase things break; nothing may ever go wrong. In the *liveness* phase nothing breaks
//! any more and everything has to come to its end in time. What is checked:
//!
//! - every message that an engine accepts ends exactly once, by its deadline;
//! - data that is reported as received is what was sent, and is received once;
//! - a message whose connection does not die ends well;
//! - a peer counts no connection that has closed;
//! - an idle connection is heard of as often as its keepalive says;
//! - credits are conserved, by the counters of both ends and by what is on the wire; no end sees a
//!   violation of the protocol by the other;
//! - the device never touches memory that LNet has back, and sees no request it has to refuse
//!   (see [`hca`]);
//! - a connection request is answered once, and a queue pair is destroyed before its id;
//! - in the end nothing is left: memory, keys, buffers, operations, ids of the CM.
//!
//! There are two to five nodes, with tunables of their own; some speak version 1 only, some have
//! the other byte order. On some, the C driver is at the ends of connections: a model of it that
//! shares no state and no rule with our engine (see [`cdriver`]). Peers and attempts, and with them
//! the tie-break, are our engine's everywhere.
//!
//! `KOR_SIM_SEED=n cargo test --test sim` runs one seed and tells its story; `KOR_SIM_MINIMISE=1`
//! leaves away what does not matter for its failure; `KOR_SIM_SKIP` is the result of that.

mod cdriver;
mod cm;
mod config;
mod connd;
mod device;
mod end;
mod executor;
pub mod exhaust;
mod faults;
mod hca;
mod lnet;
mod node;
mod options;
mod peers;
mod phases;
mod receive;
mod report;
mod runner;
mod shell;
mod traffic;
mod translate;
mod world;

pub use self::{
    options::{
        Broken,
        Options, //
    },
    phases::run,
    report::Report,
    runner::{
        minimise,
        seeds,
        tell,
        try_run,
        Failure,
        Minimal, //
    },
};

use crate::proto::Storage;

/// Storage on the heap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heap;

impl Storage for Heap {
    type Buf<U> = Vec<U>;
    type Error = std::convert::Infallible;

    fn alloc<U>(&mut self, n: usize, init: impl FnMut(usize) -> U) -> Result<Vec<U>, Self::Error> {
        Ok((0..n).map(init).collect())
    }
}
