// SPDX-License-Identifier: GPL-2.0

//! Attempts of our own: start, outcome, retry; deadlines of everything; actions for the driver.

use super::{
    attempt::{
        step,
        timed_out,
        Attempt,
        AttemptEvent,
        Phase,
        Retry,
        State,
        Step, //
    },
    conns,
    count,
    pace::retry_at,
    reject::{
        meaning,
        Lesson,
        Meaning, //
    },
    AttemptId,
    Cause,
    Claim,
    ConnId,
    Instant,
    Offer,
    Peer,
    PeerAction,
    Storage,
    RESOLVE_TIMEOUT, //
};
use crate::proto::errno::ENOMEM;
use crate::wire::{
    Stamp,
    Version, //
};

impl<S: Storage, T> Peer<S, T> {
    fn attempt(&mut self, slot: u8) -> Option<&mut Attempt> {
        self.attempts.as_mut().get_mut(usize::from(slot))
    }

    fn set(&mut self, slot: u8, state: State) {
        if let Some(attempt) = self.attempt(slot) {
            attempt.state = state;
        }
    }

    /// Numbers of the attempt slots.
    fn slots(&self) -> core::ops::Range<u8> {
        0..u8::try_from(self.attempts.as_ref().len()).unwrap_or(u8::MAX)
    }

    /// Starts an attempt in every slot, at once or as soon as its resources are released.
    pub(super) fn start_batch(&mut self, now: Instant) {
        for slot in self.slots() {
            let cause = Cause::WaitTimeout;
            self.plan(now, slot, Retry { at: now, cause });
        }
    }

    /// Plans an attempt in a slot that has none. `false` when it has one.
    pub(super) fn plan(&mut self, now: Instant, slot: u8, plan: Retry) -> bool {
        let Some(attempt) = self.attempt(slot) else {
            return false;
        };
        match &mut attempt.state {
            State::Free => {
                attempt.state = State::Delayed(plan);
                if plan.at.passed(now) {
                    self.start(now, slot);
                }
                true
            }
            State::Dying { retry, .. } if retry.is_none() => {
                *retry = Some(plan);
                true
            }
            State::Dying { .. }
            | State::Delayed(_)
            | State::Starting { .. }
            | State::Active { .. }
            | State::Opening { .. } => false,
        }
    }

    /// Makes a slot without resources ready to be started by the driver.
    fn start(&mut self, now: Instant, slot: u8) {
        let version = self.version.unwrap_or(Version::V2);
        let offer = self.offer_for(version);
        self.dirty = true;
        if let Some(attempt) = self.attempt(slot) {
            attempt.start(version, offer, now.after(RESOLVE_TIMEOUT));
        }
    }

    /// Starts a planned attempt whose time has come, if anybody still wants it: a message that
    /// waits, or connections that it would join.
    fn start_planned(&mut self, now: Instant, slot: u8, plan: Retry) {
        if self.queue.waiting() > 0 || self.conns.any(conns::State::is_up) {
            self.start(now, slot);
        } else {
            self.set(slot, State::Free);
            self.settle(plan.cause);
        }
    }

    /// Something happened to an attempt.
    ///
    /// The first event that settles the outcome claims it. Whatever comes later, comes twice, or
    /// names an attempt we do not have, changes nothing.
    pub fn handle_attempt(
        &mut self,
        now: Instant,
        id: AttemptId,
        event: AttemptEvent<'_>,
    ) -> Claim {
        self.dirty = true;
        let slot = Attempt::slot(id);
        let decided = match self.attempt(slot) {
            Some(attempt) if attempt.id(slot) == id => step(&attempt.state, event),
            Some(_) | None => Step::Late,
        };
        match decided {
            Step::Late => return self.late(),
            Step::Phase(phase) => self.enter(now, slot, phase),
            Step::Lowered(offer) => self.lowered(slot, offer),
            Step::Connected(conn) => return self.open(now, slot, conn),
            Step::Failed(cause) => self.fail_attempt(slot, cause, None),
            Step::Rejected { cm_reason, private } => {
                self.rejected(now, slot, cm_reason, private);
            }
            Step::Lost => self.attempt_lost(now, slot),
            Step::Released => self.release(now, slot),
        }
        Claim::Taken
    }

    /// The driver released an attempt whose outcome nobody had claimed.
    fn attempt_lost(&mut self, now: Instant, slot: u8) {
        let cause = Cause::PeerGone;
        if let Some(State::Opening { conn, .. }) = self.attempt(slot).map(|a| a.state) {
            self.close_unborn(conn, cause);
        }
        self.fail_attempt(slot, cause, None);
        self.release(now, slot);
    }

    fn late(&mut self) -> Claim {
        count(&mut self.counters.late);
        Claim::Late
    }

    /// The device cannot do what was offered. That is remembered, but the fixed depth of version 1
    /// says nothing of the device.
    fn lowered(&mut self, slot: u8, offer: Offer) {
        let Some(attempt) = self.attempt(slot) else {
            return;
        };
        attempt.offer = attempt.offer.min(offer);
        if attempt.version == Version::V2 {
            self.offer = self.offer.min(offer);
        }
    }

    fn enter(&mut self, now: Instant, slot: u8, phase: Phase) {
        let span = match phase {
            Phase::Addr | Phase::Route => RESOLVE_TIMEOUT,
            Phase::Create | Phase::Connect => self.config.connect_timeout,
        };
        let deadline = now.after(span);
        self.set(slot, State::Active { phase, deadline });
    }

    /// ESTABLISHED claims the outcome; the connection says next what it thinks of the CONNACK.
    fn open(&mut self, now: Instant, slot: u8, conn: ConnId) -> Claim {
        let Some(attempt) = self.attempts.as_mut().get_mut(usize::from(slot)) else {
            return self.late();
        };
        let added = self.conns.insert(conns::Conn {
            id: conn,
            state: conns::State::Opening { slot },
            version: attempt.version,
            stamp: Stamp::UNKNOWN,
            close: None,
        });
        if !added {
            self.fail_attempt(slot, Cause::ConnectFailed(ENOMEM), None);
            return self.late();
        }
        let deadline = now.after(self.config.connect_timeout);
        attempt.state = State::Opening { conn, deadline };
        Claim::Taken
    }

    fn rejected(&mut self, now: Instant, slot: u8, cm_reason: i32, private: &[u8]) {
        let Some(attempt) = self.attempt(slot) else {
            return;
        };
        let (cause, lesson) = match meaning(cm_reason, private, attempt.version, attempt.offer) {
            Meaning::NoListener => (Cause::Unreachable, None),
            Meaning::Final => (Cause::Rejected, None),
            Meaning::Race(lesson) => {
                // By our rule the peer might have given way; by its own it does not.
                self.yields = true;
                (Cause::Rejected, Some(lesson))
            }
            Meaning::Retry(lesson) => (Cause::Rejected, Some(lesson)),
            Meaning::Lower(lesson, offer) => {
                // Worth knowing even if there is no retry.
                self.offer = self.offer.min(offer);
                (Cause::Rejected, Some(lesson))
            }
        };
        let retry = lesson
            .filter(|lesson| self.is_needed(lesson))
            .map(|lesson| {
                self.learn(lesson);
                self.next_retry(now, cause)
            });
        self.fail_attempt(slot, cause, retry);
    }

    /// Whether a rejected attempt is worth a retry: condition (*) of section 14.5. `connecting` is
    /// not 0, for the attempt itself counts.
    fn is_needed(&self, lesson: &Lesson) -> bool {
        let wanted = self.queue.waiting() > 0 || self.version != Some(lesson.version);
        wanted && !self.deleted && !self.conns.any(conns::State::is_accepting)
    }

    fn learn(&mut self, lesson: Lesson) {
        let same_version = self.version == Some(lesson.version);
        self.version = Some(lesson.version);
        if !lesson.stamp.is_unknown() {
            self.stamp = lesson.stamp;
        } else if !same_version {
            // What spoke another version was another incarnation.
            self.stamp = Stamp::UNKNOWN;
        }
    }

    /// The plan for the next retry; counts it.
    pub(super) fn next_retry(&mut self, now: Instant, cause: Cause) -> Retry {
        let at = retry_at(now, self.retries, self.config.ni.nid, self.config.peer);
        self.retries = self.retries.saturating_add(1);
        count(&mut self.counters.retries);
        Retry { at, cause }
    }

    /// A failure claims the outcome of an attempt.
    pub(super) fn fail_attempt(&mut self, slot: u8, cause: Cause, retry: Option<Retry>) {
        self.dirty = true;
        let Some(attempt) = self.attempt(slot) else {
            return;
        };
        attempt.state = match attempt.state {
            State::Active { .. } => State::Dying {
                abort: Some(cause),
                conn: None,
                retry,
            },
            // The connection's end is reported by itself.
            State::Opening { conn, .. } => State::Dying {
                abort: None,
                conn: Some(conn),
                retry,
            },
            // The driver never heard of it.
            State::Starting { .. } | State::Delayed(_) | State::Free => State::Free,
            dying @ State::Dying { .. } => dying,
        };
        self.settle(cause);
    }

    /// The resources of a failed attempt are gone.
    fn release(&mut self, now: Instant, slot: u8) {
        let Some(State::Dying { retry, .. }) = self.attempt(slot).map(|a| a.state) else {
            return;
        };
        match retry {
            Some(plan) if plan.at.passed(now) => self.start_planned(now, slot, plan),
            Some(plan) => self.set(slot, State::Delayed(plan)),
            None => self.set(slot, State::Free),
        }
    }

    /// A connection is gone; if it was an attempt's, that was the attempt's release.
    pub(super) fn release_conn(&mut self, now: Instant, id: ConnId) {
        for slot in self.slots() {
            if let Some(State::Dying { conn, .. }) = self.attempt(slot).map(|a| a.state) {
                if conn == Some(id) {
                    self.release(now, slot);
                }
            }
        }
    }

    /// Frees the slot of an attempt that became an established connection.
    pub(super) fn attempt_done(&mut self, slot: u8) {
        self.set(slot, State::Free);
    }

    /// Drops the planned attempts: the peer connects to us, or is being deleted.
    pub(super) fn cancel_planned(&mut self) {
        for attempt in self.attempts.as_mut() {
            match &mut attempt.state {
                State::Delayed(_) => attempt.state = State::Free,
                State::Dying { retry, .. } => *retry = None,
                State::Free
                | State::Starting { .. }
                | State::Active { .. }
                | State::Opening { .. } => {}
            }
        }
    }

    /// Ends all attempts of a deleted peer.
    pub(super) fn abort_all(&mut self, cause: Cause) {
        self.cancel_planned();
        for slot in self.slots() {
            self.fail_attempt(slot, cause, None);
        }
    }

    /// An attempt ended without success, for `cause`. If nothing else is under way, this is the
    /// end for all waiting messages; if there is no connection either, the peer is down.
    pub(super) fn settle(&mut self, cause: Cause) {
        self.dirty = true;
        if self.is_in_progress() {
            return;
        }
        self.retries = 0;
        self.queue.fail_all(cause.outcome_waiting().into());
        self.report_down(self.lost.unwrap_or(cause));
    }

    /// Has LNet told that the peer is down, once per loss.
    pub(super) fn report_down(&mut self, cause: Cause) {
        let alive = self.conns.any(conns::State::is_alive);
        if cause.errno() == 0 || alive || self.down || self.deleted {
            return;
        }
        self.lost = None;
        self.down = true;
        self.notify = true;
        self.dirty = true;
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.dirty = true;
        let expired = Cause::WaitTimeout.outcome_waiting().into();
        self.queue.fail_expired(now, expired);
        for slot in self.slots() {
            match self.attempt(slot).map(|attempt| attempt.state) {
                Some(State::Active { phase, deadline }) if deadline.passed(now) => {
                    self.fail_attempt(slot, timed_out(phase), None);
                }
                Some(State::Starting { deadline }) if deadline.passed(now) => {
                    self.fail_attempt(slot, timed_out(Phase::Addr), None);
                }
                Some(State::Opening { conn, deadline }) if deadline.passed(now) => {
                    self.close_unborn(conn, Cause::ConnectTimeout);
                    self.fail_attempt(slot, Cause::ConnectTimeout, None);
                }
                Some(State::Delayed(plan)) if plan.at.passed(now) => {
                    self.start_planned(now, slot, plan);
                }
                Some(
                    State::Free
                    | State::Delayed(_)
                    | State::Starting { .. }
                    | State::Active { .. }
                    | State::Opening { .. }
                    | State::Dying { .. },
                )
                | None => {}
            }
        }
        self.expire_accepting(now);
    }

    /// When [`Peer::handle_timeout`] is to be called, at the earliest. It may find nothing to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let attempts = self.attempts.as_ref().iter().filter_map(|a| match a.state {
            State::Delayed(Retry { at, .. }) => Some(at),
            State::Starting { deadline }
            | State::Active { deadline, .. }
            | State::Opening { deadline, .. } => Some(deadline),
            State::Free | State::Dying { .. } => None,
        });
        let conns = self.conns.iter().filter_map(|conn| match conn.state {
            conns::State::Accepting { deadline } => Some(deadline),
            conns::State::Free
            | conns::State::Opening { .. }
            | conns::State::Up
            | conns::State::Leaving
            | conns::State::Closing => None,
        });
        Instant::earlier(attempts.chain(conns).min(), self.queue.soonest())
    }

    /// The next thing to do. To be called until there is none, after every input and command.
    pub fn poll_action(&mut self) -> Option<PeerAction<T>> {
        if !self.dirty {
            return None;
        }
        if let Some(action) = self.poll_attempt() {
            return Some(action);
        }
        if let Some((conn, cause)) = self.conns.take_close() {
            return Some(PeerAction::CloseConn { conn, cause });
        }
        if let Some(action) = self.queue.pop() {
            return Some(action);
        }
        if self.notify {
            self.notify = false;
            let alive = self.last_alive;
            return Some(PeerAction::NotifyDown { alive });
        }
        self.dirty = false;
        self.is_idle().then_some(PeerAction::Idle)
    }

    fn poll_attempt(&mut self) -> Option<PeerAction<T>> {
        let dst_stamp = self.stamp;
        for slot in self.slots() {
            let attempt = self.attempt(slot)?;
            let id = attempt.id(slot);
            match &mut attempt.state {
                State::Starting { deadline } => {
                    let deadline = *deadline;
                    let phase = Phase::Addr;
                    attempt.state = State::Active { phase, deadline };
                    let (version, offer) = (attempt.version, attempt.offer);
                    count(&mut self.counters.attempts);
                    return Some(PeerAction::StartAttempt {
                        id,
                        version,
                        offer,
                        dst_stamp,
                    });
                }
                State::Dying { abort, .. } => {
                    if let Some(cause) = abort.take() {
                        return Some(PeerAction::AbortAttempt { id, cause });
                    }
                }
                State::Free | State::Delayed(_) | State::Active { .. } | State::Opening { .. } => {}
            }
        }
        None
    }
}
