// SPDX-License-Identifier: GPL-2.0

//! A model of the device: memory, keys, queue pairs with a completion queue each.
//!
//! It is stricter than a real one. Whatever the engine must never do is a panic here: a wrong key,
//! a double post, a queue that overflows, memory that is freed while the device may use it.

use std::collections::{BTreeMap, VecDeque};

/// A piece of memory that the device can address.
pub(super) type Region = u32;

/// Address of byte 0 of a region. Regions are far apart, so an access that runs out of one does
/// not end up in another.
pub(super) fn base(region: Region) -> u64 {
    u64::from(region) << 32
}

/// State of a memory region key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MrState {
    /// Mapped; the device has not heard of it.
    Fresh,
    /// Registered.
    Valid,
    /// Invalidated.
    Invalid,
}

#[derive(Debug)]
pub(super) struct Mr {
    pub(super) state: MrState,
    pub(super) region: Region,
    len: u32,
    /// A REG was posted.
    pub(super) posted: bool,
}

/// Memory and keys of one node.
#[derive(Default)]
pub(super) struct Memory {
    regions: BTreeMap<Region, Vec<u8>>,
    next_region: Region,
    pub(super) mrs: BTreeMap<u32, Mr>,
    next_key: u32,
}

impl Memory {
    pub(super) fn alloc(&mut self, bytes: Vec<u8>) -> Region {
        self.next_region += 1;
        self.regions.insert(self.next_region, bytes);
        self.next_region
    }

    pub(super) fn free(&mut self, region: Region) -> Vec<u8> {
        let valid = self
            .mrs
            .values()
            .any(|mr| mr.region == region && mr.state == MrState::Valid);
        assert!(!valid, "memory is freed while its key is valid");
        self.regions.remove(&region).expect("memory is freed twice")
    }

    pub(super) fn regions(&self) -> usize {
        self.regions.len()
    }

    fn locate(&self, addr: u64, len: usize, what: &str) -> (Region, usize) {
        let region = (addr >> 32) as Region;
        let offset = (addr & 0xffff_ffff) as usize;
        let bytes = self.regions.get(&region);
        let size = bytes
            .unwrap_or_else(|| panic!("{what}: no memory at {addr:#x}"))
            .len();
        assert!(
            offset + len <= size,
            "{what}: {addr:#x}+{len} is outside of {size} bytes"
        );
        (region, offset)
    }

    pub(super) fn read(&self, addr: u64, len: usize, what: &str) -> &[u8] {
        let (region, offset) = self.locate(addr, len, what);
        &self.regions[&region][offset..offset + len]
    }

    pub(super) fn write(&mut self, addr: u64, bytes: &[u8], what: &str) {
        let (region, offset) = self.locate(addr, bytes.len(), what);
        let memory = self.regions.get_mut(&region).expect("located");
        memory[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn slice_mut(&mut self, region: Region) -> &mut [u8] {
        self.regions.get_mut(&region).expect("memory was freed")
    }

    pub(super) fn slice(&self, region: Region) -> &[u8] {
        self.regions.get(&region).expect("memory was freed")
    }

    /// A key for all of `region`, not yet registered.
    pub(super) fn map(&mut self, region: Region, len: u32) -> u32 {
        self.next_key += 0x101;
        let state = MrState::Fresh;
        let posted = false;
        let mr = Mr {
            state,
            region,
            len,
            posted,
        };
        self.mrs.insert(self.next_key, mr);
        self.next_key
    }

    /// A REG of `key` is on its way to the device.
    pub(super) fn reg_posted(&mut self, key: u32) {
        let mr = self.mrs.get_mut(&key).expect("REG of an unknown key");
        assert!(!mr.posted, "REG is posted twice");
        mr.posted = true;
    }

    fn register(&mut self, key: u32) {
        let mr = self.mrs.get_mut(&key).expect("REG of an unknown key");
        assert_eq!(mr.state, MrState::Fresh, "REG twice");
        mr.state = MrState::Valid;
    }

    fn invalidate(&mut self, key: u32) {
        let mr = self.mrs.get_mut(&key).expect("INV of an unknown key");
        assert_eq!(mr.state, MrState::Valid, "INV of a key that is not valid");
        mr.state = MrState::Invalid;
    }

    /// An RDMA WRITE of the peer.
    pub(super) fn remote_write(&mut self, key: u32, addr: u64, bytes: &[u8]) {
        let mr = self.mrs.get(&key).expect("WRITE to an unknown key");
        assert_eq!(mr.state, MrState::Valid, "WRITE to a key that is not valid");
        let start = base(mr.region);
        let end = start + u64::from(mr.len);
        assert!(
            addr >= start && addr + bytes.len() as u64 <= end,
            "WRITE outside of the MR"
        );
        self.write(addr, bytes, "WRITE");
    }
}

/// A piece of local memory.
pub(super) type Sge = (u64, u32);

#[derive(Clone, Debug)]
pub(super) enum SqOp {
    Send {
        sges: Vec<Sge>,
    },
    Write {
        sges: Vec<Sge>,
        rkey: u32,
        remote: u64,
    },
    Reg {
        key: u32,
    },
    Inv {
        key: u32,
    },
    Sentinel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WrState {
    Waiting,
    InFlight,
    Done,
}

#[derive(Clone, Debug)]
pub(super) struct SqWr {
    pub(super) id: u64,
    pub(super) op: SqOp,
    pub(super) signal: bool,
}

#[derive(Debug)]
struct SqEntry {
    seq: u64,
    wr: SqWr,
    state: WrState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CqeKind {
    Success,
    Flushed,
    Error(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Cqe {
    pub(super) id: u64,
    pub(super) recv: bool,
    pub(super) kind: CqeKind,
    pub(super) byte_len: usize,
    /// Requests of the send queue that may be used again when this has been polled.
    covers: u32,
    seq: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QpState {
    Init,
    Rts,
    Err,
    Destroyed,
}

/// What goes to the other side.
#[derive(Clone, Debug)]
pub(super) enum Packet {
    Send(Vec<u8>),
    Write {
        rkey: u32,
        remote: u64,
        bytes: Vec<u8>,
    },
}

/// A queue pair and its completion queue.
pub(super) struct Qp {
    pub(super) state: QpState,
    sq: VecDeque<SqEntry>,
    next_seq: u64,
    sq_size: u32,
    /// Used entries of the send queue; an unsignalled one counts until a later completion has been
    /// polled.
    sq_used: u32,
    uncovered: u32,
    rq: VecDeque<(u64, u16)>,
    rq_size: u32,
    /// Completions of the send queue, and of the receive queue.
    cqs: [VecDeque<Cqe>; 2],
    cq_size: u32,
    /// Both are one queue: they come out in the order in which they came about.
    one_cq: bool,
    next_cqe: u64,
    max_sge: usize,
    /// Flushed requests are never heard of again.
    pub(super) hung: bool,
}

impl Qp {
    pub(super) fn new(sq_size: u32, rq_size: u32, cq_size: u32, max_sge: u16) -> Self {
        Self {
            state: QpState::Init,
            sq: VecDeque::new(),
            next_seq: 0,
            sq_size,
            sq_used: 0,
            uncovered: 0,
            rq: VecDeque::new(),
            rq_size,
            cqs: [VecDeque::new(), VecDeque::new()],
            cq_size,
            one_cq: true,
            next_cqe: 0,
            max_sge: usize::from(max_sge),
            hung: false,
        }
    }

    pub(super) fn idle(&self) -> bool {
        self.sq.is_empty() && self.rq.is_empty()
    }

    pub(super) fn rq_empty(&self) -> bool {
        self.rq.is_empty()
    }

    pub(super) fn sq_empty(&self) -> bool {
        self.sq.is_empty()
    }

    /// Send and receive queue complete in any order with respect to each other.
    pub(super) fn split_cq(&mut self) {
        self.one_cq = false;
    }

    pub(super) fn cq_empty(&self) -> bool {
        self.cqs.iter().all(VecDeque::is_empty)
    }

    fn push_cqe(&mut self, mut cqe: Cqe) {
        if self.hung && cqe.kind != CqeKind::Success {
            return;
        }
        cqe.seq = self.next_cqe;
        self.next_cqe += 1;
        self.cqs[usize::from(cqe.recv)].push_back(cqe);
        assert!(
            self.cqs[0].len() + self.cqs[1].len() <= self.cq_size as usize,
            "completion queue overflow"
        );
    }

    pub(super) fn post_recv(&mut self, id: u64, rx: u16) {
        assert_ne!(self.state, QpState::Destroyed, "post to a destroyed QP");
        assert!(
            !self.rq.iter().any(|&(_, other)| other == rx),
            "receive buffer {rx} is posted twice"
        );
        assert!(
            (self.rq.len() as u32) < self.rq_size,
            "receive queue overflow"
        );
        if self.state == QpState::Err {
            self.push_cqe(Cqe {
                id,
                recv: true,
                kind: CqeKind::Flushed,
                byte_len: 0,
                covers: 0,
                seq: 0,
            });
        } else {
            self.rq.push_back((id, rx));
        }
    }

    pub(super) fn post_send(&mut self, wr: SqWr) {
        assert_ne!(self.state, QpState::Destroyed, "post to a destroyed QP");
        if let SqOp::Send { sges } | SqOp::Write { sges, .. } = &wr.op {
            assert!(sges.len() <= self.max_sge, "too many SGEs");
        }
        self.sq_used += 1;
        assert!(self.sq_used <= self.sq_size, "send queue overflow");
        let seq = self.next_seq;
        self.next_seq += 1;
        let state = WrState::Waiting;
        self.sq.push_back(SqEntry { seq, wr, state });
        if self.state == QpState::Err {
            self.flush();
        }
    }

    /// Starts the next request. What is to be sent, if anything, and its number.
    pub(super) fn start(&mut self, memory: &mut Memory) -> Option<(u64, Option<Packet>)> {
        if self.state != QpState::Rts {
            return None;
        }
        let gather = |memory: &Memory, sges: &[Sge]| {
            let mut bytes = Vec::new();
            for &(addr, len) in sges {
                bytes.extend_from_slice(memory.read(addr, len as usize, "gather"));
            }
            bytes
        };
        let entry = self.sq.iter_mut().find(|e| e.state == WrState::Waiting)?;
        let packet = match &entry.wr.op {
            SqOp::Send { sges } => Some(Packet::Send(gather(memory, sges))),
            SqOp::Write { sges, rkey, remote } => Some(Packet::Write {
                rkey: *rkey,
                remote: *remote,
                bytes: gather(memory, sges),
            }),
            SqOp::Reg { key } => {
                memory.register(*key);
                None
            }
            SqOp::Inv { key } => {
                memory.invalidate(*key);
                None
            }
            SqOp::Sentinel => panic!("sentinel on a QP that is not in the error state"),
        };
        entry.state = match packet {
            Some(_) => WrState::InFlight,
            None => WrState::Done,
        };
        let seq = entry.seq;
        self.complete();
        Some((seq, packet))
    }

    pub(super) fn can_start(&self) -> bool {
        self.state == QpState::Rts && self.sq.iter().any(|e| e.state == WrState::Waiting)
    }

    /// The other side has acknowledged request `seq`.
    pub(super) fn acked(&mut self, seq: u64) {
        if self.state != QpState::Rts {
            return;
        }
        if let Some(entry) = self.sq.iter_mut().find(|e| e.seq == seq) {
            entry.state = WrState::Done;
        }
        self.complete();
    }

    fn complete(&mut self) {
        while self.sq.front().is_some_and(|e| e.state == WrState::Done) {
            let entry = self.sq.pop_front().expect("front");
            self.uncovered += 1;
            if entry.wr.signal {
                let covers = std::mem::take(&mut self.uncovered);
                self.push_cqe(Cqe {
                    id: entry.wr.id,
                    recv: false,
                    kind: CqeKind::Success,
                    byte_len: 0,
                    covers,
                    seq: 0,
                });
            }
        }
    }

    /// Request `seq` failed: the QP goes to the error state.
    pub(super) fn failed(&mut self, seq: u64, status: u32) {
        if self.state != QpState::Rts || !self.sq.iter().any(|e| e.seq == seq) {
            return;
        }
        // What is ahead of it has been acknowledged, or fails first.
        self.complete();
        if let Some(entry) = self.sq.pop_front() {
            let covers = std::mem::take(&mut self.uncovered) + 1;
            self.push_cqe(Cqe {
                id: entry.wr.id,
                recv: false,
                kind: CqeKind::Error(status),
                byte_len: 0,
                covers,
                seq: 0,
            });
        }
        self.fail_all();
    }

    pub(super) fn fail_all(&mut self) {
        if matches!(self.state, QpState::Err | QpState::Destroyed) {
            return;
        }
        self.state = QpState::Err;
        self.flush();
        while let Some((id, _)) = self.rq.pop_front() {
            self.push_cqe(Cqe {
                id,
                recv: true,
                kind: CqeKind::Flushed,
                byte_len: 0,
                covers: 0,
                seq: 0,
            });
        }
    }

    fn flush(&mut self) {
        while let Some(entry) = self.sq.pop_front() {
            let covers = std::mem::take(&mut self.uncovered) + 1;
            self.push_cqe(Cqe {
                id: entry.wr.id,
                recv: false,
                kind: CqeKind::Flushed,
                byte_len: 0,
                covers,
                seq: 0,
            });
        }
    }

    pub(super) fn destroy(&mut self) {
        self.state = QpState::Destroyed;
        self.sq.clear();
        self.rq.clear();
        self.cqs = [VecDeque::new(), VecDeque::new()];
    }

    /// A message arrives. `None` when nobody is there to take it.
    pub(super) fn take_recv(&mut self) -> Option<(u64, u16)> {
        if !matches!(self.state, QpState::Init | QpState::Rts) {
            return None;
        }
        Some(self.rq.pop_front().expect("no receive is posted (RNR)"))
    }

    pub(super) fn received(&mut self, id: u64, byte_len: usize) {
        self.push_cqe(Cqe {
            id,
            recv: true,
            kind: CqeKind::Success,
            byte_len,
            covers: 0,
            seq: 0,
        });
    }

    /// The next completion; with two queues, from the one that is asked for if it has one.
    pub(super) fn poll(&mut self, recv_first: bool) -> Option<Cqe> {
        let age = |queue: &VecDeque<Cqe>| queue.front().map_or(u64::MAX, |cqe| cqe.seq);
        let first = match self.one_cq {
            true => usize::from(age(&self.cqs[1]) < age(&self.cqs[0])),
            false => usize::from(recv_first),
        };
        let cqe = self.cqs[first].pop_front();
        let cqe = cqe.or_else(|| self.cqs[1 - first].pop_front())?;
        self.sq_used = self.sq_used.saturating_sub(cqe.covers);
        Some(cqe)
    }

    /// Whether a request that has not completed uses `region`.
    pub(super) fn uses(&self, region: Region) -> bool {
        self.sq.iter().any(|entry| match &entry.wr.op {
            SqOp::Send { sges } | SqOp::Write { sges, .. } => sges
                .iter()
                .any(|&(addr, _)| (addr >> 32) as Region == region),
            SqOp::Reg { .. } | SqOp::Inv { .. } | SqOp::Sentinel => false,
        })
    }
}
