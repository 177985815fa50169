// SPDX-License-Identifier: GPL-2.0

//! A model of the driver: what it does for one connection, by the word of whoever is at its end.

use std::collections::VecDeque;

use super::cdriver;
use super::cm::{Tag, NO_TAG};
use super::end::End;
use super::hca::{base, Cqe, CqeKind, Memory, Qp, Region, SqOp, SqWr};
use super::lnet::{Mem, Tx};
use super::Heap;
use crate::driver::exec::{received, Completion, Step};
use crate::driver::shell::{drive, Queue, Request};
use crate::prng::Prng;
use crate::proto::chain::SrcFrag;
use crate::proto::conn::{Action, Conn, Post, PostError, WcStatus};
use crate::proto::{ConnId, Instant, Limits, OpId, WrId};
use crate::wire::{Message, MSG_SIZE};

/// Bytes of a message buffer of the send side: our engine's descriptors have one fragment.
const SLOT_SIZE: usize = 192;
/// Marks the requests of the model of the C driver that are receives, and those that are the last
/// of their chain.
const C_RECV: u64 = 1 << 63;
const C_LAST: u64 = 1 << 62;

/// One end of a connection.
pub(super) struct Ep {
    pub(super) node: usize,
    pub(super) peer: usize,
    /// The node at the other end.
    pub(super) other: usize,
    /// When it was made.
    pub(super) born: u64,
    pub(super) limits: Limits,
    pub(super) conn: End,
    pub(super) qp: Qp,
    pub(super) rx_bufs: Vec<Vec<u8>>,
    pub(super) slots: Vec<Region>,
    pub(super) actions: VecDeque<Action<Tx>>,
    /// What remains of the last action.
    pub(super) step: Option<Step>,
    pub(super) running: bool,
    pub(super) waking: bool,
    pub(super) stepping: bool,
    pub(super) timer: Option<Instant>,
    /// When the last packet arrives at the other side.
    pub(super) last_arrival: u64,
    pub(super) drained: bool,
    /// A packet was lost for good.
    pub(super) cut: bool,
    /// A post call has failed.
    pub(super) post_failed: bool,
    pub(super) gone: bool,
    /// Commands of LNet that are still to come.
    pub(super) lnet_pending: u32,
    /// Lines that the driver would have logged about it.
    pub(super) lines: u32,
    pub(super) connack: Vec<u8>,
    /// Its id of the CM.
    pub(super) tag: Tag,
    /// The name that it gets for its peer.
    pub(super) name: ConnId,
    /// What it asks its worker for.
    pub(super) requests: [bool; Request::ALL.len()],
    /// Its peer knows it by name.
    pub(super) named: bool,
    /// The driver has noted that it has closed.
    pub(super) ended: bool,
    pub(super) peer_box: usize,
    /// Messages on the wire that use a credit, and credits there that are given back.
    pub(super) used: u64,
    pub(super) given: u64,
    /// When it was established, or when its last message was on the wire.
    pub(super) spoke: u64,
}

/// How posting may go wrong.
pub(super) struct PostFaults<'a> {
    pub(super) prng: &'a mut Prng,
    /// One in so many posts fails; 0: none.
    pub(super) one_in: u64,
    /// Fragments that the C driver describes a sink by at most.
    pub(super) frags: u16,
}

impl PostFaults<'_> {
    /// How many of `n` requests the device takes, if the call fails.
    fn fail(&mut self, n: usize) -> Option<u32> {
        let fails = self.one_in > 0 && self.prng.chance(1, self.one_in);
        fails.then(|| self.prng.range(0, n as u64) as u32)
    }
}

impl Ep {
    pub(super) fn new(
        (node, peer): (usize, usize),
        conn: End,
        limits: Limits,
        memory: &mut Memory,
    ) -> Self {
        let rq_wrs = limits.rq_wrs;
        let (sq_wrs, max_sge, slots, slot_size) = match &conn {
            End::Ours(_) => {
                let Limits {
                    sq_wrs,
                    max_send_sge,
                    send_slots,
                    ..
                } = limits;
                (sq_wrs, max_send_sge, send_slots, SLOT_SIZE)
            }
            End::C(c) => (c.sq_wrs(), c.max_sge(), c.send_slots(), MSG_SIZE),
        };
        Self {
            node,
            peer,
            other: node,
            born: 0,
            limits,
            conn,
            qp: Qp::new(sq_wrs, rq_wrs, sq_wrs + rq_wrs, max_sge),
            rx_bufs: vec![vec![0; 4096]; usize::from(limits.rx_slots)],
            slots: (0..slots)
                .map(|_| memory.alloc(vec![0; slot_size]))
                .collect(),
            actions: VecDeque::new(),
            step: None,
            running: false,
            waking: false,
            stepping: false,
            timer: None,
            last_arrival: 0,
            drained: false,
            cut: false,
            post_failed: false,
            gone: false,
            lnet_pending: 0,
            lines: 0,
            connack: Vec::new(),
            tag: NO_TAG,
            name: ConnId(0),
            requests: Default::default(),
            named: false,
            ended: false,
            peer_box: 0,
            used: 0,
            given: 0,
            spoke: 0,
        }
    }

    /// Whether the executor has something to do.
    pub(super) fn is_busy(&self) -> bool {
        self.step.is_some() || !self.actions.is_empty()
    }

    /// Posts everything there is. Returns whether something was posted to the send queue, and
    /// whether the executor is to look.
    pub(super) fn post_all(
        &mut self,
        now: Instant,
        memory: &mut Memory,
        faults: &mut PostFaults<'_>,
    ) -> (bool, bool) {
        match self.conn {
            End::Ours(_) => self.post_all_ours(now, memory, faults),
            End::C(_) => (self.post_all_c(now, memory, faults), true),
        }
    }

    fn post_all_c(
        &mut self,
        now: Instant,
        memory: &mut Memory,
        faults: &mut PostFaults<'_>,
    ) -> bool {
        let mut sent = false;
        let End::C(conn) = &mut self.conn else {
            return sent;
        };
        while let Some(post) = conn.poll_post(now, memory, faults.frags) {
            match post {
                cdriver::Post::Recv(rx) => {
                    let ok = faults.fail(0).is_none();
                    if ok {
                        self.qp.post_recv(C_RECV | u64::from(rx.0), rx.0);
                    }
                    self.post_failed |= !ok;
                    conn.recv_posted(now, ok);
                }
                cdriver::Post::Send(chain) => {
                    sent = true;
                    let region = self.slots[usize::from(chain.slot)];
                    assert!(!self.qp.uses(region), "a send slot is used again too early");
                    let ok = post_chain(&mut self.qp, c_chain(&chain, region, memory), faults);
                    self.post_failed |= ok.is_err();
                    conn.send_posted(now, &chain, ok.is_ok());
                }
            }
        }
        sent
    }

    /// Tells whoever is at the end that a request has completed. Whether that brought a message
    /// in the other byte order.
    pub(super) fn completed(&mut self, now: Instant, cqe: Cqe) -> bool {
        let status = match cqe.kind {
            CqeKind::Success => WcStatus::Success,
            CqeKind::Flushed => WcStatus::Flushed,
            CqeKind::Error(code) => WcStatus::Error(code),
        };
        let logged = match self.conn {
            End::Ours(_) => Completion::new(cqe.id, status).failure().is_some(),
            End::C(_) => matches!(cqe.kind, CqeKind::Error(_)),
        };
        self.lines += u32::from(logged);
        match &mut self.conn {
            End::Ours(conn) => completed_ours(conn, &self.rx_bufs, now, (cqe, status)),
            End::C(conn) if !cqe.recv => {
                let seq = cqe.id & !C_LAST;
                conn.send_completed(now, seq, cqe.id & C_LAST != 0, status);
                false
            }
            End::C(conn) => {
                let rx = crate::proto::RxId((cqe.id & !C_RECV) as u16);
                if cqe.kind != CqeKind::Success {
                    conn.recv_failed(now, cqe.kind == CqeKind::Flushed);
                    return false;
                }
                conn.received(now, rx, &self.rx_bufs[usize::from(rx.0)][..cqe.byte_len])
            }
        }
    }

    fn post_all_ours(
        &mut self,
        now: Instant,
        memory: &mut Memory,
        faults: &mut PostFaults<'_>,
    ) -> (bool, bool) {
        let mut queue = Ours {
            ep: self,
            memory,
            faults,
            sent: false,
            turns: 0,
            signalled: true,
        };
        let ((), kick) = drive(&mut queue, now, |_, _| ());
        let (sent, signalled) = (queue.sent, queue.signalled);
        let open = self.conn.is_established();
        assert!(signalled || !open, "the last posting is not signalled");
        (sent, kick)
    }

    /// The work requests of a posting.
    fn chain(&mut self, post: &Post, memory: &mut Memory) -> Vec<SqWr> {
        let one = |wr: WrId, op: SqOp, signal: bool| SqWr {
            id: wr.to_raw(),
            op,
            signal,
        };
        match *post {
            Post::Send {
                wr,
                slot,
                msg,
                op,
                reg,
                payload,
                signal,
                cksum,
            } => {
                let region = self.slots[usize::from(slot.0)];
                assert!(!self.qp.uses(region), "a send slot is used again too early");
                let emitted = msg
                    .emit(cksum, memory.slice_mut(region))
                    .expect("message can be emitted");
                let mut sges = vec![(base(region), emitted.len as u32)];
                if payload > 0 {
                    let source = match self.mem(op) {
                        Mem::Payload(source) => *source,
                        other => panic!("payload in {other:?}"),
                    };
                    let bytes = memory.read(base(source), usize::from(payload), "payload");
                    let bytes = bytes.to_vec();
                    if let Some(mut detached) = emitted.detached {
                        detached.update(&bytes);
                        detached
                            .finish(memory.slice_mut(region))
                            .expect("whole payload");
                    }
                    sges.push((base(source), u32::from(payload)));
                }
                let mut chain = Vec::new();
                if reg {
                    let key = self.key(op);
                    memory.reg_posted(key);
                    chain.push(one(wr.not_last(), SqOp::Reg { key }, false));
                }
                chain.push(one(wr, SqOp::Send { sges }, signal));
                chain
            }
            Post::Writes {
                wr,
                op,
                rx,
                count,
                signal,
            } => {
                let buf = &self.rx_bufs[usize::from(rx.0)];
                let max_sge = usize::from(self.limits.max_send_sge);
                let tx = self
                    .conn
                    .ours_mut()
                    .tx_mut(op)
                    .expect("operation of a posting");
                let Mem::Source { frags, cursor, .. } = &mut tx.mem else {
                    panic!("WRITE of {:?}", tx.mem);
                };
                let cursor = cursor.as_mut().expect("a planned transfer");
                let mut chain = Vec::new();
                for i in 0..count {
                    let mut sges = vec![SrcFrag::default(); max_sge];
                    let write = cursor
                        .next(frags, buf, &mut sges)
                        .expect("plan")
                        .expect("not at the end");
                    let last = i + 1 == count;
                    let sq_op = SqOp::Write {
                        sges: sges[..write.nsge].iter().map(|f| (f.addr, f.len)).collect(),
                        rkey: write.rkey,
                        remote: write.remote,
                    };
                    let id = if last { wr } else { wr.not_last() };
                    chain.push(one(id, sq_op, signal && last));
                }
                chain
            }
            Post::Inv { wr, op, signal } => {
                let key = self.key(Some(op));
                vec![one(wr, SqOp::Inv { key }, signal)]
            }
            Post::SentinelSq { wr } => vec![one(wr, SqOp::Sentinel, true)],
            Post::Recv { .. } | Post::SentinelRq { .. } => Vec::new(),
        }
    }

    fn mem(&self, op: Option<OpId>) -> &Mem {
        let op = op.expect("posting with an operation");
        let conn = self.conn.ours();
        &conn.tx(op).expect("operation of a posting").mem
    }

    fn key(&self, op: Option<OpId>) -> u32 {
        match self.mem(op) {
            Mem::Sink { key, .. } => *key,
            other => panic!("key of {other:?}"),
        }
    }
}

/// Our end of a connection under its lock.
struct Ours<'a, 'b> {
    ep: &'a mut Ep,
    memory: &'a mut Memory,
    faults: &'a mut PostFaults<'b>,
    /// Something was posted to the send queue.
    sent: bool,
    turns: u32,
    /// The last chain was signalled.
    signalled: bool,
}

impl Ours<'_, '_> {
    fn post_recv(&mut self, wr: WrId, rx: u16) -> Result<(), PostError> {
        match self.faults.fail(0) {
            Some(accepted) => Err(PostError {
                errno: -12,
                accepted,
            }),
            None => {
                self.ep.qp.post_recv(wr.to_raw(), rx);
                Ok(())
            }
        }
    }
}

impl Queue for Ours<'_, '_> {
    type Storage = Heap;
    type Tx = Tx;

    fn engine(&mut self) -> &mut Conn<Heap, Tx> {
        self.ep.conn.ours_mut()
    }

    fn post(&mut self, post: &Post) -> Result<(), PostError> {
        self.turns += 1;
        assert!(self.turns < 100_000, "posting does not end");
        let result = match *post {
            Post::Recv { wr, rx, more: _ } => self.post_recv(wr, rx.0),
            Post::SentinelRq { wr } => self.post_recv(wr, u16::MAX),
            Post::Send { .. }
            | Post::Writes { .. }
            | Post::Inv { .. }
            | Post::SentinelSq { .. } => {
                self.sent = true;
                let chain = self.ep.chain(post, self.memory);
                self.signalled = chain.last().is_some_and(|wr| wr.signal);
                post_chain(&mut self.ep.qp, chain, self.faults)
            }
        };
        self.ep.post_failed |= result.is_err();
        result
    }
}

fn post_chain(qp: &mut Qp, chain: Vec<SqWr>, faults: &mut PostFaults<'_>) -> Result<(), PostError> {
    let failed = faults.fail(chain.len());
    let take = failed.map_or(chain.len(), |n| n as usize);
    for wr in chain.into_iter().take(take) {
        qp.post_send(wr);
    }
    match failed {
        Some(accepted) => Err(PostError {
            errno: -12,
            accepted,
        }),
        None => Ok(()),
    }
}

/// The work requests of a message of the C driver, which is copied to `region`. Only the SEND is
/// signalled.
fn c_chain(chain: &cdriver::Chain, region: Region, memory: &mut Memory) -> Vec<SqWr> {
    let before = |op: SqOp| SqWr {
        id: chain.seq,
        op,
        signal: false,
    };
    let mut wrs = Vec::new();
    if let Some(key) = chain.reg {
        memory.reg_posted(key);
        wrs.push(before(SqOp::Reg { key }));
    }
    for write in &chain.writes {
        wrs.push(before(SqOp::Write {
            sges: write.sges.clone(),
            rkey: chain.rkey,
            remote: write.remote,
        }));
    }
    memory.slice_mut(region)[..chain.bytes.len()].copy_from_slice(&chain.bytes);
    let mut sges = vec![(base(region), chain.bytes.len() as u32)];
    sges.extend(chain.payload);
    wrs.push(SqWr {
        id: chain.seq | C_LAST,
        op: SqOp::Send { sges },
        signal: true,
    });
    wrs
}

fn completed_ours(
    conn: &mut Conn<Heap, Tx>,
    rx_bufs: &[Vec<u8>],
    now: Instant,
    (cqe, status): (Cqe, WcStatus),
) -> bool {
    let completion = Completion::new(cqe.id, status);
    match completion {
        Completion::Received { wr, rx } => {
            assert!(cqe.recv);
            let buf = &rx_bufs[usize::from(rx.0)];
            let parsed = Message::parse(&buf[..cqe.byte_len]);
            received(conn, now, wr, &parsed);
            match parsed {
                Ok(msg) => msg.swapped,
                Err(e) => panic!("message cannot be parsed: {e}"),
            }
        }
        Completion::RecvFailed { .. } | Completion::Sent { .. } => {
            completion.feed(conn, now);
            false
        }
        Completion::Unknown => panic!("bad id {:#x}", cqe.id),
    }
}
