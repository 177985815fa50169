// SPDX-License-Identifier: GPL-2.0

//! The bytes of the specification, in both directions, and the checksum vectors.

use crate::samples::{
    self, a_to_b, assert_message, cookie, emitted, hex, offset, put_hdr, set_u32, A, B,
};
use ko2iblnd_host::wire::{
    emit, emit_detached, Body, BodyOut, ByteSign, Checksum, Completion, EmitError, Endian, Message,
    Version, IMMEDIATE_HDR, MSG_SIZE,
};

#[test]
fn emits_the_bytes_of_the_specification() {
    for sample in samples::all() {
        let bytes = emitted(
            &sample.hdr,
            &sample.body,
            sample.checksummed,
            Endian::Little,
        );
        assert_eq!(bytes, sample.bytes, "{}", sample.body.kind());
    }
}

#[test]
fn parses_the_bytes_of_the_specification() {
    for sample in samples::all() {
        let msg = Message::parse(&sample.bytes).expect("a legal message");
        assert_message(&msg, &sample.hdr, &sample.body, Endian::Little);
        assert_eq!(msg.nob as usize, sample.bytes.len());
    }
}

/// The other byte order carries the same values, except for cookies, which are bits.
#[test]
fn byte_orders_carry_the_same() {
    for sample in samples::all() {
        for checksum in [false, true] {
            let big = emitted(&sample.hdr, &sample.body, checksum, Endian::Big);
            assert_eq!(big.len(), sample.bytes.len());
            assert_ne!(big, sample.bytes);
            let msg = Message::parse(&big).expect("a legal message");
            assert_message(&msg, &sample.hdr, &sample.body, Endian::Big);
        }
    }
}

/// Section 8 spells out this message of a big-endian sender.
#[test]
fn big_endian_example() {
    let mut bytes = hex(
        "0be91b91 0012 d7 03 0000003c 00000000 00050000c0a80105 0005f0a1b2c3d4e5
        00050000c0a80106 0005f0a1b2c3d4f6 1122334455667788 00002000",
    );
    let body = BodyOut::GetDone(Completion {
        cookie: cookie(0x1122_3344_5566_7788, Endian::Big),
        status: 8192,
    });
    assert_eq!(emitted(&a_to_b(3), &body, false, Endian::Big), bytes);
    assert_eq!(
        Checksum::of_message(&bytes, ByteSign::Unsigned),
        0x1497_575d
    );
    assert_eq!(Checksum::of_message(&bytes, ByteSign::Signed), 0x33a6_8367);

    for sum in [0x1497_575d, 0x33a6_8367] {
        set_u32(&mut bytes, offset::CKSUM, sum, Endian::Big);
        let msg = Message::parse(&bytes).expect("a legal message");
        assert_message(&msg, &a_to_b(3), &body, Endian::Big);
    }
    // The same number in the wrong order is not the checksum.
    set_u32(&mut bytes, offset::CKSUM, 0x1497_575d, Endian::Little);
    assert!(Message::parse(&bytes).is_err());
}

/// A cookie is the same bytes in the message that brings it and in the one that echoes it, even
/// between machines of different byte order.
#[test]
fn cookies_are_echoed_bit_for_bit() {
    let sample = samples::put_req();
    for peer in [Endian::Little, Endian::Big] {
        let request = emitted(&sample.hdr, &sample.body, false, peer);
        let Body::PutReq { cookie, .. } = Message::parse(&request).unwrap().body else {
            panic!("not a PUT_REQ");
        };
        let nak = BodyOut::PutNak(Completion { cookie, status: 0 });
        let answer = emitted(&samples::b_to_a(0), &nak, false, Endian::NATIVE);
        assert_eq!(answer[48..56], request[120..128]);
    }
}

#[test]
fn checksums_of_the_specification() {
    for mut sample in samples::all() {
        let kind = sample.body.kind();
        let unsigned = Checksum::of_message(&sample.bytes, ByteSign::Unsigned);
        assert_eq!(unsigned, sample.sum, "{kind}");
        let signed = Checksum::of_message(&sample.bytes, ByteSign::Signed);
        if let Some(expected) = sample.signed_sum {
            assert_eq!(signed, expected, "{kind}");
        }
        // Either form is accepted, as is none.
        for sum in [unsigned, signed, 0] {
            set_u32(&mut sample.bytes, offset::CKSUM, sum, Endian::Little);
            let msg = Message::parse(&sample.bytes).expect("a legal message");
            assert_message(&msg, &sample.hdr, &sample.body, Endian::Little);
        }
        let bytes = emitted(&sample.hdr, &sample.body, true, Endian::Little);
        assert_eq!(
            bytes[offset::CKSUM..offset::CKSUM + 4],
            sample.sum.to_le_bytes()
        );
    }
}

#[test]
fn checksum_function() {
    let up: Vec<u8> = (0..=255).collect();
    let vectors: [(&[u8], u32, u32); 8] = [
        (&[], 1, 1),
        (&[0], 1, 1),
        (&[1], 1, 1),
        (&[0x80], 0x80, 0xffff_ff80),
        (&[0xff], 0xff, 0xffff_ffff),
        (&[1, 2, 3], 0xb, 0xb),
        (&[0xff, 0xff], 0x2fd, 0xffff_fffe),
        (&up, 0xf3ff_feff, 0xf7ff_feff),
    ];
    for (bytes, unsigned, signed) in vectors {
        for (sign, expected) in [(ByteSign::Unsigned, unsigned), (ByteSign::Signed, signed)] {
            let mut sum = Checksum::with_sign(sign);
            sum.update(bytes);
            assert_eq!(sum.finish(), expected, "{bytes:02x?} {sign:?}");
            // Fed piece by piece it is the same.
            let mut sum = Checksum::with_sign(sign);
            bytes.iter().for_each(|&byte| sum.update(&[byte]));
            assert_eq!(sum.finish(), expected, "{bytes:02x?} {sign:?}");
        }
    }
}

#[test]
fn checksum_steps() {
    let bytes = samples::get_done().bytes;
    let steps = |sign| {
        let mut sum = Checksum::with_sign(sign);
        [0, 1, 2, 3].map(|i| {
            sum.update(&bytes[i..=i]);
            sum.finish()
        })
    };
    assert_eq!(steps(ByteSign::Unsigned), [0x91, 0x13d, 0x363, 0x6d1]);
    assert_eq!(
        steps(ByteSign::Signed),
        [0xffff_ff91, 0xffff_ff3e, 0xffff_fe66, 0xffff_fcd8]
    );
}

/// A buffer that is exactly long enough will do; one byte less will not, and stays as it was.
#[test]
fn emission_needs_room() {
    for sample in samples::all() {
        let nob = sample.bytes.len();
        for have in [0, 1, 47, nob - 1] {
            let mut buf = vec![0xa5; have];
            let result = emit(&sample.hdr, &sample.body, true, Endian::NATIVE, &mut buf);
            assert_eq!(result, Err(EmitError::BufferTooSmall { need: nob, have }));
            assert!(buf.iter().all(|&byte| byte == 0xa5));
        }
        let mut buf = vec![0xa5; nob];
        let result = emit(&sample.hdr, &sample.body, true, Endian::NATIVE, &mut buf);
        assert_eq!(result, Ok(nob));
        assert!(Message::parse(&buf).is_ok());
    }
}

/// An IMMEDIATE is the same bytes however its payload gets behind the header.
#[test]
fn payload_in_place_and_detached() {
    for (len, checksum, endian) in [
        (0, true, Endian::Little),
        (5, false, Endian::Big),
        (5, true, Endian::Big),
        (3976, true, Endian::Little),
    ] {
        let payload: Vec<u8> = (0..len).map(|i| (i * 7 + 0x80) as u8).collect();
        let hdr = put_hdr(len);
        let copy = BodyOut::Immediate {
            hdr,
            payload: &payload,
        };
        let expected = emitted(&a_to_b(2), &copy, checksum, endian);
        let msg = Message::parse(&expected).expect("a legal message");
        assert_message(&msg, &a_to_b(2), &copy, endian);

        let mut buf = vec![0xa5; MSG_SIZE];
        let mut detached = emit_detached(&a_to_b(2), &hdr, endian, &mut buf).unwrap();
        if checksum {
            payload
                .chunks(1000)
                .for_each(|piece| detached.update(piece));
            detached.finish(&mut buf).unwrap();
        }
        assert_eq!(buf[..IMMEDIATE_HDR], expected[..IMMEDIATE_HDR]);
        assert!(buf[IMMEDIATE_HDR..].iter().all(|&byte| byte == 0xa5));
    }
}

#[test]
fn both_versions() {
    for (version, raw) in [(Version::V1, 0x11), (Version::V2, 0x12)] {
        for mut sample in samples::all() {
            sample.hdr.version = version;
            for endian in [Endian::Little, Endian::Big] {
                let bytes = emitted(&sample.hdr, &sample.body, true, endian);
                let frozen = match endian {
                    Endian::Little => [0x91, 0x1b, 0xe9, 0x0b, raw, 0],
                    Endian::Big => [0x0b, 0xe9, 0x1b, 0x91, 0, raw],
                };
                assert_eq!(bytes[..6], frozen);
                let msg = Message::parse(&bytes).expect("a legal message");
                assert_message(&msg, &sample.hdr, &sample.body, endian);
            }
        }
    }
    assert_eq!(
        (A.to_string(), B.net_type()),
        ("192.168.1.5@o2ib".into(), 5)
    );
}
