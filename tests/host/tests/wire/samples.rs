// SPDX-License-Identifier: GPL-2.0

//! The messages of section 20 of the specification, and helpers to build and compare messages.

use ko2iblnd_host::lnet_msg::{LnetGet, LnetPut, WireMd};
use ko2iblnd_host::wire::{
    emit, Body, BodyOut, Completion, ConnParams, Cookie, DescOut, DescView, Endian, Frag, Header,
    LnetHdr, LnetMsgType, Message, Nid, Stamp, Version, MSG_SIZE,
};

/// 192.168.1.5@o2ib.
pub(crate) const A: Nid = Nid(0x0005_0000_c0a8_0105);
/// 192.168.1.6@o2ib.
pub(crate) const B: Nid = Nid(0x0005_0000_c0a8_0106);
/// Incarnation of A.
pub(crate) const A_STAMP: Stamp = Stamp(0x0005_f0a1_b2c3_d4e5);
/// Incarnation of B.
pub(crate) const B_STAMP: Stamp = Stamp(0x0005_f0a1_b2c3_d4f6);

/// Offset of the fields that tests change.
pub(crate) mod offset {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 4;
    pub(crate) const TYPE: usize = 6;
    pub(crate) const NOB: usize = 8;
    pub(crate) const CKSUM: usize = 12;
    pub(crate) const SRCNID: usize = 16;
    pub(crate) const PAYLOAD_LENGTH: usize = 76;
    pub(crate) const PUT_ACK_NFRAGS: usize = 68;
    pub(crate) const GET_REQ_NFRAGS: usize = 132;
}

/// A message of the specification.
pub(crate) struct Sample {
    /// The bytes of a little-endian sender, with the checksum that the specification prints.
    pub(crate) bytes: Vec<u8>,
    pub(crate) hdr: Header,
    pub(crate) body: BodyOut<'static>,
    pub(crate) checksummed: bool,
    /// Checksum with unsigned bytes.
    pub(crate) sum: u32,
    /// Checksum with signed bytes, where the specification gives it.
    pub(crate) signed_sum: Option<u32>,
}

/// Bytes from hexadecimal digits; white space is ignored.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("a hexadecimal digit") as u8)
        .collect();
    assert_eq!(digits.len() % 2, 0);
    digits
        .chunks(2)
        .map(|pair| (pair[0] << 4) | pair[1])
        .collect()
}

/// The cookie that `sender` wrote as the number `value`.
pub(crate) fn cookie(value: u64, sender: Endian) -> Cookie {
    Cookie(u64::from_ne_bytes(match sender {
        Endian::Little => value.to_le_bytes(),
        Endian::Big => value.to_be_bytes(),
    }))
}

/// Writes `value` at `offset` of `bytes` in the order of `endian`.
pub(crate) fn set_u16(bytes: &mut [u8], offset: usize, value: u16, endian: Endian) {
    bytes[offset..offset + 2].copy_from_slice(&match endian {
        Endian::Little => value.to_le_bytes(),
        Endian::Big => value.to_be_bytes(),
    });
}

/// Writes `value` at `offset` of `bytes` in the order of `endian`.
pub(crate) fn set_u32(bytes: &mut [u8], offset: usize, value: u32, endian: Endian) {
    bytes[offset..offset + 4].copy_from_slice(&match endian {
        Endian::Little => value.to_le_bytes(),
        Endian::Big => value.to_be_bytes(),
    });
}

/// The message in a buffer of its own, exactly as long as it is.
pub(crate) fn emitted(hdr: &Header, body: &BodyOut<'_>, checksum: bool, endian: Endian) -> Vec<u8> {
    let mut buf = vec![0xa5; MSG_SIZE];
    let nob = emit(hdr, body, checksum, endian, &mut buf).expect("a legal message");
    assert!(buf[nob..].iter().all(|&byte| byte == 0xa5));
    buf.truncate(nob);
    buf
}

/// Calls `f` with what has to be emitted to get `body` again.
pub(crate) fn with_out<R>(
    body: &Body<DescView<'_>, &[u8]>,
    f: impl FnOnce(&BodyOut<'_>) -> R,
) -> R {
    let frags: Vec<Frag> = match body {
        Body::PutAck { desc, .. } | Body::GetReq { desc, .. } => desc.frags().collect(),
        _ => Vec::new(),
    };
    let desc = |desc: DescView<'_>| DescOut {
        key: desc.desc().key(),
        frags: &frags,
    };
    f(&body.map(desc, |payload| payload))
}

/// Asserts that `msg` is `hdr` and `body` from a sender of order `endian`.
pub(crate) fn assert_message(msg: &Message<'_>, hdr: &Header, body: &BodyOut<'_>, endian: Endian) {
    assert_eq!(msg.hdr, *hdr);
    assert_eq!(msg.swapped, endian.is_swapped());
    assert_eq!(msg.kind(), body.kind());
    with_out(&msg.body, |out| assert_eq!(out, body));
}

/// A header from A to B.
pub(crate) fn a_to_b(credits: u8) -> Header {
    Header {
        version: Version::V2,
        credits,
        src: A,
        src_stamp: A_STAMP,
        dst: B,
        dst_stamp: B_STAMP,
    }
}

/// A header from B to A.
pub(crate) fn b_to_a(credits: u8) -> Header {
    Header {
        version: Version::V2,
        credits,
        src: B,
        src_stamp: B_STAMP,
        dst: A,
        dst_stamp: A_STAMP,
    }
}

/// An LNet PUT from A to B, portal 4, match bits 0x1234, no ACK wanted.
pub(crate) fn put_hdr(payload_len: u32) -> LnetHdr {
    LnetHdr {
        dest_nid: B,
        src_nid: A,
        dest_pid: 12345,
        src_pid: 12345,
        kind: LnetMsgType::Put,
        payload_len,
        msg: LnetPut {
            ack_md: WireMd::NONE,
            match_bits: 0x1234,
            hdr_data: 0,
            ptl_index: 4,
            offset: 0,
        }
        .to_union(),
    }
}

/// An LNet GET from A to B of 8192 bytes.
pub(crate) fn get_hdr() -> LnetHdr {
    LnetHdr {
        kind: LnetMsgType::Get,
        payload_len: 0,
        msg: LnetGet {
            return_md: WireMd {
                interface: 0x1111_1111_1111_1111,
                object: 0x2222_2222_2222_2201,
            },
            match_bits: 0x1234,
            ptl_index: 4,
            src_offset: 0,
            sink_length: 8192,
        }
        .to_union(),
        ..put_hdr(0)
    }
}

/// All messages of section 20, and the worked example of section 8.
pub(crate) fn all() -> Vec<Sample> {
    vec![
        connreq(),
        noop(),
        immediate(),
        put_req(),
        put_ack(),
        put_done(),
        get_req(),
        get_done(),
    ]
}

pub(crate) fn connreq() -> Sample {
    Sample {
        bytes: hex("91 1b e9 0b 12 00 c0 00 38 00 00 00 00 00 00 00
            05 01 a8 c0 00 00 05 00 e5 d4 c3 b2 a1 f0 05 00
            06 01 a8 c0 00 00 05 00 00 00 00 00 00 00 00 00
            08 00 01 01 00 10 00 00"),
        hdr: Header {
            dst_stamp: Stamp::UNKNOWN,
            ..a_to_b(0)
        },
        body: BodyOut::ConnReq(ConnParams {
            queue_depth: 8,
            max_frags: 257,
            max_msg_size: 4096,
        }),
        checksummed: false,
        sum: 0x6586_290e,
        signed_sum: Some(0x9405_f811),
    }
}

pub(crate) fn noop() -> Sample {
    Sample {
        bytes: hex("91 1b e9 0b 12 00 d0 04 30 00 00 00 00 00 00 00
            05 01 a8 c0 00 00 05 00 e5 d4 c3 b2 a1 f0 05 00
            06 01 a8 c0 00 00 05 00 f6 d4 c3 b2 a1 f0 05 00"),
        hdr: a_to_b(4),
        body: BodyOut::Noop,
        checksummed: false,
        sum: 0x9e66_8276,
        signed_sum: Some(0xa194_0645),
    }
}

pub(crate) fn immediate() -> Sample {
    Sample {
        bytes: hex("91 1b e9 0b 12 00 d1 02 7d 00 00 00 0e 8e 58 66
            05 01 a8 c0 00 00 05 00 e5 d4 c3 b2 a1 f0 05 00
            06 01 a8 c0 00 00 05 00 f6 d4 c3 b2 a1 f0 05 00
            06 01 a8 c0 00 00 05 00 05 01 a8 c0 00 00 05 00
            39 30 00 00 39 30 00 00 01 00 00 00 05 00 00 00
            ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff
            34 12 00 00 00 00 00 00 00 00 00 00 00 00 00 00
            04 00 00 00 00 00 00 00 68 65 6c 6c 6f"),
        hdr: a_to_b(2),
        body: BodyOut::Immediate {
            hdr: put_hdr(5),
            payload: b"hello",
        },
        checksummed: true,
        sum: 0x6658_8e0e,
        signed_sum: None,
    }
}

pub(crate) fn put_req() -> Sample {
    Sample {
        bytes: hex("91 1b e9 0b 12 00 d2 00 80 00 00 00 fb 0e 3c 34
            05 01 a8 c0 00 00 05 00 e5 d4 c3 b2 a1 f0 05 00
            06 01 a8 c0 00 00 05 00 f6 d4 c3 b2 a1 f0 05 00
            06 01 a8 c0 00 00 05 00 05 01 a8 c0 00 00 05 00
            39 30 00 00 39 30 00 00 01 00 00 00 00 00 10 00
            ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff
            34 12 00 00 00 00 00 00 00 00 00 00 00 00 00 00
            04 00 00 00 00 00 00 00 07 00 00 00 00 00 00 00"),
        hdr: a_to_b(0),
        body: BodyOut::PutReq {
            hdr: put_hdr(1 << 20),
            cookie: cookie(7, Endian::Little),
        },
        checksummed: true,
        sum: 0x343c_0efb,
        signed_sum: None,
    }
}

pub(crate) fn put_ack() -> Sample {
    const FRAGS: &[Frag] = &[Frag {
        addr: 0x7f80_0000_1200,
        nob: 1 << 20,
    }];
    Sample {
        bytes: hex("91 1b e9 0b 12 00 d4 01 54 00 00 00 27 ba 23 17
            06 01 a8 c0 00 00 05 00 f6 d4 c3 b2 a1 f0 05 00
            05 01 a8 c0 00 00 05 00 e5 d4 c3 b2 a1 f0 05 00
            07 00 00 00 00 00 00 00 15 00 00 00 00 00 00 00
            03 2a 01 00 01 00 00 00 00 00 10 00 00 12 00 00
            80 7f 00 00"),
        hdr: b_to_a(1),
        body: BodyOut::PutAck {
            src_cookie: cookie(7, Endian::Little),
            dst_cookie: cookie(21, Endian::Little),
            desc: DescOut {
                key: 0x0001_2a03,
                frags: FRAGS,
            },
        },
        checksummed: true,
        sum: 0x1723_ba27,
        signed_sum: None,
    }
}

pub(crate) fn put_done() -> Sample {
    Sample {
        bytes: hex("91 1b e9 0b 12 00 d5 00 3c 00 00 00 06 12 e8 68
            05 01 a8 c0 00 00 05 00 e5 d4 c3 b2 a1 f0 05 00
            06 01 a8 c0 00 00 05 00 f6 d4 c3 b2 a1 f0 05 00
            15 00 00 00 00 00 00 00 00 00 10 00"),
        hdr: a_to_b(0),
        body: BodyOut::PutDone(Completion {
            cookie: cookie(21, Endian::Little),
            status: 1 << 20,
        }),
        checksummed: true,
        sum: 0x68e8_1206,
        signed_sum: None,
    }
}

pub(crate) fn get_req() -> Sample {
    const FRAGS: &[Frag] = &[Frag {
        addr: 0x7f80_0000_5000,
        nob: 8192,
    }];
    Sample {
        bytes: hex("91 1b e9 0b 12 00 d6 00 94 00 00 00 3d 95 53 16
            05 01 a8 c0 00 00 05 00 e5 d4 c3 b2 a1 f0 05 00
            06 01 a8 c0 00 00 05 00 f6 d4 c3 b2 a1 f0 05 00
            06 01 a8 c0 00 00 05 00 05 01 a8 c0 00 00 05 00
            39 30 00 00 39 30 00 00 02 00 00 00 00 00 00 00
            11 11 11 11 11 11 11 11 01 22 22 22 22 22 22 22
            34 12 00 00 00 00 00 00 04 00 00 00 00 00 00 00
            00 20 00 00 00 00 00 00 09 00 00 00 00 00 00 00
            04 2b 01 00 01 00 00 00 00 20 00 00 00 50 00 00
            80 7f 00 00"),
        hdr: a_to_b(0),
        body: BodyOut::GetReq {
            hdr: get_hdr(),
            cookie: cookie(9, Endian::Little),
            desc: DescOut {
                key: 0x0001_2b04,
                frags: FRAGS,
            },
        },
        checksummed: true,
        sum: 0x1653_953d,
        signed_sum: None,
    }
}

/// The worked example of section 8.
pub(crate) fn get_done() -> Sample {
    Sample {
        bytes: hex(
            "911be90b 1200 d7 03 3c000000 00000000 0501a8c000000500 e5d4c3b2a1f00500
            0601a8c000000500 f6d4c3b2a1f00500 8877665544332211 00200000",
        ),
        hdr: a_to_b(3),
        body: BodyOut::GetDone(Completion {
            cookie: cookie(0x1122_3344_5566_7788, Endian::Little),
            status: 8192,
        }),
        checksummed: false,
        sum: 0x695e_db76,
        signed_sum: Some(0x4193_cba9),
    }
}
