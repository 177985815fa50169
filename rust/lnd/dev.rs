// SPDX-License-Identifier: GPL-2.0

//! Interface addresses that we listen on, and the RDMA devices behind them.

use super::{
    stats::{
        Counted,
        Live, //
    },
    Driver, //
};
use crate::{
    kx::{
        errno::{
            ENETDOWN,
            EOPNOTSUPP, //
        },
        Cpt,
        Net, //
    },
    lnet::{
        self,
        Interface,
        Params, //
    },
    proto,
    rdma::{
        CmId,
        Device,
        Listener,
        Lkey,
        MrPool,
        Pd,
        SockAddr, //
    },
    wire::MAX_FRAGS,
};
use kernel::{
    new_mutex,
    new_spinlock,
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex,
        SpinLock, //
    }, //
};

/// MRs that a pool has from the start. It grows as they are needed.
const FIRST_MRS: u32 = 64;

/// An RDMA device as an interface address uses it: what connections, descriptors and MRs are made
/// on, and keep until they are gone.
pub(crate) struct Hca {
    device: Arc<Device>,
    pd: Arc<Pd>,
    /// One per CPT.
    mrs: KVec<Arc<MrPool>>,
    caps: proto::DeviceCaps,
    port: u32,
    gone: Atomic<bool>,
}

impl Hca {
    fn new(device: Arc<Device>, port: u32, mrs_per_cpt: u32) -> Result<Arc<Self>> {
        let caps = device.caps();
        if !caps.fast_reg {
            pr_err!("{}: device has no memory management extensions\n", device.name());
            return Err(EOPNOTSUPP.to_error());
        }
        let pd = Pd::new(&device)?;
        let gaps = Params::read().use_fastreg_gaps == 1 && caps.sg_gaps;
        let mut mrs = KVec::with_capacity(lnet::cpt_count() as usize, GFP_KERNEL)?;
        for _ in 0..lnet::cpt_count() {
            let first = FIRST_MRS.min(mrs_per_cpt);
            let pool = MrPool::new(&pd, MAX_FRAGS.into(), gaps, first, mrs_per_cpt)?;
            mrs.push(pool, GFP_KERNEL)?;
        }
        let caps = proto::DeviceCaps {
            max_qp_wr: caps.max_qp_wr,
            max_cqe: caps.max_cqe,
            max_send_sge: u16::try_from(caps.max_send_sge).unwrap_or(u16::MAX),
            max_mr_pages: caps.max_fast_reg_pages,
        };
        let hca = Self {
            device,
            pd,
            mrs,
            caps,
            port,
            gone: Atomic::new(false),
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

    /// The key for memory that only this node names.
    pub(crate) fn lkey(&self) -> Lkey {
        self.pd.lkey()
    }

    /// What the device can do.
    pub(crate) fn caps(&self) -> &proto::DeviceCaps {
        &self.caps
    }

    /// The MRs for peers that `cpt` serves.
    pub(crate) fn mrs(&self, cpt: Cpt) -> Option<&Arc<MrPool>> {
        self.mrs.get(cpt.0 as usize).or_else(|| self.mrs.first())
    }

    /// Port of the device.
    pub(crate) fn port(&self) -> u32 {
        self.port
    }

    /// Whether the device is being removed: nothing made on it is to be kept.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }
}

/// An interface address, shared and counted by the NIs that have it.
#[pin_data]
pub(crate) struct Dev {
    net: Net,
    addr: u32,
    name: CString,
    /// What connection requests to this address carry.
    tag: u64,
    /// Dropped first: stops listening.
    #[pin]
    listener: Mutex<Option<Listener>>,
    #[pin]
    hca: SpinLock<Option<Arc<Hca>>>,
    _live: Counted,
}

impl Dev {
    /// Listens on the address of `iface`.
    ///
    /// # Errors
    ///
    /// Those of the CM, among them ENODEV when the address is not one of an RDMA device and
    /// EADDRINUSE; EOPNOTSUPP for a device that cannot register memory; ENOMEM.
    pub(crate) fn open(
        driver: &Driver,
        net: Net,
        iface: &Interface,
        mrs_per_cpt: u32,
    ) -> Result<Arc<Self>> {
        let addr = iface.ipv4().ok_or(EINVAL)?;
        let service = u16::try_from(Params::read().service).map_err(|_| EINVAL)?;
        let tag = driver.next_tag();
        let id = CmId::new(&driver.connd.cm, net, tag)?;
        id.set_reuseaddr(true)?;
        id.bind(&SockAddr::v4(addr.to_be_bytes(), service))?;
        let device = id.device()?.ok_or(ENODEV)?;
        let hca = Hca::new(device, id.port(), mrs_per_cpt)?;
        let name = CString::try_from(iface.name())?;
        let dev = Arc::pin_init(
            pin_init!(Self {
                net,
                addr,
                name,
                tag,
                listener <- new_mutex!(None, "ko2iblnd::Dev::listener"),
                hca <- new_spinlock!(Some(hca), "ko2iblnd::Dev::hca"),
                _live: Live::Devs.hold(),
            }),
            GFP_KERNEL,
        )?;
        let listener = id.listen()?;
        *dev.listener.lock() = Some(listener);
        Ok(dev)
    }

    /// Whether this is address `addr` in namespace `net`.
    pub(crate) fn is(&self, net: Net, addr: u32) -> bool {
        self.net == net && self.addr == addr
    }

    /// The namespace.
    pub(crate) fn net(&self) -> Net {
        self.net
    }

    /// The IPv4 address, host order.
    pub(crate) fn addr(&self) -> u32 {
        self.addr
    }

    /// Name of the interface.
    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    /// What connection requests to this address carry.
    pub(crate) fn tag(&self) -> u64 {
        self.tag
    }

    /// The device.
    ///
    /// # Errors
    ///
    /// ENETDOWN when it is gone.
    pub(crate) fn hca(&self) -> Result<Arc<Hca>> {
        self.hca.lock().clone().ok_or(ENETDOWN.to_error())
    }

    /// Stops listening. Sleeps.
    pub(crate) fn close(&self) {
        let listener = self.listener.lock().take();
        drop(listener);
    }
}
