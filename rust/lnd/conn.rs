// SPDX-License-Identifier: GPL-2.0

//! One connection: the engine, the queue pair it drives, and the buffers of both.
//!
//! The lock of a connection protects engine, QP and send buffers. Whatever touches the QP is posted
//! under it, in the engine's order; everything else is done after unlock, by the scheduler thread
//! that the connection belongs to ([`exec`](super::exec)) or by connd. Nothing is locked inside it.
//!
use super::{
    dev::Hca,
    ni::Hold,
    now,
    peer::Peer,
    post,
    rxbuf::{
        Returned,
        RxBufs,
        Saved, //
    },
    sched::Queue,
    stats::{
        Counted,
        Event,
        Live, //
    },
    storage::KernelStorage,
    table::Key,
    tx::Tx,
    Driver, //
};
use crate::{
    driver::{
        exec::AsyncEvents,
        placement,
        shell::{
            drive,
            Request, //
        },
    },
    kx::Node,
    lnet::{
        self,
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
        NiTunables,
        RxId, //
    },
    rdma::{
        CmId,
        Cq,
        CqNotify,
        DeviceId,
        DmaBuf,
        Failed,
        Live as QpLive,
        Lkey,
        Qp,
        QpCaps,
        RecvChain,
        SendChain,
        ToDevice, //
    },
    wire::Identity,
};
use kernel::{
    list::{
        impl_list_arc_safe,
        impl_list_item,
        AtomicTracker,
        ListLinks,
        TryNewListArc, //
    },
    new_spinlock,
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

/// Bytes of a send slot: enough for every message without payload.
const SLOT_SIZE: u32 = 256;

/// The queue pair, as far as it has come.
pub(crate) enum QpSlot {
    /// Taken out by connd, or gone.
    None,
    /// Usable.
    Live(Qp<Key, QpLive>),
    /// In the error state, for the sentinels.
    Failed(Qp<Key, Failed>),
}

impl QpSlot {
    /// Number of the QP, as `rdma resource` shows it, and the send requests it was granted.
    pub(crate) fn shape(&self) -> Option<(u32, u32)> {
        match self {
            Self::None => None,
            Self::Live(qp) => Some((qp.number(), qp.caps().max_send_wr)),
            Self::Failed(qp) => Some((qp.number(), qp.caps().max_send_wr)),
        }
    }
}

/// What the lock of a [`Conn`] protects.
pub(crate) struct ConnInner {
    pub(crate) engine: Engine<KernelStorage, KBox<Tx>>,
    pub(crate) qp: QpSlot,
    /// Buffers for messages to be sent.
    pub(crate) slots: KVVec<DmaBuf<ToDevice>>,
    /// Buffers for receives; gone with the QP.
    pub(crate) rx: Option<Arc<RxBufs>>,
    /// Afterwards: what LNet still holds of them.
    saved: Saved,
    pub(crate) lkey: Lkey,
    pub(crate) sends: SendChain,
    pub(crate) recvs: RecvChain,
    /// What LNet holds, by receive buffer.
    delivered: KVVec<Option<(Delivery, Counted)>>,
    /// Until everything on it is gone.
    hca: Option<Arc<Hca>>,
}

/// A connection.
#[pin_data]
pub(crate) struct Conn {
    /// Name for the peer's engine.
    pub(crate) id: ConnId,
    /// Number in the driver's table.
    pub(crate) key: Key,
    /// Tag of its CM id.
    pub(crate) tag: u64,
    pub(crate) role: Role,
    #[pin]
    inner: SpinLock<ConnInner>,
    /// For LNet to hold on to receive buffers.
    tags: KVVec<RxTag>,
    notify: Arc<CqNotify<Key>>,
    /// What connd is asked for.
    requests: [AtomicFlag; Request::ALL.len()],
    /// The peer's engine has been told of it.
    known: Atomic<bool>,
    /// Bytes of the path MTU; 0 when unknown.
    pub(crate) mtu: Atomic<u32>,
    #[pin]
    links: ListLinks<0>,
    #[pin]
    tracker: AtomicTracker<0>,
    pub(crate) device: DeviceId,
    pub(crate) peer: Arc<Peer>,
    _live: Counted,
    /// Dropped last: the NI waits for it.
    _hold: Hold,
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

/// What a connection is made from.
pub(crate) struct Setup<'a> {
    pub(crate) peer: &'a Arc<Peer>,
    pub(crate) hca: &'a Arc<Hca>,
    /// Its CM id, bound to the device.
    pub(crate) cm: &'a CmId,
    /// The tag of that.
    pub(crate) tag: u64,
    /// Its number, from [`Conn::reserve`].
    pub(crate) key: Key,
    pub(crate) role: Role,
    pub(crate) ident: Identity,
    pub(crate) tunables: &'a NiTunables,
}

impl Conn {
    /// The name that the connection with number `key` has for its peer.
    pub(crate) fn name(key: Key) -> ConnId {
        // The slot is in the lower half, so two that exist differ.
        ConnId(key.raw() as u32)
    }

    /// Makes a connection: queues as large as the device allows, buffers, and receives posted.
    /// Sleeps.
    ///
    /// # Errors
    ///
    /// ENOMEM, also when the device has no room for the smallest queues; and what the provider
    /// returns.
    pub(crate) fn create(driver: &Driver, setup: &Setup<'_>, limits: Limits) -> Result<Arc<Self>> {
        let ni = &setup.peer.ni;
        let cpt = ni.cpt_of(setup.peer.nid);
        let node = lnet::cpt_node(cpt);
        let queue = driver.schedulers.queue(cpt).ok_or(ENOMEM)?;
        let vector = placement::vector(setup.peer.nid, setup.key.raw());
        let (qp, limits) = create_queues(setup, &queue, vector, limits)?;
        let cq = qp.cq().clone();
        let notify = cq.notify().clone();
        let inner = ConnInner::new(setup, qp, limits, node)?;
        let tags = crate::kx::new_buf(limits.rx_slots.into(), |n| RxTag::new(n as u16))?;
        let conn = Arc::pin_init(
            pin_init!(Self {
                id: Self::name(setup.key),
                key: setup.key,
                tag: setup.tag,
                role: setup.role,
                inner <- new_spinlock!(inner, "ko2iblnd::Conn"),
                tags,
                notify,
                requests: [const { AtomicFlag::new(false) }; Request::ALL.len()],
                known: Atomic::new(false),
                mtu: Atomic::new(setup.cm.path_mtu()),
                links <- ListLinks::new(),
                tracker <- AtomicTracker::new(),
                device: setup.hca.device().id(),
                peer: setup.peer.clone(),
                _live: Live::Conns.hold(),
                _hold: ni.hold(),
            }),
            GFP_KERNEL,
        )?;
        driver.conns.fill(setup.key, conn.clone());
        cq.arm()?;
        conn.drive(|_, _| ());
        Ok(conn)
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

    /// Has the scheduler thread look at the connection. Any context.
    pub(crate) fn kick(&self) {
        CqNotify::kick(self.notify.as_arc_borrow());
    }

    /// What the asynchronous handlers noted.
    pub(crate) fn take_events(&self) -> AsyncEvents {
        let events = self.notify.take_events();
        AsyncEvents {
            comm_est: events.comm_est,
            cq_error: events.cq_error,
            qp_error: events.qp_error,
            peer_error: events.peer_error,
        }
    }

    /// Has connd serve a request.
    pub(crate) fn request(self: &Arc<Self>, request: Request) {
        if let Some(flag) = self.requests.get(request as usize) {
            flag.xchg(true, Full);
        }
        self.peer.ni.driver.connd.push_conn(self.clone());
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
                let is_held = |inner: &mut ConnInner| {
                    let held = inner.delivered.get(usize::from(n.0));
                    held.is_some_and(Option::is_some)
                };
                if self.locked(is_held) {
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

    /// What LNet was given with `rx`, which it holds no longer, and the message itself.
    pub(crate) fn take_delivered(&self, rx: RxId) -> Option<(Delivery, Returned)> {
        let mut inner = self.inner.lock();
        let (kind, _held) = inner.delivered.get_mut(usize::from(rx.0))?.take()?;
        // With the same hold of the lock: `release_device` copies only what is held.
        let saved = inner.saved.take(rx);
        Some((kind, Returned::new(rx, inner.rx.clone(), saved)))
    }

    /// The limits in force.
    pub(crate) fn limits(&self) -> Limits {
        *self.inner.lock().engine.limits()
    }
}

impl ConnInner {
    fn new(setup: &Setup<'_>, qp: Qp<Key>, limits: Limits, node: Node) -> Result<Self> {
        let mut slots = KVVec::with_capacity(limits.send_slots.into(), GFP_KERNEL)?;
        for _ in 0..limits.send_slots {
            slots.push(
                DmaBuf::new(setup.hca.device(), SLOT_SIZE, node)?,
                GFP_KERNEL,
            )?;
        }
        let rx = RxBufs::new(setup.hca.device(), limits.rx_slots, node)?;
        let engine = Engine::new(
            &mut KernelStorage,
            setup.role,
            setup.ident,
            limits,
            setup.tunables,
            now(),
        )?;
        let chain_sges = post::CHAIN_WRS.saturating_mul(limits.max_send_sge.into());
        Ok(Self {
            engine,
            qp: QpSlot::Live(qp),
            slots,
            rx: Some(rx),
            saved: Saved::default(),
            lkey: setup.hca.lkey(),
            sends: SendChain::new(post::CHAIN_WRS, chain_sges)?,
            recvs: RecvChain::new(limits.rx_slots.into())?,
            delivered: crate::kx::new_buf(limits.rx_slots.into(), |_| None)?,
            hca: Some(setup.hca.clone()),
        })
    }

    /// Notes what LNet is given with `rx`.
    pub(crate) fn deliver(&mut self, rx: RxId, kind: Delivery) {
        if let Some(delivered) = self.delivered.get_mut(usize::from(rx.0)) {
            *delivered = Some((kind, Live::LnetRx.hold()));
        }
    }
}

/// Creates CQ and QP. When the device has no room for them, less is asked for.
fn create_queues(
    setup: &Setup<'_>,
    queue: &Arc<Queue>,
    vector: u32,
    wanted: Limits,
) -> Result<(Qp<Key>, Limits)> {
    let mut limits = wanted;
    loop {
        let error = match try_create_queues(setup, queue, vector, &limits) {
            Ok(qp) => return Ok((qp, limits)),
            Err(e) => e,
        };
        if error != ENOMEM {
            return Err(error);
        }
        limits = limits.lowered().ok_or(error)?;
        Event::LimitsLowered.count();
    }
}

fn try_create_queues(
    setup: &Setup<'_>,
    queue: &Arc<Queue>,
    vector: u32,
    limits: &Limits,
) -> Result<Qp<Key>> {
    let cq = Cq::new(setup.hca.device(), queue, setup.key, limits.cqe, vector)?;
    let caps = QpCaps {
        max_send_wr: limits.sq_wrs,
        max_recv_wr: limits.rq_wrs,
        max_send_sge: limits.max_send_sge.into(),
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    setup.cm.create_qp(setup.hca.pd(), &cq, caps)
}
