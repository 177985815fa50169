// SPDX-License-Identifier: GPL-2.0

//! What [`driver`](crate::driver) needs done while nothing is locked, with the driver's objects.

use crate::{
    driver::shell::{
        Ended,
        Request,
        Shell, //
    },
    lnd::{
        clock::now,
        conn::{
            Conn,
            Network,
            Peer, //
        },
        stats::Event,
        storage::KernelStorage,
        tx::Tx, //
    },
    lnet::RxHandle,
    proto::{
        conn::Delivery,
        peer::{
            Peer as Engine,
            PeerSubmit, //
        },
        Cause,
        ConnId,
        Done,
        Instant,
        Refused,
        RxId, //
    },
    wire::{
        LnetHdr,
        Nid, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Any thread of the driver or of LNet, inside a [`NofsScope`](crate::kx::NofsScope).
pub(crate) struct Kernel;

impl Shell for Kernel {
    type Storage = KernelStorage;
    type Tx = KBox<Tx>;
    type Ni = Arc<Network>;
    type Peer = Arc<Peer>;
    type Conn = Arc<Conn>;

    fn find_peer(
        &mut self,
        network: &Arc<Network>,
        nid: Nid,
    ) -> core::result::Result<Arc<Peer>, Cause> {
        network.get_or_create(nid)
    }

    fn forget_peer(&mut self, peer: &Arc<Peer>) {
        peer.forget();
    }

    fn peer<R>(
        &mut self,
        peer: &Arc<Peer>,
        f: impl FnOnce(&mut Engine<KernelStorage, KBox<Tx>>, Instant) -> R,
    ) -> R {
        f(&mut peer.inner.lock().engine, now())
    }

    fn place(
        &mut self,
        peer: &Arc<Peer>,
        f: impl FnOnce(&mut Engine<KernelStorage, KBox<Tx>>, Instant) -> PeerSubmit<KBox<Tx>>,
    ) -> (PeerSubmit<KBox<Tx>>, Option<Arc<Conn>>) {
        let mut inner = peer.inner.lock();
        let placed = f(&mut inner.engine, now());
        let conn = match &placed {
            PeerSubmit::Use { conn, .. } => inner.conn(*conn),
            PeerSubmit::Queued | PeerSubmit::Refused(_) => None,
        };
        (placed, conn)
    }

    fn kick_peer(&mut self, peer: &Arc<Peer>) {
        peer.kick();
    }

    fn peer_of(&self, conn: &Arc<Conn>) -> Arc<Peer> {
        conn.peer.clone()
    }

    fn name_of(&self, conn: &Arc<Conn>) -> Option<ConnId> {
        conn.is_known().then_some(conn.name())
    }

    fn submit(
        &mut self,
        conn: &Arc<Conn>,
        tx: KBox<Tx>,
    ) -> core::result::Result<(), Refused<KBox<Tx>>> {
        let Some(what) = tx.what else {
            let cause = Cause::BadInput;
            return Err(Refused { tx, cause });
        };
        if tx.pd() != conn.pd {
            // The address has moved to another device since the memory was mapped.
            Event::TxForeign.count();
            let cause = Cause::DeviceGone;
            return Err(Refused { tx, cause });
        }
        conn.drive(|engine, now| engine.submit(now, tx, what).map(|_| ()))
    }

    fn request(&mut self, conn: &Arc<Conn>, request: Request) {
        match request {
            Request::DestroyQp => Event::ForcedDrain.count(),
            Request::NotifyEstablished | Request::Disconnect | Request::TakeDown => {}
        }
        conn.request(request);
    }

    fn note_established(&mut self, _conn: &Arc<Conn>) {
        Event::Established.count();
    }

    fn note_closed(&mut self, conn: &Arc<Conn>, cause: Cause, logged: bool) {
        match cause.errno() {
            0 => Event::ClosedClean.count(),
            _ => Event::ClosedError.count(),
        }
        if logged {
            crate::warn_ratelimited!(
                "{}: connection closed: {} ({})\n",
                conn.peer.nid,
                cause,
                cause.errno()
            );
        }
    }

    fn deliver(
        &mut self,
        conn: &Arc<Conn>,
        rx: RxId,
        hdr: &LnetHdr,
        kind: Delivery,
    ) -> core::result::Result<(), i32> {
        let rdma = match kind {
            Delivery::Immediate => false,
            Delivery::PutReq | Delivery::GetReq { .. } => true,
        };
        let handle = RxHandle {
            conn: conn.clone(),
            rx: rx.0,
        };
        let ni = conn.peer.ni.handle();
        match ni.parse(&hdr.to_bytes(), conn.peer.nid.0, handle, rdma) {
            Ok(()) => {
                Event::RxDelivered.count();
                Ok(())
            }
            Err((e, _handle)) => {
                Event::RxRefused.count();
                crate::warn_ratelimited!("{}: LNet refuses {}: {:?}\n", conn.peer.nid, hdr.kind, e);
                Err(e.to_errno())
            }
        }
    }

    fn finish(&mut self, conn: &Arc<Conn>, tx: KBox<Tx>, done: Done, ended: Ended) {
        conn.peer.ni.finish(tx, done, ended);
    }

    fn fail(&mut self, network: &Arc<Network>, tx: KBox<Tx>, done: Done) {
        network.ni.finish(tx, done, Ended::Clean);
    }
}
