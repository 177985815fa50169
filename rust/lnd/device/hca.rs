// SPDX-License-Identifier: GPL-2.0

//! RDMA devices as interface addresses use them.

use crate::{
    driver::tunables,
    kx::{
        self,
        errno::EOPNOTSUPP,
        Cpt, //
    },
    lnet::{
        self,
        Params, //
    },
    proto,
    rdma::{
        Device,
        MrPool,
        Pd,
        PortState,
        PortWatch, //
    },
    wire::MAX_FRAGS,
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

/// Signals when the last reference to an [`Hca`] has gone.
pub(super) struct Release(pub(super) Arc<kx::Event>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.signal();
    }
}

/// An RDMA device as an interface address uses it: what connections, descriptors and MRs are made
/// on, and keep until they are gone.
pub(crate) struct Hca {
    /// One per CPT.
    mrs: KVec<Arc<MrPool>>,
    pd: Arc<Pd>,
    /// Limits of the device.
    caps: proto::DeviceCaps,
    /// Number of the port, from 1.
    pub(super) port: u32,
    /// Events of the port since they were last taken.
    watch: PortWatch,
    /// The device has reported a fatal error.
    pub(super) failed: Atomic<bool>,
    /// The device is being removed.
    pub(super) gone: Atomic<bool>,
    pub(super) device: Arc<Device>,
    /// Dropped last.
    pub(super) released: Release,
}

impl Hca {
    /// `event` is signalled when the state of the port changes.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for a device without memory management extensions; `ENOMEM`, and what the
    /// provider returns.
    pub(super) fn new(
        device: Arc<Device>,
        port: u32,
        mrs_per_cpt: u32,
        event: Arc<kx::Event>,
    ) -> Result<Arc<Self>> {
        let caps = device.caps();
        if !caps.fast_reg {
            return Err(EOPNOTSUPP.to_error());
        }
        let pd = Pd::new(&device)?;
        let gaps = Params::read().use_fastreg_gaps == 1 && caps.sg_gaps;
        // What needs more pages than the device can register in one MR fails when it is mapped.
        let pages = u32::from(MAX_FRAGS).min(caps.max_fast_reg_pages);
        let mut mrs = KVec::with_capacity(lnet::cpt_count() as usize, GFP_KERNEL)?;
        for _ in 0..lnet::cpt_count() {
            let first = tunables::first_mrs(mrs_per_cpt);
            let pool = MrPool::new(&pd, pages, gaps, first, mrs_per_cpt)?;
            mrs.push(pool, GFP_KERNEL)?;
        }
        let caps = proto::DeviceCaps {
            max_qp_wr: caps.max_qp_wr,
            max_cqe: caps.max_cqe,
            max_send_sge: u16::try_from(caps.max_send_sge).unwrap_or(u16::MAX),
            max_mr_pages: caps.max_fast_reg_pages,
        };
        let hca = Self {
            mrs,
            pd,
            caps,
            port,
            watch: PortWatch::new(&device, port, event)?,
            failed: Atomic::new(false),
            gone: Atomic::new(false),
            device,
            released: Release(kx::Event::new_arc()?),
        };
        Ok(Arc::new(hca, GFP_KERNEL)?)
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The protection domain.
    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// What the device can do.
    pub(crate) fn caps(&self) -> &proto::DeviceCaps {
        &self.caps
    }

    /// The MRs for peers that `cpt` serves.
    pub(crate) fn mrs(&self, cpt: Cpt) -> Option<&Arc<MrPool>> {
        self.mrs.get(cpt.0 as usize).or_else(|| self.mrs.first())
    }

    /// Whether the GIDs of the port have changed since the last call.
    pub(super) fn gids_changed(&self) -> bool {
        self.watch.take_gid_change()
    }

    /// Whether the state of the port has changed since the last call.
    pub(super) fn port_changed(&self) -> bool {
        match self.watch.take() {
            Some(PortState::Fatal) => {
                self.failed.store(true, Relaxed);
                true
            }
            Some(PortState::Active | PortState::Down) => true,
            None => false,
        }
    }

    /// Whether the device is being removed: nothing made on it is to be kept.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }
}
