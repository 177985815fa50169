// SPDX-License-Identifier: GPL-2.0

//! Random schedules of one peer, with a driver that does what it may do and a network that does
//! what it likes. `KOR_SEED=n` runs one seed.

use super::common::*;
use ko2iblnd_host::prng::Prng;
use ko2iblnd_host::proto::{
    peer::{
        AttemptEvent,
        Claim,
        Offer,
        Peer,
        PeerAction,
        PeerSubmit,
        Ticket,
        Verdict, //
    },
    AttemptId,
    Cause,
    ConnId,
    Instant,
    Refused,
    Span, //
};
use ko2iblnd_host::wire::{
    RejectReason,
    Stamp,
    Version, //
};
use std::collections::BTreeMap;

const WAIT: Span = Span::from_millis(22_500);

/// A connection as the driver knows it.
struct Conn {
    /// Attempt slot whose resources it has, until it is established.
    slot: Option<u8>,
    up: bool,
    closed: bool,
    /// The peer asked for its end.
    asked: bool,
}

struct World {
    rng: Prng,
    now: Instant,
    peer: Peer<Heap, Tx>,
    /// Attempts with resources, and whether the peer gave them up.
    attempts: BTreeMap<AttemptId, bool>,
    conns: BTreeMap<ConnId, Conn>,
    /// Messages in the peer, and their deadlines.
    waiting: BTreeMap<u32, Instant>,
    next_tx: u32,
    next_conn: u64,
    ended: u32,
    /// Notices since the last establishment.
    downs: u32,
    idle: bool,
    refusing: bool,
}

fn slot(id: AttemptId) -> u8 {
    (id.0 & 0xff) as u8
}

impl World {
    fn new(seed: u64) -> Self {
        Self::with(Prng::new(seed))
    }

    fn with(mut rng: Prng) -> Self {
        let now = Instant(1_000_000_000_000);
        let mut cfg = config(rng.range(0, 4) as u8);
        cfg.max_waiting = rng.range(1, 20) as u16;
        cfg.max_conns = rng.range(1, 12) as u16;
        Self {
            peer: peer(cfg, now),
            rng,
            now,
            attempts: BTreeMap::new(),
            conns: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_tx: 0,
            next_conn: 0,
            ended: 0,
            downs: 0,
            idle: false,
            refusing: true,
        }
    }

    fn end(&mut self, tx: &Tx) {
        assert!(self.waiting.remove(&tx.0).is_some(), "{tx:?} ended twice");
        self.ended += 1;
    }

    fn some_cause(&mut self) -> Cause {
        let causes = [
            Cause::Disconnected,
            Cause::Timeout,
            Cause::Flushed,
            Cause::PeerGone,
            Cause::Deleted,
            Cause::TooMany,
            Cause::BadInput,
        ];
        causes[self.rng.index(causes.len())]
    }

    /// The chosen connection takes the message, or not.
    fn give(&mut self, mut conn: ConnId, mut tx: Tx, mut ticket: Ticket) {
        loop {
            let found = self.conns.get(&conn);
            assert!(found.is_none_or(|c| c.slot.is_none()), "not established");
            // A driver that was slow to pull may find no trace of it.
            let gone = found.is_none_or(|c| c.closed);
            let refuses = self.refusing && self.rng.chance(1, 4);
            if !gone && !refuses {
                return self.end(&tx);
            }
            let cause = if gone {
                Cause::PeerGone
            } else {
                self.some_cause()
            };
            let refused = Refused { tx, cause };
            let again = self
                .peer
                .handle_conn_refused(self.now, conn, refused, ticket);
            (conn, tx, ticket) = match again {
                PeerSubmit::Use { conn, tx, ticket } => (conn, tx, ticket),
                PeerSubmit::Queued => return,
                PeerSubmit::Refused(Refused { tx, .. }) => return self.end(&tx),
            };
        }
    }

    fn drain(&mut self) {
        while let Some(action) = self.peer.poll_action() {
            self.idle = false;
            match action {
                PeerAction::StartAttempt { id, offer, .. } => {
                    let taken = |other: &AttemptId| slot(*other) == slot(id);
                    assert!(!self.attempts.keys().any(taken), "two attempts in a slot");
                    let taken = |conn: &Conn| conn.slot == Some(slot(id));
                    assert!(!self.conns.values().any(taken), "attempt before release");
                    assert!(offer.queue_depth > 0 && offer.max_frags > 0);
                    self.attempts.insert(id, false);
                }
                PeerAction::AbortAttempt { id, .. } => {
                    let aborted = self.attempts.get_mut(&id).expect("abort of an attempt");
                    assert!(!std::mem::replace(aborted, true), "aborted twice");
                }
                PeerAction::Assign { conn, tx, ticket } => self.give(conn, tx, ticket),
                PeerAction::Fail { tx, done } => {
                    assert!(done.status < 0);
                    self.end(&tx);
                }
                PeerAction::CloseConn { conn, .. } => {
                    let conn = self.conns.get_mut(&conn).expect("close of a connection");
                    assert!(!conn.closed, "closed twice");
                    conn.asked = true;
                }
                PeerAction::NotifyDown { alive } => {
                    assert!(alive <= self.now);
                    self.downs += 1;
                    assert_eq!(self.downs, 1, "one notice for one loss");
                }
                PeerAction::Idle => {
                    assert!(self.attempts.is_empty() && self.conns.is_empty());
                    assert!(self.waiting.is_empty());
                    self.idle = true;
                }
            }
        }
        self.check();
    }

    fn check(&self) {
        let s = self.peer.snapshot();
        assert_eq!(usize::from(s.waiting), self.waiting.len(), "lost messages");
        if s.waiting > 0 {
            assert_eq!(s.up, 0, "waiting beside a connection");
            assert!(
                s.connecting + s.reconnecting + s.accepting > 0,
                "waiting for nothing"
            );
            assert!(!s.deleted);
            assert!(self.peer.poll_timeout().is_some());
        }
        let alive = self.conns.values().filter(|c| c.up && !c.closed).count();
        assert!(usize::from(s.up) <= alive);
        assert_eq!(usize::from(s.conns), self.conns.len());
        assert!(s.races <= 20);
        assert!(!s.deleted || s.connecting + s.reconnecting + s.accepting == 0);
    }

    fn submit(&mut self) {
        let tx = Tx(self.next_tx);
        self.waiting.insert(self.next_tx, self.now.after(WAIT));
        self.next_tx += 1;
        match self.peer.submit(self.now, tx) {
            PeerSubmit::Use { conn, tx, ticket } => self.give(conn, tx, ticket),
            PeerSubmit::Queued => {}
            PeerSubmit::Refused(Refused { tx, cause }) => {
                assert_eq!(cause == Cause::Deleted, self.peer.snapshot().deleted);
                self.end(&tx);
            }
        }
    }

    fn any_attempt(&mut self) -> Option<AttemptId> {
        let ids: Vec<_> = self.attempts.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[self.rng.index(ids.len())])
    }

    fn any_conn(&mut self) -> Option<ConnId> {
        let ids: Vec<_> = self.conns.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[self.rng.index(ids.len())])
    }

    fn new_conn(&mut self) -> ConnId {
        self.next_conn += 1;
        ConnId(self.next_conn)
    }

    fn attempt_event(&mut self) {
        // Now and then for an attempt that is long gone.
        let id = match self.any_attempt() {
            Some(id) if self.rng.chance(9, 10) => id,
            _ => AttemptId(self.rng.next_u32() & 0x0000_1f07),
        };
        let conn = self.new_conn();
        let reason = RejectReason::from_wire(self.rng.below(11) as u8);
        let (depth, frags) = (self.rng.below(200) as u16, self.rng.below(300) as u16);
        let version = if self.rng.chance(1, 8) {
            Version::V1
        } else {
            Version::V2
        };
        let mut private = reject_bytes(version, reason, self.some_stamp(), depth, frags);
        if self.rng.chance(1, 8) {
            private.truncate(self.rng.index(30));
        }
        let event = match self.rng.below(20) {
            0 | 1 => AttemptEvent::AddrResolved,
            2 | 3 => AttemptEvent::RouteResolved,
            4 | 5 => AttemptEvent::Connecting,
            6 => AttemptEvent::AddrError,
            7 => AttemptEvent::CallFailed(-(self.rng.below(130) as i32)),
            8 => AttemptEvent::CreateFailed(-12),
            9 => AttemptEvent::LimitsLowered(Offer {
                queue_depth: self.rng.range(1, 128) as u16,
                max_frags: 257,
            }),
            10 => AttemptEvent::Unreachable,
            11 => AttemptEvent::ConnectError,
            12 => AttemptEvent::Disconnected,
            13..=15 => rejected(&private),
            _ => AttemptEvent::Connected(conn),
        };
        let claim = self.peer.handle_attempt(self.now, id, event);
        if claim == Claim::Taken {
            let aborted = self.attempts.get(&id).expect("an event of a live attempt");
            assert!(!aborted, "{event:?} after the abort");
            if event == AttemptEvent::Connected(conn) {
                self.attempts.remove(&id);
                self.conns.insert(conn, Conn::new(Some(slot(id))));
            }
        }
    }

    fn release(&mut self) {
        let Some(id) = self.any_attempt() else { return };
        // Mostly what was given up; now and then a driver that releases for no reason.
        if self.attempts[&id] || self.rng.chance(1, 20) {
            let claim = self
                .peer
                .handle_attempt(self.now, id, AttemptEvent::Released);
            assert_eq!(claim, Claim::Taken);
            self.attempts.remove(&id);
        }
    }

    fn some_stamp(&mut self) -> Stamp {
        Stamp(if self.rng.chance(9, 10) {
            1
        } else {
            self.rng.range(0, 3)
        })
    }

    fn connreq(&mut self) {
        let mut req = connreq();
        req.stamp = self.some_stamp();
        req.queue_depth = self.rng.range(1, 128) as u16;
        if self.rng.chance(1, 20) {
            (req.version, req.queue_depth) = (Version::V1, 8);
        }
        let conn = self.new_conn();
        match self.peer.handle_connreq(self.now, conn, &req) {
            Verdict::Accept { .. } => {
                self.conns.insert(conn, Conn::new(None));
            }
            Verdict::Reject(refusal) => assert!(refusal.reject.params.is_some()),
        }
    }

    fn conn_event(&mut self) {
        let Some(id) = self.any_conn() else { return };
        let conn = self.conns.get_mut(&id).expect("picked");
        if conn.closed {
            self.conns.remove(&id);
            return self.peer.handle_gone(self.now, id);
        }
        if !conn.up && self.rng.chance(2, 3) {
            let mut info = est();
            info.peer_stamp = Stamp(if self.rng.chance(9, 10) { 1 } else { 2 });
            match self.peer.handle_established(self.now, id, &info) {
                Ok(()) => {
                    assert!(!conn.asked);
                    (conn.up, conn.slot) = (true, None);
                    self.downs = 0;
                }
                Err(_) => conn.asked = true,
            }
            return;
        }
        if conn.asked || self.rng.chance(1, 4) {
            conn.closed = true;
            let alive = Instant(self.now.0 - self.rng.below(1_000_000_000));
            let cause = self.some_cause();
            self.peer.handle_closed(self.now, id, cause, alive);
        }
    }

    fn pass(&mut self) {
        if self.rng.chance(1, 2) {
            if let Some(at) = self.peer.poll_timeout() {
                self.now = self.now.max(at);
            }
        } else {
            self.now = self.now.after(Span(self.rng.below(2_000_000_000)));
        }
        let early = self
            .peer
            .poll_timeout()
            .is_none_or(|at| !at.passed(self.now));
        let before = self.peer.snapshot();
        self.peer.handle_timeout(self.now);
        if early {
            assert_eq!(self.peer.snapshot(), before, "work before its time");
        }
        self.drain();
        let overdue = self.waiting.values().any(|at| at.passed(self.now));
        assert!(!overdue, "a message outlived its deadline");
    }

    fn step(&mut self) {
        self.idle = false;
        match self.rng.below(100) {
            0..=14 => self.submit(),
            15..=49 => self.attempt_event(),
            50..=59 => self.release(),
            60..=69 => self.connreq(),
            70..=84 => self.conn_event(),
            85..=97 => self.pass(),
            98 => {
                self.peer.close_conns(Cause::Deleted);
            }
            _ => {
                if self.rng.chance(1, 3) {
                    self.peer.delete(Cause::Deleted);
                }
            }
        }
        // The driver may be slow to pull.
        if self.rng.chance(2, 3) {
            self.drain();
        }
    }

    /// The network falls silent and the driver does its duty: all ends.
    fn finish(&mut self) {
        self.refusing = false;
        self.drain();
        for _ in 0..2_000 {
            if self.idle {
                break;
            }
            for _ in 0..4 {
                self.release();
                if let Some(id) = self.any_conn() {
                    let conn = self.conns.get_mut(&id).expect("picked");
                    if conn.closed {
                        self.conns.remove(&id);
                        self.peer.handle_gone(self.now, id);
                    } else {
                        conn.closed = true;
                        let cause = Cause::Disconnected;
                        self.peer.handle_closed(self.now, id, cause, self.now);
                    }
                }
                self.drain();
            }
            self.pass();
        }
        assert!(self.idle, "{:?}", self.peer.snapshot());
        assert_eq!(self.ended, self.next_tx);
        assert!(self.peer.retire());
        assert_eq!(self.peer.poll_timeout(), None);
    }
}

impl Conn {
    fn new(slot: Option<u8>) -> Self {
        Self {
            slot,
            up: false,
            closed: false,
            asked: false,
        }
    }
}

/// One schedule that a fuzzer decides, until it has nothing more to say.
pub(crate) fn schedule(input: &[u8]) {
    let mut world = World::with(Prng::from_bytes(input));
    for _ in 0..input.len() / 2 {
        world.step();
    }
    world.finish();
}

#[test]
fn random_schedules() {
    let seeds = match std::env::var("KOR_SEED") {
        Ok(seed) => vec![seed.parse().expect("KOR_SEED is a number")],
        Err(_) => (0..5_000).collect(),
    };
    let (mut ended, mut attempts) = (0, 0);
    for seed in seeds {
        // Seen when the test fails.
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
        }
        world.finish();
        ended += u64::from(world.ended);
        attempts += u64::from(world.peer.snapshot().counters.attempts);
    }
    println!("{ended} messages, {attempts} attempts");
    assert!(ended > 0 && attempts > 0);
}

impl World {
    /// The steps of [`short_schedules`], each without chance.
    fn fixed_step(&mut self, step: u32) {
        let oldest = self.attempts.keys().next().copied();
        let conn = self.new_conn();
        match (step, oldest) {
            (0, _) => self.submit(),
            (1, Some(id)) if !self.attempts[&id] => {
                let claim = self
                    .peer
                    .handle_attempt(self.now, id, AttemptEvent::Connected(conn));
                assert_eq!(claim, Claim::Taken);
                self.attempts.remove(&id);
                self.conns.insert(conn, Conn::new(Some(slot(id))));
            }
            (2, Some(id)) => {
                let race = reject_bytes(Version::V2, RejectReason::ConnRace, Stamp(1), 128, 257);
                let _ = self.peer.handle_attempt(self.now, id, rejected(&race));
            }
            (3, Some(id)) => {
                let _ = self
                    .peer
                    .handle_attempt(self.now, id, AttemptEvent::Unreachable);
            }
            (4, Some(id)) if self.attempts[&id] => {
                let claim = self
                    .peer
                    .handle_attempt(self.now, id, AttemptEvent::Released);
                assert_eq!(claim, Claim::Taken);
                self.attempts.remove(&id);
            }
            (5 | 6, _) => {
                let mut req = connreq();
                req.stamp = Stamp(u64::from(step - 4));
                let verdict = self.peer.handle_connreq(self.now, conn, &req);
                if let Verdict::Accept { .. } = verdict {
                    self.conns.insert(conn, Conn::new(None));
                }
            }
            (7..=9, _) => self.fixed_conn_step(step),
            (10, _) => self.pass(),
            (11, _) => self.peer.delete(Cause::Deleted),
            _ => {}
        }
        self.drain();
    }

    fn fixed_conn_step(&mut self, step: u32) {
        let oldest = self.conns.iter_mut().find(|(_, conn)| match step {
            7 => !conn.up && !conn.closed,
            8 => !conn.closed,
            _ => conn.closed,
        });
        let Some((id, conn)) = oldest else { return };
        let id = *id;
        match step {
            7 => {
                let mut info = est();
                info.peer_stamp = Stamp(1);
                if self.peer.handle_established(self.now, id, &info).is_ok() {
                    (conn.up, conn.slot) = (true, None);
                    self.downs = 0;
                }
            }
            8 => {
                conn.closed = true;
                self.peer
                    .handle_closed(self.now, id, Cause::Timeout, self.now);
            }
            _ => {
                self.conns.remove(&id);
                self.peer.handle_gone(self.now, id);
            }
        }
    }
}

/// All schedules of a few steps, each brought to its end.
#[test]
fn short_schedules() {
    const STEPS: u32 = 12;
    for (conns_per_peer, len) in [(1, 5), (2, 4)] {
        for schedule in 0..STEPS.pow(len) {
            let mut world = World::new(0);
            world.refusing = false;
            let mut cfg = config(conns_per_peer);
            (cfg.max_waiting, cfg.max_conns) = (8, 8);
            world.peer = peer(cfg, world.now);
            let steps: Vec<_> = (0..len)
                .map(|at| schedule / STEPS.pow(at) % STEPS)
                .collect();
            world.submit();
            world.drain();
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for step in &steps {
                    world.fixed_step(*step);
                }
                world.idle = false;
                world.finish();
            }));
            assert!(result.is_ok(), "{conns_per_peer} attempts, steps {steps:?}");
        }
    }
}
