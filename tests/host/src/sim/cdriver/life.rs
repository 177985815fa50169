// SPDX-License-Identifier: GPL-2.0

//! From the first completion to the last: how a connection is established, closed and flushed
//! (sections 14.2, 15, 16 and 18 of the protocol).

use super::flow::Entry;
use super::{failure, wrong_type, CConn, CTx, Posted, State, TxId};
use crate::proto::cause::Violation;
use crate::proto::conn::{Action, EstInfo, Role, WcStatus};
use crate::proto::errno::{ECONNABORTED, ECONNRESET, EIO};
use crate::proto::{Cause, Done, Health, Instant, Span};
use crate::wire::{Body, IdentityError, Message, MsgType, ParseError};

impl CConn {
    // --- completions ----------------------------------------------------------------------------

    pub(crate) fn recv_failed(&mut self, now: Instant, flushed: bool) {
        self.rx_posted -= 1;
        match (self.state, flushed) {
            // The reason is still to come: the CM flushes before it tells of a reject.
            (State::Connecting(_), true) => self.flushed = true,
            (_, true) => self.close(now, Cause::Flushed),
            (_, false) => self.close(now, Cause::RecvFailed),
        }
        self.progress();
    }

    /// A request of chain `seq` has completed; only SENDs, which are the last ones, do when
    /// nothing is wrong.
    pub(crate) fn send_completed(&mut self, now: Instant, seq: u64, last: bool, status: WcStatus) {
        match status {
            WcStatus::Success => self.alive = now,
            WcStatus::Flushed => self.close(now, Cause::Flushed),
            WcStatus::Error(code) => self.close(now, Cause::SendFailed(code)),
        }
        if last && !self.lost.remove(&seq) {
            let posted = self.posted.remove(&seq).expect("a SEND that is posted");
            self.slots.push(posted.slot);
            self.sent(posted, status == WcStatus::Success);
        }
        self.progress();
    }

    fn sent(&mut self, posted: Posted, ok: bool) {
        self.flow.completed(posted.entry);
        let Entry::Tx(id) = posted.entry else {
            return;
        };
        let it = self.txs.get_mut(&id).expect("being sent");
        it.sending -= 1;
        if !ok {
            it.waiting = false;
            it.done = Some(failure(EIO, Health::RemoteDropped));
        }
        self.end_if_over(id);
    }

    pub(super) fn end_if_over(&mut self, id: TxId) {
        if !self.txs.get(&id).is_some_and(CTx::is_over) {
            return;
        }
        let it = self.txs.remove(&id).expect("looked at");
        if let Some(tx) = it.tx {
            let done = it.done.unwrap_or(Done::OK);
            self.actions.push_back(Action::Finish { tx, done });
        }
    }

    // --- the CM ---------------------------------------------------------------------------------

    pub(crate) fn handle_established(
        &mut self,
        now: Instant,
        ack: Option<Result<Message<'_>, ParseError>>,
    ) {
        if !matches!(self.state, State::Connecting(_)) {
            return;
        }
        if self.flushed {
            return self.close(now, Cause::Flushed);
        }
        let agreed = match (self.role, ack) {
            (Role::Passive, _) => Ok(()),
            (Role::Active, Some(Ok(msg))) => self.accept(&msg),
            (Role::Active, Some(Err(error))) => Err(Cause::BadMessage(error)),
            (Role::Active, None) => Err(wrong_type(MsgType::ConnAck)),
        };
        match agreed {
            Ok(()) => self.open(now),
            Err(cause) => self.close(now, cause),
        }
    }

    /// The checks of section 14.2, step 8.
    fn accept(&mut self, ack: &Message<'_>) -> Result<(), Cause> {
        let Body::ConnAck(params) = ack.body else {
            return Err(wrong_type(ack.kind()));
        };
        if ack.hdr.version != self.limits.version {
            return Err(wrong_type(MsgType::ConnAck));
        }
        let bad = |error| Cause::Protocol(Violation::BadParams(error));
        let limits = self.limits.negotiated(params).map_err(bad)?;
        if ack.hdr.dst != self.ident.local || ack.hdr.dst_stamp != self.ident.local_stamp {
            return Err(Cause::Stale(IdentityError::DstStamp {
                found: ack.hdr.dst_stamp,
                expected: self.ident.local_stamp,
            }));
        }
        self.limits = limits;
        self.ident.peer_stamp = ack.hdr.src_stamp;
        self.flow = Self::flow(&limits, &self.setup, self.flow.concurrent);
        Ok(())
    }

    fn open(&mut self, now: Instant) {
        self.state = State::Established;
        (self.alive, self.last_send, self.swept) = (now, now, now);
        self.actions.push_back(Action::Established(EstInfo {
            role: self.role,
            version: self.limits.version,
            queue_depth: self.limits.queue_depth,
            max_frags: self.limits.max_frags,
            peer_stamp: self.ident.peer_stamp,
        }));
        while let Some((rx, bytes)) = self.early.pop_front() {
            if self.is_established() {
                let msg = Message::parse(&bytes).expect("parsed when it came");
                self.process(now, rx, &msg);
            }
        }
    }

    /// The device has seen traffic: the RTU may have been lost.
    pub(crate) fn handle_comm_est(&mut self, now: Instant) {
        self.alive = now;
        let connecting = matches!(self.state, State::Connecting(_));
        if connecting && self.role == Role::Passive && !self.notified {
            self.notified = true;
            self.actions.push_back(Action::NotifyEstablished);
        }
    }

    pub(crate) fn handle_disconnected(&mut self, now: Instant) {
        let cause = match self.state {
            State::Connecting(_) => Cause::ConnectFailed(-ECONNRESET),
            _ => Cause::Disconnected,
        };
        self.close(now, cause);
    }

    pub(crate) fn handle_conn_failed(&mut self, now: Instant, cause: Cause) {
        if matches!(self.state, State::Connecting(_)) {
            self.close(now, cause);
        }
    }

    // --- the end --------------------------------------------------------------------------------

    /// Nothing is posted any more; `connd` disconnects.
    pub(crate) fn close(&mut self, _now: Instant, cause: Cause) {
        if self.is_open() {
            self.shut(cause);
            self.actions.push_back(Action::Disconnect { cause });
        }
    }

    fn shut(&mut self, cause: Cause) {
        let established = self.is_established();
        self.cause = Some(cause);
        self.state = State::Closing;
        self.to_post.clear();
        self.early.clear();
        self.actions.push_back(Action::Closed {
            cause,
            alive: self.alive,
            established,
        });
    }

    pub(crate) fn handle_qp_error_state(&mut self, now: Instant) {
        match self.state {
            State::Connecting(_) | State::Established => self.close(now, Cause::DeviceGone),
            State::Closing => {
                self.state = State::Disconnected(now.after(self.setup.tunables.timeout));
                self.abort();
                self.progress();
            }
            State::Disconnected(_) => {}
        }
    }

    /// No completion comes any more.
    pub(crate) fn handle_qp_destroyed(&mut self, now: Instant) {
        if self.is_open() {
            self.shut(Cause::DeviceGone);
        }
        if self.drained {
            return;
        }
        self.state = State::Disconnected(now);
        self.forced = true;
        self.rx_posted = 0;
        for posted in std::mem::take(&mut self.posted).into_values() {
            self.sent(posted, false);
        }
        self.abort();
        self.progress();
    }

    /// Ends everything that no send completion is to come for.
    fn abort(&mut self) {
        self.flow.clear();
        let late = self.cause == Some(Cause::Timeout);
        for id in self.txs.keys().copied().collect::<Vec<_>>() {
            let it = self.txs.get_mut(&id).expect("one of them");
            let health = match (it.queued, late) {
                (true, true) => Health::LocalTimeout,
                (true, false) => Health::LocalError,
                (false, true) => Health::RemoteTimeout,
                (false, false) => Health::Ok,
            };
            if it.queued || it.waiting {
                it.conclude(failure(ECONNABORTED, health));
            }
            it.queued = false;
            it.waiting = false;
            self.end_if_over(id);
        }
    }

    /// What has to wait for the flush, and for LNet.
    pub(super) fn progress(&mut self) {
        let disconnected = matches!(self.state, State::Disconnected(_));
        if !disconnected || self.drained || !self.posted.is_empty() {
            return;
        }
        // The queue pair is empty: whatever a failed post call left there is gone, too.
        for it in std::mem::take(&mut self.txs).into_values() {
            assert!(it.failed, "{it:?} waits for nothing");
            if let Some(tx) = it.tx {
                let done = it.done.unwrap_or(failure(EIO, Health::Ok));
                self.actions
                    .push_back(Action::FinishAfterDrain { tx, done });
            }
        }
        if self.rx_posted == 0 && self.held.is_empty() {
            self.drained = true;
            let forced = self.forced;
            self.actions.push_back(Action::Drained { forced });
        }
    }

    // --- time -----------------------------------------------------------------------------------

    /// When the oldest of what is under way is late.
    fn overdue(&self) -> Option<Instant> {
        let txs = self.txs.values().map(|it| it.since);
        let noops = self.posted.values().map(|it| it.since);
        let oldest = txs.chain(noops).min()?;
        Some(oldest.after(self.setup.tunables.timeout))
    }

    fn keepalive(&self) -> Option<Instant> {
        let span = self.setup.tunables.keepalive?;
        Some(self.last_send.after(span).after(Span(1)))
    }

    pub(super) fn keepalive_due(&self, now: Instant) -> bool {
        self.keepalive().is_some_and(|due| due.passed(now))
    }

    /// The sweep comes by four times in a timeout, and it alone looks at deadlines.
    fn next_sweep(&self) -> Option<Instant> {
        let every = (self.setup.tunables.timeout.0 / 4).max(1);
        let due = Instant::earlier(self.overdue(), self.keepalive())?;
        let next = self.swept.0 / every + 1;
        Some(Instant(due.0.div_ceil(every).max(next) * every))
    }

    /// Whether the device still has requests, as far as one knows.
    fn is_flushing(&self) -> bool {
        (self.rx_posted > 0 || !self.posted.is_empty()) && !self.destroying
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Connecting(deadline) => Some(deadline),
            State::Established => self.next_sweep(),
            State::Closing => None,
            State::Disconnected(deadline) => self.is_flushing().then_some(deadline),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        match self.state {
            State::Connecting(deadline) if deadline.passed(now) => {
                self.close(now, Cause::ConnectTimeout);
            }
            State::Established => {
                self.swept = now;
                if self.overdue().is_some_and(|due| due.passed(now)) {
                    self.close(now, Cause::Timeout);
                }
            }
            State::Disconnected(deadline) if deadline.passed(now) && self.is_flushing() => {
                self.destroying = true;
                self.actions.push_back(Action::DestroyQp);
            }
            State::Connecting(_) | State::Closing | State::Disconnected(_) => {}
        }
    }
}
