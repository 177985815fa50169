// SPDX-License-Identifier: GPL-2.0

//! The executor of a connection: polls its completions and runs its actions.
//!
//! What they mean is decided in [`driver::exec`](crate::driver::exec).
//!
//! Runs on the scheduler thread that the connection belongs to, and nowhere else.

use super::shell::Kernel;
use crate::{
    driver::exec::{
        act,
        received,
        Completion,
        Step, //
    },
    lnd::{
        conn::{
            Conn,
            RxBufs, //
        },
        stats::{
            self,
            Event, //
        },
        tx, //
    },
    proto::{
        chain::ChainError,
        conn::{
            Action,
            WcStatus, //
        },
        Cause,
        WrId, //
    },
    rdma::{
        Wc,
        WcBatch, //
    },
    wire::Message,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Batches of completions that a connection may poll before others have their turn.
const BUDGET: usize = 16;

/// Actions that are taken with one hold of the lock.
const ACTIONS: usize = 4;

type Tx = KBox<tx::Tx>;

/// Sees to everything that a connection wants.
pub(crate) fn run(conn: &Arc<Conn>, batch: &mut WcBatch) {
    let events = conn.take_events();
    if events.comm_est {
        conn.drive(|engine, now| engine.handle_comm_est(now));
    }
    let async_error = events.cause();
    if let Some(cause) = async_error {
        Event::AsyncError.count();
        conn.drive(|engine, now| engine.close(now, cause));
    }
    if poll(conn, batch).is_err() {
        Event::CqError.count();
        conn.drive(|engine, now| engine.close(now, Cause::CqError));
    }
    run_actions(conn);
}

/// Polls until there are no completions and the queue is armed, or the budget is used up.
fn poll(conn: &Arc<Conn>, batch: &mut WcBatch) -> Result {
    let Some((cq, bufs)) = conn.queues() else {
        return Ok(());
    };
    for _ in 0..BUDGET {
        let wcs = cq.poll(batch)?;
        if wcs.is_empty() {
            if cq.arm()? {
                continue;
            }
            return Ok(());
        }
        for wc in wcs {
            completion(conn, &bufs, wc);
        }
        conn.drive(|_, _| ());
        run_actions(conn);
    }
    conn.kick();
    Ok(())
}

/// Tells the engine of a completion.
fn completion(conn: &Conn, bufs: &RxBufs, wc: &Wc) {
    let completion = Completion::new(wc.wr_id(), WcStatus::from_raw(wc.status()));
    match completion {
        Completion::Received { wr, .. } if wc.is_invalidating() => {
            // No message of the protocol does that: it is one of somebody who guesses keys, maybe
            // of other connections, whose devices then refuse their peers.
            Event::RxInvalidates.count();
            crate::warn_ratelimited!("{}: sent to invalidate a key of ours\n", conn.peer.nid);
            return conn.feed(|engine, now| engine.handle_recv_error(now, wr, false));
        }
        Completion::Received { wr, rx } => {
            let len = wc.byte_len();
            let read = bufs.received(rx, len, |bytes| message(conn, wr, bytes));
            if read.is_some() {
                return;
            }
            Event::WcUnknown.count();
        }
        Completion::RecvFailed { flushed: false, .. } => Event::RxError.count(),
        Completion::RecvFailed { flushed: true, .. } | Completion::Sent { .. } => {}
        Completion::Unknown => Event::WcUnknown.count(),
    }
    if let Some(what) = completion.failure() {
        log_failed(conn, what, wc);
    }
    conn.feed(|engine, now| completion.feed(engine, now));
}

/// Logs that a request has failed.
fn log_failed(conn: &Conn, what: &str, wc: &Wc) {
    crate::warn_ratelimited!(
        "{}: {} failed: {} (vendor {:#x})\n",
        conn.peer.nid,
        what,
        wc.status_text(),
        wc.vendor_err()
    );
}

/// Tells the engine of a message.
fn message(conn: &Conn, wr: WrId, bytes: &[u8]) {
    Event::RxMessages.count();
    let parsed = Message::parse(bytes);
    match &parsed {
        Ok(msg) => stats::received(msg.kind(), msg.nob),
        Err(error) => {
            Event::RxBadMessage.count();
            crate::warn_ratelimited!("{}: bad message: {}\n", conn.peer.nid, error);
        }
    }
    conn.feed(|engine, now| received(engine, now, wr, &parsed));
}

/// Runs the actions of a connection until there are none.
fn run_actions(conn: &Arc<Conn>) {
    loop {
        let mut actions: [Option<Action<Tx>>; ACTIONS] = [const { None }; ACTIONS];
        conn.locked(|inner| {
            for place in &mut actions {
                let Some(action) = inner.engine.poll_action() else {
                    return;
                };
                *place = Some(action);
            }
        });
        let mut none = true;
        for action in actions.into_iter().flatten() {
            none = false;
            run_action(conn, action);
        }
        if none {
            return;
        }
    }
}

fn run_action(conn: &Arc<Conn>, action: Action<Tx>) {
    let Some(step) = act(&mut Kernel, conn, action) else {
        return;
    };
    let bufs = match step {
        Step::Plan { .. } => conn.rx_bufs(),
        Step::Close(_) | Step::Refused { .. } => None,
    };
    conn.drive(|engine, now| {
        step.feed(engine, now, |tx, rx, sink, limits| {
            let bufs = bufs.as_ref().ok_or(ChainError::BadArgument)?;
            bufs.read(rx, |buf| tx.plan(sink, sink.total(), buf, limits))
        });
    });
}
