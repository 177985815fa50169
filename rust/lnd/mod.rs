// SPDX-License-Identifier: GPL-2.0

//! The shell around [`driver`](crate::driver) and the engines of [`proto`](crate::proto): threads,
//! locks, memory, and calls of LNet, the verbs and the connection manager.
//!
//! What a message, a completion, an action, a connection request or an event of the CM leads to is
//! decided in `driver`, by way of [`shell`] and the traits that [`conn`], [`send`] and [`recv`]
//! implement. Decided here is still the order in which [`connd`] and [`passive`] make and take down
//! connections, which the simulator has a second time (`tests/host/src/sim/cm.rs`).
//!
//! What runs where:
//!
//! - LNet's threads call [`send`] and [`recv`], which map memory, feed a connection's engine under
//!   its lock and post what it wants posted;
//! - scheduler threads ([`sched`], [`exec`]) poll completions and call LNet;
//! - one thread, [`connd`], does what sleeps: CM events, making and destroying connections, and
//!   deadlines.
//!
//! Threads, and everything else but the counters, exist between the first NI and the last.
//!
//! # Locks
//!
//! In this order: the driver's mutexes (start and stop of NIs), a shard of a peer table, a peer.
//! The lock of a connection is taken with none of the latter held. All others are leaves. Nothing
//! that sleeps, calls LNet or drops a reference happens under a spinlock.

mod conn;
mod connd;
mod ctl;
mod debugfs;
mod dev;
mod display;
mod exec;
mod ni;
mod params;
mod passive;
mod peer;
mod post;
mod queue;
mod recv;
mod removal;
mod rxbuf;
mod sched;
mod send;
mod shell;
mod stats;
mod storage;
mod table;
mod tx;

pub(crate) use debugfs::Files;
pub(crate) use stats::LeakCheck;

use self::{
    conn::Conn,
    connd::Connd,
    dev::Dev,
    ni::Ni,
    removal::Devices,
    sched::Schedulers,
    stats::Event,
    table::Table, //
};
use crate::{
    driver::{
        admission,
        cm::{
            self,
            CmEvent, //
        },
        tunables::{
            self,
            O2ib,
            Resolved, //
        }, //
    },
    kx::{
        self,
        Kthread,
        NetWatch,
        NofsScope, //
    },
    lnet::{
        self,
        Asked,
        Ctl,
        CtlReply,
        Interface,
        Interfaces,
        Lnd,
        ModuleRef,
        O2ibTunables,
        Params,
        Received,
        RxHandle,
        SendMsg,
        Startup,
        Tunables, //
    },
    proto::Instant,
    rdma::{
        ClientRegistration,
        CmQueue,
        DeviceId, //
    },
    wire::Nid,
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Full,
            Relaxed, //
        },
        Arc,
        ArcBorrow,
        Mutex, //
    }, //
};

/// The present time, as the engines take it.
fn now() -> Instant {
    Instant(kx::monotonic_ns())
}

/// What there is between the first NI and the last.
#[pin_data]
pub(crate) struct Driver {
    #[pin]
    connd: Connd,
    #[pin]
    schedulers: Schedulers,
    #[pin]
    conns: Table<Conn>,
    #[pin]
    nis: Mutex<KVec<Arc<Ni>>>,
    #[pin]
    devs: Mutex<KVec<Arc<Dev>>>,
    /// Devices that are there.
    #[pin]
    devices: Mutex<KVec<DeviceId>>,
    /// The state of interfaces is to be looked at.
    look: AtomicFlag,
    #[pin]
    service: Mutex<Option<Service>>,
    tags: Atomic<u64>,
    /// Keeps the module loaded.
    _module: ModuleRef,
}

/// What holds the driver, until [`Driver::stop`]. Dropped in this order.
struct Service {
    _client: ClientRegistration<Devices>,
    net_watch: NetWatch,
    _connd: Kthread,
}

impl Driver {
    /// Starts what all NIs share.
    ///
    /// # Errors
    ///
    /// ENOMEM; ENODEV when the module is being unloaded.
    fn start() -> Result<Arc<Self>> {
        let module = ModuleRef::new()?;
        let event = kx::Event::new_arc()?;
        let cm = CmQueue::new(event.clone())?;
        let driver = Arc::pin_init(
            pin_init!(Self {
                connd <- Connd::new(event, cm),
                schedulers <- Schedulers::new(),
                conns <- Table::new(),
                nis <- new_mutex!(KVec::new(), "ko2iblnd::Driver::nis"),
                devs <- new_mutex!(KVec::new(), "ko2iblnd::Driver::devs"),
                devices <- new_mutex!(KVec::new(), "ko2iblnd::Driver::devices"),
                look: AtomicFlag::new(false),
                service <- new_mutex!(None, "ko2iblnd::Driver::service"),
                tags: Atomic::new(1),
                _module: module,
            }),
            GFP_KERNEL,
        )?;
        let service = Service {
            _connd: Connd::start(&driver)?,
            net_watch: NetWatch::new(driver.connd.event().clone())?,
            _client: ClientRegistration::new(Devices::new(driver.clone())?)?,
        };
        *driver.service.lock() = Some(service);
        Ok(driver)
    }

    /// Stops the threads, which hold the driver.
    fn stop(&self) {
        let service = self.service.lock().take();
        drop(service);
        self.schedulers.stop();
    }

    /// Has the state of interfaces looked at. Any context that may not sleep, too.
    fn look_at_interfaces(&self) {
        self.look.xchg(true, Full);
        self.connd.event().signal();
    }

    /// Whether the state of an interface, an address or a port has changed since the last call.
    fn interfaces_changed(&self) -> bool {
        let asked = self.look.xchg(false, Full);
        let service = self.service.lock();
        let nets = service
            .as_ref()
            .is_some_and(|service| service.net_watch.take());
        drop(service);
        let ports = self
            .devs
            .lock()
            .iter()
            .filter(|dev| dev.port_changed())
            .count();
        asked || nets || ports > 0
    }

    /// Tells LNet which NIs to avoid.
    fn update_usability(&self) {
        let mut at = 0;
        while let Some(ni) = self.ni_at(at) {
            at += 1;
            ni.update_usability();
        }
    }

    /// Some address that is on the device `id`.
    fn dev_on(&self, id: DeviceId) -> Option<Arc<Dev>> {
        self.devs.lock().iter().find(|dev| dev.is_on(id)).cloned()
    }

    /// A tag for a CM id, used once.
    fn next_tag(&self) -> u64 {
        self.tags.fetch_add(1, Relaxed)
    }

    /// NI number `at`, in no special order.
    fn ni_at(&self, at: usize) -> Option<Arc<Ni>> {
        self.nis.lock().get(at).cloned()
    }

    /// The NI with this NID.
    fn ni_by_nid(&self, nid: Nid) -> Option<Arc<Ni>> {
        self.nis
            .lock()
            .iter()
            .find(|ni| ni.info().nid == nid)
            .cloned()
    }

    /// Whether the NIs of the listener with `tag` are complete, see [`admission::is_complete`].
    fn is_complete(&self, tag: u64) -> bool {
        let nis = self.nis.lock();
        let on_dev = nis.iter().filter(|ni| ni.dev.tag() == tag);
        admission::is_complete(on_dev.map(|ni| ni.is_in_service()))
    }

    /// An event of a listener, or of an id that is gone. In connd.
    fn listener_event(&self, tag: u64, event: CmEvent<'_>) {
        let what = cm::listener(event);
        if what == cm::Listener::Moved {
            return self.follow_address(tag);
        }
        let devs = self.devs.lock();
        let Some(dev) = devs.iter().find(|dev| dev.tag() == tag) else {
            return;
        };
        match what {
            cm::Listener::Removed => pr_warn!("{}: RDMA device is being removed\n", dev.name()),
            cm::Listener::Moved | cm::Listener::Unexpected => Event::CmUnexpected.count(),
        }
    }

    /// The address that `iface` has, which is listened on from here on; and whether it is new.
    fn dev(&self, net: kx::Net, iface: &Interface, mrs: u32) -> Result<(Arc<Dev>, bool)> {
        let addr = iface.ipv4().ok_or(EINVAL)?;
        let mut devs = self.devs.lock();
        if let Some(dev) = devs.iter().find(|dev| dev.is(net, addr)) {
            return Ok((dev.clone(), false));
        }
        devs.reserve(1, GFP_KERNEL)?;
        let dev = Dev::open(self, net, iface, mrs)?;
        devs.push(dev.clone(), GFP_KERNEL)?;
        Ok((dev, true))
    }

    /// Closes addresses that no NI has any more.
    fn close_unused_devs(&self) {
        let nis = self.nis.lock();
        let mut devs = self.devs.lock();
        let used = |dev: &Arc<Dev>| nis.iter().any(|ni| Arc::ptr_eq(&ni.dev, dev));
        devs.retain(|dev| {
            let keep = used(dev);
            if !keep {
                dev.close();
            }
            keep
        });
    }

    /// Starts an NI on `iface`.
    fn start_ni(
        self: &Arc<Self>,
        startup: Startup<Conn>,
        iface: &Interface,
        resolved: Resolved,
    ) -> Result<Arc<Ni>> {
        let mut startup = startup;
        let net = startup.ni().net_ns().ok_or(EINVAL)?;
        let pools = tunables::pools(&resolved.o2ib, lnet::cpt_count()).map_err(|rejected| {
            pr_err!("{}: {}\n", iface.name(), rejected);
            EINVAL
        })?;
        let (dev, new) = self.dev(net, iface, pools.fmr)?;
        startup.use_interface(iface)?;
        startup.set_tunables(&params::to_lnet(&resolved));
        let node = dev.hca()?.device().node();
        startup.set_device_cpt(lnet::cpt_of_node(node))?;
        for cpt in startup.ni().cpts() {
            self.schedulers.start(self, cpt, new)?;
        }
        let handle = startup.into_handle();
        let ni = Ni::new(self.clone(), dev, resolved, pools, handle)?;
        self.nis.lock().push(ni.clone(), GFP_KERNEL)?;
        pr_info!("{}: up on {}\n", ni.info().nid, ni.dev.name());
        ni.update_usability();
        Ok(ni)
    }

    /// Ends an NI.
    fn stop_ni(&self, ni: Arc<Ni>) {
        ni.shutdown();
        self.nis.lock().retain(|other| !Arc::ptr_eq(other, &ni));
        self.close_unused_devs();
        pr_info!("{}: down\n", ni.info().nid);
    }
}

/// The LND that LNet knows.
#[pin_data]
pub(crate) struct Ko2iblnd {
    /// Defaults of the tunables, from the module parameters at load.
    defaults: O2ib,
    #[pin]
    driver: Mutex<Option<Arc<Driver>>>,
}

impl Ko2iblnd {
    /// No NI yet.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                defaults: params::capture(),
                driver <- new_mutex!(None, "ko2iblnd::Ko2iblnd::driver"),
            }),
            GFP_KERNEL,
        )
    }

    /// The driver, while there is an NI.
    fn driver(&self) -> Option<Arc<Driver>> {
        self.driver.lock().clone()
    }

    /// Stops everything when the last NI has gone.
    fn stop_if_unused(driver: &mut Option<Arc<Driver>>) {
        if driver
            .as_ref()
            .is_some_and(|driver| driver.nis.lock().is_empty())
        {
            if let Some(driver) = driver.take() {
                driver.stop();
            }
        }
    }
}

/// The interface for an NI (lnd-contract.md 16.1).
fn choose_interface(startup: &Startup<Conn>) -> Result<Interface> {
    let asked = startup.asked();
    if asked == Asked::V6 {
        pr_err!("the o2ib protocol has no form for IPv6 addresses\n");
        return Err(EINVAL);
    }
    let net = startup.ni().net_ns().ok_or(EINVAL)?;
    let interfaces = Interfaces::enumerate(net)?;
    let found = interfaces.select(startup.ni())?;
    let params = Params::read();
    let expected = startup.interface().unwrap_or(params.ipif_name());
    let found = if asked == Asked::Any && found.name().to_bytes() != expected.to_bytes() {
        // Neither name nor address was given, and LNet took the first interface there is.
        let named = interfaces
            .iter()
            .find(|i| i.name().to_bytes() == expected.to_bytes());
        named.ok_or(ENOENT)?
    } else {
        found
    };
    if found.ipv4().is_none() {
        // LNet lists IPv4 addresses first, so there is none.
        pr_err!(
            "{}: has no IPv4 address, and the o2ib protocol has no form for IPv6 addresses\n",
            found.name()
        );
        return Err(EINVAL);
    }
    Ok(found)
}

impl Lnd for Ko2iblnd {
    type Net = Ni;
    type Conn = Conn;

    fn startup(&self, startup: Startup<Conn>) -> Result<Arc<Ni>> {
        let _nofs = NofsScope::enter();
        let resolved = params::resolve(startup.ni(), &self.defaults)?;
        let iface = choose_interface(&startup)?;
        let mut guard = self.driver.lock();
        let driver = match &*guard {
            Some(driver) => driver.clone(),
            None => {
                let driver = Driver::start()?;
                *guard = Some(driver.clone());
                driver
            }
        };
        driver.start_ni(startup, &iface, resolved).inspect_err(|e| {
            pr_err!("{}: NI cannot be started: {:?}\n", iface.name(), e);
            driver.close_unused_devs();
            Self::stop_if_unused(&mut guard);
        })
    }

    fn shutdown(&self, net: Arc<Ni>) {
        let _nofs = NofsScope::enter();
        // LNet starts and stops one NI at a time.
        if let Some(driver) = self.driver() {
            driver.stop_ni(net);
        }
        Self::stop_if_unused(&mut self.driver.lock());
    }

    fn ctl(&self, net: ArcBorrow<'_, Ni>, cmd: Ctl) -> Result<CtlReply> {
        ctl::ctl(&net.into(), cmd)
    }

    fn send(
        &self,
        net: ArcBorrow<'_, Ni>,
        msg: SendMsg,
    ) -> core::result::Result<(), lnet::Refused> {
        send::send(net, msg)
    }

    fn recv(&self, rx: RxHandle<Conn>, msg: Received) {
        recv::recv(rx, msg);
    }

    fn dev_prio(&self, net: ArcBorrow<'_, Ni>, dev_idx: u32) -> u32 {
        net.dev.gpu_priority(dev_idx)
    }

    fn timeout(&self) -> i32 {
        i32::try_from(params::timeout_now()).unwrap_or(i32::MAX)
    }

    fn tun_defaults(&self, t: &mut Tunables) -> Result {
        params::tun_defaults(&self.defaults, t)
    }

    fn nl_get(&self, t: &mut O2ibTunables) {
        params::nl_get(t);
    }

    fn nl_set(&self, attr: u32, value: i64, t: &mut O2ibTunables) -> Result {
        params::nl_set(attr, value, t)
    }
}
