// SPDX-License-Identifier: GPL-2.0

//! What LNet sends, and how it ends.

use std::collections::VecDeque;

use super::hca::{MrState, QpState, Region};
use super::lnet::{check, fill, header, Kind, Mem, Msg, MsgId, Tx};
use super::options::Broken;
use super::phases::WAIT;
use super::world::{EpId, Ev, World};
use crate::driver::send::Sending;
use crate::proto::conn::Submit;
use crate::proto::{Done, Health, Instant};
use crate::wire::{LnetHdr, MAX_IMMEDIATE};

impl World {
    pub(super) fn submit_traffic(&mut self, node: usize) {
        if self.traffic {
            let gap = self.jitter(self.cfg.submit_gap);
            self.at(gap, Ev::Submit(node));
            self.submit(node, false);
        }
    }

    /// Submits one message, if there is a connection and LNet has a credit.
    pub(super) fn submit(&mut self, node: usize, must: bool) -> bool {
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
            answer: None,
            must,
        });
        self.report.accepted += 1;
        self.nodes[node].active[other] += 1;
        if self.cfg.peers {
            self.send(node, other, Sending::new(tx));
            return true;
        }
        let id = usable[self.prng.index(usable.len())];
        if let Some(refused) = self.eps[id].conn.submit(now, tx, what) {
            panic!("refused: {:?}", refused.cause);
        }
        self.drive_lazily(id);
        true
    }

    pub(super) fn length(&mut self, kind: Kind) -> u32 {
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

    pub(super) fn prepare(
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
                let mem = self.source(node, msg, len);
                (mem, Submit::Put { hdr, len })
            }
            Kind::Get => {
                let (mem, sink) = self.sink(node, len);
                (mem, Submit::Get { hdr, sink })
            }
        }
    }

    /// Whether a node loses this buffer on purpose.
    pub(super) fn loses_buffer(&self, id: EpId, msg: MsgId) -> bool {
        let lost = self.options.broken == Some(Broken::BufferLost);
        lost && msg % 5 == 4 && self.eps[id].node == 0
    }

    /// A transmission has ended.
    pub(super) fn end_tx(
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
            self.check_answer(msg, done);
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
    pub(super) fn check_time(&self, msg: MsgId, since: Instant) {
        let slack = 200 * (self.cfg.action_delay + self.cfg.cq_delay + self.cfg.lnet_delay);
        let wait = if self.cfg.peers { WAIT } else { 0 };
        let bound = 5 * self.cfg.timeout.0 + slack * 100 + wait;
        let took = self.now - since.0;
        assert!(took <= bound, "message {msg} took {took} of {bound} ns");
    }

    pub(super) fn check_data(
        &mut self,
        node: usize,
        msg: MsgId,
        origin: bool,
        mem: &Mem,
        done: Done,
    ) {
        let memory = &self.nodes[node].memory;
        match (mem, origin) {
            (Mem::Sink { region, .. }, true) => {
                let len = done.reply_len.expect("length of a reply") as usize;
                check(msg, &memory.slice(*region)[..len], "GET");
            }
            (Mem::Sink { region, .. }, false) => check(msg, memory.slice(*region), "PUT"),
            (
                Mem::Source {
                    cursor, written, ..
                },
                _,
            ) => {
                let ours = cursor.is_some_and(|cursor| cursor.rest() == 0);
                let all = ours || *written || self.msgs[msg].declined;
                assert!(all, "message {msg}: not everything was written");
            }
            (Mem::Payload(_) | Mem::None, _) => {}
        }
    }

    /// From now on a WRITE to it is found out. `lax`: its key need not be invalid.
    pub(super) fn release(&mut self, node: usize, mem: Mem, lax: bool) {
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
}

fn regions(mem: &Mem) -> VecDeque<Region> {
    match mem {
        Mem::None => VecDeque::new(),
        Mem::Payload(region) | Mem::Sink { region, .. } => [*region].into(),
        Mem::Source { regions, .. } => regions.iter().copied().collect(),
    }
}
