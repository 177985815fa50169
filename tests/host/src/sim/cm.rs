// SPDX-License-Identifier: GPL-2.0

//! A CM that loses, delays and repeats.

use super::connd::{Incoming, Reserved};
use super::hca::QpState;
use super::world::{EpId, Ev, World};
use crate::driver::cm::CmEvent as Event;
use crate::driver::connect::effects::{Link, Purpose};
use crate::driver::connect::Work;
use crate::driver::handshake;
use crate::proto::peer::CM_REJ_CONSUMER_DEFINED;
use crate::wire::{Reject, RejectReason, Stamp, Version};

const ETIMEDOUT: i32 = -110;
const EHOSTUNREACH: i32 = -113;

/// One exchange of the CM: an id on the active side and, if it came so far, one on the passive.
pub(super) type CmId = usize;

/// Number of an id, or of what listens on a node, which counts from the other end.
pub(super) type Tag = usize;

/// Of a connection that came out of nothing.
pub(super) const NO_TAG: Tag = usize::MAX / 2;

/// The listener of a node, or the node of a listener.
pub(super) const fn listener(node: usize) -> Tag {
    usize::MAX - node
}

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

/// An id.
pub(super) struct Id {
    pub(super) cm: CmId,
    pub(super) node: usize,
    pub(super) other: usize,
    /// What the driver keeps with it, until the id is destroyed.
    pub(super) link: Option<Link<World>>,
    /// Its number, as long.
    pub(super) reserved: Option<Reserved>,
    pub(super) ep: Option<EpId>,
    /// The CM has said why there is no connection.
    ended: bool,
    disconnected: bool,
    /// Its node does not say that it is gone.
    silent: bool,
}

impl Id {
    pub(super) fn new(
        cm: CmId,
        (node, other): (usize, usize),
        link: Link<World>,
        reserved: Reserved,
    ) -> Self {
        Self {
            cm,
            node,
            other,
            link: Some(link),
            reserved: Some(reserved),
            ep: None,
            ended: false,
            disconnected: false,
            silent: false,
        }
    }

    /// Whether the CM of its node knows it.
    fn is_known(&self) -> bool {
        self.link.is_some() && !self.silent
    }
}

/// An exchange, seen from above.
pub(super) struct Exchange {
    pub(super) active: Tag,
    pub(super) passive: Option<Tag>,
    version: Version,
    /// The request is with the driver of the passive side.
    pub(super) asked: bool,
    answer: Option<CmMsg>,
    /// The active side has an answer; it does not repeat its REQ.
    answered: bool,
    /// The passive side has the RTU.
    pub(super) settled: bool,
}

impl Exchange {
    pub(super) fn new(active: Tag, version: Version) -> Self {
        Self {
            active,
            passive: None,
            version,
            asked: false,
            answer: None,
            answered: false,
            settled: false,
        }
    }
}

/// How the CM's private data arrives on InfiniBand: padded.
pub(super) fn padded(bytes: &[u8], len: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(len, 0);
    padded
}

impl World {
    /// The CM reports something about an id to its driver.
    pub(super) fn report(&mut self, tag: Tag, event: Event<Vec<u8>>) {
        let id = &mut self.ids[tag];
        if !id.is_known() {
            return;
        }
        let fails = event.borrowed().failure().is_some();
        if fails && event != Event::AddrError(ETIMEDOUT) {
            // It says this once.
            if std::mem::replace(&mut id.ended, true) {
                return;
            }
        }
        let (node, other) = (id.node, id.other);
        self.push_work(node, other, Work::Event { tag, event });
    }

    /// The ids of `node` are those of a former life.
    pub(super) fn silence(&mut self, node: usize) {
        for id in self.ids.iter_mut().filter(|id| id.node == node) {
            id.silent = true;
        }
    }

    /// The device of `node` goes away under its ids.
    pub(super) fn device_removed(&mut self, node: usize) {
        for tag in 0..self.ids.len() {
            if self.ids[tag].node == node && self.ids[tag].ep.is_none() {
                self.report(tag, Event::DeviceRemoval);
            }
        }
    }

    /// Address or route is resolved, or not.
    pub(super) fn resolved(&mut self, tag: Tag, route: bool) {
        let Some(link) = &self.ids[tag].link else {
            return;
        };
        let old = match link.purpose {
            Purpose::Active(plan) => plan.proposal.version != Version::V1,
            Purpose::Passive => panic!("nothing of an accepted id is resolved"),
        };
        let node = self.ids[tag].node;
        let gone = self.nodes[node].gone_until > self.now;
        let fails = gone || (self.faults && self.prng.chance(1, 20));
        // The neighbour does not answer in time, or there is no way to it.
        let late = !gone && self.prng.chance(1, 2);
        let event = match (route, fails) {
            (false, false) => Event::AddrResolved,
            (false, true) => Event::AddrError(if late { ETIMEDOUT } else { EHOSTUNREACH }),
            // It speaks nothing else, but its engine is one of ours: as if it had been told so.
            (true, false) if old && self.cfg.nodes[node].version == Version::V1 => {
                Event::Rejected {
                    reason: CM_REJ_CONSUMER_DEFINED,
                    private: padded(&self.old_reject(node), 148),
                }
            }
            (true, false) => Event::RouteResolved,
            (true, true) => Event::RouteError(EHOSTUNREACH),
        };
        self.report(tag, event);
    }

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
        let active = it.active;
        let done = match msg {
            CmMsg::Req(_) => it.answered || !self.ids[active].is_known(),
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
        let tag = match msg {
            CmMsg::Rep(_) => it.passive,
            CmMsg::Req(_) | CmMsg::Rej(_) | CmMsg::RejTold(_) | CmMsg::Rtu | CmMsg::Bye => {
                Some(active)
            }
        };
        if let Some(tag) = tag {
            self.report(tag, Event::Unreachable(ETIMEDOUT));
        }
    }

    /// Sends the connection request of an id.
    pub(super) fn send_request(&mut self, tag: Tag, private: &[u8]) {
        let Id { cm, other, .. } = self.ids[tag];
        self.repeat(other, cm, CmMsg::Req(private.to_vec()), 6);
    }

    /// The passive side answers.
    pub(super) fn answer_request(&mut self, cm: CmId, answer: CmMsg) {
        let it = &mut self.exchanges[cm];
        assert!(it.answer.is_none(), "a request is answered twice");
        it.answer = Some(answer.clone());
        let to = self.ids[it.active].node;
        match &answer {
            CmMsg::Rep(_) => self.repeat(to, cm, answer, 6),
            CmMsg::Req(_) | CmMsg::Rej(_) | CmMsg::RejTold(_) | CmMsg::Rtu | CmMsg::Bye => {
                self.send_cm(to, cm, answer);
            }
        }
    }

    /// The other side is told that this one is gone, once.
    pub(super) fn bye(&mut self, tag: Tag) {
        let id = &mut self.ids[tag];
        if id.silent || std::mem::replace(&mut id.disconnected, true) {
            return;
        }
        let (cm, other) = (id.cm, id.other);
        self.send_cm(other, cm, CmMsg::Bye);
    }

    pub(super) fn cm_msg(&mut self, to: usize, cm: CmId, msg: CmMsg) {
        let frozen = self.nodes[to].frozen_until;
        if frozen > self.now {
            return self.at(frozen - self.now, Ev::CmMsg(to, cm, msg));
        }
        self.cm_on_way -= 1;
        let active = self.exchanges[cm].active;
        match msg {
            CmMsg::Req(bytes) => self.cm_req(to, cm, bytes),
            CmMsg::Rep(bytes) => self.cm_rep(cm, active, &bytes),
            CmMsg::Rej(bytes) => {
                self.exchanges[cm].answered = true;
                if let Some(id) = self.ids[active].ep {
                    self.eps[id].qp.fail_all();
                    self.drive(id);
                }
                self.cm_on_way += 1;
                let delay = self.jitter(self.cfg.action_delay + self.cfg.cq_delay);
                self.at(delay, Ev::CmMsg(to, cm, CmMsg::RejTold(bytes)));
            }
            CmMsg::RejTold(bytes) => {
                let private = padded(&bytes, 148);
                let reason = CM_REJ_CONSUMER_DEFINED;
                self.report(active, Event::Rejected { reason, private });
            }
            CmMsg::Rtu => {
                self.exchanges[cm].settled = true;
                match self.exchanges[cm].passive {
                    Some(tag) if self.ids[tag].is_known() => {
                        let private = Vec::new();
                        self.report(tag, Event::Established { private });
                    }
                    Some(_) | None => self.send_cm(self.ids[active].node, cm, CmMsg::Bye),
                }
            }
            CmMsg::Bye => {
                if self.ids[active].node == to {
                    return self.report(active, Event::Disconnected);
                }
                self.exchanges[cm].settled = true;
                if let Some(tag) = self.exchanges[cm].passive {
                    self.report(tag, Event::Disconnected);
                }
            }
        }
    }

    /// The answer to a request is here. The CM acknowledges it before it tells the driver.
    fn cm_rep(&mut self, cm: CmId, active: Tag, bytes: &[u8]) {
        let again = std::mem::replace(&mut self.exchanges[cm].answered, true);
        let id = &self.ids[active];
        let (other, ep) = (id.other, id.ep);
        if !id.is_known() || id.disconnected {
            return self.send_cm(other, cm, CmMsg::Bye);
        }
        self.send_cm(other, cm, CmMsg::Rtu);
        if let Some(ep) = ep {
            if self.eps[ep].qp.state == QpState::Init {
                self.eps[ep].qp.state = QpState::Rts;
                self.drive(ep);
            }
        }
        if !again || self.prng.chance(1, 4) {
            let private = padded(bytes, 196);
            self.report(active, Event::Established { private });
        }
    }

    /// What a node of version 1 answers to a request of version 2.
    fn old_reject(&self, node: usize) -> Vec<u8> {
        let reject = Reject {
            version: Version::V1.to_wire(),
            why: RejectReason::Fatal,
            // All-ones, by the look of it.
            stamp: Stamp::UNKNOWN,
            params: None,
        };
        self.reject_bytes(node, &reject)
    }

    /// The private data of a reject by `node`.
    pub(super) fn reject_bytes(&self, node: usize, reject: &Reject) -> Vec<u8> {
        let endian = self.cfg.nodes[node].endian;
        handshake::reject(reject, endian).expect("reject").to_vec()
    }

    fn cm_req(&mut self, node: usize, cm: CmId, bytes: Vec<u8>) {
        let it = &self.exchanges[cm];
        let other = self.ids[it.active].node;
        if self.nodes[node].gone_until > self.now {
            return;
        }
        if let Some(answer) = it.answer.clone() {
            let silent = it.passive.is_some_and(|tag| self.ids[tag].silent);
            if !silent {
                self.send_cm(other, cm, answer);
            }
            return;
        }
        if self.cfg.nodes[node].version == Version::V1 && it.version != Version::V1 {
            let reject = self.old_reject(node);
            return self.answer_request(cm, CmMsg::Rej(reject));
        }
        if std::mem::replace(&mut self.exchanges[cm].asked, true) {
            return;
        }
        let request = Incoming { cm, node };
        self.push_work(node, other, Work::request(listener(node), request, bytes));
    }
}
