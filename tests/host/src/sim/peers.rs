// SPDX-License-Identifier: GPL-2.0

//! Peers of nodes, and what becomes of them when a node restarts or loses its device.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::lnet::Tx;
use super::world::{EpId, Ev, World};
use super::Heap;
use crate::driver::connect::Work;
use crate::driver::sweep::sweep_peer;
use crate::proto::passive::NiInfo;
use crate::proto::peer::{Peer, PeerConfig};
use crate::proto::{Cause, ConnId, Instant};

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
    pub(super) ni: NiInfo,
    timer: Option<Instant>,
    /// Its connections, until they are gone.
    pub(super) conns: BTreeMap<ConnId, EpId>,
    /// Those that were accepted and are not established.
    pub(super) pending: Rc<Cell<u32>>,
    /// Lines in the log about its attempts.
    pub(super) lines: u32,
}

impl World {
    /// Who the NI of `node` is now.
    pub(super) fn ni_info(&self, node: usize) -> NiInfo {
        NiInfo {
            nid: self.nodes[node].nid,
            stamp: self.nodes[node].stamp,
            peer_credits: self.cfg.nodes[node].depth,
        }
    }

    /// New peer objects of `node`, as after a start of its NI.
    pub(super) fn make_peers(&mut self, node: usize) {
        for other in (0..self.nodes.len()).filter(|&other| other != node) {
            self.make_peer(node, other);
        }
    }

    /// A new peer object.
    pub(super) fn make_peer(&mut self, node: usize, other: usize) {
        let ni = self.ni_info(node);
        let tunables = self.cfg.tunables(node);
        let mut config = PeerConfig::new(self.nodes[other].nid, ni, &tunables);
        config.tie_break = self.cfg.nodes[node].tie_break;
        let Ok(peer) = Peer::new(&mut Heap, config, self.instant());
        self.nodes[node].peers[other] = self.peers.len();
        self.peers.push(PeerBox {
            node,
            other,
            peer,
            ni,
            timer: None,
            conns: BTreeMap::new(),
            pending: Rc::default(),
            lines: 0,
        });
    }

    /// Has the actions of a peer run, as its driver's threads do when they have fed it.
    pub(super) fn kick(&mut self, at: usize) {
        self.arm_peer(at);
        let (node, other) = (self.peers[at].node, self.peers[at].other);
        self.push_work(node, other, Work::peer(at));
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
        let live = self.cfg.tunables(self.peers[at].node).live();
        self.peers[at].timer = None;
        if sweep_peer(&mut self.peers[at].peer, live, now) {
            self.kick(at);
        }
        self.arm_peer(at);
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
        self.silence(node);
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
        self.device_removed(node);
    }

    fn take_down(&mut self, node: usize, fate: Fate) {
        let now = self.instant();
        for other in 0..self.nodes.len() {
            let old = self.nodes[node].peers[other];
            if other != node {
                self.peers[old].peer.delete(Cause::Deleted);
                self.kick(old);
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
                }
            }
            self.drive(id);
        }
    }
}
