// SPDX-License-Identifier: GPL-2.0

//! The rules of the bug catalogue (bug-catalogue.md) that touch connecting, one test per id.

use super::common::*;
use ko2iblnd_host::proto::{
    conn::EstInfo,
    errno::*,
    peer::{
        connect_timeout,
        AttemptEvent,
        Claim,
        Offer,
        PeerSubmit,
        Verdict,
        CM_REJ_INVALID_SERVICE_ID,
        MAX_RACES, //
    },
    Cause,
    ConnId,
    Done,
    Health,
    Instant,
    LiveTunables,
    Refused, //
};
use ko2iblnd_host::wire::{
    Nid,
    RejectReason,
    Stamp,
    Version, //
};

const C1: ConnId = ConnId(1);
const C2: ConnId = ConnId(2);
const C3: ConnId = ConnId(3);

fn is_accept(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Accept { .. })
}

fn why(verdict: &Verdict) -> RejectReason {
    match verdict {
        Verdict::Reject(refusal) => refusal.reject.why,
        Verdict::Accept { .. } => panic!("{verdict:?}"),
    }
}

fn done(errno: i32, health: Health) -> Done {
    Done {
        status: -errno,
        health,
        reply_len: None,
    }
}

/// A peer with one established connection and nothing else.
fn connected(conns_per_peer: u8) -> Bench {
    let mut b = Bench::new(config(conns_per_peer));
    assert!(is_accept(&b.peer.handle_connreq(b.now, C1, &connreq())));
    assert_eq!(b.peer.handle_established(b.now, C1, &est()), Ok(()));
    assert_eq!(b.acts(), []);
    b
}

/// All orders of `items`.
fn orders<T: Copy>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for at in 0..items.len() {
        let mut rest = items.to_vec();
        let first = rest.remove(at);
        for mut order in orders(&rest) {
            order.insert(0, first);
            all.push(order);
        }
    }
    all
}

/// Connect timer, then each CM event in every order, before and after the abort was pulled, each
/// twice (LU-17632): only the first counts.
#[test]
fn lu_18260_lu_17632_outcome_is_claimed_once() {
    let private = reject_bytes(Version::V2, RejectReason::ConnRace, THEIR_STAMP, 128, 257);
    let events = [
        AttemptEvent::Connected(C1),
        rejected(&private),
        AttemptEvent::Unreachable,
        AttemptEvent::ConnectError,
        AttemptEvent::Disconnected,
    ];
    for order in orders(&events) {
        for pulled_at in 0..=order.len() {
            let mut b = Bench::new(config(1));
            b.queue();
            let id = b.start();
            b.ok(id, AttemptEvent::Connecting);
            b.pass(CONNECT_TIMEOUT);
            b.peer.handle_timeout(b.now);
            let mut acts = Vec::new();
            for (at, event) in order.iter().enumerate() {
                if at == pulled_at {
                    acts.extend(b.acts());
                }
                for _ in 0..2 {
                    let _ = b.event(id, *event);
                }
            }
            acts.extend(b.acts());
            let timeout = done(ETIMEDOUT, Health::NetworkTimeout);
            let expected = [
                Act::Abort(id, Cause::ConnectTimeout),
                Act::Fail(0, timeout),
                Act::Down(Instant(1_000_000_000_000)),
            ];
            assert_eq!(acts, expected, "{order:?}");
            assert_eq!(b.peer.snapshot().conns, 0);
            b.ok(id, AttemptEvent::Released);
            assert_eq!(b.acts(), [Act::Idle]);
        }
    }
}

/// The same with no timer: whatever comes first counts, the other four do not.
#[test]
fn lu_17632_first_cm_event_counts() {
    let private = reject_bytes(Version::V2, RejectReason::Fatal, THEIR_STAMP, 128, 257);
    let events = [
        AttemptEvent::Connected(C1),
        rejected(&private),
        AttemptEvent::Unreachable,
        AttemptEvent::ConnectError,
        AttemptEvent::Disconnected,
    ];
    for order in orders(&events) {
        let mut b = Bench::new(config(1));
        b.queue();
        let id = b.start();
        b.ok(id, AttemptEvent::Connecting);
        b.ok(id, order[0]);
        b.acts();
        for event in &order[1..] {
            b.late(id, *event);
            b.late(id, *event);
        }
        if order[0] == AttemptEvent::Connected(C1) {
            assert_eq!(b.peer.handle_established(b.now, C1, &est()), Ok(()));
            assert_eq!(b.acts(), [Act::Assign(C1, 0)]);
        }
    }
}

/// A late ESTABLISHED of a connection that is up or was given up changes nothing.
#[test]
fn lu_18899_late_established() {
    let mut b = connected(1);
    let before = b.peer.snapshot();
    assert_eq!(b.peer.handle_established(b.now, C1, &est()), Ok(()));
    assert_eq!(b.peer.snapshot().up, before.up);
    b.peer.close_conns(Cause::Deleted);
    assert!(b.peer.handle_established(b.now, C1, &est()).is_err());
    b.gone(C1, Cause::Deleted);
    assert!(b.peer.handle_established(b.now, C1, &est()).is_err());
    assert_eq!(b.peer.snapshot().up, 0);
}

/// A message that waits has a deadline of its own, set when it is queued.
#[test]
fn lu_16184_deadline_is_set_when_queued() {
    let mut b = Bench::new(config(1));
    b.queue();
    let id = b.start();
    b.ok(id, AttemptEvent::ConnectError);
    b.acts();
    b.pass(secs(1000));
    b.queue();
    b.ok(id, AttemptEvent::Released);
    b.start();
    b.peer.handle_timeout(b.now);
    assert_eq!(b.acts(), []);
    assert_eq!(b.peer.snapshot().waiting, 1);
}

/// A message waits no longer than connect timeout and 10 s, whatever the attempts do.
#[test]
fn message_deadline() {
    let mut b = Bench::new(config(1));
    let (start, mut id) = (b.now, None);
    b.queue();
    // Rejected for ever, but each attempt takes a second.
    for _ in 0..100 {
        for act in b.acts() {
            match act {
                Act::Start(next, ..) => id = Some(next),
                Act::Fail(0, failed) => {
                    assert_eq!(failed, done(ETIMEDOUT, Health::NetworkTimeout));
                    let waited = b.now.since(start);
                    assert!(waited >= CONNECT_TIMEOUT.plus(secs(10)), "{waited:?}");
                    assert!(waited < CONNECT_TIMEOUT.plus(secs(11)), "{waited:?}");
                    return;
                }
                _ => {}
            }
        }
        b.pass(secs(1));
        b.peer.handle_timeout(b.now);
        if let Some(id) = id.take() {
            b.reject(id, RejectReason::ConnRace);
            b.ok(id, AttemptEvent::Released);
        }
    }
    panic!("it waits for ever");
}

/// Nothing at all comes from the CM: every phase ends by itself and can be cancelled.
#[test]
fn lu_17480_no_cm_event_at_all() {
    for phases in 0..4 {
        let mut b = Bench::new(config(1));
        b.queue();
        let id = b.start();
        let events = [
            AttemptEvent::AddrResolved,
            AttemptEvent::RouteResolved,
            AttemptEvent::Connecting,
        ];
        for event in &events[..phases] {
            b.ok(id, *event);
        }
        let start = b.now;
        b.pass_to_timeout();
        assert!(b.now.since(start) <= CONNECT_TIMEOUT);
        assert!(matches!(
            b.acts()[..],
            [Act::Abort(..), Act::Fail(..), Act::Down(_)]
        ));

        let mut b = Bench::new(config(1));
        b.queue();
        let id = b.start();
        for event in &events[..phases] {
            b.ok(id, *event);
        }
        b.peer.delete(Cause::Deleted);
        let failed = done(EIO, Health::LocalError);
        assert_eq!(
            b.acts(),
            [Act::Abort(id, Cause::Deleted), Act::Fail(0, failed)]
        );
        b.ok(id, AttemptEvent::Released);
        assert_eq!(b.acts(), [Act::Idle]);
    }
}

#[test]
fn the_connect_timeout_changes_while_the_peer_lives() {
    let mut b = Bench::new(config(1));
    let live = LiveTunables {
        timeout: secs(20),
        connect_timeout: secs(5),
        keepalive: None,
        cksum: false,
    };
    b.peer.retune(live);
    b.queue();
    let id = b.start();
    b.ok(id, AttemptEvent::Connecting);
    assert_eq!(b.peer.poll_timeout(), Some(b.now.after(secs(5))));
}

#[test]
fn lu_17480_connect_timeout_is_a_quarter() {
    assert_eq!(connect_timeout(secs(50)), CONNECT_TIMEOUT);
    assert_eq!(connect_timeout(secs(20)), secs(5));
    assert_eq!(connect_timeout(secs(0)), secs(5));
    assert_eq!(connect_timeout(secs(100)), secs(25));
}

/// Four attempts; the first is rejected for renegotiation, the second established, the third
/// pending, then the retry runs.
#[test]
fn lu_9507_attempts_are_independent() {
    let mut b = Bench::new(config(4));
    b.queue();
    let ids = b.starts();
    assert_eq!(ids.len(), 4);
    for id in &ids {
        b.ok(*id, AttemptEvent::Connecting);
    }
    let private = reject_bytes(Version::V2, RejectReason::MsgQueueSize, THEIR_STAMP, 8, 257);
    b.ok(ids[0], rejected(&private));
    assert_eq!(b.acts(), [Act::Abort(ids[0], Cause::Rejected)]);
    b.establish_connecting(ids[1], C1);
    assert_eq!(b.acts(), [Act::Assign(C1, 0)]);
    b.ok(ids[0], AttemptEvent::Released);
    let acts = b.acts();
    let [Act::Start(retry, _, offer, _)] = acts[..] else {
        panic!("{acts:?}");
    };
    assert_eq!(offer.queue_depth, 8);
    b.ok(ids[3], AttemptEvent::Unreachable);
    assert_eq!(b.acts(), [Act::Abort(ids[3], Cause::ConnectTimeout)]);
    b.establish_connecting(ids[2], C2);
    b.establish_connecting(retry, C3);
    assert_eq!(b.acts(), []);
    assert_eq!(b.peer.snapshot().up, 3);
}

impl Bench {
    fn establish_connecting(&mut self, id: ko2iblnd_host::proto::AttemptId, conn: ConnId) {
        self.ok(id, AttemptEvent::Connected(conn));
        assert_eq!(self.peer.handle_established(self.now, conn, &est()), Ok(()));
    }
}

/// Every message comes out once and in order: n waiting, then ESTABLISHED; n waiting, then
/// ADDR_ERROR.
#[test]
fn lu_10682_lu_10819_no_message_is_lost() {
    for n in [1u32, 2, 63, 64] {
        let mut b = Bench::new(config(1));
        (0..n).for_each(|_| {
            b.queue();
        });
        let id = b.start();
        b.establish(id, C1);
        let expected: Vec<_> = (0..n).map(|tx| Act::Assign(C1, tx)).collect();
        assert_eq!(b.acts(), expected);

        let mut b = Bench::new(config(1));
        (0..n).for_each(|_| {
            b.queue();
        });
        let id = b.start();
        b.ok(id, AttemptEvent::AddrError);
        let failed = done(EHOSTUNREACH, Health::NetworkTimeout);
        let mut expected = vec![Act::Abort(id, Cause::Unreachable)];
        expected.extend((0..n).map(|tx| Act::Fail(tx, failed)));
        expected.push(Act::Down(b.now));
        assert_eq!(b.acts(), expected);
    }
}

/// The queue is full: the message comes back.
#[test]
fn queue_has_a_limit() {
    let mut b = Bench::new(config(1));
    (0..64).for_each(|_| {
        b.queue();
    });
    match b.peer.submit(b.now, Tx(99)) {
        PeerSubmit::Refused(Refused { tx, cause }) => {
            assert_eq!((tx, cause), (Tx(99), Cause::TooMany));
        }
        other => panic!("{other:?}"),
    }
}

/// The other side always answers CONN_RACE: one half-open attempt and one dying, the delay grows
/// and is bounded, and a retry starts only after its predecessor's resources are gone.
#[test]
fn lu_5718_lu_7569_pacing() {
    let mut b = Bench::new(config(1));
    let mut starts = Vec::new();
    b.queue();
    let mut id = b.start();
    let begin = b.now;
    while b.now.since(begin) < secs(120) {
        starts.push(b.now.since(begin).0);
        assert!(starts.len() < 1_000, "no pacing");
        b.reject(id, RejectReason::ConnRace);
        // Something always waits.
        if b.peer.snapshot().waiting < 60 {
            b.queue();
        }
        let acts = b.acts();
        assert!(
            acts.iter().all(|a| !matches!(a, Act::Start(..))),
            "not released: {acts:?}"
        );
        b.ok(id, AttemptEvent::Released);
        id = loop {
            let next = b.acts().iter().find_map(|act| match act {
                Act::Start(next, ..) => Some(*next),
                _ => None,
            });
            match next {
                Some(next) => break next,
                None => b.pass_to_timeout(),
            }
        };
    }
    let gaps: Vec<u64> = starts.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps[..10].iter().all(|gap| *gap == 0), "{gaps:?}");
    assert!(gaps[10..].iter().all(|gap| *gap >= secs(1).0), "{gaps:?}");
    assert!(gaps.windows(2).all(|w| w[1] >= w[0]), "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= secs(6).0), "{gaps:?}");
    assert!(starts.len() < 10 + 60, "{}", starts.len());
    assert!(starts.len() > 30, "the delay is bounded: {}", starts.len());
}

/// A new batch of messages does not start attempts beside those that are being taken down.
#[test]
fn lu_5718_new_messages_wait_for_release() {
    let mut b = Bench::new(config(2));
    b.queue();
    let ids = b.starts();
    for id in &ids {
        b.ok(*id, AttemptEvent::ConnectError);
    }
    b.acts();
    b.queue();
    assert_eq!(b.acts(), []);
    b.ok(ids[1], AttemptEvent::Released);
    let second = b.start();
    b.ok(ids[0], AttemptEvent::Released);
    let first = b.start();
    assert!(!ids.contains(&first) && !ids.contains(&second));
}

/// Reasons 6 and 7 with private data of every length and both versions: without usable limits the
/// attempt fails cleanly.
#[test]
fn lu_4629_lu_3322_short_rejects() {
    for version in [Version::V1, Version::V2] {
        for reason in [RejectReason::RdmaFrags, RejectReason::MsgQueueSize] {
            let whole = reject_bytes(version, reason, THEIR_STAMP, 8, 16);
            for len in 0..=whole.len() {
                let mut b = Bench::new(config(1));
                b.queue();
                let id = b.start();
                b.ok(id, rejected(&whole[..len]));
                let acts = b.acts();
                let retry = version == Version::V2 && len >= 24;
                let failed = acts.iter().any(|act| matches!(act, Act::Fail(..)));
                assert_eq!(failed, !retry, "{version:?} {reason:?} {len}: {acts:?}");
                let offer = b.peer.snapshot().offer;
                let lowered = offer.queue_depth == 8 || offer.max_frags == 16;
                assert_eq!(lowered, retry, "{offer:?}");
            }
        }
    }
}

/// Limits of a reject: applied when lower and not zero, by every later attempt.
#[test]
fn lu_3322_lu_15094_a5_reject_limits() {
    for (depth, frags) in [(0, 0), (8, 17), (127, 256), (128, 257), (200, 300)] {
        for reason in [RejectReason::MsgQueueSize, RejectReason::RdmaFrags] {
            let mut b = Bench::new(config(2));
            b.queue();
            let ids = b.starts();
            let private = reject_bytes(Version::V2, reason, THEIR_STAMP, depth, frags);
            b.ok(ids[0], rejected(&private));
            b.acts();
            let mut expected = Offer {
                queue_depth: 128,
                max_frags: 257,
            };
            let usable = if reason == RejectReason::MsgQueueSize {
                expected.queue_depth = if depth > 0 { depth.min(128) } else { 128 };
                depth > 0 && depth < 128
            } else {
                expected.max_frags = if frags > 0 { frags.min(257) } else { 257 };
                frags > 0 && frags < 257
            };
            assert_eq!(b.peer.snapshot().offer, expected);
            assert_eq!(b.peer.snapshot().reconnecting, u16::from(usable));
            // The sibling was told the same; it had offered more, so it may ask again.
            b.ok(ids[1], rejected(&private));
            assert_eq!(b.peer.snapshot().reconnecting, 2 * u16::from(usable));
        }
    }
}

/// What CONNREQ and CONNACK agreed on is what the next attempt starts from, also when the message
/// was queued before the CONNREQ came.
#[test]
fn lu_15094_agreed_limits_belong_to_the_peer() {
    let mut b = Bench::new(config(1));
    let mut req = connreq();
    (req.queue_depth, req.max_frags) = (8, 17);
    let verdict = b.peer.handle_connreq(b.now, C1, &req);
    let offer = Offer {
        queue_depth: 8,
        max_frags: 17,
    };
    let version = Version::V2;
    assert_eq!(verdict, Verdict::Accept { version, offer });
    b.queue();
    assert_eq!(b.acts(), [], "the accepted connection will do");
    b.gone(C1, Cause::Disconnected);
    let acts = b.acts();
    assert!(matches!(acts[..], [Act::Start(_, _, o, s)] if o == offer && s == THEIR_STAMP));

    // An acknowledged lower depth, too.
    let mut b = Bench::new(config(1));
    b.queue();
    let id = b.start();
    b.ok(id, AttemptEvent::Connected(C1));
    let mut info = est();
    info.queue_depth = 100;
    assert_eq!(b.peer.handle_established(b.now, C1, &info), Ok(()));
    assert_eq!(b.peer.snapshot().offer.queue_depth, 100);
}

/// A device that cannot do what was offered: the working depth is remembered for the peer.
#[test]
fn lu_12901_lowered_limits_are_remembered() {
    let mut b = Bench::new(config(1));
    b.queue();
    let id = b.start();
    let lower = Offer {
        queue_depth: 21,
        max_frags: 257,
    };
    b.ok(id, AttemptEvent::LimitsLowered(lower));
    // A reject with a limit between the two is not lower than what this attempt offered.
    let private = reject_bytes(
        Version::V2,
        RejectReason::MsgQueueSize,
        THEIR_STAMP,
        64,
        257,
    );
    b.ok(id, rejected(&private));
    assert!(b.acts().iter().any(|act| matches!(act, Act::Fail(..))));
    b.ok(id, AttemptEvent::Released);
    b.queue();
    assert!(matches!(b.acts()[..], [Act::Start(_, _, offer, _)] if offer == lower));
}

/// A version 1 attempt, whose depth is fixed, leaves the offer of version 2 alone.
#[test]
fn version_1_does_not_lower_the_offer() {
    let mut b = Bench::new(config(1));
    b.queue();
    let id = b.start();
    let private = reject_bytes(Version::V1, RejectReason::Fatal, Stamp::UNKNOWN, 0, 0);
    b.ok(id, rejected(&private[..24]));
    b.acts();
    b.ok(id, AttemptEvent::Released);
    let acts = b.acts();
    let [Act::Start(id, Version::V1, offer, Stamp::UNKNOWN)] = acts[..] else {
        panic!("{acts:?}");
    };
    b.ok(id, AttemptEvent::LimitsLowered(offer));
    b.ok(id, AttemptEvent::Connected(C1));
    let mut info = est();
    (info.version, info.queue_depth, info.max_frags) = (Version::V1, 8, 256);
    assert_eq!(b.peer.handle_established(b.now, C1, &info), Ok(()));
    let before = config(1);
    let offer = b.peer.snapshot().offer;
    assert_eq!(offer.queue_depth, before.ni.peer_credits);
    assert_eq!(offer.max_frags, before.max_frags);
}

/// Nobody listens: fails at once, within one round trip, with an error LNet does not resend.
#[test]
fn lu_13972_lu_14536_no_listener() {
    let mut b = Bench::new(config(1));
    b.queue();
    let id = b.start();
    let event = AttemptEvent::Rejected {
        cm_reason: CM_REJ_INVALID_SERVICE_ID,
        private: &[],
    };
    b.ok(id, event);
    let failed = done(EHOSTUNREACH, Health::NetworkTimeout);
    let acts = [
        Act::Abort(id, Cause::Unreachable),
        Act::Fail(0, failed),
        Act::Down(b.now),
    ];
    assert_eq!(b.acts(), acts);
}

/// The notice: once per loss, only for the last connection, only after an error, with the time of
/// the last sign of life.
#[test]
fn lu_20379_lu_17855_notices() {
    let mut b = connected(1);
    assert!(is_accept(&b.peer.handle_connreq(b.now, C2, &connreq())));
    assert_eq!(b.peer.handle_established(b.now, C2, &est()), Ok(()));
    b.peer.handle_closed(b.now, C1, Cause::Timeout, b.now);
    assert_eq!(b.acts(), [], "another connection lives");
    b.pass(secs(5));
    let alive = b.now;
    b.pass(secs(5));
    b.peer.handle_closed(b.now, C2, Cause::Timeout, alive);
    assert_eq!(b.acts(), [Act::Down(alive)]);
    // Failing to connect again is the same loss.
    b.queue();
    let id = b.start();
    b.ok(id, AttemptEvent::Unreachable);
    assert!(b.acts().iter().all(|act| !matches!(act, Act::Down(_))));
    b.ok(id, AttemptEvent::Released);
    // Up again, and lost again.
    b.gone(C1, Cause::Timeout);
    assert!(is_accept(&b.peer.handle_connreq(b.now, C1, &connreq())));
    assert_eq!(b.peer.handle_established(b.now, C1, &est()), Ok(()));
    b.peer.handle_closed(b.now, C1, Cause::Flushed, b.now);
    assert_eq!(b.acts(), [Act::Down(b.now)]);
}

#[test]
fn lu_20379_orderly_close_is_no_loss() {
    for cause in [Cause::Disconnected, Cause::Deleted] {
        let mut b = connected(1);
        b.gone(C1, cause);
        assert_eq!(b.acts(), [Act::Idle]);
    }
}

/// A loss while something is under way is told only when that fails, too.
#[test]
fn lu_20379_loss_while_connecting() {
    for comes_up in [true, false] {
        let mut b = connected(1);
        assert!(is_accept(&b.peer.handle_connreq(b.now, C2, &connreq())));
        b.peer.handle_closed(b.now, C1, Cause::Timeout, b.now);
        assert_eq!(b.acts(), []);
        if comes_up {
            assert_eq!(b.peer.handle_established(b.now, C2, &est()), Ok(()));
            assert_eq!(b.acts(), []);
        } else {
            b.peer.handle_closed(b.now, C2, Cause::Disconnected, b.now);
            assert_eq!(b.acts(), [Act::Down(b.now)]);
        }
    }
}

/// A connection that takes no more work: another is tried, then the message waits, with its
/// deadline; it does not come back for ever.
#[test]
fn lu_11756_refused_message_finds_a_way() {
    let mut b = connected(1);
    assert!(is_accept(&b.peer.handle_connreq(b.now, C2, &connreq())));
    assert_eq!(b.peer.handle_established(b.now, C2, &est()), Ok(()));
    let (first, tx, ticket) = b.send();
    let refused = Refused {
        tx,
        cause: Cause::PeerGone,
    };
    let other = if first == C1 { C2 } else { C1 };
    let (tx, ticket) = match b.peer.handle_conn_refused(b.now, first, refused, ticket) {
        PeerSubmit::Use { conn, tx, ticket } if conn == other => (tx, ticket),
        got => panic!("{got:?}"),
    };
    b.pass(secs(9));
    let refused = Refused {
        tx,
        cause: Cause::PeerGone,
    };
    match b.peer.handle_conn_refused(b.now, other, refused, ticket) {
        PeerSubmit::Queued => {}
        got => panic!("{got:?}"),
    }
    let id = b.start();
    b.pass(secs(5));
    b.peer.handle_timeout(b.now);
    assert!(matches!(b.acts()[..], [Act::Abort(i, _), Act::Fail(0, _)] if i == id));
}

#[test]
fn lu_11756_refusals_are_bounded() {
    let mut b = connected(1);
    let (mut conn, mut tx, mut ticket) = b.send();
    for round in 0..100 {
        let cause = Cause::Disconnected;
        match b
            .peer
            .handle_conn_refused(b.now, conn, Refused { tx, cause }, ticket)
        {
            PeerSubmit::Queued => {}
            PeerSubmit::Refused(refused) => {
                assert_eq!(refused.cause, Cause::PeerGone);
                // The eighth time is the last.
                assert_eq!(round, 7);
                return;
            }
            PeerSubmit::Use { .. } => panic!("no connection is left"),
        }
        let id = b.start();
        conn = ConnId(100 + round);
        b.establish(id, conn);
        let action = b.peer.poll_action();
        (tx, ticket) = match action {
            Some(ko2iblnd_host::proto::peer::PeerAction::Assign { tx, ticket, .. }) => (tx, ticket),
            other => panic!("{other:?}"),
        };
        b.acts();
    }
    panic!("comes back for ever");
}

/// A connection with a full table is not dead, nor one that was given what none would take.
#[test]
fn full_connection_stays_up() {
    for cause in [Cause::TooMany, Cause::BadInput] {
        let mut b = connected(1);
        let (conn, tx, ticket) = b.send();
        match b
            .peer
            .handle_conn_refused(b.now, conn, Refused { tx, cause }, ticket)
        {
            PeerSubmit::Refused(refused) => assert_eq!(refused.cause, cause),
            other => panic!("{other:?}"),
        }
        assert_eq!(b.peer.snapshot().up, 1);
    }
}

/// Deleted: what waits fails, nothing new is accepted, what comes up is closed.
#[test]
fn b_10778_nothing_after_delete() {
    let mut b = Bench::new(config(3));
    b.queue();
    let ids = b.starts();
    b.ok(ids[0], AttemptEvent::Connected(C1));
    b.reject(ids[1], RejectReason::ConnRace);
    b.acts();
    let mut req = connreq();
    req.peer = THEM;
    assert!(is_accept(&b.peer.handle_connreq(b.now, C2, &req)));
    b.peer.delete(Cause::Deleted);
    let acts = b.acts();
    let failed = done(EIO, Health::LocalError);
    let expected = [
        Act::Abort(ids[2], Cause::Deleted),
        Act::Close(C1, Cause::Deleted),
        Act::Close(C2, Cause::Deleted),
        Act::Fail(0, failed),
    ];
    assert_eq!(acts.len(), expected.len(), "{acts:?}");
    assert!(expected.iter().all(|act| acts.contains(act)), "{acts:?}");
    assert!(b.peer.handle_established(b.now, C1, &est()).is_err());
    assert!(b.peer.handle_established(b.now, C2, &est()).is_err());
    assert_eq!(
        why(&b.peer.handle_connreq(b.now, C3, &req)),
        RejectReason::NoResources
    );
    match b.peer.submit(b.now, Tx(77)) {
        PeerSubmit::Refused(refused) => assert_eq!(refused.cause, Cause::Deleted),
        other => panic!("{other:?}"),
    }
    assert_eq!(b.acts(), []);
    b.gone(C1, Cause::Deleted);
    b.gone(C2, Cause::Deleted);
    b.ok(ids[1], AttemptEvent::Released);
    assert_eq!(b.acts(), []);
    b.ok(ids[2], AttemptEvent::Released);
    assert_eq!(b.acts(), [Act::Idle]);
}

/// Deleted between the choice of a connection and the pull of the action.
#[test]
fn delete_catches_assigned_messages() {
    let mut b = Bench::new(config(1));
    b.queue();
    let id = b.start();
    b.establish(id, C1);
    b.peer.delete(Cause::Deleted);
    let failed = done(EIO, Health::LocalError);
    let expected = [Act::Close(C1, Cause::Deleted), Act::Fail(0, failed)];
    assert_eq!(b.acts(), expected);
}

/// An idle peer retires; one that was found by a message meanwhile does not.
#[test]
fn idle_peer_retires_under_the_table_lock() {
    let mut b = connected(1);
    b.gone(C1, Cause::Disconnected);
    assert_eq!(b.acts(), [Act::Idle]);
    b.queue();
    assert!(!b.peer.retire());
    let id = b.start();
    b.ok(id, AttemptEvent::CallFailed(-EINVAL));
    b.acts();
    assert!(!b.peer.retire());
    b.ok(id, AttemptEvent::Released);
    assert_eq!(b.acts(), [Act::Idle]);
    assert!(b.peer.retire());
    assert!(matches!(
        b.peer.submit(b.now, Tx(1)),
        PeerSubmit::Refused(_)
    ));
}

/// A peer that was made for a request it rejects may go.
#[test]
fn rejected_request_leaves_an_idle_peer() {
    let mut b = Bench::new(config(1));
    b.peer.delete(Cause::Deleted);
    b.acts();
    let verdict = b.peer.handle_connreq(b.now, C1, &connreq());
    assert_eq!(why(&verdict), RejectReason::NoResources);
    assert_eq!(b.acts(), [Act::Idle]);
}

/// The higher hash wins; after 20 races it gives way, and an accept resets the count.
#[test]
fn races_give_way_after_twenty() {
    let mut b = Bench::new(config(1));
    // Seen from the node with the higher NID, whose attempt hangs.
    let mut cfg = config(1);
    (cfg.ni.nid, cfg.peer) = (THEM, US);
    b.peer = peer(cfg, b.now);
    b.queue();
    let id = b.start();
    let mut req = connreq();
    req.peer = US;
    for round in 0..MAX_RACES {
        let verdict = b.peer.handle_connreq(b.now, C1, &req);
        assert_eq!(why(&verdict), RejectReason::ConnRace, "{round}");
        assert_eq!(b.acts(), []);
    }
    assert!(is_accept(&b.peer.handle_connreq(b.now, C1, &req)));
    assert_eq!(b.peer.snapshot().races, 0);
    // Our attempt is rejected by the winner; the accepted connection will do.
    b.reject(id, RejectReason::ConnRace);
    assert_eq!(b.acts(), [Act::Abort(id, Cause::Rejected)]);
    assert_eq!(b.peer.snapshot().reconnecting, 0);
    let mut info = est();
    info.peer_stamp = req.stamp;
    assert_eq!(b.peer.handle_established(b.now, C1, &info), Ok(()));
    assert_eq!(b.acts(), [Act::Assign(C1, 0)]);
}

/// A peer of the other rule tells us that we lose: from then on we let it in, though by our rule
/// it would give way.
#[test]
fn a4_peer_of_the_other_rule() {
    let mut cfg = config(1);
    (cfg.ni.nid, cfg.peer) = (THEM, US);
    let mut b = Bench::new(cfg);
    let mut req = connreq();
    req.peer = US;
    b.queue();
    let id = b.start();
    assert_eq!(
        why(&b.peer.handle_connreq(b.now, C1, &req)),
        RejectReason::ConnRace
    );
    b.reject(id, RejectReason::ConnRace);
    b.acts();
    b.ok(id, AttemptEvent::Released);
    b.start();
    assert!(is_accept(&b.peer.handle_connreq(b.now, C1, &req)));
}

/// Without an attempt of ours there is no race; nor against a lower NID's attempt.
#[test]
fn no_race_without_an_attempt() {
    let mut b = Bench::new(config(1));
    b.queue();
    b.start();
    assert!(
        is_accept(&b.peer.handle_connreq(b.now, C1, &connreq())),
        "they are higher"
    );
    let mut cfg = config(1);
    (cfg.ni.nid, cfg.peer) = (THEM, US);
    b.peer = peer(cfg, b.now);
    let mut req = connreq();
    req.peer = US;
    assert!(
        is_accept(&b.peer.handle_connreq(b.now, C1, &req)),
        "no attempt"
    );
}

/// The octets decide from the last on little-endian machines since 2.16, from the first before.
#[test]
fn a4_tie_break_rules() {
    use ko2iblnd_host::proto::peer::TieBreak::*;
    let nid = |a| Nid::o2ib(0, a);
    let (low, high) = (nid(0x0a00_00ff), nid(0x0a00_0101));
    assert!(Numeric.gives_way(low, high) && !Numeric.gives_way(high, low));
    if cfg!(target_endian = "little") {
        assert!(Hash.gives_way(high, low) && !Hash.gives_way(low, high));
    }
    for rule in [Hash, Numeric] {
        assert!(!rule.gives_way(low, low), "equal is not lower");
    }
}

/// A passive connection took over: planned attempts are dropped. If it fails and messages still
/// wait, they get an attempt of ours.
#[test]
fn passive_connection_takes_over() {
    let mut b = Bench::new(config(2));
    b.queue();
    let ids = b.starts();
    b.reject(ids[0], RejectReason::ConnRace);
    b.reject(ids[1], RejectReason::ConnRace);
    b.acts();
    assert!(is_accept(&b.peer.handle_connreq(b.now, C1, &connreq())));
    b.ok(ids[0], AttemptEvent::Released);
    b.ok(ids[1], AttemptEvent::Released);
    assert_eq!(b.acts(), []);
    b.peer
        .handle_closed(b.now, C1, Cause::ConnectTimeout, b.now);
    b.start();
}

/// The requester never answers: the accepted connection has a deadline, too.
#[test]
fn accepted_connection_has_a_deadline() {
    let mut b = Bench::new(config(1));
    assert!(is_accept(&b.peer.handle_connreq(b.now, C1, &connreq())));
    b.queue();
    assert_eq!(b.acts(), []);
    let start = b.now;
    b.pass_to_timeout();
    assert_eq!(b.now.since(start), CONNECT_TIMEOUT);
    let acts = b.acts();
    let [Act::Start(id, ..), Act::Close(C1, Cause::ConnectTimeout)] = acts[..] else {
        panic!("{acts:?}");
    };
    b.establish(id, C2);
    assert_eq!(b.acts(), [Act::Assign(C2, 0)]);
}

/// The peer restarted: its request is rejected once with CONN_STALE, its old connections are
/// closed, and the next request is accepted.
#[test]
fn a12_new_incarnation_of_the_requester() {
    let mut b = connected(1);
    assert!(is_accept(&b.peer.handle_connreq(b.now, C2, &connreq())));
    let mut req = connreq();
    req.stamp = Stamp(4711);
    let verdict = b.peer.handle_connreq(b.now, C3, &req);
    assert_eq!(why(&verdict), RejectReason::ConnStale);
    let stale = Cause::NewIncarnation;
    assert_eq!(b.acts(), [Act::Close(C1, stale), Act::Close(C2, stale)]);
    assert_eq!(b.peer.snapshot().up, 0);
    assert!(is_accept(&b.peer.handle_connreq(b.now, C3, &req)));
    let mut info = est();
    info.peer_stamp = req.stamp;
    assert_eq!(b.peer.handle_established(b.now, C3, &info), Ok(()));
    b.gone(C1, stale);
    b.gone(C2, stale);
    assert_eq!(b.acts(), []);
    assert_eq!(b.peer.snapshot().up, 1);
    // Another version is another incarnation, too.
    req.version = Version::V1;
    let verdict = b.peer.handle_connreq(b.now, C1, &req);
    assert_eq!(why(&verdict), RejectReason::ConnStale);
    assert_eq!(b.acts(), [Act::Close(C3, stale)]);
}

/// Our attempt finds the peer restarted: the old connections are closed when the new one is up.
#[test]
fn new_incarnation_found_by_an_attempt() {
    let mut b = Bench::new(config(2));
    b.queue();
    let ids = b.starts();
    b.establish(ids[0], C1);
    b.acts();
    b.ok(ids[1], AttemptEvent::Connected(C2));
    let mut info = est();
    info.peer_stamp = Stamp(4711);
    assert_eq!(b.peer.handle_established(b.now, C2, &info), Ok(()));
    assert_eq!(b.acts(), [Act::Close(C1, Cause::NewIncarnation)]);
    assert_eq!(b.peer.snapshot().stamp, Stamp(4711));
    assert_eq!(b.send().0, C2);
}

/// The end of a connection whose CONNACK was being judged is the end of the attempt.
#[test]
fn connection_that_never_opens() {
    for (cause, status) in [
        (Cause::Disconnected, ECONNRESET),
        (
            Cause::Protocol(ko2iblnd_host::proto::cause::Violation::BadConnAck),
            ECONNABORTED,
        ),
    ] {
        let mut b = Bench::new(config(1));
        b.queue();
        let id = b.start();
        b.ok(id, AttemptEvent::Connected(C1));
        b.peer.handle_closed(b.now, C1, cause, b.now);
        let acts = b.acts();
        let [Act::Fail(0, failed), Act::Down(_)] = acts[..] else {
            panic!("{acts:?}");
        };
        assert_eq!(failed.status, -status);
        b.queue();
        assert_eq!(b.acts(), [], "its resources are still there");
        b.peer.handle_gone(b.now, C1);
        b.start();
    }
}

/// A reject tells of the restart first; the old connections are closed when the new one is up.
#[test]
fn restart_known_from_a_reject() {
    let mut b = Bench::new(config(2));
    b.queue();
    let ids = b.starts();
    let private = reject_bytes(Version::V2, RejectReason::ConnStale, Stamp(4711), 128, 257);
    b.ok(ids[0], rejected(&private));
    b.acts();
    // Accepted before the restart, established after it.
    b.establish(ids[1], C1);
    b.acts();
    b.ok(ids[0], AttemptEvent::Released);
    let id = b.start();
    b.ok(id, AttemptEvent::Connected(C2));
    let mut info = est();
    info.peer_stamp = Stamp(4711);
    assert_eq!(b.peer.handle_established(b.now, C2, &info), Ok(()));
    assert_eq!(b.acts(), [Act::Close(C1, Cause::NewIncarnation)]);
}

/// A stale dststamp costs one rejected attempt.
#[test]
fn stale_reject_teaches_the_incarnation() {
    let mut b = connected(1);
    b.gone(C1, Cause::Disconnected);
    b.acts();
    b.queue();
    let acts = b.acts();
    let [Act::Start(id, _, _, THEIR_STAMP)] = acts[..] else {
        panic!("{acts:?}");
    };
    let stamp = Stamp(4711);
    let private = reject_bytes(Version::V2, RejectReason::ConnStale, stamp, 128, 257);
    b.ok(id, rejected(&private));
    b.ok(id, AttemptEvent::Released);
    let acts = b.acts();
    assert!(
        matches!(acts[..], [Act::Start(_, Version::V2, _, s)] if s == stamp),
        "{acts:?}"
    );
}

/// `conns_per_peer` attempts for a peer without connections, 0 meaning 1; sends go round.
#[test]
fn conns_per_peer_and_round_robin() {
    for (conns_per_peer, attempts) in [(0, 1), (1, 1), (4, 4), (127, 127), (255, 255)] {
        let mut cfg = config(conns_per_peer);
        cfg.max_conns = 300;
        let mut b = Bench::new(cfg);
        b.queue();
        let ids = b.starts();
        assert_eq!(ids.len(), attempts);
        for (n, id) in ids.iter().enumerate() {
            b.establish(*id, ConnId(u64::try_from(n).unwrap()));
        }
        assert_eq!(b.acts(), [Act::Assign(ConnId(0), 0)]);
        let mut used = vec![0; attempts];
        for _ in 0..3 * attempts {
            used[b.send().0 .0 as usize] += 1;
        }
        assert!(used.iter().all(|n| *n == 3), "{used:?}");
    }
}

/// A connection that dies is not replaced while others live; after the last, a whole batch.
#[test]
fn lost_connection_is_not_replaced() {
    let mut b = Bench::new(config(2));
    b.queue();
    let ids = b.starts();
    b.establish(ids[0], C1);
    b.establish(ids[1], C2);
    b.acts();
    b.gone(C1, Cause::Timeout);
    assert_eq!(b.send().0, C2);
    assert_eq!(b.acts(), []);
    b.gone(C2, Cause::Timeout);
    assert_eq!(b.acts(), [Act::Down(b.now), Act::Idle]);
    b.queue();
    assert_eq!(b.starts().len(), 2);
}

/// A restart of the passive side is not masked by a full table of its old connections.
#[test]
fn connection_table_has_a_limit() {
    let mut b = Bench::new(config(1));
    for n in 0..32 {
        assert!(is_accept(&b.peer.handle_connreq(
            b.now,
            ConnId(n),
            &connreq()
        )));
        assert_eq!(b.peer.handle_established(b.now, ConnId(n), &est()), Ok(()));
    }
    let verdict = b.peer.handle_connreq(b.now, ConnId(99), &connreq());
    assert_eq!(why(&verdict), RejectReason::NoResources);
    let mut req = connreq();
    req.stamp = Stamp(4711);
    let verdict = b.peer.handle_connreq(b.now, ConnId(99), &req);
    assert_eq!(why(&verdict), RejectReason::ConnStale);
    assert_eq!(b.acts().len(), 32);
}

/// A name that is in use is refused, whatever has become of its connection.
#[test]
fn names_of_connections_are_used_once() {
    let mut b = connected(1);
    let verdict = b.peer.handle_connreq(b.now, C1, &connreq());
    assert_eq!(why(&verdict), RejectReason::NoResources);
    assert_eq!(b.peer.snapshot().conns, 1);
    b.peer.handle_closed(b.now, C1, Cause::Deleted, b.now);
    let verdict = b.peer.handle_connreq(b.now, C1, &connreq());
    assert_eq!(why(&verdict), RejectReason::NoResources);
    b.peer.handle_gone(b.now, C1);
    assert!(is_accept(&b.peer.handle_connreq(b.now, C1, &connreq())));
    // The same for an attempt: the outcome is a failure then.
    let mut b = connected(1);
    b.peer.close_conns(Cause::Deleted);
    b.queue();
    let Act::Start(id, ..) = b.acts()[0] else {
        panic!();
    };
    assert_eq!(b.event(id, AttemptEvent::Connected(C1)), Claim::Late);
    let acts = b.acts();
    let cause = Cause::ConnectFailed(ENOMEM);
    let failed = done(ENOMEM, Health::LocalDropped);
    assert_eq!(acts, [Act::Abort(id, cause), Act::Fail(0, failed)]);
}

/// What nobody knows changes nothing.
#[test]
fn news_of_unknown_connections_are_late() {
    let mut b = connected(1);
    let before = b.peer.snapshot();
    b.peer.handle_closed(b.now, C2, Cause::Timeout, b.now);
    b.peer.handle_gone(b.now, C2);
    assert_eq!(
        b.peer.handle_established(b.now, C2, &est()),
        Err(Cause::PeerGone)
    );
    assert_eq!(b.peer.handle_established(b.now, C1, &est()), Ok(()));
    let mut after = b.peer.snapshot();
    assert_eq!(after.counters.late, before.counters.late + 4);
    after.counters.late = before.counters.late;
    assert_eq!(after, before);
    assert_eq!(b.acts(), []);
}

/// Limits of zero teach nothing; with them there would never be a connection again.
#[test]
fn limits_of_zero_are_not_learned() {
    for (queue_depth, max_frags) in [(0, 16), (16, 0), (0, 0)] {
        let mut b = Bench::new(config(1));
        let offer = b.peer.snapshot().offer;
        assert!(is_accept(&b.peer.handle_connreq(b.now, C1, &connreq())));
        let info = EstInfo {
            queue_depth,
            max_frags,
            ..est()
        };
        assert_eq!(b.peer.handle_established(b.now, C1, &info), Ok(()));
        assert_eq!(b.peer.snapshot().offer, offer);
    }
}

/// A full connection sends its message to another, but not for ever.
#[test]
fn full_connections_are_tried_in_turn() {
    let mut b = connected(1);
    assert!(is_accept(&b.peer.handle_connreq(b.now, C2, &connreq())));
    assert_eq!(b.peer.handle_established(b.now, C2, &est()), Ok(()));
    let (mut conn, mut tx, mut ticket) = b.send();
    let cause = Cause::TooMany;
    for tried in 1..100 {
        match b
            .peer
            .handle_conn_refused(b.now, conn, Refused { tx, cause }, ticket)
        {
            PeerSubmit::Use {
                conn: next,
                tx: again,
                ticket: same,
            } => {
                assert_ne!(next, conn);
                (conn, tx, ticket) = (next, again, same);
            }
            PeerSubmit::Refused(refused) => {
                assert_eq!((refused.tx, refused.cause), (Tx(0), cause));
                assert!(tried > 2);
                let s = b.peer.snapshot();
                assert_eq!((s.up, s.counters.came_back), (2, tried));
                return;
            }
            PeerSubmit::Queued => panic!("both are up"),
        }
    }
    panic!("for ever");
}

/// Deleted before the failure of a message was pulled: it keeps its cause.
#[test]
fn delete_keeps_what_has_failed_already() {
    let mut b = Bench::new(config(1));
    b.queue();
    b.start();
    b.pass(secs(60));
    b.peer.handle_timeout(b.now);
    b.queue();
    b.peer.delete(Cause::Deleted);
    let failed: Vec<_> = b
        .acts()
        .into_iter()
        .filter(|act| matches!(act, Act::Fail(..)))
        .collect();
    let expired = done(ETIMEDOUT, Health::NetworkTimeout);
    let deleted = done(EIO, Health::LocalError);
    assert_eq!(failed, [Act::Fail(0, expired), Act::Fail(1, deleted)]);
}

/// The dump of a peer, in one line.
#[test]
fn dump_of_a_peer() {
    let mut b = Bench::new(config(2));
    let dump = b.peer.snapshot().to_string();
    assert!(dump.contains("version unknown"), "{dump}");
    b.queue();
    assert_eq!(b.starts().len(), 2);
    assert!(is_accept(&b.peer.handle_connreq(b.now, C1, &connreq())));
    let dump = b.peer.snapshot().to_string();
    for part in [
        "last_alive 1000 s",
        "waiting 1",
        "conns 1 up 0 accepting 1",
        "connecting 2 reconnecting 0 dying 0",
        "version 0x12 stamp",
        "offer 128/257",
    ] {
        assert!(dump.contains(part), "no \"{part}\" in {dump}");
    }
    assert!(!dump.contains("deleted") && !dump.contains('\n'), "{dump}");
    b.peer.delete(Cause::Deleted);
    assert!(b.peer.snapshot().to_string().ends_with(" deleted"));
}

/// A retry whose time comes when nobody waits any more: nobody connects, and LNet is told.
#[test]
fn unwanted_retries_end_with_a_notice() {
    let mut b = Bench::new(config(1));
    b.queue();
    let mut id = b.start();
    let mut retries = 0;
    loop {
        b.reject(id, RejectReason::ConnRace);
        retries += 1;
        assert_eq!(b.peer.snapshot().counters.retries, retries);
        b.acts();
        b.ok(id, AttemptEvent::Released);
        match b.acts()[..] {
            [Act::Start(next, ..)] => id = next,
            [] => break,
            ref other => panic!("{other:?}"),
        }
    }
    assert_eq!(b.peer.snapshot().reconnecting, 1);
    b.pass(secs(60));
    b.peer.handle_timeout(b.now);
    let acts = b.acts();
    assert!(
        matches!(acts[..], [Act::Fail(0, _), Act::Down(_), Act::Idle]),
        "{acts:?}"
    );
    assert_eq!(b.peer.snapshot().retries, 0);
}

/// The driver lost an attempt that was about to open: its connection is closed.
#[test]
fn an_attempt_lost_while_opening_closes_its_connection() {
    let mut b = Bench::new(config(1));
    b.queue();
    let id = b.start();
    b.ok(id, AttemptEvent::Connecting);
    b.ok(id, AttemptEvent::Connected(C1));
    b.ok(id, AttemptEvent::Released);
    let acts = b.acts();
    assert!(acts.contains(&Act::Close(C1, Cause::PeerGone)), "{acts:?}");
    assert!(b.peer.handle_established(b.now, C1, &est()).is_err());
}

/// A reject that does not say who it is leaves what is known, unless it speaks another version.
#[test]
fn what_a_nameless_reject_teaches() {
    for (version, expected) in [(Version::V2, THEIR_STAMP), (Version::V1, Stamp::UNKNOWN)] {
        let mut b = Bench::new(config(1));
        b.queue();
        let id = b.start();
        let named = reject_bytes(Version::V2, RejectReason::ConnRace, THEIR_STAMP, 128, 257);
        b.ok(id, rejected(&named));
        b.acts();
        b.ok(id, AttemptEvent::Released);
        let id = b.start();
        assert_eq!(b.peer.snapshot().stamp, THEIR_STAMP);
        let nameless = reject_bytes(version, RejectReason::ConnRace, Stamp::UNKNOWN, 8, 256);
        b.ok(id, rejected(&nameless));
        let s = b.peer.snapshot();
        assert_eq!((s.version, s.stamp), (Some(version), expected));
    }
}

/// Deletion is seen to at once, also by a peer that had nothing to do.
#[test]
fn deletion_closes_what_is_up() {
    let mut b = connected(1);
    assert_eq!(b.acts(), []);
    b.peer.delete(Cause::Deleted);
    assert_eq!(b.acts(), [Act::Close(C1, Cause::Deleted)]);
}

/// LNet is not told that a peer is down which it has deleted meanwhile.
#[test]
fn a_deleted_peer_is_not_reported_down() {
    let mut b = connected(1);
    b.acts();
    b.peer.handle_closed(b.now, C1, Cause::Timeout, b.now);
    b.peer.delete(Cause::Deleted);
    assert_eq!(b.acts(), []);
}
