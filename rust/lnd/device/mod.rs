// SPDX-License-Identifier: GPL-2.0

//! The RDMA devices of the system, the interface addresses that are listened on, and the devices
//! behind them.

mod address;
mod hca;

pub(crate) use address::Dev;
pub(crate) use hca::Hca;

use crate::{
    kx::{
        self,
        Net, //
    },
    lnet::Interface,
    rdma::{
        CmQueue,
        DeviceId, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    }, //
};

/// Tags of listeners have this bit, those of connections, which are their numbers, have not.
const LISTENERS: u64 = 1 << 63;

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
    /// The next tag of a listener.
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
                tags: Atomic::new(LISTENERS),
            }),
            GFP_KERNEL,
        )
    }

    /// Where the events of all CM ids go.
    pub(crate) fn cm(&self) -> &Arc<CmQueue> {
        &self.cm
    }

    /// A tag for the CM id of a listener, used once.
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
    pub(crate) fn open(&self, net: &Net, iface: &Interface, mrs: u32) -> Result<(Arc<Dev>, bool)> {
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
