// SPDX-License-Identifier: GPL-2.0

//! What the engine's contract rules out: commands, inputs and completions of a driver or a device
//! that is wrong. They are counted, and nothing of the connection is lost by them.

use crate::common::*;
use ko2iblnd_host::proto::chain::ChainError;
use ko2iblnd_host::proto::conn::{Delivery, Post, PostError, Role, WcStatus};
use ko2iblnd_host::proto::{Cause, OpId, RxId, WrId};
use ko2iblnd_host::wire::{BodyOut, Cookie, LnetMsgType, MsgType};

fn bad_inputs(b: &Bench) -> u32 {
    b.conn.snapshot().counters.bad_inputs
}

/// A buffer that is posted, one that there is not, and one that was given back already.
#[test]
fn commands_for_buffers_that_lnet_does_not_have() {
    let mut b = Bench::open(8);
    b.recv_put_req(5);
    let (used, ..) = b.take_delivered();
    b.conn.put_nak(b.now, used, 0);
    b.pump();
    b.complete_all();
    let before = b.conn.snapshot();
    let mut wrong = 0;
    for rx in [RxId(0), RxId(999), used] {
        b.conn.rx_done(b.now, rx);
        b.conn.rx_refused(b.now, rx, -71);
        b.conn.put_nak(b.now, rx, 0);
        b.conn.get_done(b.now, rx, 0);
        let refused = b.conn.put_sink(b.now, rx, Tx(1), sink(8192)).unwrap_err();
        assert_eq!((refused.tx, refused.cause), (Tx(1), Cause::BadInput));
        let refused = b
            .conn
            .get_source(b.now, rx, Tx(2), 4096, Ok(1))
            .unwrap_err();
        assert_eq!((refused.tx, refused.cause), (Tx(2), Cause::BadInput));
        b.pump();
        wrong += 6;
        assert_eq!(bad_inputs(&b), wrong);
    }
    let mut after = b.conn.snapshot();
    after.counters.bad_inputs = before.counters.bad_inputs;
    assert_eq!(after, before);
    b.tear_down();
}

/// Each answer for a message of another kind: the driver is confused, so the connection closes,
/// and what it gave comes back.
#[test]
fn commands_that_do_not_go_with_the_message() {
    for command in 0..4 {
        for kind in 0..3 {
            let mut b = Bench::open(8);
            match kind {
                0 => b.recv_immediate(9),
                1 => b.recv_put_req(5),
                _ => b.recv_get_req(6, &[frag(8192)]),
            }
            let (rx, _, delivery) = b.take_delivered();
            let fits = match delivery {
                Delivery::Immediate => false,
                Delivery::PutReq => command < 2,
                Delivery::GetReq { .. } => command >= 2,
            };
            let refused = match command {
                0 => {
                    b.conn.put_nak(b.now, rx, 0);
                    None
                }
                1 => b.conn.put_sink(b.now, rx, Tx(1), sink(8192)).err(),
                2 => {
                    b.conn.get_done(b.now, rx, 0);
                    None
                }
                _ => b.conn.get_source(b.now, rx, Tx(1), 4096, Ok(1)).err(),
            };
            b.pump();
            let place = format!("command {command} for {delivery:?}");
            assert_eq!(b.conn.is_established(), fits, "{place}");
            if !fits {
                assert_eq!(b.cause(), Some(Cause::BadInput), "{place}");
                assert_eq!(bad_inputs(&b), 1, "{place}");
                let back = refused.map(|refused| (refused.tx, refused.cause));
                let expected = (command % 2 == 1).then_some((Tx(1), Cause::BadInput));
                assert_eq!(back, expected, "{place}");
            }
            b.tear_down();
        }
    }
}

/// A buffer that was given back to a closed connection is not posted again, and nothing is sent.
#[test]
fn answers_after_the_close_are_dropped() {
    let mut b = Bench::open(8);
    b.recv_put_req(5);
    b.recv_put_req(6);
    b.recv_get_req(7, &[frag(8192)]);
    b.recv_get_req(8, &[frag(8192)]);
    b.conn.close(b.now, Cause::DeviceGone);
    b.pump();
    let posts = b.posts.len();
    let held: Vec<_> = b.delivered.drain(..).map(|(rx, ..)| rx).collect();
    b.conn.put_nak(b.now, held[0], 0);
    let refused = b.conn.put_sink(b.now, held[1], Tx(1), sink(8192));
    assert_eq!(refused.unwrap_err().cause, Cause::DeviceGone);
    b.conn.get_done(b.now, held[2], 0);
    let refused = b.conn.get_source(b.now, held[3], Tx(2), 4096, Ok(1));
    assert_eq!(refused.unwrap_err().cause, Cause::DeviceGone);
    b.pump();
    assert_eq!(b.posts.len(), posts);
    assert_eq!(b.conn.snapshot().rx_held, 0);
    b.tear_down();
    assert!(b.ends.is_empty());
}

/// A plan for an operation that there is not, or that has had its plan.
#[test]
fn a_plan_that_nobody_asked_for() {
    let mut b = Bench::open(8);
    b.send_put(1, 8192);
    let cookie = b.cookie_sent(0);
    let op = OpId { idx: 0, gen: 0 };
    assert_eq!(b.conn.tx(op), Some(&Tx(1)));
    for unknown in [op, OpId { idx: 0, gen: 9 }, OpId { idx: 999, gen: 0 }] {
        b.conn
            .put_planned(b.now, unknown, Err(ChainError::SourceTooShort));
        b.pump();
    }
    b.recv_put_ack(cookie, &[frag(8192)]);
    let sent = b.sent.len();
    b.conn.put_planned(b.now, op, Err(ChainError::SinkTooShort));
    b.pump();
    assert_eq!(b.sent.len(), sent);
    b.complete_all();
    assert_eq!(b.status(1), Some(0));
    assert_eq!(b.conn.tx(op), None);
    assert_eq!(b.conn.tx_mut(op), None);
    b.tear_down();
}

/// More WRITEs than were agreed on: both sides are told.
#[test]
fn a_plan_of_more_writes_than_were_agreed() {
    let mut b = Bench::open(8);
    b.auto_plan = false;
    b.send_put(1, 8192);
    let cookie = b.cookie_sent(0);
    b.recv_put_ack(cookie, &[frag(8192)]);
    let op = OpId { idx: 0, gen: 0 };
    let max = b.conn.limits().max_frags;
    b.conn.put_planned(b.now, op, Ok(max + 1));
    b.pump();
    let status = Cause::Descriptor(ChainError::TooManyWrites)
        .outcome()
        .status;
    let done = completion(Cookie(77), status);
    assert_eq!(
        b.last_sent(),
        ko2iblnd_host::proto::conn::OutBody::PutDone(done)
    );
    b.complete_all();
    assert_eq!(b.status(1), Some(status));
    assert!(b.conn.is_established());
    b.tear_down();
}

/// A post that was not reported stops everything, and is counted.
#[test]
fn posts_are_pulled_one_at_a_time() {
    let mut b = Bench::open(8);
    b.conn.submit(b.now, Tx(1), immediate(9)).unwrap();
    b.conn.submit(b.now, Tx(2), immediate(9)).unwrap();
    let Some(Post::Send { wr, .. }) = b.conn.poll_post(b.now) else {
        panic!();
    };
    assert_eq!(b.conn.poll_post(b.now), None);
    assert_eq!(bad_inputs(&b), 1);
    b.conn.posted(b.now, Ok(()));
    b.conn.posted(b.now, Ok(()));
    assert_eq!(bad_inputs(&b), 2);
    b.pump();
    b.conn.handle_send_completion(b.now, wr, WcStatus::Success);
    b.complete_all();
    assert_eq!((b.status(1), b.status(2)), (Some(0), Some(0)));
    b.tear_down();
}

/// A receive that cannot be posted: its credit is not given away, the connection closes.
#[test]
fn a_receive_that_cannot_be_posted_closes() {
    let mut b = Bench::open(8);
    b.recv_immediate(9);
    let (rx, ..) = b.take_delivered();
    b.conn.rx_done(b.now, rx);
    let Some(Post::Recv { rx: again, .. }) = b.conn.poll_post(b.now) else {
        panic!();
    };
    assert_eq!(again, rx);
    let (errno, accepted) = (-12, 0);
    b.conn.posted(b.now, Err(PostError { errno, accepted }));
    b.pump();
    assert_eq!(b.cause(), Some(Cause::PostFailed(-12)));
    assert_eq!(b.conn.snapshot().outstanding, 0);
    b.tear_down();
}

/// Completions on the wrong queue, and a success that nobody had asked for.
#[test]
fn completions_that_do_not_belong() {
    let mut b = Bench::open(8);
    b.send_immediate(1);
    let wr = b.sq[0].wr;
    b.conn
        .handle_send_completion(b.now, wr.not_last(), WcStatus::Success);
    assert_eq!(b.conn.snapshot().counters.ignored_events, 1);
    assert!(b.conn.is_established() && b.ends.is_empty());
    for sentinel in [WrId::SENTINEL_SQ, WrId::SENTINEL_RQ] {
        let before = b.conn.snapshot().counters.ignored_events;
        b.conn
            .handle_send_completion(b.now, sentinel, WcStatus::Flushed);
        b.conn.handle_recv_error(b.now, sentinel, true);
        assert_eq!(b.conn.snapshot().counters.ignored_events, before + 2);
    }
    assert!(b.conn.is_established());
    let recv = b.rq[0];
    b.conn
        .handle_send_completion(b.now, recv, WcStatus::Success);
    b.pump();
    assert_eq!(b.cause(), Some(Cause::BadCompletion));
    b.tear_down();
    let mut b = Bench::open(8);
    b.send_immediate(1);
    b.conn.handle_recv_error(b.now, b.sq[0].wr, false);
    b.pump();
    assert_eq!(b.cause(), Some(Cause::BadCompletion));
    b.tear_down();
}

/// The cookie of the operation that had the slot before.
#[test]
fn a_cookie_of_before_is_not_of_now() {
    let mut b = Bench::open(8);
    b.send_put(1, 8192);
    let cookie = b.cookie_sent(0);
    b.recv_put_ack(Cookie(cookie.0 ^ 1 << 16), &[frag(8192)]);
    let violation = ko2iblnd_host::proto::cause::Violation::NoSuchCookie(MsgType::PutAck);
    assert_eq!(b.cause(), Some(Cause::Protocol(violation)));
    b.tear_down();
}

/// A peer that asks without waiting for answers fills the table; then the next answer of any kind
/// closes the connection, and what LNet gave for it comes back.
#[test]
fn whatever_finds_the_table_full_closes() {
    for put in [false, true] {
        let mut t = tunables(8);
        t.concurrent_sends = 1;
        let mut b = Bench::open_with(&t);
        b.recv_put_req(1);
        b.recv_get_req(2, &[frag(8192)]);
        let held = std::mem::take(&mut b.delivered);
        let room = b.conn.limits().ops;
        while b.conn.snapshot().ops < room {
            while b.conn.snapshot().granted > 0 {
                b.recv_put_req(3);
            }
            while !b.delivered.is_empty() && b.conn.snapshot().ops < room {
                let (rx, ..) = b.take_delivered();
                b.conn.put_nak(b.now, rx, 0);
            }
            b.pump();
            if b.conn.snapshot().ops < room {
                b.complete(1);
            }
        }
        assert!(b.conn.is_established());
        let refused = match put {
            true => b.conn.put_sink(b.now, held[0].0, Tx(1), sink(8192)),
            false => b.conn.get_source(b.now, held[1].0, Tx(1), 4096, Ok(1)),
        };
        let refused = refused.unwrap_err();
        assert_eq!((refused.tx, refused.cause), (Tx(1), Cause::TooMany));
        b.pump();
        assert_eq!(b.cause(), Some(Cause::TooMany));
        let rest = if put { held[1].0 } else { held[0].0 };
        b.conn.rx_done(b.now, rest);
        b.tear_down();
    }
}

/// The checksum can be switched on while the connection is open.
#[test]
fn the_checksum_is_switched() {
    let (mut t, mut b) = (tunables(8), Bench::open(8));
    let last = |b: &Bench| match b.posts.last() {
        Some(Post::Send { cksum, msg, .. }) => (*cksum, msg.kind()),
        other => panic!("{other:?}"),
    };
    b.send_immediate(1);
    assert_eq!(last(&b), (false, MsgType::Immediate));
    t.cksum = true;
    b.conn.retune(t.live());
    b.send_put(2, 8192);
    assert_eq!(last(&b), (true, MsgType::PutReq));
    b.send_get(3, 8192);
    assert_eq!(last(&b), (true, MsgType::GetReq));
    t.cksum = false;
    b.conn.retune(t.live());
    b.recv_put_req(5);
    let (rx, ..) = b.take_delivered();
    b.conn.put_nak(b.now, rx, 0);
    b.pump();
    assert_eq!(last(&b), (false, MsgType::PutNak));
    b.recv_put_req(6);
    let (rx, ..) = b.take_delivered();
    b.conn.put_sink(b.now, rx, Tx(4), sink(8192)).unwrap();
    b.pump();
    assert_eq!(last(&b), (false, MsgType::PutAck));
    b.recv_get_req(7, &[frag(8192)]);
    let (rx, ..) = b.take_delivered();
    b.conn.get_done(b.now, rx, 0);
    b.pump();
    assert_eq!(last(&b), (false, MsgType::GetDone));
    let cookie = b.cookie_sent(1);
    b.recv_put_ack(cookie, &[frag(8192)]);
    assert_eq!(last(&b), (false, MsgType::PutDone));
    b.tear_down();
}

/// Without a credit, version 1 has no NOOP either: what is owed waits for the peer's next message.
#[test]
fn version_one_without_a_credit_sends_nothing() {
    let t = tunables(8);
    let limits =
        ko2iblnd_host::proto::Limits::new(&t, &CAPS, ko2iblnd_host::wire::Version::V1, None);
    let mut b = Bench::with(Role::Passive, &t, limits.unwrap());
    b.conn.handle_established(b.now, None);
    b.pump();
    let owe = |b: &mut Bench| {
        for _ in 0..7 {
            b.recv_immediate(1);
        }
        for (rx, ..) in std::mem::take(&mut b.delivered) {
            b.conn.rx_done(b.now, rx);
        }
        b.pump();
        b.complete_all();
    };
    for tx in 0..7 {
        b.send_immediate(tx);
        b.complete_all();
    }
    owe(&mut b);
    assert_eq!(b.sent.len(), 8);
    assert_eq!(b.conn.snapshot().credits, 0);
    owe(&mut b);
    assert_eq!(b.sent.len(), 8);
    assert_eq!(b.conn.snapshot().outstanding, 7);
    let payload = &[7];
    let hdr = lnet(LnetMsgType::Put, 1);
    b.recv_with(1, &BodyOut::Immediate { hdr, payload });
    assert_eq!(b.sent.len(), 9);
    assert_eq!(b.sent[8].hdr.credits, 7);
    b.tear_down();
}
