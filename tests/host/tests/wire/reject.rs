// SPDX-License-Identifier: GPL-2.0

//! Rejects (section 6).

use crate::samples::{hex, set_u16, set_u32, B_STAMP};
use ko2iblnd_host::wire::{
    ConnParams, EmitError, Endian, Reject, RejectError, RejectReason, Stamp, MAGIC, UNIFIED_MAGIC,
};

const BOTH: [Endian; 2] = [Endian::Little, Endian::Big];

/// The reject of section 20.
fn sample() -> (Vec<u8>, Reject) {
    let bytes = hex("91 1b e9 0b 12 00 06 00 f6 d4 c3 b2 a1 f0 05 00
        08 00 00 01 00 10 00 00");
    let reject = Reject {
        version: 0x12,
        why: RejectReason::RdmaFrags,
        stamp: B_STAMP,
        params: Some(ConnParams {
            queue_depth: 8,
            max_frags: 256,
            max_msg_size: 4096,
        }),
    };
    (bytes, reject)
}

fn emitted(reject: &Reject, endian: Endian) -> Vec<u8> {
    let mut buf = vec![0xa5; 148];
    assert_eq!(reject.emit(endian, &mut buf), Ok(24));
    assert!(buf[24..].iter().all(|&byte| byte == 0xa5));
    buf.truncate(24);
    buf
}

#[test]
fn bytes_of_the_specification() {
    let (bytes, reject) = sample();
    assert_eq!(emitted(&reject, Endian::Little), bytes);
    assert_eq!(Reject::parse(&bytes), Ok(reject));
    let big = hex("0be91b91 0012 06 00 0005f0a1b2c3d4f6 0008 0100 00001000");
    assert_eq!(emitted(&reject, Endian::Big), big);
    assert_eq!(Reject::parse(&big), Ok(reject));
}

#[test]
fn every_reason_both_orders() {
    for raw in 0..=255 {
        let why = RejectReason::from_wire(raw);
        assert_eq!(why.to_wire(), raw);
        assert_eq!(
            matches!(why, RejectReason::Unknown(_)),
            !(1..=9).contains(&raw)
        );
        for endian in BOTH {
            let reject = Reject { why, ..sample().1 };
            assert_eq!(Reject::parse(&emitted(&reject, endian)), Ok(reject));
        }
    }
}

#[test]
fn short_rejects() {
    for endian in BOTH {
        let bytes = emitted(&sample().1, endian);
        for len in 0..7 {
            assert_eq!(
                Reject::parse(&bytes[..len]),
                Err(RejectError::TooShort { len })
            );
        }
        assert_eq!(
            Reject::parse(&[0; 6]),
            Err(RejectError::TooShort { len: 6 })
        );
        // From 7 bytes on there is a reason, from 24 on there is everything.
        for len in 7..24 {
            let expected = Reject {
                stamp: Stamp::UNKNOWN,
                params: None,
                ..sample().1
            };
            assert_eq!(Reject::parse(&bytes[..len]), Ok(expected));
        }
    }
}

/// InfiniBand reports 148 bytes whatever was sent, so the version decides.
#[test]
fn padded_rejects() {
    for endian in BOTH {
        let mut bytes = emitted(&sample().1, endian);
        bytes.resize(148, 0xee);
        assert_eq!(Reject::parse(&bytes), Ok(sample().1));
        for version in [0, 0x10, 0x11] {
            set_u16(&mut bytes, 4, version, endian);
            let expected = Reject {
                version,
                why: RejectReason::RdmaFrags,
                stamp: Stamp::UNKNOWN,
                params: None,
            };
            assert_eq!(Reject::parse(&bytes), Ok(expected));
        }
        // A version that we do not speak is reported, not refused.
        set_u16(&mut bytes, 4, 0x13, endian);
        let expected = Reject {
            version: 0x13,
            ..sample().1
        };
        assert_eq!(Reject::parse(&bytes), Ok(expected));
    }
}

#[test]
fn magics() {
    for endian in BOTH {
        let mut bytes = emitted(&sample().1, endian);
        set_u32(&mut bytes, 0, UNIFIED_MAGIC, endian);
        assert_eq!(Reject::parse(&bytes), Ok(sample().1));
        for magic in [0, u32::MAX, MAGIC + 1, UNIFIED_MAGIC - 1] {
            set_u32(&mut bytes, 0, magic, Endian::NATIVE);
            let error = RejectError::BadMagic { magic };
            assert_eq!(Reject::parse(&bytes), Err(error));
            assert!(!error.to_string().is_empty());
        }
    }
}

/// No NI was identified: section 14.4's first rows.
#[test]
fn anonymous() {
    let reject = Reject::anonymous(RejectReason::Fatal);
    let bytes = hex("911be90b 1200 03 00 0000000000000000 0000 0000 00100000");
    assert_eq!(emitted(&reject, Endian::Little), bytes);
    assert_eq!(Reject::parse(&bytes), Ok(reject));
}

#[test]
fn emission_needs_room() {
    let mut buf = [0xa5; 23];
    let error = EmitError::BufferTooSmall { need: 24, have: 23 };
    assert_eq!(sample().1.emit(Endian::NATIVE, &mut buf), Err(error));
    assert_eq!(buf, [0xa5; 23]);
    // Without parameters their bytes are zero, not stale.
    let reject = Reject {
        params: None,
        ..sample().1
    };
    assert_eq!(emitted(&reject, Endian::Little)[16..], [0; 8]);
}
