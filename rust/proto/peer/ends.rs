// SPDX-License-Identifier: GPL-2.0

//! Connections of the peer: requests from it, establishment, loss, deletion.

use super::{
    conns::{
        Conn,
        PeerConnState, //
    },
    count,
    Cause,
    ConnId,
    Instant,
    Offer,
    Peer,
    Storage,
    Verdict,
    MAX_RACES, //
};
use crate::proto::{
    conn::EstInfo,
    errno::ECONNRESET,
    passive::{
        ConnReq,
        Refusal,
        RefuseCause, //
    },
};
use crate::wire::{
    RejectReason,
    Stamp,
    Version, //
};

impl<S: Storage, T> Peer<S, T> {
    /// The peer asks for a connection, which would get the name `conn`: step 12 of section 14.3.
    ///
    /// After [`Verdict::Accept`] the driver makes the connection and calls `rdma_accept`; if that
    /// fails it rejects with NO_RESOURCES or FATAL ([`NiInfo::reject`]) and reports
    /// [`Peer::handle_closed`] and [`Peer::handle_gone`].
    ///
    /// [`NiInfo::reject`]: crate::proto::passive::NiInfo::reject
    pub fn handle_connreq(&mut self, now: Instant, conn: ConnId, req: &ConnReq) -> Verdict {
        self.dirty = true;
        let ni = self.config.ni;
        let reject = |why, cause| {
            let reject = ni.reject(req.version, why);
            Verdict::Reject(Refusal { reject, cause })
        };
        if self.deleted {
            return reject(RejectReason::NoResources, RefuseCause::NoResources);
        }
        if self.is_other(req.version, req.stamp) {
            count(&mut self.counters.stale);
            self.close_other(req.version, req.stamp, true);
            self.record(req.version, req.stamp);
            // The waiting messages may have waited for one that is closed now.
            self.accept_failed(now, Cause::NewIncarnation);
            let found = req.stamp;
            return reject(RejectReason::ConnStale, RefuseCause::StaleSrc { found });
        }
        self.record(req.version, req.stamp);
        let connecting = self.attempts.as_ref().iter().any(|a| a.is_connecting());
        let gives_way = self.config.tie_break.gives_way(req.peer, ni.nid);
        if connecting && gives_way && !self.yields && self.races < MAX_RACES {
            self.races = self.races.saturating_add(1);
            count(&mut self.counters.races);
            return reject(RejectReason::ConnRace, RefuseCause::Race);
        }
        let deadline = now.after(self.config.connect_timeout);
        if !self.has_room()
            || !self.conns.insert(Conn {
                id: conn,
                state: PeerConnState::Accepting { deadline },
                version: req.version,
                stamp: req.stamp,
                close: None,
            })
        {
            return reject(RejectReason::NoResources, RefuseCause::NoResources);
        }
        self.races = 0;
        self.cancel_planned();
        count(&mut self.counters.accepted);
        let offer = Offer {
            queue_depth: req.queue_depth,
            max_frags: req.max_frags,
        };
        if req.version == Version::V2 {
            // The next attempt of ours begins with what the peer wants.
            let limit = Offer {
                queue_depth: ni.peer_credits,
                max_frags: self.config.max_frags,
            };
            self.offer = offer.min(limit);
        }
        let version = req.version;
        Verdict::Accept { version, offer }
    }

    /// Whether there is room for a connection beside those that our attempts may become.
    fn has_room(&self) -> bool {
        let used = self.conns.count(|_| true);
        let open = self.attempts.as_ref().iter();
        let open = open.filter(|attempt| attempt.is_connecting()).count();
        used.saturating_add(open) < self.conns.capacity()
    }

    /// Whether the peer is known to be another than the one with this version and incarnation.
    fn is_other(&self, version: Version, stamp: Stamp) -> bool {
        match self.version {
            None => false,
            Some(known) => known != version || (!self.stamp.is_unknown() && self.stamp != stamp),
        }
    }

    fn record(&mut self, version: Version, stamp: Stamp) {
        self.version = Some(version);
        self.stamp = stamp;
    }

    /// Closes the connections of other incarnations of the peer; with `unborn`, also those that
    /// are being accepted.
    fn close_other(&mut self, version: Version, stamp: Stamp, unborn: bool) {
        for conn in self.conns.iter_mut() {
            if conn.version == version && conn.stamp == stamp {
                continue;
            }
            conn.state = match conn.state {
                PeerConnState::Up => PeerConnState::Leaving,
                PeerConnState::Accepting { .. } if unborn => PeerConnState::Closing,
                PeerConnState::Accepting { .. }
                | PeerConnState::Opening { .. }
                | PeerConnState::Leaving
                | PeerConnState::Closing
                | PeerConnState::Free => continue,
            };
            conn.close = Some(Cause::NewIncarnation);
        }
    }

    /// A connection is established: one that was accepted, or one whose CONNACK was found good.
    /// All waiting messages are given to it.
    ///
    /// # Errors
    ///
    /// Why it must be closed at once: the peer was deleted, or gave it up meanwhile.
    pub fn handle_established(
        &mut self,
        now: Instant,
        id: ConnId,
        info: &EstInfo,
    ) -> Result<(), Cause> {
        self.dirty = true;
        let Some(conn) = self.conns.get_mut(id) else {
            count(&mut self.counters.late);
            return Err(Cause::PeerGone);
        };
        let slot = match conn.state {
            PeerConnState::Accepting { .. } => None,
            PeerConnState::Opening { slot } => Some(slot),
            PeerConnState::Up => {
                count(&mut self.counters.late);
                return Ok(());
            }
            PeerConnState::Leaving | PeerConnState::Closing | PeerConnState::Free => {
                count(&mut self.counters.late);
                return Err(Cause::PeerGone);
            }
        };
        conn.state = PeerConnState::Up;
        conn.version = info.version;
        conn.stamp = info.peer_stamp;
        if let Some(slot) = slot {
            self.attempt_done(slot);
        }
        if self.is_other(info.version, info.peer_stamp) {
            count(&mut self.counters.stale);
        }
        // Also when a reject told us before that the peer has restarted.
        self.close_other(info.version, info.peer_stamp, false);
        self.record(info.version, info.peer_stamp);
        let agreed = Offer {
            queue_depth: info.queue_depth,
            max_frags: info.max_frags,
        };
        if info.version == Version::V2 && agreed.queue_depth > 0 && agreed.max_frags > 0 {
            self.offer = self.offer.min(agreed);
        }
        self.races = 0;
        self.retries = 0;
        self.lost = None;
        self.down = false;
        self.notify = false;
        self.last_alive = self.last_alive.max(now);
        self.queue.assign_all(id);
        Ok(())
    }

    /// A connection ended, or did not come up. `alive` is when the peer last gave a sign of life
    /// on it.
    pub fn handle_closed(&mut self, now: Instant, id: ConnId, cause: Cause, alive: Instant) {
        self.dirty = true;
        self.last_alive = self.last_alive.max(alive);
        let Some(conn) = self.conns.get_mut(id) else {
            count(&mut self.counters.late);
            return;
        };
        let was = conn.state;
        conn.state = PeerConnState::Closing;
        conn.close = None;
        match was {
            PeerConnState::Accepting { .. } => self.accept_failed(now, cause),
            PeerConnState::Opening { slot } => {
                let cause = match cause {
                    Cause::Disconnected => Cause::ConnectFailed(ECONNRESET),
                    other => other,
                };
                self.fail_attempt(slot, cause, None);
            }
            PeerConnState::Up | PeerConnState::Leaving => self.conn_lost(now, cause),
            // It had been given up already.
            PeerConnState::Closing | PeerConnState::Free => {}
        }
    }

    /// A connection is gone and its name may be used again.
    pub fn handle_gone(&mut self, now: Instant, id: ConnId) {
        self.dirty = true;
        match self.conns.get(id).map(|conn| conn.state) {
            Some(PeerConnState::Closing) => {}
            Some(
                PeerConnState::Accepting { .. }
                | PeerConnState::Opening { .. }
                | PeerConnState::Up
                | PeerConnState::Leaving
                | PeerConnState::Free,
            ) => self.handle_closed(now, id, Cause::PeerGone, self.last_alive),
            None => {
                count(&mut self.counters.late);
                return;
            }
        }
        self.conns.remove(id);
        self.release_conn(now, id);
    }

    /// An accepted connection did not come up. The peer was alive, so messages that waited for
    /// it get an attempt of ours, and LNet is not told that the peer is down.
    fn accept_failed(&mut self, now: Instant, cause: Cause) {
        if self.is_in_progress() {
            return;
        }
        if self.queue.waiting() > 0 {
            let plan = self.next_retry(now, cause);
            let slots = u8::try_from(self.attempts.as_ref().len()).unwrap_or(u8::MAX);
            if (0..slots).any(|slot| self.plan(now, slot, plan)) {
                return;
            }
            self.settle(cause);
        } else if let Some(cause) = self.lost {
            self.retries = 0;
            self.report_down(cause);
        }
    }

    /// An established connection ended.
    fn conn_lost(&mut self, now: Instant, cause: Cause) {
        if self.conns.any(PeerConnState::is_alive) {
            return;
        }
        if cause.errno() != 0 {
            self.lost = Some(cause);
        }
        if self.is_in_progress() {
            return;
        }
        if self.queue.waiting() > 0 {
            self.start_batch(now);
        } else if let Some(cause) = self.lost {
            self.report_down(cause);
        }
    }

    /// Closes a connection that is not established yet.
    pub(super) fn close_unborn(&mut self, id: ConnId, cause: Cause) {
        if let Some(conn) = self.conns.get_mut(id) {
            conn.state = PeerConnState::Closing;
            conn.close = Some(cause);
        }
    }

    /// Gives up accepted connections that do not come up.
    pub(super) fn expire_accepting(&mut self, now: Instant) {
        let cause = Cause::ConnectTimeout;
        loop {
            let late = self.conns.iter().find(|conn| match conn.state {
                PeerConnState::Accepting { deadline } => deadline.passed(now),
                PeerConnState::Free
                | PeerConnState::Opening { .. }
                | PeerConnState::Up
                | PeerConnState::Leaving
                | PeerConnState::Closing => false,
            });
            let Some(id) = late.map(|conn| conn.id) else {
                return;
            };
            self.close_unborn(id, cause);
            self.accept_failed(now, cause);
        }
    }

    /// Closes all established connections, and returns how many. What waits, waits on.
    pub fn close_conns(&mut self, cause: Cause) -> u16 {
        self.dirty = true;
        let mut closed = 0u16;
        for conn in self.conns.iter_mut() {
            if conn.state == PeerConnState::Up {
                conn.state = PeerConnState::Leaving;
                conn.close = Some(cause);
                closed = closed.saturating_add(1);
            }
        }
        closed
    }

    /// Takes the peer out of service: waiting messages fail, attempts are aborted, connections
    /// are closed, and nothing new is accepted. `cause` is [`Cause::Deleted`] for `del_peer` and
    /// the shutdown of an NI, [`Cause::DeviceGone`] when the device went away.
    pub fn delete(&mut self, cause: Cause) {
        self.dirty = true;
        self.deleted = true;
        self.notify = false;
        let done = cause.outcome_waiting().into();
        self.queue.fail_all(done);
        self.queue.fail_assigned(done);
        self.abort_all(cause);
        for conn in self.conns.iter_mut() {
            conn.state = match conn.state {
                PeerConnState::Up => PeerConnState::Leaving,
                PeerConnState::Accepting { .. } | PeerConnState::Opening { .. } => {
                    PeerConnState::Closing
                }
                PeerConnState::Leaving | PeerConnState::Closing | PeerConnState::Free => continue,
            };
            conn.close = Some(cause);
        }
    }
}
