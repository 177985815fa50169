// SPDX-License-Identifier: GPL-2.0

//! Interface addresses that we listen on, and the RDMA devices behind them.

use super::{
    stats::{
        Counted,
        Event,
        Live, //
    }, //
};
use crate::{
    driver::{
        tunables,
        usable::Usability, //
    },
    kx::{
        self,
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
        Interfaces,
        Params, //
    },
    proto,
    rdma::{
        CmId,
        CmQueue,
        Device,
        DeviceId,
        Listener,
        Lkey,
        MrPool,
        Pd,
        PortState,
        PortWatch,
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

/// Says when the device of an [`Hca`] has been let go.
struct Release(Arc<kx::Event>);

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
    caps: proto::DeviceCaps,
    port: u32,
    watch: PortWatch,
    /// The device has reported a fatal error.
    failed: Atomic<bool>,
    /// The device is being removed.
    gone: Atomic<bool>,
    device: Arc<Device>,
    /// Dropped last.
    released: Release,
}

impl Hca {
    /// `event` is signalled when the state of the port changes.
    ///
    /// # Errors
    ///
    /// EOPNOTSUPP for a device without memory management extensions; ENOMEM, and what the provider
    /// returns.
    fn new(
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

    /// Whether the state of the port has changed since the last call.
    fn port_changed(&self) -> bool {
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

/// An interface address, shared and counted by the NIs that have it.
#[pin_data]
pub(crate) struct Dev {
    net: Net,
    addr: u32,
    /// The address label, such as `ib0:1`.
    name: CString,
    /// Index of the interface.
    index: u32,
    /// MRs that each pool keeps.
    mrs_per_cpt: u32,
    /// What connection requests to this address carry.
    tag: u64,
    /// Dropped first: stops listening.
    #[pin]
    listener: Mutex<Option<Listener>>,
    #[pin]
    hca: SpinLock<Option<Arc<Hca>>>,
    /// It is logged why the device cannot be used. Until it can.
    logged: Atomic<bool>,
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
        devices: &Devices,
        net: Net,
        iface: &Interface,
        mrs_per_cpt: u32,
    ) -> Result<Arc<Self>> {
        let dev = Arc::pin_init(
            try_pin_init!(Self {
                net,
                addr: iface.ipv4().ok_or(EINVAL)?,
                name: CString::try_from(iface.name())?,
                index: iface.index(),
                mrs_per_cpt,
                tag: devices.next_tag(),
                listener <- new_mutex!(None, "ko2iblnd::Dev::listener"),
                hca <- new_spinlock!(None, "ko2iblnd::Dev::hca"),
                logged: Atomic::new(false),
                _live: Live::Devs.hold(),
            }? Error),
            GFP_KERNEL,
        )?;
        dev.attach(devices)?;
        Ok(dev)
    }

    /// Finds the device of the address and listens.
    ///
    /// # Errors
    ///
    /// As of [`Dev::open`].
    pub(crate) fn attach(&self, devices: &Devices) -> Result {
        let id = self.bind(devices)?;
        let device = id.device()?.ok_or(ENODEV)?;
        let event = devices.event.clone();
        let hca = Hca::new(device.clone(), id.port(), self.mrs_per_cpt, event);
        let hca = hca.inspect_err(|e| self.log_once(&device, *e))?;
        drop(device);
        let listener = id.listen()?;
        // As long as this is held the device cannot go unnoticed.
        let present = devices.present.lock();
        if !present.contains(&hca.device.id()) {
            return Err(ENODEV);
        }
        *self.listener.lock() = Some(listener);
        let none = self.hca.lock().replace(hca);
        self.logged.store(false, Relaxed);
        drop(present);
        drop(none);
        Ok(())
    }

    /// Listens anew, because the CM tells a listener of moves by the hardware address that there
    /// was when it was bound. `false` when the address is on another device now, or on none: then
    /// nobody listens.
    ///
    /// # Errors
    ///
    /// Those of the CM; ENOMEM. Nobody listens then.
    pub(crate) fn listen_again(&self, devices: &Devices) -> Result<bool> {
        self.close();
        let id = self.bind(devices)?;
        let Some(device) = id.device()?.map(|device| device.id()) else {
            return Ok(false);
        };
        let listener = id.listen()?;
        // As in attach.
        let present = devices.present.lock();
        let stays = present.contains(&device) && self.is_on(device);
        if stays {
            *self.listener.lock() = Some(listener);
        }
        Ok(stays)
    }

    /// An id that is bound to the address.
    fn bind(&self, devices: &Devices) -> Result<CmId> {
        let service = u16::try_from(Params::read().service).map_err(|_| EINVAL)?;
        let id = CmId::new(&devices.cm, self.net, self.tag)?;
        id.set_reuseaddr(true)?;
        id.bind(&SockAddr::v4(self.addr.to_be_bytes(), service))?;
        Ok(id)
    }

    /// Logs why `device` cannot be used; once, because it is tried again every second.
    fn log_once(&self, device: &Device, error: Error) {
        if self.logged.xchg(true, Relaxed) {
            return;
        }
        if error == EOPNOTSUPP.to_error() {
            pr_err!(
                "{}: device {} has no memory management extensions\n",
                self.name(),
                device.name()
            );
        } else {
            pr_err!(
                "{}: device {} cannot be used: {:?}\n",
                self.name(),
                device.name(),
                error
            );
        }
    }

    /// The device `id` is being removed: if it is ours, lets go of it. What is left of it goes
    /// with the connections and descriptors that were made on it; the result says when.
    pub(crate) fn detach(&self, id: DeviceId) -> Option<Arc<kx::Event>> {
        let hca = {
            let mut guard = self.hca.lock();
            guard.take_if(|hca| hca.device.id() == id)
        }?;
        Event::DeviceGone.count();
        hca.gone.store(true, Relaxed);
        self.close();
        Some(hca.released.0.clone())
    }

    /// The device that is used, if there is one.
    pub(crate) fn device_id(&self) -> Option<DeviceId> {
        self.hca.lock().as_ref().map(|hca| hca.device.id())
    }

    /// Whether the device is `id`.
    pub(crate) fn is_on(&self, id: DeviceId) -> bool {
        self.device_id() == Some(id)
    }

    /// Whether there is no device.
    pub(crate) fn is_detached(&self) -> bool {
        self.hca.lock().is_none()
    }

    /// Whether the state of the device's port has changed since the last call.
    pub(crate) fn port_changed(&self) -> bool {
        self.hca().is_ok_and(|hca| hca.port_changed())
    }

    /// What can be said about the address now. Sleeps (takes RTNL).
    pub(crate) fn usability(&self) -> Usability {
        let hca = self.hca().ok();
        let hca = hca.filter(|hca| !hca.failed.load(Relaxed));
        let port = hca.as_ref().map(|hca| hca.device.port_active(hca.port));
        let iface = self.interface();
        let index = iface.as_ref().map_or(self.index, Interface::index);
        Usability {
            device: hca.is_some(),
            port: matches!(port, Some(Ok(true))),
            link: lnet::is_link_up(self.net, index).unwrap_or(false),
            address: iface.is_some(),
        }
    }

    /// The interface, if it is up and has the address: the same one, whatever its name is now, or
    /// one of the same name that has come in its place.
    fn interface(&self) -> Option<Interface> {
        let interfaces = Interfaces::enumerate(self.net).ok()?;
        let same =
            |i: &Interface| i.index() == self.index || i.name().to_bytes() == self.name.to_bytes();
        let mut all = interfaces.iter();
        all.find(|i| i.ipv4() == Some(self.addr) && same(i))
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

    /// LNet's preference for the device near GPU `dev_idx`. Does not sleep.
    ///
    /// Asked under LNet's spinlocks, so the device is looked at under the lock that keeps it here:
    /// a reference might turn out to be the last one, and dropping that sleeps.
    pub(crate) fn gpu_priority(&self, dev_idx: u32) -> u32 {
        let hca = self.hca.lock();
        let dma = hca.as_ref().and_then(|hca| hca.device.dma_device());
        lnet::gpu_priority(dma, dev_idx)
    }

    /// Stops listening. Sleeps.
    pub(crate) fn close(&self) {
        let listener = self.listener.lock().take();
        drop(listener);
    }
}

/// RDMA devices that are there, and the addresses that are listened on.
///
/// Lock order: addresses, then devices that are there.
#[pin_data]
pub(crate) struct Devices {
    /// Where the events of all CM ids go.
    cm: Arc<CmQueue>,
    /// Signalled when the state of a port changes.
    event: Arc<kx::Event>,
    /// Devices that are there: nothing attaches to others.
    #[pin]
    present: Mutex<KVec<DeviceId>>,
    #[pin]
    addresses: Mutex<KVec<Arc<Dev>>>,
    tags: Atomic<u64>,
}

impl Devices {
    /// None yet. CM events go to `cm`; `event` is signalled when the state of a port changes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(cm: Arc<CmQueue>, event: Arc<kx::Event>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                cm,
                event,
                present <- new_mutex!(KVec::new(), "ko2iblnd::Devices::present"),
                addresses <- new_mutex!(KVec::new(), "ko2iblnd::Devices::addresses"),
                tags: Atomic::new(1),
            }),
            GFP_KERNEL,
        )
    }

    /// Where the events of all CM ids go.
    pub(crate) fn cm(&self) -> &Arc<CmQueue> {
        &self.cm
    }

    /// A tag for a CM id, used once.
    pub(crate) fn next_tag(&self) -> u64 {
        self.tags.fetch_add(1, Relaxed)
    }

    /// A device is there.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: nothing will attach to it.
    pub(crate) fn add(&self, id: DeviceId) -> Result {
        Ok(self.present.lock().push(id, GFP_KERNEL)?)
    }

    /// A device is being removed. From here on nothing attaches to it.
    pub(crate) fn remove(&self, id: DeviceId) {
        self.present.lock().retain(|other| *other != id);
    }

    /// The address that `iface` has, which is listened on from here on; and whether it is new.
    ///
    /// # Errors
    ///
    /// As of [`Dev::open`].
    pub(crate) fn open(&self, net: Net, iface: &Interface, mrs: u32) -> Result<(Arc<Dev>, bool)> {
        let addr = iface.ipv4().ok_or(EINVAL)?;
        let mut addresses = self.addresses.lock();
        if let Some(dev) = addresses.iter().find(|dev| dev.is(net, addr)) {
            return Ok((dev.clone(), false));
        }
        addresses.reserve(1, GFP_KERNEL)?;
        let dev = Dev::open(self, net, iface, mrs)?;
        addresses.push(dev.clone(), GFP_KERNEL)?;
        Ok((dev, true))
    }

    /// Stops listening on addresses that are not `used`.
    pub(crate) fn close_unused(&self, used: impl Fn(&Arc<Dev>) -> bool) {
        self.addresses.lock().retain(|dev| {
            let keep = used(dev);
            if !keep {
                dev.close();
            }
            keep
        });
    }

    /// Some address that is on the device `id`.
    pub(crate) fn address_on(&self, id: DeviceId) -> Option<Arc<Dev>> {
        let addresses = self.addresses.lock();
        addresses.iter().find(|dev| dev.is_on(id)).cloned()
    }

    /// The address whose listener has `tag`.
    pub(crate) fn address_by_tag(&self, tag: u64) -> Option<Arc<Dev>> {
        let addresses = self.addresses.lock();
        addresses.iter().find(|dev| dev.tag() == tag).cloned()
    }

    /// Whether the state of a port has changed since the last call.
    pub(crate) fn ports_changed(&self) -> bool {
        let addresses = self.addresses.lock();
        addresses.iter().filter(|dev| dev.port_changed()).count() > 0
    }
}
