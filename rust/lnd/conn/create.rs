// SPDX-License-Identifier: GPL-2.0

//! Making a connection.

use super::{
    super::{
        clock::now,
        device::Hca,
        stats::{
            Event,
            Live, //
        },
        storage::KernelStorage, //
    },
    inner::ConnInner,
    Conn,
    Peer,
    Queue, //
};
use crate::{
    driver::{
        placement,
        shell::Request, //
    },
    kx::{
        self,
        Key,
        Reserved,
        WorkQueue, //
    },
    lnet::{
        self,
        RxTag, //
    },
    proto::{
        conn::{
            Conn as Engine,
            Role, //
        },
        Limits,
        NiTunables, //
    },
    rdma::{
        CmId,
        Cq,
        Qp,
        QpCaps, //
    },
    wire::Identity,
};
use kernel::{
    list::{
        AtomicTracker,
        ListLinks, //
    },
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag, //
        },
        Arc, //
    }, //
};

/// What a connection is made from.
pub(crate) struct Setup<'a> {
    pub(crate) peer: &'a Arc<Peer>,
    pub(crate) hca: &'a Arc<Hca>,
    /// Its CM id, bound to the device.
    pub(crate) cm: &'a CmId,
    /// Its number, which is that of the CM id, too. The connection is found by it from here on.
    pub(crate) reserved: &'a Reserved<'a, Conn>,
    /// The queue of the scheduler thread that it will belong to.
    pub(crate) queue: &'a Arc<Queue>,
    /// Where it is put when connd is to do something.
    pub(crate) work: &'a Arc<WorkQueue<Conn>>,
    pub(crate) role: Role,
    pub(crate) ident: Identity,
    pub(crate) tunables: &'a NiTunables,
}

impl Conn {
    /// Makes a connection: queues as large as the device allows, buffers, and receives posted.
    /// Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also when the device has no room for the smallest queues; and what the provider
    /// returns.
    pub(crate) fn create(setup: &Setup<'_>, limits: Limits) -> Result<Arc<Self>> {
        let vector = placement::vector(setup.peer.nid, setup.reserved.key().raw());
        let (qp, limits) = create_queues(setup, vector, limits)?;
        let cq = qp.cq().clone();
        let conn = Self::assemble(setup, qp, limits)?;
        // First, because a completion handler names it by its number.
        setup.reserved.fill(conn.clone());
        if let Err(e) = cq.arm() {
            drop(setup.reserved.take());
            return Err(e);
        }
        conn.drive(|_, _| ());
        Ok(conn)
    }

    /// The connection around its queue pair.
    ///
    /// Not inlined: the engine passes through this frame, of 4 KiB, which must not be on the stack
    /// while the provider makes a queue pair or is given receives.
    #[inline(never)]
    fn assemble(setup: &Setup<'_>, qp: Qp<Key>, limits: Limits) -> Result<Arc<Self>> {
        let ni = &setup.peer.ni;
        let node = lnet::cpt_node(ni.cpt_of(setup.peer.nid));
        let notify = qp.cq().notify().clone();
        let engine = Engine::new(
            &mut KernelStorage,
            setup.role,
            setup.ident,
            limits,
            setup.tunables,
            now(),
        )?;
        let inner = ConnInner::new(engine, qp, setup.hca, node)?;
        let tags = kx::new_buf(limits.rx_slots.into(), |n| RxTag::new(n as u16))?;
        Arc::pin_init(
            pin_init!(Self {
                key: setup.reserved.key(),
                role: setup.role,
                inner <- new_spinlock!(inner, "ko2iblnd::Conn"),
                tags,
                notify,
                work: setup.work.clone(),
                requests: [const { AtomicFlag::new(false) }; Request::ALL.len()],
                known: Atomic::new(false),
                mtu: Atomic::new(setup.cm.path_mtu()),
                links <- ListLinks::new(),
                tracker <- AtomicTracker::new(),
                device: setup.hca.device().id(),
                pd: setup.hca.pd().id(),
                peer: setup.peer.clone(),
                _live: Live::Conns.hold(),
                _hold: ni.hold(),
            }),
            GFP_KERNEL,
        )
    }
}

/// Creates CQ and QP. When the device has no room for them, less is asked for.
fn create_queues(setup: &Setup<'_>, vector: u32, wanted: Limits) -> Result<(Qp<Key>, Limits)> {
    let mut limits = wanted;
    loop {
        let error = match try_create_queues(setup, vector, &limits) {
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

fn try_create_queues(setup: &Setup<'_>, vector: u32, limits: &Limits) -> Result<Qp<Key>> {
    let cq = Cq::new(
        setup.hca.device(),
        setup.queue,
        setup.reserved.key(),
        limits.cqe,
        vector,
    )?;
    let caps = QpCaps {
        max_send_wr: limits.sq_wrs,
        max_recv_wr: limits.rq_wrs,
        max_send_sge: limits.max_send_sge.into(),
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    setup.cm.create_qp(setup.hca.pd(), &cq, caps)
}
