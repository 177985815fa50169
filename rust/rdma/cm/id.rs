// SPDX-License-Identifier: GPL-2.0

//! The owner of an id, what it can ask of the CM, and listeners.

use super::{
    param::{
        ConnParam,
        SockAddr, //
    },
    slot::{
        fill_backlog,
        new_slot,
        CmQueue,
        CmSlot,
        IdRef,
        BACKLOG, //
    },
};
use crate::{
    ffi::verbs,
    kx::{
        errno,
        Net, //
    },
    rdma::{
        Cq,
        Device,
        Pd,
        Qp,
        QpCaps, //
    },
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    ffi::c_void,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

/// The owner of an id of the connection manager (`struct rdma_cm_id`).
///
/// When it is dropped no more events of the id are reported, and the id is destroyed, at the
/// latest with its [`Qp`]. All methods may be called from any thread in process context; they
/// sleep. Errors are those of the CM; `EINVAL` mostly means that the id is in another state, since
/// its peer may have acted meanwhile.
///
/// What changes the id's device or path takes `&mut self`, because it is read without a lock: the
/// CM frees a path when [`resolve_route`](Self::resolve_route) fails, in the thread that called it,
/// and lets the device go when [`bind`](Self::bind) fails.
///
/// # Examples
///
/// ```ignore
/// let events = CmEvents::new(queue.clone());
/// let mut id = CmId::new(&queue, &net, 7)?;
/// id.resolve_addr(None, &SockAddr::v4([10, 0, 0, 2], 987), 500)?;
/// // ... `events.pop()` has said `AddrResolved`, with the tag 7:
/// let device = id.device()?.ok_or(ENODEV)?;
/// ```
pub(crate) struct CmId {
    id: IdRef,
}

impl From<IdRef> for CmId {
    /// Owns the id of a first share.
    fn from(id: IdRef) -> Self {
        Self { id }
    }
}

impl CmId {
    /// Makes an id in `net` whose events go to `queue` with `tag`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(queue: &Arc<CmQueue>, net: &Net, tag: u64) -> Result<Self> {
        let slot = new_slot(queue, tag)?;
        let context = Arc::as_ptr(&slot).cast_mut().cast::<c_void>();
        // SAFETY: We have a reference to the namespace, and the id takes its own. The slot is held
        // by the share in the id that is made below, until the id is destroyed.
        let raw = from_err_ptr(unsafe { verbs::cm_create(net.as_ptr(), context) })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // SAFETY: The id was made above, with the address of `slot`, and is ours.
        let id = unsafe { IdRef::first(raw, slot) };
        Ok(Self { id })
    }

    /// Changes the tag that events carry, including those that are queued.
    pub(crate) fn set_tag(&self, tag: u64) {
        self.id.slot().tag.store(tag, Relaxed);
    }

    /// The device that the id is bound to; [`None`] when it is bound to none.
    ///
    /// # Errors
    ///
    /// `ENODEV` when it is being unregistered, `ENOMEM`.
    pub(crate) fn device(&self) -> Result<Option<Arc<Device>>> {
        // SAFETY: The id is alive.
        match NonNull::new(unsafe { verbs::cm_device(self.id.as_raw()) }) {
            // SAFETY: While an id is bound to a device, the CM keeps that from being freed; and it
            // stays bound during the borrow.
            Some(dev) => unsafe { Device::get(dev) }.map(Some),
            None => Ok(None),
        }
    }

    /// The port of the device, from 1; 0 when the id is bound to none.
    pub(crate) fn port(&self) -> u32 {
        // SAFETY: The id is alive.
        unsafe { verbs::cm_port(self.id.as_raw()) }
    }

    /// The local and the peer's address, as far as they are known.
    pub(crate) fn addrs(&self) -> (SockAddr, SockAddr) {
        let (mut local, mut peer) = (SockAddr::ANY_V4, SockAddr::ANY_V4);
        // SAFETY: The id is alive; both are filled in.
        unsafe { verbs::cm_addrs(self.id.as_raw(), &mut local.0, &mut peer.0) };
        (local, peer)
    }

    /// Bytes of the path's MTU; 0 when there is no path. Means something once the route is
    /// resolved.
    pub(crate) fn path_mtu(&self) -> u32 {
        // SAFETY: The id is alive, and its path is not freed during the borrow.
        unsafe { verbs::cm_path_mtu(self.id.as_raw()) }
    }

    /// Overrides the path's MTU (256, 512, ... 4096); after the route was resolved, before
    /// connecting. False when there is no path or no such MTU.
    pub(crate) fn set_path_mtu(&mut self, mtu: u32) -> bool {
        // SAFETY: The id is alive, and nobody else reads or frees its path, which the CM itself
        // changes only while it resolves.
        unsafe { verbs::cm_set_path_mtu(self.id.as_raw(), mtu) }
    }

    /// Lets the id share its local address with others; before binding.
    ///
    /// # Errors
    ///
    /// See [`CmId`].
    pub(crate) fn set_reuseaddr(&self, reuse: bool) -> Result {
        // SAFETY: The id is alive.
        to_result(unsafe { verbs::cm_set_reuseaddr(self.id.as_raw(), reuse.into()) })
    }

    /// Sets the type of service; before resolving the route.
    pub(crate) fn set_service_type(&self, tos: u8) {
        // SAFETY: The id is alive.
        unsafe { verbs::cm_set_service_type(self.id.as_raw(), tos.into()) }
    }

    /// Binds the id to a local address.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`; `EADDRNOTAVAIL`; `ENODEV` when the address belongs to no RDMA device. See
    /// [`CmId`].
    pub(crate) fn bind(&mut self, addr: &SockAddr) -> Result {
        // SAFETY: The id is alive.
        to_result(unsafe { verbs::cm_bind(self.id.as_raw(), &addr.0) })
    }

    /// Starts resolving `dst`, from `src` if given; ends with an event.
    ///
    /// # Errors
    ///
    /// As for [`CmId::bind`].
    pub(crate) fn resolve_addr(
        &mut self,
        src: Option<&SockAddr>,
        dst: &SockAddr,
        timeout_ms: u32,
    ) -> Result {
        let src = src.map_or(ptr::null(), |src| ptr::from_ref(&src.0));
        // SAFETY: The id is alive; `src` may be null.
        to_result(unsafe { verbs::cm_resolve_addr(self.id.as_raw(), src, &dst.0, timeout_ms) })
    }

    /// As [`CmId::resolve_addr`] from a port below 1024: the highest that is free. Makes the
    /// address shareable, as many connections of one node need it.
    ///
    /// # Errors
    ///
    /// As for [`CmId::bind`]; `EADDRINUSE` when no port is free; `EACCES` when the caller may not
    /// use one.
    pub(crate) fn resolve_addr_privileged(
        &mut self,
        src: &SockAddr,
        dst: &SockAddr,
        timeout_ms: u32,
    ) -> Result {
        self.set_reuseaddr(true)?;
        for port in (1..1024).rev() {
            match self.resolve_addr(Some(&src.with_port(port)), dst, timeout_ms) {
                Err(e) if e == errno::EADDRINUSE || e == errno::EADDRNOTAVAIL => {}
                other => return other,
            }
        }
        Err(errno::EADDRINUSE.into())
    }

    /// Starts resolving the route; ends with an event.
    ///
    /// # Errors
    ///
    /// See [`CmId`].
    pub(crate) fn resolve_route(&mut self, timeout_ms: u32) -> Result {
        // SAFETY: The id is alive.
        to_result(unsafe { verbs::cm_resolve_route(self.id.as_raw(), timeout_ms as usize) })
    }

    /// Creates the id's QP, which is to be at least as `caps` says; [`Qp::caps`] is what was
    /// granted. The id is bound to the device of `pd` and `cq`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the device has no room for it: ask for less. `EBUSY` when the id has a QP.
    /// `EINVAL`, also when `pd`, `cq` and the id are not of one device; and what the provider
    /// returns.
    pub(crate) fn create_qp<T: Send + Sync + 'static>(
        &self,
        pd: &Arc<Pd>,
        cq: &Arc<Cq<T>>,
        caps: QpCaps,
    ) -> Result<Qp<T>> {
        Qp::create(self.id.clone(), pd, cq, caps)
    }

    /// Sends a connection request; ends with an event.
    ///
    /// # Errors
    ///
    /// See [`CmId`].
    pub(crate) fn connect(&self, param: &ConnParam<'_>) -> Result {
        // SAFETY: The id is alive; `param` is read during the call.
        to_result(unsafe { verbs::cm_connect(self.id.as_raw(), &param.to_raw()?) })
    }

    /// Accepts a connection request. The QP exists and its receives are posted. Ends with an
    /// event.
    ///
    /// # Errors
    ///
    /// See [`CmId`]. The request is then rejected by the CM.
    pub(crate) fn accept(&self, param: &ConnParam<'_>) -> Result {
        // SAFETY: The id is alive, and its handler lock is not held: we are not in its callback.
        to_result(unsafe { verbs::cm_accept(self.id.as_raw(), &param.to_raw()?) })
    }

    /// Rejects a connection request, for a reason that `data` gives (148 bytes at most).
    ///
    /// # Errors
    ///
    /// See [`CmId`].
    pub(crate) fn reject(&self, data: &[u8]) -> Result {
        let len = u8::try_from(data.len())?;
        // SAFETY: The id is alive; `data` has `len` bytes.
        to_result(unsafe { verbs::cm_reject(self.id.as_raw(), data.as_ptr(), len) })
    }

    /// Ends the connection; moves the QP to the error state, too.
    ///
    /// # Errors
    ///
    /// See [`CmId`]. They may be ignored.
    pub(crate) fn disconnect(&self) -> Result {
        // SAFETY: The id is alive.
        to_result(unsafe { verbs::cm_disconnect(self.id.as_raw()) })
    }

    /// Tells the CM that a message arrived, and so that the peer regards the connection as
    /// established; the event of that follows.
    ///
    /// # Errors
    ///
    /// See [`CmId`]; `EINVAL` when it knows already.
    pub(crate) fn notify_comm_est(&self) -> Result {
        // SAFETY: The id is alive.
        to_result(unsafe { verbs::cm_notify_comm_est(self.id.as_raw()) })
    }

    /// Turns a bound id into a listener. Connection requests carry its tag.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; see [`CmId`].
    pub(crate) fn listen(self) -> Result<Listener> {
        let slots = KVec::with_capacity(BACKLOG, GFP_KERNEL)?;
        self.id.slot().inner.lock().backlog = slots;
        let backlog = Backlog(self.id.slot().clone());
        fill_backlog(self.id.slot())?;
        // SAFETY: The id is alive. The CM's own backlog has no meaning for RC.
        to_result(unsafe { verbs::cm_listen(self.id.as_raw(), 0) })?;
        Ok(Listener {
            _id: self,
            _backlog: backlog,
        })
    }
}

impl Drop for CmId {
    /// Sleeps: waits for the callbacks of the id, unless a [`Qp`] still has a share in it.
    fn drop(&mut self) {
        self.id.slot().inner.lock().dead = true;
    }
}

/// An id that listens, with the slots for what it hears.
///
/// Dropping it stops listening, and sleeps. Requests that are queued stay queued.
pub(crate) struct Listener {
    _id: CmId,
    /// Dropped after the id: no callback takes from it then, and nothing refills it.
    _backlog: Backlog,
}

/// The backlog in a listener's slot.
struct Backlog(Arc<CmSlot>);

impl Drop for Backlog {
    fn drop(&mut self) {
        let slots = core::mem::take(&mut self.0.inner.lock().backlog);
        // Without the lock.
        drop(slots);
    }
}
