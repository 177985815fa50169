// SPDX-License-Identifier: GPL-2.0

//! Properties over random messages. Every case has its own seed, which a failure prints; run one
//! alone with `WIRE_SEED=<seed>`.

use crate::samples::{assert_message, emitted, offset, set_u32, with_out};
use ko2iblnd_host::{
    prng::Prng,
    wire::{
        emit, Body, BodyOut, Completion, ConnParams, Cookie, DescOut, Endian, Frag, Header,
        LnetHdr, LnetMsgType, Message, MsgType, Nid, Probe, Reject, RejectReason, Stamp, Version,
        MAX_FRAGS, MAX_IMMEDIATE, MSG_SIZE,
    },
};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

/// Runs `property` for `count` seeds.
fn for_seeds(count: u64, property: impl Fn(&mut Prng)) {
    let only = std::env::var("WIRE_SEED")
        .ok()
        .and_then(|seed| seed.parse::<u64>().ok());
    for seed in only.map_or(0..count, |seed| seed..seed + 1) {
        let case = AssertUnwindSafe(|| property(&mut Prng::new(seed)));
        if let Err(panic) = catch_unwind(case) {
            eprintln!("failed with WIRE_SEED={seed}");
            resume_unwind(panic);
        }
    }
}

/// What a random message borrows.
struct Material {
    payload: Vec<u8>,
    frags: Vec<Frag>,
}

/// A number that is often an extreme one.
fn number(prng: &mut Prng) -> u64 {
    match prng.below(4) {
        0 => 0,
        1 => u64::MAX,
        2 => 1 << prng.below(64),
        _ => prng.next_u64(),
    }
}

fn endian(prng: &mut Prng) -> Endian {
    if prng.chance(1, 2) {
        Endian::Little
    } else {
        Endian::Big
    }
}

impl Material {
    fn random(prng: &mut Prng) -> Self {
        let len = match prng.below(4) {
            0 => 0,
            1 => MAX_IMMEDIATE,
            _ => prng.index(MAX_IMMEDIATE + 1),
        };
        let mut payload = vec![0; len];
        prng.fill(&mut payload);
        let count = match prng.below(4) {
            0 => 1,
            1 => u64::from(MAX_FRAGS),
            _ => prng.range(1, u64::from(MAX_FRAGS)),
        };
        let largest = u64::from(u32::MAX) / count;
        let frags = (0..count)
            .map(|_| Frag {
                addr: number(prng),
                nob: prng.range(0, largest) as u32,
            })
            .collect();
        Self { payload, frags }
    }

    /// A random legal body of type `kind`.
    fn body(&self, kind: MsgType, prng: &mut Prng) -> BodyOut<'_> {
        let params = ConnParams {
            queue_depth: number(prng) as u16,
            max_frags: number(prng) as u16,
            max_msg_size: number(prng) as u32,
        };
        let completion = Completion {
            cookie: Cookie(number(prng)),
            status: number(prng) as i32,
        };
        let desc = DescOut {
            key: number(prng) as u32,
            frags: &self.frags,
        };
        let hdr = lnet_hdr(prng);
        let cookie = Cookie(number(prng));
        match kind {
            MsgType::ConnReq => BodyOut::ConnReq(params),
            MsgType::ConnAck => BodyOut::ConnAck(params),
            MsgType::Noop => BodyOut::Noop,
            MsgType::Immediate => BodyOut::Immediate {
                hdr: LnetHdr {
                    payload_len: self.payload.len() as u32,
                    ..hdr
                },
                payload: &self.payload,
            },
            MsgType::PutReq => BodyOut::PutReq { hdr, cookie },
            MsgType::PutNak => BodyOut::PutNak(completion),
            MsgType::PutAck => BodyOut::PutAck {
                src_cookie: completion.cookie,
                dst_cookie: cookie,
                desc,
            },
            MsgType::PutDone => BodyOut::PutDone(completion),
            MsgType::GetReq => BodyOut::GetReq { hdr, cookie, desc },
            MsgType::GetDone => BodyOut::GetDone(completion),
        }
    }
}

fn lnet_hdr(prng: &mut Prng) -> LnetHdr {
    let mut msg = [0; 40];
    prng.fill(&mut msg);
    LnetHdr {
        dest_nid: Nid(number(prng)),
        src_nid: Nid(number(prng)),
        dest_pid: number(prng) as u32,
        src_pid: number(prng) as u32,
        kind: LnetMsgType::from_wire(prng.below(6) as u32),
        payload_len: number(prng) as u32,
        msg,
    }
}

fn header(prng: &mut Prng) -> Header {
    Header {
        version: [Version::V1, Version::V2][prng.index(2)],
        credits: number(prng) as u8,
        src: Nid(number(prng) & !1),
        src_stamp: Stamp(number(prng)),
        dst: Nid(number(prng)),
        dst_stamp: Stamp(number(prng)),
    }
}

/// A random legal message: `f` gets its bytes and what it was made of.
fn with_message<R>(
    prng: &mut Prng,
    f: impl FnOnce(&mut Prng, Vec<u8>, &Header, &BodyOut<'_>, Endian) -> R,
) -> R {
    let material = Material::random(prng);
    let kind = MsgType::ALL[prng.index(MsgType::ALL.len())];
    let body = material.body(kind, prng);
    let hdr = header(prng);
    let endian = endian(prng);
    let checksum = prng.chance(1, 2);
    let bytes = emitted(&hdr, &body, checksum, endian);
    f(prng, bytes, &hdr, &body, endian)
}

/// Whatever parses can be emitted, and what is emitted parses to the same: it is stable.
pub(crate) fn assert_stable(bytes: &[u8]) {
    let Ok(msg) = Message::parse(bytes) else {
        return;
    };
    let endian = if msg.swapped {
        Endian::NATIVE.opposite()
    } else {
        Endian::NATIVE
    };
    let mut buf = vec![0; bytes.len()];
    with_out(&msg.body, |out| {
        let nob = emit(&msg.hdr, out, true, endian, &mut buf).expect("a legal message");
        assert!(nob <= msg.nob as usize);
        let again = Message::parse(&buf[..nob]).expect("a legal message");
        assert_message(&again, &msg.hdr, out, endian);
        assert_eq!(again.body, msg.body);
    });
    if let Body::PutAck { desc, .. } | Body::GetReq { desc, .. } = msg.body {
        assert_eq!(desc.desc().view(bytes), Some(desc));
        let sum: u64 = desc.frags().map(|frag| u64::from(frag.nob)).sum();
        assert_eq!(u64::from(desc.desc().total()), sum);
        let nfrags = usize::from(desc.desc().nfrags());
        assert_eq!(desc.frags().len(), nfrags);
        assert_eq!(desc.frags().count(), nfrags);
    }
}

#[test]
fn round_trip() {
    for_seeds(20_000, |prng| {
        with_message(prng, |_, bytes, hdr, body, endian| {
            let msg = Message::parse(&bytes).expect("a legal message");
            assert_message(&msg, hdr, body, endian);
            assert_eq!(msg.nob as usize, bytes.len());
            assert_stable(&bytes);
        });
    });
}

/// Cut anywhere, a message is rejected.
#[test]
fn truncation() {
    for_seeds(2_000, |prng| {
        with_message(prng, |prng, bytes, _, _, endian| {
            for _ in 0..20 {
                let len = prng.index(bytes.len());
                assert!(Message::parse(&bytes[..len]).is_err());
                // Even if it owns up to it, unless what is left is a whole shorter message.
                let mut cut = bytes[..len].to_vec();
                if len >= 48 {
                    set_u32(&mut cut, offset::NOB, len as u32, endian);
                    set_u32(&mut cut, offset::CKSUM, 0, endian);
                    let is_noop = bytes[offset::TYPE] == MsgType::Noop.to_wire();
                    assert!(is_noop || Message::parse(&cut).is_err());
                }
            }
        });
    });
}

/// What lies behind nob has no influence at all.
#[test]
fn nothing_is_read_behind_nob() {
    for_seeds(5_000, |prng| {
        with_message(prng, |prng, mut bytes, _, _, _| {
            let nob = bytes.len();
            // Damaged or not, the verdict must not depend on what follows.
            for _ in 0..prng.below(3) {
                let at = (0..nob)
                    .filter(|at| !(offset::NOB..offset::CKSUM).contains(at))
                    .nth(prng.index(nob - 4))
                    .expect("an offset outside the nob field");
                bytes[at] ^= 1 << prng.below(8);
            }
            let mut padded = bytes.clone();
            padded.resize(MSG_SIZE, 0);
            prng.fill(&mut padded[nob..]);
            assert_eq!(Message::parse(&padded), Message::parse(&bytes));
        });
    });
}

/// Random damage is either rejected or leaves a message that is legal; nothing panics.
#[test]
fn bit_flips() {
    for_seeds(50_000, |prng| {
        with_message(prng, |prng, mut bytes, _, _, _| {
            bytes.resize(MSG_SIZE, 0x5a);
            for _ in 0..prng.range(1, 8) {
                // Most of it where the decisions are made.
                let at = match prng.below(3) {
                    0 => prng.index(48),
                    1 => prng.index(148),
                    _ => prng.index(MSG_SIZE),
                };
                bytes[at] ^= 1 << prng.below(8);
            }
            if prng.chance(1, 2) {
                bytes[offset::CKSUM..offset::CKSUM + 4].fill(0);
            }
            assert_stable(&bytes);
            let _ = Probe::new(&bytes);
            let _ = Reject::parse(&bytes);
        });
    });
}

/// A checksum finds every single flipped bit of what it covers.
#[test]
fn checksum_finds_flipped_bits() {
    for_seeds(2_000, |prng| {
        let material = Material::random(prng);
        let kind = MsgType::ALL[prng.index(MsgType::ALL.len())];
        let body = material.body(kind, prng);
        let bytes = emitted(&header(prng), &body, true, endian(prng));
        for _ in 0..20 {
            let mut damaged = bytes.clone();
            damaged[prng.index(bytes.len())] ^= 1 << prng.below(8);
            assert!(Message::parse(&damaged).is_err());
        }
    });
}

/// Bytes that are random but for a frozen part that is right.
#[test]
fn random_bytes() {
    for_seeds(100_000, |prng| {
        let len = match prng.below(3) {
            0 => prng.index(64),
            1 => prng.index(256),
            _ => prng.index(MSG_SIZE + 1),
        };
        let mut bytes = vec![0; len];
        prng.fill(&mut bytes);
        if prng.chance(7, 8) && len >= 16 {
            let frozen = match endian(prng) {
                Endian::Little => [0x91, 0x1b, 0xe9, 0x0b, 0x12, 0],
                Endian::Big => [0x0b, 0xe9, 0x1b, 0x91, 0, 0x12],
            };
            bytes[..6].copy_from_slice(&frozen);
            bytes[offset::TYPE] = MsgType::ALL[prng.index(MsgType::ALL.len())].to_wire();
            bytes[offset::NOB..offset::SRCNID].fill(0);
            let order = if bytes[0] == 0x91 {
                Endian::Little
            } else {
                Endian::Big
            };
            set_u32(&mut bytes, offset::NOB, len as u32, order);
            if len >= 136 && prng.chance(1, 2) {
                let nfrags = prng.below(300) as u32;
                set_u32(&mut bytes, offset::PUT_ACK_NFRAGS, nfrags, order);
                set_u32(&mut bytes, offset::GET_REQ_NFRAGS, nfrags, order);
            }
        }
        assert_stable(&bytes);
        let _ = Probe::new(&bytes);
        let _ = Reject::parse(&bytes);
    });
}

#[test]
fn reject_round_trip() {
    for_seeds(5_000, |prng| {
        let reject = Reject {
            version: prng.range(0x12, 0xffff) as u16,
            why: RejectReason::from_wire(prng.next_u32() as u8),
            stamp: Stamp(number(prng)),
            params: Some(ConnParams {
                queue_depth: number(prng) as u16,
                max_frags: number(prng) as u16,
                max_msg_size: number(prng) as u32,
            }),
        };
        let mut buf = [0xa5; 148];
        assert_eq!(reject.emit(endian(prng), &mut buf), Ok(24));
        assert_eq!(Reject::parse(&buf), Ok(reject));
        assert_eq!(Reject::parse(&buf[..24]), Ok(reject));
    });
}
