// SPDX-License-Identifier: GPL-2.0

//! The files in `/sys/kernel/debug/ko2iblnd/`.

use super::{
    ops::Ko2iblnd,
    stats, //
};
use crate::{
    kx::debugfs::{
        Dir,
        File, //
    },
    lnet,
};
use kernel::{
    fmt,
    prelude::*,
    sync::Arc, //
};

/// The files. They go when this is dropped.
pub(crate) struct Files {
    _stats: File<Arc<Ko2iblnd>>,
    _conns: File<Arc<Ko2iblnd>>,
}

impl Files {
    /// Makes the files.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(crate) fn new(lnd: &Arc<Ko2iblnd>) -> Result<Self> {
        let dir = Arc::new(Dir::new(c"ko2iblnd"), GFP_KERNEL)?;
        Ok(Self {
            _stats: File::new(&dir, c"stats", lnd.clone(), show_stats)?,
            _conns: File::new(&dir, c"conns", lnd.clone(), show_conns)?,
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
            conn.peer.nid,
            conn.key.raw(),
            conn.role,
            number,
            wrs,
            snapshot
        )?;
    }
    Ok(())
}
