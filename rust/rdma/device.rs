// SPDX-License-Identifier: GPL-2.0

//! Devices, their ports and protection domains.

use crate::{
    ffi::verbs,
    kx::{
        Event,
        Node, //
    },
};
use core::{
    mem::MaybeUninit,
    pin::Pin,
    ptr::NonNull, //
};
use kernel::{
    error::from_err_ptr,
    ffi::c_void,
    fmt,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Full,
            Relaxed, //
        },
        Arc, //
    },
    types::Opaque, //
};

pub(crate) use crate::ffi::verbs::DeviceCaps;

/// An RDMA device (`struct ib_device`), kept from being unregistered.
///
/// Unregistering waits until the last of these is gone, after every client's `remove` returned. So
/// a holder drops it when [`Client::remove`](super::Client::remove) is called.
///
/// # Invariants
///
/// `raw` is a registered device of which `self` owns a registration reference.
pub(crate) struct Device {
    raw: NonNull<verbs::IbDevice>,
    caps: DeviceCaps,
    /// Terminated.
    name: [u8; verbs::DEVICE_NAME_MAX],
}

// SAFETY: A registered device may be used from any thread.
unsafe impl Send for Device {}

// SAFETY: As above; the core does its own locking.
unsafe impl Sync for Device {}

/// Says whether two [`Device`]s are the same one. As long as one of them is held: a device that
/// comes later can have the id of one that is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DeviceId(usize);

impl DeviceId {
    pub(super) fn of(raw: *const verbs::IbDevice) -> Self {
        Self(raw as usize)
    }
}

impl Device {
    /// Takes a reference to a device.
    ///
    /// # Errors
    ///
    /// `ENODEV` when it is being unregistered, `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `raw` is a device that is not freed during the call.
    pub(super) unsafe fn get(raw: NonNull<verbs::IbDevice>) -> Result<Arc<Self>> {
        // SAFETY: By the contract of this function.
        if !unsafe { verbs::device_get(raw.as_ptr()) } {
            return Err(ENODEV);
        }
        let mut caps = MaybeUninit::<DeviceCaps>::uninit();
        // SAFETY: The device is registered; `caps` is filled completely.
        let caps = unsafe {
            verbs::device_caps(raw.as_ptr(), caps.as_mut_ptr());
            caps.assume_init()
        };
        let mut name = [0; verbs::DEVICE_NAME_MAX];
        // SAFETY: The device is registered; `name` has as many bytes as the function fills.
        unsafe { verbs::device_name(raw.as_ptr(), name.as_mut_ptr()) };
        // INVARIANT: The reference was taken above; from here on `drop` gives it back, also when
        // there is no memory.
        Ok(Arc::new(Self { raw, caps, name }, GFP_KERNEL)?)
    }

    /// The device as C knows it.
    pub(super) fn as_raw(&self) -> *mut verbs::IbDevice {
        self.raw.as_ptr()
    }

    /// For comparing devices.
    pub(crate) fn id(&self) -> DeviceId {
        DeviceId::of(self.as_raw())
    }

    /// Its name when the reference was taken, such as `mlx5_0`.
    pub(crate) fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.name).unwrap_or(c"")
    }

    /// Its limits.
    pub(crate) fn caps(&self) -> &DeviceCaps {
        &self.caps
    }

    /// The NUMA node that it is attached to.
    pub(crate) fn node(&self) -> Node {
        Node::from_raw(self.caps.node)
    }

    /// Whether `port` is up. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a port that does not exist, and what the provider returns.
    pub(crate) fn port_active(&self, port: u32) -> Result<bool> {
        // SAFETY: By the type invariant.
        let rc = unsafe { verbs::device_port_active(self.as_raw(), port) };
        if rc < 0 {
            return Err(Error::from_errno(rc));
        }
        Ok(rc != 0)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reference is ours.
        unsafe { verbs::device_put(self.raw.as_ptr()) }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.name(), f)
    }
}

/// Names a [`Pd`], and with it its device. Never used again when the PD is gone, so what has it
/// need not hold the PD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PdId(u64);

/// The next [`PdId`].
static NEXT_PD: Atomic<u64> = Atomic::new(1);

/// A protection domain.
///
/// What a QP may name belongs to its PD: each thing that is made in one has its id, and is compared
/// where it is used with another.
///
/// # Examples
///
/// ```ignore
/// let pd = Pd::new(&device)?;
/// let buf = DmaBuf::<ToDevice>::new(&device, 256, Node(None))?;
/// let mut chain = SendChain::new(&pd, 16, 64)?;
/// chain.send(1, SendFlags { signaled: true }, &[buf.piece(24)])?;
/// // `Err(ChainError::Foreign)`: the buffer is not mapped on the device of this chain.
/// chain.send(2, SendFlags::default(), &[of_another_device.piece(24)]);
/// ```
///
/// # Invariants
///
/// `raw` is a PD on `dev`; QPs and MRs in it hold a reference to `self`.
pub(crate) struct Pd {
    raw: NonNull<verbs::IbPd>,
    id: PdId,
    /// Lives longer than the PD.
    dev: Arc<Device>,
}

// SAFETY: A PD may be used from any thread.
unsafe impl Send for Pd {}

// SAFETY: As above; the core does its own locking.
unsafe impl Sync for Pd {}

impl Pd {
    /// Allocates a PD. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what the provider returns.
    pub(crate) fn new(dev: &Arc<Device>) -> Result<Arc<Self>> {
        // SAFETY: The device is registered while `dev` lives.
        let raw = from_err_ptr(unsafe { verbs::pd_alloc(dev.as_raw()) })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        let pd = Self {
            raw,
            id: PdId(NEXT_PD.fetch_add(1, Relaxed)),
            dev: dev.clone(),
        };
        // INVARIANT: `raw` was allocated above; if this fails, `drop` frees it.
        Ok(Arc::new(pd, GFP_KERNEL)?)
    }

    /// For comparing PDs.
    pub(crate) fn id(&self) -> PdId {
        self.id
    }

    /// The device that it is on.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.dev
    }

    /// The PD as C knows it.
    pub(super) fn as_raw(&self) -> *mut verbs::IbPd {
        self.raw.as_ptr()
    }

    /// The key under which all memory that is mapped on the device may be accessed locally
    /// (`local_dma_lkey`).
    pub(super) fn lkey(&self) -> u32 {
        // SAFETY: By the type invariant; the key is set when the PD is allocated, and stays.
        unsafe { verbs::pd_lkey(self.as_raw()) }
    }
}

impl Drop for Pd {
    /// Sleeps.
    fn drop(&mut self) {
        // SAFETY: By the type invariant nothing is left in the PD.
        unsafe { verbs::pd_free(self.as_raw()) }
    }
}

/// What happened to a watched port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PortState {
    /// It came up.
    Active,
    /// It went down.
    Down,
    /// The device failed; it does not recover.
    Fatal,
}

/// Watches the asynchronous events of one port of a device and signals an [`Event`].
pub(crate) struct PortWatch {
    shared: Pin<KBox<PortShared>>,
    _dev: Arc<Device>,
}

#[pin_data]
struct PortShared {
    #[pin]
    handler: Opaque<verbs::RawEventHandler>,
    port: u32,
    changed: AtomicFlag,
    gids_changed: AtomicFlag,
    up: Atomic<bool>,
    fatal: Atomic<bool>,
    event: Arc<Event>,
}

// SAFETY: `handler` is touched by the core only, under its own lock; the rest is atomic.
unsafe impl Send for PortShared {}

// SAFETY: As above.
unsafe impl Sync for PortShared {}

impl PortWatch {
    /// Starts watching `port`; `event` is signalled for every change. Sleeps.
    ///
    /// A change before this call is not reported: ask [`Device::port_active`] after it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(dev: &Arc<Device>, port: u32, event: Arc<Event>) -> Result<Self> {
        let shared = KBox::pin_init(
            pin_init!(PortShared {
                handler: Opaque::zeroed(),
                port,
                changed: AtomicFlag::new(false),
                gids_changed: AtomicFlag::new(false),
                up: Atomic::new(false),
                fatal: Atomic::new(false),
                event,
            }),
            GFP_KERNEL,
        )?;
        let ctx = core::ptr::from_ref(&*shared).cast_mut().cast::<c_void>();
        // SAFETY: `shared` is pinned and outlives the registration, which `drop` ends; the device
        // is registered while `_dev` lives.
        unsafe {
            verbs::event_handler_register(
                shared.handler.get(),
                dev.as_raw(),
                Some(port_event),
                ctx,
            );
        }
        Ok(Self {
            shared,
            _dev: dev.clone(),
        })
    }

    /// The state after the latest change, unless there was none since the last call. Any context.
    pub(crate) fn take(&self) -> Option<PortState> {
        if !self.shared.changed.xchg(false, Full) {
            return None;
        }
        Some(if self.shared.fatal.load(Relaxed) {
            PortState::Fatal
        } else if self.shared.up.load(Relaxed) {
            PortState::Active
        } else {
            PortState::Down
        })
    }

    /// Whether the port's GID table has changed since the last call. Any context. Nothing is
    /// signalled for such a change.
    pub(crate) fn take_gid_change(&self) -> bool {
        self.shared.gids_changed.xchg(false, Full)
    }
}

impl Drop for PortWatch {
    /// Sleeps until no handler runs.
    fn drop(&mut self) {
        // SAFETY: Registered by `new`.
        unsafe { verbs::event_handler_unregister(self.shared.handler.get()) }
    }
}

/// Called by the core, in process context, for port, GID and fatal events of the device.
///
/// # Safety
///
/// `ctx` points to a live [`PortShared`].
unsafe extern "C" fn port_event(ctx: *mut c_void, event: u32, port: u32) {
    // SAFETY: By the contract of this function.
    let shared = unsafe { &*ctx.cast::<PortShared>() };
    match event {
        verbs::ib_event::DEVICE_FATAL => shared.fatal.store(true, Relaxed),
        _ if port != shared.port => return,
        verbs::ib_event::PORT_ACTIVE => shared.up.store(true, Relaxed),
        verbs::ib_event::PORT_ERR => shared.up.store(false, Relaxed),
        verbs::ib_event::GID_CHANGE => {
            shared.gids_changed.xchg(true, Full);
            return;
        }
        _ => return,
    }
    shared.changed.xchg(true, Full);
    shared.event.signal();
}
