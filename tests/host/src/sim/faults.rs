// SPDX-License-Identifier: GPL-2.0

//! What breaks.

use super::world::{EpId, Ev, World};
use crate::proto::Cause;

/// The faults, by number.
const FAULTS: [&str; 11] = [
    "connection closed",
    "QP goes to the error state",
    "CM says disconnected",
    "network cut",
    "node hangs",
    "QP never flushes",
    "QP destroyed",
    "QP reported in the error state",
    "NI restarted",
    "node reboots",
    "device vanishes",
];

impl World {
    pub(super) fn fault(&mut self) {
        if !self.faults {
            return;
        }
        let gap = self.jitter(self.cfg.fault_gap);
        self.at(gap, Ev::Fault);
        let open: Vec<EpId> = (0..self.eps.len())
            .filter(|&i| self.eps[i].conn.cause().is_none())
            .collect();
        let kind = self.fault_prng.index(if self.cfg.peers { 11 } else { 8 });
        let which = self.fault_prng.next_u64() as usize;
        let timeout = self.cfg.timeout.0;
        let span = self.fault_prng.range(1, 3 * timeout / 2);
        let number = self.report.faults;
        self.report.faults += 1;
        if open.is_empty() || self.options.skip_faults.contains(&number) {
            return;
        }
        let id = open[which % open.len()];
        let node = which % self.nodes.len();
        if self.verbose {
            let victim = match kind {
                0..=2 | 5..=7 => self.name(id),
                _ => format!("node {node}"),
            };
            self.say(&format!("FAULT f{number}: {} ({victim})", FAULTS[kind]));
        }
        let now = self.instant();
        match kind {
            0 => self.eps[id].conn.close(now, Cause::Deleted),
            1 => self.eps[id].qp.fail_all(),
            2 => self.eps[id].conn.handle_disconnected(now),
            3 => self.cut_until = self.now + span,
            4 => {
                // What was put off until then does not come earlier when it hangs once more.
                let slack = self.catch_up();
                let node = &mut self.nodes[node];
                node.frozen_until = node.frozen_until.max(self.now + span);
                node.late_until = node.frozen_until + slack;
            }
            5 => {
                self.eps[id].qp.hung = true;
                self.eps[id].conn.close(now, Cause::DeviceGone);
            }
            6 => {
                self.eps[id].qp.destroy();
                self.eps[id].conn.handle_qp_destroyed(now);
            }
            7 => self.eps[id].conn.handle_qp_error_state(now),
            8 => self.restart(node),
            9 => self.reboot(node),
            _ => self.lose_device(node, span / 4),
        }
        self.drive(id);
    }

    /// The time in which a node that hung sees to what has come meanwhile.
    pub(super) fn catch_up(&self) -> u64 {
        let cfg = &self.cfg;
        100 * (cfg.latency + cfg.cq_delay + cfg.action_delay)
    }
}
