// SPDX-License-Identifier: GPL-2.0

//! Events of ids: the callback that stores them, and the end that consumes them.

use super::{
    id::CmId,
    param::PrivateData,
    slot::{
        fill_backlog,
        CmQueue,
        CmSlot,
        IdRef,
        NewId,
        SlotData, //
    },
};
use crate::{
    ffi::verbs::{
        self,
        cm_event as kind, //
    },
    kx::{
        Batch,
        Entry, //
    },
};
use core::ptr::NonNull;
use kernel::{
    ffi::c_void,
    sync::{
        atomic::Relaxed,
        Arc,
        ArcBorrow, //
    }, //
};

/// Called by the CM for each event; process context, under the id's handler lock.
///
/// # Safety
///
/// `context` is that of `id`: the address of its slot, or of its listener's where `id` is the new
/// id of a connection request. `id` and `ev` are valid during the call, and the private data of
/// `ev`, if any. The handler mutex of `id` is held, with a connection request its listener's, too.
#[no_mangle]
unsafe extern "C" fn kor_rust_cm_event(
    context: *mut c_void,
    id: *mut verbs::RdmaCmId,
    ev: *const verbs::CmEvent,
) -> i32 {
    // SAFETY: By the contract of this function.
    let ev = unsafe { &*ev };
    let request = ev.kind == kind::CONNECT_REQUEST;
    // SAFETY: It is the address of a slot in an `Arc`, which an `IdRef` of its id holds. The last
    // of them destroys the id before it lets the slot go, and that waits for the handler mutex,
    // which is held around this call.
    let slot = unsafe { ArcBorrow::from_raw(context.cast::<CmSlot>().cast_const()) };
    // SAFETY: By the contract of this function.
    let data = unsafe { PrivateData::copy_from(ev.private_data, ev.private_data_len) };
    if request {
        let taken = NonNull::new(id).is_some_and(|id| connect_request(slot, id, &data));
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
    Entry::kick(slot);
    0
}

/// Gives a new id a slot of its listener's backlog. `false` when the backlog is empty.
fn connect_request(
    listener: ArcBorrow<'_, CmSlot>,
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
    let context = Arc::as_ptr(&slot).cast_mut().cast::<c_void>();
    // SAFETY: The id is new, and its handler lock is held around this call.
    unsafe { verbs::cm_set_context(id.as_ptr(), context) };
    // SAFETY: As this call will return 0, the CM gives the id to us; its context was set above.
    let new_id = unsafe { IdRef::first(id, slot.clone()) };
    {
        let mut inner = slot.inner.lock();
        inner.request = *data;
        inner.new_id = Some(NewId {
            id: new_id,
            listener: listener.into(),
        });
        inner.push(kind::CONNECT_REQUEST, 0);
    }
    Entry::kick(slot.as_arc_borrow());
    true
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
    /// Drops the events that nobody took; connection requests among them are rejected.
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
        if let Some(kind) = event_kind(event, status, new_id.map(adopt)) {
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
fn adopt(new: NewId) -> CmId {
    new.listener.inner.lock().pending -= 1;
    if fill_backlog(&new.listener).is_err() {
        crate::warn_ratelimited!("no memory for the backlog of a listener\n");
    }
    CmId::from(new.id)
}
