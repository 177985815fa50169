// SPDX-License-Identifier: GPL-2.0

//! Credits, NOOPs, the order of posting, signalling and the send queue (protocol.md section 12).

use crate::common::*;
use ko2iblnd_host::proto::conn::{OutBody, Post, Role};
use ko2iblnd_host::proto::{Cause, DeviceCaps, Limits, Span};
use ko2iblnd_host::wire::{BodyOut, Version};

#[test]
fn a_credit_is_owed_only_when_its_receive_is_posted() {
    let mut b = Bench::open(8);
    b.recv_immediate(10);
    let (rx, ..) = b.take_delivered();
    b.conn.rx_done(b.now, rx);
    assert_eq!(b.conn.snapshot().outstanding, 0);
    let post = b.conn.poll_post(b.now).unwrap();
    assert!(matches!(post, Post::Recv { .. }));
    assert_eq!(b.conn.snapshot().outstanding, 0);
    b.conn.posted(b.now, Ok(()));
    assert_eq!(b.conn.snapshot().outstanding, 1);
}

#[test]
fn every_message_carries_what_is_owed() {
    let mut b = Bench::open(8);
    for _ in 0..3 {
        b.recv_immediate(10);
        let (rx, ..) = b.take_delivered();
        b.conn.rx_done(b.now, rx);
        b.pump();
    }
    assert!(b.sent.is_empty());
    b.send_immediate(1);
    assert_eq!(b.sent[0].hdr.credits, 3);
    let s = b.conn.snapshot();
    assert_eq!((s.outstanding, s.granted), (0, 8));
}

#[test]
fn a_noop_returns_credits_at_the_high_water_mark() {
    let mut b = Bench::open(8);
    for i in 1..=4 {
        b.recv_immediate(10);
        let (rx, ..) = b.take_delivered();
        b.conn.rx_done(b.now, rx);
        b.pump();
        assert_eq!(b.sent.len(), usize::from(i == 4));
    }
    assert_eq!(b.last_sent(), OutBody::Noop);
    assert_eq!(b.sent[0].hdr.credits, 4);
    // It used no credit.
    assert_eq!(b.conn.snapshot().credits, 8);
}

#[test]
fn no_noop_while_something_else_will_carry_the_credits() {
    let mut b = Bench::open(8);
    for _ in 0..4 {
        b.recv_immediate(10);
    }
    for _ in 0..4 {
        let (rx, ..) = b.take_delivered();
        b.conn.rx_done(b.now, rx);
    }
    b.send_immediate(1);
    assert_eq!(b.sent.len(), 1);
    assert!(matches!(b.last_sent(), OutBody::Immediate { .. }));
    assert_eq!(b.sent[0].hdr.credits, 4);
}

#[test]
fn without_credits_only_answers_and_noops_go() {
    let mut b = Bench::open(2);
    for tx in 0..4 {
        b.send_immediate(tx);
    }
    b.complete_all();
    assert_eq!(b.ends.len(), 2);
    assert_eq!(b.conn.snapshot().queue_credit, 2);
    b.recv_put_req(5);
    let (rx, ..) = b.take_delivered();
    b.conn.put_nak(b.now, rx, 0);
    b.pump();
    assert!(matches!(b.last_sent(), OutBody::PutNak(_)));
    // The peer gives one back.
    b.recv_with(1, &BodyOut::Noop);
    assert_eq!(b.conn.snapshot().queue_credit, 1);
    assert_eq!(b.conn.snapshot().credits, 0);
    b.complete_all();
    b.tear_down();
}

#[test]
fn requests_wait_for_a_reserved_receive() {
    let mut b = Bench::open(4);
    for tx in 0..4 {
        b.send_put(tx, 8192);
    }
    // The peer gives the credits back, but has not answered.
    b.recv_with(4, &BodyOut::Noop);
    b.complete_all();
    b.send_put(4, 8192);
    b.send_immediate(5);
    let s = b.conn.snapshot();
    assert_eq!((s.queue_reserve, s.reserved, s.credits), (1, 0, 3));
    let cookie = b.cookie_sent(0);
    b.recv(&BodyOut::PutNak(completion(cookie, 0)));
    assert_eq!(b.conn.snapshot().queue_reserve, 0);
    assert!(matches!(b.last_sent(), OutBody::PutReq { .. }));
}

#[test]
fn too_many_credits_close_the_connection() {
    let mut b = Bench::open(8);
    b.recv_with(1, &BodyOut::Noop);
    assert_eq!(b.cause().unwrap().errno(), -71);
    b.tear_down();
}

#[test]
fn a_message_without_a_credit_closes_the_connection() {
    let mut b = Bench::open(2);
    b.recv_immediate(1);
    b.recv_immediate(1);
    assert!(b.conn.is_established());
    b.recv_immediate(1);
    assert_eq!(b.cause().unwrap().errno(), -71);
    assert_eq!(b.delivered.len(), 2);
    b.tear_down();
}

#[test]
fn version_one_keeps_its_last_credit_for_a_noop() {
    let t = tunables(8);
    let limits = Limits::new(&t, &CAPS, Version::V1, None).unwrap();
    assert_eq!(
        (limits.queue_depth, limits.hiw, limits.rx_slots),
        (8, 7, 16)
    );
    let mut b = Bench::with(Role::Passive, &t, limits);
    b.conn.handle_established(b.now, None);
    b.pump();
    for tx in 0..9 {
        b.send_immediate(tx);
        b.complete_all();
    }
    assert_eq!(b.conn.snapshot().credits, 1);
    assert_eq!(b.sent.len(), 7);
    // Owed credits go out with the last one.
    for _ in 0..7 {
        b.recv_immediate(1);
    }
    assert_eq!(b.sent.len(), 7);
    for _ in 0..7 {
        let (rx, ..) = b.take_delivered();
        b.conn.rx_done(b.now, rx);
    }
    b.pump();
    assert_eq!(b.last_sent(), OutBody::Noop);
    assert_eq!((b.sent[7].hdr.credits, b.conn.snapshot().credits), (7, 0));
    // A NOOP of the peer used a credit, and gives it back with the receive.
    b.complete_all();
    b.recv_with(8, &BodyOut::Noop);
    assert_eq!(b.conn.snapshot().queue_credit, 0);
    b.tear_down();
}

#[test]
fn only_the_last_of_a_burst_is_signalled() {
    let mut t = tunables(16);
    t.concurrent_sends = 32;
    let mut b = Bench::open_with(&t);
    for tx in 0..8 {
        b.conn.submit(b.now, Tx(tx), put(8192)).unwrap();
    }
    b.pump();
    let signals: Vec<bool> = b.sq.iter().map(|posted| posted.signal).collect();
    assert_eq!(signals.len(), 8);
    assert!(signals[..7].iter().all(|signal| !signal), "{signals:?}");
    assert!(signals[7]);
    // One completion retires them all.
    b.complete_all();
    let s = b.conn.snapshot();
    assert_eq!((s.sends, s.sq_used), (0, 0));
}

#[test]
fn a_quarter_of_the_queue_is_signalled_at_least() {
    let mut t = tunables(64);
    t.concurrent_sends = 128;
    let mut b = Bench::open_with(&t);
    for tx in 0..64 {
        b.conn.submit(b.now, Tx(tx), get(8192)).unwrap();
    }
    b.pump();
    let quarter = b.conn.limits().sq_wrs / 4;
    let mut since = 0;
    for posted in &b.sq {
        since += posted.wrs;
        assert!(since <= quarter + 1, "{since} of {quarter}");
        if posted.signal {
            since = 0;
        }
    }
    assert_eq!(since, 0);
}

#[test]
fn concurrent_sends_stop_everything() {
    let mut t = tunables(8);
    t.concurrent_sends = 4;
    let mut b = Bench::open_with(&t);
    for tx in 0..6 {
        b.send_immediate(tx);
    }
    assert_eq!(b.conn.snapshot().sends, 4);
    b.recv_put_req(5);
    let (rx, ..) = b.take_delivered();
    b.conn.put_nak(b.now, rx, 0);
    b.pump();
    assert_eq!((b.sent.len(), b.conn.snapshot().queue_reply), (4, 1));
    b.complete(1);
    // Answers first.
    assert!(matches!(b.last_sent(), OutBody::PutNak(_)));
    b.complete_all();
    assert_eq!(b.ends.len(), 6);
}

#[test]
fn a_chain_is_split_where_the_queue_ends() {
    let mut t = tunables(8);
    t.concurrent_sends = 4;
    let caps = DeviceCaps {
        max_qp_wr: 24,
        ..CAPS
    };
    let limits = Limits::new(&t, &caps, Version::V2, None).unwrap();
    assert!(limits.sq_wrs <= 24);
    let mut b = Bench::with(Role::Passive, &t, limits);
    b.conn.handle_established(b.now, None);
    b.pump();
    b.send_put(1, 257 * 100);
    let frags = vec![frag(100); 257];
    let cookie = b.cookie_sent(0);
    b.complete_all();
    b.recv_put_ack(cookie, &frags);
    let mut turns = 0;
    while b.status(1).is_none() {
        assert!(b.conn.snapshot().sq_used < limits.sq_wrs);
        assert!(b.sq.back().is_some_and(|posted| posted.signal));
        b.complete(usize::MAX);
        turns += 1;
        assert!(turns < 100);
    }
    let written: u32 = b
        .posts
        .iter()
        .map(|post| match post {
            Post::Writes { count, .. } => u32::from(*count),
            _ => 0,
        })
        .sum();
    assert_eq!(written, 257);
    assert!(turns >= 12, "{turns}");
    assert_eq!(b.status(1), Some(0));
    b.tear_down();
}

#[test]
fn a_send_is_overdue_only_when_a_completion_is_expected() {
    let mut b = Bench::open(8);
    b.send_immediate(1);
    b.pass(Span::from_secs(20));
    b.complete_all();
    assert_eq!(b.conn.poll_timeout(), None);
    b.pass(T);
    b.conn.handle_timeout(b.now);
    assert!(b.conn.is_established());
}

#[test]
fn more_messages_than_lnet_may_send_are_refused() {
    let mut b = Bench::open(8);
    let max = u32::from(b.conn.limits().local_ops);
    for tx in 0..max {
        b.send_immediate(tx);
    }
    let refused = b.submit(max, immediate(1)).unwrap_err();
    assert_eq!((refused.tx, refused.cause), (Tx(max), Cause::TooMany));
    // The peer's requests have room of their own.
    b.recv_put_req(5);
    let (rx, ..) = b.take_delivered();
    b.conn.put_sink(b.now, rx, Tx(max + 1), sink(8192)).unwrap();
    b.tear_down();
}

#[test]
fn tunables_change_while_the_connection_lives() {
    let mut t = tunables(8);
    t.keepalive = None;
    t.timeout = Span::from_secs(50);
    let mut b = Bench::open_with(&t);
    b.pass(Span::from_secs(1000));
    b.pump();
    assert!(b.sent.is_empty());
    assert_eq!(b.conn.poll_timeout(), None);

    // A keepalive counts from the last message, not from the change.
    t.keepalive = Some(Span::from_secs(5));
    b.conn.retune(t.live());
    b.pump();
    assert_eq!(b.last_sent(), OutBody::Noop);
    b.complete_all();

    t.keepalive = None;
    t.cksum = true;
    b.conn.retune(t.live());
    b.send_put(1, 5000);
    assert!(b
        .posts
        .iter()
        .any(|post| matches!(post, Post::Send { cksum: true, .. })));
    b.complete_all();
    b.pass(Span::from_secs(19));
    b.send_put(2, 5000);
    b.complete_all();
    assert_eq!(
        b.conn.poll_timeout(),
        Some(b.now.after(Span::from_secs(31)))
    );

    // A shorter timeout holds for what is under way, the oldest first.
    t.timeout = Span::from_secs(20);
    b.conn.retune(t.live());
    assert_eq!(b.conn.poll_timeout(), Some(b.now.after(Span::from_secs(1))));
    b.conn.handle_timeout(b.now);
    assert_eq!(b.cause(), None);
    b.pass(Span::from_secs(1));
    b.conn.handle_timeout(b.now);
    assert_eq!(b.cause(), Some(Cause::Timeout));
}
