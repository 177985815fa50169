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
    conn::Conn,
    dev::Dev,
    ni::Ni,
    stats::Event,
    Driver, //
};
use crate::{
    proto::Cause,
    rdma::{
        Client,
        Device,
        DeviceId, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// How often to look for what still holds a device that is being removed, in nanoseconds.
const LOOK_AGAIN_NS: u64 = 100_000_000;

/// What the RDMA core tells of devices.
pub(crate) struct Devices {
    driver: Arc<Driver>,
}

impl Devices {
    /// Tells `driver` of devices.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(crate) fn new(driver: Arc<Driver>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { driver }, GFP_KERNEL)?)
    }
}

impl Client for Devices {
    fn add(&self, dev: Arc<Device>) {
        let added = self.driver.devices.lock().push(dev.id(), GFP_KERNEL);
        if added.is_err() {
            pr_err!("{}: no memory to take note of the device\n", dev.name());
        }
    }

    fn remove(&self, id: DeviceId) {
        // From here on nothing attaches to it.
        self.driver.devices.lock().retain(|other| *other != id);
        // Not by position, which changes when an address goes at the same time.
        while let Some(dev) = self.driver.dev_on(id) {
            self.driver.detach(&dev, id);
        }
    }
}

impl Driver {
    /// Takes everything down that `dev` has on the device `id`, and waits until it is gone.
    fn detach(&self, dev: &Arc<Dev>, id: DeviceId) {
        let Some(released) = dev.detach(id) else {
            return;
        };
        pr_warn!("{}: RDMA device is gone\n", dev.name());
        self.look_at_interfaces();
        loop {
            self.each_ni(dev, Ni::device_gone);
            self.close_conns(|conn| conn.device == id);
            if released.wait_timeout(LOOK_AGAIN_NS) {
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

    /// The address of the listener with `tag` has moved: attaches to the device that has it now.
    /// In connd.
    pub(super) fn follow_address(&self, tag: u64) {
        let dev = self
            .devs
            .lock()
            .iter()
            .find(|dev| dev.tag() == tag)
            .cloned();
        let Some((dev, old)) = dev.and_then(|dev| dev.device_id().map(|id| (dev, id))) else {
            return;
        };
        Event::AddressMoved.count();
        self.look_at_interfaces();
        match dev.listen_again(self) {
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
        self.each_ni(&dev, Ni::device_gone);
        self.close_conns(|conn| conn.device == old && Arc::ptr_eq(&conn.peer.ni.dev, &dev));
        self.attach_all();
    }

    /// Calls `f` for every NI on `dev`.
    fn each_ni(&self, dev: &Arc<Dev>, f: impl Fn(&Ni)) {
        let mut at = 0;
        while let Some(ni) = self.ni_at(at) {
            at += 1;
            if Arc::ptr_eq(&ni.dev, dev) {
                f(&ni);
            }
        }
    }

    /// Attaches addresses without a device to the one that has them now, if there is one.
    ///
    /// By way of the NIs, because it is they that keep the namespace of an address.
    pub(super) fn attach_all(&self) {
        let mut at = 0;
        while let Some(ni) = self.ni_at(at) {
            at += 1;
            let dev = &ni.dev;
            if dev.is_detached() && dev.attach(self).is_ok() {
                pr_info!("{}: RDMA device is back\n", dev.name());
                self.look_at_interfaces();
            }
        }
    }
}
