// SPDX-License-Identifier: GPL-2.0

//! Connection management.
//!
//! An id of the CM has one owner, a [`CmId`], and carries a number that names a *slot*: memory for
//! the id's events that exists before the id does. The callback looks the slot up, copies the
//! event into it, wakes the thread that serves the [`CmEvents`] and returns 0; it takes no lock
//! that is held across a call of the CM, allocates nothing and decides nothing. Every kind of
//! event has its place in the slot, so none is lost; one that is repeated before it is looked at
//! counts once.
//!
//! A new id, made by the CM for a connection request, starts with its listener's number. Its
//! listener has a backlog of slots for that: the callback gives it the number of one of them. When
//! the backlog is empty the callback refuses, and the CM destroys the new id.
//!
//! Lock order: the table's lock and slots' locks are leaves, never held together.

use super::{
    Cq,
    Device,
    Net,
    Pd,
    Qp,
    QpCaps, //
};
use crate::{
    ffi::verbs::{
        self,
        cm_event as kind, //
    },
    kx::{
        errno,
        Batch,
        Entry,
        RunQueue, //
    },
};
use core::{
    ops::Deref,
    ptr::{
        self,
        NonNull, //
    },
    slice, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    fmt, new_mutex,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Full,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
};

/// Requests that wait to be looked at, for each listener.
const BACKLOG: usize = 64;

// ---------------------------------------------------------------------------------------- table

kernel::sync::global_lock! {
    // SAFETY: Initialised by `Room::new` before anything else of this module runs.
    unsafe(uninit) static TABLE: Mutex<Option<RBTree<u64, Arc<CmSlot>>>> = None;
}

/// The next number for a slot; 0 is never used.
static NEXT_KEY: Atomic<u64> = Atomic::new(1);

/// Set once the room was made.
static ROOM_MADE: AtomicFlag = AtomicFlag::new(false);

/// The room's own state: to be made first and dropped last by the module.
pub(crate) struct Room(());

impl Room {
    /// Sets the room up.
    ///
    /// # Errors
    ///
    /// `EBUSY` when called a second time.
    pub(crate) fn new() -> Result<Self> {
        if ROOM_MADE.xchg(true, Full) {
            return Err(EBUSY);
        }
        // SAFETY: Once, by the flag above.
        unsafe { TABLE.init() };
        *TABLE.lock() = Some(RBTree::new());
        // SAFETY: No requirements.
        to_result(unsafe { verbs::dma_check_init() })?;
        Ok(Self(()))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let left = TABLE.lock().take().map_or(0, |table| table.iter().count());
        if left != 0 {
            pr_err!("{left} CM ids are left\n");
        }
        // SAFETY: No requirements.
        unsafe { verbs::dma_check_exit() }
    }
}

fn lookup(key: u64) -> Option<Arc<CmSlot>> {
    TABLE.lock().as_ref()?.get(&key).cloned()
}

fn remove(key: u64) {
    let node = TABLE
        .lock()
        .as_mut()
        .and_then(|table| table.remove_node(&key));
    // Dropped after the lock.
    drop(node);
}

// ---------------------------------------------------------------------------------------- slots

/// The queue of the ids that have events.
pub(crate) type CmQueue = RunQueue<SlotData>;

/// The slot of an id.
type CmSlot = Entry<SlotData>;

/// What a [`CmQueue`] holds.
#[pin_data]
pub(crate) struct SlotData {
    key: u64,
    tag: Atomic<u64>,
    /// Of [`IdRef`]s.
    users: Atomic<u32>,
    #[pin]
    inner: Mutex<SlotInner>,
}

struct SlotInner {
    /// The owner is gone: nothing is reported any more.
    dead: bool,
    /// Events in the order they came, each kind at most once.
    fifo: [u8; Self::KINDS],
    queued: usize,
    status: [i32; Self::KINDS],
    /// Of a connection request.
    request: PrivateData,
    /// Of the answer to one.
    answer: PrivateData,
    /// The id of a connection request that was not looked at yet, and its listener.
    new_id: Option<NewId>,
    /// Of a listener: slots for new ids.
    backlog: KVec<Arc<CmSlot>>,
    /// Of a listener: requests that were not looked at yet.
    pending: usize,
}

struct NewId {
    raw: NonNull<verbs::RdmaCmId>,
    listener: Arc<CmSlot>,
}

// SAFETY: An id may be used from any thread.
unsafe impl Send for NewId {}

impl SlotInner {
    /// One more than the largest number of a kind that is kept.
    const KINDS: usize = kind::TIMEWAIT_EXIT as usize + 1;

    fn new() -> Self {
        Self {
            dead: false,
            fifo: [0; Self::KINDS],
            queued: 0,
            status: [0; Self::KINDS],
            request: PrivateData::EMPTY,
            answer: PrivateData::EMPTY,
            new_id: None,
            backlog: KVec::new(),
            pending: 0,
        }
    }

    /// Notes an event; false if it is not to be reported.
    fn push(&mut self, event: u32, status: i32) -> bool {
        // Fits: checked against KINDS next.
        let (index, byte) = (event as usize, event as u8);
        let Some(slot) = self.status.get_mut(index) else {
            return false;
        };
        if self.dead || self.fifo.iter().take(self.queued).any(|&e| e == byte) {
            return false;
        }
        *slot = status;
        // There is room: each kind is in it once at most.
        if let Some(place) = self.fifo.get_mut(self.queued) {
            *place = byte;
            self.queued += 1;
        }
        true
    }

    /// Takes the oldest event: its kind and status.
    fn pop(&mut self) -> Option<(u32, i32)> {
        if self.queued == 0 {
            return None;
        }
        let event = self.fifo[0];
        self.fifo.copy_within(1.., 0);
        self.queued -= 1;
        let status = self.status.get(usize::from(event)).copied().unwrap_or(0);
        Some((event.into(), status))
    }
}

/// Makes a slot, known by its number from here on.
fn new_slot(queue: &Arc<CmQueue>, tag: u64) -> Result<Arc<CmSlot>> {
    let key = NEXT_KEY.fetch_add(1, Relaxed);
    let slot = Entry::new(
        queue,
        pin_init!(SlotData {
            key,
            tag: Atomic::new(tag),
            users: Atomic::new(0),
            inner <- new_mutex!(SlotInner::new(), "ko2iblnd::CmSlot"),
        }),
    )?;
    let node = RBTreeNode::new(key, slot.clone(), GFP_KERNEL)?;
    if let Some(table) = TABLE.lock().as_mut() {
        table.insert(node);
    }
    Ok(slot)
}

/// Fills the backlog of a listener as far as memory allows.
fn fill_backlog(listener: &Arc<CmSlot>) -> Result {
    loop {
        {
            let inner = listener.inner.lock();
            if inner.dead || inner.backlog.len() + inner.pending >= BACKLOG {
                return Ok(());
            }
        }
        let slot = new_slot(listener.queue(), 0)?;
        let key = slot.key;
        let mut inner = listener.inner.lock();
        let room = inner.backlog.len() < inner.backlog.capacity();
        if inner.dead || !room || inner.backlog.push_within_capacity(slot).is_err() {
            drop(inner);
            remove(key);
            return Ok(());
        }
    }
}

// ------------------------------------------------------------------------------------- callback

/// Called by the CM for each event; process context, under the id's handler lock.
///
/// # Safety
///
/// `id` and `ev` are valid during the call, and the private data of `ev`, if any.
#[no_mangle]
unsafe extern "C" fn kor_rust_cm_event(
    key: u64,
    id: *mut verbs::RdmaCmId,
    ev: *const verbs::CmEvent,
) -> i32 {
    // SAFETY: By the contract of this function.
    let ev = unsafe { &*ev };
    let request = ev.kind == kind::CONNECT_REQUEST;
    let Some(slot) = lookup(key) else {
        // Cannot be: a slot is known until its id is destroyed. A new id would have no owner.
        return request.into();
    };
    // SAFETY: By the contract of this function.
    let data = unsafe { PrivateData::copy_from(ev.private_data, ev.private_data_len) };
    if request {
        let taken = NonNull::new(id).is_some_and(|id| connect_request(&slot, id, &data));
        return (!taken).into();
    }
    {
        let mut inner = slot.inner.lock();
        if matches!(ev.kind, kind::ESTABLISHED | kind::REJECTED) && inner.answer.is_empty() {
            inner.answer = data;
        }
        if !inner.push(ev.kind, ev.status) {
            return 0;
        }
    }
    Entry::kick(slot.as_arc_borrow());
    0
}

/// Gives a new id a slot of its listener's backlog; false if there is none.
fn connect_request(
    listener: &Arc<CmSlot>,
    id: NonNull<verbs::RdmaCmId>,
    data: &PrivateData,
) -> bool {
    let slot = {
        let mut inner = listener.inner.lock();
        let Some(slot) = inner.backlog.pop() else {
            return false;
        };
        inner.pending += 1;
        slot
    };
    slot.tag.store(listener.tag.load(Relaxed), Relaxed);
    // SAFETY: The id is new, and its handler lock is held around this call.
    unsafe { verbs::cm_set_key(id.as_ptr(), slot.key) };
    {
        let mut inner = slot.inner.lock();
        inner.request = *data;
        inner.new_id = Some(NewId {
            raw: id,
            listener: listener.clone(),
        });
        inner.push(kind::CONNECT_REQUEST, 0);
    }
    Entry::kick(slot.as_arc_borrow());
    true
}

// --------------------------------------------------------------------------------------- events

/// Private data of a CM message: up to 256 bytes, of which an InfiniBand CM passes fewer, padded
/// with zeroes.
#[derive(Clone, Copy)]
pub(crate) struct PrivateData {
    len: u16,
    bytes: [u8; Self::MAX],
}

impl PrivateData {
    /// More than any CM carries.
    const MAX: usize = 256;
    const EMPTY: Self = Self {
        len: 0,
        bytes: [0; Self::MAX],
    };

    /// # Safety
    ///
    /// `data` is null or points to `len` bytes.
    unsafe fn copy_from(data: *const u8, len: u32) -> Self {
        let mut this = Self::EMPTY;
        if data.is_null() {
            return this;
        }
        let len = Self::MAX.min(len as usize);
        // SAFETY: By the contract of this function.
        let data = unsafe { slice::from_raw_parts(data, len) };
        for (to, from) in this.bytes.iter_mut().zip(data) {
            *to = *from;
        }
        // Fits: not more than MAX.
        this.len = len as u16;
        this
    }

    fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Deref for PrivateData {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or(&self.bytes)
    }
}

/// An event of an id.
pub(crate) struct CmEvent {
    /// The id's tag; for a connection request its listener's.
    pub(crate) tag: u64,
    /// What happened.
    pub(crate) kind: CmEventKind,
    /// What the peer sent along.
    pub(crate) data: PrivateData,
}

/// What happened to an id. Numbers are the CM's: negative errnos, but for rejections.
pub(crate) enum CmEventKind {
    /// The address was resolved; the id is bound to a device.
    AddrResolved,
    /// It was not.
    AddrError(i32),
    /// The route was resolved.
    RouteResolved,
    /// It was not.
    RouteError(i32),
    /// A peer wants to connect: the new id. Dropping it rejects the request.
    ConnectRequest(CmId),
    /// Connecting failed.
    ConnectError(i32),
    /// The peer does not answer.
    Unreachable(i32),
    /// The peer refused: the CM's reason (`IB_CM_REJ_*`; on iWARP an errno).
    Rejected(i32),
    /// The connection is there.
    Established,
    /// The peer disconnected, or the connection was lost.
    Disconnected,
    /// The device goes away: this id is to be destroyed.
    DeviceRemoval,
    /// The address moved to another device.
    AddrChange,
    /// The QP number of a former connection can be used again.
    TimewaitExit,
}

/// The consuming end of a [`CmQueue`]: belongs to the one thread that handles events, and is
/// dropped after all ids and listeners that use the queue.
pub(crate) struct CmEvents {
    queue: Arc<CmQueue>,
    batch: Option<Batch<SlotData>>,
    current: Option<Arc<CmSlot>>,
}

impl CmEvents {
    /// Consumes `queue`.
    pub(crate) fn new(queue: Arc<CmQueue>) -> Self {
        Self {
            queue,
            batch: None,
            current: None,
        }
    }

    /// Takes the next event. Sleeps (it refills backlogs). Events of one id come in their order.
    pub(crate) fn pop(&mut self) -> Option<CmEvent> {
        loop {
            let slot = self.next_slot()?;
            match take_event(&slot) {
                Some(event) => {
                    self.current = Some(slot);
                    return Some(event);
                }
                // Kicked again if anything comes from here on.
                None => self.current = None,
            }
        }
    }

    fn next_slot(&mut self) -> Option<Arc<CmSlot>> {
        if let Some(slot) = self.current.take() {
            return Some(slot);
        }
        if let Some(slot) = self.batch.as_mut().and_then(Iterator::next) {
            return Some(slot);
        }
        let batch = self.batch.insert(self.queue.take());
        batch.next()
    }
}

impl Drop for CmEvents {
    /// Lets go of what was not looked at; connection requests are rejected.
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// Takes the oldest event of a slot that is to be reported.
fn take_event(slot: &Arc<CmSlot>) -> Option<CmEvent> {
    loop {
        let (event, status, data, new_id) = {
            let mut inner = slot.inner.lock();
            let (event, status) = inner.pop()?;
            let data = match event {
                kind::CONNECT_REQUEST => inner.request,
                kind::ESTABLISHED | kind::REJECTED => inner.answer,
                _ => PrivateData::EMPTY,
            };
            let new_id = match event {
                kind::CONNECT_REQUEST => inner.new_id.take(),
                _ => None,
            };
            if inner.dead {
                continue;
            }
            (event, status, data, new_id)
        };
        let tag = slot.tag.load(Relaxed);
        if let Some(kind) = event_kind(event, status, new_id.map(|new| adopt(slot, new))) {
            return Some(CmEvent { tag, kind, data });
        }
    }
}

fn event_kind(event: u32, status: i32, new_id: Option<CmId>) -> Option<CmEventKind> {
    Some(match event {
        kind::ADDR_RESOLVED => CmEventKind::AddrResolved,
        kind::ADDR_ERROR => CmEventKind::AddrError(status),
        kind::ROUTE_RESOLVED => CmEventKind::RouteResolved,
        kind::ROUTE_ERROR => CmEventKind::RouteError(status),
        kind::CONNECT_REQUEST => CmEventKind::ConnectRequest(new_id?),
        kind::CONNECT_ERROR => CmEventKind::ConnectError(status),
        kind::UNREACHABLE => CmEventKind::Unreachable(status),
        kind::REJECTED => CmEventKind::Rejected(status),
        kind::ESTABLISHED => CmEventKind::Established,
        kind::DISCONNECTED => CmEventKind::Disconnected,
        kind::DEVICE_REMOVAL => CmEventKind::DeviceRemoval,
        kind::ADDR_CHANGE => CmEventKind::AddrChange,
        kind::TIMEWAIT_EXIT => CmEventKind::TimewaitExit,
        _ => return None,
    })
}

/// Makes the owner of a new id, and room for another in its listener's backlog.
fn adopt(slot: &Arc<CmSlot>, new: NewId) -> CmId {
    new.listener.inner.lock().pending -= 1;
    if fill_backlog(&new.listener).is_err() {
        crate::warn_ratelimited!("no memory for the backlog of a listener\n");
    }
    CmId {
        // The CM gave the id to us when the callback returned 0.
        id: IdRef::first(new.raw, slot.clone()),
    }
}

// ------------------------------------------------------------------------------------------ ids

/// A share in an id; the last one destroys it.
///
/// # Invariants
///
/// `raw` is alive; `slot` is its slot, whose `users` counts `self`.
pub(super) struct IdRef {
    raw: NonNull<verbs::RdmaCmId>,
    slot: Arc<CmSlot>,
}

// SAFETY: An id may be used from any thread.
unsafe impl Send for IdRef {}

// SAFETY: As above; the CM does its own locking.
unsafe impl Sync for IdRef {}

impl IdRef {
    fn first(raw: NonNull<verbs::RdmaCmId>, slot: Arc<CmSlot>) -> Self {
        // INVARIANT: The only one.
        slot.users.store(1, Relaxed);
        Self { raw, slot }
    }

    /// The id as C knows it.
    pub(super) fn as_raw(&self) -> *mut verbs::RdmaCmId {
        self.raw.as_ptr()
    }
}

impl Clone for IdRef {
    fn clone(&self) -> Self {
        self.slot.users.add(1, Relaxed);
        // INVARIANT: Counted above.
        Self {
            raw: self.raw,
            slot: self.slot.clone(),
        }
    }
}

impl Drop for IdRef {
    /// Sleeps: waits for the callbacks of the id.
    fn drop(&mut self) {
        if self.slot.users.fetch_sub(1, Full) != 1 {
            return;
        }
        // SAFETY: By the type invariant the id is alive, and this was the last share. No lock of
        // the CM is held: callbacks drop no `IdRef`.
        unsafe { verbs::cm_destroy(self.raw.as_ptr()) };
        remove(self.slot.key);
    }
}

/// The owner of an id of the connection manager (`struct rdma_cm_id`).
///
/// When it is dropped no more events of the id are reported, and the id is destroyed, at the
/// latest with its [`Qp`]. All methods may be called from any thread in process context; they
/// sleep. Errors are those of the CM; `EINVAL` mostly means that the id is in another state, since
/// its peer may have acted meanwhile.
pub(crate) struct CmId {
    id: IdRef,
}

impl CmId {
    /// Makes an id in `net` whose events go to `queue` with `tag`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(queue: &Arc<CmQueue>, net: Net, tag: u64) -> Result<Self> {
        let slot = new_slot(queue, tag)?;
        // SAFETY: The namespace is referenced by the invariant of `Net`.
        let raw = from_err_ptr(unsafe { verbs::cm_create(net, slot.key) });
        match raw.and_then(|raw| NonNull::new(raw).ok_or(ENOMEM)) {
            Ok(raw) => Ok(Self {
                id: IdRef::first(raw, slot),
            }),
            Err(e) => {
                remove(slot.key);
                Err(e)
            }
        }
    }

    /// Changes the tag that events carry, also of those that wait to be looked at.
    pub(crate) fn set_tag(&self, tag: u64) {
        self.id.slot.tag.store(tag, Relaxed);
    }

    /// The device that the id is bound to; [`None`] when it is bound to none.
    ///
    /// # Errors
    ///
    /// `ENODEV` when it is being unregistered, `ENOMEM`.
    pub(crate) fn device(&self) -> Result<Option<Arc<Device>>> {
        // SAFETY: The id is alive.
        match NonNull::new(unsafe { verbs::cm_device(self.id.as_raw()) }) {
            // SAFETY: While an id is bound to a device, the CM keeps that from being freed.
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

    /// Bytes of the path's MTU; 0 when there is no path.
    pub(crate) fn path_mtu(&self) -> u32 {
        // SAFETY: The id is alive.
        unsafe { verbs::cm_path_mtu(self.id.as_raw()) }
    }

    /// Overrides the path's MTU (256, 512, ... 4096); after the route was resolved, before
    /// connecting. False when there is no path or no such MTU.
    pub(crate) fn set_path_mtu(&self, mtu: u32) -> bool {
        // SAFETY: The id is alive.
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
    pub(crate) fn bind(&self, addr: &SockAddr) -> Result {
        // SAFETY: The id is alive.
        to_result(unsafe { verbs::cm_bind(self.id.as_raw(), &addr.0) })
    }

    /// Starts resolving `dst`, from `src` if given; ends with an event.
    ///
    /// # Errors
    ///
    /// As for [`CmId::bind`].
    pub(crate) fn resolve_addr(
        &self,
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
        &self,
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
    pub(crate) fn resolve_route(&self, timeout_ms: u32) -> Result {
        // SAFETY: The id is alive.
        to_result(unsafe { verbs::cm_resolve_route(self.id.as_raw(), timeout_ms as usize) })
    }

    /// Creates the id's QP, which is to be at least as `caps` says; [`Qp::caps`] is what was
    /// granted. The id is bound to the device of `pd` and `cq`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the device has no room for it: ask for less. `EINVAL`, also when the id is
    /// bound to another device; and what the provider returns.
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
    /// See [`CmId`]; nothing that has to be done depends on them.
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
        self.id.slot.inner.lock().backlog = slots;
        let backlog = Backlog(self.id.slot.clone());
        fill_backlog(&self.id.slot)?;
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
        self.id.slot.inner.lock().dead = true;
    }
}

/// An id that listens, with the slots for what it hears.
///
/// Dropping it stops listening, and sleeps. Requests that wait to be looked at stay so.
pub(crate) struct Listener {
    _id: CmId,
    /// Dropped after the id: then no callback takes from it, and nobody adds to it.
    _backlog: Backlog,
}

/// The backlog in a listener's slot.
struct Backlog(Arc<CmSlot>);

impl Drop for Backlog {
    fn drop(&mut self) {
        let slots = core::mem::take(&mut self.0.inner.lock().backlog);
        for unused in slots {
            remove(unused.key);
        }
    }
}

// ----------------------------------------------------------------------------------- parameters

/// What a connection is made or accepted with.
#[derive(Clone, Copy)]
pub(crate) struct ConnParam<'a> {
    /// For the peer: 56 bytes at most in a request, 196 in an answer.
    pub(crate) private_data: &'a [u8],
    /// Incoming RDMA READs and atomics at a time.
    pub(crate) responder_resources: u8,
    /// Outgoing ones.
    pub(crate) initiator_depth: u8,
    /// Whether there is end-to-end flow control.
    pub(crate) flow_control: bool,
    /// Retransmissions, up to 7.
    pub(crate) retry_count: u8,
    /// Retries when the receiver is not ready, up to 6; 7 is for ever.
    pub(crate) rnr_retry_count: u8,
}

impl ConnParam<'_> {
    fn to_raw(self) -> Result<verbs::CmParam> {
        Ok(verbs::CmParam {
            private_data: self.private_data.as_ptr(),
            private_data_len: u8::try_from(self.private_data.len())?,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            flow_control: self.flow_control.into(),
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
        })
    }
}

/// A socket address.
#[derive(Clone, Copy)]
pub(crate) struct SockAddr(verbs::SockAddr);

impl SockAddr {
    const ANY_V4: Self = Self::v4([0; 4], 0);

    /// An IPv4 address (as bytes, in the order they are written) and port.
    pub(crate) const fn v4(addr: [u8; 4], port: u16) -> Self {
        let [a, b, c, d] = addr;
        Self(verbs::SockAddr {
            family: verbs::AF_INET,
            port,
            scope_id: 0,
            addr: [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        })
    }

    /// The same address with another port.
    pub(crate) const fn with_port(mut self, port: u16) -> Self {
        self.0.port = port;
        self
    }

    /// The port.
    pub(crate) const fn port(&self) -> u16 {
        self.0.port
    }

    /// The IPv4 address, if it is one.
    pub(crate) fn ipv4(&self) -> Option<[u8; 4]> {
        let [a, b, c, d, ..] = self.0.addr;
        (self.0.family == verbs::AF_INET).then_some([a, b, c, d])
    }
}

impl fmt::Display for SockAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ipv4() {
            Some([a, b, c, d]) => write!(f, "{a}.{b}.{c}.{d}:{}", self.port()),
            None => write!(f, "[{:x?}]:{}", self.0.addr, self.port()),
        }
    }
}
