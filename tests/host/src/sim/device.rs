// SPDX-License-Identifier: GPL-2.0

//! The device and the wire: requests start, packets arrive, and what is sent is counted.

use super::end::End;
use super::hca::{Packet, QpState};
use super::options::Broken;
use super::translate::{translate, Manners};
use super::world::{CmEvent, EpId, Ev, World};
use crate::wire::{Endian, Message, MsgType, Version};

impl World {
    pub(super) fn step(&mut self, id: EpId) {
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
    pub(super) fn as_sent(&mut self, id: EpId, packet: Packet) -> Packet {
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
    pub(super) fn audit(&mut self, id: EpId, bytes: &[u8]) {
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
    pub(super) fn note(&mut self, id: EpId, kind: Option<MsgType>, len: usize, credits: u8) {
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

    pub(super) fn arrive(&mut self, to: EpId, from: EpId, seq: u64, packet: Packet) {
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
}
