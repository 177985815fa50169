// SPDX-License-Identifier: GPL-2.0

//! What can be seen in `/sys/kernel/debug/ko2iblnd/`.

use super::{
    ops::Ko2iblnd,
    stats, //
};
use crate::lnet;
use kernel::{
    debugfs::{
        Dir,
        File, //
    },
    fmt,
    prelude::*,
    sync::Arc, //
};

/// The files. They go when this is dropped.
#[pin_data]
pub(crate) struct Files {
    #[pin]
    stats: File<Arc<Ko2iblnd>>,
    #[pin]
    conns: File<Arc<Ko2iblnd>>,
    _dir: Dir,
}

impl Files {
    /// Makes the files.
    pub(crate) fn new(lnd: Arc<Ko2iblnd>) -> impl PinInit<Self, Error> {
        let dir = Dir::new(c"ko2iblnd");
        try_pin_init!(Self {
            stats <- dir.read_callback_file(c"stats", Ok::<_, Error>(lnd.clone()), &show_stats),
            conns <- dir.read_callback_file(c"conns", Ok::<_, Error>(lnd), &show_conns),
            _dir: dir,
        })
    }
}

fn show_stats(lnd: &Arc<Ko2iblnd>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(driver) = lnd.driver() {
        for network in driver.networks().iter() {
            writeln!(f, "nid {}", network.ni.info().nid)?;
        }
    }
    stats::show(f)?;
    writeln!(f, "live messages {}", lnet::live_messages())?;
    writeln!(f, "live lnet_rx {}", lnet::held_receives())?;
    writeln!(f, "counter lost_messages {}", lnet::lost_messages())
}

fn show_conns(lnd: &Arc<Ko2iblnd>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(driver) = lnd.driver() else {
        return Ok(());
    };
    for conn in driver.conns().iter() {
        let (snapshot, qp) = conn.locked(|inner| (inner.engine.snapshot(), inner.qp.shape()));
        let (number, wrs) = qp.unwrap_or((0, 0));
        writeln!(
            f,
            "{} {:#x} {:?} qp {} ({} send wrs) {}",
            conn.peer.nid, conn.id.0, conn.role, number, wrs, snapshot
        )?;
    }
    Ok(())
}
