// SPDX-License-Identifier: GPL-2.0

//! What one seed decides before anything happens.

use super::options::Options;
use crate::driver::handshake::Encoding;
use crate::prng::Prng;
use crate::proto::peer::TieBreak;
use crate::proto::{DeviceCaps, Limits, NiTunables, Span};
use crate::wire::{Endian, Version};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// One node.
#[derive(Clone, Debug)]
pub(super) struct NodeConfig {
    pub(super) depth: u16,
    hiw: u16,
    sends: u16,
    pub(super) frags: u16,
    sge: u16,
    keepalive: Option<Span>,
    pub(super) cksum: bool,
    pub(super) conns: u8,
    /// The newest version that it speaks.
    pub(super) version: Version,
    pub(super) endian: Endian,
    pub(super) tie_break: TieBreak,
    /// At its ends of connections is the model of the C driver: see [`super::cdriver`].
    pub(super) reference: bool,
    small_sq: bool,
}

/// All of them, and the ways between them.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) nodes: Vec<NodeConfig>,
    /// Version of connections that come out of nothing.
    pub(super) version: Version,
    pub(super) timeout: Span,
    /// Connections that come out of nothing.
    pub(super) conns: usize,
    /// Two completion queues.
    pub(super) two_cqs: bool,
    pub(super) latency: u64,
    pub(super) cq_delay: u64,
    pub(super) lnet_delay: u64,
    pub(super) action_delay: u64,
    pub(super) submit_gap: u64,
    pub(super) safety: u64,
    pub(super) fault_gap: u64,
    pub(super) post_fault: u64,
    /// Rounds of messages that have to arrive in the end.
    pub(super) rounds: u64,
    pub(super) max_len: u32,
    /// With peers, attempts and a CM; else connections come out of nothing.
    pub(super) peers: bool,
}

fn pick(prng: &mut Prng, from: &[u64]) -> u64 {
    from[prng.index(from.len())]
}

impl NodeConfig {
    /// How it puts messages on the wire.
    pub(super) fn encoding(&self) -> Encoding {
        Encoding {
            cksum: self.cksum,
            endian: self.endian,
        }
    }

    fn new(prng: &mut Prng, timeout: u64, large: bool, peers: bool) -> Self {
        let depths: &[u64] = match large {
            true => &[1, 2, 3, 8, 8, 16, 32],
            false => &[1, 2, 3, 4, 8],
        };
        let depth = pick(prng, depths) as u16;
        let frags = pick(prng, &[2, 16, 17, 256, 257]) as u16;
        let reference = prng.chance(1, 4);
        Self {
            depth,
            hiw: prng.range(1, u64::from(depth)) as u16,
            sends: prng.range(0, 2 * u64::from(depth)) as u16,
            frags: if reference { frags.max(17) } else { frags },
            sge: pick(prng, &[2, 3, 30, 32]) as u16,
            keepalive: prng.chance(1, 2).then_some(Span(timeout / 3)),
            cksum: prng.chance(1, 2),
            conns: pick(prng, &[1, 1, 2, 4]) as u8,
            version: match reference && peers && prng.chance(1, 3) {
                true => Version::V1,
                false => Version::V2,
            },
            endian: match peers && prng.chance(1, 4) {
                true => Endian::NATIVE.opposite(),
                false => Endian::NATIVE,
            },
            tie_break: match prng.chance(1, 3) {
                true => TieBreak::Numeric,
                false => TieBreak::Hash,
            },
            reference,
            small_sq: prng.chance(1, 3),
        }
    }
}

impl Config {
    pub(super) fn new(prng: &mut Prng, options: &Options) -> Self {
        let large = prng.chance(1, 300);
        let version = match prng.chance(1, 10) {
            true => Version::V1,
            false => Version::V2,
        };
        let peers = version == Version::V2 && prng.chance(2, 3);
        let count = match peers {
            true => pick(prng, &[2, 2, 2, 3, 4, 5]) as usize,
            false => 2,
        };
        let latency = pick(prng, &[1, 5, 50, 500]) * US;
        let cq_delay = pick(prng, &[1, 10, 200, 2000]) * US;
        let action_delay = pick(prng, &[1, 10, 300]) * US;
        // Enough for everything that LNet may have on its way at a time.
        let least = 400 * (latency + cq_delay + action_delay);
        let timeout = (pick(prng, &[50, 200, 1000]) * MS).max(least);
        let safety = timeout / 2 + prng.range(0, timeout);
        let messages = match large {
            true => 200,
            false => pick(prng, &[3, 6, 12]),
        };
        let mut config = Self {
            nodes: Vec::new(),
            version,
            timeout: Span(timeout),
            conns: prng.range(1, 2) as usize,
            two_cqs: prng.chance(1, 2),
            latency,
            cq_delay,
            lnet_delay: pick(prng, &[1, 10, 1000]) * US,
            action_delay,
            submit_gap: (pick(prng, &[5, 50, 500]) * US).max(safety / messages),
            safety,
            fault_gap: pick(prng, &[timeout / 20, timeout / 4, timeout]),
            post_fault: pick(prng, &[0, 0, 5000, 500]),
            rounds: if large { 30 } else { 2 },
            max_len: if large { 40_000 } else { 6_000 },
            peers,
        };
        for _ in 0..count {
            let node = NodeConfig::new(prng, timeout, large, peers);
            config.nodes.push(node);
        }
        if version == Version::V1 {
            for node in &mut config.nodes {
                node.depth = 8;
                node.hiw = 7;
                node.version = Version::V1;
            }
        }
        config.restrict(options);
        config
    }

    /// What the minimiser leaves away.
    fn restrict(&mut self, options: &Options) {
        self.nodes.truncate(options.nodes.max(2));
        for node in &mut self.nodes {
            node.conns = node.conns.min(options.conns);
        }
        if options.no_post_faults {
            self.post_fault = 0;
        }
    }

    pub(super) fn tunables(&self, node: usize) -> NiTunables {
        let it = &self.nodes[node];
        NiTunables {
            peer_credits: it.depth,
            credits_hiw: it.hiw,
            concurrent_sends: it.sends,
            max_frags: it.frags,
            wrq_sge: if it.sge > 3 { 2 } else { 1 },
            timeout: self.timeout,
            connect_timeout: self.timeout.over(2),
            keepalive: it.keepalive,
            conns_per_peer: it.conns,
            cksum: it.cksum,
        }
    }

    pub(super) fn caps(&self, node: usize) -> DeviceCaps {
        let it = &self.nodes[node];
        DeviceCaps {
            // The C driver posts a chain as a whole, and has queues for that.
            max_qp_wr: match it.small_sq && !it.reference {
                true => 80,
                false => 16384,
            },
            max_cqe: 32767,
            max_send_sge: if it.reference { 2 } else { it.sge },
            max_mr_pages: 512,
        }
    }

    /// What `node` makes do with when it is short of memory: the C driver with a queue that is
    /// less deep by one.
    pub(super) fn lowered(&self, node: usize, limits: &Limits) -> Option<Limits> {
        if !self.nodes[node].reference {
            return limits.lowered();
        }
        let propose = Some((limits.queue_depth - 1, limits.max_frags));
        let (tunables, caps) = (self.tunables(node), self.caps(node));
        Limits::new(&tunables, &caps, limits.version, propose).ok()
    }
}
