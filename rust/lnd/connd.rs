// SPDX-License-Identifier: GPL-2.0

//! The connection daemon, `kiblnd_connd`: one thread that does everything about connections that
//! sleeps.
//!
//! It owns all CM ids but the listeners' (a [`Link`] each), so nothing about them needs a lock. It
//! handles their events, starts attempts, answers requests, and takes down what has ended. It runs
//! the actions of peers, and looks at all deadlines once a second.

use super::{
    clock::now,
    conn::{
        Conn,
        Conns,
        Peer,
        QpSlot,
        Setup, //
    },
    device::{
        Dev,
        Devices, //
    },
    networks::Networks,
    removal::Removal,
    stats::{
        self,
        Counted,
        Event,
        Live, //
    },
    traffic::{
        sched::Schedulers,
        send, //
    }, //
};
use crate::{
    driver::{
        admission,
        cm::{
            self,
            CmEvent, //
        },
        handshake::{
            Encoding,
            Proposal, //
        },
        send::Sending,
        shell::{
            Ended,
            Request, //
        },
        tunables, //
    },
    kx::{
        self,
        errno::ENETDOWN,
        Key,
        Kthread,
        Node,
        NofsScope,
        ShouldStop,
        WorkQueue, //
    },
    lnet::Params,
    proto::{
        conn::Role,
        peer::{
            AttemptEvent,
            Claim,
            Offer,
            PeerAction,
            RESOLVE_TIMEOUT, //
        },
        AttemptId,
        Cause,
        Limits,
        Span, //
    },
    rdma::{
        self,
        CmEventKind,
        CmEvents,
        CmId,
        ConnParam,
        SockAddr, //
    },
    wire::{
        Endian,
        Identity,
        Message,
        MsgType,
        Nid,
        Reject,
        Version,
        CONN_MSG_SIZE, //
    },
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

/// How long the CM is asked to resolve an address, again and again. When the neighbour answers
/// just as the CM queues its request, the CM does not notice before the time is up.
const RESOLVE_SLICE: Span = Span(500_000_000);

/// CM events, connections and peers that are seen to before the others have their turn.
const BUDGET: usize = 64;

/// How often deadlines are looked at, in nanoseconds.
const SWEEP_NS: u64 = 1_000_000_000;

/// What others give the daemon to do.
pub(crate) struct Connd {
    /// What the thread sleeps on.
    event: Arc<kx::Event>,
    /// Peers whose actions are to be run.
    peers: Arc<WorkQueue<Peer>>,
    /// Connections whose requests are to be served.
    conns: Arc<WorkQueue<Conn>>,
}

/// What the thread works on, together with others.
pub(crate) struct Shared {
    pub(crate) connd: Connd,
    pub(crate) schedulers: Arc<Schedulers>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) networks: Arc<Networks>,
    pub(crate) conns: Arc<Conns>,
    pub(crate) removal: Arc<Removal>,
}

impl Connd {
    /// Nothing to do. The thread will sleep on `event`.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(crate) fn new(event: Arc<kx::Event>) -> Result<Self> {
        Ok(Self {
            peers: WorkQueue::new(event.clone())?,
            conns: WorkQueue::new(event.clone())?,
            event,
        })
    }

    /// Where peers are put whose actions are to be run.
    pub(crate) fn peers(&self) -> &Arc<WorkQueue<Peer>> {
        &self.peers
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// ENOMEM, or EINTR when the caller is being killed.
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Kthread> {
        let shared = shared.clone();
        Kthread::spawn(c"kiblnd_connd", Node(None), move |stop| {
            let _nofs = NofsScope::enter();
            Worker::new(&shared).run(stop);
        })
    }
}

/// An attempt, and what it says.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    attempt: AttemptId,
    proposal: Proposal,
}

/// What a CM id is for.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// An attempt of ours.
    Active(Plan),
    /// A connection that the peer asked for.
    Passive,
}

/// Counts a connection that was accepted and is not established.
pub(super) struct Pending {
    peer: Arc<Peer>,
    _live: Counted,
}

impl Pending {
    /// Whether there is room for one more, of any peer. Only this thread counts.
    pub(super) fn is_room() -> bool {
        admission::has_room(Live::Pending.get())
    }

    /// Counts one more of `peer`, unless it has too many.
    pub(super) fn new(peer: &Arc<Peer>) -> Option<Self> {
        if !admission::peer_has_room(peer.pending.load(Relaxed)) {
            return None;
        }
        peer.pending.fetch_add(1, Relaxed);
        Some(Self {
            peer: peer.clone(),
            _live: Live::Pending.hold(),
        })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.peer.pending.fetch_sub(1, Relaxed);
    }
}

/// A CM id with what belongs to it.
pub(super) struct Link {
    /// Dropped before the peer, because a callback may still run.
    pub(super) id: CmId,
    pub(super) purpose: Purpose,
    pub(super) conn: Option<Arc<Conn>>,
    /// Of [`Purpose::Passive`], until it is established.
    pub(super) pending: Option<Pending>,
    pub(super) peer: Arc<Peer>,
}

impl Link {
    fn is_attempt(&self, peer: &Arc<Peer>, attempt: AttemptId) -> bool {
        match self.purpose {
            Purpose::Active(plan) => plan.attempt == attempt && Arc::ptr_eq(&self.peer, peer),
            Purpose::Passive => false,
        }
    }
}

/// The thread's own state.
pub(super) struct Worker<'a> {
    pub(super) shared: &'a Shared,
    events: CmEvents,
    /// By the tag of the id.
    pub(super) links: RBTree<u64, Link>,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            events: CmEvents::new(shared.devices.cm().clone()),
            links: RBTree::new(),
        }
    }

    fn run(&mut self, stop: &ShouldStop) {
        let mut sweep_at = kx::monotonic_ns().wrapping_add(SWEEP_NS);
        loop {
            let last = stop.requested();
            let mut idle = true;
            // Some of each, so that no flood of one keeps the others and the deadlines waiting.
            for _ in 0..BUDGET {
                let Some(event) = self.events.pop() else {
                    break;
                };
                idle = false;
                self.cm_event(event);
            }
            for _ in 0..BUDGET {
                let Some(conn) = self.shared.connd.conns.pop() else {
                    break;
                };
                idle = false;
                self.serve(&conn);
            }
            for _ in 0..BUDGET {
                let Some(peer) = self.shared.connd.peers.pop() else {
                    break;
                };
                idle = false;
                self.drive_peer(&peer);
            }
            kx::cond_resched();
            if last && idle {
                return;
            }
            if self.shared.removal.interfaces_changed() {
                self.shared.networks.update_usability();
            }
            let now = kx::monotonic_ns();
            if now >= sweep_at {
                sweep_at = now.wrapping_add(SWEEP_NS);
                self.sweep();
            } else if idle {
                let event = &self.shared.connd.event;
                event.wait_timeout(sweep_at.wrapping_sub(now));
            }
        }
    }

    /// Hands out tunables that were written, and looks at all deadlines.
    fn sweep(&mut self) {
        for conn in self.shared.conns.iter() {
            let live = conn.peer.ni.tunables_now().live();
            conn.drive(|engine, now| {
                engine.retune(live);
                if engine.poll_timeout().is_some_and(|at| at.passed(now)) {
                    engine.handle_timeout(now);
                }
            });
        }
        for network in self.shared.networks.iter() {
            let live = network.ni.tunables_now().live();
            for peer in network.iter() {
                let mut inner = peer.inner.lock();
                inner.engine.retune(live);
                let due = inner.engine.poll_timeout();
                let due = due.is_some_and(|due| due.passed(now()));
                if due {
                    inner.engine.handle_timeout(now());
                }
                drop(inner);
                if due {
                    self.drive_peer(&peer);
                }
            }
        }
        self.shared.removal.attach_all();
    }

    /// Runs the actions of a peer until there are none.
    pub(super) fn drive_peer(&mut self, peer: &Arc<Peer>) {
        loop {
            let action = peer.inner.lock().engine.poll_action();
            let Some(action) = action else {
                return;
            };
            match action {
                PeerAction::StartAttempt {
                    id,
                    version,
                    offer,
                    dst_stamp,
                } => {
                    let proposal = Proposal {
                        peer: peer.nid,
                        version,
                        offer,
                        dst_stamp,
                    };
                    let plan = Plan {
                        attempt: id,
                        proposal,
                    };
                    self.start_attempt(peer, plan);
                }
                PeerAction::AbortAttempt { id, cause } => self.abort_attempt(peer, id, cause),
                PeerAction::Assign { conn, tx, ticket } => {
                    let assigned = Sending::assigned(peer.clone(), conn, tx, ticket);
                    send::run(peer.network(), peer.nid, assigned);
                }
                PeerAction::Fail { tx, done } => peer.ni.finish(tx, done, Ended::Clean),
                PeerAction::CloseConn { conn, cause } => {
                    let conn = peer.inner.lock().conn(conn);
                    if let Some(conn) = conn {
                        conn.drive(|engine, now| engine.close(now, cause));
                    }
                }
                PeerAction::NotifyDown { alive } => peer.ni.notify_down(peer.nid, alive),
                PeerAction::Idle => {
                    if peer.retire() {
                        return;
                    }
                }
            }
        }
    }

    /// Tells a peer what happened to an attempt.
    fn attempt_event(&self, peer: &Peer, id: AttemptId, event: AttemptEvent<'_>) -> Claim {
        peer.inner.lock().engine.handle_attempt(now(), id, event)
    }

    /// Starts an attempt: makes an id and has the address resolved.
    fn start_attempt(&mut self, peer: &Arc<Peer>, plan: Plan) {
        Event::Attempts.count();
        if let Err(e) = self.try_start(peer, plan) {
            crate::warn_ratelimited!("{}: cannot start to connect: {:?}\n", peer.nid, e);
            let failed = AttemptEvent::CallFailed(e.to_errno());
            let _ = self.attempt_event(peer, plan.attempt, failed);
        }
    }

    fn try_start(&mut self, peer: &Arc<Peer>, plan: Plan) -> Result {
        let dev = &peer.ni.dev;
        // The device of an NI may be gone.
        dev.hca()?;
        let tag = self.shared.devices.next_tag();
        let id = CmId::new(self.shared.devices.cm(), dev.net(), tag)?;
        resolve_addr(&id, dev, peer.nid)?;
        let link = Link {
            id,
            purpose: Purpose::Active(plan),
            conn: None,
            pending: None,
            peer: peer.clone(),
        };
        // If this fails the id is destroyed, which waits for its callbacks.
        let node = RBTreeNode::new(tag, link, GFP_KERNEL)?;
        drop(self.links.insert(node));
        Ok(())
    }

    /// Takes an attempt down.
    fn abort_attempt(&mut self, peer: &Arc<Peer>, attempt: AttemptId, cause: Cause) {
        Event::AttemptsFailed.count();
        // What the peer said is in the log already.
        if cause != Cause::Rejected {
            crate::info_ratelimited!("{}: connection attempt failed: {}\n", peer.nid, cause);
        }
        let found = self
            .links
            .iter()
            .find(|(_, link)| link.is_attempt(peer, attempt));
        match found.map(|(&tag, link)| (tag, link.conn.clone())) {
            // Released when it is drained.
            Some((_, Some(conn))) => conn.drive(|engine, now| engine.close(now, cause)),
            Some((tag, None)) => {
                drop(self.links.remove(&tag));
                let _ = self.attempt_event(peer, attempt, AttemptEvent::Released);
            }
            // It never got an id.
            None => {
                let _ = self.attempt_event(peer, attempt, AttemptEvent::Released);
            }
        }
    }

    /// Handles an event of the CM.
    fn cm_event(&mut self, event: rdma::CmEvent) {
        let rdma::CmEvent { tag, kind, data } = event;
        if let CmEventKind::ConnectRequest(id) = kind {
            return self.connect_request(tag, id, &data);
        }
        let Some(event) = event_of(&kind, &data) else {
            return;
        };
        let Some(link) = self.links.get(&tag) else {
            return self.shared.removal.listener_event(tag, event);
        };
        let peer = link.peer.clone();
        match link.purpose {
            Purpose::Active(plan) => self.active_event(tag, &peer, plan, event),
            Purpose::Passive => self.passive_event(tag, event),
        }
        self.drive_peer(&peer);
    }

    /// Handles an event of an attempt of ours, or of the connection that it has become.
    fn active_event(&mut self, tag: u64, peer: &Arc<Peer>, plan: Plan, event: CmEvent<'_>) {
        let (conn, attempt) = match cm::active(event) {
            cm::Active::ResolveRoute => return self.addr_resolved(tag, peer, plan),
            cm::Active::Request => return self.route_resolved(tag, peer, plan),
            cm::Active::ResolveAgain => return self.resolve_again(tag, peer, plan),
            cm::Active::Open { private } => {
                return self.active_established(tag, peer, plan, private);
            }
            cm::Active::Report { conn, attempt } => (conn, attempt),
        };
        log_failure(peer, event);
        let told = self.links.get(&tag).and_then(|link| link.conn.as_ref());
        if let (Some(input), Some(conn)) = (conn, told) {
            if conn.is_known() || input.is_for_unknown() {
                log_moved(conn, event);
                conn.drive(|engine, now| input.feed(engine, now));
            }
        }
        if let Some(attempt) = attempt {
            let _ = self.attempt_event(peer, plan.attempt, attempt);
        }
    }

    /// The address was not resolved in [`RESOLVE_SLICE`]: goes on, until the engine gives up.
    fn resolve_again(&self, tag: u64, peer: &Arc<Peer>, plan: Plan) {
        let Some(link) = self.links.get(&tag) else {
            return;
        };
        let to = address_of(peer.nid);
        if let Err(e) = to.and_then(|to| link.id.resolve_addr(None, &to, millis(RESOLVE_SLICE))) {
            let failed = AttemptEvent::CallFailed(e.to_errno());
            let _ = self.attempt_event(peer, plan.attempt, failed);
        }
    }

    /// The address is resolved: the route is next.
    fn addr_resolved(&mut self, tag: u64, peer: &Arc<Peer>, plan: Plan) {
        if self.attempt_event(peer, plan.attempt, AttemptEvent::AddrResolved) == Claim::Late {
            return;
        }
        let Some(link) = self.links.get(&tag) else {
            return;
        };
        let tos = tunables::live_tos(peer.ni.handle().tos(), Params::read().tos);
        if let Some(tos) = tos {
            link.id.set_service_type(tos);
        }
        if let Err(e) = link.id.resolve_route(millis(RESOLVE_TIMEOUT)) {
            let failed = AttemptEvent::CallFailed(e.to_errno());
            let _ = self.attempt_event(peer, plan.attempt, failed);
        }
    }

    /// The route is resolved: the connection is made and the CONNREQ sent.
    fn route_resolved(&mut self, tag: u64, peer: &Arc<Peer>, plan: Plan) {
        if self.attempt_event(peer, plan.attempt, AttemptEvent::RouteResolved) == Claim::Late {
            return;
        }
        let conn = match self.create_active(tag, peer, plan) {
            Ok(conn) => conn,
            Err(e) => {
                let failed = AttemptEvent::CreateFailed(e.to_errno());
                let _ = self.attempt_event(peer, plan.attempt, failed);
                return;
            }
        };
        let limits = conn.limits();
        if let Some(offer) = plan.proposal.lowered(&limits) {
            let lowered = AttemptEvent::LimitsLowered(offer);
            let _ = self.attempt_event(peer, plan.attempt, lowered);
        }
        let msg = plan.proposal.connreq(&peer.ni.info(), &limits, encoding());
        let sent = msg.map_err(|_| EINVAL).and_then(|msg| {
            let link = self.links.get(&tag).ok_or(ENODEV)?;
            link.id.connect(&conn_param(&msg))
        });
        let event = match sent {
            Ok(()) => {
                stats::sent(MsgType::ConnReq, CONN_MSG_SIZE as u32);
                AttemptEvent::Connecting
            }
            Err(e) => AttemptEvent::CallFailed(e.to_errno()),
        };
        let _ = self.attempt_event(peer, plan.attempt, event);
    }

    fn create_active(&mut self, tag: u64, peer: &Arc<Peer>, plan: Plan) -> Result<Arc<Conn>> {
        let reserved = self.shared.conns.reserve()?;
        let link = self.links.get_mut(&tag).ok_or(ENODEV)?;
        let mtu = u32::try_from(Params::read().ib_mtu).unwrap_or(0);
        if mtu != 0 {
            // Without a path there is nothing to override.
            let _ = link.id.set_path_mtu(mtu);
        }
        let wanted = Wanted {
            tag,
            key: reserved.key(),
            role: Role::Active,
            ident: plan.proposal.identity(&peer.ni.info()),
            version: plan.proposal.version,
            offer: plan.proposal.offer,
        };
        let conn = make_conn(self.shared, peer, &link.id, wanted)?;
        reserved.keep();
        link.conn = Some(conn.clone());
        Ok(conn)
    }

    /// The peer has accepted: the connection judges its CONNACK.
    fn active_established(&mut self, tag: u64, peer: &Arc<Peer>, plan: Plan, data: &[u8]) {
        let Some(conn) = self.links.get(&tag).and_then(|link| link.conn.clone()) else {
            return Event::CmUnexpected.count();
        };
        let connected = AttemptEvent::Connected(conn.id);
        let mut inner = peer.inner.lock();
        let claim = inner.engine.handle_attempt(now(), plan.attempt, connected);
        let added = claim == Claim::Taken && inner.add_conn(conn.id, conn.clone());
        drop(inner);
        if claim == Claim::Late {
            return;
        }
        conn.set_known();
        if !added {
            return conn.drive(|engine, now| engine.close(now, Cause::TooMany));
        }
        let ack = Message::parse(data);
        if let Ok(msg) = &ack {
            stats::received(msg.kind(), msg.nob);
        }
        conn.drive(|engine, now| engine.handle_established(now, Some(ack)));
    }

    /// Handles an event of a connection that the peer asked for.
    fn passive_event(&mut self, tag: u64, event: CmEvent<'_>) {
        let Some(link) = self.links.get_mut(&tag) else {
            return Event::CmUnexpected.count();
        };
        let Some(conn) = link.conn.clone() else {
            return Event::CmUnexpected.count();
        };
        match cm::passive(event) {
            cm::Passive::Conn(input) => {
                if input.ends_pending() {
                    link.pending = None;
                }
                log_moved(&conn, event);
                conn.drive(|engine, now| input.feed(engine, now));
            }
            cm::Passive::Nothing => {}
            cm::Passive::Unexpected => Event::CmUnexpected.count(),
        }
    }

    /// Serves the requests of a connection.
    fn serve(&mut self, conn: &Arc<Conn>) {
        for request in Request::ALL {
            if !conn.take_request(request) {
                continue;
            }
            match request {
                Request::NotifyEstablished => {
                    if let Some(link) = self.links.get(&conn.tag) {
                        // It fails when the CM knows already.
                        let _ = link.id.notify_comm_est();
                    }
                }
                Request::Disconnect => self.disconnect(conn),
                Request::DestroyQp => {
                    drop(conn.take_qp());
                    conn.drive(|engine, now| engine.handle_qp_destroyed(now));
                }
                Request::TakeDown => self.take_down(conn),
            }
        }
    }

    /// Disconnects and moves the QP to the error state.
    fn disconnect(&self, conn: &Arc<Conn>) {
        if let Some(link) = self.links.get(&conn.tag) {
            // It fails when there is no connection any more, or not yet.
            let _ = link.id.disconnect();
        }
        let failed = match conn.take_qp() {
            QpSlot::Live(qp) => qp.into_error(),
            QpSlot::Failed(qp) => Ok(qp),
            QpSlot::None => {
                return conn.drive(|engine, now| engine.handle_qp_destroyed(now));
            }
        };
        match failed {
            Ok(qp) => {
                conn.put_qp(qp);
                conn.drive(|engine, now| engine.handle_qp_error_state(now));
                // Completions that came while the QP was out are still to be polled.
                conn.kick();
            }
            Err((_, qp)) => {
                Event::ForcedDrain.count();
                drop(qp);
                conn.drive(|engine, now| engine.handle_qp_destroyed(now));
            }
        }
    }

    /// Destroys what is left of a drained connection, and tells its peer.
    fn take_down(&mut self, conn: &Arc<Conn>) {
        // An attempt that ends with its connection is accounted for before its place is free.
        self.drive_peer(&conn.peer);
        // QP and CQ first, then the id, then the peer's turn.
        drop(conn.take_qp());
        let purpose = self.links.remove(&conn.tag).map(|link| link.purpose);
        drop(self.shared.conns.remove(conn.key));
        conn.release_device();
        let peer = &conn.peer;
        if conn.is_known() {
            let mut inner = peer.inner.lock();
            let removed = inner.remove_conn(conn.id);
            inner.engine.handle_gone(now(), conn.id);
            drop(inner);
            drop(removed);
        } else if let Some(Purpose::Active(plan)) = purpose {
            let _ = self.attempt_event(peer, plan.attempt, AttemptEvent::Released);
        }
        self.drive_peer(peer);
    }
}

/// The event in the words of [`driver`](crate::driver); `data` is its private data. `None` for a
/// connection request.
fn event_of<'a>(kind: &CmEventKind, data: &'a [u8]) -> Option<CmEvent<'a>> {
    Some(match *kind {
        CmEventKind::AddrResolved => CmEvent::AddrResolved,
        CmEventKind::AddrError(e) => CmEvent::AddrError(e),
        CmEventKind::RouteResolved => CmEvent::RouteResolved,
        CmEventKind::RouteError(e) => CmEvent::RouteError(e),
        CmEventKind::ConnectRequest(_) => return None,
        CmEventKind::ConnectError(e) => CmEvent::ConnectError(e),
        CmEventKind::Unreachable(e) => CmEvent::Unreachable(e),
        CmEventKind::Rejected(reason) => CmEvent::Rejected {
            reason,
            private: data,
        },
        CmEventKind::Established => CmEvent::Established { private: data },
        CmEventKind::Disconnected => CmEvent::Disconnected,
        CmEventKind::DeviceRemoval => CmEvent::DeviceRemoval,
        CmEventKind::AddrChange => CmEvent::AddrChange,
        CmEventKind::TimewaitExit => CmEvent::TimewaitExit,
    })
}

/// Logs that a connection ends because our address has moved.
fn log_moved(conn: &Conn, event: CmEvent<'_>) {
    if event == CmEvent::AddrChange {
        crate::info_ratelimited!("{}: closed, our address has moved\n", conn.peer.nid);
    }
}

/// Logs why the CM could not connect; of a reject what the peer says, as far as it says anything.
fn log_failure(peer: &Peer, event: CmEvent<'_>) {
    let Some((what, status)) = event.failure() else {
        return;
    };
    match event {
        CmEvent::Rejected { private, .. } => {
            if let Ok(reject) = Reject::parse(private) {
                crate::info_ratelimited!("{}: connection rejected: {}\n", peer.nid, reject.why);
                return;
            }
        }
        CmEvent::AddrResolved
        | CmEvent::AddrError(_)
        | CmEvent::RouteResolved
        | CmEvent::RouteError(_)
        | CmEvent::ConnectError(_)
        | CmEvent::Unreachable(_)
        | CmEvent::Established { .. }
        | CmEvent::Disconnected
        | CmEvent::DeviceRemoval
        | CmEvent::AddrChange
        | CmEvent::TimewaitExit => {}
    }
    crate::info_ratelimited!("{}: the CM says: {} ({})\n", peer.nid, what, status);
}

/// What a connection is to be.
pub(super) struct Wanted {
    pub(super) tag: u64,
    pub(super) key: Key,
    pub(super) role: Role,
    pub(super) ident: Identity,
    pub(super) version: Version,
    /// Queue depth and fragments not to be exceeded.
    pub(super) offer: Offer,
}

/// Makes a connection on the device that `id` is bound to.
///
/// # Errors
///
/// ENETDOWN when that is not the device of the NI, or it is gone; EINVAL when nothing can be
/// offered; and those of [`Conn::create`].
pub(super) fn make_conn(
    shared: &Shared,
    peer: &Arc<Peer>,
    id: &CmId,
    wanted: Wanted,
) -> Result<Arc<Conn>> {
    let hca = peer.ni.dev.hca()?;
    if id.device()?.map(|device| device.id()) != Some(hca.device().id()) {
        return Err(ENETDOWN.to_error());
    }
    let tunables = peer.ni.tunables_now();
    let offer = Some((wanted.offer.queue_depth, wanted.offer.max_frags));
    let limits = Limits::new(&tunables, hca.caps(), wanted.version, offer);
    let limits = limits.map_err(|_| EINVAL)?;
    let cpt = peer.ni.cpt_of(peer.nid);
    let setup = Setup {
        peer,
        hca: &hca,
        cm: id,
        tag: wanted.tag,
        key: wanted.key,
        conns: &shared.conns,
        queue: &shared.schedulers.queue(cpt).ok_or(ENOMEM)?,
        work: &shared.connd.conns,
        role: wanted.role,
        ident: wanted.ident,
        tunables: &tunables,
    };
    Conn::create(&setup, limits)
}

/// Has the address of `nid` resolved, from the address of `dev`.
fn resolve_addr(id: &CmId, dev: &Dev, nid: Nid) -> Result {
    let from = SockAddr::v4(dev.addr().to_be_bytes(), 0);
    let to = address_of(nid)?;
    let timeout = millis(RESOLVE_SLICE);
    if Params::read().use_privileged_port != 0 {
        id.resolve_addr_privileged(&from, &to, timeout)
    } else {
        id.resolve_addr(Some(&from), &to, timeout)
    }
}

/// Where `nid` listens.
fn address_of(nid: Nid) -> Result<SockAddr> {
    let service = u16::try_from(Params::read().service).map_err(|_| EINVAL)?;
    Ok(SockAddr::v4(nid.addr().to_be_bytes(), service))
}

/// As the CM takes it.
fn millis(span: Span) -> u32 {
    u32::try_from(span.0 / 1_000_000).unwrap_or(u32::MAX)
}

/// How messages are put on the wire now.
pub(super) fn encoding() -> Encoding {
    Encoding {
        cksum: Params::read().cksum != 0,
        endian: Endian::NATIVE,
    }
}

/// What a connection is requested or accepted with.
pub(super) fn conn_param(msg: &[u8]) -> ConnParam<'_> {
    let params = Params::read();
    ConnParam {
        private_data: msg,
        responder_resources: 0,
        initiator_depth: 0,
        flow_control: true,
        retry_count: tunables::retries("retry_count", params.retry_count).0,
        rnr_retry_count: tunables::retries("rnr_retry_count", params.rnr_retry_count).0,
    }
}
