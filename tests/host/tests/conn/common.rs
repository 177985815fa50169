// SPDX-License-Identifier: GPL-2.0

//! A connection on a bench: the test is the driver, the device, LNet and the peer.

use ko2iblnd_host::lnet_msg::{LnetGet, LnetPut, WireMd};
use ko2iblnd_host::proto::conn::{
    Action, Conn, Delivery, OutBody, OutMsg, Post, PostError, Role, Sink, Submit, WcStatus,
};
use ko2iblnd_host::proto::{
    Cause, DeviceCaps, Done, Instant, Limits, NiTunables, OpId, Refused, RxId, Span, WrId,
};
use ko2iblnd_host::sim::Heap;
use ko2iblnd_host::wire::{
    emit, BodyOut, Completion, ConnParams, Cookie, DescOut, Endian, Frag, Header, Identity,
    LnetHdr, LnetMsgType, Message, Nid, Stamp, Version,
};
use std::collections::VecDeque;

pub(crate) const US: Nid = Nid::o2ib(0, 0xc0a8_0105);
pub(crate) const THEM: Nid = Nid::o2ib(0, 0xc0a8_0106);
pub(crate) const OUR_STAMP: Stamp = Stamp(0x0005_f0a1_b2c3_d4e5);
pub(crate) const THEIR_STAMP: Stamp = Stamp(0x0005_f0a1_b2c3_d4f6);
pub(crate) const T: Span = Span::from_secs(50);
pub(crate) const KEY: u32 = 0x1234;

/// A message that cannot be copied by mistake.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tx(pub(crate) u32);

pub(crate) fn tunables(depth: u16) -> NiTunables {
    NiTunables {
        peer_credits: depth,
        credits_hiw: depth / 2,
        concurrent_sends: depth,
        max_frags: 257,
        wrq_sge: 2,
        timeout: T,
        connect_timeout: Span::from_millis(12_500),
        keepalive: None,
        conns_per_peer: 1,
        cksum: false,
    }
}

pub(crate) const CAPS: DeviceCaps = DeviceCaps {
    max_qp_wr: 1 << 20,
    max_cqe: 32767,
    max_send_sge: 32,
    max_mr_pages: 512,
};

pub(crate) fn ident() -> Identity {
    Identity {
        peer: THEM,
        peer_stamp: THEIR_STAMP,
        local: US,
        local_stamp: OUR_STAMP,
    }
}

/// How a message ended, and whether that came after the drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) tx: u32,
    pub(crate) done: Done,
    pub(crate) drained: bool,
}

/// What was posted to the send queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posted {
    pub(crate) wr: WrId,
    pub(crate) wrs: u32,
    pub(crate) signal: bool,
}

pub(crate) struct Bench {
    pub(crate) conn: Conn<Heap, Tx>,
    pub(crate) now: Instant,
    pub(crate) rq: VecDeque<WrId>,
    /// On the send queue, not completed.
    pub(crate) sq: VecDeque<Posted>,
    /// Messages sent so far.
    pub(crate) sent: Vec<OutMsg>,
    pub(crate) posts: Vec<Post>,
    pub(crate) ends: Vec<End>,
    pub(crate) delivered: Vec<(RxId, LnetHdr, Delivery)>,
    /// Other actions, in order.
    pub(crate) acts: Vec<Action<()>>,
    /// The next post fails with this many requests accepted.
    pub(crate) fail_post: Option<u32>,
    pub(crate) auto_plan: bool,
    /// Why commands were refused; for those who note it.
    pub(crate) refused: Vec<Cause>,
}

impl Bench {
    /// A connection that is not established.
    pub(crate) fn connecting(role: Role, tunables: &NiTunables) -> Self {
        let limits = Limits::new(tunables, &CAPS, Version::V2, None).unwrap();
        Self::with(role, tunables, limits)
    }

    pub(crate) fn with(role: Role, tunables: &NiTunables, limits: Limits) -> Self {
        let mut ident = ident();
        if role == Role::Active {
            ident.peer_stamp = Stamp::UNKNOWN;
        }
        let now = Instant(1_000_000_000);
        let Ok(conn) = Conn::new(&mut Heap, role, ident, limits, tunables, now);
        let mut bench = Self {
            conn,
            now,
            rq: VecDeque::new(),
            sq: VecDeque::new(),
            sent: Vec::new(),
            posts: Vec::new(),
            ends: Vec::new(),
            delivered: Vec::new(),
            acts: Vec::new(),
            fail_post: None,
            auto_plan: true,
            refused: Vec::new(),
        };
        bench.pump();
        bench
    }

    /// An established connection, passive side.
    pub(crate) fn open(depth: u16) -> Self {
        Self::open_with(&tunables(depth))
    }

    pub(crate) fn open_with(tunables: &NiTunables) -> Self {
        let mut bench = Self::connecting(Role::Passive, tunables);
        bench.conn.handle_established(bench.now, None);
        bench.pump();
        assert!(bench.conn.is_established());
        bench
    }

    pub(crate) fn pass(&mut self, span: Span) {
        self.now = self.now.after(span);
    }

    /// Posts everything and collects actions; runs those that need nothing but the engine.
    pub(crate) fn pump(&mut self) {
        loop {
            self.post_all();
            let more = self.conn.has_actions();
            let action = self.conn.poll_action();
            assert_eq!(action.is_some(), more);
            let Some(action) = action else {
                break;
            };
            // With an action that has not been run, a connection is not over.
            assert!(!self.conn.has_actions() || !self.conn.is_released());
            self.act(action);
        }
        let over = self.conn.is_drained() && self.conn.snapshot().rx_held == 0;
        assert_eq!(self.conn.is_released(), over);
    }

    fn post_all(&mut self) {
        while let Some(post) = self.conn.poll_post(self.now) {
            self.posts.push(post);
            let failed = match post {
                Post::Recv { .. } | Post::SentinelRq { .. } => None,
                _ => self.fail_post.take(),
            };
            if let Some(accepted) = failed {
                self.conn.posted(
                    self.now,
                    Err(PostError {
                        errno: -12,
                        accepted,
                    }),
                );
                continue;
            }
            match post {
                Post::Recv { wr, .. } | Post::SentinelRq { wr } => self.rq.push_back(wr),
                Post::Send {
                    wr,
                    msg,
                    reg,
                    signal,
                    ..
                } => {
                    self.sent.push(msg);
                    self.push(wr, 1 + u32::from(reg), signal);
                }
                Post::Writes {
                    wr, count, signal, ..
                } => self.push(wr, u32::from(count), signal),
                Post::Inv { wr, signal, .. } => self.push(wr, 1, signal),
                Post::SentinelSq { wr } => self.push(wr, 1, true),
            }
            self.conn.posted(self.now, Ok(()));
        }
    }

    fn push(&mut self, wr: WrId, wrs: u32, signal: bool) {
        self.sq.push_back(Posted { wr, wrs, signal });
    }

    fn act(&mut self, action: Action<Tx>) {
        match action {
            Action::Deliver { rx, hdr, kind } => self.delivered.push((rx, hdr, kind)),
            Action::Finish { tx, done } => self.ended(tx, done, false),
            Action::FinishAfterDrain { tx, done } => {
                assert!(self.conn.is_drained());
                self.ended(tx, done, true);
            }
            Action::Plan { op, rx, desc } => {
                self.acts.push(Action::Plan { op, rx, desc });
                if self.auto_plan {
                    self.conn.put_planned(self.now, op, Ok(desc.nfrags()));
                }
            }
            Action::Established(info) => self.acts.push(Action::Established(info)),
            Action::NotifyEstablished => self.acts.push(Action::NotifyEstablished),
            Action::Closed {
                cause,
                alive,
                established,
            } => self.acts.push(Action::Closed {
                cause,
                alive,
                established,
            }),
            Action::Disconnect { cause } => self.acts.push(Action::Disconnect { cause }),
            Action::DestroyQp => self.acts.push(Action::DestroyQp),
            Action::Drained { forced } => self.acts.push(Action::Drained { forced }),
        }
    }

    fn ended(&mut self, tx: Tx, done: Done, drained: bool) {
        let twice = self.ends.iter().any(|end| end.tx == tx.0);
        assert!(!twice, "{tx:?} ended twice");
        self.ends.push(End {
            tx: tx.0,
            done,
            drained,
        });
    }

    pub(crate) fn end(&self, tx: u32) -> Option<End> {
        self.ends.iter().copied().find(|end| end.tx == tx)
    }

    pub(crate) fn status(&self, tx: u32) -> Option<i32> {
        self.end(tx).map(|end| end.done.status)
    }

    /// The body of the message sent last.
    pub(crate) fn last_sent(&self) -> OutBody {
        self.sent.last().unwrap().body
    }

    // --- the peer ------------------------------------------------------------------------------

    pub(crate) fn hdr_from_peer(&self, credits: u8) -> Header {
        Header {
            version: self.conn.limits().version,
            credits,
            src: THEM,
            src_stamp: THEIR_STAMP,
            dst: US,
            dst_stamp: OUR_STAMP,
        }
    }

    /// The peer sends a message that gives `credits` back.
    pub(crate) fn recv_with(&mut self, credits: u8, body: &BodyOut<'_>) {
        let hdr = self.hdr_from_peer(credits);
        self.recv_raw(&hdr, body);
    }

    pub(crate) fn recv(&mut self, body: &BodyOut<'_>) {
        self.recv_with(0, body);
    }

    pub(crate) fn recv_raw(&mut self, hdr: &Header, body: &BodyOut<'_>) {
        let wr = self.rq.pop_front().expect("a receive is posted");
        let bytes = bytes(hdr, body);
        let msg = Message::parse(&bytes).unwrap();
        self.conn.handle_msg(self.now, wr, &msg);
        self.pump();
    }

    pub(crate) fn recv_immediate(&mut self, len: u32) {
        let payload = vec![7; len as usize];
        self.recv(&BodyOut::Immediate {
            hdr: lnet(LnetMsgType::Put, len),
            payload: &payload,
        });
    }

    pub(crate) fn recv_put_req(&mut self, cookie: u64) {
        self.recv(&BodyOut::PutReq {
            hdr: lnet(LnetMsgType::Put, 8192),
            cookie: Cookie(cookie),
        });
    }

    pub(crate) fn recv_get_req(&mut self, cookie: u64, frags: &[Frag]) {
        let total = frags.iter().map(|frag| frag.nob).sum();
        self.recv(&BodyOut::GetReq {
            hdr: get_hdr(total),
            cookie: Cookie(cookie),
            desc: DescOut { key: 9, frags },
        });
    }

    /// The answer to the PUT_REQ or GET_REQ sent as number `index`.
    pub(crate) fn cookie_sent(&self, index: usize) -> Cookie {
        match self.sent[index].body {
            OutBody::PutReq { cookie, .. } | OutBody::GetReq { cookie, .. } => cookie,
            OutBody::PutAck { dst_cookie, .. } => dst_cookie,
            other => panic!("no cookie in {other:?}"),
        }
    }

    pub(crate) fn recv_put_ack(&mut self, cookie: Cookie, frags: &[Frag]) {
        self.recv(&BodyOut::PutAck {
            src_cookie: cookie,
            dst_cookie: Cookie(77),
            desc: DescOut { key: 9, frags },
        });
    }

    // --- the device ----------------------------------------------------------------------------

    /// Completes the oldest `n` postings well.
    pub(crate) fn complete(&mut self, n: usize) {
        for _ in 0..n {
            let Some(posted) = self.sq.pop_front() else {
                break;
            };
            if posted.signal {
                self.conn
                    .handle_send_completion(self.now, posted.wr, WcStatus::Success);
            }
        }
        self.pump();
    }

    /// Completes until nothing more is posted.
    pub(crate) fn complete_all(&mut self) {
        while !self.sq.is_empty() {
            self.complete(usize::MAX);
        }
    }

    /// The QP goes to the error state: everything is flushed, then the engine is told.
    pub(crate) fn flush(&mut self) {
        self.flush_queues();
        self.conn.handle_qp_error_state(self.now);
        self.pump();
        self.flush_queues();
    }

    fn flush_queues(&mut self) {
        let (sq, rq) = (std::mem::take(&mut self.sq), std::mem::take(&mut self.rq));
        for posted in sq {
            for _ in 1..posted.wrs {
                self.conn
                    .handle_send_completion(self.now, posted.wr.not_last(), WcStatus::Flushed);
            }
            self.conn
                .handle_send_completion(self.now, posted.wr, WcStatus::Flushed);
        }
        for wr in rq {
            self.conn.handle_recv_error(self.now, wr, true);
        }
        self.pump();
    }

    /// Disconnects, flushes, and checks that nothing is left.
    pub(crate) fn tear_down(&mut self) {
        self.conn.close(self.now, Cause::Deleted);
        self.pump();
        self.flush();
        for (rx, ..) in std::mem::take(&mut self.delivered) {
            self.conn.rx_done(self.now, rx);
        }
        self.pump();
        let left = self.conn.snapshot();
        assert!(self.conn.is_released(), "{left:?}");
        assert_eq!((left.ops, left.rx_posted, left.sq_used), (0, 0, 0));
        assert!(matches!(self.acts.last(), Some(Action::Drained { .. })));
    }

    /// The same for a connection that may have ended already, in whichever way.
    pub(crate) fn tear_down_hard(&mut self) {
        self.conn.close(self.now, Cause::Deleted);
        self.pump();
        if !self.conn.is_drained() {
            self.flush();
        }
        for (rx, ..) in std::mem::take(&mut self.delivered) {
            self.conn.rx_done(self.now, rx);
        }
        self.pump();
        assert!(self.conn.is_released(), "{:?}", self.conn.snapshot());
    }

    // --- LNet ------------------------------------------------------------------------------------

    pub(crate) fn submit(&mut self, tx: u32, what: Submit) -> Result<OpId, Refused<Tx>> {
        let result = self.conn.submit(self.now, Tx(tx), what);
        self.pump();
        result
    }

    pub(crate) fn send_immediate(&mut self, tx: u32) {
        self.submit(tx, immediate(16)).unwrap();
    }

    pub(crate) fn send_put(&mut self, tx: u32, len: u32) {
        self.submit(tx, put(len)).unwrap();
    }

    pub(crate) fn send_get(&mut self, tx: u32, len: u32) {
        self.submit(tx, get(len)).unwrap();
    }

    pub(crate) fn take_delivered(&mut self) -> (RxId, LnetHdr, Delivery) {
        self.delivered.remove(0)
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        self.conn.cause()
    }
}

pub(crate) fn bytes(hdr: &Header, body: &BodyOut<'_>) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let len = emit(hdr, body, false, Endian::NATIVE, &mut buf).unwrap();
    buf.truncate(len);
    buf
}

pub(crate) fn connack(params: ConnParams) -> Vec<u8> {
    let hdr = Header {
        version: Version::V2,
        credits: 0,
        src: THEM,
        src_stamp: THEIR_STAMP,
        dst: US,
        dst_stamp: OUR_STAMP,
    };
    bytes(&hdr, &BodyOut::ConnAck(params))
}

pub(crate) fn params(queue_depth: u16, max_frags: u16) -> ConnParams {
    ConnParams {
        queue_depth,
        max_frags,
        max_msg_size: 4096,
    }
}

pub(crate) fn lnet(kind: LnetMsgType, payload_len: u32) -> LnetHdr {
    let put = LnetPut {
        ack_md: WireMd::NONE,
        match_bits: 1,
        hdr_data: 0,
        ptl_index: 4,
        offset: 0,
    };
    LnetHdr {
        dest_nid: US,
        src_nid: THEM,
        dest_pid: 12345,
        src_pid: 12345,
        kind,
        payload_len,
        msg: put.to_union(),
    }
}

pub(crate) fn get_hdr(sink_length: u32) -> LnetHdr {
    let get = LnetGet {
        return_md: WireMd::NONE,
        match_bits: 1,
        ptl_index: 4,
        src_offset: 0,
        sink_length,
    };
    LnetHdr {
        msg: get.to_union(),
        ..lnet(LnetMsgType::Get, 0)
    }
}

pub(crate) fn sink(nob: u32) -> Sink {
    Sink {
        key: KEY,
        addr: 0x7f80_0000_1200,
        nob,
    }
}

pub(crate) fn frag(nob: u32) -> Frag {
    Frag { addr: 0x1000, nob }
}

pub(crate) fn immediate(payload: u16) -> Submit {
    let hdr = lnet(LnetMsgType::Put, u32::from(payload));
    Submit::Immediate { hdr, payload }
}

pub(crate) fn put(len: u32) -> Submit {
    let hdr = lnet(LnetMsgType::Put, len);
    Submit::Put { hdr, len }
}

pub(crate) fn get(len: u32) -> Submit {
    Submit::Get {
        hdr: get_hdr(len),
        sink: sink(len),
    }
}

pub(crate) fn completion(cookie: Cookie, status: i32) -> Completion {
    Completion { cookie, status }
}
