// SPDX-License-Identifier: GPL-2.0

//! The operations that LNet calls.

use super::{
    conn::{
        Conn,
        Network, //
    },
    ctl,
    driver::Driver,
    ni::params,
    traffic::{
        recv,
        send, //
    }, //
};
use crate::{
    driver::tunables::O2ib,
    kx::NofsScope,
    lnet::{
        self,
        Asked,
        Ctl,
        CtlReply,
        Interface,
        Interfaces,
        Lnd,
        O2ibTunables,
        Params,
        Received,
        RxHandle,
        SendMsg,
        Startup,
        Tunables, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow,
        Mutex, //
    }, //
};

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
    /// `ENOMEM`.
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
    pub(super) fn driver(&self) -> Option<Arc<Driver>> {
        self.driver.lock().clone()
    }

    /// Stops everything when the last NI has gone.
    fn stop_if_unused(driver: &mut Option<Arc<Driver>>) {
        if driver
            .as_ref()
            .is_some_and(|driver| driver.networks().is_empty())
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
    let interfaces = Interfaces::enumerate(&net)?;
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
    type Net = Network;
    type Conn = Conn;

    fn startup(&self, startup: Startup<Conn>) -> Result<Arc<Network>> {
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
            driver.close_unused_addresses();
            Self::stop_if_unused(&mut guard);
        })
    }

    fn shutdown(&self, net: Arc<Network>) {
        let _nofs = NofsScope::enter();
        // LNet starts and stops one NI at a time.
        if let Some(driver) = self.driver() {
            driver.stop_ni(net);
        }
        Self::stop_if_unused(&mut self.driver.lock());
    }

    fn ctl(&self, net: ArcBorrow<'_, Network>, cmd: Ctl) -> Result<CtlReply> {
        ctl::ctl(&net, cmd)
    }

    fn send(
        &self,
        net: ArcBorrow<'_, Network>,
        msg: SendMsg,
    ) -> core::result::Result<(), lnet::Refused> {
        send::send(net, msg)
    }

    fn recv(&self, rx: RxHandle<Conn>, msg: Received) {
        recv::recv(rx, msg);
    }

    fn dev_prio(&self, net: ArcBorrow<'_, Network>, dev_idx: u32) -> u32 {
        // Messages with GPU memory are refused, so LNet is not to prefer this NI for them.
        let _ = (net, dev_idx);
        lnet::NO_PREFERENCE
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
