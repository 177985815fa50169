// SPDX-License-Identifier: GPL-2.0

//! Between LNet's tunables, the module parameters and the pure rules of
//! [`tunables`], and what is logged about them.

use crate::{
    driver::tunables::{
        self,
        Common,
        LiveParams,
        ModuleParams,
        O2ib,
        Resolved,
        SetError, //
    },
    lnet::{
        self,
        CmnTunables,
        Ni,
        O2ibTunables,
        Params,
        Tunables, //
    },
};
use kernel::prelude::*;

/// The version of the o2ib tunables.
const O2IB_VERSION: u32 = 1;

/// The module parameters that tunables come from, as they are now.
fn module_params() -> ModuleParams {
    let p = Params::read();
    ModuleParams {
        timeout: p.timeout,
        conns_per_peer: p.conns_per_peer,
        ntx: p.ntx,
        credits: p.credits,
        peer_credits: p.peer_credits,
        peer_credits_hiw: p.peer_credits_hiw,
        peer_buffer_credits: p.peer_buffer_credits,
        peer_timeout: p.peer_timeout,
        ib_mtu: p.ib_mtu,
        concurrent_sends: p.concurrent_sends,
        map_on_demand: p.map_on_demand,
        fmr_pool_size: p.fmr_pool_size,
        fmr_flush_trigger: p.fmr_flush_trigger,
        fmr_cache: p.fmr_cache,
        tos: p.tos,
    }
}

/// What may be written while an NI is up, as it is now; `conns_per_peer` is the NI's.
pub(crate) fn live(conns_per_peer: u16) -> LiveParams {
    let p = Params::read();
    LiveParams {
        timeout: p.timeout,
        lnet_timeout: lnet::lnet_timeout(),
        keepalive: p.keepalive,
        wrq_sge: p.wrq_sge,
        conns_per_peer: p.conns_per_peer,
        ni_conns_per_peer: conns_per_peer,
        cksum: p.cksum != 0,
    }
}

/// The LND timeout in seconds as it is now: the parameter, or LNet's when that is 0.
pub(crate) fn timeout_now() -> u32 {
    tunables::timeout(Params::read().timeout, lnet::lnet_timeout())
}

/// Captures the defaults of every NI, and logs what did not fit. At module load.
pub(crate) fn capture() -> O2ib {
    let (defaults, notes) = O2ib::captured(&module_params());
    for note in notes.iter() {
        pr_warn!("module parameter: {}\n", note);
    }
    defaults
}

/// Resolves the tunables of an NI that is being started, and logs what did not fit.
///
/// # Errors
///
/// `EINVAL` for a value with which no NI can start; which one is logged.
pub(crate) fn resolve(ni: &Ni, captured: &O2ib) -> Result<Resolved> {
    let p = module_params();
    let t = ni.tunables();
    let net = ni.net_number();
    let given = t.o2ib_set.then(|| from_o2ib(&t.o2ib));
    let common = from_common(&t.cmn);
    let resolved = tunables::resolve(&p, captured, &common, given.as_ref(), lnet::lnet_timeout())
        .map_err(|rejected| {
        pr_err!("NI on o2ib{}: {}\n", net, rejected);
        EINVAL
    })?;
    for note in resolved.notes.iter() {
        pr_warn!("NI on o2ib{}: {}\n", net, note);
    }
    if resolved.few_concurrent_sends {
        pr_warn!(
            "NI on o2ib{}: concurrent_sends {} is less than peer_credits {}\n",
            net,
            resolved.o2ib.concurrent_sends,
            resolved.common.peer_tx_credits
        );
    }
    Ok(resolved)
}

/// Resolved tunables in LNet's form.
pub(crate) fn to_lnet(resolved: &Resolved) -> Tunables {
    let mut t = Tunables::default();
    store_common(&resolved.common, &mut t.cmn);
    store_o2ib(&resolved.o2ib, &mut t.o2ib);
    t.o2ib_set = true;
    t
}

/// The tunables operation: what a user who adds an NI starts from.
///
/// # Errors
///
/// `EINVAL` for module parameters with which no NI can start; which one is logged.
pub(crate) fn tun_defaults(captured: &O2ib, t: &mut Tunables) -> Result {
    let (common, o2ib) = tunables::tun_defaults(
        &module_params(),
        captured,
        &from_common(&t.cmn),
        lnet::lnet_timeout(),
    )
    .map_err(|rejected| {
        pr_err!("module parameter: {}\n", rejected);
        EINVAL
    })?;
    store_common(&common, &mut t.cmn);
    store_o2ib(&o2ib, &mut t.o2ib);
    Ok(())
}

/// The netlink get operation: the values in force, with the current timeout. Does not sleep.
pub(crate) fn nl_get(t: &mut O2ibTunables) {
    t.timeout = timeout_now();
}

/// The netlink set operation. Does not sleep.
///
/// # Errors
///
/// `ERANGE` for a value out of range, `EINVAL` for an attribute that is not known.
pub(crate) fn nl_set(attr: u32, value: i64, t: &mut O2ibTunables) -> Result {
    let mut o = from_o2ib(t);
    tunables::nl_set(attr, value, &mut o).map_err(|e| {
        pr_err!("tunable not set: {}\n", e);
        match e {
            SetError::Range { .. } => ERANGE,
            SetError::Unknown(_) => EINVAL,
        }
    })?;
    store_o2ib(&o, t);
    Ok(())
}

fn from_common(c: &CmnTunables) -> Common {
    Common {
        peer_timeout: c.peer_timeout,
        peer_tx_credits: c.peer_tx_credits,
        peer_rtr_credits: c.peer_rtr_credits,
        max_tx_credits: c.max_tx_credits,
    }
}

fn store_common(common: &Common, c: &mut CmnTunables) {
    c.peer_timeout = common.peer_timeout;
    c.peer_tx_credits = common.peer_tx_credits;
    c.peer_rtr_credits = common.peer_rtr_credits;
    c.max_tx_credits = common.max_tx_credits;
}

fn from_o2ib(t: &O2ibTunables) -> O2ib {
    O2ib {
        peercredits_hiw: t.peercredits_hiw,
        map_on_demand: t.map_on_demand,
        concurrent_sends: t.concurrent_sends,
        fmr_pool_size: t.fmr_pool_size,
        fmr_flush_trigger: t.fmr_flush_trigger,
        fmr_cache: t.fmr_cache,
        conns_per_peer: t.conns_per_peer,
        ntx: t.ntx,
        timeout: t.timeout,
        tos: t.tos,
    }
}

fn store_o2ib(o: &O2ib, t: &mut O2ibTunables) {
    *t = O2ibTunables {
        version: O2IB_VERSION,
        peercredits_hiw: o.peercredits_hiw,
        map_on_demand: o.map_on_demand,
        concurrent_sends: o.concurrent_sends,
        fmr_pool_size: o.fmr_pool_size,
        fmr_flush_trigger: o.fmr_flush_trigger,
        fmr_cache: o.fmr_cache,
        conns_per_peer: o.conns_per_peer,
        ntx: o.ntx,
        timeout: o.timeout,
        tos: o.tos,
        pad: 0,
    };
}
