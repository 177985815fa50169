// SPDX-License-Identifier: GPL-2.0

//! Entries of the bug catalogue (bug-catalogue.md) that touch a connection.

use crate::common::*;
use ko2iblnd_host::proto::conn::{Action, Delivery, OutBody, Post, Role, WcStatus};
use ko2iblnd_host::proto::{Cause, Limits, Span, WrId};
use ko2iblnd_host::wire::{BodyOut, Cookie, LnetMsgType, Message, Version};

#[test]
fn lu_5678_flush_right_after_post() {
    let mut b = Bench::open(8);
    b.recv_immediate(1);
    let (rx, ..) = b.take_delivered();
    b.conn.rx_done(b.now, rx);
    let Some(Post::Recv { wr, .. }) = b.conn.poll_post(b.now) else {
        panic!("no receive");
    };
    b.conn.posted(b.now, Ok(()));
    b.conn.handle_recv_error(b.now, wr, true);
    // The poster goes on.
    b.pump();
    assert_eq!(b.cause(), Some(Cause::Flushed));
    b.tear_down();
}

#[test]
fn lu_7210_closed_while_it_is_being_established() {
    let mut b = Bench::connecting(Role::Passive, &tunables(8));
    let payload = BodyOut::Immediate {
        hdr: lnet(LnetMsgType::Put, 0),
        payload: &[],
    };
    b.recv(&payload);
    b.recv_put_req(5);
    b.conn.handle_established(b.now, None);
    b.conn.submit(b.now, Tx(1), put(8192)).unwrap();
    b.conn.close(b.now, Cause::Timeout);
    b.conn.handle_disconnected(b.now);
    b.pump();
    assert_eq!(b.cause(), Some(Cause::Timeout));
    assert_eq!(b.status(1), Some(-103));
    assert!(matches!(b.acts[1], Action::Established(_)));
    // The whole message is still good; the request cannot be answered any more.
    assert_eq!(b.delivered.len(), 1);
    b.tear_down();
}

#[test]
fn lu_11756_nothing_is_queued_after_the_close() {
    let mut b = Bench::open(8);
    b.send_put(1, 8192);
    let cookie = b.cookie_sent(0);
    b.auto_plan = false;
    b.recv_put_ack(cookie, &[frag(8192)]);
    let Some(&Action::Plan { op, .. }) = b.acts.last() else {
        panic!("{:?}", b.acts);
    };
    b.recv_put_req(5);
    b.recv_get_req(6, &[frag(8192)]);
    let (put_rx, ..) = b.take_delivered();
    let (get_rx, ..) = b.take_delivered();
    b.conn.close(b.now, Cause::Deleted);
    b.pump();
    assert_eq!(b.status(1), Some(-103));
    let refused = b.submit(2, immediate(1)).unwrap_err();
    assert_eq!((refused.tx, refused.cause), (Tx(2), Cause::Deleted));
    b.conn.put_planned(b.now, op, Ok(1));
    let refused = b.conn.put_sink(b.now, put_rx, Tx(3), sink(1)).unwrap_err();
    assert_eq!(refused.tx, Tx(3));
    let refused = b.conn.get_source(b.now, get_rx, Tx(4), 1, Ok(1));
    assert_eq!(refused.unwrap_err().tx, Tx(4));
    b.tear_down();
    assert_eq!(b.ends.len(), 1);
}

#[test]
fn lu_13553_completions_of_nothing() {
    // Twice.
    let mut b = Bench::open(8);
    b.send_immediate(1);
    let wr = b.sq[0].wr;
    b.complete_all();
    b.conn.handle_send_completion(b.now, wr, WcStatus::Success);
    b.pump();
    assert_eq!(b.cause(), Some(Cause::BadCompletion));
    assert_eq!(b.conn.snapshot().counters.bad_completions, 1);
    b.tear_down();

    // After a post that is said to have failed.
    let mut b = Bench::open(8);
    b.fail_post = Some(0);
    b.send_immediate(1);
    assert_eq!(b.cause(), Some(Cause::PostFailed(-12)));
    let wr = WrId::send(0);
    b.conn.handle_send_completion(b.now, wr, WcStatus::Success);
    b.pump();
    b.tear_down();
    assert_eq!(b.status(1), Some(-12));
    assert!(b.end(1).unwrap().drained);

    // Of a receive that has been used again, of a buffer that is not there, of the future.
    for raw in [
        WrId::recv(ko2iblnd_host::proto::RxId(0), 9),
        WrId::recv(ko2iblnd_host::proto::RxId(9999), 1),
        WrId::send(77),
    ] {
        let mut b = Bench::open(8);
        b.conn.handle_recv_error(b.now, raw, false);
        b.pump();
        assert_eq!(b.cause(), Some(Cause::BadCompletion), "{raw:?}");
        b.conn
            .handle_send_completion(b.now, raw, WcStatus::Error(5));
        b.conn.handle_unknown_completion(b.now);
        b.tear_down();
        assert_eq!(b.conn.snapshot().counters.bad_completions, 3);
    }
}

#[test]
fn lu_13553_a_receive_completes_once() {
    let mut b = Bench::open(8);
    let wr = b.rq[0];
    b.recv(&BodyOut::Noop);
    let bytes = bytes(&b.hdr_from_peer(0), &BodyOut::Noop);
    let msg = Message::parse(&bytes).unwrap();
    b.conn.handle_msg(b.now, wr, &msg);
    b.pump();
    assert_eq!(b.cause(), Some(Cause::BadCompletion));
    b.tear_down();
}

#[test]
fn lu_10270_early_messages_are_kept_in_order() {
    let mut b = Bench::connecting(Role::Passive, &tunables(8));
    b.recv_immediate(3);
    b.recv_put_req(5);
    b.recv_immediate(4);
    assert!(b.delivered.is_empty());
    assert_eq!(b.conn.snapshot().rx_parked, 3);
    b.conn.handle_established(b.now, None);
    b.pump();
    let lens: Vec<u32> = b.delivered.iter().map(|d| d.1.payload_len).collect();
    assert_eq!(lens, [3, 8192, 4]);
    b.tear_down();

    let mut b = Bench::connecting(Role::Passive, &tunables(8));
    b.recv_immediate(3);
    b.recv_put_req(5);
    b.conn.handle_conn_failed(b.now, Cause::ConnectFailed(-107));
    b.pump();
    assert!(b.delivered.is_empty());
    assert_eq!(b.conn.snapshot().counters.dropped_msgs, 2);
    b.tear_down();
}

#[test]
fn lu_7324_a_held_buffer_outlives_its_connection() {
    let mut b = Bench::open(8);
    b.recv_immediate(3);
    b.recv_put_req(5);
    let (one, ..) = b.take_delivered();
    let (two, ..) = b.take_delivered();
    b.conn.close(b.now, Cause::Deleted);
    b.pump();
    b.flush();
    assert!(b.conn.is_drained() && !b.conn.is_released());
    assert_eq!(b.conn.snapshot().rx_held, 2);
    b.conn.rx_done(b.now, one);
    assert!(!b.conn.is_released());
    assert!(b.conn.put_sink(b.now, two, Tx(1), sink(1)).is_err());
    assert!(b.conn.is_released());
}

#[test]
fn lu_10682_waiting_txs_complete_once() {
    let mut t = tunables(4);
    t.concurrent_sends = 2;
    let mut b = Bench::open_with(&t);
    for tx in 0..4 {
        b.send_immediate(tx);
        b.send_put(10 + tx, 8192);
        b.send_get(20 + tx, 8192);
    }
    b.conn.handle_disconnected(b.now);
    b.pump();
    b.tear_down();
    assert_eq!(b.ends.len(), 12);
}

#[test]
fn lu_17689_answers_to_what_does_not_wait() {
    let done = |cookie| BodyOut::PutDone(completion(cookie, 0));
    let close = |answer: &dyn Fn(&mut Bench)| {
        let mut b = Bench::open(8);
        b.send_immediate(1);
        b.send_put(2, 8192);
        b.send_get(3, 8192);
        answer(&mut b);
        assert_eq!(b.cause().map(Cause::errno), Some(-71));
        b.tear_down();
        assert_eq!(b.ends.len(), 3);
    };
    // Twice.
    close(&|b| {
        let cookie = b.cookie_sent(1);
        b.recv_put_ack(cookie, &[frag(8192)]);
        b.recv_put_ack(cookie, &[frag(8192)]);
    });
    close(&|b| {
        let cookie = b.cookie_sent(2);
        b.recv(&BodyOut::GetDone(completion(cookie, 0)));
        b.recv(&BodyOut::GetDone(completion(cookie, 0)));
    });
    // For something else: a GET, a PUT, an IMMEDIATE (whose slot is 0), nothing.
    close(&|b| {
        let cookie = b.cookie_sent(2);
        b.recv_put_ack(cookie, &[frag(1)]);
    });
    close(&|b| {
        let cookie = b.cookie_sent(1);
        b.recv(&BodyOut::GetDone(completion(cookie, 0)));
    });
    close(&|b| b.recv_put_ack(Cookie(1 << 16), &[frag(1)]));
    close(&|b| {
        let cookie = b.cookie_sent(1);
        b.recv(&done(cookie));
    });
    close(&|b| b.recv(&BodyOut::PutNak(completion(Cookie(u64::MAX), 0))));
    // More than there is room for.
    close(&|b| {
        let cookie = b.cookie_sent(2);
        b.recv(&BodyOut::GetDone(completion(cookie, 8193)));
    });
}

#[test]
fn lu_17689_messages_that_do_not_belong() {
    let hello = lnet(LnetMsgType::Hello, 0);
    let get = get_hdr(8192);
    let put = lnet(LnetMsgType::Put, 8192);
    let cookie = Cookie(1);
    let payload = &[];
    let frags = [frag(8193)];
    let desc = ko2iblnd_host::wire::DescOut {
        key: 9,
        frags: &frags,
    };
    for body in [
        BodyOut::ConnReq(params(8, 257)),
        BodyOut::ConnAck(params(8, 257)),
        BodyOut::Immediate {
            hdr: hello,
            payload,
        },
        BodyOut::PutReq { hdr: get, cookie },
        BodyOut::PutReq { hdr: hello, cookie },
        BodyOut::GetReq {
            hdr: put,
            cookie,
            desc,
        },
        BodyOut::GetReq {
            hdr: get,
            cookie,
            desc,
        },
    ] {
        let mut b = Bench::open(8);
        b.recv(&body);
        assert_eq!(b.cause().map(Cause::errno), Some(-71), "{body:?}");
        assert!(b.delivered.is_empty());
        b.tear_down();
    }
}

#[test]
fn lu_17708_discarding_is_normal() {
    let mut b = Bench::open(8);
    b.recv_immediate(100);
    b.recv_put_req(5);
    b.recv_put_req(6);
    b.recv_get_req(7, &[frag(8192)]);
    let (rx, ..) = b.take_delivered();
    b.conn.rx_done(b.now, rx);
    let (rx, ..) = b.take_delivered();
    b.conn.put_nak(b.now, rx, 0);
    let (rx, ..) = b.take_delivered();
    b.conn.put_nak(b.now, rx, -12);
    let (rx, ..) = b.take_delivered();
    b.conn.get_done(b.now, rx, -61);
    b.pump();
    b.complete_all();
    let bodies: Vec<OutBody> = b.sent.iter().map(|msg| msg.body).collect();
    assert_eq!(
        bodies,
        [
            OutBody::PutNak(completion(Cookie(5), 0)),
            OutBody::PutNak(completion(Cookie(6), -12)),
            OutBody::GetDone(completion(Cookie(7), -61)),
        ]
    );
    let s = b.conn.snapshot();
    assert_eq!((s.granted + s.outstanding, s.ops, s.rx_held), (8, 0, 0));
    b.tear_down();
}

#[test]
fn lu_10459_all_kinds_of_sends_at_once_stay_within_the_queue() {
    let mut b = Bench::open(8);
    for i in 0..8 {
        b.conn.submit(b.now, Tx(i), put(8192)).unwrap();
        b.conn.submit(b.now, Tx(10 + i), get(8192)).unwrap();
    }
    for i in 0..4 {
        b.recv_put_req(i);
        b.recv_get_req(i, &[frag(8192)]);
    }
    for i in 0..4 {
        let (rx, ..) = b.take_delivered();
        b.conn.put_sink(b.now, rx, Tx(20 + i), sink(8192)).unwrap();
        let (rx, ..) = b.take_delivered();
        b.conn
            .get_source(b.now, rx, Tx(30 + i), 8192, Ok(1))
            .unwrap();
    }
    b.pump();
    let limits = *b.conn.limits();
    loop {
        let s = b.conn.snapshot();
        assert!(s.sends <= limits.concurrent_sends && s.sq_used < limits.sq_wrs);
        if b.sq.is_empty() {
            break;
        }
        b.complete(1);
    }
    assert_eq!(b.ends.len(), 4);
    b.tear_down();
    assert_eq!(b.ends.len(), 24);
}

#[test]
fn lu_10291_in_flight_follows_the_agreed_queue() {
    let mut t = tunables(128);
    t.concurrent_sends = 256;
    let mut b = Bench::connecting(Role::Active, &t);
    let ack = connack(params(8, 257));
    b.conn.handle_established(b.now, Some(Message::parse(&ack)));
    for tx in 0..100 {
        b.conn.submit(b.now, Tx(tx), immediate(1)).unwrap();
    }
    b.pump();
    assert_eq!(b.conn.snapshot().sends, 8);
    assert!(b.conn.snapshot().sq_used < b.conn.limits().sq_wrs);
    b.tear_down();
    assert_eq!(b.ends.len(), 100);
}

#[test]
fn lu_14733_a_registration_is_posted_once() {
    let mut b = Bench::open(8);
    b.send_put(1, 8192);
    b.send_get(2, 8192);
    b.recv_put_req(5);
    let (rx, ..) = b.take_delivered();
    b.conn.put_sink(b.now, rx, Tx(3), sink(8192)).unwrap();
    b.pump();
    let (put, get, ack) = (b.cookie_sent(0), b.cookie_sent(1), b.cookie_sent(2));
    b.recv_put_ack(put, &[frag(8192)]);
    b.recv(&BodyOut::GetDone(completion(get, 8192)));
    b.recv(&BodyOut::PutDone(completion(ack, 8192)));
    b.complete_all();
    assert_eq!(b.ends.len(), 3);
    let count = |f: &dyn Fn(&Post) -> bool| b.posts.iter().filter(|post| f(post)).count();
    assert_eq!(count(&|p| matches!(p, Post::Send { reg: true, .. })), 2);
    assert_eq!(count(&|p| matches!(p, Post::Inv { .. })), 2);
}

#[test]
fn lu_20326_a_get_describes_its_sink() {
    for len in [1, 3976, 3977, 1 << 20] {
        let mut b = Bench::open(8);
        b.send_get(1, len);
        let OutBody::GetReq { desc: sink, .. } = b.last_sent() else {
            panic!("{:?}", b.last_sent());
        };
        assert_eq!((sink.key, sink.nob), (KEY, len));
        let mut buf = [0; 192];
        let emitted = b.sent[0].emit(true, &mut buf).unwrap();
        assert_eq!(emitted.len, 148);
        assert!(Message::parse(&buf[..148]).is_ok());
    }
}

#[test]
fn lu_16184_every_deadline_is_fresh() {
    let mut b = Bench::open(8);
    b.send_immediate(1);
    b.complete_all();
    b.pass(Span::from_secs(1000));
    b.send_immediate(2);
    b.conn.handle_timeout(b.now);
    assert!(b.conn.is_established());
    assert_eq!(b.conn.poll_timeout(), Some(b.now.after(T)));
}

#[test]
fn a_put_gets_new_time_when_its_sink_is_known() {
    let mut b = Bench::open(8);
    b.send_put(1, 8192);
    b.complete_all();
    b.pass(Span::from_secs(40));
    let cookie = b.cookie_sent(0);
    b.recv_put_ack(cookie, &[frag(8192)]);
    b.pass(Span::from_secs(40));
    b.conn.handle_timeout(b.now);
    assert!(b.conn.is_established());
    b.pass(Span::from_secs(10));
    b.conn.handle_timeout(b.now);
    assert_eq!(b.cause(), Some(Cause::Timeout));
}

#[test]
fn lu_12199_a_get_ends_once_wherever_it_fails() {
    for step in 0..6 {
        let mut b = Bench::open(8);
        if step == 0 {
            b.fail_post = Some(1);
        }
        b.send_get(1, 8192);
        match step {
            0 => assert_eq!(b.cause(), Some(Cause::PostFailed(-12))),
            1 => {
                let wr = b.sq[0].wr.not_last();
                b.conn.handle_send_completion(b.now, wr, WcStatus::Error(5));
            }
            2 => {
                b.complete_all();
                b.conn.close(b.now, Cause::Timeout);
            }
            3 => {
                let cookie = b.cookie_sent(0);
                b.fail_post = Some(0);
                b.recv(&BodyOut::GetDone(completion(cookie, -12)));
            }
            4 => {
                let cookie = b.cookie_sent(0);
                b.recv(&BodyOut::GetDone(completion(cookie, -12)));
                b.complete_all();
            }
            _ => b.conn.handle_qp_destroyed(b.now),
        }
        b.pump();
        b.tear_down();
        assert_eq!(b.ends.len(), 1, "step {step}");
        assert!(b.ends[0].done.status < 0, "step {step}");
        assert_eq!(b.ends[0].drained, step != 4, "step {step}");
    }
}

#[test]
fn lu_12569_a_one_way_stream_does_not_stall() {
    let mut t = tunables(128);
    t.credits_hiw = 64;
    let mut b = Bench::connecting(Role::Active, &t);
    let ack = connack(params(8, 257));
    b.conn.handle_established(b.now, Some(Message::parse(&ack)));
    b.pump();
    let mut credits = 8u16;
    for i in 0..200 {
        assert!(credits > 0, "the peer has no credit after {i} messages");
        let before = b.sent.len();
        b.recv_immediate(1);
        credits -= 1;
        let (rx, ..) = b.take_delivered();
        b.conn.rx_done(b.now, rx);
        b.pump();
        b.complete_all();
        for msg in &b.sent[before..] {
            credits += u16::from(msg.hdr.credits);
        }
    }
    b.tear_down();
}

#[test]
fn lu_8303_traffic_is_proof_of_establishment() {
    let mut b = Bench::connecting(Role::Passive, &tunables(8));
    b.conn.handle_comm_est(b.now);
    b.pump();
    assert_eq!(b.acts, [Action::NotifyEstablished]);
    b.recv_immediate(1);
    assert_eq!(b.acts.len(), 1);
    b.conn.handle_established(b.now, None);
    b.pump();
    assert_eq!(b.delivered.len(), 1);
    b.conn.handle_comm_est(b.now);
    b.pump();
    assert_eq!(b.acts.len(), 2);

    // A message alone will do; the active side waits for the CONNACK.
    let mut b = Bench::connecting(Role::Passive, &tunables(8));
    b.recv_immediate(1);
    assert_eq!(b.acts, [Action::NotifyEstablished]);
    let mut b = Bench::connecting(Role::Active, &tunables(8));
    b.conn.handle_comm_est(b.now);
    b.pump();
    assert!(b.acts.is_empty());
}

/// All events of the CM, in every state, twice.
#[test]
fn lu_17632_late_events_change_nothing() {
    let event = |b: &mut Bench, n: usize| match n {
        0 => b.conn.handle_established(b.now, None),
        1 => b.conn.handle_conn_failed(b.now, Cause::Rejected),
        2 => b.conn.handle_conn_failed(b.now, Cause::ConnectTimeout),
        3 => b.conn.handle_conn_failed(b.now, Cause::ConnectFailed(-107)),
        4 => b.conn.handle_disconnected(b.now),
        _ => b.conn.handle_comm_est(b.now),
    };
    for n in 0..6 {
        // Established: only DISCONNECTED means something.
        let mut b = Bench::open(8);
        event(&mut b, n);
        event(&mut b, n);
        b.pump();
        assert_eq!(b.conn.is_established(), n != 4, "event {n}");
        b.tear_down();
        // Closed, draining, drained: nothing does.
        let mut b = Bench::open(8);
        b.conn.close(b.now, Cause::Timeout);
        event(&mut b, n);
        b.pump();
        b.conn.handle_qp_error_state(b.now);
        event(&mut b, n);
        b.pump();
        b.tear_down();
        event(&mut b, n);
        b.pump();
        assert_eq!(b.cause(), Some(Cause::Timeout), "event {n}");
        let drained = b
            .acts
            .iter()
            .filter(|a| matches!(a, Action::Drained { .. }));
        assert_eq!(drained.count(), 1);
    }
}

#[test]
fn lu_18260_the_outcome_of_an_attempt_is_claimed_once() {
    for first in 0..5 {
        for second in 0..5 {
            let mut b = Bench::connecting(Role::Passive, &tunables(8));
            for n in [first, second] {
                match n {
                    0 => b.conn.close(b.now, Cause::ConnectTimeout),
                    1 => b.conn.handle_conn_failed(b.now, Cause::Rejected),
                    2 => b.conn.handle_conn_failed(b.now, Cause::Unreachable),
                    3 => b.conn.handle_established(b.now, None),
                    _ => b.conn.handle_disconnected(b.now),
                }
            }
            b.pump();
            b.tear_down();
            let closed = b.acts.iter().filter(|a| matches!(a, Action::Closed { .. }));
            assert_eq!(closed.count(), 1, "{first} {second}");
        }
    }
}

#[test]
fn lu_17480_without_any_event_an_attempt_ends_by_itself() {
    let mut b = Bench::connecting(Role::Active, &tunables(8));
    let due = b.conn.poll_timeout().unwrap();
    b.now = due;
    b.conn.handle_timeout(b.now);
    b.pump();
    assert_eq!(b.cause(), Some(Cause::ConnectTimeout));
    b.tear_down();
}

#[test]
fn a14_a_post_that_fails_in_mid_chain_ends_after_the_drain() {
    for accepted in 0..=3 {
        let mut b = Bench::open(8);
        b.recv_get_req(6, &[frag(100), frag(100), frag(100)]);
        let (rx, _, kind) = b.take_delivered();
        assert!(matches!(kind, Delivery::GetReq { .. }));
        b.conn.get_source(b.now, rx, Tx(1), 300, Ok(3)).unwrap();
        b.fail_post = Some(accepted);
        b.pump();
        assert_eq!(b.cause(), Some(Cause::PostFailed(-12)));
        assert!(b.ends.is_empty());
        // What it took is flushed; the last request was never there.
        for _ in 0..accepted {
            b.conn
                .handle_send_completion(b.now, WrId::send(0).not_last(), WcStatus::Flushed);
        }
        b.pump();
        assert!(b.ends.is_empty());
        b.tear_down();
        let end = b.end(1).unwrap();
        assert_eq!((end.drained, end.done.status), (true, -12));
    }
}

#[test]
fn a5_a_depth_of_one_does_not_make_noops_for_ever() {
    let mut t = tunables(1);
    t.credits_hiw = 1;
    let limits = Limits::new(&t, &CAPS, Version::V2, Some((1, 1))).unwrap();
    let mut b = Bench::with(Role::Passive, &t, limits);
    b.conn.handle_established(b.now, None);
    b.pump();
    assert!(b.sent.is_empty());
    b.recv_immediate(1);
    let (rx, ..) = b.take_delivered();
    b.conn.rx_done(b.now, rx);
    b.pump();
    assert_eq!(b.sent.len(), 1);
    b.complete_all();
    assert_eq!(b.sent.len(), 1);
}

#[test]
fn lu_78_a_keepalive_that_cannot_be_posted_closes_the_connection() {
    let mut t = tunables(8);
    t.keepalive = Some(Span::from_secs(10));
    let mut b = Bench::open_with(&t);
    b.send_put(1, 8192);
    b.complete_all();
    b.pass(Span::from_secs(10));
    b.fail_post = Some(0);
    b.conn.handle_timeout(b.now);
    b.pump();
    assert_eq!(b.cause(), Some(Cause::PostFailed(-12)));
    b.tear_down();
    assert_eq!(b.ends.len(), 1);
}

#[test]
fn a_peer_that_asks_faster_than_it_is_answered_is_cut_off() {
    let mut t = tunables(8);
    t.concurrent_sends = 1;
    let mut b = Bench::open_with(&t);
    let room = b.conn.limits().ops;
    // Every answer carries all credits that are owed, and the peer uses them at once, without
    // waiting for the answers that it should have set receives aside for.
    for i in 0..u64::from(room) * 4 {
        while b.conn.snapshot().granted > 0 && b.conn.is_established() {
            b.recv_put_req(i);
        }
        while !b.delivered.is_empty() {
            let (rx, ..) = b.take_delivered();
            b.conn.put_nak(b.now, rx, 0);
        }
        b.pump();
        b.complete(1);
        assert!(b.conn.snapshot().ops <= room);
        if !b.conn.is_established() {
            break;
        }
    }
    assert_eq!(b.cause(), Some(Cause::TooMany));
    b.tear_down();
}
