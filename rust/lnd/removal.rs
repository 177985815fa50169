// SPDX-License-Identifier: GPL-2.0

//! RDMA devices that come and go under NIs.
//!
//! When a device is removed, the NIs on it stay, but are detached: LNet is told to avoid them, and
//! what they are given to send fails. When a device has their address again, they attach to it.
//!
//! When the address moves, which is what a bond does whose active leg fails, the connections are
//! closed, because their peers send to where it was; if another device has it now, the NIs attach
//! to that one.

use super::{
    conn::{
        Conn,
        Conns,
        Network, //
    },
    device::{
        Dev,
        Devices, //
    },
    networks::Networks,
    stats::Event,
};
use crate::{
    driver::cm::{
        self,
        CmEvent, //
    },
    kx::{
        self,
        NetWatch, //
    },
    proto::Cause,
    rdma::{
        Client,
        Device,
        DeviceId, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Full, //
        },
        Arc, //
    }, //
};

/// How often what still holds a device that is being removed is closed again, in nanoseconds.
const CLOSE_AGAIN_NS: u64 = 100_000_000;

/// Follows devices and addresses as they come, move and go.
pub(crate) struct Removal {
    devices: Arc<Devices>,
    networks: Arc<Networks>,
    conns: Arc<Conns>,
    net_watch: NetWatch,
    /// Interfaces are to be checked, whether or not anything is seen to have changed.
    check: AtomicFlag,
    /// Wakes the thread that checks interfaces.
    event: Arc<kx::Event>,
}

impl Removal {
    /// Follows `devices` for what is made on them. `event` is signalled when
    /// [`Removal::interfaces_changed`] is worth a call.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the notifier.
    pub(crate) fn new(
        devices: Arc<Devices>,
        networks: Arc<Networks>,
        conns: Arc<Conns>,
        event: Arc<kx::Event>,
    ) -> Result<Arc<Self>> {
        let removal = Self {
            devices,
            networks,
            conns,
            net_watch: NetWatch::new(event.clone())?,
            check: AtomicFlag::new(false),
            event,
        };
        Ok(Arc::new(removal, GFP_KERNEL)?)
    }

    /// Requests a check of the interfaces. Callable from atomic context.
    fn request_check(&self) {
        self.check.xchg(true, Full);
        self.event.signal();
    }

    /// Whether the state of an interface, an address or a port has changed since the last call.
    pub(crate) fn interfaces_changed(&self) -> bool {
        let requested = self.check.xchg(false, Full);
        let nets = self.net_watch.take();
        let ports = self.devices.ports_changed();
        requested || nets || ports
    }

    /// Handles an event of a listener, or of an id that is gone. In connd.
    pub(crate) fn listener_event(&self, tag: u64, event: CmEvent<&[u8]>) {
        let what = cm::listener(event);
        if what == cm::Listener::Moved {
            return self.follow_address(tag);
        }
        let Some(dev) = self.devices.address_by_tag(tag) else {
            return;
        };
        match what {
            cm::Listener::Removed => pr_warn!("{}: RDMA device is being removed\n", dev.name()),
            cm::Listener::Moved | cm::Listener::Unexpected => Event::CmUnexpected.count(),
        }
    }

    /// Takes everything down that `dev` has on the device `id`, and waits until it is gone.
    fn detach(&self, dev: &Arc<Dev>, id: DeviceId) {
        let Some(released) = dev.detach(id) else {
            return;
        };
        pr_warn!("{}: RDMA device is gone\n", dev.name());
        self.request_check();
        loop {
            self.device_gone(dev);
            self.close_conns(|conn| conn.device == id);
            if released.wait_timeout(CLOSE_AGAIN_NS) {
                return;
            }
        }
    }

    fn close_conns(&self, which: impl Fn(&Conn) -> bool) {
        for conn in self.conns.iter() {
            if which(&conn) {
                conn.drive(|engine, now| engine.close(now, Cause::DeviceGone));
            }
        }
    }

    /// Attaches an address that has moved, the one of the listener with `tag`, to the device that
    /// has it now.
    fn follow_address(&self, tag: u64) {
        let dev = self.devices.address_by_tag(tag);
        let Some((dev, old)) = dev.and_then(|dev| dev.device_id().map(|id| (dev, id))) else {
            return;
        };
        Event::AddressMoved.count();
        self.request_check();
        match dev.listen_again(&self.devices) {
            Ok(true) => {
                crate::warn_ratelimited!("{}: address has moved, on the same device\n", dev.name());
                return;
            }
            Ok(false) => {
                crate::warn_ratelimited!("{}: address has moved to another device\n", dev.name());
            }
            Err(e) => crate::warn_ratelimited!("{}: address has moved: {:?}\n", dev.name(), e),
        }
        // What is left of the old one goes with its connections; nobody waits for that.
        drop(dev.detach(old));
        self.device_gone(&dev);
        self.close_conns(|conn| conn.device == old && Arc::ptr_eq(&conn.peer.ni.dev, &dev));
        self.attach_all();
    }

    /// Tells the networks on `dev` that their device is going away.
    fn device_gone(&self, dev: &Arc<Dev>) {
        self.networks
            .iter()
            .filter(|network| Arc::ptr_eq(&network.ni.dev, dev))
            .for_each(|network: Arc<Network>| network.device_gone());
    }

    /// Follows addresses that are on another device, of which the CM has told too early.
    pub(crate) fn follow_addresses(&self) {
        for network in self.networks.iter() {
            let dev = &network.ni.dev;
            if dev.has_moved(&self.devices) {
                self.follow_address(dev.tag());
            }
        }
    }

    /// Attaches addresses without a device to the one that has them now, if there is one, and tries
    /// again what a device has refused.
    pub(crate) fn attach_all(&self) {
        for network in self.networks.iter() {
            network.ni.retry_stuck();
            let dev = &network.ni.dev;
            if dev.is_detached() && dev.attach(&self.devices).is_ok() {
                pr_info!("{}: RDMA device is back\n", dev.name());
                self.request_check();
            }
        }
    }
}

impl Client for Removal {
    fn add(&self, dev: Arc<Device>) {
        if self.devices.add(dev.id()).is_err() {
            pr_err!("{}: no memory to take note of the device\n", dev.name());
        }
    }

    fn remove(&self, id: DeviceId) {
        self.devices.remove(id);
        // Not by position, which changes when an address goes at the same time.
        while let Some(dev) = self.devices.address_on(id) {
            self.detach(&dev, id);
        }
    }
}
