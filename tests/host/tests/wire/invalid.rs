// SPDX-License-Identifier: GPL-2.0

//! Every rejected form of section 9.1 and of the design's additions, one by one, and what must
//! *not* be rejected.

use crate::samples::{
    self, a_to_b, assert_message, b_to_a, cookie, emitted, offset, put_hdr, set_u16, set_u32, A,
};
use ko2iblnd_host::wire::{
    emit, emit_detached, Body, BodyOut, ByteSign, Checksum, DescOut, EmitError, Endian, Frag,
    Header, Message, MsgType, Nid, ParseError, Version, MAX_FRAGS, MSG_SIZE,
};

const BOTH: [Endian; 2] = [Endian::Little, Endian::Big];

fn rejection(bytes: &[u8]) -> ParseError {
    Message::parse(bytes).expect_err("a rejected message")
}

/// Every sample in both byte orders, without a checksum so that tests may change it.
fn each(mut f: impl FnMut(MsgType, Vec<u8>, Endian)) {
    for sample in samples::all() {
        for endian in BOTH {
            let bytes = emitted(&sample.hdr, &sample.body, false, endian);
            f(sample.body.kind(), bytes, endian);
        }
    }
}

/// A message of every type.
fn of_every_type() -> Vec<(Header, BodyOut<'static>)> {
    let mut all: Vec<_> = samples::all().iter().map(|s| (s.hdr, s.body)).collect();
    let BodyOut::PutDone(completion) = samples::put_done().body else {
        panic!("not a PUT_DONE");
    };
    let BodyOut::ConnReq(params) = samples::connreq().body else {
        panic!("not a CONNREQ");
    };
    all.push((b_to_a(0), BodyOut::PutNak(completion)));
    all.push((b_to_a(0), BodyOut::ConnAck(params)));
    let kinds: Vec<_> = all.iter().map(|(_, body)| body.kind()).collect();
    assert!(MsgType::ALL.iter().all(|kind| kinds.contains(kind)));
    all
}

// 9.1, check 1.
#[test]
fn shorter_than_magic_and_version() {
    each(|_, bytes, _| {
        for len in 0..6 {
            assert_eq!(rejection(&bytes[..len]), ParseError::TooShort { len });
        }
    });
}

// 9.1, check 2.
#[test]
fn bad_magic() {
    each(|_, mut bytes, _| {
        for magic in [0, u32::MAX, 0x0be9_1b90, 0x1b91_0be9, 0x4572_6963] {
            for endian in BOTH {
                set_u32(&mut bytes, offset::MAGIC, magic, endian);
                let magic = if endian.is_swapped() {
                    magic.swap_bytes()
                } else {
                    magic
                };
                assert_eq!(rejection(&bytes), ParseError::BadMagic { magic });
            }
        }
    });
}

// 9.1, check 3.
#[test]
fn bad_version() {
    each(|_, mut bytes, endian| {
        for version in [0, 1, 2, 0x10, 0x13, 0x1100, 0x1200, u16::MAX] {
            set_u16(&mut bytes, offset::VERSION, version, endian);
            assert_eq!(rejection(&bytes), ParseError::BadVersion { version });
        }
    });
}

// 9.1, check 4.
#[test]
fn shorter_than_a_header() {
    each(|_, bytes, _| {
        for len in 6..48 {
            assert_eq!(rejection(&bytes[..len]), ParseError::ShortHeader { len });
        }
    });
}

// 9.1, check 5.
#[test]
fn shorter_than_it_says() {
    each(|_, mut bytes, endian| {
        let len = bytes.len();
        for nob in [len as u32 + 1, 4096, 0x8000_0000, u32::MAX] {
            set_u32(&mut bytes, offset::NOB, nob, endian);
            assert_eq!(rejection(&bytes), ParseError::Truncated { nob, len });
        }
    });
}

// 9.1, check 6.
#[test]
fn bad_checksum() {
    for sample in samples::all() {
        for endian in BOTH {
            let good = emitted(&sample.hdr, &sample.body, true, endian);
            let sum = Checksum::of_message(&good, ByteSign::Unsigned);
            // A wrong field.
            let mut bytes = good.clone();
            set_u32(&mut bytes, offset::CKSUM, sum ^ 0x100, endian);
            assert_eq!(
                rejection(&bytes),
                ParseError::BadChecksum {
                    found: sum ^ 0x100,
                    computed: sum
                }
            );
            // One flipped bit in any byte that is looked at for no other reason before.
            for at in (6..8).chain(16..good.len()) {
                let mut bytes = good.clone();
                bytes[at] ^= 0x10;
                let computed = Checksum::of_message(&bytes, ByteSign::Unsigned);
                let found = sum;
                assert_eq!(
                    rejection(&bytes),
                    ParseError::BadChecksum { found, computed }
                );
            }
        }
    }
}

// 9.1, check 8.
#[test]
fn source_is_the_wildcard() {
    each(|_, mut bytes, _| {
        bytes[offset::SRCNID..offset::SRCNID + 8].fill(0xff);
        assert_eq!(rejection(&bytes), ParseError::SrcNidAny);
    });
}

// 9.1, check 9.
#[test]
fn shorter_than_its_type_allows() {
    for (hdr, body) in of_every_type() {
        let kind = body.kind();
        for endian in BOTH {
            let mut bytes = emitted(&hdr, &body, false, endian);
            for nob in [0, 1, 12, 16, 47, kind.min_nob() - 1] {
                set_u32(&mut bytes, offset::NOB, nob, endian);
                assert_eq!(rejection(&bytes), ParseError::BodyTooShort { kind, nob });
            }
        }
    }
}

/// A checksum over fewer bytes than reach its own field is still a checksum over those bytes.
#[test]
fn checksummed_but_shorter_than_a_header() {
    let mut bytes = samples::noop().bytes;
    for nob in 0..48 {
        set_u32(&mut bytes, offset::NOB, nob, Endian::Little);
        let sum = Checksum::of_message(&bytes[..nob as usize], ByteSign::Unsigned);
        set_u32(&mut bytes, offset::CKSUM, sum, Endian::Little);
        let kind = MsgType::Noop;
        assert_eq!(rejection(&bytes), ParseError::BodyTooShort { kind, nob });
        set_u32(&mut bytes, offset::CKSUM, sum ^ 0x8000, Endian::Little);
        assert!(matches!(rejection(&bytes), ParseError::BadChecksum { .. }));
    }
}

// 9.1, check 10.
#[test]
fn unknown_type() {
    each(|_, mut bytes, _| {
        let mut unknown = 0;
        for kind in 0..=255 {
            if MsgType::from_wire(kind).is_none() {
                bytes[offset::TYPE] = kind;
                assert_eq!(rejection(&bytes), ParseError::UnknownType { kind });
                unknown += 1;
            }
        }
        assert_eq!(unknown, 246);
    });
}

fn nfrags_offset(kind: MsgType) -> Option<usize> {
    match kind {
        MsgType::PutAck => Some(offset::PUT_ACK_NFRAGS),
        MsgType::GetReq => Some(offset::GET_REQ_NFRAGS),
        _ => None,
    }
}

// 9.1, check 11, first half.
#[test]
fn no_fragments_or_too_many() {
    let mut tried = 0;
    each(|kind, mut bytes, endian| {
        let Some(at) = nfrags_offset(kind) else {
            return;
        };
        bytes.resize(MSG_SIZE, 0);
        set_u32(&mut bytes, offset::NOB, MSG_SIZE as u32, endian);
        for nfrags in [0, 258, 0x1_0000, 0x1_0001, 0x0100_0000, u32::MAX] {
            set_u32(&mut bytes, at, nfrags, endian);
            assert_eq!(rejection(&bytes), ParseError::BadFragCount { nfrags });
            tried += 1;
        }
    });
    assert_eq!(tried, 24);
}

// 9.1, check 11, second half.
#[test]
fn ends_before_its_last_fragment() {
    let mut tried = 0;
    each(|kind, mut bytes, endian| {
        let Some(at) = nfrags_offset(kind) else {
            return;
        };
        let before = at as u32 + 4;
        bytes.resize(MSG_SIZE, 0);
        for nfrags in [1, 2, 100, 256, 257] {
            set_u32(&mut bytes, at, nfrags, endian);
            let full = before + 12 * nfrags;
            for nob in [before, full - 12, full - 1] {
                set_u32(&mut bytes, offset::NOB, nob, endian);
                assert_eq!(
                    rejection(&bytes),
                    ParseError::FragsTruncated { nfrags, nob }
                );
                tried += 1;
            }
            set_u32(&mut bytes, offset::NOB, full, endian);
            assert!(Message::parse(&bytes).is_ok());
        }
    });
    assert_eq!(tried, 60);
}

// The design's addition: fragment sums must not overflow.
#[test]
fn sum_of_fragments_overflows() {
    let mut tried = 0;
    each(|kind, mut bytes, endian| {
        let Some(at) = nfrags_offset(kind) else {
            return;
        };
        bytes.resize(MSG_SIZE, 0);
        let nob = bytes.len() as u32;
        set_u32(&mut bytes, offset::NOB, nob, endian);
        for (nfrags, first, last) in [(2, u32::MAX, 1), (257, 0x8000_0000, 0x8000_0000)] {
            set_u32(&mut bytes, at, nfrags, endian);
            let frag = |index: u32| at + 4 + 12 * index as usize;
            (0..nfrags).for_each(|index| set_u32(&mut bytes, frag(index), 0, endian));
            set_u32(&mut bytes, frag(0), first, endian);
            set_u32(&mut bytes, frag(nfrags - 1), last, endian);
            assert_eq!(rejection(&bytes), ParseError::FragSumOverflow);
            // The largest sum that fits is fine.
            set_u32(&mut bytes, frag(nfrags - 1), last - 1, endian);
            assert!(Message::parse(&bytes).is_ok());
            tried += 1;
        }
    });
    assert_eq!(tried, 8);
}

// The design's addition: the payload of an IMMEDIATE must be there.
#[test]
fn payload_is_longer_than_the_message() {
    let sample = samples::immediate();
    for endian in BOTH {
        let mut bytes = emitted(&sample.hdr, &sample.body, false, endian);
        let nob = bytes.len() as u32;
        for payload_len in [6, 3976, 0x8000_0000, u32::MAX] {
            // Always little-endian, whoever sends it.
            set_u32(
                &mut bytes,
                offset::PAYLOAD_LENGTH,
                payload_len,
                Endian::Little,
            );
            assert_eq!(
                rejection(&bytes),
                ParseError::PayloadTruncated { payload_len, nob }
            );
        }
        // What arrived behind nob is not payload.
        set_u32(&mut bytes, offset::PAYLOAD_LENGTH, 6, Endian::Little);
        bytes.push(b'!');
        assert!(matches!(
            rejection(&bytes),
            ParseError::PayloadTruncated { payload_len: 6, .. }
        ));
    }
}

/// With several faults at once the first of section 9.1's order is reported.
#[test]
fn checks_are_made_in_order() {
    let order = |bytes: &[u8]| match rejection(bytes) {
        ParseError::TooShort { .. } => 1,
        ParseError::BadMagic { .. } => 2,
        ParseError::BadVersion { .. } => 3,
        ParseError::ShortHeader { .. } => 4,
        ParseError::Truncated { .. } => 5,
        ParseError::BadChecksum { .. } => 6,
        ParseError::SrcNidAny => 8,
        ParseError::BodyTooShort { .. } => 9,
        ParseError::UnknownType { .. } => 10,
        ParseError::BadFragCount { .. } => 11,
        ParseError::FragsTruncated { .. } => 12,
        ParseError::FragSumOverflow => 13,
        ParseError::PayloadTruncated { .. } => 14,
    };
    let le = Endian::Little;
    let mut bytes = samples::put_ack().bytes;
    let good_magic = bytes[..4].to_vec();
    bytes[0] = 0;
    set_u16(&mut bytes, offset::VERSION, 0x99, le);
    set_u32(&mut bytes, offset::NOB, 5000, le);
    set_u32(&mut bytes, offset::CKSUM, 0xdead_beef, le);
    bytes[offset::SRCNID..offset::SRCNID + 8].fill(0xff);
    set_u32(&mut bytes, offset::PUT_ACK_NFRAGS, 0, le);

    assert_eq!(order(&bytes[..5]), 1);
    assert_eq!(order(&bytes[..47]), 2);
    bytes[..4].copy_from_slice(&good_magic);
    assert_eq!(order(&bytes[..47]), 3);
    set_u16(&mut bytes, offset::VERSION, 0x12, le);
    assert_eq!(order(&bytes[..47]), 4);
    assert_eq!(order(&bytes), 5);
    set_u32(&mut bytes, offset::NOB, 71, le);
    assert_eq!(order(&bytes), 6);
    set_u32(&mut bytes, offset::CKSUM, 0, le);
    assert_eq!(order(&bytes), 8);
    bytes[offset::SRCNID..offset::SRCNID + 8].fill(1);
    assert_eq!(order(&bytes), 9);
    bytes[offset::TYPE] = 0xd8;
    assert_eq!(order(&bytes), 10);
    bytes[offset::TYPE] = 0xd4;
    set_u32(&mut bytes, offset::NOB, 84, le);
    assert_eq!(order(&bytes), 11);
    set_u32(&mut bytes, offset::PUT_ACK_NFRAGS, 2, le);
    assert_eq!(order(&bytes), 12);
}

/// More may arrive than the message says; CM private data is padded.
#[test]
fn trailing_bytes_are_ignored() {
    for sample in samples::all() {
        for endian in BOTH {
            for checksum in [false, true] {
                let mut bytes = emitted(&sample.hdr, &sample.body, checksum, endian);
                let nob = bytes.len();
                for (len, byte) in [(nob + 1, 0xff), (196.max(nob), 0), (MSG_SIZE, 0x5a)] {
                    bytes.truncate(nob);
                    bytes.resize(len, byte);
                    let msg = Message::parse(&bytes).expect("a legal message");
                    assert_message(&msg, &sample.hdr, &sample.body, endian);
                    assert_eq!(msg.nob as usize, nob);
                }
            }
        }
    }
}

/// What section 9.1 leaves to others is not rejected here.
#[test]
fn odd_but_legal() {
    let mut bytes = samples::connreq().bytes;
    bytes[48..56].fill(0);
    assert!(Message::parse(&bytes).is_ok(), "zero depth and fragments");
    bytes[48..56].fill(0xff);
    assert!(Message::parse(&bytes).is_ok(), "large parameters");
    bytes[32..40].fill(0xff);
    assert!(Message::parse(&bytes).is_ok(), "wildcard destination");
    bytes[7] = 255;
    assert_eq!(Message::parse(&bytes).unwrap().hdr.credits, 255);

    let hdr = a_to_b(0);
    let body = BodyOut::Immediate {
        hdr: put_hdr(0),
        payload: &[],
    };
    let mut bytes = emitted(&hdr, &body, false, Endian::Little);
    assert_eq!(bytes.len(), 120);
    // An LNet type that LNet does not have is for the engine to refuse.
    bytes[72] = 99;
    assert!(Message::parse(&bytes).is_ok());
    // A message may be longer than its payload needs.
    bytes.push(7);
    set_u32(&mut bytes, offset::NOB, 121, Endian::Little);
    let Body::Immediate { payload, .. } = Message::parse(&bytes).unwrap().body else {
        panic!("not an IMMEDIATE");
    };
    assert!(payload.is_empty());
}

/// The largest legal messages (section 4.9).
#[test]
fn largest_messages() {
    let frags = vec![Frag { addr: 8, nob: 4096 }; usize::from(MAX_FRAGS)];
    let desc = DescOut {
        key: 9,
        frags: &frags,
    };
    let hdr = a_to_b(255);
    let put_ack = BodyOut::PutAck {
        src_cookie: cookie(1, Endian::NATIVE),
        dst_cookie: cookie(2, Endian::NATIVE),
        desc,
    };
    let get_req = BodyOut::GetReq {
        hdr: samples::get_hdr(),
        cookie: cookie(3, Endian::NATIVE),
        desc,
    };
    let payload = [0xee; 3976];
    let immediate = BodyOut::Immediate {
        hdr: put_hdr(3976),
        payload: &payload,
    };
    for (body, nob) in [(put_ack, 3156), (get_req, 3220), (immediate, 4096)] {
        for endian in BOTH {
            let bytes = emitted(&hdr, &body, true, endian);
            assert_eq!(bytes.len(), nob);
            let msg = Message::parse(&bytes).expect("a legal message");
            assert_message(&msg, &hdr, &body, endian);
        }
    }
}

fn put_ack(frags: &[Frag]) -> BodyOut<'_> {
    BodyOut::PutAck {
        src_cookie: cookie(1, Endian::NATIVE),
        dst_cookie: cookie(2, Endian::NATIVE),
        desc: DescOut { key: 1, frags },
    }
}

/// What would be rejected is not emitted.
#[test]
fn illegal_messages_are_not_emitted() {
    let refused = |hdr: &Header, body: &BodyOut<'_>| {
        let mut buf = [0xa5; MSG_SIZE];
        let error = emit(hdr, body, true, Endian::NATIVE, &mut buf).expect_err("a refusal");
        assert!(buf.iter().all(|&byte| byte == 0xa5));
        error
    };
    let any = Header {
        src: Nid::ANY,
        ..a_to_b(0)
    };
    assert_eq!(refused(&any, &BodyOut::Noop), EmitError::SrcNidAny);

    let long = [0; 3977];
    let immediate = |payload_len, given| BodyOut::Immediate {
        hdr: put_hdr(payload_len),
        payload: &long[..given],
    };
    for (payload_len, given) in [(5, 4), (3976, 3977), (u32::MAX, 3977)] {
        assert_eq!(
            refused(&a_to_b(0), &immediate(payload_len, given)),
            EmitError::PayloadMismatch { payload_len, given }
        );
    }
    let payload_len = 3977;
    assert_eq!(
        refused(&a_to_b(0), &immediate(payload_len, 3977)),
        EmitError::PayloadTooLong { payload_len }
    );
    for payload_len in [3977, u32::MAX] {
        let error = EmitError::PayloadTooLong { payload_len };
        let mut buf = [0xa5; MSG_SIZE];
        let result = emit_detached(&a_to_b(0), &put_hdr(payload_len), Endian::NATIVE, &mut buf);
        assert_eq!(result.err(), Some(error));
    }

    for nfrags in [0, 258, 1000] {
        let frags = vec![Frag { addr: 0, nob: 1 }; nfrags];
        let error = EmitError::BadFragCount { nfrags };
        assert_eq!(refused(&b_to_a(0), &put_ack(&frags)), error);
    }
    let frags = [0x8000_0000, 0x8000_0000].map(|nob| Frag { addr: 0, nob });
    assert_eq!(
        refused(&b_to_a(0), &put_ack(&frags)),
        EmitError::FragSumOverflow
    );
}

/// A detached payload that is not what the header promised gets no checksum.
#[test]
fn detached_payload_of_wrong_length() {
    for given in [0, 4, 6] {
        let mut buf = [0; MSG_SIZE];
        let mut detached =
            emit_detached(&a_to_b(0), &put_hdr(5), Endian::NATIVE, &mut buf).unwrap();
        detached.update(&vec![1; given]);
        let payload_len = 5;
        assert_eq!(
            detached.finish(&mut buf),
            Err(EmitError::PayloadMismatch { payload_len, given })
        );
        assert_eq!(buf[offset::CKSUM..offset::CKSUM + 4], [0; 4]);
    }
    let mut small = [0; 119];
    assert!(emit_detached(&a_to_b(0), &put_hdr(0), Endian::NATIVE, &mut small).is_err());
    let any = Header {
        src: Nid::ANY,
        version: Version::V1,
        ..a_to_b(0)
    };
    let mut buf = [0; MSG_SIZE];
    let result = emit_detached(&any, &put_hdr(0), Endian::NATIVE, &mut buf);
    assert_eq!(result.err(), Some(EmitError::SrcNidAny));
    assert_eq!(a_to_b(0).src, A);
}
