// SPDX-License-Identifier: GPL-2.0

//! The executor of a connection: polls its completions and runs its actions.
//!
//! Runs on the scheduler thread that the connection belongs to, and nowhere else.

use super::{
    conn::{
        Conn,
        Wish, //
    },
    rxbuf::RxBufs,
    stats::{
        self,
        Event, //
    },
    tx::Ended, //
};
use crate::{
    lnet::RxHandle,
    proto::{
        chain::{
            count_writes,
            ChainError, //
        },
        conn::{
            Action,
            Delivery,
            EstInfo,
            WcStatus, //
        },
        Cause,
        Instant,
        OpId,
        RxId,
        WrId,
        WrKind, //
    },
    rdma::{
        self,
        Wc,
        WcBatch, //
    },
    wire::{
        DescLoc,
        LnetHdr,
        Message, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Batches that a connection may poll before the thread looks at others.
const BUDGET: usize = 16;

/// Actions that are taken with one hold of the lock.
const ACTIONS: usize = 4;

type Tx = KBox<super::tx::Tx>;

/// Sees to everything that a connection wants.
pub(crate) fn run(conn: &Arc<Conn>, batch: &mut WcBatch) {
    let events = conn.take_events();
    if events.comm_est {
        conn.drive(|engine, now| engine.handle_comm_est(now));
    }
    let async_error = match (events.cq_error, events.qp_error, events.peer_error) {
        (true, _, _) => Some(Cause::CqError),
        (false, true, _) => Some(Cause::DeviceGone),
        // What a peer does to its connection must not count against this node.
        (false, false, true) => Some(Cause::RecvFailed),
        (false, false, false) => None,
    };
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
    let Some(wr) = WrId::from_raw(wc.wr_id()) else {
        Event::WcUnknown.count();
        return conn.feed(|engine, now| engine.handle_unknown_completion(now));
    };
    match (wr.kind(), wc.status()) {
        (WrKind::Recv { rx, .. }, rdma::WcStatus::Success) => {
            let len = wc.byte_len();
            let read = bufs.received(rx, len, |bytes| message(conn, wr, bytes));
            if read.is_none() {
                Event::WcUnknown.count();
                conn.feed(|engine, now| engine.handle_unknown_completion(now));
            }
        }
        (WrKind::Recv { .. } | WrKind::SentinelRq, status) => {
            let flushed = status == rdma::WcStatus::Flushed;
            if !flushed {
                Event::RxError.count();
                crate::warn_ratelimited!(
                    "{}: receive failed: {} (vendor {:#x})\n",
                    conn.peer.nid,
                    wc.status_text(),
                    wc.vendor_err()
                );
            }
            conn.feed(|engine, now| engine.handle_recv_error(now, wr, flushed));
        }
        (WrKind::Send { .. } | WrKind::SentinelSq, status) => {
            let status = match status {
                rdma::WcStatus::Success => WcStatus::Success,
                rdma::WcStatus::Flushed => WcStatus::Flushed,
                rdma::WcStatus::Error(code) => {
                    crate::warn_ratelimited!(
                        "{}: send failed: {} (vendor {:#x})\n",
                        conn.peer.nid,
                        wc.status_text(),
                        wc.vendor_err()
                    );
                    WcStatus::Error(code)
                }
            };
            conn.feed(|engine, now| engine.handle_send_completion(now, wr, status));
        }
    }
}

/// Tells the engine of a message.
fn message(conn: &Conn, wr: WrId, bytes: &[u8]) {
    Event::RxMessages.count();
    match Message::parse(bytes) {
        Ok(msg) => {
            stats::received(msg.kind(), msg.nob);
            conn.feed(|engine, now| engine.handle_msg(now, wr, &msg));
        }
        Err(error) => {
            Event::RxBadMessage.count();
            crate::warn_ratelimited!("{}: bad message: {}\n", conn.peer.nid, error);
            conn.feed(|engine, now| engine.handle_bad_msg(now, wr, error));
        }
    }
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
                if let Action::Deliver { rx, kind, .. } = &action {
                    inner.deliver(*rx, *kind);
                }
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
    match action {
        Action::Established(info) => established(conn, &info),
        Action::NotifyEstablished => conn.wish(Wish::NotifyEstablished),
        Action::Deliver { rx, hdr, kind } => deliver(conn, rx, &hdr, kind),
        Action::Plan {
            op,
            rx,
            desc,
            total,
        } => plan(conn, op, rx, &desc, total),
        Action::Finish { tx, done } => conn.peer.ni.finish(tx, done, Ended::Clean),
        Action::FinishAfterDrain { tx, done } => {
            conn.peer.ni.finish(tx, done, Ended::Drained);
        }
        Action::Closed {
            cause,
            alive,
            established,
        } => closed(conn, cause, alive, established),
        Action::Disconnect { cause: _ } => conn.wish(Wish::Disconnect),
        Action::DestroyQp => {
            Event::ForcedDrain.count();
            conn.wish(Wish::DestroyQp);
        }
        Action::Drained { forced: _ } => conn.wish(Wish::Drained),
    }
}

/// Tells the peer that the connection is up.
fn established(conn: &Arc<Conn>, info: &EstInfo) {
    Event::Established.count();
    let mut inner = conn.peer.inner.lock();
    let accepted = inner.engine.handle_established(super::now(), conn.id, info);
    drop(inner);
    if let Err(cause) = accepted {
        conn.drive(|engine, now| engine.close(now, cause));
    }
    conn.peer.kick();
}

/// Tells the peer that the connection has ended.
fn closed(conn: &Arc<Conn>, cause: Cause, alive: Instant, established: bool) {
    match cause.errno() {
        0 => Event::ClosedClean.count(),
        errno => {
            Event::ClosedError.count();
            if established {
                crate::warn_ratelimited!(
                    "{}: connection closed: {} ({})\n",
                    conn.peer.nid,
                    cause,
                    errno
                );
            }
        }
    }
    if conn.is_known() {
        let mut inner = conn.peer.inner.lock();
        inner
            .engine
            .handle_closed(super::now(), conn.id, cause, alive);
        drop(inner);
        conn.peer.kick();
    }
}

/// Gives LNet a message.
fn deliver(conn: &Arc<Conn>, rx: RxId, hdr: &LnetHdr, kind: Delivery) {
    let rdma = match kind {
        Delivery::Immediate => false,
        Delivery::PutReq | Delivery::GetReq { .. } => true,
    };
    let handle = RxHandle {
        conn: conn.clone(),
        rx: rx.0,
    };
    let ni = conn.peer.ni.handle();
    match ni.parse(&hdr.to_bytes(), conn.peer.nid.0, handle, rdma) {
        Ok(()) => Event::RxDelivered.count(),
        Err((e, _handle)) => {
            Event::RxRefused.count();
            let _ = conn.take_delivered(rx);
            crate::warn_ratelimited!("{}: LNet refuses {}: {:?}\n", conn.peer.nid, hdr.kind, e);
            conn.drive(|engine, now| engine.rx_refused(now, rx, e.to_errno()));
        }
    }
}

/// Counts the WRITEs of a PUT.
fn plan(conn: &Conn, op: OpId, rx: RxId, desc: &DescLoc, total: u32) {
    let Some(bufs) = conn.rx_bufs() else {
        return;
    };
    conn.drive(|engine, now| {
        let limits = *engine.limits();
        let Some(tx) = engine.tx_mut(op) else {
            // The connection was closed meanwhile.
            return;
        };
        tx.start_writes(total);
        let writes = bufs.read(rx, |buf| {
            let sink = desc.view(buf).ok_or(ChainError::BadArgument)?;
            let (sges, frags) = (limits.max_send_sge, limits.max_frags);
            count_writes(tx.source(), &sink, total, sges, frags)
        });
        engine.put_planned(now, op, writes);
    });
}
