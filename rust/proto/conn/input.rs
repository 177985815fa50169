// SPDX-License-Identifier: GPL-2.0

//! Inputs: completions, CM events, time.

use super::{
    count,
    ops::OpEvent,
    post::noop_interval,
    rx::{
        Grant,
        Parsed, //
    },
    sq::{
        Purpose,
        Record, //
    },
    state::{
        ConnEvent,
        ConnState, //
    },
    Conn,
    Credits,
    Role,
    WcStatus, //
};
use crate::proto::{
    cause::Violation,
    errno,
    slab::Storage,
    Cause,
    Instant,
    WrId,
    WrKind, //
};
use crate::wire::{
    Body,
    IdentityError,
    Message,
    ParseError, //
};

impl<S: Storage, T> Conn<S, T> {
    /// A message has arrived with the completion of receive `wr`.
    pub fn handle_msg(&mut self, now: Instant, wr: WrId, msg: &Message<'_>) {
        let Some(rx) = self.rx.completed(wr) else {
            return self.bad_completion(now);
        };
        count(&mut self.counters.rx_msgs);
        let parsed = Parsed::new(msg);
        match self.state {
            ConnState::Connecting { .. } => {
                self.rx.park(rx, parsed);
                self.handle_comm_est(now);
            }
            ConnState::Established => self.process(now, rx, parsed),
            ConnState::Closing { .. } | ConnState::Draining { .. } | ConnState::Drained { .. } => {
                count(&mut self.counters.dropped_msgs);
                self.release_rx(rx, Grant::Nothing);
            }
        }
    }

    /// Bytes that are not a legal message have arrived with the completion of receive `wr`.
    pub fn handle_bad_msg(&mut self, now: Instant, wr: WrId, error: ParseError) {
        let Some(rx) = self.rx.completed(wr) else {
            return self.bad_completion(now);
        };
        count(&mut self.counters.rx_msgs);
        self.event(now, ConnEvent::Close(Cause::BadMessage(error)));
        self.release_rx(rx, Grant::Nothing);
    }

    /// Receive `wr`, or the sentinel, was flushed or failed.
    pub fn handle_recv_error(&mut self, now: Instant, wr: WrId, flushed: bool) {
        match wr.kind() {
            WrKind::SentinelRq => self.event(now, ConnEvent::RqFlushed),
            WrKind::SentinelSq => self.event(now, ConnEvent::SqFlushed),
            WrKind::Send { .. } => self.bad_completion(now),
            WrKind::Recv { .. } => {
                let Some(rx) = self.rx.completed(wr) else {
                    return self.bad_completion(now);
                };
                match (flushed, self.state) {
                    // The CM flushes the QP when the peer rejects us, and says so only then. Its
                    // reason is the one that counts; without one the deadline ends it.
                    (true, ConnState::Connecting { .. }) => self.flushed = true,
                    (true, _) => self.event(now, ConnEvent::Close(Cause::Flushed)),
                    (false, _) => self.event(now, ConnEvent::Close(Cause::RecvFailed)),
                }
                self.release_rx(rx, Grant::Nothing);
            }
        }
    }

    /// Request `wr` on the send queue, or a sentinel, has completed.
    pub fn handle_send_completion(&mut self, now: Instant, wr: WrId, status: WcStatus) {
        let (seq, last) = match wr.kind() {
            WrKind::SentinelSq => return self.event(now, ConnEvent::SqFlushed),
            WrKind::SentinelRq => return self.event(now, ConnEvent::RqFlushed),
            WrKind::Recv { .. } => return self.bad_completion(now),
            WrKind::Send { seq, last } => (seq, last),
        };
        if !self.sq.contains(seq) {
            return self.bad_completion(now);
        }
        // The queue completes in order: what is ahead has ended well, or would have said so.
        while self.sq.head() < seq {
            self.retire(true);
        }
        match (status, last) {
            (WcStatus::Success, true) => {
                self.alive = now;
                self.retire(true);
            }
            // It was not asked for, but it is true.
            (WcStatus::Success, false) => count(&mut self.counters.ignored_events),
            (WcStatus::Flushed, true | false) => self.send_failed(now, last, Cause::Flushed),
            (WcStatus::Error(code), true | false) => {
                self.send_failed(now, last, Cause::SendFailed(code));
            }
        }
    }

    /// The oldest posting failed; `last` tells whether all of it is over.
    fn send_failed(&mut self, now: Instant, last: bool, cause: Cause) {
        self.event(now, ConnEvent::Close(cause));
        if last {
            self.retire(false);
        }
    }

    fn retire(&mut self, ok: bool) {
        if let Some(record) = self.sq.retire() {
            self.retired(record, ok);
        }
    }

    /// A posting is over.
    pub(super) fn retired(&mut self, record: Record, ok: bool) {
        let Some(id) = record.op else {
            return;
        };
        match record.purpose {
            Purpose::Message | Purpose::Noop => {}
            Purpose::Final => {
                self.one_posting_less(id);
                let event = if ok {
                    OpEvent::SentOk
                } else {
                    OpEvent::SentErr
                };
                self.op_event(id, event);
            }
            Purpose::Writes => {
                if self.one_posting_less(id) == 0 {
                    self.op_event(id, OpEvent::Quiet);
                }
            }
            Purpose::Inv => {
                let lent = self.ops.get_mut(id).and_then(|op| op.rx.take());
                if let Some(rx) = lent {
                    self.release_rx(rx, Grant::Credit);
                }
                let event = if ok { OpEvent::InvOk } else { OpEvent::InvErr };
                self.op_event(id, event);
            }
        }
    }

    fn one_posting_less(&mut self, id: crate::proto::OpId) -> u16 {
        self.ops.get_mut(id).map_or(0, |op| {
            op.postings = op.postings.saturating_sub(1);
            op.postings
        })
    }

    /// A completion of no known posting: what the device still has is no longer known.
    pub(super) fn bad_completion(&mut self, now: Instant) {
        count(&mut self.counters.bad_completions);
        match self.state {
            ConnState::Connecting { .. } | ConnState::Established => {
                self.event(now, ConnEvent::Close(Cause::BadCompletion));
            }
            // Late, and without consequence: it ends with the QP.
            ConnState::Closing { .. } | ConnState::Draining { .. } | ConnState::Drained { .. } => {}
        }
    }

    /// A completion whose id [`WrId::from_raw`] does not know.
    pub fn handle_unknown_completion(&mut self, now: Instant) {
        self.bad_completion(now);
    }

    /// The CM reports the connection as established. On the active side `ack` is what came as
    /// private data; on the passive side it is `None`.
    pub fn handle_established(
        &mut self,
        now: Instant,
        ack: Option<Result<Message<'_>, ParseError>>,
    ) {
        if !matches!(self.state, ConnState::Connecting { .. }) {
            return count(&mut self.counters.ignored_events);
        }
        if self.flushed {
            return self.event(now, ConnEvent::Close(Cause::Flushed));
        }
        let agreed = match (self.role, ack) {
            (Role::Passive, Some(_) | None) => Ok(()),
            (Role::Active, None) => Err(Cause::Protocol(Violation::BadConnAck)),
            (Role::Active, Some(Err(error))) => Err(Cause::BadMessage(error)),
            (Role::Active, Some(Ok(msg))) => self.accept_ack(&msg),
        };
        match agreed {
            Ok(()) => self.event(now, ConnEvent::Established),
            Err(cause) => self.event(now, ConnEvent::Close(cause)),
        }
    }

    /// The checks of section 14.2, step 8, and the lower bounds that the reference leaves out.
    fn accept_ack(&mut self, ack: &Message<'_>) -> Result<(), Cause> {
        let Body::ConnAck(params) = ack.body else {
            return Err(Cause::Protocol(Violation::BadConnAck));
        };
        if ack.hdr.version != self.limits.version {
            return Err(Cause::Protocol(Violation::BadConnAck));
        }
        let limits = self
            .limits
            .negotiated(params)
            .map_err(|error| Cause::Protocol(Violation::BadParams(error)))?;
        if ack.hdr.dst != self.ident.local {
            return Err(Cause::Stale(IdentityError::DstNid {
                found: ack.hdr.dst,
                expected: self.ident.local,
            }));
        }
        if ack.hdr.dst_stamp != self.ident.local_stamp {
            return Err(Cause::Stale(IdentityError::DstStamp {
                found: ack.hdr.dst_stamp,
                expected: self.ident.local_stamp,
            }));
        }
        self.limits = limits;
        self.credits = Credits::new(limits.queue_depth);
        self.ident.peer_stamp = ack.hdr.src_stamp;
        Ok(())
    }

    /// The QP has seen traffic of the peer (IB_EVENT_COMM_EST, or a message). On the passive side
    /// that shows that the connection is up, though the CM's message may have been lost: the CM is
    /// told.
    pub fn handle_comm_est(&mut self, now: Instant) {
        self.alive = self.alive.max(now);
        match (self.state, self.role) {
            (ConnState::Connecting { .. }, Role::Passive) => {
                self.reports.notify |= !self.notified;
                self.notified = true;
            }
            (ConnState::Connecting { .. }, Role::Active)
            | (
                ConnState::Established
                | ConnState::Closing { .. }
                | ConnState::Draining { .. }
                | ConnState::Drained { .. },
                Role::Active | Role::Passive,
            ) => {}
        }
    }

    /// The CM reports that the peer has disconnected.
    pub fn handle_disconnected(&mut self, now: Instant) {
        let cause = match self.state {
            ConnState::Connecting { .. } => {
                Cause::ConnectFailed(const { 0i32.wrapping_sub(errno::ECONNRESET) })
            }
            ConnState::Established
            | ConnState::Closing { .. }
            | ConnState::Draining { .. }
            | ConnState::Drained { .. } => Cause::Disconnected,
        };
        self.event(now, ConnEvent::Close(cause));
    }

    /// The CM reports that the connection cannot be made. Ignored unless it is being made.
    pub fn handle_conn_failed(&mut self, now: Instant, cause: Cause) {
        match self.state {
            ConnState::Connecting { .. } => self.event(now, ConnEvent::Close(cause)),
            ConnState::Established
            | ConnState::Closing { .. }
            | ConnState::Draining { .. }
            | ConnState::Drained { .. } => count(&mut self.counters.ignored_events),
        }
    }

    /// The QP is in the error state: the answer to [`Action::Disconnect`](super::Action).
    pub fn handle_qp_error_state(&mut self, now: Instant) {
        self.event(now, ConnEvent::QpError);
    }

    /// The QP is gone: no more completions can come.
    pub fn handle_qp_destroyed(&mut self, now: Instant) {
        self.event(now, ConnEvent::QpDestroyed);
    }

    /// Closes the connection, or gives up its drain, if a deadline has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        match self.state {
            ConnState::Connecting { deadline } => {
                if deadline.passed(now) {
                    self.event(now, ConnEvent::Close(Cause::ConnectTimeout));
                }
            }
            ConnState::Established => {
                if self.overdue().is_some_and(|due| due.passed(now)) {
                    self.event(now, ConnEvent::Close(Cause::Timeout));
                }
            }
            ConnState::Draining { deadline, .. } => {
                if deadline.passed(now) {
                    self.event(now, ConnEvent::DrainFailed);
                }
            }
            ConnState::Closing { .. } | ConnState::Drained { .. } => {}
        }
    }

    /// When [`Conn::handle_timeout`] and [`Conn::poll_post`] have something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            ConnState::Connecting { deadline } => Some(deadline),
            ConnState::Established => Instant::earlier(self.overdue(), noop_interval(self)),
            ConnState::Draining {
                deadline,
                stuck: false,
                ..
            } => Some(deadline),
            ConnState::Draining { stuck: true, .. }
            | ConnState::Closing { .. }
            | ConnState::Drained { .. } => None,
        }
    }
}
