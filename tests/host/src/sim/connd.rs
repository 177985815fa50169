// SPDX-License-Identifier: GPL-2.0

//! What connection work needs done, with the simulator's world, and when it is done.
//!
//! A node has a thread for each other node: what concerns one peer is in order, as in the driver,
//! and different peers do not wait for each other.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::cm::{listener, CmId, CmMsg, Exchange, Id, Tag, NO_TAG};
use super::hca::QpState;
use super::lnet::Tx;
use super::node::Ep;
use super::world::{CmEvent, EpId, Ev, World};
use crate::driver::admission::{Found, Request as Incomings};
use crate::driver::cm::{CmEvent as Event, ConnInput};
use crate::driver::connect::effects::{
    Connect, Count, EngineOf, FailedQp, Ids, Line, Link, Purpose, Wanted,
};
use crate::driver::connect::Work;
use crate::driver::handshake::Encoding;
use crate::driver::send::Sending;
use crate::driver::shell::Request;
use crate::proto::conn::Role;
use crate::proto::passive::{NiInfo, RefuseCause};
use crate::proto::peer::{Claim, PeerAction};
use crate::proto::{AttemptId, ConnId, Done, Instant, Limits, Span};
use crate::wire::{Nid, Reject};

const ENODEV: i32 = -19;
const ENOMEM: i32 = -12;
const EINVAL: i32 = -22;

/// Counts an accepted connection that is not established.
pub(super) struct Pending(Rc<Cell<u64>>, Rc<Cell<u32>>);

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
        self.1.set(self.1.get() - 1);
    }
}

/// A connection request that is not answered.
#[derive(Clone, Copy)]
pub(super) struct Incoming {
    pub(super) cm: CmId,
    pub(super) node: usize,
}

/// A number set aside for a connection.
pub(super) struct Reserved(ConnId, Rc<Cell<u64>>);

impl Drop for Reserved {
    fn drop(&mut self) {
        self.1.set(self.1.get() - 1);
    }
}

/// The thread of a node that does the connection work for another node.
#[derive(Default)]
pub(super) struct Worker {
    /// As far as it has come.
    current: Option<Work<World>>,
    /// Events of the CM, connections and peers.
    queues: [VecDeque<Work<World>>; 3],
    armed: bool,
}

impl Worker {
    pub(super) fn is_idle(&self) -> bool {
        self.current.is_none() && self.queues.iter().all(VecDeque::is_empty)
    }
}

fn same(a: &Work<World>, b: &Work<World>) -> bool {
    match (a, b) {
        (Work::Peer { peer: a, .. }, Work::Peer { peer: b, .. }) => a == b,
        (Work::Conn(a), Work::Conn(b)) => a == b,
        _ => false,
    }
}

impl World {
    /// Gives the thread of `node` for `other` something to do. A peer and a connection are queued
    /// once at most.
    pub(super) fn push_work(&mut self, node: usize, other: usize, work: Work<Self>) {
        let at = node * self.nodes.len() + other;
        let queue = match work {
            Work::Conn(_) => 1,
            Work::Peer { .. } => 2,
            _ => 0,
        };
        let queue = &mut self.workers[at].queues[queue];
        if !queue.iter().any(|queued| same(queued, &work)) {
            queue.push_back(work);
        }
        let delay = self.jitter(self.cfg.action_delay);
        self.arm_worker(at, delay);
    }

    fn arm_worker(&mut self, at: usize, delay: u64) {
        let worker = &mut self.workers[at];
        if !worker.armed && !worker.is_idle() {
            worker.armed = true;
            self.at(delay, Ev::Work(at));
        }
    }

    /// Does one step.
    pub(super) fn work(&mut self, at: usize) {
        self.workers[at].armed = false;
        let current = self.workers[at].current.take();
        if let Some(work) = current.or_else(|| self.next_work(at)) {
            if self.verbose {
                self.tell_work(&work);
            }
            self.workers[at].current = work.step(self);
        }
        let delay = self.preempted();
        self.arm_worker(at, delay);
    }

    fn next_work(&mut self, at: usize) -> Option<Work<Self>> {
        let first = self.prng.index(3);
        for n in 0..3 {
            while let Some(work) = self.workers[at].queues[(first + n) % 3].pop_front() {
                // An id that was destroyed reports nothing more.
                match work {
                    Work::Event { tag, .. } if self.ids[tag].link.is_none() => {}
                    work => return Some(work),
                }
            }
        }
        None
    }

    fn tell_work(&self, work: &Work<Self>) {
        match work {
            Work::Act { peer, action, .. } => {
                let (node, other) = (self.peers[*peer].node, self.peers[*peer].other);
                self.say(&format!("node {node} about {other}: {}", brief(action)));
            }
            Work::Event { tag, event } => {
                let (node, other) = (self.ids[*tag].node, self.ids[*tag].other);
                self.say(&format!("node {node} about {other}: {event:?}"));
            }
            _ => {}
        }
    }

    /// A number that no connection has had.
    fn set_aside(&mut self) -> Reserved {
        self.names += 1;
        self.reserved.set(self.reserved.get() + 1);
        Reserved(ConnId(self.names), self.reserved.clone())
    }

    /// Whether a call fails, now and then.
    fn flaky(&mut self) -> bool {
        self.faults && self.prng.chance(1, 50)
    }

    fn has_device(&self, node: usize) -> bool {
        self.nodes[node].gone_until <= self.now
    }

    fn call(&mut self, tag: Tag, errno: i32) -> Result<(), i32> {
        if !self.has_device(self.ids[tag].node) {
            return Err(ENODEV);
        }
        match self.flaky() {
            true => Err(errno),
            false => Ok(()),
        }
    }
}

impl Ids for World {
    type Shell = Self;
    type Tag = Tag;
    type Reserved = Reserved;
    type Private = Vec<u8>;
    type Request = Incoming;
    type Pending = Pending;

    fn open(&mut self, link: Link<Self>) -> Result<Tag, i32> {
        let (node, other) = (self.peers[link.peer].node, self.peers[link.peer].other);
        if !self.has_device(node) || self.flaky() {
            return Err(ENODEV);
        }
        let Purpose::Active(plan) = link.purpose else {
            panic!("an id is made for an attempt");
        };
        let tag = self.ids.len();
        let cm = self.exchanges.len();
        self.exchanges
            .push(Exchange::new(tag, plan.proposal.version));
        let reserved = self.set_aside();
        self.ids.push(Id::new(cm, (node, other), link, reserved));
        Ok(tag)
    }

    fn adopt(
        &mut self,
        request: Incoming,
        reserved: Reserved,
        link: Link<Self>,
    ) -> Result<Tag, Incoming> {
        if self.flaky() {
            return Err(request);
        }
        let ends = (self.peers[link.peer].node, self.peers[link.peer].other);
        assert_eq!(ends.0, request.node);
        let tag = self.ids.len();
        self.ids.push(Id::new(request.cm, ends, link, reserved));
        self.exchanges[request.cm].passive = Some(tag);
        Ok(tag)
    }

    fn disown(&mut self, tag: Tag) -> Option<Incoming> {
        self.ids[tag].link.take()?;
        self.ids[tag].reserved = None;
        let Id { cm, node, .. } = self.ids[tag];
        self.exchanges[cm].passive = None;
        Some(Incoming { cm, node })
    }

    fn link(&mut self, tag: Tag) -> Option<&mut Link<Self>> {
        self.ids.get_mut(tag)?.link.as_mut()
    }

    fn find_attempt(&mut self, peer: &usize, attempt: AttemptId) -> Option<Tag> {
        self.ids.iter().position(|id| match &id.link {
            Some(link) => match link.purpose {
                Purpose::Active(plan) => plan.attempt == attempt && link.peer == *peer,
                Purpose::Passive => false,
            },
            None => false,
        })
    }

    fn conn(&self, tag: Tag) -> Option<EpId> {
        let id = self.ids.get(tag)?;
        id.link.as_ref().and(id.ep)
    }

    fn destroy(&mut self, tag: Tag) {
        if tag == NO_TAG {
            return;
        }
        let id = &mut self.ids[tag];
        let link = id.link.take().expect("an id is destroyed once");
        id.reserved = None;
        if let Some(ep) = id.ep {
            let state = self.eps[ep].qp.state;
            assert_eq!(state, QpState::Destroyed, "its QP outlives an id");
            self.bye(tag);
        }
        drop(link);
    }

    fn resolve_addr(&mut self, tag: Tag, _timeout: Span, again: bool) -> Result<(), i32> {
        self.call(tag, EINVAL)?;
        let delay = self.jitter(if again { 10 } else { 1 } * self.cfg.latency);
        self.at(delay, Ev::Resolved(tag, false));
        Ok(())
    }

    fn resolve_route(&mut self, tag: Tag, _timeout: Span) -> Result<(), i32> {
        self.call(tag, EINVAL)?;
        let delay = self.jitter(self.cfg.latency);
        self.at(delay, Ev::Resolved(tag, true));
        Ok(())
    }

    fn connect(&mut self, tag: Tag, private: &[u8]) -> Result<(), i32> {
        self.call(tag, EINVAL)?;
        self.send_request(tag, private);
        Ok(())
    }

    fn accept(&mut self, tag: Tag, private: &[u8]) -> Result<(), i32> {
        let Id { cm, ep, .. } = self.ids[tag];
        let called = self.call(tag, EINVAL);
        if called.is_err() {
            self.answer_request(cm, CmMsg::Rej(Vec::new()));
            return called;
        }
        let ep = ep.expect("a connection is accepted");
        if self.eps[ep].qp.state == QpState::Init {
            self.eps[ep].qp.state = QpState::Rts;
            self.drive(ep);
        }
        self.answer_request(cm, CmMsg::Rep(private.to_vec()));
        Ok(())
    }

    fn reject(&mut self, request: Incoming, reject: &Reject) -> Result<(), i32> {
        let bytes = self.reject_bytes(request.node, reject);
        self.answer_request(request.cm, CmMsg::Rej(bytes));
        Ok(())
    }

    fn notify_established(&mut self, conn: &EpId) {
        let tag = self.eps[*conn].tag;
        if tag == NO_TAG {
            let delay = self.jitter(self.cfg.latency);
            return self.at(delay, Ev::Cm(*conn, CmEvent::Established));
        }
        self.exchanges[self.ids[tag].cm].settled = true;
        let private = Vec::new();
        self.report(tag, Event::Established { private });
    }

    fn disconnect(&mut self, conn: &EpId) {
        let Ep { tag, peer, .. } = self.eps[*conn];
        if tag != NO_TAG {
            self.bye(tag);
        } else if self.connected() {
            let delay = self.jitter(self.cfg.latency);
            self.at(delay, Ev::Cm(peer, CmEvent::Disconnected));
        }
    }

    fn tag_of(&self, conn: &EpId) -> Tag {
        self.eps[*conn].tag
    }
}

impl Connect for World {
    fn shell(&mut self) -> &mut Self {
        self
    }

    fn nid(&self, peer: &usize) -> Nid {
        self.nodes[self.peers[*peer].other].nid
    }

    fn info(&self, peer: &usize) -> NiInfo {
        self.peers[*peer].ni
    }

    fn encoding(&self, peer: &usize) -> Encoding {
        self.cfg.nodes[self.peers[*peer].node].encoding()
    }

    fn find_conn(&mut self, peer: &usize, name: ConnId) -> Option<EpId> {
        self.peers[*peer].conns.get(&name).copied()
    }

    fn name_conn(
        &mut self,
        peer: &usize,
        conn: &EpId,
        f: impl FnOnce(&mut EngineOf<Self>, Instant, ConnId) -> Claim,
    ) -> (Claim, bool) {
        let now = self.instant();
        let full = self.flaky() && self.eps[*conn].conn.role() == Role::Passive;
        let it = &mut self.peers[*peer];
        let name = self.eps[*conn].name;
        let claim = f(&mut it.peer, now, name);
        if claim == Claim::Taken {
            self.eps[*conn].named = true;
            if !full {
                let before = it.conns.insert(name, *conn);
                assert_eq!(before, None, "a connection is named twice");
            }
        }
        self.arm_peer(*peer);
        (claim, claim == Claim::Taken && !full)
    }

    fn forget_conn(
        &mut self,
        peer: &usize,
        name: ConnId,
        f: impl FnOnce(&mut EngineOf<Self>, Instant),
    ) {
        let now = self.instant();
        let it = &mut self.peers[*peer];
        it.conns.remove(&name);
        f(&mut it.peer, now);
        self.arm_peer(*peer);
    }

    fn retire(&mut self, peer: &usize) -> bool {
        let it = &mut self.peers[*peer];
        let retired = it.peer.retire();
        let (node, other) = (it.node, it.other);
        if retired && self.nodes[node].peers[other] == *peer && !self.quiet {
            // The next message would make another one.
            self.make_peer(node, other);
        }
        retired
    }

    fn notify_down(&mut self, _peer: &usize, alive: Instant) {
        assert!(alive <= self.instant());
    }

    fn assign(&mut self, peer: &usize, sending: Sending<Self>) {
        let (node, other) = (self.peers[*peer].node, self.peers[*peer].other);
        self.send(node, other, sending);
    }

    fn fail(&mut self, peer: &usize, tx: Tx, done: Done) {
        self.end_tx(self.peers[*peer].node, None, tx, done, false);
    }

    fn reserve(&mut self) -> Result<Reserved, i32> {
        if self.flaky() {
            return Err(ENOMEM);
        }
        Ok(self.set_aside())
    }

    fn reserved_name(&self, reserved: &Reserved) -> ConnId {
        reserved.0
    }

    fn create(&mut self, tag: Tag, wanted: &Wanted) -> Result<(EpId, Limits), i32> {
        self.call(tag, ENOMEM)?;
        let Id {
            cm, node, other, ..
        } = self.ids[tag];
        let (tunables, caps) = (self.cfg.tunables(node), self.cfg.caps(node));
        let mut limits = wanted.limits(&tunables, &caps)?;
        while self.faults && self.prng.chance(1, 4) {
            limits = self.cfg.lowered(node, &limits).unwrap_or(limits);
        }
        let peer = match wanted.role {
            Role::Active => usize::MAX,
            Role::Passive => {
                let active = self.ids[self.exchanges[cm].active].ep;
                active.expect("sender of the REQ")
            }
        };
        let id = self.make_ep((node, other), peer, wanted.role, limits, wanted.ident);
        let ep = &mut self.eps[id];
        ep.tag = tag;
        let reserved = self.ids[tag].reserved.as_ref();
        ep.name = reserved.expect("an id that is not destroyed").0;
        let link = self.ids[tag].link.as_ref();
        ep.peer_box = link.expect("an id that is not destroyed").peer;
        match wanted.role {
            Role::Active => self.report.conns += 1,
            Role::Passive => self.eps[peer].peer = id,
        }
        self.ids[tag].ep = Some(id);
        self.drive(id);
        Ok((id, limits))
    }

    fn feed(&mut self, conn: &EpId, input: ConnInput<'_>) {
        let now = self.instant();
        self.eps[*conn].conn.handle_cm(now, input);
        self.drive(*conn);
    }

    fn take_request(&mut self, conn: &EpId, request: Request) -> bool {
        std::mem::take(&mut self.eps[*conn].requests[request as usize])
    }

    fn fail_qp(&mut self, conn: &EpId) -> FailedQp {
        let stuck = self.flaky();
        let qp = &mut self.eps[*conn].qp;
        if qp.state == QpState::Destroyed {
            return FailedQp::Gone;
        }
        if stuck {
            qp.destroy();
            return FailedQp::Destroyed;
        }
        qp.fail_all();
        FailedQp::Failed
    }

    fn destroy_qp(&mut self, conn: &EpId) {
        self.eps[*conn].qp.destroy();
    }

    fn kick(&mut self, conn: &EpId) {
        self.drive(*conn);
    }

    fn release(&mut self, conn: &EpId) {
        let ep = &mut self.eps[*conn];
        assert_eq!(ep.qp.state, QpState::Destroyed, "a QP is left");
        ep.drained = true;
        self.reap(*conn);
    }

    fn incoming<'a>(&self, request: &Incoming, private: &'a [u8]) -> Incomings<'a> {
        let other = self.ids[self.exchanges[request.cm].active].node;
        Incomings {
            private,
            addr: Some(self.nodes[other].nid.addr()),
            port: 1000,
            privileged: true,
        }
    }

    fn find_ni(&self, listener_tag: Tag, nid: Nid) -> Option<(usize, Found)> {
        let node = listener(listener_tag);
        let info = Connect::ni_info(self, &node);
        let found = Found {
            info,
            on_listener: true,
            in_service: true,
        };
        (nid == info.nid).then_some((node, found))
    }

    fn ni_info(&self, node: &usize) -> NiInfo {
        World::ni_info(self, *node)
    }

    fn is_complete(&self, _listener: Tag) -> bool {
        true
    }

    fn pending(&self) -> u64 {
        self.pending.get()
    }

    fn pending_of(&self, peer: &usize) -> u32 {
        self.peers[*peer].pending.get()
    }

    fn hold_pending(&mut self, peer: &usize) -> Pending {
        let (all, of_peer) = (self.pending.clone(), self.peers[*peer].pending.clone());
        all.set(all.get() + 1);
        of_peer.set(of_peer.get() + 1);
        Pending(all, of_peer)
    }

    fn listener_event(&mut self, tag: Tag, event: Event<&[u8]>) {
        panic!("{event:?} of id {tag}, which is gone");
    }

    fn count(&mut self, what: Count) {
        assert_ne!(what, Count::Unexpected);
    }

    fn log(&mut self, peer: &usize, line: Line) {
        match line {
            Line::AttemptFailed(_)
            | Line::Rejected(_)
            | Line::CmError { .. }
            | Line::CannotStart(_) => self.peers[*peer].lines += 1,
            Line::Moved | Line::CannotAccept(_) => self.report.lines += 1,
        }
    }

    fn log_refused(&mut self, _request: &Incoming, _cause: &RefuseCause) {
        self.report.lines += 1;
    }
}

fn brief(action: &PeerAction<Tx>) -> String {
    match action {
        PeerAction::Assign { conn, tx, .. } => format!("Assign {} {conn:?}", tx.msg),
        PeerAction::Fail { tx, done } => format!("Fail {} {done:?}", tx.msg),
        PeerAction::StartAttempt { id, offer, .. } => format!("StartAttempt {id:?} {offer:?}"),
        other => format!("{other:?}"),
    }
}
