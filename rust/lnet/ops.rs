// SPDX-License-Identifier: GPL-2.0

//! The table of operations that LNet calls, and its registration.

use super::{
    handle::NiHandle,
    msg::{
        Message,
        Received,
        Refused,
        RxHandle,
        RxOwner,
        SendMsg, //
    },
    startup::{
        Asked,
        Startup, //
    },
    O2ibTunables, //
    Tunables,
};
use crate::{
    ffi::lnet as ffi,
    kx::errno::{
        EAFNOSUPPORT,
        ENETDOWN, //
    },
};
use core::{
    marker::PhantomData, //
    ptr::NonNull,
};
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    ffi::c_void,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full, //
        },
        Arc,
        ArcBorrow,
        Completion, //
    },
};

/// An LNet network driver.
///
/// `&self` is the value given to [`Registration::new`]. `Net` is what it keeps for one NI.
pub(crate) trait Lnd: Send + Sync + Sized + 'static {
    /// The driver's data of one NI; it owns the [`NiHandle`].
    type Net: Send + Sync + 'static;
    /// What receive slots belong to.
    type Conn: RxOwner;

    /// Starts an NI: chooses its address, resolves its tunables, takes a [`ModuleRef`] if it is the
    /// first one. May sleep. Remote nodes may connect as soon as this listens, before LNet puts the
    /// NI into service.
    ///
    /// # Errors
    ///
    /// Any. Nothing may be left behind; LNet and the user see `ENETDOWN`.
    fn startup(&self, ni: Startup<Self::Conn>) -> Result<Arc<Self::Net>>;

    /// Stops an NI. No message of it is with the driver, and LNet finds it no more. Everything that
    /// holds the data of the NI must be told to let go; the caller waits until the [`NiHandle`] is
    /// dropped. May sleep for long.
    fn shutdown(&self, net: Arc<Self::Net>);

    /// Serves an ioctl about an NI.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a command that is not known: LNet then asks others.
    fn ctl(&self, net: ArcBorrow<'_, Self::Net>, cmd: Ctl) -> Result<CtlReply>;

    /// Takes a message to send. It is finalized later, or before this returns.
    ///
    /// Called from any thread, also one of the driver's own on whose stack it calls into LNet.
    ///
    /// # Errors
    ///
    /// The message comes back untouched; LNet ends it with the error and does not resend it.
    fn send(&self, net: ArcBorrow<'_, Self::Net>, msg: SendMsg) -> Result<(), Refused>;

    /// Says what becomes of the message in the receive slot `rx`. The slot is the driver's again
    /// in every case, and a message that matched must be finalized like any other.
    ///
    /// May be called before `startup` has returned, if the driver accepts connections that early.
    fn recv(&self, rx: RxHandle<Self::Conn>, msg: Received);

    /// Preference of the NI for GPU `dev_idx`, lower is better, [`NO_PREFERENCE`] none. Must not
    /// sleep or lock.
    fn dev_prio(&self, net: ArcBorrow<'_, Self::Net>, dev_idx: u32) -> u32;

    /// The LND timeout in seconds, from which LNet makes the deadlines of messages. Must not sleep
    /// or take a lock of the driver.
    fn timeout(&self) -> i32;

    /// Default tunables, shown to and changed by whoever adds an NI. `t.cmn` comes with what is set
    /// already.
    ///
    /// # Errors
    ///
    /// `EINVAL` for module parameters with which no NI can start.
    fn tun_defaults(&self, t: &mut Tunables) -> Result;

    /// Changes an NI's tunables to what is to be shown. Must not sleep or take a lock of the
    /// driver.
    fn nl_get(&self, t: &mut O2ibTunables);

    /// Sets netlink attribute `attr` in tunables, of an NI to be or of one in service. Must not
    /// sleep or take a lock of the driver.
    ///
    /// # Errors
    ///
    /// `ERANGE` for a value out of range, `EINVAL` for an attribute that is not known.
    fn nl_set(&self, attr: u32, value: i64, t: &mut O2ibTunables) -> Result;
}

/// An ioctl about one NI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ctl {
    /// The `index`-th peer. A peer met on the way whose NID is `dump` is described in the log.
    GetPeer {
        /// Which.
        index: u32,
        /// Whom to describe.
        dump: u64,
    },
    /// Forget a peer, or all.
    DelPeer(Option<u64>),
    /// The `index`-th connection over all peers.
    GetConn {
        /// Which.
        index: u32,
    },
    /// Close the connections to a peer, or all.
    CloseConnection(Option<u64>),
    /// Anything else, by number.
    Other(u32),
}

/// What an ioctl answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CtlReply {
    /// Nothing but success.
    Done,
    /// To [`Ctl::GetPeer`].
    Peer {
        /// Its NID.
        nid: u64,
        /// References on it.
        refs: u32,
    },
    /// To [`Ctl::GetConn`].
    Conn {
        /// NID of the peer.
        nid: u64,
        /// Path MTU in bytes; 0 when it is unknown.
        mtu: u32,
    },
}

impl Ctl {
    fn from_raw(c: &ffi::Ctl) -> Self {
        let who = (c.nid != ffi::NID_ANY).then_some(c.nid);
        match c.nr {
            71 => Ctl::CloseConnection(who),
            73 => Ctl::GetConn { index: c.count },
            74 => Ctl::DelPeer(who),
            76 => Ctl::GetPeer {
                index: c.count,
                dump: c.nid,
            },
            nr => Ctl::Other(nr),
        }
    }
}

impl CtlReply {
    fn store(self, c: &mut ffi::Ctl) {
        match self {
            CtlReply::Done => {}
            CtlReply::Peer { nid, refs } => {
                c.nid = nid;
                c.count = refs;
            }
            CtlReply::Conn { nid, mtu } => {
                c.nid = nid;
                c.value = mtu;
            }
        }
    }
}

/// What `ni_data` points to.
struct NiData<L: Lnd> {
    net: Arc<L::Net>,
    gone: Arc<Completion>,
}

/// The driver's data of an NI.
///
/// # Safety
///
/// `data` must come from `Adapter::<L>::startup`, and `Adapter::<L>::shutdown` must not get it
/// during `'a`.
unsafe fn net_of<'a, L: Lnd>(data: NonNull<c_void>) -> ArcBorrow<'a, L::Net> {
    // SAFETY: By the contract of this function.
    let data: &'a NiData<L> = unsafe { data.cast().as_ref() };
    data.net.as_arc_borrow()
}

/// The functions behind the table.
///
/// The shim calls them with `ctx` as given to [`Registration::new`], with `data` as stored by
/// `startup` or NULL, and with structures of its own that are valid during the call.
struct Adapter<L>(PhantomData<fn(L)>);

impl<L: Lnd> Adapter<L> {
    const OPS: ffi::LndOps = ffi::LndOps {
        startup: Some(Self::startup),
        shutdown: Some(Self::shutdown),
        ctl: Some(Self::ctl),
        send: Some(Self::send),
        recv: Some(Self::recv),
        dev_prio: Some(Self::dev_prio),
        timeout: Some(Self::timeout),
        tun_defaults: Some(Self::tun_defaults),
        nl_get: Some(Self::nl_get),
        nl_set: Some(Self::nl_set),
    };

    /// # Safety
    ///
    /// `ctx` must be what `Registration::new` registered, which is still there.
    unsafe fn lnd<'a>(ctx: *mut c_void) -> &'a L {
        // SAFETY: By the contract of this function.
        unsafe { &*ctx.cast::<L>() }
    }

    /// # Safety
    ///
    /// Called by the shim.
    unsafe extern "C" fn startup(
        ctx: *mut c_void,
        ni: *mut ffi::RawNi,
        data: *mut *mut c_void,
    ) -> c_int {
        let Some(ni) = NonNull::new(ni) else {
            return EINVAL.to_errno();
        };
        // SAFETY: Called by the shim with an NI and a place to store the data.
        match unsafe { Self::start(ctx, ni) } {
            Ok(raw) => {
                // SAFETY: As above.
                unsafe { *data = raw.cast() };
                0
            }
            Err(e) => {
                // SAFETY: LNet keeps the NI during this call.
                let net = unsafe { ffi::ni_netnum(ni.as_ptr()) };
                pr_err!("the NI on o2ib{} could not be started: {:?}\n", net, e);
                ENETDOWN.to_status()
            }
        }
    }

    /// Starts an NI; what it returns is to be stored for it.
    ///
    /// # Safety
    ///
    /// `ctx` as of [`lnd`](Self::lnd). LNet must keep `ni` during this call and, after success,
    /// until `shutdown` returns.
    unsafe fn start(ctx: *mut c_void, ni: NonNull<ffi::RawNi>) -> Result<*mut NiData<L>> {
        let slot = KBox::<NiData<L>>::new_uninit(GFP_KERNEL)?;
        let gone = Arc::pin_init(Completion::new(), GFP_KERNEL)?;
        // SAFETY: By the contract of this function; it and `shutdown` wait for `gone`.
        let ni = Startup::new(unsafe { NiHandle::from_raw(ni, gone.clone()) });
        if ni.asked() == Asked::V6 {
            pr_err!("an IPv6 NID has no form on the wire\n");
            return Err(EAFNOSUPPORT.to_error());
        }
        // SAFETY: By the contract of this function.
        let started = unsafe { Self::lnd(ctx) }.startup(ni);
        let net = started.inspect_err(|_| gone.wait_for_completion())?;
        Ok(KBox::into_raw(KBox::write(slot, NiData { net, gone })))
    }

    /// # Safety
    ///
    /// Called by the shim.
    unsafe extern "C" fn shutdown(ctx: *mut c_void, _ni: *mut ffi::RawNi, data: *mut c_void) {
        // SAFETY: `startup` made `data` this way, and the shim gives it back once.
        let data = unsafe { KBox::from_raw(data.cast::<NiData<L>>()) };
        let NiData { net, gone } = KBox::into_inner(data);
        // SAFETY: Called by the shim.
        unsafe { Self::lnd(ctx) }.shutdown(net);
        gone.wait_for_completion();
    }

    /// # Safety
    ///
    /// Called by the shim.
    unsafe extern "C" fn ctl(ctx: *mut c_void, data: *mut c_void, ctl: *mut ffi::Ctl) -> c_int {
        from_result(|| {
            let data = NonNull::new(data).ok_or(ENODEV)?;
            // SAFETY: The shim passes a structure of its own.
            let ctl = unsafe { &mut *ctl };
            // SAFETY: LNet holds a reference on the NI during the call.
            let net = unsafe { net_of::<L>(data) };
            // SAFETY: Called by the shim.
            let lnd = unsafe { Self::lnd(ctx) };
            lnd.ctl(net, Ctl::from_raw(ctl))?.store(ctl);
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// Called by the shim.
    unsafe extern "C" fn send(ctx: *mut c_void, data: *mut c_void, s: *const ffi::Send) -> c_int {
        // SAFETY: The shim passes a structure of its own.
        let s = unsafe { &*s };
        from_result(|| {
            let data = NonNull::new(data).ok_or(ENODEV)?;
            if s.target == ffi::NID_ANY {
                return Err(EINVAL);
            }
            // SAFETY: LNet gives the message to us; it says the same as `s` about it.
            let msg = unsafe { Message::from_raw(s.msg, s.source, s.sink, s.gpu) }.ok_or(EINVAL)?;
            let msg = SendMsg {
                msg,
                kind: s.type_,
                target: s.target,
                target_is_router: s.target_is_router,
                routing: s.routing,
                hdr: s.hdr,
            };
            // SAFETY: The message holds a reference on the NI.
            let net = unsafe { net_of::<L>(data) };
            // SAFETY: Called by the shim.
            match unsafe { Self::lnd(ctx) }.send(net, msg) {
                Ok(()) => Ok(0),
                Err(Refused { error, msg }) => {
                    msg.give_back();
                    Err(error)
                }
            }
        })
    }

    /// # Safety
    ///
    /// Called by the shim.
    unsafe extern "C" fn recv(ctx: *mut c_void, rx: *mut c_void, r: *const ffi::Recv) {
        // SAFETY: The shim passes a structure of its own.
        let r = unsafe { &*r };
        let mut sink = r.sink;
        sink.length = sink.length.min(r.rlen);
        // SAFETY: LNet gives the message to us; it says the same as `r` about it.
        let msg = unsafe { Message::from_raw(r.msg, r.source, sink, r.gpu) };
        let Some(rx) = NonNull::new(rx) else {
            // Not from our parse; there is no slot to release.
            if let Some(msg) = msg {
                msg.finalize(EIO.to_errno(), super::Health::LOCAL_ERROR);
            }
            return;
        };
        let received = msg.map_or(Received::Discard, Received::Matched);
        // SAFETY: `rx` is what `NiHandle::parse` passed, and LNet calls this once for it.
        let rx = unsafe { RxHandle::<L::Conn>::from_raw(rx) };
        // SAFETY: Called by the shim.
        unsafe { Self::lnd(ctx) }.recv(rx, received);
    }

    /// # Safety
    ///
    /// Called by the shim.
    unsafe extern "C" fn dev_prio(ctx: *mut c_void, data: *mut c_void, dev_idx: u32) -> u32 {
        let Some(data) = NonNull::new(data) else {
            return NO_PREFERENCE;
        };
        // SAFETY: LNet's net lock, which is held, keeps the NI from being shut down.
        let net = unsafe { net_of::<L>(data) };
        // SAFETY: Called by the shim.
        unsafe { Self::lnd(ctx) }.dev_prio(net, dev_idx)
    }

    /// # Safety
    ///
    /// Called by the shim.
    unsafe extern "C" fn timeout(ctx: *mut c_void) -> c_int {
        // SAFETY: Called by the shim.
        unsafe { Self::lnd(ctx) }.timeout()
    }

    /// # Safety
    ///
    /// Called by the shim.
    unsafe extern "C" fn tun_defaults(ctx: *mut c_void, t: *mut Tunables) -> c_int {
        from_result(|| {
            // SAFETY: Called by the shim.
            let lnd = unsafe { Self::lnd(ctx) };
            // SAFETY: The shim passes a structure of its own.
            lnd.tun_defaults(unsafe { &mut *t })?;
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// Called by the shim.
    unsafe extern "C" fn nl_get(ctx: *mut c_void, t: *mut O2ibTunables) {
        // SAFETY: Called by the shim.
        let lnd = unsafe { Self::lnd(ctx) };
        // SAFETY: The shim passes a structure of its own.
        lnd.nl_get(unsafe { &mut *t });
    }

    /// # Safety
    ///
    /// Called by the shim.
    unsafe extern "C" fn nl_set(
        ctx: *mut c_void,
        attr: u32,
        value: i64,
        t: *mut O2ibTunables,
    ) -> c_int {
        from_result(|| {
            // SAFETY: Called by the shim.
            let lnd = unsafe { Self::lnd(ctx) };
            // SAFETY: The shim passes a structure of its own.
            lnd.nl_set(attr, value, unsafe { &mut *t })?;
            Ok(0)
        })
    }
}

/// What [`Lnd::dev_prio`] returns for no preference.
pub(crate) const NO_PREFERENCE: u32 = u32::MAX;

/// 1 while a driver is registered.
static REGISTERED: Atomic<i32> = Atomic::new(0);

/// A driver in service.
///
/// # Invariants
///
/// LNet has our table, with `_lnd` as its context.
pub(crate) struct Registration<L: Lnd> {
    _lnd: Arc<L>,
}

impl<L: Lnd> Registration<L> {
    /// Puts a driver into service. LNet may call it before this returns.
    ///
    /// # Errors
    ///
    /// `EBUSY` when this module has one in service; what LNet's own set-up says. (A driver of
    /// another module for the same type of network stops the machine: LNet asserts.)
    pub(crate) fn new(lnd: Arc<L>) -> Result<Self> {
        if REGISTERED.xchg(1, Full) != 0 {
            return Err(EBUSY);
        }
        let ctx = Arc::as_ptr(&lnd).cast_mut().cast();
        // SAFETY: The table is static; the registration keeps `lnd` until it has unregistered.
        let rc = unsafe { ffi::register(&Adapter::<L>::OPS, ctx) };
        to_result(rc).inspect_err(|_| {
            REGISTERED.xchg(0, Full);
        })?;
        // INVARIANT: LNet took the table.
        Ok(Registration { _lnd: lnd })
    }
}

impl<L: Lnd> Drop for Registration<L> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Every NI holds a `ModuleRef`, so there is none.
        unsafe { ffi::unregister() };
        REGISTERED.xchg(0, Full);
    }
}

/// Keeps the module from being unloaded.
pub(crate) struct ModuleRef(());

impl ModuleRef {
    /// Takes a reference on this module.
    ///
    /// # Errors
    ///
    /// `ENODEV` when it is being unloaded.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: This code is part of the module.
        if unsafe { ffi::module_get() } {
            Ok(ModuleRef(()))
        } else {
            Err(ENODEV)
        }
    }
}

impl Drop for ModuleRef {
    fn drop(&mut self) {
        // SAFETY: `new` took the reference. In `Lnd::shutdown` it may be the last: LNet holds the
        // mutex that unregistering needs until we have returned.
        unsafe { ffi::module_put() };
    }
}

/// LNet's own LND timeout in seconds, at least 1. Does not sleep.
pub(crate) fn lnet_timeout() -> u32 {
    // SAFETY: LNet is there while this module uses its symbols.
    unsafe { ffi::lnd_timeout() }.max(1)
}

/// Asks LNet to tell its peers about a changed state of an NI. Any context.
pub(crate) fn mark_ping_buffer() {
    // SAFETY: As in `lnet_timeout`.
    unsafe { ffi::mark_ping_buffer() };
}

/// Whether fault injection (`fail_loc` 0xF201) wants the mapping of a memory region to come out
/// one entry short. Does not sleep.
pub(crate) fn fail_map_sg() -> bool {
    // SAFETY: As in `lnet_timeout`.
    unsafe { ffi::fail_map_sg() }
}
