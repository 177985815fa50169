// SPDX-License-Identifier: GPL-2.0

//! What the driver is to do after unlocking.

use super::{
    ops::{
        OpPhase,
        OpQueue, //
    },
    state::ConnState,
    Action,
    Conn,
    EstInfo, //
};
use crate::proto::{
    slab::Storage,
    Cause,
    Done,
    OpId, //
};

/// The value of a flag, which is false from now on.
fn take(flag: &mut bool) -> bool {
    core::mem::replace(flag, false)
}

impl<S: Storage, T> Conn<S, T> {
    /// Whether [`Conn::poll_action`] has something.
    pub fn has_actions(&self) -> bool {
        let r = &self.reports;
        r.established
            || r.notify
            || r.closed
            || r.disconnect
            || r.destroy
            || r.drained
            || self.ops.len(OpQueue::Plan) > 0
            || self.ops.len(OpQueue::Finish) > 0
            || self.rx.deliver_len() > 0
            || (self.is_drained() && self.ops.len(OpQueue::Drain) > 0)
    }

    /// The next thing to do after unlocking. [`Action::Drained`] comes last.
    pub fn poll_action(&mut self) -> Option<Action<T>> {
        if take(&mut self.reports.established) {
            return Some(Action::Established(self.est_info()));
        }
        if take(&mut self.reports.notify) {
            return Some(Action::NotifyEstablished);
        }
        if take(&mut self.reports.closed) {
            return Some(Action::Closed {
                cause: self.first_cause(),
                alive: self.alive,
                established: self.was_established,
            });
        }
        if take(&mut self.reports.disconnect) {
            return Some(Action::Disconnect {
                cause: self.first_cause(),
            });
        }
        if take(&mut self.reports.destroy) {
            return Some(Action::DestroyQp);
        }
        self.poll_plan()
            .or_else(|| self.poll_finish())
            .or_else(|| self.poll_deliver())
            .or_else(|| self.poll_drained())
    }

    fn est_info(&self) -> EstInfo {
        EstInfo {
            role: self.role,
            version: self.limits.version,
            queue_depth: self.limits.queue_depth,
            max_frags: self.limits.max_frags,
            peer_stamp: self.ident.peer_stamp,
        }
    }

    fn first_cause(&self) -> Cause {
        self.cause().unwrap_or(Cause::BadInput)
    }

    fn poll_plan(&mut self) -> Option<Action<T>> {
        let op = self.ops.front(OpQueue::Plan)?;
        self.ops.enter(op, OpPhase::Planning);
        let transfer = self.ops.get(op)?.transfer?;
        Some(Action::Plan {
            op,
            rx: transfer.rx,
            desc: transfer.desc,
        })
    }

    fn poll_finish(&mut self) -> Option<Action<T>> {
        let op = self.ops.front(OpQueue::Finish)?;
        let (tx, done) = self.hand_out(op)?;
        Some(Action::Finish { tx, done })
    }

    fn poll_deliver(&mut self) -> Option<Action<T>> {
        let (rx, hdr, kind) = self.rx.hand_over()?;
        Some(Action::Deliver { rx, hdr, kind })
    }

    fn poll_drained(&mut self) -> Option<Action<T>> {
        let ConnState::Drained { forced, .. } = self.state else {
            return None;
        };
        if let Some(op) = self.ops.front(OpQueue::Drain) {
            let (tx, done) = self.hand_out(op)?;
            return Some(Action::FinishAfterDrain { tx, done });
        }
        take(&mut self.reports.drained).then_some(Action::Drained { forced })
    }

    /// Takes an ended operation out; an operation without LNet message never ends up on a list.
    fn hand_out(&mut self, op: OpId) -> Option<(T, Done)> {
        let (tx, done) = self.ops.end(op)?;
        Some((tx?, done.unwrap_or(Done::OK)))
    }
}
