// SPDX-License-Identifier: GPL-2.0

//! What is posted, and when.

use super::{
    count,
    ops::{
        Op,
        OpEvent,
        OpPhase,
        OpQueue,
        Work, //
    },
    rx::Grant,
    sq::Purpose,
    state::{
        ConnEvent,
        ConnState, //
        Sentinel,
    },
    Conn,
    Pending,
    Sink, //
};
use crate::proto::{
    slab::Storage,
    Cause,
    Instant,
    OpId,
    RxId,
    SlotId,
    WrId, //
};
use crate::wire::{
    self,
    Body,
    Completion,
    DescOut,
    Detached,
    EmitError,
    Endian,
    Frag,
    Header,
    MsgType,
    Version, //
};

/// Body of a message to be sent: with our sink, and without the payload of an IMMEDIATE, which is
/// in a buffer of the transmission.
pub type OutBody = Body<Sink, ()>;

/// A message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutMsg {
    /// The header; its credits count as the peer's from now on.
    pub hdr: Header,
    /// What follows the header.
    pub body: OutBody,
}

/// What [`OutMsg::emit`] has written.
#[derive(Clone, Copy, Debug)]
pub struct Emitted {
    /// Bytes in the message buffer.
    pub len: usize,
    /// For an IMMEDIATE with payload and a checksum: feed it the payload, then finish it.
    pub detached: Option<Detached>,
}

impl OutMsg {
    /// The type of the message.
    pub const fn kind(&self) -> MsgType {
        self.body.kind()
    }

    /// Writes the message to the start of a slot's buffer. The payload of an IMMEDIATE is not
    /// written: it goes out as an SGE of its own. 192 bytes are enough for every message.
    ///
    /// # Errors
    ///
    /// Those of [`wire::emit`].
    pub fn emit(&self, cksum: bool, buf: &mut [u8]) -> Result<Emitted, EmitError> {
        match self.body {
            Body::Immediate { hdr, .. } if hdr.payload_len > 0 => {
                let detached = wire::emit_detached(&self.hdr, &hdr, Endian::NATIVE, buf)?;
                Ok(Emitted {
                    len: wire::IMMEDIATE_HDR,
                    detached: cksum.then_some(detached),
                })
            }
            body => {
                let frag = body.desc().map(Sink::frag);
                let key = |sink: Sink| DescOut {
                    key: sink.key,
                    frags: frag.as_slice(),
                };
                let body = body.map(key, |()| &[][..]);
                let len = wire::emit(&self.hdr, &body, cksum, Endian::NATIVE, buf)?;
                Ok(Emitted {
                    len,
                    detached: None,
                })
            }
        }
    }
}

impl Sink {
    const fn frag(&self) -> Frag {
        Frag {
            addr: self.addr,
            nob: self.nob,
        }
    }
}

/// Requests to be posted, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Post {
    /// A receive of one message.
    Recv {
        /// Id of the request.
        wr: WrId,
        /// Receive buffer, the device's until the completion.
        rx: RxId,
        /// Whether another receive follows, so that they can be posted as one chain. Those that
        /// are collected are reported as posted; a failure is reported with the last one.
        more: bool,
    },
    /// A message, sent with SEND.
    Send {
        /// Id of the SEND; that of a REG is [`WrId::not_last`] of it.
        wr: WrId,
        /// Buffer that the message is written into; the device's until the completion.
        slot: SlotId,
        /// What to write into it.
        msg: OutMsg,
        /// The operation, if its memory is needed: payload or MR.
        op: Option<OpId>,
        /// Put the REG of the operation's MR in front.
        reg: bool,
        /// Bytes of payload in the operation's own buffer: the second SGE. 0: none.
        payload: u16,
        /// Whether the SEND is signalled.
        signal: bool,
        /// Whether the message is to have a checksum.
        cksum: bool,
    },
    /// The next RDMA WRITEs of a transfer.
    Writes {
        /// Id of the last one; that of the others is [`WrId::not_last`] of it.
        wr: WrId,
        /// The operation; its cursor says where to go on.
        op: OpId,
        /// Buffer with the fragments of the peer's descriptor.
        rx: RxId,
        /// Number of WRITEs, at least 1.
        count: u16,
        /// Whether the last one is signalled.
        signal: bool,
    },
    /// LOCAL_INV of the operation's MR.
    Inv {
        /// Id of the request.
        wr: WrId,
        /// The operation, a sink.
        op: OpId,
        /// Whether it is signalled.
        signal: bool,
    },
    /// A request that is flushed behind everything else on the send queue, signalled.
    SentinelSq {
        /// Id of the request.
        wr: WrId,
    },
    /// A request that is flushed behind everything else on the receive queue.
    SentinelRq {
        /// Id of the request.
        wr: WrId,
    },
}

/// A post call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostError {
    /// Negative errno.
    pub errno: i32,
    /// Requests of the chain that the device took nevertheless.
    pub accepted: u32,
}

/// What is posted to the send queue next.
#[derive(Clone, Copy)]
enum Pick {
    Inv(OpId),
    Writes(OpId, u16),
    Noop,
    Msg(OpId),
}

impl<S: Storage, T> Conn<S, T> {
    /// The next requests to post, under the lock. Report with [`Conn::posted`] before pulling
    /// again, and pull until there are none.
    pub fn poll_post(&mut self, now: Instant) -> Option<Post> {
        if self.pending.is_some() {
            count(&mut self.counters.bad_inputs);
            return None;
        }
        match self.state {
            ConnState::Connecting { .. } => self.poll_recv(),
            ConnState::Established => self.poll_recv().or_else(|| self.poll_send(now)),
            ConnState::Closing { .. } | ConnState::Drained { .. } => None,
            ConnState::Draining { sq, rq, stuck, .. } => match (stuck, sq, rq) {
                (true, _, _) => None,
                (false, Sentinel::Unposted, _) => {
                    self.pending = Some(Pending::SentinelSq);
                    let wr = WrId::SENTINEL_SQ;
                    Some(Post::SentinelSq { wr })
                }
                (false, Sentinel::Posted | Sentinel::Flushed, Sentinel::Unposted) => {
                    self.pending = Some(Pending::SentinelRq);
                    let wr = WrId::SENTINEL_RQ;
                    Some(Post::SentinelRq { wr })
                }
                (
                    false,
                    Sentinel::Posted | Sentinel::Flushed,
                    Sentinel::Posted | Sentinel::Flushed,
                ) => None,
            },
        }
    }

    fn poll_recv(&mut self) -> Option<Post> {
        let (wr, rx, more) = self.rx.start_post()?;
        self.pending = Some(Pending::Recv(rx));
        Some(Post::Recv { wr, rx, more })
    }

    fn poll_send(&mut self, now: Instant) -> Option<Post> {
        self.promote();
        match self.pick(now)? {
            Pick::Inv(op) => self.post_inv(now, op),
            Pick::Writes(op, n) => self.post_writes(now, op, n),
            Pick::Noop => Some(self.post_noop(now)),
            Pick::Msg(op) => self.post_msg(now, op),
        }
    }

    /// Sets receives aside for the answers to requests, which may then use credits.
    fn promote(&mut self) {
        // Every turn takes one off the queue.
        while let Some(op) = self.ops.front(OpQueue::Reserve) {
            if !self.credits.reserve() {
                break;
            }
            self.ops.enter(op, OpPhase::Credit);
        }
    }

    /// What to post next (section 12.4): LOCAL_INVs, then answers and DONEs, then a NOOP if one is
    /// due, then messages that need a credit. If the first of these cannot be posted, nothing is.
    fn pick(&self, now: Instant) -> Option<Pick> {
        let avail = self.sq.avail();
        if let Some(op) = self.ops.front(OpQueue::Inv) {
            return (avail >= 1).then_some(Pick::Inv(op));
        }
        if let Some(id) = self.ops.front(OpQueue::Reply) {
            let op = self.ops.get(id)?;
            let left = op.transfer.map_or(0, |transfer| transfer.left);
            if left > 0 {
                return self.pick_writes(id, left);
            }
            return self.fits(op, avail).then_some(Pick::Msg(id));
        }
        if self.noop_due(now) {
            return Some(Pick::Noop);
        }
        let id = self.ops.front(OpQueue::Credit)?;
        let op = self.ops.get(id)?;
        // The last credit of version 1 is kept for a NOOP.
        let kept = match self.limits.version {
            Version::V2 => 0,
            Version::V1 => 1,
        };
        (self.credits.held() > kept && self.fits(op, avail)).then_some(Pick::Msg(id))
    }

    /// A chain is split where the send queue is full, but not into very small parts. Waiting until
    /// half the queue is free cannot deadlock: whatever is posted completes.
    fn pick_writes(&self, id: OpId, left: u16) -> Option<Pick> {
        let avail = self.sq.avail();
        let enough = u32::from(left).min((self.sq.capacity() / 2).max(1));
        if avail < enough {
            return None;
        }
        let n = left.min(u16::try_from(avail).unwrap_or(u16::MAX));
        Some(Pick::Writes(id, n))
    }

    /// Whether there is room for the message of `op`.
    fn fits(&self, op: &Op<T>, avail: u32) -> bool {
        let wrs = if op.work.has_sink() { 2 } else { 1 };
        avail >= wrs && self.sq.sends() < self.limits.concurrent_sends
    }

    /// Whether a NOOP may go, if there is a reason (section 12.3).
    fn noop_allowed(&self) -> bool {
        let room = self.sq.avail() >= 1 && self.sq.sends() < self.limits.concurrent_sends;
        let no_replies = self.ops.len(OpQueue::Reply) == 0 && self.ops.len(OpQueue::Inv) == 0;
        let no_msgs = self.ops.len(OpQueue::Credit) == 0;
        let held = self.credits.held();
        let allowed = match self.limits.version {
            Version::V2 => self.sq.noops() < self.limits.version.oob() && (no_msgs || held == 0),
            Version::V1 => {
                held > 0
                    && !(held == 1 && self.credits.outstanding() == 0)
                    && (no_msgs || held == 1)
            }
        };
        room && no_replies && allowed
    }

    fn noop_due(&self, now: Instant) -> bool {
        let owed = self.credits.outstanding() >= self.limits.hiw;
        let idle = self
            .live
            .keepalive
            .is_some_and(|span| self.last_send.after(span).passed(now));
        (owed || idle) && self.noop_allowed()
    }

    fn post_inv(&mut self, now: Instant, id: OpId) -> Option<Post> {
        let (wr, _) = self.sq.push(Purpose::Inv, Some(id), 1, now);
        self.ops.enter(id, OpPhase::InvSent);
        self.pending = Some(Pending::Send(Some(id)));
        let signal = self.signal(now, false);
        Some(Post::Inv { wr, op: id, signal })
    }

    fn post_writes(&mut self, now: Instant, id: OpId, n: u16) -> Option<Post> {
        let op = self.ops.get_mut(id)?;
        let transfer = op.transfer.as_mut()?;
        transfer.left = transfer.left.saturating_sub(n);
        let rx = transfer.rx;
        op.postings = op.postings.saturating_add(1);
        let wrs = u32::from(n);
        let (wr, _) = self.sq.push(Purpose::Writes, Some(id), wrs, now);
        self.pending = Some(Pending::Send(Some(id)));
        self.counters.tx_writes = self.counters.tx_writes.saturating_add(wrs);
        let signal = self.signal(now, false);
        Some(Post::Writes {
            wr,
            op: id,
            rx,
            count: n,
            signal,
        })
    }

    fn post_noop(&mut self, now: Instant) -> Post {
        if self.limits.version == Version::V1 {
            self.credits.take();
        }
        count(&mut self.counters.tx_noops);
        let (wr, slot) = self.sq.push(Purpose::Noop, None, 1, now);
        self.pending = Some(Pending::Send(None));
        let msg = self.out_msg(now, Body::Noop);
        Post::Send {
            wr,
            slot,
            msg,
            op: None,
            reg: false,
            payload: 0,
            signal: self.signal(now, true),
            cksum: self.live.cksum,
        }
    }

    fn post_msg(&mut self, now: Instant, id: OpId) -> Option<Post> {
        let op = self.ops.get_mut(id)?;
        let body = body(op)?;
        let (next, reg) = (after_post(op), op.work.has_sink());
        let ends = next == OpPhase::Sent;
        let purpose = if ends {
            Purpose::Final
        } else {
            Purpose::Message
        };
        if ends {
            op.postings = op.postings.saturating_add(1);
        }
        op.exposed |= reg;
        let payload = match op.work {
            Work::Immediate { payload, .. } => payload,
            Work::Put { .. }
            | Work::Get { .. }
            | Work::PutSink { .. }
            | Work::GetSource
            | Work::Nak { .. }
            | Work::NoData { .. } => 0,
        };
        if op.phase() == OpPhase::Credit {
            self.credits.take();
        }
        self.finish(id, next);
        let live = self.ops.get(id).map(|_| id);
        let wrs = if reg { 2 } else { 1 };
        let (wr, slot) = self.sq.push(purpose, live.filter(|_| ends), wrs, now);
        self.pending = Some(Pending::Send(live));
        let msg = self.out_msg(now, body);
        Some(Post::Send {
            wr,
            slot,
            msg,
            op: live.filter(|_| reg || payload > 0),
            reg,
            payload,
            signal: self.signal(now, ends),
            cksum: self.live.cksum,
        })
    }

    fn out_msg(&mut self, now: Instant, body: OutBody) -> OutMsg {
        self.last_send = now;
        count(&mut self.counters.tx_msgs);
        OutMsg {
            hdr: Header {
                version: self.limits.version,
                credits: self.credits.announce(),
                src: self.ident.local,
                src_stamp: self.ident.local_stamp,
                dst: self.ident.peer,
                dst_stamp: self.ident.peer_stamp,
            },
            body,
        }
    }

    /// Whether the posting entered last is signalled: when somebody waits for it, when nothing
    /// follows it, and often enough.
    fn signal(&mut self, now: Instant, waited_for: bool) -> bool {
        let signal = waited_for || self.sq.signal_due() || self.pick(now).is_none();
        if signal {
            self.sq.set_signal();
        }
        signal
    }

    /// Reports whether the requests that were pulled last could be posted.
    pub fn posted(&mut self, now: Instant, result: Result<(), PostError>) {
        let Some(pending) = self.pending.take() else {
            return count(&mut self.counters.bad_inputs);
        };
        match (pending, result) {
            (Pending::Recv(rx), Ok(())) => self.recv_posted(now, rx),
            (Pending::Recv(rx), Err(error)) => {
                // Whatever the device took of it ends with the QP.
                self.event(now, ConnEvent::Close(Cause::PostFailed(error.errno)));
                self.rx.release(rx, Grant::Nothing, false);
            }
            (Pending::Send(op), Ok(())) => {
                if let Some(id) = op {
                    self.writes_posted(id);
                }
            }
            (Pending::Send(op), Err(error)) => self.post_failed(now, op, error),
            (Pending::SentinelSq, Ok(())) => self.event(now, ConnEvent::SqPosted),
            (Pending::SentinelRq, Ok(())) => self.event(now, ConnEvent::RqPosted),
            (Pending::SentinelSq | Pending::SentinelRq, Err(_)) => {
                self.event(now, ConnEvent::DrainFailed);
            }
        }
    }

    /// The peer may be told of a receive only once it has been posted.
    fn recv_posted(&mut self, now: Instant, rx: RxId) {
        let conserved = match self.rx.end_post(rx) {
            Some(Grant::Nothing) => true,
            Some(Grant::Credit) => self.credits.owe(),
            Some(Grant::Reserve) => self.credits.unreserve(),
            None => false,
        };
        if !conserved {
            count(&mut self.counters.bad_inputs);
            self.event(now, ConnEvent::Close(Cause::BadInput));
        }
    }

    fn writes_posted(&mut self, id: OpId) {
        let last = self.ops.get(id).is_some_and(|op| {
            op.phase() == OpPhase::Reply && op.transfer.is_some_and(|transfer| transfer.left == 0)
        });
        if last {
            self.release_desc(id);
        }
    }

    /// The device may have parts of the chain, so its operation ends with the QP, whatever the
    /// device says about how much it took.
    fn post_failed(&mut self, now: Instant, op: Option<OpId>, error: PostError) {
        let cause = Cause::PostFailed(error.errno);
        if let Some(id) = op {
            let done = cause.outcome_at(crate::proto::Stage::Sending).into();
            self.ops.update(id, |op| op.conclude(done));
            self.op_event(id, OpEvent::PostFailed);
        }
        self.event(now, ConnEvent::Close(cause));
    }
}

/// When a NOOP will be due to show that the connection is alive.
pub(super) fn noop_interval<S: Storage, T>(conn: &Conn<S, T>) -> Option<Instant> {
    let span = conn.live.keepalive.filter(|_| conn.noop_allowed())?;
    Some(conn.last_send.after(span))
}

/// The message of an operation that is about to be posted.
fn body<T>(op: &Op<T>) -> Option<OutBody> {
    let completion = |cookie, status| Completion { cookie, status };
    Some(match op.work {
        Work::Immediate { hdr, .. } => Body::Immediate { hdr, payload: () },
        Work::Put { hdr, .. } => match op.transfer {
            None => Body::PutReq {
                hdr,
                cookie: op.cookie,
            },
            Some(transfer) => Body::PutDone(completion(transfer.cookie, transfer.status)),
        },
        Work::Get { hdr, sink } => Body::GetReq {
            hdr,
            cookie: op.cookie,
            desc: sink,
        },
        Work::PutSink { src, sink } => Body::PutAck {
            src_cookie: src,
            dst_cookie: op.cookie,
            desc: sink,
        },
        Work::GetSource => {
            let transfer = op.transfer?;
            Body::GetDone(completion(transfer.cookie, transfer.status))
        }
        Work::Nak { cookie, status } => Body::PutNak(completion(cookie, status)),
        Work::NoData { cookie, status } => Body::GetDone(completion(cookie, status)),
    })
}

/// The phase after the message of an operation has been posted.
fn after_post<T>(op: &Op<T>) -> OpPhase {
    match op.work {
        Work::Immediate { .. } | Work::GetSource => OpPhase::Sent,
        Work::Put { .. } => match op.transfer {
            None => OpPhase::Wait,
            Some(_) => OpPhase::Sent,
        },
        Work::Get { .. } | Work::PutSink { .. } => OpPhase::Wait,
        Work::Nak { .. } | Work::NoData { .. } => OpPhase::Finish,
    }
}
