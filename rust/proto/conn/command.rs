// SPDX-License-Identifier: GPL-2.0

//! Commands: what LNet wants.

use super::{
    count,
    ops::{
        OpPhase,
        Transfer,
        Work, //
    },
    rx::{
        Grant,
        Parsed, //
    },
    state::{
        ConnEvent,
        ConnState, //
    },
    Conn,
    Sink,
    Submit, //
};
use crate::proto::{
    chain::ChainError,
    errno,
    slab::Storage,
    Cause,
    Instant,
    OpId,
    Refused,
    RxId, //
};
use crate::wire::{
    Body,
    MAX_IMMEDIATE, //
};

const ENOTCONN: i32 = 0i32.wrapping_sub(errno::ENOTCONN);

impl<S: Storage, T> Conn<S, T> {
    /// Why nothing new is accepted, if so.
    fn shut_cause(&self) -> Option<Cause> {
        match self.state {
            ConnState::Connecting { .. } => Some(Cause::ConnectFailed(ENOTCONN)),
            ConnState::Established => None,
            ConnState::Closing { cause }
            | ConnState::Draining { cause, .. }
            | ConnState::Drained { cause, .. } => Some(cause),
        }
    }

    /// Accepts a message of LNet. Its deadline is the LND timeout from now.
    ///
    /// # Errors
    ///
    /// The message comes back when the connection is not established, when LNet has more messages
    /// here than it may have, and when the lengths in `what` are wrong.
    pub fn submit(&mut self, now: Instant, tx: T, what: Submit) -> Result<OpId, Refused<T>> {
        if let Some(cause) = self.shut_cause() {
            return Err(Refused { tx, cause });
        }
        let (work, phase, legal) = match what {
            Submit::Immediate { hdr, payload } => {
                let legal =
                    hdr.payload_len == u32::from(payload) && usize::from(payload) <= MAX_IMMEDIATE;
                (Work::Immediate { hdr, payload }, OpPhase::Credit, legal)
            }
            Submit::Put { hdr, len } => {
                let legal = len > 0 && i32::try_from(len).is_ok();
                (Work::Put { hdr, len }, OpPhase::Reserve, legal)
            }
            Submit::Get { hdr, sink } => {
                let legal = sink.nob > 0 && i32::try_from(sink.nob).is_ok();
                (Work::Get { hdr, sink }, OpPhase::Reserve, legal)
            }
        };
        if !legal {
            count(&mut self.counters.bad_inputs);
            let cause = Cause::BadInput;
            return Err(Refused { tx, cause });
        }
        self.start(now, tx, work, phase)
    }

    fn start(
        &mut self,
        now: Instant,
        tx: T,
        work: Work,
        phase: OpPhase,
    ) -> Result<OpId, Refused<T>> {
        match self.ops.start(Some(tx), work, phase, now) {
            Ok(op) => Ok(op),
            Err(tx) => match tx {
                Some(tx) => {
                    let cause = Cause::TooMany;
                    Err(Refused { tx, cause })
                }
                // It was given one, so it has one.
                None => Ok(OpId { idx: 0, gen: 0 }),
            },
        }
    }

    /// Starts an answer that has no LNet message.
    fn answer(&mut self, now: Instant, work: Work) {
        let started = self.ops.start(None, work, OpPhase::Reply, now);
        if started.is_err() {
            // The table has room for every peer that sets a receive aside for each answer.
            self.event(now, ConnEvent::Close(Cause::TooMany));
        }
    }

    /// LNet gives a buffer back; what was in it. Everything after the connection has closed ends
    /// here, and so does what is no command for this buffer.
    fn take_back(&mut self, rx: RxId) -> Option<Parsed> {
        let parsed = self.rx.take_back(rx);
        if parsed.is_none() {
            count(&mut self.counters.bad_inputs);
        }
        parsed
    }

    /// What was in `rx` has been consumed or discarded without an answer: the buffer is posted
    /// again and the peer gets its credit.
    pub fn rx_done(&mut self, _now: Instant, rx: RxId) {
        if self.take_back(rx).is_some() {
            self.release_rx(rx, Grant::Credit);
        }
    }

    /// LNet refused the message in `rx` (`lnet_parse` returned the negative `status`): the
    /// connection is closed.
    pub fn rx_refused(&mut self, now: Instant, rx: RxId, status: i32) {
        if self.take_back(rx).is_some() {
            self.release_rx(rx, Grant::Credit);
            self.event(now, ConnEvent::Close(Cause::LnetRefused(status)));
        }
    }

    /// Answers the PUT_REQ in `rx` without taking its data: 0 when LNet wants none, else a
    /// negative errno.
    pub fn put_nak(&mut self, now: Instant, rx: RxId, status: i32) {
        let Some(parsed) = self.take_back(rx) else {
            return;
        };
        let Body::PutReq { cookie, .. } = parsed.body else {
            return self.wrong_command(now, rx);
        };
        self.release_rx(rx, Grant::Credit);
        if self.is_established() {
            self.answer(now, Work::Nak { cookie, status });
        }
    }

    /// Answers the PUT_REQ in `rx` with a sink. `tx` holds the MR and the receiving LNet message.
    ///
    /// # Errors
    ///
    /// `tx` comes back when the connection is closed or `rx` holds no PUT_REQ. `rx` has been given
    /// back in every case.
    pub fn put_sink(
        &mut self,
        now: Instant,
        rx: RxId,
        tx: T,
        sink: Sink,
    ) -> Result<OpId, Refused<T>> {
        let Some(parsed) = self.take_back(rx) else {
            let cause = Cause::BadInput;
            return Err(Refused { tx, cause });
        };
        if let Some(cause) = self.shut_cause() {
            self.release_rx(rx, Grant::Nothing);
            return Err(Refused { tx, cause });
        }
        let Body::PutReq { cookie, .. } = parsed.body else {
            self.wrong_command(now, rx);
            let cause = Cause::BadInput;
            return Err(Refused { tx, cause });
        };
        // The buffer is for the PUT_DONE, which needs no credit.
        self.release_rx(rx, Grant::Nothing);
        let work = Work::PutSink { src: cookie, sink };
        let started = self.start(now, tx, work, OpPhase::Reply);
        if let Err(refused) = &started {
            self.event(now, ConnEvent::Close(refused.cause));
        }
        started
    }

    /// Answers the GET_REQ in `rx` without data: `-ENODATA` when nothing matched, 0 for an empty
    /// reply, another negative errno.
    pub fn get_done(&mut self, now: Instant, rx: RxId, status: i32) {
        let Some(parsed) = self.take_back(rx) else {
            return;
        };
        let Body::GetReq { cookie, .. } = parsed.body else {
            return self.wrong_command(now, rx);
        };
        self.release_rx(rx, Grant::Credit);
        if self.is_established() {
            // A positive status would promise data.
            let status = status.min(0);
            self.answer(now, Work::NoData { cookie, status });
        }
    }

    /// Answers the GET_REQ in `rx` with `len` bytes of the source that `tx` holds. `writes` is the
    /// number of RDMA WRITEs of [`Cursor::count`](crate::proto::chain::Cursor::count), or why there
    /// is no such number: then the peer is told so and `tx` fails.
    ///
    /// # Errors
    ///
    /// `tx` comes back when the connection is closed or `rx` holds no GET_REQ. `rx` has been given
    /// back then.
    pub fn get_source(
        &mut self,
        now: Instant,
        rx: RxId,
        tx: T,
        len: u32,
        writes: Result<u16, ChainError>,
    ) -> Result<OpId, Refused<T>> {
        let Some(parsed) = self.take_back(rx) else {
            let cause = Cause::BadInput;
            return Err(Refused { tx, cause });
        };
        if let Some(cause) = self.shut_cause() {
            self.release_rx(rx, Grant::Nothing);
            return Err(Refused { tx, cause });
        }
        let Body::GetReq { cookie, desc, .. } = parsed.body else {
            self.wrong_command(now, rx);
            let cause = Cause::BadInput;
            return Err(Refused { tx, cause });
        };
        let op = match self.start(now, tx, Work::GetSource, OpPhase::Planning) {
            Ok(op) => op,
            Err(refused) => {
                self.event(now, ConnEvent::Close(refused.cause));
                self.release_rx(rx, Grant::Nothing);
                return Err(refused);
            }
        };
        let transfer = Transfer {
            cookie,
            rx,
            desc,
            left: 0,
            status: i32::try_from(len).unwrap_or(i32::MAX),
        };
        self.ops.update(op, |op| op.transfer = Some(transfer));
        let writes = if len > desc.total() {
            Err(ChainError::SinkTooShort)
        } else {
            writes
        };
        self.planned(op, writes);
        Ok(op)
    }

    /// Answers [`Action::Plan`](super::Action::Plan): the number of RDMA WRITEs, or why there is
    /// none. In the latter case the peer is told so and the message fails.
    pub fn put_planned(&mut self, _now: Instant, op: OpId, writes: Result<u16, ChainError>) {
        // The connection may have been closed meanwhile, and the operation with it.
        let waits = self
            .ops
            .get(op)
            .is_some_and(|op| op.phase() == OpPhase::Planning);
        if waits {
            self.planned(op, writes);
        }
    }

    fn planned(&mut self, id: OpId, writes: Result<u16, ChainError>) {
        let max = self.limits.max_frags;
        let writes = writes.and_then(|n| {
            if n > max {
                Err(ChainError::TooManyWrites)
            } else {
                Ok(n)
            }
        });
        self.ops.update(id, |op| {
            if let Err(error) = writes {
                op.conclude(Cause::Descriptor(error).outcome().into());
            }
            if let Some(transfer) = &mut op.transfer {
                match writes {
                    Ok(n) => transfer.left = n,
                    Err(error) => transfer.status = 0i32.wrapping_sub(error.errno()),
                }
            }
        });
        self.ops.enter(id, OpPhase::Reply);
        self.release_desc(id);
    }

    /// When no more WRITEs are to be posted, the peer's descriptor is no longer needed.
    pub(super) fn release_desc(&mut self, id: OpId) {
        let Some(op) = self.ops.get(id) else {
            return;
        };
        let grant = match op.work {
            Work::Put { .. } => Grant::Reserve,
            Work::GetSource => Grant::Credit,
            Work::Immediate { .. }
            | Work::Get { .. }
            | Work::PutSink { .. }
            | Work::Nak { .. }
            | Work::NoData { .. } => return,
        };
        if let Some(transfer) = op.transfer.filter(|transfer| transfer.left == 0) {
            self.release_rx(transfer.rx, grant);
        }
    }

    fn wrong_command(&mut self, now: Instant, rx: RxId) {
        count(&mut self.counters.bad_inputs);
        self.release_rx(rx, Grant::Nothing);
        self.event(now, ConnEvent::Close(Cause::BadInput));
    }

    /// Closes the connection, if it is not closed.
    pub fn close(&mut self, now: Instant, cause: Cause) {
        self.event(now, ConnEvent::Close(cause));
    }
}
