// SPDX-License-Identifier: GPL-2.0

//! What the loop of [`driver`](crate::driver) needs done, with the simulator's world.

use super::lnet::Tx;
use super::world::{EpId, Ev, World};
use super::Heap;
use crate::driver::connect::Work;
use crate::driver::send::Sending;
use crate::driver::shell::{Ended, Request, Shell};
use crate::proto::conn::Delivery;
use crate::proto::peer::{Peer, PeerSubmit};
use crate::proto::{Cause, ConnId, Done, Instant, Refused, RxId};
use crate::wire::{LnetHdr, Nid};

impl Shell for World {
    type Storage = Heap;
    type Tx = Tx;
    /// A node.
    type Ni = usize;
    /// Number of a [`PeerBox`](super::peers::PeerBox).
    type Peer = usize;
    type Conn = EpId;

    fn find_peer(&mut self, node: &usize, nid: Nid) -> Result<usize, Cause> {
        let other = self.nodes.iter().position(|other| other.nid == nid);
        Ok(self.nodes[*node].peers[other.expect("a node")])
    }

    /// Its NI has another one already.
    fn forget_peer(&mut self, _peer: &usize) {}

    /// Actions are run only when the peer is kicked.
    fn peer<R>(&mut self, peer: &usize, f: impl FnOnce(&mut Peer<Heap, Tx>, Instant) -> R) -> R {
        let now = self.instant();
        let result = f(&mut self.peers[*peer].peer, now);
        self.arm_peer(*peer);
        result
    }

    fn place(
        &mut self,
        peer: &usize,
        f: impl FnOnce(&mut Peer<Heap, Tx>, Instant) -> PeerSubmit<Tx>,
    ) -> (PeerSubmit<Tx>, Option<EpId>) {
        let placed = self.peer(peer, f);
        let conn = match &placed {
            PeerSubmit::Use { conn, .. } => self.peers[*peer].conns.get(conn).copied(),
            PeerSubmit::Queued | PeerSubmit::Refused(_) => None,
        };
        (placed, conn)
    }

    fn kick_peer(&mut self, peer: &usize) {
        self.kick(*peer);
    }

    fn peer_of(&self, conn: &EpId) -> usize {
        self.eps[*conn].peer_box
    }

    fn name_of(&self, conn: &EpId) -> Option<ConnId> {
        self.eps[*conn].named.then_some(self.eps[*conn].name)
    }

    fn submit(&mut self, conn: &EpId, tx: Tx) -> Result<(), Refused<Tx>> {
        let now = self.instant();
        let what = tx.what.expect("message of LNet");
        if let Some(refused) = self.eps[*conn].conn.submit(now, tx, what) {
            assert_ne!(refused.cause, Cause::BadInput);
            return Err(refused);
        }
        self.drive_lazily(*conn);
        Ok(())
    }

    fn request(&mut self, conn: &EpId, request: Request) {
        let ep = &mut self.eps[*conn];
        ep.requests[request as usize] = true;
        let (node, other) = (ep.node, ep.other);
        self.push_work(node, other, Work::Conn(*conn));
    }

    fn note_established(&mut self, conn: &EpId) {
        self.count_established(*conn);
    }

    fn note_closed(&mut self, conn: &EpId, cause: Cause, logged: bool) {
        self.eps[*conn].lines += u32::from(logged);
        self.closed(*conn, cause);
    }

    fn deliver(&mut self, conn: &EpId, rx: RxId, hdr: &LnetHdr, kind: Delivery) -> Result<(), i32> {
        self.parse(*conn, rx, *hdr, kind)
    }

    fn finish(&mut self, conn: &EpId, tx: Tx, done: Done, ended: Ended) {
        let node = self.eps[*conn].node;
        self.end_tx(node, Some(*conn), tx, done, ended == Ended::Drained);
    }

    fn fail(&mut self, node: &usize, tx: Tx, done: Done) {
        self.end_tx(*node, None, tx, done, false);
    }
}

impl World {
    /// One step of a message of `node` to `other`. What follows comes at once or later.
    pub(super) fn send(&mut self, node: usize, other: usize, sending: Sending<Self>) {
        let nid = self.nodes[other].nid;
        if let Some(next) = sending.step(self, &node, nid) {
            let delay = self.preempted();
            self.at(delay, Ev::Send(node, other, Box::new(next)));
        }
    }

    /// How long a thread is kept from going on after it has released a lock.
    pub(super) fn preempted(&mut self) -> u64 {
        match self.prng.index(4) {
            0 => self.jitter(self.cfg.action_delay),
            _ => 0,
        }
    }
}
