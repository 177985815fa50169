// SPDX-License-Identifier: GPL-2.0

//! Details that mutants.py found nobody looking at.

use super::common::*;
use ko2iblnd_host::proto::{
    conn::EstInfo,
    peer::{
        AttemptEvent,
        Verdict,
        MAX_RACES,
        RESOLVE_TIMEOUT, //
    },
    AttemptId,
    Cause,
    ConnId,
    Instant, //
};
use ko2iblnd_host::wire::{
    RejectReason,
    Stamp, //
};

const C1: ConnId = ConnId(1);
const C2: ConnId = ConnId(2);
const C3: ConnId = ConnId(3);

fn is_accept(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Accept { .. })
}

/// A peer with two slots: the first attempt has become C1, the second is under way.
fn half_up() -> (Bench, AttemptId) {
    let mut b = Bench::new(config(2));
    b.queue();
    let ids = b.starts();
    b.establish(ids[0], C1);
    b.ok(ids[1], AttemptEvent::Connecting);
    b.acts();
    (b, ids[1])
}

/// An attempt that the driver does not pull in time fails without the driver.
#[test]
fn an_attempt_that_is_never_pulled_fails() {
    let mut b = Bench::new(config(1));
    b.queue();
    b.pass(RESOLVE_TIMEOUT);
    b.peer.handle_timeout(b.now);
    let acts = b.acts();
    assert!(
        matches!(acts[..], [Act::Fail(0, _), Act::Down(_), Act::Idle]),
        "{acts:?}"
    );
}

/// Every counter of the dump counts what it says.
#[test]
fn counters_count() {
    let mut b = Bench::new(config(1));
    let counters = |b: &Bench| b.peer.snapshot().counters;
    assert!(is_accept(&b.peer.handle_connreq(b.now, C1, &connreq())));
    assert_eq!(counters(&b).accepted, 1);
    assert_eq!(b.peer.handle_established(b.now, C1, &est()), Ok(()));
    assert_eq!(counters(&b).stale, 0);
    // Restarted, as a request says.
    let mut req = connreq();
    req.stamp = Stamp(4711);
    assert!(!is_accept(&b.peer.handle_connreq(b.now, C2, &req)));
    assert_eq!((counters(&b).stale, counters(&b).accepted), (1, 1));
    assert!(is_accept(&b.peer.handle_connreq(b.now, C2, &req)));
    // Restarted again, as ESTABLISHED says.
    let info = EstInfo {
        peer_stamp: Stamp(4712),
        ..est()
    };
    assert_eq!(b.peer.handle_established(b.now, C2, &info), Ok(()));
    assert_eq!((counters(&b).stale, counters(&b).accepted), (2, 2));
}

/// Races and retries are forgotten when a connection comes up.
#[test]
fn success_starts_the_counts_anew() {
    let mut b = Bench::new(config(1));
    // Seen from the node with the higher NID, which wins.
    let mut config = config(1);
    (config.ni.nid, config.peer) = (THEM, US);
    b.peer = peer(config, b.now);
    let mut req = connreq();
    req.peer = US;
    b.queue();
    let id = b.start();
    b.ok(id, AttemptEvent::Connecting);
    assert!(!is_accept(&b.peer.handle_connreq(b.now, C1, &req)));
    let s = b.peer.snapshot();
    assert_eq!((s.races, s.counters.races), (1, 1));
    b.reject(id, RejectReason::ConnStale);
    assert_eq!(b.peer.snapshot().retries, 1);
    b.acts();
    b.ok(id, AttemptEvent::Released);
    let id = b.start();
    b.ok(id, AttemptEvent::Connecting);
    for races in 2..=MAX_RACES {
        assert!(!is_accept(&b.peer.handle_connreq(b.now, C1, &req)));
        assert_eq!(b.peer.snapshot().races, races);
    }
    b.establish_now(id, C2);
    let s = b.peer.snapshot();
    assert_eq!((s.races, s.retries), (0, 0));
    assert_eq!(s.counters.races, u32::from(MAX_RACES));
}

/// What an attempt that is under way may become has a place; a request does not get it.
#[test]
fn attempts_have_a_place_for_their_connection() {
    for (room, accepted) in [(2, false), (3, true)] {
        let mut config = config(2);
        config.max_conns = room;
        let mut b = Bench::new(config);
        b.queue();
        let ids = b.starts();
        // We give way from now on.
        b.reject(ids[0], RejectReason::ConnRace);
        b.acts();
        b.ok(ids[0], AttemptEvent::Released);
        assert_eq!(b.starts().len(), 1);
        assert_eq!(b.peer.snapshot().connecting, 2);
        let verdict = b.peer.handle_connreq(b.now, C1, &connreq());
        assert_eq!(is_accept(&verdict), accepted, "{verdict:?}");
    }
}

/// A loss that was not told yet is forgotten when the next connection comes up.
#[test]
fn a_loss_is_forgotten_with_the_next_connection() {
    let (mut b, id) = half_up();
    b.gone(C1, Cause::Timeout);
    assert_eq!(b.acts(), []);
    b.establish_now(id, C2);
    b.gone(C2, Cause::Disconnected);
    assert_eq!(b.acts(), [Act::Idle]);
}

/// The sign of life that LNet is told of is the last one.
#[test]
fn the_last_sign_of_life_is_told() {
    let mut b = Bench::new(config(1));
    let made = b.now;
    assert!(is_accept(&b.peer.handle_connreq(b.now, C1, &connreq())));
    b.pass(secs(1));
    assert_eq!(b.peer.handle_established(b.now, C1, &est()), Ok(()));
    let up = b.now;
    assert_eq!(b.peer.snapshot().last_alive, up);
    b.pass(secs(1));
    b.peer.handle_closed(b.now, C1, Cause::Timeout, made);
    assert_eq!(b.acts(), [Act::Down(up)]);
    // Time that goes back does not make it older.
    b.peer.handle_gone(b.now, C1);
    b.acts();
    assert!(is_accept(&b.peer.handle_connreq(b.now, C2, &connreq())));
    let earlier = Instant(made.0 - 1);
    assert_eq!(b.peer.handle_established(earlier, C2, &est()), Ok(()));
    assert_eq!(b.peer.snapshot().last_alive, up);
}

/// An accepted connection that does not come up is followed by one attempt, not by one in every
/// slot.
#[test]
fn a_failed_accept_is_followed_by_one_attempt() {
    let mut b = Bench::new(config(3));
    assert!(is_accept(&b.peer.handle_connreq(b.now, C1, &connreq())));
    b.queue();
    assert_eq!(b.acts(), []);
    b.peer
        .handle_closed(b.now, C1, Cause::ConnectTimeout, b.now);
    assert_eq!(b.starts().len(), 1);
}

/// A loss, retries, an accepted request that comes to nothing while nobody waits any more: LNet is
/// told of the loss, and the next attempt does not wait because of the retries.
#[test]
fn a_failed_accept_ends_the_retries() {
    let (mut b, id) = half_up();
    b.gone(C1, Cause::Timeout);
    b.queue();
    b.reject(id, RejectReason::ConnRace);
    assert_eq!(b.peer.snapshot().retries, 1);
    b.acts();
    assert!(is_accept(&b.peer.handle_connreq(b.now, C3, &connreq())));
    b.ok(id, AttemptEvent::Released);
    assert_eq!(b.acts(), []);
    b.pass(secs(60));
    b.peer.handle_timeout(b.now);
    let acts = b.acts();
    assert!(
        matches!(acts[..], [Act::Close(C3, _), Act::Fail(1, _), Act::Down(_)]),
        "{acts:?}"
    );
    assert_eq!(b.peer.snapshot().retries, 0);
}

/// A message that is on its way out is still there.
#[test]
fn a_peer_is_idle_when_all_was_pulled() {
    let mut b = Bench::new(config(1));
    assert!(b.peer.is_idle());
    b.queue();
    b.peer.delete(Cause::Deleted);
    assert!(!b.peer.is_idle());
    assert!(!b.peer.retire());
    let acts = b.acts();
    assert!(matches!(acts[..], [Act::Fail(0, _), Act::Idle]), "{acts:?}");
    assert!(b.peer.is_idle());
}

/// A peer that is not idle does not retire, and goes on.
#[test]
fn a_busy_peer_does_not_retire() {
    let (mut b, _) = half_up();
    assert!(!b.peer.retire());
    assert!(!b.peer.snapshot().deleted);
    let mut b = Bench::new(config(1));
    assert!(b.peer.retire());
    assert!(b.peer.snapshot().deleted);
}
