// SPDX-License-Identifier: GPL-2.0

//! What connection work needs of peers, connections, queue pairs, NIs, counters and the log.

use super::{
    ids::errno,
    link::Pending,
    Worker, //
};
use crate::{
    driver::{
        admission::{
            Found,
            RefusalKind,
            Request as Incoming, //
        },
        cm::{
            CmEvent,
            ConnInput, //
        },
        connect::effects::{
            Connect,
            Count,
            EngineOf,
            FailedQp,
            Line,
            Wanted, //
        },
        handshake::Encoding,
        send::Sending,
        shell::{
            Ended,
            Request, //
        }, //
    },
    kx::{
        errno::ENETDOWN,
        Reserved, //
    },
    lnd::{
        clock::now,
        conn::{
            Conn,
            Network,
            Peer,
            QpSlot,
            Setup, //
        },
        stats::{
            self,
            Event,
            Live, //
        },
        traffic::{
            send,
            shell::Kernel, //
        },
        tx::Tx, //
    },
    lnet::Params,
    proto::{
        conn::Role,
        passive::{
            NiInfo,
            RefuseCause, //
        },
        peer::Claim,
        ConnId,
        Done,
        Instant,
        Limits, //
    },
    rdma::CmId,
    wire::{
        Endian,
        Nid,
        CONN_MSG_SIZE, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

impl<'a> Worker<'a> {
    fn make_conn(&mut self, tag: u64, wanted: &Wanted) -> Result<Arc<Conn>, i32> {
        let mtu = u32::try_from(Params::read().ib_mtu).unwrap_or(0);
        if wanted.role == Role::Active && mtu != 0 {
            // Without a path there is nothing to override.
            let _ = self.entry_mut(tag)?.id.set_path_mtu(mtu);
        }
        let entry = self.entry(tag)?;
        let (id, peer) = (&entry.id, &entry.link.peer);
        let hca = peer.ni.dev.hca().map_err(errno)?;
        let bound = id.device().map_err(errno)?;
        if bound.map(|device| device.id()) != Some(hca.device().id()) {
            return Err(ENETDOWN.to_error().to_errno());
        }
        let tunables = peer.ni.tunables_now();
        let limits = wanted.limits(&tunables, hca.caps())?;
        let cpt = peer.ni.cpt_of(peer.nid);
        let queue = self.shared.schedulers.queue(cpt);
        let queue = queue.ok_or(ENOMEM.to_errno())?;
        let setup = Setup {
            peer,
            hca: &hca,
            cm: id,
            reserved: &entry.reserved,
            queue: &queue,
            work: &self.shared.connd.conns,
            role: wanted.role,
            ident: wanted.ident,
            tunables: &tunables,
        };
        Conn::create(&setup, limits).map_err(errno)
    }
}

impl<'a> Connect for Worker<'a> {
    fn shell(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    fn nid(&self, peer: &Arc<Peer>) -> Nid {
        peer.nid
    }

    fn info(&self, peer: &Arc<Peer>) -> NiInfo {
        peer.ni.info()
    }

    fn encoding(&self, _peer: &Arc<Peer>) -> Encoding {
        Encoding {
            cksum: Params::read().cksum != 0,
            endian: Endian::NATIVE,
        }
    }

    fn find_conn(&mut self, peer: &Arc<Peer>, name: ConnId) -> Option<Arc<Conn>> {
        peer.inner.lock().conn(name)
    }

    fn name_conn(
        &mut self,
        peer: &Arc<Peer>,
        conn: &Arc<Conn>,
        f: impl FnOnce(&mut EngineOf<Self>, Instant, ConnId) -> Claim,
    ) -> (Claim, bool) {
        let mut inner = peer.inner.lock();
        let claim = f(&mut inner.engine, now(), conn.name());
        if claim == Claim::Late {
            return (claim, false);
        }
        conn.set_known();
        (claim, inner.add_conn(conn.name(), conn.clone()))
    }

    fn forget_conn(
        &mut self,
        peer: &Arc<Peer>,
        name: ConnId,
        f: impl FnOnce(&mut EngineOf<Self>, Instant),
    ) {
        let mut inner = peer.inner.lock();
        let removed = inner.remove_conn(name);
        f(&mut inner.engine, now());
        drop(inner);
        drop(removed);
    }

    fn retire(&mut self, peer: &Arc<Peer>) -> bool {
        peer.retire()
    }

    fn notify_down(&mut self, peer: &Arc<Peer>, alive: Instant) {
        peer.ni.notify_down(peer.nid, alive);
    }

    fn assign(&mut self, peer: &Arc<Peer>, sending: Sending<Kernel>) {
        send::run(peer.network(), peer.nid, sending);
    }

    fn fail(&mut self, peer: &Arc<Peer>, tx: KBox<Tx>, done: Done) {
        peer.ni.finish(tx, done, Ended::Clean);
    }

    fn reserve(&mut self) -> Result<Reserved<'a, Conn>, i32> {
        self.shared.conns.reserve().map_err(errno)
    }

    fn reserved_name(&self, reserved: &Reserved<'a, Conn>) -> ConnId {
        ConnId(reserved.key().raw())
    }

    fn create(&mut self, tag: u64, wanted: &Wanted) -> Result<(Arc<Conn>, Limits), i32> {
        let conn = self.make_conn(tag, wanted)?;
        let limits = conn.limits();
        Ok((conn, limits))
    }

    fn feed(&mut self, conn: &Arc<Conn>, input: ConnInput<'_>) {
        conn.drive(|engine, now| input.feed(engine, now));
    }

    fn take_request(&mut self, conn: &Arc<Conn>, request: Request) -> bool {
        conn.take_request(request)
    }

    fn fail_qp(&mut self, conn: &Arc<Conn>) -> FailedQp {
        let failed = match conn.take_qp() {
            QpSlot::Live(qp) => qp.into_error(),
            QpSlot::Failed(qp) => Ok(qp),
            QpSlot::None => return FailedQp::Gone,
        };
        match failed {
            Ok(qp) => {
                conn.put_qp(qp);
                FailedQp::Failed
            }
            Err((_, qp)) => {
                drop(qp);
                FailedQp::Destroyed
            }
        }
    }

    fn destroy_qp(&mut self, conn: &Arc<Conn>) {
        drop(conn.take_qp());
    }

    fn kick(&mut self, conn: &Arc<Conn>) {
        conn.kick();
    }

    fn release(&mut self, conn: &Arc<Conn>) {
        conn.release_device();
    }

    fn incoming<'b>(&self, request: &CmId, private: &'b [u8]) -> Incoming<'b> {
        let (_, from) = request.addrs();
        Incoming {
            private,
            addr: from.ipv4().map(u32::from_be_bytes),
            port: from.port(),
            privileged: Params::read().require_privileged_port != 0,
        }
    }

    fn find_ni(&self, listener: u64, nid: Nid) -> Option<(Arc<Network>, Found)> {
        let network = self.shared.networks.by_nid(nid)?;
        let ni = &network.ni;
        let found = Found {
            info: ni.info(),
            on_listener: ni.dev.tag() == listener,
            in_service: ni.is_in_service(),
        };
        Some((network, found))
    }

    fn ni_info(&self, network: &Arc<Network>) -> NiInfo {
        network.ni.info()
    }

    fn is_complete(&self, listener: u64) -> bool {
        self.shared.networks.is_complete(listener)
    }

    fn pending(&self) -> u64 {
        Live::Pending.get()
    }

    fn pending_of(&self, peer: &Arc<Peer>) -> u32 {
        peer.pending.load(Relaxed)
    }

    fn hold_pending(&mut self, peer: &Arc<Peer>) -> Pending {
        Pending::new(peer)
    }

    fn listener_event(&mut self, tag: u64, event: CmEvent<&[u8]>) {
        self.shared.removal.listener_event(tag, event);
    }

    fn count(&mut self, what: Count) {
        match what {
            Count::Attempt => Event::Attempts.count(),
            Count::AttemptFailed => Event::AttemptsFailed.count(),
            Count::Request => Event::ConnReq.count(),
            Count::Refused(kind) => {
                Event::ConnReqRejected.count();
                refused(kind).count();
            }
            Count::ForcedDrain => Event::ForcedDrain.count(),
            Count::Unexpected => Event::CmUnexpected.count(),
            Count::Sent(kind) => stats::sent(kind, CONN_MSG_SIZE as u32),
            Count::Received(kind) => stats::received(kind, CONN_MSG_SIZE as u32),
        }
    }

    fn log(&mut self, peer: &Arc<Peer>, line: Line) {
        let nid = peer.nid;
        match line {
            Line::CannotStart(e) => {
                let e = Error::from_errno(e);
                crate::warn_ratelimited!("{}: cannot start to connect: {:?}\n", nid, e);
            }
            Line::AttemptFailed(cause) => {
                crate::info_ratelimited!("{}: connection attempt failed: {}\n", nid, cause);
            }
            Line::Rejected(why) => {
                crate::info_ratelimited!("{}: connection rejected: {}\n", nid, why);
            }
            Line::CmError { what, status } => {
                crate::info_ratelimited!("{}: connecting failed: {} ({})\n", nid, what, status);
            }
            Line::Moved => {
                crate::info_ratelimited!("{}: closed, our address has moved\n", nid);
            }
            Line::CannotAccept(e) => {
                let e = Error::from_errno(e);
                crate::warn_ratelimited!("{}: cannot accept: {:?}\n", nid, e);
            }
        }
    }

    fn log_refused(&mut self, request: &CmId, cause: &RefuseCause) {
        let (_, from) = request.addrs();
        crate::info_ratelimited!("connection request of {} rejected: {}\n", from, cause);
    }
}

/// The counter of a kind of refusals.
fn refused(kind: RefusalKind) -> Event {
    match kind {
        RefusalKind::Bad => Event::ConnReqBad,
        RefusalKind::Port => Event::ConnReqPort,
        RefusalKind::Forged => Event::ConnReqForged,
        RefusalKind::Early => Event::ConnReqEarly,
        RefusalKind::Stale => Event::ConnReqStale,
        RefusalKind::Race => Event::ConnReqRace,
        RefusalKind::Pending => Event::ConnReqPending,
        RefusalKind::NoResources => Event::ConnReqNoResources,
    }
}
