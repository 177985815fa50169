// SPDX-License-Identifier: GPL-2.0

//! A peer, a device and a driver that do anything: the engine must not panic, must end every
//! message once, and must come to an end.

use crate::common::*;
use ko2iblnd_host::prng::Prng;
use ko2iblnd_host::proto::chain::ChainError;
use ko2iblnd_host::proto::conn::{Delivery, OutBody, Role, WcStatus};
use ko2iblnd_host::proto::{Cause, RxId, WrId};
use ko2iblnd_host::wire::{BodyOut, Cookie, DescOut, LnetHdr, LnetMsgType, Message, Stamp};

/// A cookie that is likely to mean something.
fn cookie(b: &Bench, prng: &mut Prng) -> Cookie {
    let mut cookies: Vec<Cookie> = b
        .sent
        .iter()
        .rev()
        .take(12)
        .filter_map(|msg| match msg.body {
            OutBody::PutReq { cookie, .. } | OutBody::GetReq { cookie, .. } => Some(cookie),
            OutBody::PutAck { dst_cookie, .. } => Some(dst_cookie),
            _ => None,
        })
        .collect();
    cookies.push(Cookie(prng.next_u64()));
    cookies[prng.index(cookies.len())]
}

fn status(prng: &mut Prng) -> i32 {
    [0, -1, 1, 8192, 8193, -12, i32::MIN, i32::MAX][prng.index(8)]
}

fn lnet_hdr(prng: &mut Prng, len: u32) -> LnetHdr {
    match prng.index(12) {
        0 => lnet(LnetMsgType::Ack, len),
        1 => lnet(LnetMsgType::Reply, len),
        2 => lnet(LnetMsgType::Hello, len),
        3 => lnet(LnetMsgType::Unknown(prng.next_u32()), len),
        4..=7 => lnet(LnetMsgType::Put, len),
        _ => LnetHdr {
            payload_len: len,
            ..get_hdr(8192)
        },
    }
}

fn message(b: &mut Bench, prng: &mut Prng) {
    if b.rq.is_empty() {
        return;
    }
    let mut hdr = b.hdr_from_peer(0);
    if prng.chance(1, 3) {
        hdr.credits = prng.range(0, 2) as u8;
    }
    if prng.chance(1, 200) {
        hdr.src_stamp = Stamp(0);
    }
    let frags: Vec<_> = (0..prng.range(1, 5))
        .map(|_| frag([0, 1, 4096, 8192][prng.index(4)]))
        .collect();
    let desc = DescOut {
        key: 9,
        frags: &frags,
    };
    let bytes = [0; 64];
    let len = prng.range(0, 64) as u32;
    let payload = &bytes[..len as usize];
    let cookie = cookie(b, prng);
    let done = completion(cookie, status(prng));
    let body = match prng.index(14) {
        0 => BodyOut::ConnAck(params(8, 257)),
        1 | 2 => BodyOut::Noop,
        3 | 4 => BodyOut::Immediate {
            hdr: lnet_hdr(prng, len),
            payload,
        },
        5 | 6 => BodyOut::PutReq {
            hdr: lnet_hdr(prng, 8192),
            cookie,
        },
        7 => BodyOut::PutNak(done),
        8 | 9 => BodyOut::PutAck {
            src_cookie: cookie,
            dst_cookie: Cookie(prng.next_u64()),
            desc,
        },
        10 => BodyOut::PutDone(done),
        11 | 12 => BodyOut::GetReq {
            hdr: lnet_hdr(prng, 0),
            cookie,
            desc,
        },
        _ => BodyOut::GetDone(done),
    };
    b.recv_raw(&hdr, &body);
}

/// What a peer that keeps to the protocol might send. `answered` are its cookies of before.
fn polite(b: &mut Bench, prng: &mut Prng, answered: &mut Vec<Cookie>) {
    let s = b.conn.snapshot();
    if b.rq.is_empty() || s.state != 3 {
        return;
    }
    let credits = u8::from(s.credits < s.queue_depth && prng.chance(1, 2));
    let open: Vec<OutBody> = b
        .sent
        .iter()
        .map(|msg| msg.body)
        .filter(|body| match body {
            OutBody::PutReq { cookie, .. } | OutBody::GetReq { cookie, .. } => {
                !answered.contains(cookie)
            }
            OutBody::PutAck { dst_cookie, .. } => !answered.contains(dst_cookie),
            _ => false,
        })
        .collect();
    let frags = [frag(4000), frag(192)];
    let desc = DescOut {
        key: 9,
        frags: &frags,
    };
    if !open.is_empty() && prng.chance(2, 3) {
        let body = match open[prng.index(open.len())] {
            OutBody::PutReq { cookie, .. } if prng.chance(1, 4) => {
                answered.push(cookie);
                BodyOut::PutNak(completion(cookie, 0))
            }
            OutBody::PutReq { cookie, .. } => {
                answered.push(cookie);
                BodyOut::PutAck {
                    src_cookie: cookie,
                    dst_cookie: Cookie(1),
                    desc,
                }
            }
            OutBody::GetReq { cookie, .. } => {
                answered.push(cookie);
                BodyOut::GetDone(completion(cookie, 8192))
            }
            OutBody::PutAck { dst_cookie, .. } => {
                answered.push(dst_cookie);
                BodyOut::PutDone(completion(dst_cookie, 8192))
            }
            other => panic!("{other:?}"),
        };
        return b.recv_with(credits, &body);
    }
    if s.granted == 0 {
        return b.recv_with(credits, &BodyOut::Noop);
    }
    let bytes = [0; 9];
    let body = match prng.index(3) {
        0 => BodyOut::Immediate {
            hdr: lnet(LnetMsgType::Put, 9),
            payload: &bytes,
        },
        1 => BodyOut::PutReq {
            hdr: lnet(LnetMsgType::Reply, 8192),
            cookie: Cookie(3),
        },
        _ => BodyOut::GetReq {
            hdr: get_hdr(8192),
            cookie: Cookie(4),
            desc,
        },
    };
    b.recv_with(credits, &body);
}

fn answer(b: &mut Bench, prng: &mut Prng, tx: u32) {
    if b.delivered.is_empty() {
        return;
    }
    let (rx, _, kind) = b.delivered.remove(prng.index(b.delivered.len()));
    let writes = match prng.index(4) {
        0 => Err(ChainError::SinkTooShort),
        _ => Ok(prng.range(0, 6) as u16),
    };
    let refused = match (kind, prng.index(5)) {
        (_, 0) => {
            b.conn.rx_done(b.now, rx);
            None
        }
        (Delivery::PutReq, 1 | 2) => b.conn.put_sink(b.now, rx, Tx(tx), sink(8192)).err(),
        (Delivery::PutReq, _) => {
            b.conn.put_nak(b.now, rx, status(prng));
            None
        }
        (Delivery::GetReq { .. }, 1 | 2) => {
            b.conn.get_source(b.now, rx, Tx(tx), 4096, writes).err()
        }
        (Delivery::GetReq { .. }, _) => {
            b.conn.get_done(b.now, rx, status(prng));
            None
        }
        (Delivery::Immediate, 1) if prng.chance(1, 20) => {
            b.conn.rx_refused(b.now, rx, -71);
            None
        }
        (Delivery::Immediate, _) => {
            b.conn.rx_done(b.now, rx);
            None
        }
    };
    b.pump();
    if refused.is_none() {
        return;
    }
    // It was not taken, so it must not end.
    assert!(b.end(tx).is_none());
}

/// What no driver should do, and no device.
fn nonsense(b: &mut Bench, prng: &mut Prng) {
    let wr = match prng.index(5) {
        0 => WrId::send(prng.range(0, 50)),
        1 => WrId::recv(RxId(prng.range(0, 40) as u16), prng.range(0, 3)),
        2 => WrId::SENTINEL_SQ,
        3 => WrId::SENTINEL_RQ,
        _ => WrId::send(prng.range(0, 50)).not_last(),
    };
    match prng.index(9) {
        0 => b.conn.handle_recv_error(b.now, wr, prng.chance(1, 2)),
        1 => b.conn.handle_send_completion(b.now, wr, WcStatus::Error(9)),
        2 => b.conn.handle_send_completion(b.now, wr, WcStatus::Flushed),
        3 => b.conn.posted(b.now, Ok(())),
        4 => b.conn.rx_done(b.now, RxId(prng.range(0, 40) as u16)),
        5 => b.conn.put_nak(b.now, RxId(prng.range(0, 40) as u16), 0),
        6 => b.conn.handle_established(b.now, None),
        7 => b.conn.handle_qp_error_state(b.now),
        _ => b.conn.handle_unknown_completion(b.now),
    }
    b.pump();
}

/// One schedule, also for the fuzzer. How many messages ended, and whether the connection lived.
pub(crate) fn schedule(mut prng: Prng) -> (usize, bool) {
    let mut t = tunables([1, 2, 4, 8][prng.index(4)]);
    t.concurrent_sends = prng.range(1, 9) as u16;
    let mut b = Bench::connecting(Role::Passive, &t);
    let mut started = Vec::new();
    let mut tx = 0;
    let steps = prng.range(5, 120);
    let open_at = prng.range(0, 5);
    let hostility = [0, 2, 10, 50][prng.index(4)];
    let mut answered = Vec::new();
    for step in 0..steps {
        if step == open_at {
            b.conn.handle_established(b.now, None);
            b.pump();
        }
        tx += 1;
        match prng.index(10) {
            0 | 1 => {
                let what = [immediate(9), put(8192), get(8192)][prng.index(3)];
                if b.submit(tx, what).is_ok() {
                    started.push(tx);
                }
            }
            2 | 3 => answer(&mut b, &mut prng, tx),
            4 => b.complete(prng.range(1, 4) as usize),
            5 if prng.chance(hostility, 500) => nonsense(&mut b, &mut prng),
            5 if prng.chance(hostility, 1000) => b.fail_post = Some(prng.range(0, 3) as u32),
            _ if prng.chance(hostility, 100) => message(&mut b, &mut prng),
            _ => polite(&mut b, &mut prng, &mut answered),
        }
        if prng.chance(1, 100) {
            b.pass(ko2iblnd_host::proto::Span::from_secs(prng.range(1, 30)));
            b.conn.handle_timeout(b.now);
            b.pump();
        }
        check(&b);
    }
    let alive = b.conn.is_established();
    finish(&mut b);
    for tx in started {
        assert!(b.end(tx).is_some(), "message {tx} never ended");
    }
    (b.ends.len(), alive)
}

fn check(b: &Bench) {
    let s = b.conn.snapshot();
    assert!(s.granted + s.outstanding <= s.queue_depth, "{s:?}");
    assert!(
        s.credits <= s.queue_depth && s.reserved <= s.queue_depth,
        "{s:?}"
    );
    assert!(s.sends <= b.conn.limits().concurrent_sends, "{s:?}");
    assert!(s.sq_used < b.conn.limits().sq_wrs, "{s:?}");
}

/// The driver takes the connection down in order; whatever was done to it, that works.
fn finish(b: &mut Bench) {
    b.fail_post = None;
    b.conn.close(b.now, Cause::Deleted);
    b.pump();
    b.flush();
    if !b.conn.is_drained() {
        b.conn.handle_qp_destroyed(b.now);
        b.pump();
    }
    for (rx, ..) in std::mem::take(&mut b.delivered) {
        b.conn.rx_done(b.now, rx);
    }
    b.pump();
    let left = b.conn.snapshot();
    assert!(b.conn.is_released(), "{left:?}");
    assert_eq!(
        (left.ops, left.sq_used, left.rx_posted),
        (0, 0, 0),
        "{left:?}"
    );
}

#[test]
fn anything_may_come() {
    let first = match std::env::var("KOR_HOSTILE_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => 0,
    };
    let (mut ends, mut alive) = (0, 0);
    for seed in first..first + 20_000 {
        let result = std::panic::catch_unwind(|| schedule(Prng::new(seed)));
        match result {
            Ok((n, open)) => {
                ends += n;
                alive += u32::from(open);
            }
            Err(panic) => {
                eprintln!("replay with KOR_HOSTILE_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    // Some live long enough to get somewhere, most are closed.
    assert!(ends > 20_000 && alive > 500, "{ends} {alive}");
}

#[test]
fn private_data_of_every_length_is_survived() {
    let good = connack(params(8, 257));
    for len in 0..=good.len() {
        let mut b = Bench::connecting(Role::Active, &tunables(8));
        b.conn
            .handle_established(b.now, Some(Message::parse(&good[..len])));
        b.pump();
        assert_eq!(b.conn.is_established(), len == good.len());
        finish(&mut b);
    }
}

/// Puts a connection into one of seven states, with a message at every stage.
fn prepared(state: usize) -> Bench {
    let role = if state == 0 {
        Role::Active
    } else {
        Role::Passive
    };
    let mut b = Bench::connecting(role, &tunables(8));
    if state < 2 {
        return b;
    }
    b.conn.handle_established(b.now, None);
    b.pump();
    b.send_immediate(1);
    b.send_put(2, 8192);
    b.send_get(3, 8192);
    b.recv_put_req(5);
    let (rx, ..) = b.take_delivered();
    b.conn.put_sink(b.now, rx, Tx(4), sink(8192)).unwrap();
    b.recv_get_req(6, &[frag(8192)]);
    b.pump();
    if state == 3 {
        let cookie = b.cookie_sent(2);
        b.recv(&BodyOut::GetDone(completion(cookie, 1)));
    }
    if state >= 4 {
        b.conn.close(b.now, Cause::Timeout);
        b.pump();
    }
    if state >= 5 {
        b.conn.handle_qp_error_state(b.now);
        b.pump();
    }
    if state >= 6 {
        b.flush();
    }
    b
}

const EVENTS: usize = 19;

fn happen(b: &mut Bench, event: usize) {
    let now = b.now;
    let wr = b.sq.front().map_or(WrId::send(0), |posted| posted.wr);
    let recv = b.rq.front().copied().unwrap_or(WrId::recv(RxId(0), 1));
    match event {
        0 => b.conn.handle_established(now, None),
        1 => {
            let ack = connack(params(8, 257));
            b.conn.handle_established(now, Some(Message::parse(&ack)));
        }
        2 => b.conn.handle_comm_est(now),
        3 => b.conn.handle_disconnected(now),
        4 => b.conn.handle_conn_failed(now, Cause::Rejected),
        5 => b.conn.handle_qp_error_state(now),
        6 => b.conn.handle_qp_destroyed(now),
        7 => b.conn.handle_send_completion(now, wr, WcStatus::Success),
        8 => b.conn.handle_send_completion(now, wr, WcStatus::Flushed),
        9 => b
            .conn
            .handle_send_completion(now, wr.not_last(), WcStatus::Error(1)),
        10 => b.conn.handle_recv_error(now, recv, true),
        11 => b
            .conn
            .handle_send_completion(now, WrId::SENTINEL_SQ, WcStatus::Flushed),
        12 => b.conn.handle_recv_error(now, WrId::SENTINEL_RQ, true),
        13 => {
            b.pass(T);
            b.conn.handle_timeout(b.now);
        }
        14 => b.conn.close(now, Cause::Deleted),
        15 => b.conn.posted(now, Ok(())),
        16 => b.conn.handle_unknown_completion(now),
        17 => {
            let bytes = bytes(&b.hdr_from_peer(0), &BodyOut::Noop);
            let msg = Message::parse(&bytes).unwrap();
            b.conn.handle_msg(now, recv, &msg);
        }
        _ => {
            let error = Message::parse(&[]).unwrap_err();
            b.conn.handle_bad_msg(now, recv, error);
        }
    }
    b.pump();
}

/// All sequences of three events in all states.
#[test]
fn every_event_may_come_in_every_state() {
    for state in 0..7 {
        for n in 0..EVENTS.pow(3) {
            let mut b = prepared(state);
            for event in [n % EVENTS, n / EVENTS % EVENTS, n / EVENTS / EVENTS] {
                happen(&mut b, event);
                check(&b);
            }
            finish(&mut b);
            let messages = if state < 2 { 0 } else { 4 };
            assert_eq!(b.ends.len(), messages, "state {state} sequence {n}");
        }
    }
}
