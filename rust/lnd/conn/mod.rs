// SPDX-License-Identifier: GPL-2.0

//! One connection: the engine, the queue pair it drives, and the buffers of both.
//!
//! The lock of a connection protects engine, QP and send buffers. Whatever touches the QP is posted
//! under it, in the engine's order; everything else is done after unlock, by the scheduler thread
//! that the connection belongs to ([`exec`](super::traffic::exec)) or by connd. Nothing is locked
//! inside it.

mod create;
mod inner;
mod post;
mod rxbuf;

pub(crate) use create::Setup;
pub(crate) use inner::{
    ConnInner,
    QpSlot, //
};
pub(crate) use rxbuf::{
    Returned,
    RxBufs, //
};

use self::rxbuf::Saved;
use super::{
    clock::now,
    ni,
    peer,
    stats::Counted,
    storage::KernelStorage,
    tx::Tx, //
};
use crate::{
    driver::{
        exec::AsyncEvents,
        shell::{
            drive,
            Request, //
        },
    },
    kx::{
        Key,
        Table,
        WorkQueue, //
    },
    lnet::{
        RxOwner,
        RxTag, //
    },
    proto::{
        conn::{
            Conn as Engine,
            Delivery,
            Role, //
        },
        ConnId,
        Instant,
        Limits,
        RxId, //
    },
    rdma::{
        Cq,
        CqNotify,
        CqQueue,
        DeviceId,
        Failed,
        PdId,
        Qp, //
    },
};
use kernel::{
    list::{
        impl_list_arc_safe,
        impl_list_item,
        AtomicTracker,
        ListLinks,
        TryNewListArc, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Full,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    }, //
};

/// An NI, for connections as they are here.
pub(crate) type Ni = ni::Ni<Conn>;

/// A peer that has connections as they are here.
pub(crate) type Peer = peer::Peer<Conn>;

/// An NI and its peers.
pub(crate) type Network = peer::Network<Conn>;

/// All connections by number.
pub(crate) type Conns = Table<Conn>;

/// The queue of a scheduler thread: the numbers of connections that have work for it.
pub(crate) type Queue = CqQueue<Key>;

/// A connection. Exists from before its first CM message until nobody refers to it, which is at
/// the earliest when its queue pair has been destroyed.
#[pin_data]
pub(crate) struct Conn {
    /// Its number. It is found by that among all connections, its peer's engine names it by that,
    /// and the events of its CM id have that as their tag.
    pub(crate) key: Key,
    /// Which side asked for it.
    pub(crate) role: Role,
    #[pin]
    inner: SpinLock<ConnInner>,
    /// One per receive buffer: its address is what LNet holds while a message in the buffer is
    /// LNet's.
    tags: KVVec<RxTag>,
    /// What the completion handlers and [`Conn::kick`] put on the queue of the scheduler thread.
    notify: Arc<CqNotify<Key>>,
    /// Where connd finds it when it has a request.
    work: Arc<WorkQueue<Self>>,
    /// What connd is asked for, by [`Request`]; set by any thread, cleared by connd.
    requests: [AtomicFlag; Request::ALL.len()],
    /// The peer's engine has been told of it. Set once, by connd.
    known: Atomic<bool>,
    /// Path MTU in bytes, 0 when unknown. For the ioctl that shows it.
    pub(crate) mtu: Atomic<u32>,
    #[pin]
    links: ListLinks<0>,
    #[pin]
    tracker: AtomicTracker<0>,
    /// The device that it was made on. Not a reference: the device may be gone.
    pub(crate) device: DeviceId,
    /// The PD of its QP. What a descriptor has mapped for another is not posted here.
    pub(crate) pd: PdId,
    /// The peer, which has the NI.
    pub(crate) peer: Arc<Peer>,
    _live: Counted,
    /// Dropped last: the NI waits for it.
    _hold: ni::Hold,
}

impl_list_arc_safe! {
    impl ListArcSafe<0> for Conn {
        tracked_by tracker: AtomicTracker<0>;
    }
}

impl_list_item! {
    impl ListItem<0> for Conn { using ListLinks { self.links }; }
}

impl RxOwner for Conn {
    fn rx_tag(&self, rx: u16) -> Option<&RxTag> {
        self.tags.get(usize::from(rx))
    }
}

impl Conn {
    /// Its number, as the engine of its peer names it.
    pub(crate) fn name(&self) -> ConnId {
        ConnId(self.key.raw())
    }

    /// Feeds the engine under the lock and posts what it wants posted. What is to be done after
    /// unlock is left to the scheduler thread.
    ///
    /// Does not sleep; no lock of a connection may be held. `f` must not drop a message.
    pub(crate) fn drive<R>(
        &self,
        f: impl FnOnce(&mut Engine<KernelStorage, KBox<Tx>>, Instant) -> R,
    ) -> R {
        let mut inner = self.inner.lock();
        let (result, kick) = drive(&mut *inner, now(), f);
        drop(inner);
        if kick {
            self.kick();
        }
        result
    }

    /// Feeds the engine under the lock, with posting left to a later [`Conn::drive`] of the same
    /// thread.
    pub(crate) fn feed<R>(
        &self,
        f: impl FnOnce(&mut Engine<KernelStorage, KBox<Tx>>, Instant) -> R,
    ) -> R {
        let mut inner = self.inner.lock();
        let now = now();
        f(&mut inner.engine, now)
    }

    /// The connection under its lock, for what is more than feeding the engine.
    pub(crate) fn locked<R>(&self, f: impl FnOnce(&mut ConnInner) -> R) -> R {
        f(&mut self.inner.lock())
    }

    /// Wakes the scheduler thread of the connection, which polls and runs actions. Callable from
    /// any context.
    pub(crate) fn kick(&self) {
        CqNotify::kick(self.notify.as_arc_borrow());
    }

    /// Takes what the asynchronous event handlers noted.
    pub(crate) fn take_events(&self) -> AsyncEvents {
        let events = self.notify.take_events();
        AsyncEvents {
            comm_est: events.comm_est,
            cq_error: events.cq_error,
            qp_error: events.qp_error,
            peer_error: events.peer_error,
        }
    }

    /// Requests work that sleeps from connd. Callable from any context that holds no spinlock.
    pub(crate) fn request(self: &Arc<Self>, request: Request) {
        if let Some(flag) = self.requests.get(request as usize) {
            flag.xchg(true, Full);
        }
        self.work.push(self.clone());
    }

    /// Takes a request.
    pub(crate) fn take_request(&self, request: Request) -> bool {
        self.requests
            .get(request as usize)
            .is_some_and(|flag| flag.xchg(false, Full))
    }

    /// Notes that the peer's engine knows this connection.
    pub(crate) fn set_known(&self) {
        self.known.store(true, Relaxed);
    }

    /// Whether the peer's engine knows this connection.
    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Relaxed)
    }

    /// Takes the QP out of the lock. Nothing can be posted from then on.
    pub(crate) fn take_qp(&self) -> QpSlot {
        core::mem::replace(&mut self.inner.lock().qp, QpSlot::None)
    }

    /// Puts a QP in the error state back, for the sentinels.
    pub(crate) fn put_qp(&self, qp: Qp<Key, Failed>) {
        self.inner.lock().qp = QpSlot::Failed(qp);
    }

    /// The completion queue and the receive buffers, while there are any.
    pub(crate) fn queues(&self) -> Option<(Arc<Cq<Key>>, Arc<RxBufs>)> {
        let inner = self.inner.lock();
        let cq = match &inner.qp {
            QpSlot::None => return None,
            QpSlot::Live(qp) => qp.cq().clone(),
            QpSlot::Failed(qp) => qp.cq().clone(),
        };
        Some((cq, inner.rx.clone()?))
    }

    /// The receive buffers, while there are any.
    pub(crate) fn rx_bufs(&self) -> Option<Arc<RxBufs>> {
        self.inner.lock().rx.clone()
    }

    /// Lets go of everything on the device: the QP is gone, and the engine posts nothing more.
    /// What LNet holds is copied, because it may hold it for long. Sleeps.
    pub(crate) fn release_device(&self) {
        let mut saved = Saved::default();
        if let Some(bufs) = self.rx_bufs() {
            for n in (0..).zip(&self.tags).map(|(n, _)| RxId(n)) {
                if self.feed(|engine, _| engine.held(n).is_some()) {
                    saved.add(&bufs, n);
                }
            }
        }
        let mut inner = self.inner.lock();
        inner.saved = saved;
        let bufs = inner.rx.take();
        let slots = core::mem::take(&mut inner.slots);
        let hca = inner.hca.take();
        drop(inner);
        drop((bufs, slots, hca));
    }

    /// What LNet was given with `rx`, which it has given back, and the message itself. To be
    /// answered then: the engine has the buffer as held until it is.
    pub(crate) fn returned(&self, rx: RxId) -> Option<(Delivery, Returned)> {
        let mut inner = self.inner.lock();
        let kind = inner.engine.held(rx)?;
        let saved = inner.saved.take(rx);
        Some((kind, Returned::new(rx, inner.rx.clone(), saved)))
    }

    /// The limits in force.
    pub(crate) fn limits(&self) -> Limits {
        *self.inner.lock().engine.limits()
    }
}
