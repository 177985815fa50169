// SPDX-License-Identifier: GPL-2.0

//! Connection requests: what is refused, in which order, and what the reject says (sections 14.3
//! and 14.4).

use super::common::*;
use ko2iblnd_host::proto::passive::{
    admit,
    screen,
    ConnReq,
    NiInfo,
    Refusal,
    RefuseCause,
    Target, //
};
use ko2iblnd_host::wire::{
    emit,
    BodyOut,
    Completion,
    ConnParams,
    Cookie,
    Endian,
    Header,
    MsgType,
    Nid,
    ParseError,
    Reject,
    RejectReason,
    Stamp,
    Version, //
};

const PORT: u16 = 1023;

fn header(version: Version) -> Header {
    Header {
        version,
        credits: 0,
        src: THEM,
        src_stamp: THEIR_STAMP,
        dst: US,
        dst_stamp: OUR_STAMP,
    }
}

fn params() -> ConnParams {
    ConnParams {
        queue_depth: 8,
        max_frags: 256,
        max_msg_size: 4096,
    }
}

fn bytes(hdr: &Header, body: &BodyOut<'_>) -> Vec<u8> {
    let mut buf = vec![0; 196];
    let len = emit(hdr, body, false, Endian::NATIVE, &mut buf).unwrap();
    buf.truncate(len);
    buf
}

fn request(version: Version, params: ConnParams) -> Vec<u8> {
    bytes(&header(version), &BodyOut::ConnReq(params))
}

/// Both steps, for our NI.
fn ask(private: &[u8]) -> Result<ConnReq, Refusal> {
    admit(&screen(private, PORT, true)?, Target::Ni(&ni()))
}

#[test]
fn a_request_with_the_nid_of_another_node_is_refused() {
    let screened = |src| {
        let hdr = Header {
            src,
            ..header(Version::V2)
        };
        let private = bytes(&hdr, &BodyOut::ConnReq(params()));
        screen(&private, PORT, true).unwrap()
    };
    let from = Some(THEM.addr());
    assert_eq!(screened(THEM).verify_source(from).map(|s| s.dst()), Ok(US));
    let other_addr = Nid::o2ib(THEM.net_num(), THEM.addr() ^ 1);
    let other_net = Nid::o2ib(THEM.net_num() ^ 1, THEM.addr());
    for (src, from) in [(other_addr, from), (other_net, from), (THEM, None)] {
        let refusal = screened(src).verify_source(from).unwrap_err();
        assert_eq!(refusal.reject, nobody(RejectReason::Fatal));
        assert_eq!(refusal.cause, RefuseCause::Forged { src });
    }
}

fn refused(result: Result<ConnReq, Refusal>) -> Refusal {
    result.expect_err("must be refused")
}

/// A reject where no NI was found.
fn nobody(why: RejectReason) -> Reject {
    Reject {
        version: 0x12,
        why,
        stamp: Stamp::UNKNOWN,
        params: Some(ConnParams {
            queue_depth: 0,
            max_frags: 0,
            max_msg_size: 4096,
        }),
    }
}

/// A reject of our NI.
fn ours(version: Version, why: RejectReason) -> Reject {
    Reject {
        version: version.to_wire(),
        why,
        stamp: OUR_STAMP,
        params: Some(ConnParams {
            queue_depth: if version == Version::V1 { 8 } else { 128 },
            max_frags: 257,
            max_msg_size: 4096,
        }),
    }
}

#[test]
fn good_requests() {
    for version in [Version::V1, Version::V2] {
        for dst_stamp in [OUR_STAMP, Stamp::UNKNOWN] {
            let mut hdr = header(version);
            hdr.dst_stamp = dst_stamp;
            let mut private = bytes(&hdr, &BodyOut::ConnReq(params()));
            let expected = ConnReq {
                peer: THEM,
                stamp: THEIR_STAMP,
                version,
                queue_depth: 8,
                max_frags: 256,
            };
            assert_eq!(ask(&private), Ok(expected));
            // As InfiniBand pads it.
            private.resize(92, 0xaa);
            assert_eq!(ask(&private), Ok(expected));
        }
    }
}

/// Steps 1 to 4: FATAL from nobody.
#[test]
fn refused_before_an_ni_is_looked_for() {
    let good = request(Version::V2, params());
    let fatal = nobody(RejectReason::Fatal);
    for (port, required, ok) in [
        (1023, true, true),
        (1024, true, false),
        (65535, true, false),
        (0, true, true),
        (1024, false, true),
    ] {
        let result = screen(&good, port, required);
        assert_eq!(result.is_ok(), ok, "{port}");
        if let Err(refusal) = result {
            assert_eq!(refusal.reject, fatal);
            assert_eq!(refusal.cause, RefuseCause::Port { port });
        }
    }
    let mut wrong = Vec::new();
    for len in 0..good.len() {
        wrong.push(good[..len].to_vec());
    }
    for magic in [0x4572_6963u32, 0x4572_6963u32.swap_bytes(), 0, 0x0be9_1b90] {
        let mut private = good.clone();
        private[..4].copy_from_slice(&magic.to_ne_bytes());
        wrong.push(private);
    }
    for version in [0u16, 0x10, 0x13, 0x1200, u16::MAX] {
        let mut private = good.clone();
        private[4..6].copy_from_slice(&version.to_ne_bytes());
        wrong.push(private);
    }
    // A wrong checksum, an unknown type, a wildcard source.
    for (at, value) in [(12, vec![1]), (6, vec![0xc2]), (16, vec![0xff; 8])] {
        let mut private = good.clone();
        private[at..at + value.len()].copy_from_slice(&value);
        wrong.push(private);
    }
    for private in wrong {
        let refusal = screen(&private, PORT, true).expect_err("must be refused");
        assert_eq!(refusal.reject, fatal, "{private:x?}");
    }
    let mut unified = good.clone();
    unified[..4].copy_from_slice(&0x4572_6963u32.to_ne_bytes());
    let refusal = screen(&unified, PORT, true).unwrap_err();
    assert_eq!(refusal.cause, RefuseCause::UnifiedMagic);
    let refusal = screen(&good[..5], PORT, true).unwrap_err();
    assert_eq!(
        refusal.cause,
        RefuseCause::Parse(ParseError::TooShort { len: 5 })
    );
}

/// Step 5: what the driver found at the NID.
#[test]
fn refused_without_an_ni() {
    let screened = screen(&request(Version::V1, params()), PORT, true).unwrap();
    assert_eq!(screened.dst(), US);
    for (target, reject) in [
        (Target::NotReady, nobody(RejectReason::Early)),
        (Target::Unknown, nobody(RejectReason::Fatal)),
        (
            Target::WrongDevice(&ni()),
            ours(Version::V2, RejectReason::Fatal),
        ),
    ] {
        assert_eq!(
            refused(admit(&screened, target)).reject,
            reject,
            "{target:?}"
        );
    }
}

/// Step 6: version 2 whatever the requester speaks, before anything else is looked at.
#[test]
fn refused_for_a_stale_incarnation() {
    for version in [Version::V1, Version::V2] {
        let mut hdr = header(version);
        hdr.dst_stamp = Stamp(1);
        let zero = ConnParams {
            queue_depth: 0,
            max_frags: 0,
            max_msg_size: u32::MAX,
        };
        for body in [
            BodyOut::ConnReq(params()),
            BodyOut::ConnReq(zero),
            BodyOut::Noop,
        ] {
            let refusal = refused(ask(&bytes(&hdr, &body)));
            assert_eq!(refusal.reject, ours(Version::V2, RejectReason::ConnStale));
        }
    }
}

/// Steps 7 to 10, in order, for both versions; and the lower bounds.
#[test]
fn refused_for_what_it_asks() {
    use RejectReason::*;
    let p = |queue_depth, max_frags, max_msg_size| ConnParams {
        queue_depth,
        max_frags,
        max_msg_size,
    };
    for (params, v1, v2) in [
        (p(129, 257, 4096), Some(Fatal), Some(MsgQueueSize)),
        (p(129, 258, 4097), Some(Fatal), Some(MsgQueueSize)),
        (p(u16::MAX, 1, 0), Some(Fatal), Some(MsgQueueSize)),
        (p(128, 257, 4096), Some(Fatal), None),
        (p(9, 257, 4096), Some(Fatal), None),
        (p(8, 257, 4096), None, None),
        (p(8, 258, 4096), Some(Fatal), Some(RdmaFrags)),
        (p(8, 258, 4097), Some(Fatal), Some(RdmaFrags)),
        (p(8, 257, 4097), Some(Fatal), Some(Fatal)),
        (p(8, 257, 0), None, None),
        (p(1, 1, 1), None, None),
        (p(0, 257, 4096), Some(Fatal), Some(Fatal)),
        (p(8, 0, 4096), Some(Fatal), Some(Fatal)),
        (p(0, 258, 4096), Some(Fatal), Some(Fatal)),
    ] {
        for (version, why) in [(Version::V1, v1), (Version::V2, v2)] {
            let result = ask(&request(version, params));
            match why {
                None => {
                    assert_eq!(result.map(|req| req.queue_depth), Ok(params.queue_depth));
                }
                Some(why) => {
                    assert_eq!(refused(result).reject, ours(version, why), "{params:?}");
                }
            }
        }
    }
    let completion = Completion {
        cookie: Cookie(1),
        status: 0,
    };
    for (body, kind) in [
        (BodyOut::ConnAck(params()), MsgType::ConnAck),
        (BodyOut::Noop, MsgType::Noop),
        (BodyOut::GetDone(completion), MsgType::GetDone),
    ] {
        let refusal = refused(ask(&bytes(&header(Version::V1), &body)));
        assert_eq!(refusal.reject, ours(Version::V1, Fatal));
        assert_eq!(refusal.cause, RefuseCause::NotConnReq { kind });
    }
}

/// Every refusal has a text of its own for the log.
#[test]
fn texts() {
    let causes = [
        RefuseCause::Port { port: 2000 },
        RefuseCause::Parse(ParseError::TooShort { len: 5 }),
        RefuseCause::UnifiedMagic,
        RefuseCause::NoNi { nid: US },
        RefuseCause::NotReady { nid: US },
        RefuseCause::WrongDevice { nid: US },
        RefuseCause::StaleDst { found: Stamp(1) },
        RefuseCause::NotConnReq {
            kind: MsgType::Noop,
        },
        RefuseCause::ZeroParams,
        RefuseCause::QueueDepth { asked: 9, limit: 8 },
        RefuseCause::Frags { asked: 300 },
        RefuseCause::MsgSize { asked: 5000 },
        RefuseCause::StaleSrc { found: Stamp(1) },
        RefuseCause::Race,
        RefuseCause::NoResources,
    ];
    let mut texts: Vec<_> = causes.iter().map(ToString::to_string).collect();
    assert_eq!(texts[3], "no NI 192.168.1.5@o2ib");
    assert_eq!(texts[9], "queue depth 9, limit 8");
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), causes.len());
}

/// No bytes at all make it panic, and what it accepts is within the limits.
#[test]
fn random_bytes() {
    let mut rng = ko2iblnd_host::prng::Prng::new(1);
    let ni = NiInfo {
        peer_credits: 16,
        ..ni()
    };
    let good = request(Version::V2, params());
    let mut accepted = 0;
    for _ in 0..200_000 {
        let mut private = good.clone();
        for _ in 0..rng.below(4) {
            let at = rng.index(private.len());
            private[at] = rng.next_u32() as u8;
        }
        private.truncate(rng.range(40, 56) as usize + if rng.chance(3, 4) { 16 } else { 0 });
        let Ok(screened) = screen(&private, rng.next_u32() as u16, rng.chance(1, 2)) else {
            continue;
        };
        if let Ok(req) = admit(&screened, Target::Ni(&ni)) {
            assert!((1..=16).contains(&req.queue_depth) && (1..=257).contains(&req.max_frags));
            assert_ne!(req.peer, Nid::ANY);
            accepted += 1;
        }
    }
    assert!(accepted > 1000, "{accepted}");
}
