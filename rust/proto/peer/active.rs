// SPDX-License-Identifier: GPL-2.0

//! Attempts of our own: start, outcome, retry; deadlines of everything; actions for the driver.

use super::{
    attempt::{
        step,
        timed_out,
        Attempt,
        AttemptEvent,
        AttemptPhase,
        AttemptState,
        AttemptStep, //
        Retry,
    },
    conns,
    count,
    pace::retry_at,
    reject::{
        reject_meaning,
        PeerHint,
        RejectMeaning, //
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

    fn set(&mut self, slot: u8, state: AttemptState) {
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
            AttemptState::Free => {
                attempt.state = AttemptState::Delayed(plan);
                if plan.at.passed(now) {
                    self.start(now, slot);
                }
                true
            }
            AttemptState::Dying { retry, .. } if retry.is_none() => {
                *retry = Some(plan);
                true
            }
            AttemptState::Dying { .. }
            | AttemptState::Delayed(_)
            | AttemptState::Starting { .. }
            | AttemptState::Active { .. }
            | AttemptState::Opening { .. } => false,
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
        if self.queue.waiting() > 0 || self.conns.any(conns::PeerConnState::is_up) {
            self.start(now, slot);
        } else {
            self.set(slot, AttemptState::Free);
            self.settle(plan.cause);
        }
    }

    /// Reports an event of an attempt.
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
            Some(_) | None => AttemptStep::Late,
        };
        match decided {
            AttemptStep::Late => return self.late(),
            AttemptStep::AttemptPhase(phase) => self.enter(now, slot, phase),
            AttemptStep::Lowered(offer) => self.lowered(slot, offer),
            AttemptStep::Connected(conn) => return self.open(now, slot, conn),
            AttemptStep::Failed(cause) => self.fail_attempt(slot, cause, None),
            AttemptStep::Rejected { cm_reason, private } => {
                self.rejected(now, slot, cm_reason, private);
            }
            AttemptStep::Lost => self.attempt_lost(now, slot),
            AttemptStep::Released => self.release(now, slot),
        }
        Claim::Taken
    }

    /// The driver released an attempt whose outcome nobody had claimed.
    fn attempt_lost(&mut self, now: Instant, slot: u8) {
        let cause = Cause::PeerGone;
        if let Some(AttemptState::Opening { conn, .. }) = self.attempt(slot).map(|a| a.state) {
            self.close_unborn(conn, cause);
        }
        self.fail_attempt(slot, cause, None);
        self.release(now, slot);
    }

    fn late(&mut self) -> Claim {
        count(&mut self.counters.late);
        Claim::Late
    }

    /// The device cannot serve what was offered. That is remembered, except for the fixed depth of
    /// version 1, which is not a limit of the device.
    fn lowered(&mut self, slot: u8, offer: Offer) {
        let Some(attempt) = self.attempt(slot) else {
            return;
        };
        attempt.offer = attempt.offer.min(offer);
        if attempt.version == Version::V2 {
            self.offer = self.offer.min(offer);
        }
    }

    fn enter(&mut self, now: Instant, slot: u8, phase: AttemptPhase) {
        let span = match phase {
            AttemptPhase::Addr | AttemptPhase::Route => RESOLVE_TIMEOUT,
            AttemptPhase::Create | AttemptPhase::Connect => self.config.connect_timeout,
        };
        let deadline = now.after(span);
        self.set(slot, AttemptState::Active { phase, deadline });
    }

    /// ESTABLISHED claims the outcome; the connection's engine checks the CONNACK next.
    fn open(&mut self, now: Instant, slot: u8, conn: ConnId) -> Claim {
        let Some(attempt) = self.attempts.as_mut().get_mut(usize::from(slot)) else {
            return self.late();
        };
        let added = self.conns.insert(conns::Conn {
            id: conn,
            state: conns::PeerConnState::Opening { slot },
            version: attempt.version,
            stamp: Stamp::UNKNOWN,
            close: None,
        });
        if !added {
            self.fail_attempt(slot, Cause::ConnectFailed(ENOMEM), None);
            return self.late();
        }
        let deadline = now.after(self.config.connect_timeout);
        attempt.state = AttemptState::Opening { conn, deadline };
        Claim::Taken
    }

    fn rejected(&mut self, now: Instant, slot: u8, cm_reason: i32, private: &[u8]) {
        let Some(attempt) = self.attempt(slot) else {
            return;
        };
        let (cause, hint) = match reject_meaning(cm_reason, private, attempt.version, attempt.offer)
        {
            RejectMeaning::NoListener => (Cause::Unreachable, None),
            RejectMeaning::Final => (Cause::Rejected, None),
            RejectMeaning::Race(hint) => {
                // By our rule the peer might have given way; by its own it does not.
                self.yields = true;
                (Cause::Rejected, Some(hint))
            }
            RejectMeaning::Retry(hint) => (Cause::Rejected, Some(hint)),
            RejectMeaning::Lower(hint, offer) => {
                // Remembered even if there is no retry.
                self.offer = self.offer.min(offer);
                (Cause::Rejected, Some(hint))
            }
        };
        let retry = hint.filter(|hint| self.is_needed(hint)).map(|hint| {
            self.learn(hint);
            self.next_retry(now, cause)
        });
        self.fail_attempt(slot, cause, retry);
    }

    /// Whether a rejected attempt is worth a retry: condition (*) of section 14.5. `connecting` is
    /// not 0, for the attempt itself counts.
    fn is_needed(&self, hint: &PeerHint) -> bool {
        let wanted = self.queue.waiting() > 0 || self.version != Some(hint.version);
        wanted && !self.deleted && !self.conns.any(conns::PeerConnState::is_accepting)
    }

    fn learn(&mut self, hint: PeerHint) {
        let same_version = self.version == Some(hint.version);
        self.version = Some(hint.version);
        if !hint.stamp.is_unknown() {
            self.stamp = hint.stamp;
        } else if !same_version {
            // A peer of another version is another incarnation.
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
            AttemptState::Active { .. } => AttemptState::Dying {
                abort: Some(cause),
                conn: None,
                retry,
            },
            // The connection's end is reported by itself.
            AttemptState::Opening { conn, .. } => AttemptState::Dying {
                abort: None,
                conn: Some(conn),
                retry,
            },
            // The driver does not know of it.
            AttemptState::Starting { .. } | AttemptState::Delayed(_) | AttemptState::Free => {
                AttemptState::Free
            }
            dying @ AttemptState::Dying { .. } => dying,
        };
        self.settle(cause);
    }

    /// The resources of a failed attempt are gone.
    fn release(&mut self, now: Instant, slot: u8) {
        let Some(AttemptState::Dying { retry, .. }) = self.attempt(slot).map(|a| a.state) else {
            return;
        };
        match retry {
            Some(plan) if plan.at.passed(now) => self.start_planned(now, slot, plan),
            Some(plan) => self.set(slot, AttemptState::Delayed(plan)),
            None => self.set(slot, AttemptState::Free),
        }
    }

    /// A connection is gone; if it was an attempt's, that was the attempt's release.
    pub(super) fn release_conn(&mut self, now: Instant, id: ConnId) {
        for slot in self.slots() {
            if let Some(AttemptState::Dying { conn, .. }) = self.attempt(slot).map(|a| a.state) {
                if conn == Some(id) {
                    self.release(now, slot);
                }
            }
        }
    }

    /// Frees the slot of an attempt that became an established connection.
    pub(super) fn attempt_done(&mut self, slot: u8) {
        self.set(slot, AttemptState::Free);
    }

    /// Drops the planned attempts: the peer connects to us, or is being deleted.
    pub(super) fn cancel_planned(&mut self) {
        for attempt in self.attempts.as_mut() {
            match &mut attempt.state {
                AttemptState::Delayed(_) => attempt.state = AttemptState::Free,
                AttemptState::Dying { retry, .. } => *retry = None,
                AttemptState::Free
                | AttemptState::Starting { .. }
                | AttemptState::Active { .. }
                | AttemptState::Opening { .. } => {}
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
        let alive = self.conns.any(conns::PeerConnState::is_alive);
        if cause.errno() == 0 || alive || self.down || self.deleted {
            return;
        }
        self.lost = None;
        self.down = true;
        self.notify = true;
        self.dirty = true;
    }

    /// Handles all deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.dirty = true;
        let expired = Cause::WaitTimeout.outcome_waiting().into();
        self.queue.fail_expired(now, expired);
        for slot in self.slots() {
            match self.attempt(slot).map(|attempt| attempt.state) {
                Some(AttemptState::Active { phase, deadline }) if deadline.passed(now) => {
                    self.fail_attempt(slot, timed_out(phase), None);
                }
                Some(AttemptState::Starting { deadline }) if deadline.passed(now) => {
                    self.fail_attempt(slot, timed_out(AttemptPhase::Addr), None);
                }
                Some(AttemptState::Opening { conn, deadline }) if deadline.passed(now) => {
                    self.close_unborn(conn, Cause::ConnectTimeout);
                    self.fail_attempt(slot, Cause::ConnectTimeout, None);
                }
                Some(AttemptState::Delayed(plan)) if plan.at.passed(now) => {
                    self.start_planned(now, slot, plan);
                }
                Some(
                    AttemptState::Free
                    | AttemptState::Delayed(_)
                    | AttemptState::Starting { .. }
                    | AttemptState::Active { .. }
                    | AttemptState::Opening { .. }
                    | AttemptState::Dying { .. },
                )
                | None => {}
            }
        }
        self.expire_accepting(now);
    }

    /// When [`Peer::handle_timeout`] is to be called, at the earliest. It may find nothing to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let attempts = self.attempts.as_ref().iter().filter_map(|a| match a.state {
            AttemptState::Delayed(Retry { at, .. }) => Some(at),
            AttemptState::Starting { deadline }
            | AttemptState::Active { deadline, .. }
            | AttemptState::Opening { deadline, .. } => Some(deadline),
            AttemptState::Free | AttemptState::Dying { .. } => None,
        });
        let conns = self.conns.iter().filter_map(|conn| match conn.state {
            conns::PeerConnState::Accepting { deadline } => Some(deadline),
            conns::PeerConnState::Free
            | conns::PeerConnState::Opening { .. }
            | conns::PeerConnState::Up
            | conns::PeerConnState::Leaving
            | conns::PeerConnState::Closing => None,
        });
        Instant::earlier(attempts.chain(conns).min(), self.queue.soonest())
    }

    /// The next action. To be called until there is none, after every input and command.
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
                AttemptState::Starting { deadline } => {
                    let deadline = *deadline;
                    let phase = AttemptPhase::Addr;
                    attempt.state = AttemptState::Active { phase, deadline };
                    let (version, offer) = (attempt.version, attempt.offer);
                    count(&mut self.counters.attempts);
                    return Some(PeerAction::StartAttempt {
                        id,
                        version,
                        offer,
                        dst_stamp,
                    });
                }
                AttemptState::Dying { abort, .. } => {
                    if let Some(cause) = abort.take() {
                        return Some(PeerAction::AbortAttempt { id, cause });
                    }
                }
                AttemptState::Free
                | AttemptState::Delayed(_)
                | AttemptState::Active { .. }
                | AttemptState::Opening { .. } => {}
            }
        }
        None
    }
}
