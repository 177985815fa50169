// SPDX-License-Identifier: GPL-2.0

//! The driver under and after its lock: posting, completions, actions, timers.

use super::end::End;
use super::hca::CqeKind;
use super::lnet::{id_of, Tx};
use super::node::{Ep, PostFaults};
use super::phases::CALM_FRAGS;
use super::receive::plan;
use super::world::{EpId, Ev, World};
use crate::driver::exec::{act, is_logged, Step};
use crate::driver::shell::Shell as _;
use crate::proto::conn::Action;
use crate::proto::Cause;
use crate::wire::{Version, MAX_FRAGS};

impl World {
    /// Pieces that the C driver describes a sink by at most.
    pub(super) fn frags(&self) -> u16 {
        match self.calm {
            true => CALM_FRAGS,
            false => MAX_FRAGS,
        }
    }

    /// What the driver does under the lock after every input: post, collect, set the timer.
    pub(super) fn drive(&mut self, id: EpId) {
        let now = self.instant();
        let one_in = if self.faults { self.cfg.post_fault } else { 0 };
        let frags = self.frags();
        let ep = &mut self.eps[id];
        let mut faults = PostFaults {
            prng: &mut self.prng,
            one_in,
            frags,
        };
        let (sent, kick) = ep.post_all(now, &mut self.nodes[ep.node].memory, &mut faults);
        if kick {
            while let Some(action) = ep.conn.poll_action() {
                ep.actions.push_back(action);
            }
        }
        if let End::C(conn) = &mut ep.conn {
            while let Some(msg) = conn.poll_unplanned() {
                self.report.c_declined += 1;
                self.msgs[msg].declined = true;
                self.msgs[msg].must = false;
            }
        }
        check_snapshot(ep);
        let run = !ep.running && ep.is_busy();
        ep.running |= run;
        let step = sent && !ep.stepping && ep.qp.can_start();
        ep.stepping |= step;
        let wake = !ep.waking && !ep.qp.cq_empty();
        ep.waking |= wake;
        let timer = ep.conn.poll_timeout();
        let arm = timer.filter(|&t| ep.timer.is_none_or(|armed| t < armed));
        if let Some(t) = arm {
            ep.timer = Some(t);
            self.at(t.0.saturating_sub(now.0), Ev::Timer(id));
        }
        if run {
            let delay = self.jitter(self.cfg.action_delay);
            self.at(delay, Ev::Run(id));
        }
        if step {
            self.at(self.cfg.latency / 10 + 1, Ev::Step(id));
        }
        if wake {
            self.wake_later(id);
        }
        self.reap(id);
    }

    /// A command leaves the posting to whoever has the connection next, now and then: so requests
    /// come together in bursts.
    pub(super) fn drive_lazily(&mut self, id: EpId) {
        if self.prng.chance(1, 2) {
            return self.drive(id);
        }
        let delay = self.jitter(self.cfg.cq_delay + self.cfg.latency);
        self.at(delay, Ev::Drive(id));
    }

    pub(super) fn wake_later(&mut self, id: EpId) {
        let delay = self.jitter(self.cfg.cq_delay);
        let frozen = self.nodes[self.eps[id].node].frozen_until;
        self.at(delay.max(frozen.saturating_sub(self.now)), Ev::Wake(id));
    }

    pub(super) fn wake(&mut self, id: EpId) {
        let now = self.instant();
        self.eps[id].waking = false;
        for _ in 0..self.prng.range(1, 16) {
            let recv_first = self.prng.chance(1, 2);
            let ep = &mut self.eps[id];
            let Some(cqe) = ep.qp.poll(recv_first) else {
                break;
            };
            let message = cqe.recv && cqe.kind == CqeKind::Success;
            self.report.swapped += u64::from(ep.completed(now, cqe));
            self.report.early += u64::from(message && ep.conn.look().rx_early > 0);
            if self.prng.chance(1, 2) {
                self.drive(id);
            }
        }
        self.drive(id);
        let ep = &mut self.eps[id];
        if !ep.waking && !ep.qp.cq_empty() {
            ep.waking = true;
            self.wake_later(id);
        }
    }

    pub(super) fn run_action(&mut self, id: EpId) {
        let frozen = self.nodes[self.eps[id].node].frozen_until;
        if frozen > self.now {
            return self.at(frozen - self.now, Ev::Run(id));
        }
        self.eps[id].running = false;
        if let Some(step) = self.eps[id].step.take() {
            self.step_action(id, step);
        } else if let Some(action) = self.eps[id].actions.pop_front() {
            if self.verbose {
                self.say(&format!("{}: {}", self.name(id), brief(&action)));
            }
            self.eps[id].step = self.act(id, action);
        }
        self.drive(id);
        let ep = &mut self.eps[id];
        if !ep.running && ep.is_busy() {
            ep.running = true;
            let delay = self.jitter(self.cfg.action_delay);
            self.at(delay, Ev::Run(id));
        }
    }

    /// Does what a connection wants done with nothing locked. What remains is done before its next
    /// action.
    pub(super) fn act(&mut self, id: EpId, action: Action<Tx>) -> Option<Step> {
        match &action {
            Action::Established(info) => {
                assert_eq!(info.version, self.eps[id].limits.version);
                assert!(info.queue_depth >= 1);
                if !self.cfg.peers {
                    self.count_established(id);
                    return None;
                }
            }
            Action::Closed {
                cause, established, ..
            } if !self.cfg.peers => {
                self.note_closed(&id, *cause, is_logged(*cause, *established));
                return None;
            }
            Action::Drained { forced } => {
                let ep = &self.eps[id];
                assert!(*forced || ep.qp.idle(), "drained with requests on the QP");
                let last = |a: &Action<Tx>| matches!(a, Action::Deliver { .. });
                assert!(ep.actions.iter().all(last));
                self.report.forced += u64::from(*forced);
            }
            _ => {}
        }
        let closed = matches!(action, Action::Closed { .. });
        let step = act(self, &id, action);
        if closed {
            self.eps[id].ended = true;
            self.check_peer(self.eps[id].peer_box);
        }
        step
    }

    /// A peer that counts a connection that has closed would go on giving it messages, and tell
    /// LNet too late, or of another cause, that the node is down.
    fn check_peer(&self, at: usize) {
        let open = |ep: &&Ep| ep.peer_box == at && ep.named && !ep.ended;
        let open = self.eps.iter().filter(open).count();
        let up = usize::from(self.peers[at].peer.snapshot().up);
        assert!(up <= open, "a peer counts {up} connections of {open}");
    }

    /// Does what remains of an action, under the lock.
    pub(super) fn step_action(&mut self, id: EpId, step: Step) {
        let now = self.instant();
        let mut planned = None;
        let Ep { conn, rx_bufs, .. } = &mut self.eps[id];
        match conn {
            End::Ours(conn) => step.feed(conn, now, |tx, rx, sink, limits| {
                let buf = &rx_bufs[usize::from(rx.0)];
                let counted = plan(&mut tx.mem, sink, sink.total(), buf, limits);
                let split = counted.is_ok_and(|n| u32::from(n) > limits.sq_wrs - 1);
                planned = Some((tx.msg, counted.is_ok(), split));
                counted
            }),
            End::C(conn) => match step {
                Step::Close(cause) => conn.close(now, cause),
                Step::Refused { rx, status } => conn.rx_refused(now, rx, status),
                Step::Plan { .. } => panic!("the C driver counts by itself"),
            },
        }
        if let Some((msg, found, split)) = planned {
            self.report.split += u64::from(split);
            self.note_count(msg, found);
        }
    }

    pub(super) fn count_established(&mut self, id: EpId) {
        self.eps[id].spoke = self.now;
        let v1 = self.eps[id].limits.version == Version::V1;
        self.report.v1 += u64::from(v1);
        let mixed = self.is_mixed(id) && self.eps[id].conn.is_c();
        self.report.c_conns += u64::from(mixed);
        self.report.c_v1 += u64::from(mixed && v1);
    }

    /// Whether our engine is at one end of a connection and the model of the C driver at the other.
    pub(super) fn is_mixed(&self, id: EpId) -> bool {
        let ep = &self.eps[id];
        self.cfg.nodes[ep.node].reference != self.cfg.nodes[ep.other].reference
    }

    /// Ends that keep to the protocol must not accuse each other.
    pub(super) fn closed(&mut self, id: EpId, cause: Cause) {
        if self.verbose {
            self.say(&format!("{} closed: {cause:?}", self.name(id)));
        }
        match cause {
            Cause::BadMessage(_)
            | Cause::Protocol(_)
            | Cause::Stale(_)
            | Cause::BadCompletion
            | Cause::BadInput
            | Cause::TooMany => panic!("ep {id} closed: {cause:?}"),
            _ => {}
        }
        let late = matches!(
            cause,
            Cause::Timeout | Cause::Flushed | Cause::SendFailed(_)
        );
        assert!(!(late && self.calm), "ep {id} closed: {cause:?}");
        let delay = self.jitter(self.cfg.action_delay * 10);
        self.at(delay, Ev::Connect);
    }

    pub(super) fn timer(&mut self, id: EpId) {
        let now = self.instant();
        let frozen = self.nodes[self.eps[id].node].frozen_until;
        if frozen > self.now {
            return self.at(frozen - self.now, Ev::Timer(id));
        }
        self.eps[id].timer = None;
        self.eps[id].conn.handle_timeout(now);
        self.drive(id);
        let due = self.eps[id].conn.poll_timeout();
        assert!(
            due.is_none_or(|t| t > now),
            "a timer that has gone off is still due"
        );
    }

    /// Frees what belongs to a connection once nothing refers to it.
    pub(super) fn reap(&mut self, id: EpId) {
        let ep = &mut self.eps[id];
        let idle = !ep.is_busy() && !ep.running && ep.lnet_pending == 0;
        if ep.gone || !ep.drained || !idle || !ep.conn.is_released() {
            return;
        }
        let left = ep.conn.look();
        assert_eq!(
            (left.ops, left.rx_held, left.rx_posted, left.sq_used),
            (0, 0, 0, 0),
            "something is left: {left:?}"
        );
        ep.gone = true;
        for slot in std::mem::take(&mut ep.slots) {
            self.nodes[ep.node].memory.free(slot);
        }
    }
}

/// What holds at an end of a connection at every moment.
fn check_snapshot(ep: &Ep) {
    let s = ep.conn.look();
    let depth = s.queue_depth;
    let granted = s.granted.unwrap_or(0);
    assert!(s.credits <= depth && s.outstanding <= depth, "{s:?}");
    assert!(s.reserved <= depth && granted <= depth, "{s:?}");
    assert!(granted + s.outstanding <= depth, "{s:?}");
    assert!(s.sends <= s.concurrent_sends, "{s:?}");
    assert!(s.noops <= 2 || ep.limits.version == Version::V1, "{s:?}");
    assert!(s.sq_used < s.sq_wrs, "{s:?}");
    assert_eq!(s.wrong, 0, "{s:?}");
}

fn brief(action: &Action<Tx>) -> String {
    match action {
        Action::Finish { tx, done } => format!("Finish {} {done:?}", tx.msg),
        Action::FinishAfterDrain { tx, done } => format!("FinishAfterDrain {} {done:?}", tx.msg),
        Action::Deliver { hdr, kind, .. } => format!("Deliver {} {kind:?}", id_of(hdr)),
        other => format!("{other:?}"),
    }
}
