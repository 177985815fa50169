// SPDX-License-Identifier: GPL-2.0

//! Details that mutants.py found nobody looking at.

use crate::common::*;
use ko2iblnd_host::proto::conn::{Action, Post, PostError, Role, WcStatus};
use ko2iblnd_host::proto::{Cause, DeviceCaps, Limits, OpId, Span};
use ko2iblnd_host::wire::{BodyOut, Cookie, Message, Version};

fn second() -> Span {
    Span::from_secs(1)
}

/// What shows that the peer is alive: traffic in both directions, and the CM.
#[test]
fn signs_of_life() {
    let mut b = Bench::connecting(Role::Passive, &tunables(8));
    assert_eq!(b.conn.snapshot().alive, b.now);
    b.pass(second());
    b.conn.handle_comm_est(b.now);
    assert_eq!(b.conn.snapshot().alive, b.now);
    b.pass(second());
    b.conn.handle_established(b.now, None);
    let s = b.conn.snapshot();
    assert_eq!((s.alive, s.last_send), (b.now, b.now));
    b.pass(second());
    b.send_immediate(1);
    let sent = b.now;
    assert_eq!(b.conn.snapshot().last_send, sent);
    b.pass(second());
    b.complete_all();
    assert_eq!(b.conn.snapshot().alive, b.now);
    b.pass(second());
    b.recv_with(1, &BodyOut::Noop);
    let s = b.conn.snapshot();
    assert_eq!((s.alive, s.last_send), (b.now, sent));
    // Late news does not make it younger.
    let earlier = ko2iblnd_host::proto::Instant(b.now.0 - 1);
    b.conn.handle_comm_est(earlier);
    assert_eq!(b.conn.snapshot().alive, b.now);
    let alive = b.now;
    b.pass(second());
    b.conn.close(b.now, Cause::CqError);
    b.pump();
    let closed = Action::Closed {
        cause: Cause::CqError,
        alive,
        established: true,
    };
    assert!(b.acts.contains(&closed), "{:?}", b.acts);
    b.tear_down();
}

/// Everything that arrives counts, also what is no message.
#[test]
fn what_arrives_is_counted() {
    let mut b = Bench::open(8);
    b.recv_immediate(9);
    let error = Message::parse(&[]).unwrap_err();
    let wr = b.rq.pop_front().unwrap();
    b.conn.handle_bad_msg(b.now, wr, error);
    b.pump();
    assert_eq!(b.conn.snapshot().counters.rx_msgs, 2);
    let mut seen = 0;
    for wrong in [0, 1, 2] {
        let mut b = Bench::open(8);
        let what = [put(0), get(0), immediate(3977)][wrong];
        assert!(b.submit(1, what).is_err());
        assert!(b.submit(2, put(1 << 31)).is_err());
        seen += b.conn.snapshot().counters.bad_inputs;
        b.tear_down();
    }
    assert_eq!(seen, 6);
}

/// Nothing that was to be reported of a connection is reported once it is over.
#[test]
fn the_end_leaves_nothing_to_report() {
    let mut b = Bench::open(8);
    b.conn.close(b.now, Cause::CqError);
    b.conn.handle_qp_destroyed(b.now);
    b.pump();
    let disconnect = |act: &Action<()>| matches!(act, Action::Disconnect { .. });
    assert!(!b.acts.iter().any(disconnect), "{:?}", b.acts);
    assert!(matches!(
        b.acts[..],
        [
            Action::Established(_),
            Action::Closed { .. },
            Action::Drained { forced: true }
        ]
    ));

    let mut b = Bench::open(8);
    b.conn.close(b.now, Cause::CqError);
    b.pump();
    b.conn.handle_qp_error_state(b.now);
    b.pump();
    b.pass(T);
    b.conn.handle_timeout(b.now);
    b.conn.handle_qp_destroyed(b.now);
    b.pump();
    assert!(!b.acts.contains(&Action::DestroyQp), "{:?}", b.acts);

    // A post that was pulled when the QP went is no post any more.
    for failed in [false, true] {
        let mut b = Bench::open(8);
        b.conn.submit(b.now, Tx(1), immediate(9)).unwrap();
        assert!(matches!(b.conn.poll_post(b.now), Some(Post::Send { .. })));
        b.conn.handle_qp_destroyed(b.now);
        let (errno, accepted) = (-12, 1);
        let result = match failed {
            true => Err(PostError { errno, accepted }),
            false => Ok(()),
        };
        b.conn.posted(b.now, result);
        assert_eq!(b.conn.snapshot().counters.bad_inputs, 1);
        b.pump();
        assert!(b.end(1).is_some() && b.conn.is_released());
    }
}

/// A sink has the whole LND timeout to be invalidated, however late its answer was.
#[test]
fn an_invalidation_has_its_own_time() {
    let mut b = Bench::open(8);
    b.send_get(1, 8192);
    b.complete_all();
    b.pass(Span(T.0 - 1));
    let cookie = b.cookie_sent(0);
    b.recv(&BodyOut::GetDone(completion(cookie, 8192)));
    b.pass(second());
    b.conn.handle_timeout(b.now);
    assert!(b.conn.is_established());
    assert_eq!(b.conn.poll_timeout().unwrap(), {
        let mut due = b.now;
        due.0 += T.0 - second().0;
        due
    });
    b.complete_all();
    assert_eq!(b.status(1), Some(0));
    b.tear_down();
}

/// Of two messages the one that has waited longer is due first, also when the older one was given
/// new time.
#[test]
fn new_time_goes_to_the_end() {
    let mut b = Bench::open(8);
    b.auto_plan = false;
    b.send_put(1, 8192);
    b.complete_all();
    b.pass(Span::from_secs(10));
    b.send_put(2, 8192);
    b.complete_all();
    let second = b.now.after(T);
    b.pass(Span::from_secs(10));
    let cookie = b.cookie_sent(0);
    b.recv_put_ack(cookie, &[frag(8192)]);
    assert_eq!(b.conn.poll_timeout(), Some(second));
    // And the older one is due as well, later.
    let cookie = b.cookie_sent(1);
    b.recv(&BodyOut::PutNak(completion(cookie, 0)));
    assert_eq!(b.conn.poll_timeout(), Some(b.now.after(T)));
    b.pass(T);
    b.conn.handle_timeout(b.now);
    assert_eq!(b.cause(), Some(Cause::Timeout));
    b.tear_down();
}

/// No cookie and no id of an operation comes again, though its slot does.
#[test]
fn names_of_operations_are_new() {
    let mut b = Bench::open(8);
    let slots = usize::from(b.conn.limits().ops);
    let (mut ids, mut cookies) = (Vec::<OpId>::new(), Vec::<Cookie>::new());
    for tx in 0..3 * slots as u32 {
        let id = b.submit(tx, put(8192)).unwrap();
        assert!(!ids.contains(&id));
        assert!(ids.iter().all(|old| b.conn.tx(*old).is_none()));
        ids.push(id);
        let cookie = b.cookie_sent(b.sent.len() - 1);
        assert!(!cookies.contains(&cookie));
        cookies.push(cookie);
        b.recv_with(1, &BodyOut::PutNak(completion(cookie, 0)));
        b.complete_all();
    }
    b.tear_down();
}

/// A send queue with room for 21 work requests beside the sentinel, and a PUT of many fragments.
fn small_queue() -> (Bench, Cookie) {
    let mut t = tunables(8);
    t.concurrent_sends = 4;
    let caps = DeviceCaps {
        max_qp_wr: 22,
        ..CAPS
    };
    let limits = Limits::new(&t, &caps, Version::V2, None).unwrap();
    assert_eq!(limits.sq_wrs, 22);
    let mut b = Bench::with(Role::Passive, &t, limits);
    b.conn.handle_established(b.now, None);
    b.pump();
    b.send_put(1, 20_000);
    b.complete_all();
    let cookie = b.cookie_sent(0);
    (b, cookie)
}

fn writes(b: &Bench) -> Vec<u16> {
    let count = |post: &Post| match post {
        Post::Writes { count, .. } => Some(*count),
        _ => None,
    };
    b.posts.iter().filter_map(count).collect()
}

/// A chain is not posted in crumbs: half the queue at a time, or what is left; exactly half is
/// enough.
#[test]
fn a_chain_is_split_into_halves_at_least() {
    for in_front in [0, 10, 11, 12] {
        let (mut b, cookie) = small_queue();
        // Work requests in front of it.
        let mut tx = 10;
        b.send_put(2, 8192);
        b.complete_all();
        if in_front > 0 {
            let other = b.cookie_sent(1);
            b.recv_put_ack(other, &vec![frag(100); in_front - 1]);
            tx += 1;
        }
        assert_eq!(b.conn.snapshot().sq_used, in_front as u32);
        b.recv_put_ack(cookie, &[frag(100); 60]);
        let mine: Vec<u16> = writes(&b).split_off(usize::from(in_front > 0));
        let room = 21 - in_front as u16;
        match room >= 10 {
            true => assert_eq!(mine, [room], "{in_front}"),
            false => assert!(mine.is_empty(), "{in_front}"),
        }
        b.complete_all();
        assert_eq!(b.status(1), Some(0), "{tx}");
        let all: Vec<u16> = writes(&b).split_off(usize::from(in_front > 0));
        let (last, rest) = all.split_last().unwrap();
        assert!(rest.iter().all(|&n| n >= 10), "{all:?}");
        assert_eq!(rest.iter().sum::<u16>() + last, 60);
        b.tear_down();
    }
}

/// A message with WRITEs in two chains does not end before the second is over: the device may
/// still read its memory.
#[test]
fn a_failed_chain_waits_for_all_of_its_parts() {
    let (mut b, cookie) = small_queue();
    b.send_put(2, 8192);
    b.complete_all();
    let other = b.cookie_sent(1);
    b.recv_put_ack(other, &[frag(100); 9]);
    b.recv_put_ack(cookie, &[frag(100); 60]);
    assert_eq!(writes(&b), [9, 11]);
    // What is in front ends; the next part goes.
    b.conn
        .handle_send_completion(b.now, b.sq[1].wr, WcStatus::Success);
    b.sq.drain(..2);
    b.pump();
    assert_eq!(writes(&b), [9, 11, 10]);
    b.conn.handle_disconnected(b.now);
    b.pump();
    assert!(b.end(1).is_none());
    let first = b.sq.pop_front().unwrap();
    b.conn
        .handle_send_completion(b.now, first.wr, WcStatus::Flushed);
    b.pump();
    assert!(b.end(1).is_none());
    let second = b.sq.pop_front().unwrap();
    b.conn
        .handle_send_completion(b.now, second.wr, WcStatus::Flushed);
    b.pump();
    assert!(b.end(1).is_some_and(|end| !end.drained));
    b.tear_down();
}

/// A message goes when there is exactly room for it.
#[test]
fn exactly_enough_room_is_enough() {
    // With 20 in front there is room for one more.
    for (used, what, goes) in [
        (20, immediate(9), true),
        (21, immediate(9), false),
        (19, get(8192), true),
        (20, get(8192), false),
    ] {
        let (mut b, cookie) = small_queue();
        b.recv_put_ack(cookie, &vec![frag(100); used - 1]);
        assert_eq!(b.conn.snapshot().sq_used, used as u32);
        let sent = b.sent.len();
        b.submit(2, what).unwrap();
        assert_eq!(b.sent.len(), sent + usize::from(goes), "{used} {what:?}");
        b.tear_down();
    }
    // And a NOOP.
    for (used, goes) in [(20, true), (21, false)] {
        let (mut b, cookie) = small_queue();
        let depth = usize::from(b.conn.snapshot().queue_depth);
        b.recv_put_ack(cookie, &vec![frag(100); used - 1]);
        let sent = b.sent.len();
        let credits = b.conn.snapshot().credits;
        assert!(credits > 0);
        for _ in 0..depth {
            b.recv_immediate(1);
        }
        for (rx, ..) in std::mem::take(&mut b.delivered) {
            b.conn.rx_done(b.now, rx);
        }
        b.pump();
        assert_eq!(b.sent.len(), sent + usize::from(goes), "{used}");
        b.tear_down();
    }
}

/// In a burst every quarter of the send queue ends with a signalled request, and the last one is
/// signalled; no other is.
#[test]
fn signals_are_where_they_are_due() {
    let mut t = tunables(16);
    t.concurrent_sends = 16;
    let caps = DeviceCaps {
        max_qp_wr: 36,
        ..CAPS
    };
    let limits = Limits::new(&t, &caps, Version::V2, None).unwrap();
    assert_eq!((limits.queue_depth, limits.sq_wrs), (16, 36));
    let mut b = Bench::with(Role::Passive, &t, limits);
    b.conn.handle_established(b.now, None);
    b.pump();
    for turn in 0..2 {
        for n in 0..14 {
            b.conn.submit(b.now, Tx(20 * turn + n), put(8192)).unwrap();
        }
        b.pump();
        let signals: Vec<usize> = (0..b.sq.len()).filter(|&at| b.sq[at].signal).collect();
        // Nine work requests are a quarter.
        assert_eq!((b.sq.len(), &signals[..]), (14, &[8, 13][..]));
        b.complete_all();
        for n in 0..14 {
            let cookie = b.cookie_sent(14 * turn as usize + n);
            b.recv_with(1, &BodyOut::PutNak(completion(cookie, 0)));
        }
    }
    // A GET is two of them.
    for n in 0..8 {
        b.conn.submit(b.now, Tx(50 + n), get(8192)).unwrap();
    }
    b.pump();
    let signals: Vec<usize> = (0..b.sq.len()).filter(|&at| b.sq[at].signal).collect();
    assert_eq!(signals, [4, 7]);
    b.complete_all();
    b.tear_down();
}

/// What the dump says of buffers and of what was sent.
#[test]
fn counts_of_the_dump() {
    let mut b = Bench::open(8);
    for _ in 0..2 {
        b.recv_immediate(1);
    }
    for (rx, ..) in std::mem::take(&mut b.delivered) {
        b.conn.rx_done(b.now, rx);
    }
    let s = b.conn.snapshot();
    assert_eq!((s.rx_to_post, s.rx_held, s.rx_deliver), (2, 0, 0));
    b.pump();
    assert_eq!(b.conn.snapshot().rx_to_post, 0);
    b.send_put(1, 8192);
    let cookie = b.cookie_sent(0);
    b.recv_put_ack(cookie, &[frag(4096), frag(4096)]);
    b.complete_all();
    let c = b.conn.snapshot().counters;
    assert_eq!((c.tx_msgs, c.tx_writes, c.tx_noops), (2, 2, 0));
    for _ in 0..4 {
        b.recv_immediate(1);
        let (rx, ..) = b.take_delivered();
        b.conn.rx_done(b.now, rx);
        b.pump();
    }
    let c = b.conn.snapshot().counters;
    assert_eq!((c.tx_msgs, c.tx_noops, c.rx_msgs), (3, 1, 7));
    b.tear_down();
}

/// A buffer whose descriptor is still needed is not LNet's any more.
#[test]
fn a_buffer_is_given_back_once() {
    let mut b = Bench::open(8);
    b.recv_get_req(6, &[frag(8192)]);
    let (rx, ..) = b.take_delivered();
    b.conn.get_source(b.now, rx, Tx(1), 8192, Ok(2)).unwrap();
    assert_eq!(b.conn.snapshot().rx_held, 0);
    b.conn.rx_done(b.now, rx);
    assert_eq!(b.conn.snapshot().counters.bad_inputs, 1);
    b.pump();
    b.complete_all();
    assert_eq!(b.status(1), Some(0));
    b.tear_down();
}

/// An early message that closes the connection was looked at, so it is not one that was dropped;
/// what is behind it is.
#[test]
fn early_messages_are_dropped_or_handled() {
    let mut b = Bench::connecting(Role::Passive, &tunables(8));
    b.recv(&BodyOut::PutNak(completion(Cookie(1), 0)));
    b.recv(&BodyOut::Noop);
    assert_eq!(b.conn.snapshot().rx_parked, 2);
    b.conn.handle_established(b.now, None);
    b.pump();
    assert!(!b.conn.is_established());
    let s = b.conn.snapshot();
    assert_eq!((s.counters.dropped_msgs, s.rx_parked), (1, 0));
    b.tear_down();
}

/// A keepalive is not due as long as an answer waits: that will show that we are alive.
#[test]
fn no_keepalive_while_an_answer_waits() {
    for waits in [false, true] {
        let (mut b, cookie) = small_queue();
        b.send_put(2, 8192);
        b.complete_all();
        let other = b.cookie_sent(1);
        // Ten or eleven work requests in front: the chain waits for half the queue, or does not.
        let in_front = if waits { 11 } else { 9 };
        b.recv_put_ack(other, &vec![frag(100); in_front]);
        b.recv_put_ack(cookie, &[frag(100); 60]);
        assert_eq!(b.conn.snapshot().queue_reply, 1);
        assert_eq!(b.conn.snapshot().sq_used == 21, !waits);
        let mut t = tunables(8);
        t.keepalive = Some(second());
        b.conn.retune(t.live());
        assert_eq!(b.conn.poll_timeout(), Some(b.now.after(T)), "{waits}");
        b.complete_all();
        assert_eq!(b.conn.poll_timeout(), Some(b.now.after(second())));
        b.tear_down();
    }
}

/// Searches tell cookies by the message that waits for them, until it has its answer.
#[test]
fn a_cookie_stands_for_the_message_that_waits() {
    let mut b = Bench::open(8);
    b.send_put(1, 8192);
    let cookie = b.cookie_sent(0);
    assert_eq!(b.conn.waits_for(cookie), Some(&Tx(1)));
    assert_eq!(b.conn.waits_for(Cookie(cookie.0 + 1)), None);
    b.recv(&BodyOut::PutNak(completion(cookie, 0)));
    assert_eq!(b.conn.waits_for(cookie), None);
    b.tear_down();
}
