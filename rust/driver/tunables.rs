// SPDX-License-Identifier: GPL-2.0

//! Tunables: from what the user gave to what an NI uses (lnd-contract.md 6 to 9 and 11).
//!
//! A value out of range is treated as the C driver treats it: what it clamps is clamped and noted
//! ([`Clamped`], for one line in the log), what makes its NI startup fail is [`Rejected`].

use crate::{
    proto::{
        peer::connect_timeout,
        NiTunables,
        Span, //
    },
    wire::MAX_FRAGS,
};
use core::fmt;

/// Fewest credits per peer; the depth of the receive queue that any peer may count on.
pub const PEER_CREDITS_MIN: i32 = 8;
/// Most credits per peer; a message returns at most 255.
pub const PEER_CREDITS_MAX: i32 = 255;
/// Most connections to one peer.
pub const CONNS_PER_PEER_MAX: u16 = 127;
/// Most scatter/gather entries of a work request.
pub const WRQ_SGE_MAX: u32 = 32;
/// Fewest: with one an IMMEDIATE could not gather its payload.
pub const WRQ_SGE_MIN: u32 = 2;
/// Most retries that the field in the connection request holds; of RNR retries: no limit.
pub const RETRIES_MAX: i32 = 7;
/// Fewest descriptors or registrations per CPT.
const POOL_MIN: u32 = 256;

/// The module parameters that tunables come from, as given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Each is the parameter of its name.
pub struct ModuleParams {
    pub timeout: i32,
    pub conns_per_peer: u32,
    pub ntx: i32,
    pub credits: i32,
    pub peer_credits: i32,
    pub peer_credits_hiw: i32,
    pub peer_buffer_credits: i32,
    pub peer_timeout: i32,
    pub ib_mtu: i32,
    pub concurrent_sends: i32,
    pub map_on_demand: i32,
    pub fmr_pool_size: i32,
    pub fmr_flush_trigger: i32,
    pub fmr_cache: i32,
    pub tos: i32,
}

/// Tunables that every kind of LNet network has; -1 is unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// Seconds; 0 or less: peers are not given up for silence.
    pub peer_timeout: i32,
    /// Concurrent sends to one peer: the queue depth to offer.
    pub peer_tx_credits: i32,
    /// Router buffers per peer; 0: LNet's default.
    pub peer_rtr_credits: i32,
    /// Concurrent sends of the NI.
    pub max_tx_credits: i32,
}

/// Tunables of an o2ib NI, in the widths that users' tools know. Given: 0 means the default,
/// except where said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct O2ib {
    /// Credits owed at which they are returned without waiting for a message.
    pub peercredits_hiw: u32,
    /// Obsolete; not 0. Given: `u32::MAX` means the default.
    pub map_on_demand: u32,
    /// Sends in flight on one connection.
    pub concurrent_sends: u32,
    /// Memory registrations over all CPTs.
    pub fmr_pool_size: u32,
    /// Obsolete.
    pub fmr_flush_trigger: u32,
    /// Obsolete.
    pub fmr_cache: u32,
    /// Connections started to a new peer.
    pub conns_per_peer: u16,
    /// Message descriptors over all CPTs.
    pub ntx: u16,
    /// LND timeout in seconds, for show only.
    pub timeout: u32,
    /// IP type of service; negative: the default, which may be the system's.
    pub tos: i16,
}

/// A value that was changed to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clamped {
    /// Name of the parameter or tunable.
    pub param: &'static str,
    /// What was given.
    pub given: i64,
    /// What is used.
    pub used: i64,
}

impl fmt::Display for Clamped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Clamped { param, given, used } = self;
        write!(f, "{param} {given} is out of range, using {used}")
    }
}

/// A value with which no NI can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Name of the parameter or tunable.
    pub param: &'static str,
    /// What was given.
    pub given: i64,
    /// What would do.
    pub want: &'static str,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rejected { param, given, want } = self;
        write!(f, "{param} {given} is not {want}")
    }
}

/// Room for a [`Clamped`] of each tunable that can be.
const NOTES_MAX: usize = 8;

/// What was clamped, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    notes: [Option<Clamped>; NOTES_MAX],
}

impl Notes {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Clamped> {
        self.notes.iter().flatten()
    }

    /// The note of a single value.
    fn only(self) -> Option<Clamped> {
        self.notes.into_iter().flatten().next()
    }

    /// Notes that `given` became `used`, if it did; returns `used`.
    fn check<T: Copy + Into<i64>>(&mut self, param: &'static str, given: T, used: T) -> T {
        let (g, u) = (given.into(), used.into());
        if g != u {
            if let Some(free) = self.notes.iter_mut().find(|n| n.is_none()) {
                *free = Some(Clamped {
                    param,
                    given: g,
                    used: u,
                });
            }
        }
        used
    }
}

/// Everything an NI uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The common part; nothing is unset.
    pub common: Common,
    /// The o2ib part; nothing stands for a default, but `tos`, where -1 is the system's.
    pub o2ib: O2ib,
    /// What did not fit.
    pub notes: Notes,
    /// Fewer sends in flight than credits: slow, and worth a line in the log.
    pub few_concurrent_sends: bool,
}

/// A parameter that is a count, in the width of the tunable; negative ones are refused at load.
fn count(param: i32) -> u32 {
    u32::try_from(param).unwrap_or(0)
}

/// `given`, or `default` when that is 0.
fn or(given: u32, default: u32) -> u32 {
    if given == 0 {
        default
    } else {
        given
    }
}

impl O2ib {
    /// The defaults of every NI, from the parameters at module load.
    pub fn captured(p: &ModuleParams) -> (Self, Notes) {
        let mut notes = Notes::default();
        let ntx = p.ntx.clamp(0, i32::from(u16::MAX));
        let cpp = p.conns_per_peer.min(u32::from(CONNS_PER_PEER_MAX));
        notes.check("ntx", p.ntx, ntx);
        notes.check("conns_per_peer", p.conns_per_peer, cpp);
        let defaults = O2ib {
            peercredits_hiw: count(p.peer_credits_hiw),
            map_on_demand: count(p.map_on_demand),
            concurrent_sends: count(p.concurrent_sends),
            fmr_pool_size: count(p.fmr_pool_size),
            fmr_flush_trigger: count(p.fmr_flush_trigger),
            fmr_cache: count(p.fmr_cache),
            conns_per_peer: u16::try_from(cpp).unwrap_or(CONNS_PER_PEER_MAX),
            ntx: u16::try_from(ntx).unwrap_or(u16::MAX),
            timeout: 0,
            tos: i16::try_from(p.tos).unwrap_or(-1),
        };
        (defaults, notes)
    }
}

/// Resolves the tunables of an NI that is being started.
///
/// `given` is what the user set for the NI, if anything, and `captured` the defaults otherwise;
/// `lnet_timeout` is LNet's LND timeout in seconds.
///
/// # Errors
///
/// The value that forbids starting an NI; as an errno: `EINVAL`.
pub fn resolve(
    p: &ModuleParams,
    captured: &O2ib,
    common: &Common,
    given: Option<&O2ib>,
    lnet_timeout: u32,
) -> Result<Resolved, Rejected> {
    check_mtu(p.ib_mtu)?;
    let mut notes = Notes::default();
    let common = resolve_common(p, common, &mut notes)?;
    let credits = count(common.peer_tx_credits);
    let mut o = *given.unwrap_or(captured);

    o.map_on_demand = match o.map_on_demand {
        u32::MAX => count(p.map_on_demand).max(1),
        0 => 1,
        other => other,
    };

    let hiw = or(o.peercredits_hiw, count(p.peer_credits_hiw));
    o.peercredits_hiw = hiw.max(credits / 2).min(credits.saturating_sub(1));
    if hiw != 0 {
        notes.check("peer_credits_hiw", hiw, o.peercredits_hiw);
    }

    let sends = or(o.concurrent_sends, credits);
    let used = sends.min(credits.saturating_mul(2)).max(credits / 2);
    o.concurrent_sends = notes.check("concurrent_sends", sends, used);

    o.fmr_pool_size = or(o.fmr_pool_size, count(p.fmr_pool_size));
    o.fmr_flush_trigger = or(o.fmr_flush_trigger, count(p.fmr_flush_trigger));
    o.fmr_cache = or(o.fmr_cache, count(p.fmr_cache));
    if o.ntx == 0 {
        o.ntx = u16::try_from(p.ntx.clamp(0, i32::from(u16::MAX))).unwrap_or(u16::MAX);
    }

    let cpp = match o.conns_per_peer {
        0 => p.conns_per_peer.max(1),
        n => u32::from(n),
    };
    o.conns_per_peer = u16::try_from(cpp).map_or(CONNS_PER_PEER_MAX, |n| n.min(CONNS_PER_PEER_MAX));
    notes.check(
        "conns_per_peer",
        i64::from(cpp),
        i64::from(o.conns_per_peer),
    );

    let tos = if o.tos < 0 { p.tos } else { i32::from(o.tos) };
    o.tos = i16::try_from(tos.clamp(-1, 255)).unwrap_or(-1);
    notes.check("tos", tos, i32::from(o.tos));
    o.timeout = timeout(p.timeout, lnet_timeout);

    Ok(Resolved {
        common,
        o2ib: o,
        notes,
        few_concurrent_sends: o.concurrent_sends < credits,
    })
}

/// The common part: parameters for what is unset, and the credits brought into range.
fn resolve_common(p: &ModuleParams, c: &Common, notes: &mut Notes) -> Result<Common, Rejected> {
    let set = |given: i32, param: i32| if given == -1 { param } else { given };
    let mut c = Common {
        peer_timeout: set(c.peer_timeout, p.peer_timeout),
        peer_tx_credits: set(c.peer_tx_credits, p.peer_credits),
        peer_rtr_credits: set(c.peer_rtr_credits, p.peer_buffer_credits),
        max_tx_credits: set(c.max_tx_credits, p.credits),
    };
    if c.max_tx_credits < 1 {
        return Err(Rejected {
            param: "credits",
            given: i64::from(c.max_tx_credits),
            want: "1 or more",
        });
    }
    let used = c
        .peer_tx_credits
        .clamp(PEER_CREDITS_MIN, PEER_CREDITS_MAX)
        .min(c.max_tx_credits);
    c.peer_tx_credits = notes.check("peer_credits", c.peer_tx_credits, used);
    Ok(c)
}

/// `ib_mtu` must be an MTU that InfiniBand has, or 0.
fn check_mtu(ib_mtu: i32) -> Result<(), Rejected> {
    match ib_mtu {
        0 | 256 | 512 | 1024 | 2048 | 4096 => Ok(()),
        _ => Err(Rejected {
            param: "ib_mtu",
            given: i64::from(ib_mtu),
            want: "0, 256, 512, 1024, 2048 or 4096",
        }),
    }
}

/// The tunables that a user who adds an NI starts from: the common part resolved, the o2ib part
/// raw.
///
/// # Errors
///
/// As of [`resolve`].
pub fn tun_defaults(
    p: &ModuleParams,
    captured: &O2ib,
    common: &Common,
    lnet_timeout: u32,
) -> Result<(Common, O2ib), Rejected> {
    let resolved = resolve(p, captured, common, None, lnet_timeout)?;
    Ok((resolved.common, *captured))
}

/// The LND timeout in seconds: the parameter, or LNet's when that is 0. Never 0.
pub fn timeout(param: i32, lnet_timeout: u32) -> u32 {
    or(count(param), lnet_timeout).max(1)
}

/// How many connections to start to a peer that is new now. The live value of an NI may have been
/// set to anything.
pub fn live_conns_per_peer(live: u16, param: u32) -> u8 {
    let n = or(u32::from(live), param).max(1);
    u8::try_from(n.min(u32::from(CONNS_PER_PEER_MAX))).unwrap_or(1)
}

/// The type of service of a connection that is started now; `None`: leave it to the system.
pub fn live_tos(live: i16, param: i32) -> Option<u8> {
    let tos = if live < 0 { param } else { i32::from(live) };
    u8::try_from(tos.min(255)).ok()
}

/// A number of retries for a connection request.
pub fn retries(param: &'static str, given: i32) -> (u8, Option<Clamped>) {
    let mut notes = Notes::default();
    let used = notes.check(param, given, given.clamp(0, RETRIES_MAX));
    (u8::try_from(used).unwrap_or(0), notes.only())
}

/// Scatter/gather entries of a work request, before the device's own limit.
pub fn wrq_sge(given: u32) -> (u16, Option<Clamped>) {
    let mut notes = Notes::default();
    let used = notes.check("wrq_sge", given, given.clamp(WRQ_SGE_MIN, WRQ_SGE_MAX));
    (u16::try_from(used).unwrap_or(2), notes.only())
}

/// What may be written while an NI is up, as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Each is the parameter of its name, but for those explained.
pub struct LiveParams {
    pub timeout: i32,
    /// LNet's LND timeout in seconds.
    pub lnet_timeout: u32,
    pub keepalive: i32,
    pub wrq_sge: u32,
    pub conns_per_peer: u32,
    /// `conns_per_peer` of the NI, which netlink can write.
    pub ni_conns_per_peer: u16,
    pub cksum: bool,
}

impl Resolved {
    /// The depth of the queue that the NI offers.
    pub fn peer_credits(&self) -> u16 {
        u16::try_from(self.common.peer_tx_credits).unwrap_or(u16::MAX)
    }

    /// The tunables of peers and connections that are made now.
    pub fn now(&self, live: &LiveParams) -> NiTunables {
        let small = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
        let timeout = Span::from_secs(timeout(live.timeout, live.lnet_timeout).into());
        let keepalive = u64::try_from(live.keepalive).unwrap_or(0);
        NiTunables {
            peer_credits: self.peer_credits(),
            credits_hiw: small(self.o2ib.peercredits_hiw),
            concurrent_sends: small(self.o2ib.concurrent_sends),
            max_frags: MAX_FRAGS,
            wrq_sge: wrq_sge(live.wrq_sge).0,
            timeout,
            connect_timeout: connect_timeout(timeout),
            keepalive: (keepalive > 0).then(|| Span::from_secs(keepalive)),
            conns_per_peer: live_conns_per_peer(live.ni_conns_per_peer, live.conns_per_peer),
            cksum: live.cksum,
        }
    }
}

/// MRs that a pool has from the start, when it keeps up to `kept`. It grows as they are needed.
pub fn first_mrs(kept: u32) -> u32 {
    const FIRST_MRS: u32 = 64;
    kept.min(FIRST_MRS)
}

/// Sizes of an NI's pools on each of its CPTs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pools {
    /// Message descriptors.
    pub ntx: u32,
    /// Memory registrations.
    pub fmr: u32,
}

/// Divides the pools over `cpts` CPTs.
///
/// # Errors
///
/// When there are fewer registrations than a quarter of the descriptors.
pub fn pools(o: &O2ib, cpts: u32) -> Result<Pools, Rejected> {
    if o.fmr_pool_size < u32::from(o.ntx) / 4 {
        return Err(Rejected {
            param: "fmr_pool_size",
            given: i64::from(o.fmr_pool_size),
            want: "ntx / 4 or more",
        });
    }
    let share = |total: u32| total.checked_div(cpts).unwrap_or(total).max(POOL_MIN);
    Ok(Pools {
        ntx: share(u32::from(o.ntx)),
        fmr: share(o.fmr_pool_size),
    })
}

/// Scheduler threads on one CPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedulers {
    /// Never more than this.
    pub limit: u32,
    /// Started with the first NI; a device that comes new adds one, up to the limit.
    pub first: u32,
}

impl Schedulers {
    /// How many there are to be, when there are `have` and an NI starts, on a device that is new or
    /// not.
    pub fn wanted(&self, have: u32, new_device: bool) -> u32 {
        match have {
            0 => self.first,
            _ if new_device => self.limit.min(have.saturating_add(1)),
            _ => have,
        }
    }
}

/// Scheduler threads for a CPT with `weight` CPUs; 0 of them only where there is no CPU.
pub fn schedulers(nscheds: i32, weight: u32) -> (Schedulers, Option<Clamped>) {
    let mut notes = Notes::default();
    let s = match count(nscheds) {
        0 => {
            let limit = weight.min((weight / 2).max(2));
            let first = limit.min(4);
            Schedulers { limit, first }
        }
        n => {
            let limit = notes.check("nscheds", n, n.min(weight));
            let first = limit;
            Schedulers { limit, first }
        }
    };
    (s, notes.only())
}

/// A netlink attribute that could not be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetError {
    /// Not in the tunable's range; as an errno: `ERANGE`.
    Range {
        /// Name of the tunable.
        param: &'static str,
        /// What was given.
        given: i64,
        /// Smallest legal value.
        min: i64,
        /// Largest legal value.
        max: i64,
    },
    /// No tunable has this number; as an errno: `EINVAL`.
    Unknown(u32),
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::Range {
                param,
                given,
                min,
                max,
            } => write!(f, "{param} {given} is outside {min}..{max}"),
            SetError::Unknown(attr) => write!(f, "there is no tunable {attr}"),
        }
    }
}

/// `value` in the width of its tunable.
fn within<T>(param: &'static str, given: i64, min: i64, max: i64) -> Result<T, SetError>
where
    T: TryFrom<i64>,
{
    let out = SetError::Range {
        param,
        given,
        min,
        max,
    };
    if !(min..=max).contains(&given) {
        return Err(out);
    }
    T::try_from(given).map_err(|_| out)
}

/// Sets one tunable by its netlink attribute number. `map_on_demand` and `timeout` are accepted
/// and ignored.
///
/// # Errors
///
/// The value is out of range or the number unknown; nothing is changed.
pub fn nl_set(attr: u32, value: i64, o: &mut O2ib) -> Result<(), SetError> {
    let int = i64::from(u32::MAX);
    match attr {
        1 => o.peercredits_hiw = within("peercredits_hiw", value, 0, int)?,
        2 => o.concurrent_sends = within("concurrent_sends", value, 0, int)?,
        3 | 9 => {}
        4 => o.fmr_pool_size = within("fmr_pool_size", value, 0, int)?,
        5 => o.fmr_flush_trigger = within("fmr_flush_trigger", value, 0, int)?,
        6 => o.fmr_cache = within("fmr_cache", value, 0, int)?,
        7 => o.ntx = within("ntx", value, 0, i64::from(u16::MAX))?,
        8 => {
            let max = i64::from(CONNS_PER_PEER_MAX);
            o.conns_per_peer = within("conns_per_peer", value, 0, max)?;
        }
        10 => o.tos = within("tos", value, -1, 255)?,
        _ => return Err(SetError::Unknown(attr)),
    }
    Ok(())
}
