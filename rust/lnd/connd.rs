// SPDX-License-Identifier: GPL-2.0

//! The connection daemon, `kiblnd_connd`: one thread that does everything about connections that
//! sleeps.
//!
//! It owns all CM ids but the listeners' (a [`Link`] each), so nothing about them needs a lock. It
//! handles their events, starts attempts, answers requests, and takes down what has ended. It runs
//! the actions of peers, and looks at all deadlines once a second.

use super::{
    conn::{
        Conn,
        QpSlot,
        Setup,
        Wish, //
    },
    dev::Dev,
    now,
    peer::Peer,
    queue::WorkQueue,
    send,
    stats::{
        self,
        Counted,
        Event,
        Live, //
    },
    table::Key,
    tunables,
    tx::Ended,
    Driver, //
};
use crate::{
    kx::{
        self,
        errno::ENETDOWN,
        Kthread,
        Node,
        NofsScope,
        ShouldStop, //
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
        CmEvent,
        CmEventKind,
        CmEvents,
        CmId,
        CmQueue,
        ConnParam,
        SockAddr, //
    },
    wire::{
        self,
        BodyOut,
        Endian,
        Header,
        Identity,
        Message,
        MsgType,
        Nid,
        Reject,
        Stamp,
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
#[pin_data]
pub(crate) struct Connd {
    event: Arc<kx::Event>,
    #[pin]
    peers: WorkQueue<Peer>,
    #[pin]
    conns: WorkQueue<Conn>,
    /// Where the events of all CM ids go.
    pub(crate) cm: Arc<CmQueue>,
}

impl Connd {
    /// Nothing to do.
    pub(crate) fn new(event: Arc<kx::Event>, cm: Arc<CmQueue>) -> impl PinInit<Self> {
        pin_init!(Self {
            event,
            peers <- WorkQueue::new(),
            conns <- WorkQueue::new(),
            cm,
        })
    }

    /// What the thread sleeps on.
    pub(crate) fn event(&self) -> &Arc<kx::Event> {
        &self.event
    }

    /// Has the actions of `peer` run.
    pub(crate) fn push_peer(&self, peer: Arc<Peer>) {
        self.peers.push(peer);
        self.event.signal();
    }

    /// Has the wishes of `conn` looked at.
    pub(crate) fn push_conn(&self, conn: Arc<Conn>) {
        self.conns.push(conn);
        self.event.signal();
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// ENOMEM, or EINTR when the caller is being killed.
    pub(crate) fn start(driver: &Arc<Driver>) -> Result<Kthread> {
        let driver = driver.clone();
        Kthread::spawn(c"kiblnd_connd", Node(None), move |stop| {
            let _nofs = NofsScope::enter();
            Worker::new(&driver).run(stop);
        })
    }
}

/// What an attempt offers.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    attempt: AttemptId,
    version: Version,
    offer: Offer,
    dst_stamp: Stamp,
}

/// What a CM id is for.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// An attempt of ours.
    Active(Plan),
    /// A connection that the peer asked for.
    Passive,
}

/// Accepted connections that are not established, of all peers together. Each has a QP, a CQ and
/// receive buffers, for nothing that the requester has but a packet, until the connect timeout. A
/// requester that means it answers in a round trip, so there are few at a time even when all
/// clients of a server come at once. Who is refused comes again.
const MAX_PENDING: u64 = 1024;

/// As [`MAX_PENDING`], of one peer: lets no node use up what is there for all. The configuration
/// that goes with Lustre has up to 4 connections per peer, which are started together.
const MAX_PENDING_OF_PEER: u32 = 32;

/// Counts a connection that was accepted and is not established.
pub(super) struct Pending {
    peer: Arc<Peer>,
    _live: Counted,
}

impl Pending {
    /// Whether there is room for one more, of any peer. Only this thread counts.
    pub(super) fn is_room() -> bool {
        Live::Pending.get() < MAX_PENDING
    }

    /// Counts one more of `peer`, unless it has too many.
    pub(super) fn new(peer: &Arc<Peer>) -> Option<Self> {
        if peer.pending.load(Relaxed) >= MAX_PENDING_OF_PEER {
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
    pub(super) driver: &'a Driver,
    events: CmEvents,
    /// By the tag of the id.
    pub(super) links: RBTree<u64, Link>,
}

impl<'a> Worker<'a> {
    fn new(driver: &'a Driver) -> Self {
        Self {
            driver,
            events: CmEvents::new(driver.connd.cm.clone()),
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
                let Some(conn) = self.driver.connd.conns.pop() else {
                    break;
                };
                idle = false;
                self.grant_wishes(&conn);
            }
            for _ in 0..BUDGET {
                let Some(peer) = self.driver.connd.peers.pop() else {
                    break;
                };
                idle = false;
                self.drive_peer(&peer);
            }
            kx::cond_resched();
            if last && idle {
                return;
            }
            if self.driver.interfaces_changed() {
                self.driver.update_usability();
            }
            let now = kx::monotonic_ns();
            if now >= sweep_at {
                sweep_at = now.wrapping_add(SWEEP_NS);
                self.sweep();
            } else if idle {
                let event = &self.driver.connd.event;
                event.wait_timeout(sweep_at.wrapping_sub(now));
            }
        }
    }

    /// Hands out tunables that were written, and looks at all deadlines.
    fn sweep(&mut self) {
        for conn in self.driver.conns.iter() {
            let live = conn.peer.ni.tunables_now().live();
            conn.drive(|engine, now| {
                engine.retune(live);
                if engine.poll_timeout().is_some_and(|at| at.passed(now)) {
                    engine.handle_timeout(now);
                }
            });
        }
        let mut at = 0;
        while let Some(ni) = self.driver.ni_at(at) {
            at += 1;
            let live = ni.tunables_now().live();
            for peer in ni.peers.iter() {
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
        self.driver.attach_all();
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
                    let plan = Plan {
                        attempt: id,
                        version,
                        offer,
                        dst_stamp,
                    };
                    self.start_attempt(peer, plan);
                }
                PeerAction::AbortAttempt { id, cause } => self.abort_attempt(peer, id, cause),
                PeerAction::Assign { conn, tx, ticket } => send::assign(peer, conn, tx, ticket),
                PeerAction::Fail { tx, done } => peer.ni.finish(tx, done, Ended::Clean),
                PeerAction::CloseConn { conn, cause } => {
                    let conn = peer.inner.lock().conn(conn);
                    if let Some(conn) = conn {
                        conn.drive(|engine, now| engine.close(now, cause));
                    }
                }
                PeerAction::NotifyDown { alive } => peer.ni.notify_down(peer.nid, alive),
                PeerAction::Idle => {
                    if peer.ni.peers.retire(peer) {
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
        let tag = self.driver.next_tag();
        let id = CmId::new(&self.driver.connd.cm, dev.net(), tag)?;
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
    fn cm_event(&mut self, event: CmEvent) {
        let CmEvent { tag, kind, data } = event;
        if let CmEventKind::ConnectRequest(id) = kind {
            return self.connect_request(tag, id, &data);
        }
        let Some(link) = self.links.get(&tag) else {
            // Of a listener: its device is being removed, or its address moved.
            return match kind {
                CmEventKind::AddrChange => self.driver.follow_address(tag),
                _ => self.driver.listener_event(tag, &kind),
            };
        };
        let peer = link.peer.clone();
        match link.purpose {
            Purpose::Active(plan) => self.active_event(tag, &peer, plan, &kind, &data),
            Purpose::Passive => self.passive_event(tag, &kind),
        }
        self.drive_peer(&peer);
    }

    /// Handles an event of an attempt of ours, or of the connection that it has become.
    fn active_event(
        &mut self,
        tag: u64,
        peer: &Arc<Peer>,
        plan: Plan,
        kind: &CmEventKind,
        data: &[u8],
    ) {
        let event = match kind {
            CmEventKind::AddrResolved => return self.addr_resolved(tag, peer, plan),
            CmEventKind::RouteResolved => return self.route_resolved(tag, peer, plan),
            CmEventKind::Established => return self.active_established(tag, peer, plan, data),
            CmEventKind::AddrError(e) if *e == ETIMEDOUT.to_errno() => {
                return self.resolve_again(tag, peer, plan);
            }
            CmEventKind::AddrError(e) => {
                cm_says(peer, "no address", *e);
                AttemptEvent::AddrError
            }
            CmEventKind::RouteError(e) => {
                cm_says(peer, "no route", *e);
                AttemptEvent::RouteError
            }
            CmEventKind::ConnectError(e) => {
                cm_says(peer, "connect error", *e);
                AttemptEvent::ConnectError
            }
            CmEventKind::Unreachable(e) => {
                cm_says(peer, "unreachable", *e);
                AttemptEvent::Unreachable
            }
            CmEventKind::Rejected(reason) => {
                says_rejected(peer, *reason, data);
                AttemptEvent::Rejected {
                    cm_reason: *reason,
                    private: data,
                }
            }
            CmEventKind::Disconnected => {
                self.drive_conn(tag, |conn| {
                    if conn.is_known() {
                        conn.drive(|engine, now| engine.handle_disconnected(now));
                    }
                });
                AttemptEvent::Disconnected
            }
            CmEventKind::DeviceRemoval => {
                self.drive_conn(tag, |conn| {
                    conn.drive(|engine, now| engine.close(now, Cause::DeviceGone));
                });
                AttemptEvent::DeviceGone
            }
            CmEventKind::AddrChange => {
                return self.drive_conn(tag, |conn| {
                    if conn.is_known() {
                        address_moved(conn);
                    }
                });
            }
            CmEventKind::TimewaitExit => return,
            // Handled before.
            CmEventKind::ConnectRequest(_) => return,
        };
        let _ = self.attempt_event(peer, plan.attempt, event);
    }

    fn drive_conn(&self, tag: u64, f: impl FnOnce(&Arc<Conn>)) {
        if let Some(conn) = self.links.get(&tag).and_then(|link| link.conn.as_ref()) {
            f(conn);
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
        let offer = Offer {
            queue_depth: limits.queue_depth,
            max_frags: limits.max_frags,
        };
        if offer != plan.offer {
            let lowered = AttemptEvent::LimitsLowered(offer);
            let _ = self.attempt_event(peer, plan.attempt, lowered);
        }
        let hdr = Header {
            version: plan.version,
            credits: 0,
            src: peer.ni.info().nid,
            src_stamp: peer.ni.info().stamp,
            dst: peer.nid,
            dst_stamp: plan.dst_stamp,
        };
        let body = BodyOut::ConnReq(limits.params());
        let sent = conn_msg(&hdr, &body).and_then(|msg| {
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
        let info = peer.ni.info();
        let ident = Identity {
            peer: peer.nid,
            peer_stamp: Stamp::UNKNOWN,
            local: info.nid,
            local_stamp: info.stamp,
        };
        let offer = (plan.offer.queue_depth, plan.offer.max_frags);
        let key = self.driver.conns.reserve()?;
        let link = self.links.get_mut(&tag).ok_or(ENODEV)?;
        let mtu = u32::try_from(Params::read().ib_mtu).unwrap_or(0);
        if mtu != 0 {
            // Without a path there is nothing to override.
            let _ = link.id.set_path_mtu(mtu);
        }
        let wanted = Wanted {
            tag,
            key,
            role: Role::Active,
            ident,
            version: plan.version,
            offer,
        };
        let made = make_conn(self.driver, peer, &link.id, wanted);
        match made {
            Ok(conn) => {
                link.conn = Some(conn.clone());
                Ok(conn)
            }
            Err(e) => {
                drop(self.driver.conns.remove(key));
                Err(e)
            }
        }
    }

    /// The peer has accepted: the connection judges its CONNACK.
    fn active_established(&mut self, tag: u64, peer: &Arc<Peer>, plan: Plan, data: &[u8]) {
        let Some(conn) = self.links.get(&tag).and_then(|link| link.conn.clone()) else {
            return Event::CmUnexpected.count();
        };
        let connected = AttemptEvent::Connected(conn.id);
        let mut inner = peer.inner.lock();
        let claim = inner.engine.handle_attempt(now(), plan.attempt, connected);
        let added = claim == Claim::Taken && inner.add_conn(conn.clone());
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
    fn passive_event(&mut self, tag: u64, kind: &CmEventKind) {
        let Some(link) = self.links.get_mut(&tag) else {
            return Event::CmUnexpected.count();
        };
        let Some(conn) = link.conn.clone() else {
            return Event::CmUnexpected.count();
        };
        if matches!(kind, CmEventKind::Established) {
            link.pending = None;
        }
        if matches!(kind, CmEventKind::AddrChange) {
            return address_moved(&conn);
        }
        conn.drive(|engine, now| match kind {
            CmEventKind::Established => engine.handle_established(now, None),
            CmEventKind::Disconnected => engine.handle_disconnected(now),
            CmEventKind::Rejected(_) | CmEventKind::ConnectError(_) => {
                engine.handle_conn_failed(now, Cause::Rejected);
            }
            CmEventKind::Unreachable(_) => {
                engine.handle_conn_failed(now, Cause::ConnectTimeout);
            }
            CmEventKind::DeviceRemoval => engine.close(now, Cause::DeviceGone),
            // The first was seen to above.
            CmEventKind::AddrChange | CmEventKind::TimewaitExit => {}
            CmEventKind::AddrResolved
            | CmEventKind::AddrError(_)
            | CmEventKind::RouteResolved
            | CmEventKind::RouteError(_)
            | CmEventKind::ConnectRequest(_) => Event::CmUnexpected.count(),
        });
    }

    /// Does what a connection wants of this thread.
    fn grant_wishes(&mut self, conn: &Arc<Conn>) {
        for wish in Wish::ALL {
            if !conn.take_wish(wish) {
                continue;
            }
            match wish {
                Wish::NotifyEstablished => {
                    if let Some(link) = self.links.get(&conn.tag) {
                        // It fails when the CM knows already.
                        let _ = link.id.notify_comm_est();
                    }
                }
                Wish::Disconnect => self.disconnect(conn),
                Wish::DestroyQp => {
                    drop(conn.take_qp());
                    conn.drive(|engine, now| engine.handle_qp_destroyed(now));
                }
                Wish::Drained => self.take_down(conn),
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
        drop(self.driver.conns.remove(conn.key));
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

/// Our address has moved, and the peer sends to where it was. An orderly end, so that nobody is
/// blamed for it; the next message finds the new way.
fn address_moved(conn: &Conn) {
    crate::info_ratelimited!("{}: closed, our address has moved\n", conn.peer.nid);
    conn.drive(|engine, now| engine.handle_disconnected(now));
}

/// Leaves in the log why the CM could not connect.
fn cm_says(peer: &Peer, what: &str, status: i32) {
    crate::info_ratelimited!("{}: the CM says: {} ({})\n", peer.nid, what, status);
}

/// Leaves in the log that we were rejected, and why, as far as that was said.
fn says_rejected(peer: &Peer, reason: i32, data: &[u8]) {
    match Reject::parse(data) {
        Ok(reject) => {
            crate::info_ratelimited!("{}: connection rejected: {}\n", peer.nid, reject.why);
        }
        Err(_) => cm_says(peer, "rejected", reason),
    }
}

/// What a connection is to be.
pub(super) struct Wanted {
    pub(super) tag: u64,
    pub(super) key: Key,
    pub(super) role: Role,
    pub(super) ident: Identity,
    pub(super) version: Version,
    /// Queue depth and fragments not to be exceeded.
    pub(super) offer: (u16, u16),
}

/// Makes a connection on the device that `id` is bound to.
///
/// # Errors
///
/// ENETDOWN when that is not the device of the NI, or it is gone; EINVAL when nothing can be
/// offered; and those of [`Conn::create`].
pub(super) fn make_conn(
    driver: &Driver,
    peer: &Arc<Peer>,
    id: &CmId,
    wanted: Wanted,
) -> Result<Arc<Conn>> {
    let hca = peer.ni.dev.hca()?;
    if id.device()?.map(|device| device.id()) != Some(hca.device().id()) {
        return Err(ENETDOWN.to_error());
    }
    let tunables = peer.ni.tunables_now();
    let limits = Limits::new(&tunables, hca.caps(), wanted.version, Some(wanted.offer));
    let limits = limits.map_err(|_| EINVAL)?;
    let setup = Setup {
        peer,
        hca: &hca,
        cm: id,
        tag: wanted.tag,
        key: wanted.key,
        role: wanted.role,
        ident: wanted.ident,
        tunables: &tunables,
    };
    Conn::create(driver, &setup, limits)
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

/// A CONNREQ or CONNACK.
pub(super) fn conn_msg(hdr: &Header, body: &BodyOut<'_>) -> Result<[u8; CONN_MSG_SIZE]> {
    let mut msg = [0; CONN_MSG_SIZE];
    let cksum = Params::read().cksum != 0;
    wire::emit(hdr, body, cksum, Endian::NATIVE, &mut msg).map_err(|_| EINVAL)?;
    Ok(msg)
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
