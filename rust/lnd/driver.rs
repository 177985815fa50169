// SPDX-License-Identifier: GPL-2.0

//! What exists between the first NI and the last: threads, devices, NIs and connections.

use super::{
    conn::{
        Conn,
        Conns,
        Network, //
    },
    connd::{
        Connd,
        Shared, //
    },
    device::Devices,
    networks::Networks,
    ni::{
        params,
        Ni, //
    },
    removal::Removal,
    traffic::sched::Schedulers, //
};
use crate::{
    driver::tunables::{
        self,
        Resolved, //
    },
    kx::{
        self,
        Kthread, //
    },
    lnet::{
        self,
        Interface,
        ModuleRef,
        Startup, //
    },
    rdma::{
        ClientRegistration,
        CmQueue, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// What there is between the first NI and the last.
#[pin_data]
pub(super) struct Driver {
    shared: Arc<Shared>,
    /// The threads and the notifications that use `shared`, until [`Driver::stop`].
    #[pin]
    service: Mutex<Option<Service>>,
    /// Keeps the module loaded.
    _module: ModuleRef,
}

/// Dropped in this order.
struct Service {
    _client: ClientRegistration<Removal>,
    _connd: Kthread,
}

impl Driver {
    /// Starts what all NIs share.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENODEV` when the module is being unloaded.
    pub(super) fn start() -> Result<Arc<Self>> {
        let module = ModuleRef::new()?;
        let event = kx::Event::new_arc()?;
        let devices = Devices::new(CmQueue::new(event.clone())?, event.clone())?;
        let networks = Networks::new()?;
        let conns = Arc::pin_init(Conns::new(), GFP_KERNEL)?;
        let removal = Removal::new(
            devices.clone(),
            networks.clone(),
            conns.clone(),
            event.clone(),
        )?;
        let shared = Shared {
            connd: Connd::new(event)?,
            schedulers: Schedulers::new(conns.clone())?,
            devices,
            networks,
            conns,
            removal: removal.clone(),
        };
        let shared = Arc::new(shared, GFP_KERNEL)?;
        let service = Service {
            _connd: Connd::start(&shared)?,
            _client: ClientRegistration::new(removal)?,
        };
        Arc::pin_init(
            pin_init!(Self {
                shared,
                service <- new_mutex!(Some(service), "ko2iblnd::Driver::service"),
                _module: module,
            }),
            GFP_KERNEL,
        )
    }

    /// Stops the threads.
    pub(super) fn stop(&self) {
        let service = self.service.lock().take();
        drop(service);
        self.shared.schedulers.stop();
    }

    /// The NIs that are up.
    pub(super) fn networks(&self) -> &Networks {
        &self.shared.networks
    }

    /// All connections.
    pub(super) fn conns(&self) -> &Conns {
        &self.shared.conns
    }

    /// Stops listening on addresses that no NI has any more.
    pub(super) fn close_unused_addresses(&self) {
        let devices = &self.shared.devices;
        self.networks()
            .with_used(|is_used| devices.close_unused(is_used));
    }

    /// Starts an NI on `iface`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an interface or tunables that do not do, `EINTR` when the caller is being
    /// killed, `ENOMEM`, and those of the CM and of the device.
    pub(super) fn start_ni(
        &self,
        startup: Startup<Conn>,
        iface: &Interface,
        resolved: Resolved,
    ) -> Result<Arc<Network>> {
        let mut startup = startup;
        let shared = &self.shared;
        let net = startup.ni().net_ns().ok_or(EINVAL)?;
        let pools = tunables::pools(&resolved.o2ib, lnet::cpt_count()).map_err(|rejected| {
            pr_err!("{}: {}\n", iface.name(), rejected);
            EINVAL
        })?;
        let (dev, new) = shared.devices.open(&net, iface, pools.fmr)?;
        startup.use_interface(iface)?;
        startup.set_tunables(&params::to_lnet(&resolved));
        let node = dev.hca()?.device().node();
        startup.set_device_cpt(lnet::cpt_of_node(node))?;
        for cpt in startup.ni().cpts() {
            shared.schedulers.start(cpt, new)?;
        }
        let handle = startup.into_handle();
        let ni = Ni::new(dev, resolved, pools, handle)?;
        let network = Network::new(ni.clone(), shared.connd.peers().clone())?;
        shared.networks.add(network.clone())?;
        pr_info!("{}: up on {}\n", ni.info().nid, ni.dev.name());
        ni.update_usability();
        Ok(network)
    }

    /// Ends an NI.
    pub(super) fn stop_ni(&self, network: Arc<Network>) {
        network.shutdown();
        self.networks().remove(&network);
        self.close_unused_addresses();
        pr_info!("{}: down\n", network.ni.info().nid);
    }
}
