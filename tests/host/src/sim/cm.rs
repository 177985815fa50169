// SPDX-License-Identifier: GPL-2.0

//! Peers, attempts and a CM that loses, delays and repeats: what `connd` does in the driver.

use std::collections::{BTreeMap, VecDeque};

use super::hca::QpState;
use super::lnet::Tx;
use super::world::{EpId, Ev, World};
use super::Heap;
use crate::driver::admission::{judge, Found, Request};
use crate::driver::cm::{active, passive, Active, CmEvent as Event, Passive};
use crate::driver::handshake::Proposal;
use crate::driver::send::Sending;
use crate::proto::conn::Role;
use crate::proto::passive::NiInfo;
use crate::proto::peer::{
    AttemptEvent, Claim, Offer, Peer, PeerAction, PeerConfig, Verdict, CM_REJ_CONSUMER_DEFINED,
};
use crate::proto::{AttemptId, Cause, ConnId, Instant, Limits};
use crate::wire::{Message, Stamp, Version};

const ETIMEDOUT: i32 = -110;
const EHOSTUNREACH: i32 = -113;

/// One exchange of the CM: an id on the active side and, if it came so far, one on the passive.
pub(super) type CmId = usize;

/// What one side of the CM tells the other.
#[derive(Clone, Debug)]
pub(super) enum CmMsg {
    Req(Vec<u8>),
    Rep(Vec<u8>),
    Rej(Vec<u8>),
    /// Here already: the CM has moved the queue pair to the error state, and says why.
    RejTold(Vec<u8>),
    Rtu,
    /// Disconnected, or given up.
    Bye,
}

/// How a node goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Closed,
    Silent,
}

/// A peer of one incarnation of a node, and what belongs to it.
pub(super) struct PeerBox {
    pub(super) node: usize,
    /// The node that it stands for.
    pub(super) other: usize,
    pub(super) peer: Peer<Heap, Tx>,
    ni: NiInfo,
    acts: VecDeque<PeerAction<Tx>>,
    running: bool,
    timer: Option<Instant>,
    attempts: BTreeMap<AttemptId, CmId>,
    /// Lines that the driver would have logged about its attempts.
    pub(super) lines: u32,
}

/// An exchange, seen from above.
pub(super) struct Exchange {
    active_box: usize,
    attempt: AttemptId,
    version: Version,
    offer: Offer,
    dst_stamp: Stamp,
    /// The attempt has been aborted.
    aborted: bool,
    released: bool,
    /// The CM has said why there is no connection.
    ended: bool,
    active_ep: Option<EpId>,
    passive_ep: Option<EpId>,
    answer: Option<CmMsg>,
    /// The active side has an answer; it does not repeat its REQ.
    answered: bool,
    /// The passive side has the RTU.
    settled: bool,
}

/// How the CM's private data arrives on InfiniBand: padded.
pub(super) fn padded(bytes: &[u8], len: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(len, 0);
    padded
}

impl World {
    /// New peer objects of `node`, as after a start of its NI.
    pub(super) fn make_peers(&mut self, node: usize) {
        for other in (0..self.nodes.len()).filter(|&other| other != node) {
            self.make_peer(node, other);
        }
    }

    fn make_peer(&mut self, node: usize, other: usize) {
        let it = &self.cfg.nodes[node];
        let ni = NiInfo {
            nid: self.nodes[node].nid,
            stamp: self.nodes[node].stamp,
            peer_credits: it.depth,
        };
        let tunables = self.cfg.tunables(node);
        let mut config = PeerConfig::new(self.nodes[other].nid, ni, &tunables);
        config.tie_break = it.tie_break;
        let Ok(peer) = Peer::new(&mut Heap, config, self.instant());
        self.nodes[node].peers[other] = self.peers.len();
        self.peers.push(PeerBox {
            node,
            other,
            peer,
            ni,
            acts: VecDeque::new(),
            running: false,
            timer: None,
            attempts: BTreeMap::new(),
            lines: 0,
        });
    }

    /// The NI of `node` is shut down and started again.
    pub(super) fn restart(&mut self, node: usize) {
        self.take_down(node, Fate::Closed);
        self.nodes[node].stamp.0 += 1000;
        self.make_peers(node);
    }

    /// `node` is gone without a word and comes back as another incarnation. (What its LNet had
    /// under way ends, for the books.)
    pub(super) fn reboot(&mut self, node: usize) {
        self.report.reboots += 1;
        self.take_down(node, Fate::Silent);
        self.nodes[node].stamp.0 += 1000;
        self.make_peers(node);
    }

    /// The device of `node` vanishes for a while; its NI and its peers live on.
    pub(super) fn lose_device(&mut self, node: usize, span: u64) {
        self.report.reboots += 1;
        self.nodes[node].gone_until = self.now + span;
        let now = self.instant();
        for id in 0..self.eps.len() {
            if self.eps[id].node == node && !self.eps[id].gone {
                self.eps[id].qp.hung = true;
                self.eps[id].conn.close(now, Cause::DeviceGone);
                self.drive(id);
            }
        }
        for cm in 0..self.exchanges.len() {
            let it = &self.exchanges[cm];
            let ours = self.peers[it.active_box].node == node;
            if ours && it.active_ep.is_none() && !it.aborted && !it.released {
                self.active_event(cm, Event::DeviceRemoval);
            }
        }
    }

    fn take_down(&mut self, node: usize, fate: Fate) {
        let now = self.instant();
        for other in 0..self.nodes.len() {
            let old = self.nodes[node].peers[other];
            if other != node {
                self.peers[old].peer.delete(Cause::Deleted);
                self.drive_peer(old);
            }
        }
        for id in 0..self.eps.len() {
            if self.eps[id].node != node || self.eps[id].gone {
                continue;
            }
            match fate {
                Fate::Closed => self.eps[id].conn.close(now, Cause::Deleted),
                Fate::Silent => {
                    self.eps[id].qp.destroy();
                    self.eps[id].conn.handle_qp_destroyed(now);
                    self.eps[id].silent = true;
                }
            }
            self.drive(id);
        }
    }

    // --- the worker -----------------------------------------------------------------------------

    /// Pulls the actions of a peer and has them run.
    pub(super) fn drive_peer(&mut self, at: usize) {
        let it = &mut self.peers[at];
        while let Some(action) = it.peer.poll_action() {
            it.acts.push_back(action);
        }
        let run = !it.running && !it.acts.is_empty();
        it.running |= run;
        self.arm_peer(at);
        if run {
            let delay = self.jitter(self.cfg.action_delay);
            self.at(delay, Ev::PeerRun(at));
        }
    }

    /// Sets the timer of a peer.
    pub(super) fn arm_peer(&mut self, at: usize) {
        let now = self.instant();
        let it = &mut self.peers[at];
        let due = it.peer.poll_timeout();
        let arm = due.filter(|&t| it.timer.is_none_or(|armed| t < armed));
        if let Some(t) = arm {
            it.timer = Some(t);
            // It may find nothing to do; the driver looks once a second.
            self.at(t.0.saturating_sub(now.0).max(1_000), Ev::PeerTimer(at));
        }
    }

    pub(super) fn peer_timer(&mut self, at: usize) {
        let now = self.instant();
        self.peers[at].timer = None;
        self.peers[at].peer.handle_timeout(now);
        self.drive_peer(at);
    }

    pub(super) fn peer_run(&mut self, at: usize) {
        self.peers[at].running = false;
        if let Some(action) = self.peers[at].acts.pop_front() {
            if self.verbose {
                let (node, other) = (self.peers[at].node, self.peers[at].other);
                self.say(&format!("node {node} about {other}: {}", brief(&action)));
            }
            self.peer_act(at, action);
        }
        self.drive_peer(at);
        if !self.peers[at].running && !self.peers[at].acts.is_empty() {
            self.peers[at].running = true;
            let delay = self.jitter(self.cfg.action_delay);
            self.at(delay, Ev::PeerRun(at));
        }
    }

    fn peer_act(&mut self, at: usize, action: PeerAction<Tx>) {
        let now = self.instant();
        match action {
            PeerAction::StartAttempt {
                id,
                version,
                offer,
                dst_stamp,
            } => {
                let cm = self.exchanges.len();
                self.exchanges.push(Exchange {
                    active_box: at,
                    attempt: id,
                    version,
                    offer,
                    dst_stamp,
                    aborted: false,
                    released: false,
                    ended: false,
                    active_ep: None,
                    passive_ep: None,
                    answer: None,
                    answered: false,
                    settled: false,
                });
                self.peers[at].attempts.insert(id, cm);
                let delay = self.jitter(self.cfg.latency);
                self.at(delay, Ev::Resolved(cm, false));
            }
            PeerAction::AbortAttempt { id, cause } => self.abort(at, id, cause),
            PeerAction::Assign { conn, tx, ticket } => {
                let (node, other) = (self.peers[at].node, self.peers[at].other);
                self.send(node, other, Sending::assigned(at, conn, tx, ticket));
            }
            PeerAction::Fail { tx, done } => {
                let node = self.peers[at].node;
                self.end_tx(node, None, tx, done, false);
            }
            PeerAction::CloseConn { conn, cause } => {
                let id = conn.0 as EpId;
                self.eps[id].conn.close(now, cause);
                self.drive(id);
            }
            PeerAction::NotifyDown { .. } | PeerAction::Idle => {}
        }
    }

    fn abort(&mut self, at: usize, id: AttemptId, cause: Cause) {
        let Some(&cm) = self.peers[at].attempts.get(&id) else {
            return;
        };
        let now = self.instant();
        self.exchanges[cm].aborted = true;
        self.peers[at].lines += u32::from(cause != Cause::Rejected);
        match self.exchanges[cm].active_ep {
            Some(ep) => {
                self.eps[ep].conn.close(now, cause);
                self.drive(ep);
            }
            None => {
                let delay = self.jitter(self.cfg.action_delay);
                self.at(delay, Ev::Released(cm));
            }
        }
    }

    fn tell(&mut self, cm: CmId, event: AttemptEvent<'_>) -> Claim {
        let now = self.instant();
        let (at, id) = (self.exchanges[cm].active_box, self.exchanges[cm].attempt);
        let ends = matches!(
            event,
            AttemptEvent::AddrError
                | AttemptEvent::RouteError
                | AttemptEvent::ConnectError
                | AttemptEvent::Unreachable
                | AttemptEvent::Rejected { .. }
        );
        // A real CM says this once.
        self.peers[at].lines += u32::from(ends && !self.exchanges[cm].ended);
        self.exchanges[cm].ended |= ends;
        let claim = self.peers[at].peer.handle_attempt(now, id, event);
        self.drive_peer(at);
        claim
    }

    pub(super) fn released(&mut self, cm: CmId) {
        if !std::mem::replace(&mut self.exchanges[cm].released, true) {
            let _ = self.tell(cm, AttemptEvent::Released);
        }
    }

    /// The CM reports something about the id of an attempt.
    fn active_event(&mut self, cm: CmId, event: Event<'_>) {
        let now = self.instant();
        let (input, attempt) = match active(event) {
            Active::ResolveRoute => {
                if self.tell(cm, AttemptEvent::AddrResolved) == Claim::Taken {
                    let delay = self.jitter(self.cfg.latency);
                    self.at(delay, Ev::Resolved(cm, true));
                }
                return;
            }
            Active::Request => {
                if self.tell(cm, AttemptEvent::RouteResolved) == Claim::Taken {
                    self.request(cm);
                }
                return;
            }
            Active::ResolveAgain => {
                let delay = self.jitter(10 * self.cfg.latency);
                return self.at(delay, Ev::Resolved(cm, false));
            }
            Active::Open { private } => return self.open(cm, private),
            Active::Report { conn, attempt } => (conn, attempt),
        };
        if let (Some(input), Some(id)) = (input, self.exchanges[cm].active_ep) {
            if self.eps[id].named || input.is_for_unknown() {
                self.eps[id].conn.handle_cm(now, input);
                self.drive(id);
            }
        }
        if let Some(attempt) = attempt {
            let _ = self.tell(cm, attempt);
        }
    }

    /// The CM reports something about an accepted connection.
    fn passive_event(&mut self, id: EpId, event: Event<'_>) {
        let now = self.instant();
        match passive(event) {
            Passive::Conn(input) => {
                self.eps[id].conn.handle_cm(now, input);
                self.drive(id);
            }
            Passive::Nothing => {}
            Passive::Unexpected => panic!("{event:?} of an accepted connection"),
        }
    }

    pub(super) fn resolved(&mut self, cm: CmId, route: bool) {
        if self.exchanges[cm].aborted {
            return;
        }
        let node = self.peers[self.exchanges[cm].active_box].node;
        let gone = self.nodes[node].gone_until > self.now;
        let fails = gone || (self.faults && self.prng.chance(1, 20));
        // The neighbour does not answer in time, or there is no way to it.
        let late = !gone && self.prng.chance(1, 2);
        let event = match (route, fails) {
            (false, false) => Event::AddrResolved,
            (false, true) => Event::AddrError(if late { ETIMEDOUT } else { EHOSTUNREACH }),
            (true, false) => Event::RouteResolved,
            (true, true) => Event::RouteError(EHOSTUNREACH),
        };
        self.active_event(cm, event);
    }

    /// Makes the connection and sends the CONNREQ.
    fn request(&mut self, cm: CmId) {
        let Exchange {
            active_box,
            version,
            offer,
            dst_stamp,
            ..
        } = self.exchanges[cm];
        let (node, other) = (self.peers[active_box].node, self.peers[active_box].other);
        if version != Version::V1 && self.cfg.nodes[node].version == Version::V1 {
            // It speaks nothing else, but its engine is one of ours: as if it had been told so.
            return self.tell_old(cm);
        }
        let propose = Some((offer.queue_depth, offer.max_frags));
        let (tunables, caps) = (self.cfg.tunables(node), self.cfg.caps(node));
        let mut limits = Limits::new(&tunables, &caps, version, propose).expect("limits");
        while self.faults && self.prng.chance(1, 4) {
            limits = self.cfg.lowered(node, &limits).unwrap_or(limits);
        }
        let proposal = Proposal {
            peer: self.nodes[other].nid,
            version,
            offer,
            dst_stamp,
        };
        if let Some(made) = proposal.lowered(&limits) {
            let _ = self.tell(cm, AttemptEvent::LimitsLowered(made));
        }
        let id = self.make_ep(
            (node, other),
            usize::MAX,
            Role::Active,
            limits,
            Stamp::UNKNOWN,
        );
        self.eps[id].cm = Some(cm);
        self.eps[id].peer_box = active_box;
        self.exchanges[cm].active_ep = Some(id);
        self.report.conns += 1;
        self.drive(id);
        if self.tell(cm, AttemptEvent::Connecting) == Claim::Late {
            return;
        }
        let ni = self.peers[active_box].ni;
        let encoding = self.cfg.nodes[node].encoding();
        let buf = proposal.connreq(&ni, &limits, encoding).expect("CONNREQ");
        let buf = buf.to_vec();
        self.repeat(other, cm, CmMsg::Req(buf), 6);
    }

    // --- the CM ---------------------------------------------------------------------------------

    fn send_cm(&mut self, to: usize, cm: CmId, msg: CmMsg) {
        let lost = self.faults && self.prng.chance(1, 8);
        if lost || !self.connected() {
            return;
        }
        let delay = self.cfg.latency + self.jitter(self.cfg.latency * 4);
        self.cm_on_way += 1;
        self.at(delay, Ev::CmMsg(to, cm, msg));
    }

    /// Sends a message that is repeated until it is answered.
    pub(super) fn repeat(&mut self, to: usize, cm: CmId, msg: CmMsg, tries: u8) {
        let it = &self.exchanges[cm];
        let done = match msg {
            CmMsg::Req(_) => it.answered || it.aborted,
            CmMsg::Rep(_) => it.settled,
            CmMsg::Rej(_) | CmMsg::RejTold(_) | CmMsg::Rtu | CmMsg::Bye => true,
        };
        if done {
            return;
        }
        if tries > 0 {
            self.send_cm(to, cm, msg.clone());
            let delay = self.cfg.timeout.0 / 8;
            return self.at(delay, Ev::CmRepeat(to, cm, msg, tries - 1));
        }
        match msg {
            CmMsg::Rep(_) => {
                if let Some(id) = self.exchanges[cm].passive_ep {
                    self.passive_event(id, Event::Unreachable(ETIMEDOUT));
                }
            }
            CmMsg::Req(_) | CmMsg::Rej(_) | CmMsg::RejTold(_) | CmMsg::Rtu | CmMsg::Bye => {
                self.active_event(cm, Event::Unreachable(ETIMEDOUT));
            }
        }
    }

    /// The other side is told that this one is gone.
    pub(super) fn bye(&mut self, id: EpId) {
        if self.eps[id].silent {
            return;
        }
        if let Some(cm) = self.eps[id].cm {
            let to = self.eps[id].other;
            self.send_cm(to, cm, CmMsg::Bye);
        }
    }

    pub(super) fn cm_msg(&mut self, to: usize, cm: CmId, msg: CmMsg) {
        let frozen = self.nodes[to].frozen_until;
        if frozen > self.now {
            return self.at(frozen - self.now, Ev::CmMsg(to, cm, msg));
        }
        self.cm_on_way -= 1;
        match msg {
            CmMsg::Req(bytes) => self.cm_req(to, cm, &bytes),
            CmMsg::Rep(bytes) => {
                let private = &padded(&bytes, 196);
                self.active_event(cm, Event::Established { private });
            }
            CmMsg::Rej(bytes) => {
                self.exchanges[cm].answered = true;
                if let Some(id) = self.exchanges[cm].active_ep {
                    self.eps[id].qp.fail_all();
                    self.drive(id);
                }
                self.cm_on_way += 1;
                let delay = self.jitter(self.cfg.action_delay + self.cfg.cq_delay);
                self.at(delay, Ev::CmMsg(to, cm, CmMsg::RejTold(bytes)));
            }
            CmMsg::RejTold(bytes) => {
                let private = &padded(&bytes, 148);
                let reason = CM_REJ_CONSUMER_DEFINED;
                self.active_event(cm, Event::Rejected { reason, private });
            }
            CmMsg::Rtu => {
                self.exchanges[cm].settled = true;
                if let Some(id) = self.exchanges[cm].passive_ep {
                    self.passive_event(id, Event::Established { private: &[] });
                }
            }
            CmMsg::Bye => self.cm_bye(to, cm),
        }
    }

    fn cm_bye(&mut self, to: usize, cm: CmId) {
        let it = &mut self.exchanges[cm];
        if self.peers[it.active_box].node == to {
            return self.active_event(cm, Event::Disconnected);
        }
        it.settled = true;
        if let Some(id) = it.passive_ep {
            self.passive_event(id, Event::Disconnected);
        }
    }

    /// What a node of version 1 answers to a request of version 2.
    fn old_reject(&self, node: usize) -> Vec<u8> {
        let reject = crate::wire::Reject {
            version: Version::V1.to_wire(),
            why: crate::wire::RejectReason::Fatal,
            stamp: Stamp::UNKNOWN,
            params: None,
        };
        let mut buf = vec![0; 24];
        let endian = self.cfg.nodes[node].endian;
        reject.emit(endian, &mut buf).expect("reject");
        // Its incarnation is all-ones, by the look of it.
        buf
    }

    fn tell_old(&mut self, cm: CmId) {
        let node = self.peers[self.exchanges[cm].active_box].node;
        let private = &self.old_reject(node);
        let reason = CM_REJ_CONSUMER_DEFINED;
        self.active_event(cm, Event::Rejected { reason, private });
    }

    fn cm_req(&mut self, node: usize, cm: CmId, bytes: &[u8]) {
        let other = self.peers[self.exchanges[cm].active_box].node;
        if self.nodes[node].gone_until > self.now {
            return;
        }
        if let Some(answer) = self.exchanges[cm].answer.clone() {
            return self.send_cm(other, cm, answer);
        }
        let answer = self.judge(node, cm, bytes);
        self.exchanges[cm].answer = Some(answer.clone());
        match &answer {
            CmMsg::Rep(_) => self.repeat(other, cm, answer, 6),
            CmMsg::Req(_) | CmMsg::Rej(_) | CmMsg::RejTold(_) | CmMsg::Rtu | CmMsg::Bye => {
                self.send_cm(other, cm, answer);
            }
        }
    }

    /// What the passive side answers.
    fn judge(&mut self, node: usize, cm: CmId, bytes: &[u8]) -> CmMsg {
        let now = self.instant();
        let other = self.peers[self.exchanges[cm].active_box].node;
        let at = self.nodes[node].peers[other];
        let ni = self.peers[at].ni;
        let old = self.cfg.nodes[node].version == Version::V1;
        if old && self.exchanges[cm].version != Version::V1 {
            return CmMsg::Rej(self.old_reject(node));
        }
        let endian = self.cfg.nodes[node].endian;
        let reject = |reject: crate::wire::Reject| {
            let mut buf = vec![0; 24];
            reject.emit(endian, &mut buf).expect("reject");
            CmMsg::Rej(buf)
        };
        let request = Request {
            private: bytes,
            addr: Some(self.nodes[other].nid.addr()),
            port: 1000,
            privileged: true,
        };
        let found = Found {
            info: ni,
            on_listener: true,
            in_service: true,
        };
        let find = |nid| (nid == ni.nid).then_some(((), found));
        let req = match judge(&request, || (), find, || true) {
            Ok(((), req)) => req,
            Err(refusal) => return reject(refusal.reject),
        };
        let name = ConnId(self.eps.len() as u32);
        let verdict = self.peers[at].peer.handle_connreq(now, name, &req);
        let answer = match verdict {
            Verdict::Reject(refusal) => reject(refusal.reject),
            Verdict::Accept { version, offer } => {
                let propose = Some((offer.queue_depth, offer.max_frags));
                let (tunables, caps) = (self.cfg.tunables(node), self.cfg.caps(node));
                let mut limits = Limits::new(&tunables, &caps, version, propose).expect("limits");
                while self.faults && self.prng.chance(1, 4) {
                    limits = self.cfg.lowered(node, &limits).unwrap_or(limits);
                }
                let active = self.exchanges[cm].active_ep.expect("sender of the REQ");
                let id = self.make_ep((node, other), active, Role::Passive, limits, req.stamp);
                assert_eq!(id as u32, name.0);
                self.eps[id].cm = Some(cm);
                self.eps[id].peer_box = at;
                self.eps[id].named = true;
                self.eps[id].qp.state = QpState::Rts;
                self.eps[active].peer = id;
                self.exchanges[cm].passive_ep = Some(id);
                self.drive(id);
                CmMsg::Rep(self.connack(id))
            }
        };
        self.drive_peer(at);
        answer
    }

    /// The answer to a CONNREQ is here.
    fn open(&mut self, cm: CmId, ack: &[u8]) {
        let now = self.instant();
        let other = self.peers[self.exchanges[cm].active_box].other;
        self.exchanges[cm].answered = true;
        let Some(id) = self.exchanges[cm].active_ep else {
            return;
        };
        if self.eps[id].named {
            return self.send_cm(other, cm, CmMsg::Rtu);
        }
        let name = ConnId(id as u32);
        if self.tell(cm, AttemptEvent::Connected(name)) == Claim::Late {
            return self.send_cm(other, cm, CmMsg::Bye);
        }
        let ep = &mut self.eps[id];
        ep.named = true;
        if ep.qp.state == QpState::Init {
            ep.qp.state = QpState::Rts;
        }
        ep.conn.handle_established(now, Some(Message::parse(ack)));
        self.drive(id);
        self.send_cm(other, cm, CmMsg::Rtu);
    }

    // --- what connections report ------------------------------------------------------------------

    pub(super) fn conn_gone(&mut self, id: EpId) {
        let at = self.eps[id].peer_box;
        let now = self.instant();
        match (self.eps[id].named, self.eps[id].cm) {
            (true, _) => {
                self.peers[at].peer.handle_gone(now, ConnId(id as u32));
                self.drive_peer(at);
            }
            (false, Some(cm)) => self.released(cm),
            (false, None) => {}
        }
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
