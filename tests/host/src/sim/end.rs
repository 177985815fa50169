// SPDX-License-Identifier: GPL-2.0

//! The end of a connection: our engine, or the model of the C driver.

use super::cdriver::CConn;
use super::lnet::Tx;
use super::Heap;
use crate::driver::cm::ConnInput;
use crate::proto::conn::{Action, Conn, Role, Sink, Submit};
use crate::proto::{Cause, Instant, Limits, Refused, RxId};
use crate::wire::{Identity, Message, ParseError};

/// Whoever is at the end of a connection. Where the two are not alike, the caller looks.
pub(super) enum End {
    Ours(Box<Conn<Heap, Tx>>),
    C(Box<CConn>),
}

/// What the simulator looks at, whoever is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// State as section 16.1 of the protocol numbers it.
    pub(super) state: u8,
    pub(super) queue_depth: u16,
    pub(super) credits: u16,
    pub(super) outstanding: u16,
    pub(super) reserved: u16,
    /// Credits that the other side has; the C driver does not count them.
    pub(super) granted: Option<u16>,
    pub(super) sends: u16,
    pub(super) noops: u16,
    pub(super) concurrent_sends: u16,
    /// Owed credits that call for a NOOP.
    pub(super) hiw: u16,
    /// What of the send queue is in use, and its size.
    pub(super) sq_used: u32,
    pub(super) sq_wrs: u32,
    pub(super) rx_posted: u16,
    pub(super) rx_to_post: u16,
    /// Buffers that LNet has.
    pub(super) rx_held: u16,
    /// Messages that came before the connection was established.
    pub(super) rx_early: u16,
    /// Transmissions that have not ended.
    pub(super) ops: u16,
    pub(super) rx_msgs: u32,
    pub(super) tx_noops: u32,
    /// Inputs and completions that belong to nothing.
    pub(super) wrong: u32,
}

/// The same call to either.
macro_rules! either {
    ($end:expr, $conn:ident => $call:expr) => {
        match $end {
            End::Ours($conn) => $call,
            End::C($conn) => $call,
        }
    };
}

impl End {
    pub(super) fn is_c(&self) -> bool {
        matches!(self, Self::C(_))
    }

    /// Our engine, which must be there.
    pub(super) fn ours(&self) -> &Conn<Heap, Tx> {
        match self {
            Self::Ours(conn) => conn,
            Self::C(_) => panic!("the C driver is at this end"),
        }
    }

    /// Our engine, which must be there.
    pub(super) fn ours_mut(&mut self) -> &mut Conn<Heap, Tx> {
        match self {
            Self::Ours(conn) => conn,
            Self::C(_) => panic!("the C driver is at this end"),
        }
    }

    pub(super) fn is_established(&self) -> bool {
        either!(self, conn => conn.is_established())
    }

    pub(super) fn is_released(&self) -> bool {
        either!(self, conn => conn.is_released())
    }

    pub(super) fn cause(&self) -> Option<Cause> {
        either!(self, conn => conn.cause())
    }

    pub(super) fn role(&self) -> Role {
        either!(self, conn => conn.role())
    }

    pub(super) fn identity(&self) -> &Identity {
        either!(self, conn => conn.identity())
    }

    pub(super) fn limits(&self) -> &Limits {
        either!(self, conn => conn.limits())
    }

    pub(super) fn look(&self) -> Look {
        match self {
            Self::Ours(conn) => look(conn),
            Self::C(conn) => conn.look(),
        }
    }

    pub(super) fn poll_action(&mut self) -> Option<Action<Tx>> {
        either!(self, conn => conn.poll_action())
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        either!(self, conn => conn.poll_timeout())
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        either!(self, conn => conn.handle_timeout(now));
    }

    pub(super) fn handle_established(
        &mut self,
        now: Instant,
        ack: Option<Result<Message<'_>, ParseError>>,
    ) {
        either!(self, conn => conn.handle_established(now, ack));
    }

    pub(super) fn handle_comm_est(&mut self, now: Instant) {
        either!(self, conn => conn.handle_comm_est(now));
    }

    pub(super) fn handle_disconnected(&mut self, now: Instant) {
        either!(self, conn => conn.handle_disconnected(now));
    }

    /// Connection work has something for the connection.
    pub(super) fn handle_cm(&mut self, now: Instant, input: ConnInput<'_>) {
        match (self, input) {
            (Self::Ours(conn), _) => input.feed(conn, now),
            (Self::C(conn), ConnInput::Established) => conn.handle_established(now, None),
            (Self::C(conn), ConnInput::Opened(ack)) => conn.handle_established(now, Some(ack)),
            (Self::C(conn), ConnInput::Disconnected) => conn.handle_disconnected(now),
            (Self::C(conn), ConnInput::Failed(cause)) => conn.handle_conn_failed(now, cause),
            (Self::C(conn), ConnInput::Close(cause)) => conn.close(now, cause),
            (Self::C(conn), ConnInput::QpError) => conn.handle_qp_error_state(now),
            (Self::C(conn), ConnInput::QpDestroyed) => conn.handle_qp_destroyed(now),
        }
    }

    pub(super) fn handle_qp_error_state(&mut self, now: Instant) {
        either!(self, conn => conn.handle_qp_error_state(now));
    }

    pub(super) fn handle_qp_destroyed(&mut self, now: Instant) {
        either!(self, conn => conn.handle_qp_destroyed(now));
    }

    pub(super) fn close(&mut self, now: Instant, cause: Cause) {
        either!(self, conn => conn.close(now, cause));
    }

    /// What is not accepted comes back.
    pub(super) fn submit(&mut self, now: Instant, tx: Tx, what: Submit) -> Option<Refused<Tx>> {
        match self {
            Self::Ours(conn) => conn.submit(now, tx, what).err(),
            Self::C(conn) => conn.submit(now, tx, what),
        }
    }

    pub(super) fn rx_done(&mut self, now: Instant, rx: RxId) {
        match self {
            Self::Ours(conn) => conn.rx_done(now, rx),
            Self::C(conn) => conn.rx_done(rx),
        }
    }

    pub(super) fn put_nak(&mut self, now: Instant, rx: RxId, status: i32) {
        either!(self, conn => conn.put_nak(now, rx, status));
    }

    pub(super) fn put_sink(
        &mut self,
        now: Instant,
        rx: RxId,
        tx: Tx,
        sink: Sink,
    ) -> Option<Refused<Tx>> {
        match self {
            Self::Ours(conn) => conn.put_sink(now, rx, tx, sink).err(),
            Self::C(conn) => conn.put_sink(now, rx, tx, sink),
        }
    }

    pub(super) fn get_done(&mut self, now: Instant, rx: RxId, status: i32) {
        either!(self, conn => conn.get_done(now, rx, status));
    }
}

fn look(conn: &Conn<Heap, Tx>) -> Look {
    let s = conn.snapshot();
    Look {
        state: s.state,
        queue_depth: s.queue_depth,
        credits: s.credits,
        outstanding: s.outstanding,
        reserved: s.reserved,
        granted: Some(s.granted),
        sends: s.sends,
        noops: s.noops,
        concurrent_sends: conn.limits().concurrent_sends,
        hiw: conn.limits().hiw,
        sq_used: s.sq_used,
        sq_wrs: conn.limits().sq_wrs,
        rx_posted: s.rx_posted,
        rx_to_post: s.rx_to_post,
        rx_held: s.rx_held,
        rx_early: s.rx_parked,
        ops: s.ops,
        rx_msgs: s.counters.rx_msgs,
        tx_noops: s.counters.tx_noops,
        wrong: s.counters.bad_inputs + s.counters.bad_completions,
    }
}
