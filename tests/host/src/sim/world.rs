// SPDX-License-Identifier: GPL-2.0

//! Nodes, time, traffic and trouble.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::cdriver::{CConn, Setup};
use super::cm::{padded, CmId, CmMsg, Exchange, PeerBox};
use super::config::Config;
use super::end::End;
use super::hca::{base, CqeKind, Memory, MrState, Packet, QpState, Region};
use super::lnet::{check, fill, header, id_of, Kind, Mem, Msg, MsgId, Tx};
use super::node::{Ep, PostFaults};
use super::options::{Broken, Options};
use super::translate::{translate, Manners};
use super::Heap;
use crate::driver::handshake::connack;
use crate::prng::Prng;
use crate::proto::chain::{count_writes, ChainError, Cursor, SrcFrag};
use crate::proto::conn::{Action, Conn, Delivery, Role, Sink, Submit};
use crate::proto::{Cause, Done, Health, Instant, Limits, OpId, Refused, RxId};
use crate::wire::{
    DescLoc, DescView, Endian, Identity, LnetHdr, Message, MsgType, Nid, Stamp, Version, MAX_FRAGS,
    MAX_IMMEDIATE,
};

const MS: u64 = 1_000_000;
/// Fragments of a sink that is cut to pieces, when nothing may be late: hundreds of them through a
/// send queue of ten take longer than some LND timeouts.
const CALM_FRAGS: u16 = 16;
/// What a message may wait for a connection on top of the connect timeout.
const WAIT: u64 = 10_000 * MS;

pub(super) type EpId = usize;

/// The faults, by number.
const FAULTS: [&str; 11] = [
    "connection closed",
    "QP goes to the error state",
    "CM says disconnected",
    "network cut",
    "node hangs",
    "QP never flushes",
    "QP destroyed",
    "QP reported in the error state",
    "NI restarted",
    "node reboots",
    "device vanishes",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CmEvent {
    Established,
    Disconnected,
    CommEst,
}

#[derive(Debug)]
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
    /// The worker has disconnected; the QP is in the error state.
    Disconnected(EpId),
    Destroyed(EpId),
    /// LNet does something with a message it was given.
    Lnet(EpId, RxId, LnetHdr, Option<Option<DescLoc>>),
    Submit(usize),
    Connect,
    Fault,
    Drive(EpId),
    PeerRun(usize),
    PeerTimer(usize),
    /// Address or route is resolved.
    Resolved(CmId, bool),
    Released(CmId),
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
    memory: Memory,
    /// LNet messages of this node that have not ended, by node.
    active: Vec<u16>,
    pub(super) frozen_until: u64,
    /// It hung, and has not caught up with what came meanwhile.
    late_until: u64,
    /// It has no device until then.
    pub(super) gone_until: u64,
    /// Messages sent, to break some.
    sent: u64,
}

/// What a run has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Messages that engines accepted.
    pub accepted: u64,
    /// Those that ended well.
    pub good: u64,
    /// Connections made.
    pub conns: u64,
    /// Connections that ended by the drain's deadline or because sentinels could not be posted.
    pub forced: u64,
    /// Faults injected.
    pub faults: u64,
    /// Messages that arrived before their connection was established.
    pub early: u64,
    /// Chains of WRITEs that did not fit the send queue at once.
    pub split: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Attempts to connect that peers made.
    pub attempts: u64,
    /// Those of them that were retries.
    pub retries: u64,
    /// Connection requests that were rejected because of a race.
    pub races: u64,
    /// Times a peer was found restarted.
    pub stale: u64,
    /// Messages that came back from a connection and were given to another.
    pub came_back: u64,
    /// Nodes.
    pub nodes: u64,
    /// Connections of version 1 that were established.
    pub v1: u64,
    /// Messages that arrived in the other byte order.
    pub swapped: u64,
    /// Nodes that rebooted or lost their device.
    pub reboots: u64,
    /// NOOPs sent.
    pub noops: u64,
    /// Lines that drivers would have logged.
    pub lines: u64,
    /// Connections of our engine with the model of the C driver that were established.
    pub c_conns: u64,
    /// Those of them in version 1.
    pub c_v1: u64,
    /// Messages that our engine and the model got from each other.
    pub c_msgs: u64,
    /// Sinks that the model described by more than one fragment.
    pub c_cut: u64,
    /// Transfers that the model could not do.
    pub c_declined: u64,
    /// NOOPs of the model for no other reason than to be heard of.
    pub c_keepalives: u64,
}

impl std::ops::AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.good += other.good;
        self.conns += other.conns;
        self.forced += other.forced;
        self.faults += other.faults;
        self.early += other.early;
        self.split += other.split;
        self.events += other.events;
        self.attempts += other.attempts;
        self.retries += other.retries;
        self.races += other.races;
        self.stale += other.stale;
        self.came_back += other.came_back;
        self.nodes += other.nodes;
        self.v1 += other.v1;
        self.swapped += other.swapped;
        self.reboots += other.reboots;
        self.noops += other.noops;
        self.lines += other.lines;
        self.c_conns += other.c_conns;
        self.c_v1 += other.c_v1;
        self.c_msgs += other.c_msgs;
        self.c_cut += other.c_cut;
        self.c_declined += other.c_declined;
        self.c_keepalives += other.c_keepalives;
    }
}

pub(super) struct World {
    pub(super) prng: Prng,
    /// What is sent, and what breaks, does not depend on how the rest goes.
    traffic_prng: Prng,
    fault_prng: Prng,
    options: Options,
    pub(super) cfg: Config,
    pub(super) now: u64,
    seq: u64,
    heap: BinaryHeap<Reverse<Entry>>,
    pub(super) nodes: Vec<Node>,
    pub(super) peers: Vec<PeerBox>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) eps: Vec<Ep>,
    msgs: Vec<Msg>,
    pub(super) faults: bool,
    traffic: bool,
    cut_until: u64,
    quiet: bool,
    /// Messages of the CM that have not arrived: a node that hung may find old ones.
    pub(super) cm_on_way: u64,
    /// Messages that were to be submitted.
    number: u64,
    /// Nothing is broken and nothing broken is left.
    calm: bool,
    pub(super) report: Report,
    pub(super) verbose: bool,
}

impl World {
    fn new(seed: u64, options: Options) -> Self {
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

    fn live(&self, ep: EpId) -> bool {
        !self.eps[ep].gone
    }

    fn connect(&mut self) {
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
        self.make_ep((active, passive), p, Role::Active, la, Stamp::UNKNOWN);
        self.make_ep((passive, active), a, Role::Passive, lp, stamp);
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

    pub(super) fn make_ep(
        &mut self,
        (node, other): (usize, usize),
        peer: EpId,
        role: Role,
        limits: Limits,
        peer_stamp: Stamp,
    ) -> EpId {
        let ident = Identity {
            peer: self.nodes[other].nid,
            peer_stamp,
            local: self.nodes[node].nid,
            local_stamp: self.nodes[node].stamp,
        };
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

    pub(super) fn connack(&self, passive: EpId) -> Vec<u8> {
        let ep = &self.eps[passive];
        let encoding = self.cfg.nodes[ep.node].encoding();
        let bytes = connack(ep.conn.identity(), ep.conn.limits(), encoding).expect("CONNACK");
        padded(&bytes, 196)
    }

    fn cm(&mut self, id: EpId, event: CmEvent) {
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

    // --- the driver ---------------------------------------------------------------------------

    /// Pieces that the C driver describes a sink by at most.
    fn frags(&self) -> u16 {
        match self.calm {
            true => CALM_FRAGS,
            false => MAX_FRAGS,
        }
    }

    /// What the driver does under the lock after every input: post, collect, set the timer.
    pub(super) fn drive(&mut self, id: EpId) {
        let now = self.instant();
        let one_in = if self.faults { self.cfg.post_fault } else { 0 };
        let frags = self.frags();
        let ep = &mut self.eps[id];
        let mut faults = PostFaults {
            prng: &mut self.prng,
            one_in,
            frags,
        };
        let sent = ep.post_all(now, &mut self.nodes[ep.node].memory, &mut faults);
        while let Some(action) = ep.conn.poll_action() {
            ep.actions.push_back(action);
        }
        if let End::C(conn) = &mut ep.conn {
            while let Some(msg) = conn.poll_unplanned() {
                self.report.c_declined += 1;
                self.msgs[msg].declined = true;
                self.msgs[msg].must = false;
            }
        }
        check_snapshot(ep);
        let run = !ep.running && !ep.actions.is_empty();
        ep.running |= run;
        let step = sent && !ep.stepping && ep.qp.can_start();
        ep.stepping |= step;
        let wake = !ep.waking && !ep.qp.cq_empty();
        ep.waking |= wake;
        let timer = ep.conn.poll_timeout();
        let arm = timer.filter(|&t| ep.timer.is_none_or(|armed| t < armed));
        if let Some(t) = arm {
            ep.timer = Some(t);
            self.at(t.0.saturating_sub(now.0), Ev::Timer(id));
        }
        if run {
            let delay = self.jitter(self.cfg.action_delay);
            self.at(delay, Ev::Run(id));
        }
        if step {
            self.at(self.cfg.latency / 10 + 1, Ev::Step(id));
        }
        if wake {
            self.wake_later(id);
        }
        self.reap(id);
    }

    /// A command leaves the posting to whoever has the connection next, now and then: so requests
    /// come together in bursts.
    pub(super) fn drive_lazily(&mut self, id: EpId) {
        if self.prng.chance(1, 2) {
            return self.drive(id);
        }
        let delay = self.jitter(self.cfg.cq_delay + self.cfg.latency);
        self.at(delay, Ev::Drive(id));
    }

    fn wake_later(&mut self, id: EpId) {
        let delay = self.jitter(self.cfg.cq_delay);
        let frozen = self.nodes[self.eps[id].node].frozen_until;
        self.at(delay.max(frozen.saturating_sub(self.now)), Ev::Wake(id));
    }

    fn wake(&mut self, id: EpId) {
        let now = self.instant();
        self.eps[id].waking = false;
        for _ in 0..self.prng.range(1, 16) {
            let recv_first = self.prng.chance(1, 2);
            let ep = &mut self.eps[id];
            let Some(cqe) = ep.qp.poll(recv_first) else {
                break;
            };
            ep.lines += u32::from(matches!(cqe.kind, CqeKind::Error(_)));
            let message = cqe.recv && cqe.kind == CqeKind::Success;
            self.report.swapped += u64::from(ep.completed(now, cqe));
            self.report.early += u64::from(message && ep.conn.look().rx_early > 0);
            if self.prng.chance(1, 2) {
                self.drive(id);
            }
        }
        self.drive(id);
        let ep = &mut self.eps[id];
        if !ep.waking && !ep.qp.cq_empty() {
            ep.waking = true;
            self.wake_later(id);
        }
    }

    fn run_action(&mut self, id: EpId) {
        let frozen = self.nodes[self.eps[id].node].frozen_until;
        if frozen > self.now {
            return self.at(frozen - self.now, Ev::Run(id));
        }
        self.eps[id].running = false;
        if let Some(action) = self.eps[id].actions.pop_front() {
            if self.verbose {
                self.say(&format!("{}: {}", self.name(id), brief(&action)));
            }
            self.act(id, action);
        }
        self.drive(id);
        let ep = &mut self.eps[id];
        if !ep.running && !ep.actions.is_empty() {
            ep.running = true;
            let delay = self.jitter(self.cfg.action_delay);
            self.at(delay, Ev::Run(id));
        }
    }

    fn act(&mut self, id: EpId, action: Action<Tx>) {
        match action {
            Action::Established(info) => {
                assert_eq!(info.version, self.eps[id].limits.version);
                assert!(info.queue_depth >= 1);
                self.eps[id].spoke = self.now;
                let v1 = info.version == Version::V1;
                self.report.v1 += u64::from(v1);
                let mixed = self.is_mixed(id) && self.eps[id].conn.is_c();
                self.report.c_conns += u64::from(mixed);
                self.report.c_v1 += u64::from(mixed && v1);
                if self.cfg.peers {
                    self.conn_established(id, &info);
                }
            }
            Action::NotifyEstablished => {
                let delay = self.jitter(self.cfg.latency);
                self.at(delay, Ev::Cm(id, CmEvent::Established));
            }
            Action::Deliver { rx, hdr, kind } => self.deliver(id, rx, hdr, kind),
            Action::Plan {
                op,
                rx,
                desc,
                total,
                ..
            } => self.plan(id, op, rx, desc, total),
            Action::Finish { tx, done } => {
                self.finish(self.eps[id].node, Some(id), tx, done, false);
            }
            Action::FinishAfterDrain { tx, done } => {
                self.finish(self.eps[id].node, Some(id), tx, done, true);
            }
            Action::Closed {
                cause,
                alive,
                established,
            } => {
                let logged = established && cause.errno() != 0;
                self.eps[id].lines += u32::from(logged);
                self.closed(id, cause);
                if self.cfg.peers {
                    self.conn_closed(id, cause, alive);
                }
            }
            Action::Disconnect { .. } => {
                let delay = self.jitter(self.cfg.action_delay * 3);
                self.at(delay, Ev::Disconnected(id));
            }
            Action::DestroyQp => {
                let delay = self.jitter(self.cfg.action_delay * 3);
                self.at(delay, Ev::Destroyed(id));
            }
            Action::Drained { forced } => {
                let ep = &mut self.eps[id];
                assert!(forced || ep.qp.idle(), "drained with requests on the QP");
                assert!(ep
                    .actions
                    .iter()
                    .all(|a| matches!(a, Action::Deliver { .. })));
                self.report.forced += u64::from(forced);
                ep.drained = true;
                ep.qp.destroy();
            }
        }
    }

    /// Whether our engine is at one end of a connection and the model of the C driver at the other.
    fn is_mixed(&self, id: EpId) -> bool {
        let ep = &self.eps[id];
        self.cfg.nodes[ep.node].reference != self.cfg.nodes[ep.other].reference
    }

    /// Ends that keep to the protocol must not accuse each other.
    fn closed(&mut self, id: EpId, cause: Cause) {
        if self.verbose {
            self.say(&format!("{} closed: {cause:?}", self.name(id)));
        }
        match cause {
            Cause::BadMessage(_)
            | Cause::Protocol(_)
            | Cause::Stale(_)
            | Cause::BadCompletion
            | Cause::BadInput
            | Cause::TooMany => panic!("ep {id} closed: {cause:?}"),
            _ => {}
        }
        let late = matches!(
            cause,
            Cause::Timeout | Cause::Flushed | Cause::SendFailed(_)
        );
        assert!(!(late && self.calm), "ep {id} closed: {cause:?}");
        let delay = self.jitter(self.cfg.action_delay * 10);
        self.at(delay, Ev::Connect);
    }

    fn disconnected(&mut self, id: EpId) {
        let now = self.instant();
        let peer = self.eps[id].peer;
        if self.cfg.peers {
            self.bye(id);
        } else if self.connected() {
            let delay = self.jitter(self.cfg.latency);
            self.at(delay, Ev::Cm(peer, CmEvent::Disconnected));
        }
        let ep = &mut self.eps[id];
        ep.qp.fail_all();
        ep.conn.handle_qp_error_state(now);
        self.drive(id);
    }

    fn destroyed(&mut self, id: EpId) {
        let now = self.instant();
        self.eps[id].qp.destroy();
        self.eps[id].conn.handle_qp_destroyed(now);
        self.drive(id);
    }

    fn timer(&mut self, id: EpId) {
        let now = self.instant();
        let frozen = self.nodes[self.eps[id].node].frozen_until;
        if frozen > self.now {
            return self.at(frozen - self.now, Ev::Timer(id));
        }
        self.eps[id].timer = None;
        self.eps[id].conn.handle_timeout(now);
        self.drive(id);
        let due = self.eps[id].conn.poll_timeout();
        assert!(
            due.is_none_or(|t| t > now),
            "a timer that has gone off is still due"
        );
    }

    /// Frees what belongs to a connection once nothing refers to it.
    fn reap(&mut self, id: EpId) {
        let ep = &mut self.eps[id];
        let idle = ep.actions.is_empty() && !ep.running && ep.lnet_pending == 0;
        if ep.gone || !ep.drained || !idle || !ep.conn.is_released() {
            return;
        }
        let left = ep.conn.look();
        assert_eq!(
            (left.ops, left.rx_held, left.rx_posted, left.sq_used),
            (0, 0, 0, 0),
            "something is left: {left:?}"
        );
        ep.gone = true;
        for slot in std::mem::take(&mut ep.slots) {
            self.nodes[ep.node].memory.free(slot);
        }
        if self.cfg.peers {
            self.conn_gone(id);
        }
    }

    // --- the device ---------------------------------------------------------------------------

    fn step(&mut self, id: EpId) {
        let ep = &mut self.eps[id];
        ep.stepping = false;
        let peer = ep.peer;
        let started = ep.qp.start(&mut self.nodes[ep.node].memory);
        if let Some((seq, Some(packet))) = started {
            let packet = self.as_sent(id, packet);
            // Nothing overtakes a packet that is lost.
            let lost = self.eps[id].cut || !self.connected();
            self.eps[id].cut = lost;
            if !lost {
                let arrival = self.now + self.cfg.latency + self.jitter(self.cfg.latency);
                let arrival = arrival.max(self.eps[id].last_arrival + 1);
                self.eps[id].last_arrival = arrival;
                let ev = Ev::Arrive {
                    to: peer,
                    from: id,
                    seq,
                    packet,
                };
                self.at(arrival - self.now, ev);
            } else {
                let retries = self.prng.range(1, 2 * self.cfg.timeout.0);
                self.at(retries, Ev::Failed(id, seq));
            }
        }
        if self.eps[id].qp.can_start() {
            self.eps[id].stepping = true;
            self.at(self.cfg.latency / 10 + 1, Ev::Step(id));
        }
        self.drive(id);
    }

    /// What the node makes of what is sent from its end.
    fn as_sent(&mut self, id: EpId, packet: Packet) -> Packet {
        let ep = &self.eps[id];
        let node = ep.node;
        let it = &self.cfg.nodes[node];
        self.nodes[node].sent += 1;
        let nth = self.nodes[node].sent % 11 == 0 && node == 0;
        let bytes = match packet {
            Packet::Send(bytes) => bytes,
            Packet::Write {
                rkey,
                remote,
                mut bytes,
            } => {
                if nth && self.options.broken == Some(Broken::WrongData) {
                    bytes[0] ^= 1;
                }
                return Packet::Write {
                    rkey,
                    remote,
                    bytes,
                };
            }
        };
        let manners = Manners {
            // The model of the C driver has it from the start.
            endian: match ep.conn {
                End::Ours(_) => it.endian,
                End::C(_) => Endian::NATIVE,
            },
            cksum: it.cksum,
            credits_added: match self.options.broken {
                Some(Broken::CreditTooMany) if nth => 1,
                Some(Broken::CreditLost) if nth => -1,
                _ => 0,
            },
        };
        let bytes = match manners.is_plain() {
            true => bytes,
            false => translate(&bytes, &manners),
        };
        if self.verbose {
            let msg = Message::parse(&bytes).map(|msg| (msg.kind(), msg.hdr.credits));
            self.say(&format!("{} sends {msg:?}", self.name(id)));
        }
        self.audit(id, &bytes);
        Packet::Send(bytes)
    }

    /// What is on the wire adds up, whatever the two ends count: no message without a credit, of
    /// which version 1 keeps the last for a NOOP; no credit that no message has used.
    fn audit(&mut self, id: EpId, bytes: &[u8]) {
        let version = self.eps[id].limits.version;
        let (kind, credits) = (MsgType::from_wire(bytes[6]), bytes[7]);
        self.note(id, kind, bytes.len(), credits);
        let v1 = version == Version::V1;
        let (uses, kept) = match kind {
            Some(MsgType::Immediate | MsgType::PutReq | MsgType::GetReq) => (true, v1),
            Some(MsgType::Noop) => (v1, false),
            _ => (false, false),
        };
        let ep = &mut self.eps[id];
        ep.spoke = self.now;
        ep.used += u64::from(uses);
        ep.given += u64::from(credits);
        let (used, given) = (ep.used, ep.given);
        let depth = u64::from(ep.conn.look().queue_depth);
        let there = &self.eps[self.eps[id].peer];
        let may_use = depth - u64::from(kept) + there.given;
        assert!(used <= may_use, "ep {id}: no credit");
        assert!(given <= there.used, "ep {id} gives a credit too many");
    }

    /// What the model of the C driver sends that is worth being counted.
    fn note(&mut self, id: EpId, kind: Option<MsgType>, len: usize, credits: u8) {
        let End::C(conn) = &self.eps[id].conn else {
            return;
        };
        match kind {
            // Longer than with one fragment.
            Some(MsgType::PutAck) => self.report.c_cut += u64::from(len > 84),
            Some(MsgType::GetReq) => self.report.c_cut += u64::from(len > 148),
            Some(MsgType::Noop) => {
                let idle = u16::from(credits) < conn.look().hiw;
                self.report.c_keepalives += u64::from(idle);
            }
            _ => {}
        }
    }

    fn arrive(&mut self, to: EpId, from: EpId, seq: u64, packet: Packet) {
        let ep = &mut self.eps[to];
        let there = matches!(ep.qp.state, QpState::Init | QpState::Rts);
        // A closed connection may have failed to post its receives; a node that does nothing for
        // several keepalive intervals runs out of them until it has seen to them.
        let late = self.nodes[ep.node].late_until > self.now;
        let excused = ep.conn.cause().is_some() || late;
        if !there || (excused && ep.qp.rq_empty()) {
            let retries = self.prng.range(1, self.cfg.timeout.0 / 2);
            return self.at(retries, Ev::Failed(from, seq));
        }
        match packet {
            Packet::Write {
                rkey,
                remote,
                bytes,
            } => {
                let memory = &mut self.nodes[ep.node].memory;
                memory.remote_write(rkey, remote, &bytes);
            }
            Packet::Send(bytes) => {
                if self.verbose {
                    let kind = Message::parse(&bytes).map(|msg| (msg.kind(), msg.hdr.credits));
                    self.say(&format!("{} gets {kind:?}", self.name(to)));
                }
                let ep = &mut self.eps[to];
                let (wr, rx) = ep.qp.take_recv().expect("QP takes messages");
                ep.rx_bufs[usize::from(rx)][..bytes.len()].copy_from_slice(&bytes);
                ep.qp.received(wr, bytes.len());
            }
        }
        let first = self.eps[to].conn.look().state == 2 && self.prng.chance(1, 2);
        if first {
            self.at(1, Ev::Cm(to, CmEvent::CommEst));
        }
        self.drive(to);
        let lost = self.faults && self.prng.chance(1, 3000);
        let delay = self.cfg.latency + self.jitter(self.cfg.latency);
        let ev = match lost {
            true => Ev::Failed(from, seq),
            false => Ev::Acked(from, seq),
        };
        self.at(delay, ev);
    }

    // --- LNet ---------------------------------------------------------------------------------

    fn submit_traffic(&mut self, node: usize) {
        if self.traffic {
            let gap = self.jitter(self.cfg.submit_gap);
            self.at(gap, Ev::Submit(node));
            self.submit(node, false);
        }
    }

    /// Submits one message, if there is a connection and LNet has a credit.
    fn submit(&mut self, node: usize, must: bool) -> bool {
        let count = self.nodes.len();
        let other = (node + 1 + self.traffic_prng.index(count - 1)) % count;
        let kind = [Kind::Immediate, Kind::Put, Kind::Get][self.traffic_prng.index(3)];
        let len = self.length(kind);
        self.number += 1;
        if !must && self.options.skip_msgs.contains(&self.number) {
            return false;
        }
        let usable: Vec<EpId> = (0..self.eps.len())
            .filter(|&i| self.eps[i].node == node && self.eps[i].conn.is_established())
            .collect();
        let ready = self.cfg.peers || !usable.is_empty();
        if !ready || self.nodes[node].active[other] >= self.cfg.nodes[node].depth {
            return false;
        }
        let msg = self.msgs.len();
        if self.verbose {
            self.say(&format!(
                "node {node} submits {kind:?} {msg} of {len} bytes to node {other} (m{})",
                self.number
            ));
        }
        let hdr = header(msg, kind, len, self.nodes[node].nid, self.nodes[other].nid);
        let (mem, what) = self.prepare(node, msg, kind, len, hdr);
        let now = self.instant();
        let tx = Tx::new(msg, true, mem, now, Some(what));
        self.msgs.push(Msg {
            kind,
            len,
            to: other,
            done: None,
            delivered: 0,
            sink: None,
            declined: false,
            must,
        });
        self.report.accepted += 1;
        self.nodes[node].active[other] += 1;
        if self.cfg.peers {
            self.peer_submit(node, other, tx);
            return true;
        }
        let id = usable[self.prng.index(usable.len())];
        if let Some(refused) = self.eps[id].conn.submit(now, tx, what) {
            panic!("refused: {:?}", refused.cause);
        }
        self.drive_lazily(id);
        true
    }

    fn length(&mut self, kind: Kind) -> u32 {
        let prng = &mut self.traffic_prng;
        let (immediate, extreme) = (MAX_IMMEDIATE as u64, prng.chance(1, 4));
        let len = match (kind, extreme) {
            (Kind::Immediate, true) => [0, 1, immediate][prng.index(3)],
            (Kind::Immediate, false) => prng.range(0, immediate),
            (Kind::Put | Kind::Get, true) => immediate + 1,
            (Kind::Put | Kind::Get, false) => prng.range(1, u64::from(self.cfg.max_len)),
        };
        len as u32
    }

    fn prepare(
        &mut self,
        node: usize,
        msg: MsgId,
        kind: Kind,
        len: u32,
        hdr: LnetHdr,
    ) -> (Mem, Submit) {
        match kind {
            Kind::Immediate => {
                let payload = len as u16;
                let mem = match len {
                    0 => Mem::None,
                    _ => Mem::Payload(self.nodes[node].memory.alloc(fill(msg, 0..len as usize))),
                };
                (mem, Submit::Immediate { hdr, payload })
            }
            Kind::Put => {
                let mem = self.source(node, msg, len, len);
                (mem, Submit::Put { hdr, len })
            }
            Kind::Get => {
                let (mem, sink) = self.sink(node, len);
                (mem, Submit::Get { hdr, sink })
            }
        }
    }

    /// A mapped source of `len` bytes in pieces, of which `total` are to be sent.
    fn source(&mut self, node: usize, msg: MsgId, len: u32, total: u32) -> Mem {
        let pieces = self.prng.range(1, 8) as u32;
        let mut regions = Vec::new();
        let mut frags = Vec::new();
        let mut at = 0;
        while at < len {
            let n = match self.prng.range(1, u64::from(len / pieces + 1)) as u32 {
                n if frags.len() > 20 => n.max(len - at),
                n => n,
            }
            .min(len - at);
            let bytes = fill(msg, at as usize..(at + n) as usize);
            let region = self.nodes[node].memory.alloc(bytes);
            regions.push(region);
            frags.push(SrcFrag {
                addr: base(region),
                len: n,
            });
            at += n;
        }
        Mem::Source {
            regions,
            frags,
            cursor: Cursor::new(total),
        }
    }

    fn sink(&mut self, node: usize, len: u32) -> (Mem, Sink) {
        let memory = &mut self.nodes[node].memory;
        let region = memory.alloc(vec![0xaa; len as usize]);
        let key = memory.map(region, len);
        let sink = Sink {
            key,
            addr: base(region),
            nob: len,
        };
        (Mem::Sink { key, region }, sink)
    }

    fn deliver(&mut self, id: EpId, rx: RxId, hdr: LnetHdr, kind: Delivery) {
        let msg = id_of(&hdr);
        self.msgs[msg].delivered += 1;
        assert_eq!(self.msgs[msg].delivered, 1, "message {msg} came twice");
        let what = match kind {
            Delivery::Immediate => None,
            Delivery::PutReq => Some(None),
            Delivery::GetReq { desc } => Some(Some(desc)),
        };
        self.eps[id].lnet_pending += 1;
        let delay = match self.prng.index(3) {
            0 => 0,
            _ => self.jitter(self.cfg.lnet_delay),
        };
        self.at(delay, Ev::Lnet(id, rx, hdr, what));
    }

    fn lnet(&mut self, id: EpId, rx: RxId, hdr: LnetHdr, what: Option<Option<DescLoc>>) {
        let now = self.instant();
        self.eps[id].lnet_pending -= 1;
        let msg = id_of(&hdr);
        let may = !self.msgs[msg].must;
        if self.faults && self.prng.chance(1, 2000) {
            self.eps[id].conn.rx_refused(now, rx, -71);
            return self.drive(id);
        }
        match what {
            None => {
                let buf = &self.eps[id].rx_bufs[usize::from(rx.0)];
                let len = hdr.payload_len as usize;
                check(msg, &buf[120..120 + len], "IMMEDIATE");
                let lost = self.options.broken == Some(Broken::BufferLost);
                if !(lost && msg % 5 == 4 && self.eps[id].node == 0) {
                    self.eps[id].conn.rx_done(now, rx);
                }
            }
            Some(None) if may && self.prng.chance(1, 8) => {
                self.msgs[msg].declined = true;
                let status = if self.prng.chance(1, 2) { 0 } else { -12 };
                self.eps[id].conn.put_nak(now, rx, status);
            }
            Some(None) => self.take_put(id, rx, msg, may),
            Some(Some(_)) if may && self.prng.chance(1, 8) => {
                self.msgs[msg].declined = true;
                let status = if self.prng.chance(1, 2) { 0 } else { -61 };
                self.eps[id].conn.get_done(now, rx, status);
            }
            Some(Some(desc)) => self.serve_get(id, rx, msg, desc, may),
        }
        self.drive_lazily(id);
    }

    fn take_put(&mut self, id: EpId, rx: RxId, msg: MsgId, may: bool) {
        let now = self.instant();
        let node = self.eps[id].node;
        let len = self.msgs[msg].len;
        let want = match self.prng.index(4) {
            0 => self.prng.range(1, u64::from(len)) as u32,
            1 if may && self.prng.chance(1, 4) => len + 1,
            _ => len,
        };
        self.msgs[msg].declined |= want > len;
        let (mem, sink) = self.sink(node, want);
        let tx = Tx::new(msg, false, mem, now, None);
        if let Some(refused) = self.eps[id].conn.put_sink(now, rx, tx, sink) {
            self.discard(node, refused.tx);
        }
    }

    fn serve_get(&mut self, id: EpId, rx: RxId, msg: MsgId, desc: DescLoc, may: bool) {
        let now = self.instant();
        let node = self.eps[id].node;
        let len = self.msgs[msg].len;
        let reply = match self.prng.index(4) {
            0 => self.prng.range(1, u64::from(len)) as u32,
            _ => len,
        };
        let have = match may && self.prng.chance(1, 20) {
            true => reply / 2 + 1,
            false => reply,
        };
        let mem = self.source(node, msg, have, reply);
        let silent = self.faults && self.prng.chance(1, 2);
        let ep = &mut self.eps[id];
        let view = desc.view(&ep.rx_bufs[usize::from(rx.0)]);
        let view = view.expect("descriptor");
        let refused = match &mut ep.conn {
            End::Ours(conn) => {
                let writes = count(&mem, &view, reply, conn.limits());
                self.msgs[msg].declined |= writes.is_err();
                self.msgs[msg].must &= writes.is_ok();
                let tx = Tx::new(msg, false, mem, now, None);
                conn.get_source(now, rx, tx, reply, writes).err()
            }
            End::C(conn) => {
                let tx = Tx::new(msg, false, mem, now, None);
                conn.get_source(now, rx, tx, reply, (&view, silent))
            }
        };
        if let Some(Refused { tx, .. }) = refused {
            self.discard(node, tx);
        }
    }

    fn plan(&mut self, id: EpId, op: OpId, rx: RxId, desc: DescLoc, total: u32) {
        let now = self.instant();
        let ep = &mut self.eps[id];
        let conn = ep.conn.ours_mut();
        let limits = *conn.limits();
        let view = desc.view(&ep.rx_bufs[usize::from(rx.0)]);
        let view = view.expect("descriptor");
        let Some(tx) = conn.tx_mut(op) else {
            return;
        };
        let msg = tx.msg;
        let writes = count(&tx.mem, &view, total, &limits);
        if let Mem::Source { cursor, .. } = &mut tx.mem {
            *cursor = Cursor::new(total);
        }
        if writes.is_ok_and(|n| u32::from(n) > limits.sq_wrs - 1) {
            self.report.split += 1;
        }
        self.msgs[msg].declined |= writes.is_err();
        self.msgs[msg].must &= writes.is_ok();
        conn.put_planned(now, op, writes);
    }

    /// A transmission that the engine did not take.
    fn discard(&mut self, node: usize, tx: Tx) {
        let (_, _, mem, _) = tx.end();
        self.release(node, mem, false);
    }

    pub(super) fn finish(
        &mut self,
        node: usize,
        id: Option<EpId>,
        tx: Tx,
        done: Done,
        drained: bool,
    ) {
        if let Some(id) = id.filter(|_| drained) {
            let qp = &self.eps[id].qp;
            let dead = matches!(qp.state, QpState::Err | QpState::Destroyed);
            assert!(dead && qp.sq_empty(), "finished before it is drained");
        }
        let (msg, origin, mem, since) = tx.end();
        if let Some(id) = id.filter(|_| drained) {
            let exposed = match &mem {
                Mem::Sink { key, .. } => self.nodes[node].memory.mrs[key].posted,
                Mem::None | Mem::Payload(_) | Mem::Source { .. } => false,
            };
            let late = exposed || self.eps[id].post_failed;
            assert!(late, "message {msg} had no reason to wait for the drain");
        }
        self.check_time(msg, since);
        if done.status == 0 {
            self.check_data(node, msg, origin, &mem, done);
        }
        let must = self.msgs[msg].must;
        assert!(
            !must || done.status == 0,
            "message {msg} failed though nothing was broken: {done:?}"
        );
        assert!(
            done.status != 0 || done.health == Health::Ok,
            "health of a success"
        );
        if origin {
            assert!(self.msgs[msg].done.is_none(), "message {msg} ended twice");
            self.msgs[msg].done = Some(done);
            let to = self.msgs[msg].to;
            self.nodes[node].active[to] -= 1;
            self.report.good += u64::from(done.status == 0);
        } else if self.msgs[msg].kind == Kind::Put {
            assert!(self.msgs[msg].sink.is_none(), "sink of {msg} ended twice");
            self.msgs[msg].sink = Some(done);
        }
        for region in regions(&mem) {
            let used = self
                .eps
                .iter()
                .any(|ep| ep.node == node && ep.qp.uses(region));
            assert!(
                !used,
                "message {msg} ended while the device uses its memory"
            );
        }
        // The C driver makes a key invalid only when it is used again.
        let lax = id.is_some_and(|id| self.eps[id].conn.is_c());
        self.release(node, mem, drained || lax);
    }

    /// Twice the timeout for the exchange, once for the drain, and slack for the driver, which is
    /// late by what the run allows it.
    fn check_time(&self, msg: MsgId, since: Instant) {
        let slack = 200 * (self.cfg.action_delay + self.cfg.cq_delay + self.cfg.lnet_delay);
        let wait = if self.cfg.peers { WAIT } else { 0 };
        let bound = 5 * self.cfg.timeout.0 + slack * 100 + wait;
        let took = self.now - since.0;
        assert!(took <= bound, "message {msg} took {took} of {bound} ns");
    }

    fn check_data(&mut self, node: usize, msg: MsgId, origin: bool, mem: &Mem, done: Done) {
        let memory = &self.nodes[node].memory;
        match (mem, origin) {
            (Mem::Sink { region, .. }, true) => {
                let len = done.reply_len.expect("length of a reply") as usize;
                check(msg, &memory.slice(*region)[..len], "GET");
            }
            (Mem::Sink { region, .. }, false) => check(msg, memory.slice(*region), "PUT"),
            (Mem::Source { cursor, .. }, _) => {
                let all = cursor.rest() == 0 || self.msgs[msg].declined;
                assert!(all, "message {msg}: not everything was written");
            }
            (Mem::Payload(_) | Mem::None, _) => {}
        }
    }

    /// From now on a WRITE to it is found out. `lax`: its key need not be invalid.
    fn release(&mut self, node: usize, mem: Mem, lax: bool) {
        let memory = &mut self.nodes[node].memory;
        if let Mem::Sink { key, .. } = mem {
            let mr = memory.mrs.remove(&key).expect("MR is released twice");
            assert!(
                lax || mr.state != MrState::Valid,
                "MR is released while its key is valid"
            );
        }
        for region in regions(&mem) {
            memory.free(region);
        }
    }

    // --- trouble --------------------------------------------------------------------------------

    fn fault(&mut self) {
        if !self.faults {
            return;
        }
        let gap = self.jitter(self.cfg.fault_gap);
        self.at(gap, Ev::Fault);
        let open: Vec<EpId> = (0..self.eps.len())
            .filter(|&i| self.eps[i].conn.cause().is_none())
            .collect();
        let kind = self.fault_prng.index(if self.cfg.peers { 11 } else { 8 });
        let which = self.fault_prng.next_u64() as usize;
        let timeout = self.cfg.timeout.0;
        let span = self.fault_prng.range(1, 3 * timeout / 2);
        let number = self.report.faults;
        self.report.faults += 1;
        if open.is_empty() || self.options.skip_faults.contains(&number) {
            return;
        }
        let id = open[which % open.len()];
        let node = which % self.nodes.len();
        if self.verbose {
            let victim = match kind {
                0..=2 | 5..=7 => self.name(id),
                _ => format!("node {node}"),
            };
            self.say(&format!("FAULT f{number}: {} ({victim})", FAULTS[kind]));
        }
        let now = self.instant();
        match kind {
            0 => self.eps[id].conn.close(now, Cause::Deleted),
            1 => self.eps[id].qp.fail_all(),
            2 => self.eps[id].conn.handle_disconnected(now),
            3 => self.cut_until = self.now + span,
            4 => {
                // What was put off until then does not come earlier when it hangs once more.
                let slack = self.catch_up();
                let node = &mut self.nodes[node];
                node.frozen_until = node.frozen_until.max(self.now + span);
                node.late_until = node.frozen_until + slack;
            }
            5 => {
                self.eps[id].qp.hung = true;
                self.eps[id].conn.close(now, Cause::DeviceGone);
            }
            6 => {
                self.eps[id].qp.destroy();
                self.eps[id].conn.handle_qp_destroyed(now);
            }
            7 => self.eps[id].conn.handle_qp_error_state(now),
            8 => self.restart(node),
            9 => self.reboot(node),
            _ => self.lose_device(node, span / 4),
        }
        self.drive(id);
    }

    /// The time in which a node that hung sees to what has come meanwhile.
    fn catch_up(&self) -> u64 {
        let cfg = &self.cfg;
        100 * (cfg.latency + cfg.cq_delay + cfg.action_delay)
    }

    // --- the loop -------------------------------------------------------------------------------

    fn dispatch(&mut self, ev: Ev) {
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
            Ev::Disconnected(id) => self.disconnected(id),
            Ev::Destroyed(id) => self.destroyed(id),
            Ev::Lnet(id, rx, hdr, what) => self.lnet(id, rx, hdr, what),
            Ev::Submit(node) => self.submit_traffic(node),
            Ev::Connect => self.connect(),
            Ev::Fault => self.fault(),
            Ev::Drive(id) => self.drive(id),
            Ev::PeerRun(at) => self.peer_run(at),
            Ev::PeerTimer(at) => self.peer_timer(at),
            Ev::Resolved(cm, route) => self.resolved(cm, route),
            Ev::Released(cm) => self.released(cm),
            Ev::CmMsg(to, cm, msg) => self.cm_msg(to, cm, msg),
            Ev::CmRepeat(to, cm, msg, tries) => self.repeat(to, cm, msg, tries),
        }
    }

    /// Runs until `until`, or until nothing is left to happen.
    fn run_until(&mut self, until: u64) {
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

    /// Runs until everything has settled, or for `bound`: keepalives go on for ever.
    fn settle(&mut self, bound: u64) {
        let until = self.now + bound;
        let grain = self.cfg.latency + self.cfg.cq_delay + self.cfg.action_delay;
        while self.now < until && !self.settled() {
            let slice = (bound / 500).max(20 * grain);
            self.run_until((self.now + slice).min(until));
        }
    }

    /// Nothing is under way but keepalives.
    fn settled(&self) -> bool {
        let still = |ep: &Ep| {
            let s = ep.conn.look();
            let polled = ep.qp.sq_empty() && ep.qp.cq_empty();
            let open = s.rx_held + s.rx_to_post + s.ops == 0 && polled;
            ep.gone || (ep.conn.is_established() && open && ep.lnet_pending == 0 && !ep.running)
        };
        let calm = |it: &PeerBox| {
            let s = it.peer.snapshot();
            let busy = s.connecting + s.reconnecting + s.dying + s.accepting + s.waiting;
            it.peer.is_idle() || busy == 0
        };
        self.cm_on_way == 0
            && self.msgs.iter().all(|m| m.done.is_some())
            && self.eps.iter().all(still)
            && self.peers.iter().all(calm)
    }

    /// Things break.
    fn safety(&mut self) {
        if self.cfg.peers {
            for node in 0..self.nodes.len() {
                self.make_peers(node);
            }
        }
        self.at(1, Ev::Connect);
        for node in 0..self.nodes.len() {
            self.at(2 + node as u64, Ev::Submit(node));
        }
        let gap = self.jitter(self.cfg.fault_gap);
        self.at(gap, Ev::Fault);
        self.run_until(self.cfg.safety);
    }

    /// Nothing breaks any more.
    fn liveness(&mut self) {
        self.faults = false;
        self.traffic = false;
        self.cut_until = 0;
        for node in &mut self.nodes {
            node.gone_until = 0;
        }
        // What a node that hangs has put off comes at the end of that.
        let awake = self.nodes.iter().map(|node| node.frozen_until).max();
        self.run_until(self.now.max(awake.unwrap_or(0)));
        let wait = if self.cfg.peers { 2 * WAIT } else { 0 };
        let bound = 6 * self.cfg.timeout.0 + 1000 * (self.cfg.cq_delay + self.cfg.action_delay);
        self.settle(bound + wait);
        for (msg, m) in self.msgs.iter().enumerate() {
            assert!(m.done.is_some(), "message {msg} never ends: {m:?}");
        }
        for id in 0..self.eps.len() {
            assert!(
                !self.live(id) || self.eps[id].conn.is_established(),
                "ep {id} is stuck: {:?}",
                self.eps[id].conn.look()
            );
        }
        self.close_half_open();
        self.at(1, Ev::Connect);
        self.at(2, Ev::Connect);
        self.run_until(self.now + self.cfg.timeout.0 / 2);
        let first = self.msgs.len();
        self.calm = true;
        self.must_traffic();
        self.calm = false;
        for m in self.msgs[first..].iter().filter(|m| m.must) {
            assert_eq!(m.done.map(|d| d.status), Some(0), "{m:?}");
            assert_eq!(m.delivered, 1, "{m:?}");
            let put = m.kind == Kind::Put;
            assert!(!put || m.sink.is_some_and(|d| d.status == 0), "{m:?}");
        }
        self.check_credits();
        self.check_keepalives();
    }

    /// The other side may have died unnoticed: only the next message would tell.
    fn close_half_open(&mut self) {
        let now = self.instant();
        for id in 0..self.eps.len() {
            let peer = self.eps.get(self.eps[id].peer);
            let dead = peer.is_some_and(|peer| !peer.conn.is_established());
            if dead && self.eps[id].conn.is_established() {
                self.eps[id].conn.close(now, Cause::Deleted);
                self.drive(id);
            }
        }
    }

    /// How many messages certainly end within half an LND timeout, were they all on one
    /// connection: what is queued beyond that may be late though nothing breaks.
    fn carries(&self) -> usize {
        let cfg = &self.cfg;
        // The pieces of the source, and a sink cut to pieces.
        let writes = 24 + u64::from(CALM_FRAGS);
        let turn = 4 * cfg.latency + cfg.cq_delay + cfg.lnet_delay + 3 * cfg.action_delay;
        // Request, answer, end, and the credits for them; a send queue that was lowered as far as
        // it goes has room for two WRITEs.
        let one = writes * (cfg.latency / 10 + 1) + (4 + writes / 2) * turn;
        (cfg.timeout.0 / 2 / one).max(1) as usize
    }

    fn under_way(&self) -> usize {
        self.msgs.iter().filter(|m| m.done.is_none()).count()
    }

    /// Messages that have to arrive.
    fn must_traffic(&mut self) {
        let most = self.carries();
        for _ in 0..self.cfg.rounds {
            let gap = self.jitter(self.cfg.submit_gap);
            for node in 0..self.nodes.len() {
                while self.under_way() >= most {
                    self.run_until(self.now + gap);
                }
                self.submit(node, true);
            }
            self.run_until(self.now + gap);
        }
        let wait = if self.cfg.peers { WAIT } else { 0 };
        self.settle(3 * self.cfg.timeout.0 + wait);
        let sound = self.eps.iter().any(|ep| ep.conn.is_established());
        assert!(sound, "no connection though nothing breaks");
    }

    /// Nothing is under way: every credit is where it belongs.
    fn check_credits(&self) {
        for ep in self.eps.iter().filter(|ep| ep.conn.is_established()) {
            let here = ep.conn.look();
            let peer = &self.eps[ep.peer];
            let there = peer.conn.look();
            // A keepalive may be under way.
            if here.sends + there.sends > 0 || !ep.qp.cq_empty() || !peer.qp.cq_empty() {
                continue;
            }
            let depth = here.queue_depth;
            assert_eq!(there.queue_depth, depth, "{here:?} {there:?}");
            assert_eq!(
                here.credits + there.outstanding,
                depth,
                "{here:?} {there:?}"
            );
            assert_eq!(here.reserved, depth, "{here:?}");
            if let Some(granted) = here.granted {
                assert_eq!(granted, there.credits, "{here:?} {there:?}");
            }
            assert_eq!(here.rx_posted, ep.limits.rx_slots, "{here:?}");
            assert!(here.outstanding < here.hiw || depth == 1, "{here:?}");
        }
    }

    /// Nothing is under way: every end has been heard of, a sweep after it was due at the latest.
    fn check_keepalives(&self) {
        let cfg = &self.cfg;
        let slack = 20 * (cfg.latency + cfg.cq_delay + cfg.action_delay);
        for ep in self.eps.iter().filter(|ep| ep.conn.is_established()) {
            let silent = self.now - ep.spoke;
            let due = cfg.tunables(ep.node).keepalive;
            let most = due.map_or(u64::MAX, |due| due.0 + cfg.timeout.0 / 4 + slack);
            assert!(silent <= most, "no keepalive: {:?}", ep.conn.look());
        }
    }

    /// NOOPs, attempts and lines in the log are bounded by what called for them.
    fn check_bounds(&mut self) {
        for id in 0..self.eps.len() {
            let mixed = self.is_mixed(id);
            let ep = &self.eps[id];
            let s = ep.conn.look();
            let life = self.now - ep.born;
            let tunables = self.cfg.tunables(ep.node);
            let keepalives = tunables.keepalive.map_or(0, |every| life / every.0 + 1);
            let owed = u64::from(s.rx_msgs) / u64::from(s.hiw);
            let noops = u64::from(s.tx_noops);
            self.report.noops += noops;
            self.report.c_msgs += if mixed { u64::from(s.rx_msgs) } else { 0 };
            assert!(noops <= owed + keepalives + 2, "too many NOOPs: {s:?}");
            // What failed on either queue, and the end.
            assert!(ep.lines <= 3, "{} lines about a connection", ep.lines);
            self.report.lines += u64::from(ep.lines);
        }
        for it in &self.peers {
            let s = it.peer.snapshot().counters;
            let conns = u64::from(self.cfg.nodes[it.node].conns);
            let closed = self.eps.iter().filter(|ep| ep.node == it.node).count() as u64;
            let calls = self.msgs.len() as u64 + closed + 1;
            let bound = conns * (11 * calls + self.now / 1_000_000_000);
            assert!(u64::from(s.attempts) <= bound, "too many attempts: {s:?}");
            // What the CM says, and that the attempt has failed.
            assert!(it.lines <= 2 * s.attempts, "{} lines: {s:?}", it.lines);
            self.report.lines += u64::from(it.lines);
        }
    }

    /// Everything is taken down; nothing may be left.
    fn shutdown(&mut self) {
        self.quiet = true;
        let now = self.instant();
        for at in 0..self.peers.len() {
            self.peers[at].peer.delete(Cause::Deleted);
            self.drive_peer(at);
        }
        for id in 0..self.eps.len() {
            self.eps[id].conn.close(now, Cause::Deleted);
            self.drive(id);
        }
        let bound = 3 * self.cfg.timeout.0 + 1000 * (self.cfg.cq_delay + self.cfg.action_delay);
        self.run_until(self.now + bound);
        for id in 0..self.eps.len() {
            let left = self.eps[id].conn.look();
            assert!(!self.live(id), "ep {id} is left: {left:?}");
        }
        for it in &self.peers {
            assert!(
                it.peer.is_idle(),
                "a peer is left: {:?}",
                it.peer.snapshot()
            );
        }
        for node in &self.nodes {
            assert_eq!(node.memory.regions(), 0, "memory is left");
            assert!(node.memory.mrs.is_empty(), "keys are left");
            assert!(node.active.iter().all(|&n| n == 0), "messages are left");
        }
    }
}

/// The WRITEs of a transfer by our engine.
fn count(mem: &Mem, sink: &DescView<'_>, total: u32, limits: &Limits) -> Result<u16, ChainError> {
    let Mem::Source { frags, .. } = mem else {
        panic!("WRITEs of {mem:?}");
    };
    count_writes(frags, sink, total, limits.max_send_sge, limits.max_frags)
}

fn regions(mem: &Mem) -> VecDeque<Region> {
    match mem {
        Mem::None => VecDeque::new(),
        Mem::Payload(region) | Mem::Sink { region, .. } => [*region].into(),
        Mem::Source { regions, .. } => regions.iter().copied().collect(),
    }
}

/// What holds at an end of a connection at every moment.
fn check_snapshot(ep: &Ep) {
    let s = ep.conn.look();
    let depth = s.queue_depth;
    let granted = s.granted.unwrap_or(0);
    assert!(s.credits <= depth && s.outstanding <= depth, "{s:?}");
    assert!(s.reserved <= depth && granted <= depth, "{s:?}");
    assert!(granted + s.outstanding <= depth, "{s:?}");
    assert!(s.sends <= s.concurrent_sends, "{s:?}");
    assert!(s.noops <= 2 || ep.limits.version == Version::V1, "{s:?}");
    assert!(s.sq_used < s.sq_wrs, "{s:?}");
    assert_eq!(s.wrong, 0, "{s:?}");
}

fn brief(action: &Action<Tx>) -> String {
    match action {
        Action::Finish { tx, done } => format!("Finish {} {done:?}", tx.msg),
        Action::FinishAfterDrain { tx, done } => format!("FinishAfterDrain {} {done:?}", tx.msg),
        Action::Deliver { hdr, kind, .. } => format!("Deliver {} {kind:?}", id_of(hdr)),
        other => format!("{other:?}"),
    }
}

/// Runs one seed; panics when something is wrong.
pub fn run(seed: u64, options: &Options) -> Report {
    let mut world = World::new(seed, options.clone());
    world.safety();
    world.liveness();
    world.shutdown();
    world.check_bounds();
    world.report.nodes = world.nodes.len() as u64;
    for it in &world.peers {
        let seen = it.peer.snapshot().counters;
        world.report.attempts += u64::from(seen.attempts);
        world.report.retries += u64::from(seen.retries);
        world.report.races += u64::from(seen.races);
        world.report.stale += u64::from(seen.stale);
        world.report.came_back += u64::from(seen.came_back);
    }
    world.report
}
