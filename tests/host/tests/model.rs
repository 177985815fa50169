// SPDX-License-Identifier: GPL-2.0

//! The Promela models in `spin/` and the engine have the same parameters.
//!
//! `spin/params.pml` is read, its macros are evaluated here, and compared with the constants of
//! `wire` and `proto` or, where the engine has no name for something, with what it does.

use ko2iblnd_host::lnet_msg::{LnetPut, WireMd};
use ko2iblnd_host::proto::conn::{Conn, Post, Role, Submit};
use ko2iblnd_host::proto::peer::MAX_RACES;
use ko2iblnd_host::proto::{limits, DeviceCaps, Instant, LimitError, Limits, NiTunables, Span};
use ko2iblnd_host::sim::Heap;
use ko2iblnd_host::wire::{
    ConnParams, Identity, LnetHdr, LnetMsgType, Nid, Stamp, Version, MAX_FRAGS,
    V1_CREDIT_HIGH_WATER, V1_QUEUE_DEPTH,
};
use std::collections::HashMap;

/// A macro: names of its arguments, and its body.
type Macro = (Vec<String>, String);

struct Params(HashMap<String, Macro>);

impl Params {
    fn read() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/spin/params.pml");
        let text = std::fs::read_to_string(path).unwrap();
        let mut macros = HashMap::new();
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("#define ") else {
                continue;
            };
            let end = rest.find([' ', '(']).unwrap();
            let (name, rest) = rest.split_at(end);
            let (args, body) = match rest.strip_prefix('(') {
                Some(rest) => {
                    let (args, body) = rest.split_once(')').unwrap();
                    (args.split(", ").map(str::to_owned).collect(), body)
                }
                None => (Vec::new(), rest),
            };
            macros.insert(name.to_owned(), (args, body.trim().to_owned()));
        }
        Self(macros)
    }

    fn value(&self, name: &str) -> i64 {
        self.call(name, &[])
    }

    fn call(&self, name: &str, given: &[i64]) -> i64 {
        let (args, body) = &self.0[name];
        assert_eq!(args.len(), given.len(), "{name}");
        let locals = args.iter().cloned().zip(given.iter().copied()).collect();
        let mut eval = Eval {
            params: self,
            locals,
            rest: body,
        };
        let value = eval.choice();
        assert_eq!(eval.rest, "", "{name}");
        value
    }
}

/// Expressions of Promela: `+ - * /`, `< >`, `(c -> a : b)`, numbers, names, macros.
struct Eval<'a> {
    params: &'a Params,
    locals: HashMap<String, i64>,
    rest: &'a str,
}

impl Eval<'_> {
    fn eat(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        let found = rest.strip_prefix(token);
        // The arrow is no minus.
        let found = found.filter(|rest| token != "-" || !rest.starts_with('>'));
        self.rest = found.unwrap_or(rest);
        found.is_some()
    }

    fn choice(&mut self) -> i64 {
        let cond = self.compare();
        if !self.eat("->") {
            return cond;
        }
        let yes = self.compare();
        assert!(self.eat(":"), "{}", self.rest);
        let no = self.compare();
        if cond != 0 {
            yes
        } else {
            no
        }
    }

    fn compare(&mut self) -> i64 {
        let left = self.sum();
        if self.eat("<") {
            i64::from(left < self.sum())
        } else if self.eat(">") {
            i64::from(left > self.sum())
        } else {
            left
        }
    }

    fn sum(&mut self) -> i64 {
        let mut value = self.product();
        loop {
            if self.eat("+") {
                value += self.product();
            } else if self.eat("-") {
                value -= self.product();
            } else {
                return value;
            }
        }
    }

    fn product(&mut self) -> i64 {
        let mut value = self.atom();
        loop {
            if self.eat("*") {
                value *= self.atom();
            } else if self.eat("/") {
                value /= self.atom();
            } else {
                return value;
            }
        }
    }

    fn atom(&mut self) -> i64 {
        if self.eat("(") {
            let value = self.choice();
            assert!(self.eat(")"), "{}", self.rest);
            return value;
        }
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        if let Ok(number) = word.parse() {
            return number;
        }
        if let Some(&value) = self.locals.get(word) {
            return value;
        }
        let mut given = Vec::new();
        if self.eat("(") {
            given.push(self.choice());
            while self.eat(",") {
                given.push(self.choice());
            }
            assert!(self.eat(")"), "{}", self.rest);
        }
        self.params.call(word, &given)
    }
}

const CAPS: DeviceCaps = DeviceCaps {
    max_qp_wr: 1 << 20,
    max_cqe: 32767,
    max_send_sge: 32,
    max_mr_pages: 512,
};

fn tunables(peer_credits: u16, credits_hiw: u16) -> NiTunables {
    NiTunables {
        peer_credits,
        credits_hiw,
        concurrent_sends: 0,
        max_frags: 257,
        wrq_sge: 2,
        timeout: Span::from_secs(50),
        connect_timeout: Span::from_secs(13),
        keepalive: None,
        conns_per_peer: 1,
        cksum: false,
    }
}

fn limits_of(version: Version, peer_credits: u16, credits_hiw: u16) -> Limits {
    Limits::new(&tunables(peer_credits, credits_hiw), &CAPS, version, None).unwrap()
}

/// `limits` with a depth that the peer chose, if it may choose that.
fn agreed(limits: &Limits, queue_depth: u16) -> Result<Limits, LimitError> {
    limits.negotiated(ConnParams {
        queue_depth,
        max_frags: 1,
        max_msg_size: 4096,
    })
}

#[test]
fn constants_are_those_of_the_engine() {
    let params = Params::read();
    let same = |name: &str, value: i64| assert_eq!(params.value(name), value, "{name}");
    same("OOB_V1", Version::V1.oob().into());
    same("OOB_V2", Version::V2.oob().into());
    same("V1_HIW", V1_CREDIT_HIGH_WATER.into());
    same("V1_DEPTH", V1_QUEUE_DEPTH.into());
    same("MAX_DEPTH", limits::MAX_QUEUE_DEPTH.into());
    same("MAX_FRAGS", MAX_FRAGS.into());
    same("MAX_RACES", MAX_RACES.into());
}

#[test]
fn receive_buffers_are_those_of_the_engine() {
    let params = Params::read();
    for depth in 1..=255 {
        let limits = limits_of(Version::V2, depth, 1);
        let oob = params.value("OOB_V2");
        let slots = params.call("RX_SLOTS", &[depth.into(), oob]);
        assert_eq!(slots, i64::from(limits.rx_slots));
    }
    let limits = limits_of(Version::V1, 8, 4);
    let depth = params.value("V1_DEPTH");
    let slots = params.call("RX_SLOTS", &[depth, params.value("OOB_V1")]);
    assert_eq!(slots, i64::from(limits.rx_slots));
}

#[test]
fn shallowest_queues_are_those_of_the_engine() {
    let params = Params::read();
    for (version, name) in [(Version::V1, "MIN_DEPTH_V1"), (Version::V2, "MIN_DEPTH_V2")] {
        let least = (1..=8).find(|&depth| agreed(&limits_of(version, 8, 4), depth).is_ok());
        assert_eq!(least.map(i64::from), Some(params.value(name)), "{name}");
    }
}

#[test]
fn high_water_marks_are_those_of_the_engine() {
    let params = Params::read();
    for peer_credits in [8, 9, 16, 63, 128, 255] {
        for credits_hiw in (1..peer_credits).step_by(3) {
            let own = limits_of(Version::V2, peer_credits, credits_hiw);
            for depth in 1..=peer_credits {
                let args = [depth, credits_hiw, peer_credits].map(i64::from);
                let hiw = agreed(&own, depth).unwrap().hiw;
                assert_eq!(params.call("HIW_V2", &args), hiw.into(), "{args:?}");
            }
        }
    }
    for depth in 3..=8 {
        let hiw = agreed(&limits_of(Version::V1, 8, 4), depth).unwrap().hiw;
        let model = params.call("HIW_V1", &[depth.into()]);
        assert_eq!(model, hiw.into(), "depth {depth}");
    }
}

/// The engine posts as many messages as it has credits, but those it keeps.
#[test]
fn kept_credits_are_those_of_the_engine() {
    let params = Params::read();
    for (version, name) in [(Version::V1, "KEPT_V1"), (Version::V2, "KEPT_V2")] {
        let sent = sent_without_an_answer(version);
        assert_eq!(8 - sent, params.value(name), "{name}");
    }
}

/// SENDs of an engine of depth 8 that has ten messages and hears nothing.
fn sent_without_an_answer(version: Version) -> i64 {
    let local = Nid::o2ib(0, 1);
    let peer = Nid::o2ib(0, 2);
    let ident = Identity {
        peer,
        peer_stamp: Stamp(2),
        local,
        local_stamp: Stamp(1),
    };
    let put = LnetPut {
        ack_md: WireMd::NONE,
        match_bits: 1,
        hdr_data: 0,
        ptl_index: 4,
        offset: 0,
    };
    let hdr = LnetHdr {
        dest_nid: peer,
        src_nid: local,
        dest_pid: 1,
        src_pid: 1,
        kind: LnetMsgType::Put,
        payload_len: 0,
        msg: put.to_union(),
    };
    let now = Instant(1_000_000_000);
    let tunables = NiTunables {
        concurrent_sends: 16,
        ..tunables(8, 4)
    };
    let limits = Limits::new(&tunables, &CAPS, version, None).unwrap();
    let Ok(mut conn) = Conn::new(&mut Heap, Role::Passive, ident, limits, &tunables, now);
    let mut sends = 0;
    let mut pump = |conn: &mut Conn<Heap, u32>| {
        while let Some(post) = conn.poll_post(now) {
            sends += i64::from(matches!(post, Post::Send { .. }));
            conn.posted(now, Ok(()));
        }
    };
    pump(&mut conn);
    conn.handle_established(now, None);
    for tx in 0..10 {
        conn.submit(now, tx, Submit::Immediate { hdr, payload: 0 })
            .unwrap();
        pump(&mut conn);
    }
    sends
}
