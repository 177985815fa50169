// SPDX-License-Identifier: GPL-2.0

//! The phases of a run, and what must hold in them.

use super::connd::Worker;
use super::lnet::Kind;
use super::node::Ep;
use super::options::Options;
use super::peers::PeerBox;
use super::report::Report;
use super::world::{Ev, World};
use crate::proto::Cause;

/// Fragments of a sink that is cut to pieces, when nothing may be late: hundreds of them through a
/// send queue of ten take longer than some LND timeouts.
pub(super) const CALM_FRAGS: u16 = 16;
/// What a message may wait for a connection on top of the connect timeout.
pub(super) const WAIT: u64 = 10_000_000_000;

impl World {
    /// Runs until everything has settled, or for `bound`: keepalives go on for ever.
    pub(super) fn settle(&mut self, bound: u64) {
        let until = self.now + bound;
        let grain = self.cfg.latency + self.cfg.cq_delay + self.cfg.action_delay;
        while self.now < until && !self.settled() {
            let slice = (bound / 500).max(20 * grain);
            self.run_until((self.now + slice).min(until));
        }
    }

    /// Nothing is under way but keepalives.
    pub(super) fn settled(&self) -> bool {
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
            && self.workers.iter().all(Worker::is_idle)
    }

    /// Things break.
    pub(super) fn safety(&mut self) {
        for node in 0..self.nodes.len() {
            self.make_peers(node);
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
    pub(super) fn liveness(&mut self) {
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
        self.check_pending();
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

    /// Everything has settled: no accepted connection waits to be established.
    fn check_pending(&self) {
        let of_peers = self.peers.iter().map(|it| u64::from(it.pending.get()));
        assert_eq!(self.pending.get(), of_peers.sum::<u64>());
        let waiting = |it: &PeerBox| u64::from(it.peer.snapshot().accepting);
        let waiting = self.peers.iter().map(waiting).sum::<u64>();
        let pending = self.pending.get();
        assert!(pending <= waiting, "{pending} are counted, {waiting} wait");
    }

    /// The other side may have died unnoticed: only the next message would tell.
    pub(super) fn close_half_open(&mut self) {
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
    pub(super) fn carries(&self) -> usize {
        let cfg = &self.cfg;
        // The pieces of the source, and a sink cut to pieces.
        let writes = 24 + u64::from(CALM_FRAGS);
        let turn = 4 * cfg.latency + cfg.cq_delay + cfg.lnet_delay + 3 * cfg.action_delay;
        // Request, answer, end, and the credits for them; a send queue that was lowered as far as
        // it goes has room for two WRITEs.
        let one = writes * (cfg.latency / 10 + 1) + (4 + writes / 2) * turn;
        (cfg.timeout.0 / 2 / one).max(1) as usize
    }

    pub(super) fn under_way(&self) -> usize {
        self.msgs.iter().filter(|m| m.done.is_none()).count()
    }

    /// Messages that have to arrive.
    pub(super) fn must_traffic(&mut self) {
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
    pub(super) fn check_credits(&self) {
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
    pub(super) fn check_keepalives(&self) {
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
    pub(super) fn check_bounds(&mut self) {
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
    pub(super) fn shutdown(&mut self) {
        self.quiet = true;
        let now = self.instant();
        for at in 0..self.peers.len() {
            self.peers[at].peer.delete(Cause::Deleted);
            self.kick(at);
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
        let open = self.ids.iter().filter(|id| id.link.is_some()).count();
        let left = (open, self.pending.get(), self.reserved.get());
        assert_eq!(
            left,
            (0, 0, 0),
            "ids, pending connections, numbers are left"
        );
        assert!(self.workers.iter().all(Worker::is_idle), "work is left");
        for node in &self.nodes {
            assert_eq!(node.memory.regions(), 0, "memory is left");
            assert!(node.memory.mrs.is_empty(), "keys are left");
            assert!(node.active.iter().all(|&n| n == 0), "messages are left");
        }
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
