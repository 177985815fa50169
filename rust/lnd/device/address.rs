// SPDX-License-Identifier: GPL-2.0

//! Interface addresses that are listened on.

use super::{
    super::stats::{
        Counted,
        Event,
        Live, //
    },
    hca::Hca,
    Devices, //
};
use crate::{
    driver::usable::Usability,
    kx::{
        self,
        errno::{
            ENETDOWN,
            EOPNOTSUPP, //
        },
        Net, //
    },
    lnet::{
        self,
        Interface,
        Interfaces,
        Params, //
    },
    rdma::{
        CmId,
        Device,
        DeviceId,
        Listener,
        SockAddr, //
    },
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

/// An interface address, shared and counted by the NIs that have it.
#[pin_data]
pub(crate) struct Dev {
    /// Network namespace, kept by the NIs.
    net: Net,
    /// IPv4 address, host order.
    addr: u32,
    /// The address label, such as `ib0:1`.
    name: CString,
    /// Index of the interface when the NI was started (`ifindex`).
    index: u32,
    /// MRs that the pool of each CPT keeps.
    mrs_per_cpt: u32,
    /// Tag of the listener, with which connection requests to this address are reported.
    tag: u64,
    /// Dropped first: stops listening.
    #[pin]
    listener: Mutex<Option<Listener>>,
    #[pin]
    hca: SpinLock<Option<Arc<Hca>>>,
    /// The GIDs of the device have changed, so the address may be on another one.
    gids_changed: Atomic<bool>,
    /// It is logged why the device cannot be used. Until it can.
    logged: Atomic<bool>,
    _live: Counted,
}

impl Dev {
    /// Listens on the address of `iface`.
    ///
    /// # Errors
    ///
    /// Those of the CM, among them `ENODEV` when the address is not one of an RDMA device and
    /// `EADDRINUSE`; `EOPNOTSUPP` for a device that cannot register memory; `ENOMEM`.
    pub(crate) fn open(
        devices: &Devices,
        net: &Net,
        iface: &Interface,
        mrs_per_cpt: u32,
    ) -> Result<Arc<Self>> {
        let dev = Arc::pin_init(
            try_pin_init!(Self {
                net: net.clone(),
                addr: iface.ipv4().ok_or(EINVAL)?,
                name: CString::try_from(iface.name())?,
                index: iface.index(),
                mrs_per_cpt,
                tag: devices.next_tag(),
                listener <- new_mutex!(None, "ko2iblnd::Dev::listener"),
                hca <- new_spinlock!(None, "ko2iblnd::Dev::hca"),
                gids_changed: Atomic::new(false),
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
    /// Those of the CM; `ENOMEM`. Nobody listens then.
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

    /// Whether the address is on another device since the GIDs of the present one have changed.
    /// Sleeps.
    ///
    /// The CM tells of a move when it has a new hardware address, and the core moves the GIDs by a
    /// work item: an id that is bound before it has run finds the old device. As long as the
    /// address is on no device, which is a state in between, the next call looks again.
    pub(crate) fn has_moved(&self, devices: &Devices) -> bool {
        let changed = self.hca().is_ok_and(|hca| hca.gids_changed());
        if !changed && !self.gids_changed.load(Relaxed) {
            return false;
        }
        // Any port: the listener is on that of the service.
        let id = self.bind_port(devices, 0);
        let device = id.and_then(|id| Ok(id.device()?.map(|device| device.id())));
        let device = device.ok().flatten();
        self.gids_changed.store(device.is_none(), Relaxed);
        device.is_some_and(|device| !self.is_on(device))
    }

    /// An id that is bound to the address and the port of the service.
    fn bind(&self, devices: &Devices) -> Result<CmId> {
        let service = u16::try_from(Params::read().service).map_err(|_| EINVAL)?;
        self.bind_port(devices, service)
    }

    fn bind_port(&self, devices: &Devices, service: u16) -> Result<CmId> {
        let mut id = CmId::new(&devices.cm, &self.net, self.tag)?;
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

    /// Whether the address can be used now, and if not, why. Sleeps (takes RTNL).
    pub(crate) fn usability(&self) -> Usability {
        let hca = self.hca().ok();
        let hca = hca.filter(|hca| !hca.failed.load(Relaxed));
        let port = hca.as_ref().map(|hca| hca.device.port_active(hca.port));
        let iface = self.interface();
        let index = iface.as_ref().map_or(self.index, Interface::index);
        Usability {
            device: hca.is_some(),
            port: matches!(port, Some(Ok(true))),
            link: lnet::is_link_up(&self.net, index).unwrap_or(false),
            address: iface.is_some(),
        }
    }

    /// The interface, if it is up and has the address: the same one, whatever its name is now, or
    /// one of the same name that has come in its place.
    fn interface(&self) -> Option<Interface> {
        let interfaces = Interfaces::enumerate(&self.net).ok()?;
        let same =
            |i: &Interface| i.index() == self.index || i.name().to_bytes() == self.name.to_bytes();
        let mut all = interfaces.iter();
        all.find(|i| i.ipv4() == Some(self.addr) && same(i))
    }

    /// Whether this is address `addr` in namespace `net`.
    pub(crate) fn is(&self, net: &Net, addr: u32) -> bool {
        self.net == *net && self.addr == addr
    }

    /// The namespace.
    pub(crate) fn net(&self) -> &Net {
        &self.net
    }

    /// The IPv4 address, host order.
    pub(crate) fn addr(&self) -> u32 {
        self.addr
    }

    /// Name of the interface.
    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    /// Tag of the listener, with which connection requests to this address are reported.
    pub(crate) fn tag(&self) -> u64 {
        self.tag
    }

    /// The device.
    ///
    /// # Errors
    ///
    /// `ENETDOWN` when it is gone.
    pub(crate) fn hca(&self) -> Result<Arc<Hca>> {
        self.hca.lock().clone().ok_or(ENETDOWN.to_error())
    }

    /// Stops listening. Sleeps.
    pub(crate) fn close(&self) {
        let listener = self.listener.lock().take();
        drop(listener);
    }
}
