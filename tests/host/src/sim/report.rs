// SPDX-License-Identifier: GPL-2.0

//! What runs have seen.

/// What a run has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Messages that engines accepted.
    pub accepted: u64,
    /// Those that ended well.
    pub good: u64,
    /// Connections made.
    pub conns: u64,
    /// Connections that ended by the drain's deadline or because sentinels could not be posted.
    pub forced: u64,
    /// Faults injected.
    pub faults: u64,
    /// Messages that arrived before their connection was established.
    pub early: u64,
    /// Chains of WRITEs that did not fit the send queue at once.
    pub split: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Attempts to connect that peers made.
    pub attempts: u64,
    /// Those of them that were retries.
    pub retries: u64,
    /// Connection requests that were rejected because of a race.
    pub races: u64,
    /// Times a peer was found restarted.
    pub stale: u64,
    /// Messages that came back from a connection and were given to another.
    pub came_back: u64,
    /// Nodes.
    pub nodes: u64,
    /// Connections of version 1 that were established.
    pub v1: u64,
    /// Messages that arrived in the other byte order.
    pub swapped: u64,
    /// Nodes that rebooted or lost their device.
    pub reboots: u64,
    /// NOOPs sent.
    pub noops: u64,
    /// Lines that drivers would have logged.
    pub lines: u64,
    /// Connections of our engine with the model of the C driver that were established.
    pub c_conns: u64,
    /// Those of them in version 1.
    pub c_v1: u64,
    /// Messages that our engine and the model got from each other.
    pub c_msgs: u64,
    /// Sinks that the model described by more than one fragment.
    pub c_cut: u64,
    /// Transfers that the model could not do.
    pub c_declined: u64,
    /// NOOPs of the model for no other reason than to be heard of.
    pub c_keepalives: u64,
}

impl std::ops::AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.good += other.good;
        self.conns += other.conns;
        self.forced += other.forced;
        self.faults += other.faults;
        self.early += other.early;
        self.split += other.split;
        self.events += other.events;
        self.attempts += other.attempts;
        self.retries += other.retries;
        self.races += other.races;
        self.stale += other.stale;
        self.came_back += other.came_back;
        self.nodes += other.nodes;
        self.v1 += other.v1;
        self.swapped += other.swapped;
        self.reboots += other.reboots;
        self.noops += other.noops;
        self.lines += other.lines;
        self.c_conns += other.c_conns;
        self.c_v1 += other.c_v1;
        self.c_msgs += other.c_msgs;
        self.c_cut += other.c_cut;
        self.c_declined += other.c_declined;
        self.c_keepalives += other.c_keepalives;
    }
}
