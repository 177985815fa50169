// SPDX-License-Identifier: GPL-2.0

//! Nodes, time, and connections that come out of nothing.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use super::cdriver::{CConn, Setup};
use super::cm::{padded, CmId, CmMsg, Exchange, Id, Tag};
use super::config::Config;
use super::connd::Worker;
use super::end::End;
use super::hca::{Memory, Packet, QpState};
use super::lnet::{Given, Msg, Tx};
use super::node::Ep;
use super::options::Options;
use super::peers::PeerBox;
use super::report::Report;
use super::Heap;
use crate::driver::handshake::connack;
use crate::driver::recv::{After, Answer};
use crate::driver::send::Sending;
use crate::prng::Prng;
use crate::proto::conn::{Conn, Delivery, Role};
use crate::proto::{Instant, Limits, RxId};
use crate::wire::{Identity, LnetHdr, Message, Nid, Stamp};

const MS: u64 = 1_000_000;

pub(super) type EpId = usize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CmEvent {
    Established,
    Disconnected,
    CommEst,
}

pub(super) enum Ev {
    /// The device starts the next request.
    Step(EpId),
    /// A packet arrives from `from`, request `seq`.
    Arrive {
        to: EpId,
        from: EpId,
        seq: u64,
        packet: Packet,
    },
    Acked(EpId, u64),
    Failed(EpId, u64),
    /// The driver polls the completion queue.
    Wake(EpId),
    /// The executor runs the next action.
    Run(EpId),
    Timer(EpId),
    Cm(EpId, CmEvent),
    /// LNet says what becomes of a message.
    Lnet(EpId, RxId, LnetHdr, Delivery),
    /// Our engine gets the answer.
    Answer(EpId, RxId, Box<Answer<Given, Tx>>),
    /// What remains of an answer.
    After(EpId, RxId, Box<After<Given, Tx>>),
    /// The next step of a message to a node.
    Send(usize, usize, Box<Sending<World>>),
    Submit(usize),
    Connect,
    Fault,
    Drive(EpId),
    /// The next step of connection work.
    Work(usize),
    PeerTimer(usize),
    /// Address or route is resolved.
    Resolved(Tag, bool),
    CmMsg(usize, CmId, CmMsg),
    CmRepeat(usize, CmId, CmMsg, u8),
}

struct Entry(u64, u64, Ev);

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

pub(super) struct Node {
    pub(super) nid: Nid,
    pub(super) stamp: Stamp,
    /// Its peers of now, by node.
    pub(super) peers: Vec<usize>,
    pub(super) memory: Memory,
    /// LNet messages of this node that have not ended, by node.
    pub(super) active: Vec<u16>,
    pub(super) frozen_until: u64,
    /// It hung, and has not caught up with what came meanwhile.
    pub(super) late_until: u64,
    /// It has no device until then.
    pub(super) gone_until: u64,
    /// Messages sent, to break some.
    pub(super) sent: u64,
}

pub(super) struct World {
    pub(super) prng: Prng,
    /// What is sent, and what breaks, does not depend on how the rest goes.
    pub(super) traffic_prng: Prng,
    pub(super) fault_prng: Prng,
    pub(super) options: Options,
    pub(super) cfg: Config,
    pub(super) now: u64,
    pub(super) seq: u64,
    heap: BinaryHeap<Reverse<Entry>>,
    pub(super) nodes: Vec<Node>,
    pub(super) peers: Vec<PeerBox>,
    pub(super) exchanges: Vec<Exchange>,
    /// Ids of the CM, by tag.
    pub(super) ids: Vec<Id>,
    /// Threads for connection work: of a node, for another.
    pub(super) workers: Vec<Worker>,
    /// The last name of a connection.
    pub(super) names: u64,
    /// Names that are set aside.
    pub(super) reserved: Rc<Cell<u64>>,
    /// Connections that were accepted and are not established.
    pub(super) pending: Rc<Cell<u64>>,
    pub(super) eps: Vec<Ep>,
    pub(super) msgs: Vec<Msg>,
    pub(super) faults: bool,
    pub(super) traffic: bool,
    pub(super) cut_until: u64,
    pub(super) quiet: bool,
    /// Messages of the CM that have not arrived: a node that hung may find old ones.
    pub(super) cm_on_way: u64,
    /// Messages that were to be submitted.
    pub(super) number: u64,
    /// Nothing is broken and nothing broken is left.
    pub(super) calm: bool,
    pub(super) report: Report,
    pub(super) verbose: bool,
}

impl World {
    pub(super) fn new(seed: u64, options: Options) -> Self {
        let mut prng = Prng::new(seed);
        let cfg = Config::new(&mut prng, &options);
        let verbose = options.story;
        if verbose {
            println!("seed {seed}: {cfg:#?}");
        }
        let count = cfg.nodes.len();
        let node = |i: usize| Node {
            nid: Nid::o2ib(0, 0xc0a8_0105 + i as u32),
            stamp: Stamp(0x5_f0a1_b2c3_d4e5 + i as u64),
            peers: vec![usize::MAX; count],
            memory: Memory::default(),
            active: vec![0; count],
            frozen_until: 0,
            late_until: 0,
            gone_until: 0,
            sent: 0,
        };
        Self {
            traffic_prng: Prng::new(prng.next_u64()),
            fault_prng: Prng::new(prng.next_u64()),
            options,
            prng,
            cfg,
            now: 0,
            seq: 0,
            heap: BinaryHeap::new(),
            nodes: (0..count).map(node).collect(),
            peers: Vec::new(),
            exchanges: Vec::new(),
            ids: Vec::new(),
            workers: (0..count * count).map(|_| Worker::default()).collect(),
            names: 0,
            reserved: Rc::default(),
            pending: Rc::default(),
            eps: Vec::new(),
            msgs: Vec::new(),
            faults: true,
            traffic: true,
            cut_until: 0,
            quiet: false,
            cm_on_way: 0,
            number: 0,
            calm: false,
            report: Report::default(),
            verbose,
        }
    }

    pub(super) fn at(&mut self, delay: u64, ev: Ev) {
        self.seq += 1;
        self.heap
            .push(Reverse(Entry(self.now + delay, self.seq, ev)));
    }

    /// Between a tenth and all of `span`, now and then much more.
    pub(super) fn jitter(&mut self, span: u64) -> u64 {
        let scale = if self.faults && self.prng.chance(1, 50) {
            10
        } else {
            1
        };
        self.prng.range(span / 10, span) * scale + 1
    }

    pub(super) fn instant(&self) -> Instant {
        Instant(self.now)
    }

    // --- connections ------------------------------------------------------------------------

    /// A line of the story.
    pub(super) fn say(&self, what: &str) {
        println!("{:>11.3} ms  {what}", self.now as f64 / MS as f64);
    }

    /// A connection, for the story.
    pub(super) fn name(&self, id: EpId) -> String {
        let ep = &self.eps[id];
        let who = if ep.conn.is_c() { ", C driver" } else { "" };
        format!("node {} (to {}, conn {id}{who})", ep.node, ep.other)
    }

    pub(super) fn live(&self, ep: EpId) -> bool {
        !self.eps[ep].gone
    }

    pub(super) fn connect(&mut self) {
        let open = self
            .eps
            .iter()
            .filter(|ep| ep.node == 0 && ep.conn.cause().is_none())
            .count();
        if self.cfg.peers || open >= self.cfg.conns || self.quiet {
            return;
        }
        let active = self.prng.index(2);
        let passive = 1 - active;
        let (a, p) = (self.eps.len(), self.eps.len() + 1);
        let cfg = &self.cfg;
        let depth = cfg.nodes[0].depth.min(cfg.nodes[1].depth);
        let frags = cfg.nodes[0].frags.min(cfg.nodes[1].frags);
        // As after a reject: the active side knows what the passive side takes.
        let Ok(la) = Limits::new(
            &cfg.tunables(active),
            &cfg.caps(active),
            cfg.version,
            Some((depth, frags)),
        ) else {
            panic!("no limits: {cfg:?}");
        };
        let propose = Some((la.queue_depth, la.max_frags));
        let mut lp = Limits::new(
            &cfg.tunables(passive),
            &cfg.caps(passive),
            cfg.version,
            propose,
        )
        .expect("limits");
        // The passive side is short of memory.
        while self.prng.chance(1, 3) {
            match self.cfg.lowered(passive, &lp) {
                Some(lower) if lower.queue_depth >= depth.div_ceil(2) => lp = lower,
                _ => break,
            }
        }
        let stamp = self.nodes[active].stamp;
        let ident = self.ident(active, passive, Stamp::UNKNOWN);
        self.make_ep((active, passive), p, Role::Active, la, ident);
        let ident = self.ident(passive, active, stamp);
        self.make_ep((passive, active), a, Role::Passive, lp, ident);
        for (id, node, other) in [(a, active, passive), (p, passive, active)] {
            self.eps[id].peer_box = self.nodes[node].peers[other];
        }
        self.report.conns += 1;
        self.eps[a].connack = self.connack(p);
        self.eps[p].qp.state = QpState::Rts;
        let ack = self.cfg.latency + self.jitter(self.cfg.latency);
        let rtu = ack + self.jitter(self.cfg.latency * 4);
        self.at(ack, Ev::Cm(a, CmEvent::Established));
        let lost = self.faults && self.prng.chance(1, 4);
        if !lost {
            self.at(rtu, Ev::Cm(p, CmEvent::Established));
        }
        self.drive(a);
        self.drive(p);
    }

    fn ident(&self, node: usize, other: usize, peer_stamp: Stamp) -> Identity {
        Identity {
            peer: self.nodes[other].nid,
            peer_stamp,
            local: self.nodes[node].nid,
            local_stamp: self.nodes[node].stamp,
        }
    }

    pub(super) fn make_ep(
        &mut self,
        (node, other): (usize, usize),
        peer: EpId,
        role: Role,
        limits: Limits,
        ident: Identity,
    ) -> EpId {
        let (tunables, now) = (self.cfg.tunables(node), self.instant());
        let it = &self.cfg.nodes[node];
        let conn = match it.reference {
            false => {
                let Ok(conn) = Conn::new(&mut Heap, role, ident, limits, &tunables, now);
                End::Ours(Box::new(conn))
            }
            true => {
                let (endian, broken) = (it.endian, self.options.broken);
                let setup = Setup {
                    tunables,
                    endian,
                    broken,
                };
                End::C(Box::new(CConn::new(role, ident, limits, setup, now)))
            }
        };
        let mut ep = Ep::new((node, peer), conn, limits, &mut self.nodes[node].memory);
        ep.other = other;
        ep.born = self.now;
        if self.cfg.two_cqs {
            ep.qp.split_cq();
        }
        self.eps.push(ep);
        self.eps.len() - 1
    }

    fn connack(&self, passive: EpId) -> Vec<u8> {
        let ep = &self.eps[passive];
        let encoding = self.cfg.nodes[ep.node].encoding();
        let bytes = connack(ep.conn.identity(), ep.conn.limits(), encoding).expect("CONNACK");
        padded(&bytes, 196)
    }

    pub(super) fn cm(&mut self, id: EpId, event: CmEvent) {
        let now = self.instant();
        let ep = &mut self.eps[id];
        match (event, ep.conn.role()) {
            (CmEvent::Established, Role::Active) => {
                if ep.qp.state == QpState::Init {
                    ep.qp.state = QpState::Rts;
                }
                let ack = ep.connack.clone();
                ep.conn.handle_established(now, Some(Message::parse(&ack)));
            }
            (CmEvent::Established, Role::Passive) => ep.conn.handle_established(now, None),
            (CmEvent::Disconnected, _) => ep.conn.handle_disconnected(now),
            (CmEvent::CommEst, _) => ep.conn.handle_comm_est(now),
        }
        self.drive(id);
    }

    /// Whether a packet from `ep` gets through now.
    pub(super) fn connected(&self) -> bool {
        self.now >= self.cut_until
    }

    // --- the loop -------------------------------------------------------------------------------

    pub(super) fn dispatch(&mut self, ev: Ev) {
        match ev {
            Ev::Step(id) => self.step(id),
            Ev::Arrive {
                to,
                from,
                seq,
                packet,
            } => self.arrive(to, from, seq, packet),
            Ev::Acked(id, seq) => {
                self.eps[id].qp.acked(seq);
                self.drive(id);
            }
            Ev::Failed(id, seq) => {
                self.eps[id].qp.failed(seq, 12);
                self.drive(id);
            }
            Ev::Wake(id) => self.wake(id),
            Ev::Run(id) => self.run_action(id),
            Ev::Timer(id) => self.timer(id),
            Ev::Cm(id, event) => self.cm(id, event),
            Ev::Lnet(id, rx, hdr, kind) => self.lnet(id, rx, hdr, kind),
            Ev::Answer(id, rx, answer) => self.answer(id, rx, *answer),
            Ev::After(id, rx, after) => self.after(id, rx, *after),
            Ev::Send(node, other, sending) => self.send(node, other, *sending),
            Ev::Submit(node) => self.submit_traffic(node),
            Ev::Connect => self.connect(),
            Ev::Fault => self.fault(),
            Ev::Drive(id) => self.drive(id),
            Ev::Work(at) => self.work(at),
            Ev::PeerTimer(at) => self.peer_timer(at),
            Ev::Resolved(tag, route) => self.resolved(tag, route),
            Ev::CmMsg(to, cm, msg) => self.cm_msg(to, cm, msg),
            Ev::CmRepeat(to, cm, msg, tries) => self.repeat(to, cm, msg, tries),
        }
    }

    /// Runs until `until`, or until nothing is left to happen.
    pub(super) fn run_until(&mut self, until: u64) {
        while let Some(Reverse(Entry(at, ..))) = self.heap.peek() {
            if *at > until {
                break;
            }
            let Some(Reverse(Entry(at, _, ev))) = self.heap.pop() else {
                break;
            };
            self.now = at;
            self.report.events += 1;
            assert!(self.report.events < 1_000_000, "the run does not end");
            self.dispatch(ev);
        }
        self.now = until;
    }
}
