// SPDX-License-Identifier: GPL-2.0

//! Credits and send queues as section 12 of the protocol describes them.

use std::collections::VecDeque;

use super::TxId;
use crate::wire::Version;

/// NOOPs of version 2 that need no credit.
const OOB: u16 = 2;
/// Owed credits at which version 1 sends a NOOP.
const V1_HIGH_WATER: u16 = 7;

/// What stands in a send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Noop,
    Tx(TxId),
}

/// The counters of one end of a connection, and what waits to be posted.
#[derive(Debug)]
pub(super) struct Flow {
    version: Version,
    pub(super) depth: u16,
    pub(super) hiw: u16,
    pub(super) concurrent: u16,
    pub(super) credits: u16,
    pub(super) outstanding: u16,
    pub(super) reserved: u16,
    /// SENDs that have not completed, and the NOOPs among them.
    pub(super) posted: u16,
    pub(super) noops: u16,
    rsrvd: VecDeque<TxId>,
    credit: VecDeque<TxId>,
    nocred: VecDeque<Entry>,
    /// Whether a NOOP of version 1, which has a queue of its own, waits.
    noop: bool,
}

/// How many SENDs may be posted: `concurrent_sends`, which version 1 clamps.
pub(super) fn concurrent_sends(version: Version, depth: u16, tunable: u16) -> u16 {
    let wanted = if tunable == 0 { depth } else { tunable };
    match version {
        Version::V1 => wanted.clamp(4, 16),
        Version::V2 => wanted.max(1),
    }
}

impl Flow {
    /// `hiw` and `peer_credits` are the net's, `depth` is what the connection has agreed on.
    pub(super) fn new(
        version: Version,
        depth: u16,
        (hiw, peer_credits): (u16, u16),
        concurrent: u16,
    ) -> Self {
        let hiw = match version {
            // A depth of 8 goes with it. The mark would never be reached on a queue that memory
            // was too short for.
            Version::V1 => V1_HIGH_WATER.min(depth - 1),
            Version::V2 => (u32::from(depth) * u32::from(hiw) / u32::from(peer_credits)) as u16,
        };
        Self {
            version,
            depth,
            hiw: hiw.max(1),
            concurrent,
            credits: depth,
            outstanding: 0,
            reserved: depth,
            posted: 0,
            noops: 0,
            rsrvd: VecDeque::new(),
            credit: VecDeque::new(),
            nocred: VecDeque::new(),
            noop: false,
        }
    }

    /// A PUT_REQ or GET_REQ, for whose answer a buffer has to be set aside.
    pub(super) fn queue_request(&mut self, tx: TxId) {
        self.rsrvd.push_back(tx);
    }

    pub(super) fn queue_immediate(&mut self, tx: TxId) {
        self.credit.push_back(tx);
    }

    /// An answer or a DONE.
    pub(super) fn queue_reply(&mut self, tx: TxId) {
        self.nocred.push_back(Entry::Tx(tx));
    }

    pub(super) fn clear(&mut self) {
        self.rsrvd.clear();
        self.credit.clear();
        self.nocred.clear();
        self.noop = false;
    }

    /// Takes what the other side gives back. `false` when that is more than it can owe.
    pub(super) fn give(&mut self, credits: u8) -> bool {
        self.credits += u16::from(credits);
        self.credits <= self.depth
    }

    /// The test of section 12.3.
    fn needs_noop(&self, keepalive: bool) -> bool {
        if self.outstanding < self.hiw && !keepalive {
            return false;
        }
        if !self.nocred.is_empty() {
            return false;
        }
        let last = self.credits == 1;
        match self.version {
            Version::V2 => self.credit.is_empty() || self.credits == 0,
            Version::V1 if self.noop || self.credits == 0 => false,
            Version::V1 if last && self.outstanding == 0 => false,
            Version::V1 => self.credit.is_empty() || last,
        }
    }

    /// Moves requests on as long as there are buffers for their answers.
    fn promote(&mut self) {
        while self.reserved > 0 {
            let Some(tx) = self.rsrvd.pop_front() else {
                break;
            };
            self.reserved -= 1;
            self.credit.push_back(tx);
        }
    }

    /// What is first in line, and whether it uses a credit.
    fn front(&self) -> Option<(Entry, bool)> {
        if let Some(&entry) = self.nocred.front() {
            return Some((entry, false));
        }
        if self.noop {
            return Some((Entry::Noop, true));
        }
        self.credit.front().map(|&tx| (Entry::Tx(tx), true))
    }

    fn pop(&mut self) {
        if self.nocred.pop_front().is_none() && !std::mem::take(&mut self.noop) {
            self.credit.pop_front();
        }
    }

    fn may_post(&self, entry: Entry, uses_credit: bool) -> bool {
        let kept = u16::from(self.version == Version::V1 && entry != Entry::Noop);
        self.posted < self.concurrent && (!uses_credit || self.credits > kept)
    }

    /// What is posted next, if anything may be, and the credits that it carries.
    pub(super) fn next(&mut self, keepalive: bool) -> Option<(Entry, u8)> {
        self.promote();
        if self.needs_noop(keepalive) {
            match self.version {
                Version::V1 => self.noop = true,
                Version::V2 => self.nocred.push_back(Entry::Noop),
            }
        }
        while let Some((entry, uses_credit)) = self.front() {
            if !self.may_post(entry, uses_credit) {
                return None;
            }
            self.pop();
            let noop = entry == Entry::Noop;
            let enough = self.version == Version::V2 && self.noops == OOB;
            // A NOOP may have become needless while it waited.
            if noop && (enough || !self.needs_noop(keepalive)) {
                continue;
            }
            self.credits -= u16::from(uses_credit);
            self.posted += 1;
            self.noops += u16::from(noop);
            return Some((entry, std::mem::take(&mut self.outstanding) as u8));
        }
        None
    }

    /// A SEND is over.
    pub(super) fn completed(&mut self, entry: Entry) {
        self.posted -= 1;
        self.noops -= u16::from(entry == Entry::Noop);
    }
}
