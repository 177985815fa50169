// SPDX-License-Identifier: GPL-2.0

//! The exchanges of protocol.md section 10, message by message.

use crate::common::*;
use ko2iblnd_host::proto::chain::ChainError;
use ko2iblnd_host::proto::conn::{Action, Delivery, OutBody, Post, Role, WcStatus};
use ko2iblnd_host::proto::{Cause, Health, Instant, Span, Stage};
use ko2iblnd_host::wire::{BodyOut, Cookie, Header, Message, Stamp, Version};

#[test]
fn immediate_ends_with_its_completion() {
    let mut b = Bench::open(8);
    b.send_immediate(1);
    let Post::Send {
        payload,
        reg,
        signal,
        op,
        ..
    } = *b.posts.last().unwrap()
    else {
        panic!("{:?}", b.posts.last());
    };
    assert_eq!((payload, reg, signal), (16, false, true));
    assert!(op.is_some());
    assert_eq!(b.conn.snapshot().credits, 7);
    assert_eq!(b.ends.len(), 0);
    b.complete_all();
    assert_eq!(b.status(1), Some(0));
    assert!(!b.end(1).unwrap().drained);
    b.tear_down();
}

#[test]
fn put_goes_from_request_to_done() {
    let mut b = Bench::open(8);
    b.send_put(1, 8192);
    assert!(matches!(b.last_sent(), OutBody::PutReq { .. }));
    let s = b.conn.snapshot();
    assert_eq!((s.credits, s.reserved), (7, 7));
    let cookie = b.cookie_sent(0);
    b.recv_put_ack(cookie, &[frag(4096), frag(4096)]);
    // The reserve is back when the buffer of the PUT_ACK is, after the last WRITE.
    assert_eq!(b.conn.snapshot().reserved, 8);
    let Post::Writes { count, .. } = b.posts[b.posts.len() - 3] else {
        panic!("{:?}", b.posts);
    };
    assert_eq!(count, 2);
    assert_eq!(
        b.last_sent(),
        OutBody::PutDone(completion(Cookie(77), 8192))
    );
    assert_eq!(b.ends.len(), 0);
    b.complete_all();
    assert_eq!(b.status(1), Some(0));
    b.tear_down();
}

#[test]
fn nak_of_zero_is_success_and_of_an_errno_is_remote() {
    let mut b = Bench::open(8);
    b.send_put(1, 8192);
    b.send_put(2, 8192);
    let (one, two) = (b.cookie_sent(0), b.cookie_sent(1));
    b.recv(&BodyOut::PutNak(completion(one, 0)));
    b.recv(&BodyOut::PutNak(completion(two, -12)));
    assert_eq!(b.status(1), Some(0));
    let end = b.end(2).unwrap();
    assert_eq!(
        (end.done.status, end.done.health),
        (-12, Health::RemoteError)
    );
    assert_eq!(b.conn.snapshot().reserved, 8);
    b.tear_down();
}

#[test]
fn put_sink_is_invalidated_before_it_ends() {
    let mut b = Bench::open(8);
    b.recv_put_req(5);
    let (rx, _, kind) = b.take_delivered();
    assert_eq!(kind, Delivery::PutReq);
    assert_eq!(b.conn.held(rx), Some(kind));
    b.conn.put_sink(b.now, rx, Tx(1), sink(8192)).unwrap();
    assert_eq!(b.conn.held(rx), None);
    b.pump();
    assert!(matches!(
        b.last_sent(),
        OutBody::PutAck {
            src_cookie: Cookie(5),
            ..
        }
    ));
    // The buffer is for the PUT_DONE: the peer gets no credit yet.
    assert_eq!(b.conn.snapshot().outstanding, 0);
    let cookie = b.cookie_sent(0);
    b.recv(&BodyOut::PutDone(completion(cookie, 8192)));
    assert!(matches!(
        b.posts.last(),
        Some(Post::Inv { signal: true, .. })
    ));
    assert_eq!(b.ends.len(), 0);
    b.complete_all();
    assert_eq!(b.status(1), Some(0));
    assert_eq!(b.conn.snapshot().outstanding, 1);
    b.tear_down();
}

#[test]
fn put_done_with_an_errno_fails_the_sink() {
    let mut b = Bench::open(8);
    b.recv_put_req(5);
    let (rx, ..) = b.take_delivered();
    b.conn.put_sink(b.now, rx, Tx(1), sink(8192)).unwrap();
    b.pump();
    let cookie = b.cookie_sent(0);
    b.recv(&BodyOut::PutDone(completion(cookie, -71)));
    b.complete_all();
    let end = b.end(1).unwrap();
    assert_eq!(
        (end.done.status, end.done.health),
        (-71, Health::RemoteError)
    );
    assert!(!end.drained);
}

#[test]
fn get_ends_with_the_length_of_the_reply() {
    let mut b = Bench::open(8);
    b.send_get(1, 8192);
    assert!(matches!(b.posts.last(), Some(Post::Send { reg: true, .. })));
    let cookie = b.cookie_sent(0);
    b.recv(&BodyOut::GetDone(completion(cookie, 5000)));
    assert_eq!(b.conn.snapshot().reserved, 8);
    assert_eq!(b.ends.len(), 0);
    b.complete_all();
    assert_eq!(b.end(1).unwrap().done.reply_len, Some(5000));
    b.tear_down();
}

#[test]
fn get_without_a_match_fails_remotely() {
    let mut b = Bench::open(8);
    b.send_get(1, 8192);
    let cookie = b.cookie_sent(0);
    b.recv(&BodyOut::GetDone(completion(cookie, -61)));
    b.complete_all();
    let end = b.end(1).unwrap();
    assert_eq!(
        (end.done.status, end.done.health),
        (-61, Health::RemoteError)
    );
    assert_eq!(end.done.reply_len, None);
}

#[test]
fn get_source_writes_and_says_how_much() {
    let mut b = Bench::open(8);
    b.recv_get_req(6, &[frag(8192)]);
    let (rx, _, kind) = b.take_delivered();
    assert!(matches!(kind, Delivery::GetReq { .. }));
    b.conn.get_source(b.now, rx, Tx(1), 8000, Ok(1)).unwrap();
    b.pump();
    assert_eq!(b.last_sent(), OutBody::GetDone(completion(Cookie(6), 8000)));
    // The credit is owed as soon as the descriptor is not needed any more.
    assert_eq!(b.conn.snapshot().granted + b.conn.snapshot().outstanding, 8);
    b.complete_all();
    assert_eq!(b.status(1), Some(0));
    b.tear_down();
}

#[test]
fn a_source_that_cannot_write_tells_both_sides() {
    let mut b = Bench::open(8);
    b.recv_get_req(6, &[frag(8192)]);
    let (rx, ..) = b.take_delivered();
    let writes = Err(ChainError::TooManyWrites);
    b.conn.get_source(b.now, rx, Tx(1), 8192, writes).unwrap();
    b.pump();
    assert_eq!(b.last_sent(), OutBody::GetDone(completion(Cookie(6), -90)));
    b.complete_all();
    assert_eq!(b.status(1), Some(-90));

    // A sink that wants more than there is: the reference reports success here.
    b.send_put(2, 4000);
    let cookie = b.cookie_sent(b.sent.len() - 1);
    b.recv_put_ack(cookie, &[frag(4001)]);
    assert_eq!(b.last_sent(), OutBody::PutDone(completion(Cookie(77), -71)));
    b.complete_all();
    assert_eq!(b.status(2), Some(-71));
    assert!(b.conn.is_established());
    let writes = b.posts.iter().any(|p| matches!(p, Post::Writes { .. }));
    assert!(!writes);
    b.tear_down();
}

#[test]
fn answers_may_come_before_the_send_completion() {
    let mut b = Bench::open(8);
    b.send_put(1, 8192);
    b.send_get(2, 8192);
    let (put, get) = (b.cookie_sent(0), b.cookie_sent(1));
    b.recv(&BodyOut::GetDone(completion(get, 8192)));
    b.recv_put_ack(put, &[frag(8192)]);
    b.complete_all();
    assert_eq!((b.status(1), b.status(2)), (Some(0), Some(0)));
    b.tear_down();
}

#[test]
fn a2_active_side_takes_over_what_the_connack_says() {
    let mut b = Bench::connecting(Role::Active, &tunables(8));
    let ack = connack(params(4, 100));
    b.conn.handle_established(b.now, Some(Message::parse(&ack)));
    b.pump();
    let Action::Established(info) = b.acts[0] else {
        panic!("{:?}", b.acts);
    };
    assert_eq!((info.queue_depth, info.max_frags), (4, 100));
    assert_eq!(info.peer_stamp, THEIR_STAMP);
    let s = b.conn.snapshot();
    assert_eq!((s.credits, s.reserved, s.granted), (4, 4, 4));
    // What was posted for the deeper queue stays posted and is drained with the rest.
    assert_eq!(s.rx_posted, 18);
    b.tear_down();
}

#[test]
fn bad_connacks_are_torn_down() {
    let good = connack(params(8, 257));
    let flip = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let version_1 = Header {
        version: Version::V1,
        ..Bench::connecting(Role::Active, &tunables(8)).hdr_from_peer(0)
    };
    let mut cases = vec![
        connack(params(0, 257)),
        connack(params(8, 0)),
        connack(params(9, 257)),
        flip(4),
        bytes(&version_1, &BodyOut::ConnAck(params(8, 257))),
        flip(32),
        flip(40),
        Vec::new(),
    ];
    let mut noop = bytes(
        &Bench::connecting(Role::Active, &tunables(8)).hdr_from_peer(0),
        &BodyOut::Noop,
    );
    noop.resize(196, 0);
    cases.push(noop);
    for (i, ack) in cases.iter().enumerate() {
        let mut b = Bench::connecting(Role::Active, &tunables(8));
        b.conn.handle_established(b.now, Some(Message::parse(ack)));
        b.pump();
        assert!(!b.conn.is_established(), "case {i}");
        let closed = b.acts.iter().find_map(|act| match act {
            Action::Closed { established, .. } => Some(*established),
            _ => None,
        });
        assert_eq!(closed, Some(false), "case {i}");
        b.tear_down();
    }
}

#[test]
fn wrong_identity_closes_with_estale() {
    for field in 0..4 {
        let mut b = Bench::open(8);
        let mut hdr = b.hdr_from_peer(0);
        match field {
            0 => hdr.src = US,
            1 => hdr.dst = THEM,
            2 => hdr.src_stamp = Stamp(1),
            _ => hdr.dst_stamp = Stamp(1),
        }
        b.recv_raw(&hdr, &BodyOut::Noop);
        assert_eq!(b.cause().unwrap().errno(), -116, "field {field}");
        b.tear_down();
    }
}

#[test]
fn keepalive_is_a_noop_after_silence() {
    let mut t = tunables(8);
    t.keepalive = Some(Span::from_secs(10));
    let mut b = Bench::open_with(&t);
    let start = b.now;
    assert_eq!(
        b.conn.poll_timeout(),
        Some(start.after(Span::from_secs(10)))
    );
    b.pass(Span::from_millis(9_999));
    b.pump();
    assert!(b.sent.is_empty());
    b.pass(Span::from_millis(1));
    b.conn.handle_timeout(b.now);
    b.pump();
    assert_eq!(b.sent.len(), 1);
    assert_eq!(b.last_sent(), OutBody::Noop);
    assert!(b
        .posts
        .iter()
        .all(|p| !matches!(p, Post::Send { signal: false, .. })));
    // Not again until it has been silent for as long again, and at most two in flight.
    b.pump();
    assert_eq!(b.sent.len(), 1);
    b.pass(Span::from_secs(10));
    b.pump();
    b.pass(Span::from_secs(10));
    b.pump();
    assert_eq!(b.sent.len(), 2);
    assert!(b.conn.poll_timeout().unwrap() > b.now);
    b.tear_down();
}

#[test]
fn an_overdue_send_closes_the_connection() {
    let mut b = Bench::open(8);
    b.send_immediate(1);
    b.pass(T);
    assert!(b.conn.poll_timeout().unwrap().passed(b.now));
    b.conn.handle_timeout(b.now);
    b.pump();
    assert_eq!(b.cause(), Some(Cause::Timeout));
    // It is in flight: it ends with its completion, and the first cause is kept.
    assert_eq!(b.ends.len(), 0);
    b.flush();
    let end = b.end(1).unwrap();
    assert_eq!(
        (end.done.status, end.done.health),
        (-103, Health::NetworkTimeout)
    );
    b.tear_down();
}

#[test]
fn every_stage_of_a_timeout_has_its_status() {
    let mut t = tunables(1);
    t.credits_hiw = 1;
    let mut b = Bench::open_with(&t);
    b.send_put(1, 8192);
    b.complete_all();
    b.send_immediate(2);
    b.pass(T);
    b.conn.handle_timeout(b.now);
    b.pump();
    let health = |tx| b.end(tx).map(|end| end.done.health);
    assert_eq!(health(1), Some(Health::RemoteTimeout));
    assert_eq!(health(2), Some(Health::LocalTimeout));
    assert_eq!(
        Cause::Timeout.outcome_at(Stage::Sending).health,
        Health::NetworkTimeout
    );
}

#[test]
fn a_success_that_comes_after_the_close_counts() {
    let mut b = Bench::open(8);
    b.send_immediate(1);
    b.send_immediate(2);
    b.conn.handle_disconnected(b.now);
    b.pump();
    let first = b.sq.pop_front().unwrap();
    b.conn
        .handle_send_completion(b.now, first.wr, WcStatus::Success);
    b.pump();
    b.flush();
    assert_eq!(b.status(1), Some(0));
    assert_eq!(b.status(2), Some(-5));
    b.tear_down();
}

#[test]
fn exposed_sinks_end_after_the_drain_only() {
    let mut b = Bench::open(8);
    b.send_get(1, 8192);
    b.recv_put_req(5);
    let (rx, ..) = b.take_delivered();
    b.conn.put_sink(b.now, rx, Tx(2), sink(8192)).unwrap();
    b.pump();
    b.complete_all();
    b.conn.close(b.now, Cause::Deleted);
    b.pump();
    assert!(b.ends.is_empty());
    b.flush();
    assert!(b.end(1).unwrap().drained);
    assert!(b.end(2).unwrap().drained);
    b.tear_down();
}

#[test]
fn a_sink_whose_invalidation_is_flushed_ends_after_the_drain() {
    let mut b = Bench::open(8);
    b.send_get(1, 8192);
    b.complete_all();
    let cookie = b.cookie_sent(0);
    b.recv(&BodyOut::GetDone(completion(cookie, 8192)));
    b.conn.close(b.now, Cause::Deleted);
    b.pump();
    assert!(b.ends.is_empty());
    b.flush();
    let end = b.end(1).unwrap();
    // The data is there.
    assert_eq!((end.drained, end.done.reply_len), (true, Some(8192)));
}

#[test]
fn drain_falls_back_to_destroying_the_qp() {
    // The sentinel cannot be posted.
    let mut b = Bench::open(8);
    b.send_get(1, 8192);
    b.conn.close(b.now, Cause::DeviceGone);
    b.pump();
    b.fail_post = Some(0);
    b.conn.handle_qp_error_state(b.now);
    b.pump();
    assert_eq!(b.acts.last(), Some(&Action::DestroyQp));
    assert!(b.ends.is_empty());
    b.conn.handle_qp_destroyed(b.now);
    b.pump();
    assert_eq!(b.acts.last(), Some(&Action::Drained { forced: true }));
    assert!(b.end(1).unwrap().drained);
    assert!(b.conn.is_released());

    // The flush never comes.
    let mut b = Bench::open(8);
    b.send_put(1, 8192);
    b.conn.close(b.now, Cause::DeviceGone);
    b.conn.handle_qp_error_state(b.now);
    b.pump();
    b.pass(T);
    assert!(b.conn.poll_timeout().unwrap().passed(b.now));
    b.conn.handle_timeout(b.now);
    b.pump();
    assert_eq!(b.acts.last(), Some(&Action::DestroyQp));
    assert_eq!(b.conn.poll_timeout(), None);
    b.conn.handle_qp_destroyed(b.now);
    b.pump();
    assert_eq!(b.acts.last(), Some(&Action::Drained { forced: true }));
}

#[test]
fn whole_immediates_are_delivered_though_the_connection_closes() {
    let mut b = Bench::open(8);
    let hdr = b.hdr_from_peer(0);
    let payload = BodyOut::Immediate {
        hdr: lnet(ko2iblnd_host::wire::LnetMsgType::Ack, 0),
        payload: &[],
    };
    let wr = b.rq.pop_front().unwrap();
    let bytes = bytes(&hdr, &payload);
    b.conn
        .handle_msg(b.now, wr, &Message::parse(&bytes).unwrap());
    b.conn.close(b.now, Cause::Disconnected);
    b.pump();
    assert_eq!(b.delivered.len(), 1);
    b.tear_down();
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    let mut b = Bench::open(8);
    let hdr = lnet(ko2iblnd_host::wire::LnetMsgType::Put, 3977);
    for what in [
        ko2iblnd_host::proto::conn::Submit::Immediate { hdr, payload: 3977 },
        ko2iblnd_host::proto::conn::Submit::Immediate { hdr, payload: 1 },
        put(0),
        put(u32::MAX),
        get(0),
    ] {
        let refused = b.submit(1, what).unwrap_err();
        assert_eq!((refused.tx, refused.cause), (Tx(1), Cause::BadInput));
    }
    assert!(b.conn.is_established());
}

#[test]
fn time_starts_anywhere() {
    assert!(Instant(u64::MAX).after(T).passed(Instant(u64::MAX)));
}

/// The CM flushes the queue pair of a connection that the peer rejects before it says why.
#[test]
fn a_flush_while_connecting_is_not_the_reason() {
    let mut b = Bench::connecting(Role::Active, &tunables(8));
    for wr in std::mem::take(&mut b.rq) {
        b.conn.handle_recv_error(b.now, wr, true);
        b.pump();
    }
    assert!(b.rq.is_empty() && b.cause().is_none());
    b.conn.handle_conn_failed(b.now, Cause::Rejected);
    assert_eq!(b.cause(), Some(Cause::Rejected));
    b.tear_down();

    // Without a reason the deadline ends it, and what is flushed is never established.
    for established in [false, true] {
        let mut b = Bench::connecting(Role::Passive, &tunables(8));
        let wr = b.rq.pop_front().unwrap();
        b.conn.handle_recv_error(b.now, wr, true);
        assert_eq!(b.cause(), None);
        let cause = match established {
            true => {
                b.conn.handle_established(b.now, None);
                Cause::Flushed
            }
            false => {
                b.pass(Span::from_secs(13));
                b.conn.handle_timeout(b.now);
                Cause::ConnectTimeout
            }
        };
        assert_eq!(b.cause(), Some(cause));
        b.tear_down();
    }
}
