// SPDX-License-Identifier: GPL-2.0

//! Identities, types, LNet headers, descriptors and the frozen part of a message.

use crate::samples::{
    self, a_to_b, b_to_a, cookie, emitted, get_hdr, offset, put_hdr, set_u16, A, A_STAMP, B,
    B_STAMP,
};
use ko2iblnd_host::lnet_msg::{LnetAck, LnetGet, LnetPut, LnetReply, WireMd};
use ko2iblnd_host::wire::{
    emit, Body, BodyOut, Cookie, DescOut, DescView, EmitError, Endian, Frag, Header, Identity,
    IdentityError, LnetHdr, LnetMsgType, Message, MsgType, Nid, ParseError, Probe, RejectError,
    RejectReason, Stamp, Version, IMMEDIATE_HDR, MAGIC, MAX_FRAGS, MAX_IMMEDIATE, MSG_SIZE,
    UNIFIED_MAGIC,
};

fn nid(a: u8, b: u8, c: u8, d: u8) -> Nid {
    Nid::o2ib(0, u32::from_be_bytes([a, b, c, d]))
}

#[test]
fn constants_of_the_specification() {
    assert_eq!(MAGIC, 0x0be9_1b91);
    assert_eq!(UNIFIED_MAGIC, 0x4572_6963);
    assert_eq!(
        (MSG_SIZE, IMMEDIATE_HDR, MAX_IMMEDIATE, MAX_FRAGS),
        (4096, 120, 3976, 257)
    );
    let types: Vec<_> = MsgType::ALL
        .map(|kind| (kind.to_wire(), kind.min_nob()))
        .into();
    assert_eq!(
        types,
        [
            (0xc0, 56),
            (0xc1, 56),
            (0xd0, 48),
            (0xd1, 120),
            (0xd2, 128),
            (0xd3, 60),
            (0xd4, 72),
            (0xd5, 60),
            (0xd6, 136),
            (0xd7, 60)
        ]
    );
    for raw in 0..=255 {
        if let Some(kind) = MsgType::from_wire(raw) {
            assert_eq!(kind.to_wire(), raw);
            assert!(MsgType::ALL.contains(&kind));
        }
    }
    let names = MsgType::ALL.map(|kind| kind.to_string()).join(" ");
    assert_eq!(
        names,
        "CONNREQ CONNACK NOOP IMMEDIATE PUT_REQ PUT_NAK PUT_ACK PUT_DONE GET_REQ GET_DONE"
    );
    assert_eq!((Version::V1.oob(), Version::V2.oob()), (0, 2));
    let reasons: Vec<_> = (1..=9)
        .map(|raw| RejectReason::from_wire(raw).to_string())
        .collect();
    assert_eq!(
        reasons.join(" "),
        "CONN_RACE NO_RESOURCES FATAL CONN_UNCOMPAT CONN_STALE RDMA_FRAGS MSG_QUEUE_SIZE \
         INVALID_SRV_ID EARLY"
    );
}

#[test]
fn nid_parts_and_text() {
    assert_eq!(A, nid(192, 168, 1, 5));
    let o2ib3 = Nid::o2ib(3, A.addr());
    assert_eq!(o2ib3, Nid(0x0005_0003_c0a8_0105));
    assert_eq!(
        (o2ib3.net_type(), o2ib3.net_num(), o2ib3.net(), o2ib3.addr()),
        (5, 3, 0x0005_0003, 0xc0a8_0105)
    );
    for (nid, text) in [
        (A, "192.168.1.5@o2ib"),
        (o2ib3, "192.168.1.5@o2ib3"),
        (Nid::new(2, 0, 0x0a00_0001), "10.0.0.1@tcp"),
        (Nid::new(2, 7, 0x0a00_0001), "10.0.0.1@tcp7"),
        (Nid::new(9, 0, 0), "0@lo"),
        (Nid::new(77, 65535, 0x0102_0304), "1.2.3.4@<77:65535>"),
        (Nid::ANY, "<any>"),
    ] {
        assert_eq!(nid.to_string(), text);
    }
    assert!(Nid::ANY.is_any() && !A.is_any());
}

/// The table of section 14.7.
#[test]
fn race_hash() {
    let table = [
        (nid(192, 168, 1, 5), 0x0504_a8c0, 0xc0ad_0105),
        (nid(192, 168, 1, 6), 0x0604_a8c0, 0xc0ad_0106),
        (nid(10, 0, 0, 1), 0x0105_000a, 0x0a05_0001),
        (nid(10, 0, 1, 1), 0x0104_000a, 0x0a05_0101),
        (nid(10, 0, 0, 255), 0xff05_000a, 0x0a05_00ff),
    ];
    for (nid, little, big) in table {
        assert_eq!(nid.race_hash_little(), little, "{nid}");
        assert_eq!(nid.race_hash_big(), big, "{nid}");
        let native = match Endian::NATIVE {
            Endian::Little => little,
            Endian::Big => big,
        };
        assert_eq!(nid.race_hash(), native);
    }
    // Releases before 2.16 compare numbers, which disagrees with the hash.
    assert!(nid(192, 168, 1, 5) < nid(192, 168, 1, 6));
    assert!(nid(10, 0, 0, 255) < nid(10, 0, 1, 1));
    assert!(nid(10, 0, 1, 1).race_hash_little() < nid(10, 0, 0, 1).race_hash_little());
}

#[test]
fn identity() {
    let expect = Identity {
        peer: A,
        peer_stamp: A_STAMP,
        local: B,
        local_stamp: B_STAMP,
    };
    let good = a_to_b(1);
    assert_eq!(good.check_identity(&expect), Ok(()));
    let stamp = Stamp(1);
    let check = |hdr: Header| hdr.check_identity(&expect).unwrap_err();
    assert_eq!(
        check(Header { src: B, ..good }),
        IdentityError::SrcNid {
            found: B,
            expected: A
        }
    );
    assert_eq!(
        check(Header { dst: A, ..good }),
        IdentityError::DstNid {
            found: A,
            expected: B
        }
    );
    assert_eq!(
        check(Header {
            src_stamp: stamp,
            ..good
        }),
        IdentityError::SrcStamp {
            found: stamp,
            expected: A_STAMP
        }
    );
    assert_eq!(
        check(Header {
            dst_stamp: stamp,
            ..good
        }),
        IdentityError::DstStamp {
            found: stamp,
            expected: B_STAMP
        }
    );
    // Our own message sent back to us has everything the wrong way round.
    assert_eq!(
        check(b_to_a(0)).to_string(),
        "message from 192.168.1.6@o2ib, not 192.168.1.5@o2ib"
    );
}

#[test]
fn lnet_header_is_little_endian_always() {
    for hdr in [put_hdr(5), get_hdr()] {
        let bytes = hdr.to_bytes();
        assert_eq!(LnetHdr::from_bytes(&bytes), hdr);
        for endian in [Endian::Little, Endian::Big] {
            let body = BodyOut::PutReq {
                hdr,
                cookie: cookie(1, endian),
            };
            assert_eq!(emitted(&a_to_b(0), &body, false, endian)[48..120], bytes);
        }
    }
    assert_eq!(
        samples::put_req().bytes[48..120],
        put_hdr(1 << 20).to_bytes()
    );
    for raw in [0, 1, 2, 3, 4, 5, u32::MAX] {
        let kind = LnetMsgType::from_wire(raw);
        assert_eq!(kind.to_wire(), raw);
        assert_eq!(matches!(kind, LnetMsgType::Unknown(_)), raw > 4);
    }
}

#[test]
fn lnet_unions() {
    let md = WireMd {
        interface: 0x0102_0304_0506_0708,
        object: 0x1112_1314_1516_1718,
    };
    let put = LnetPut {
        ack_md: md,
        match_bits: 0x2122_2324_2526_2728,
        hdr_data: 0x3132_3334_3536_3738,
        ptl_index: 0x4142_4344,
        offset: 0x5152_5354,
    };
    let get = LnetGet {
        return_md: md,
        match_bits: 0x2122_2324_2526_2728,
        ptl_index: 0x4142_4344,
        src_offset: 0x5152_5354,
        sink_length: 0x6162_6364,
    };
    let ack = LnetAck {
        dst_md: md,
        match_bits: 0x2122_2324_2526_2728,
        mlength: 0x4142_4344,
    };
    let reply = LnetReply { dst_md: md };
    assert_eq!(LnetPut::from_union(&put.to_union()), put);
    let mut hdr = samples::put_hdr(0);
    hdr.msg = get.to_union();
    assert_eq!(hdr.get_room(), None);
    hdr.kind = LnetMsgType::Get;
    assert_eq!(hdr.get_room(), Some(get.sink_length));
    assert_eq!(LnetGet::from_union(&get.to_union()), get);
    assert_eq!(LnetAck::from_union(&ack.to_union()), ack);
    assert_eq!(LnetReply::from_union(&reply.to_union()), reply);

    let md_bytes = samples::hex("0807060504030201 1817161514131211");
    let expected = |tail: &str| {
        let mut bytes = [md_bytes.clone(), samples::hex(tail)].concat();
        bytes.resize(40, 0);
        bytes
    };
    let match_bits = "2827262524232221";
    assert_eq!(
        put.to_union()[..],
        expected(&format!("{match_bits} 3837363534333231 44434241 54535251"))
    );
    assert_eq!(
        get.to_union()[..],
        expected(&format!("{match_bits} 44434241 54535251 64636261"))
    );
    assert_eq!(
        ack.to_union()[..],
        expected(&format!("{match_bits} 44434241"))
    );
    assert_eq!(reply.to_union()[..], expected(""));
}

/// A PUT_ACK with `frags`, and what `f` finds in it.
fn with_desc<R>(frags: &[Frag], endian: Endian, f: impl FnOnce(&[u8], DescView<'_>) -> R) -> R {
    let body = BodyOut::PutAck {
        src_cookie: cookie(7, endian),
        dst_cookie: cookie(21, endian),
        desc: DescOut { key: 42, frags },
    };
    let bytes = emitted(&b_to_a(0), &body, false, endian);
    let Body::PutAck { desc, .. } = Message::parse(&bytes).unwrap().body else {
        panic!("not a PUT_ACK");
    };
    f(&bytes, desc)
}

#[test]
fn descriptor_access() {
    let frags: Vec<Frag> = (0..257)
        .map(|i| Frag {
            addr: 0x8000_0000_0000_0000 | (i << 12),
            nob: 4096 - i as u32,
        })
        .collect();
    for endian in [Endian::Little, Endian::Big] {
        with_desc(&frags, endian, |_, desc| {
            assert_eq!((desc.desc().key(), desc.desc().nfrags()), (42, 257));
            assert_eq!(desc.frags().len(), 257);
            let mut rest = desc.frags();
            for left in (0..257).rev() {
                rest.next().expect("a fragment");
                assert_eq!(rest.len(), left);
            }
            assert_eq!((rest.next(), rest.len()), (None, 0));
            assert!(desc.frags().eq(frags.iter().copied()));
            for (i, frag) in frags.iter().enumerate() {
                assert_eq!(desc.frag(i as u16), Some(*frag));
            }
            assert_eq!(desc.frag(257), None);
            assert_eq!(desc.frag(u16::MAX), None);
            let sum: u32 = frags.iter().map(|f| f.nob).sum();
            assert_eq!(desc.desc().total(), sum);
        });
    }
    // The same memory in different byte orders is the same descriptor.
    with_desc(&frags, Endian::Little, |_, little| {
        with_desc(&frags, Endian::Big, |_, big| assert_eq!(little, big));
        with_desc(&frags[1..], Endian::Little, |_, less| {
            assert_ne!(little, less)
        });
    });
}

#[test]
fn a_descriptor_is_found_again() {
    let frags = [(0x1000, 17), (0x2000, 4096)].map(|(addr, nob)| Frag { addr, nob });
    for endian in [Endian::Little, Endian::Big] {
        with_desc(&frags, endian, |bytes, view| {
            let desc = view.desc();
            assert_eq!((desc.key(), desc.nfrags(), desc.total()), (42, 2, 4113));
            // Back in the buffer as it was received, with whatever lies behind the message.
            let mut buf = bytes.to_vec();
            buf.resize(MSG_SIZE, 0xff);
            assert_eq!(desc.view(&buf), Some(view));
            assert_eq!(desc.view(&buf).unwrap().desc(), desc);
            // Not in a buffer that ends too early.
            assert_eq!(desc.view(&bytes[..bytes.len() - 1]), None);
            assert_eq!(desc.view(&[]), None);
            // What was checked once is not read again.
            buf[offset::PUT_ACK_NFRAGS - 4] ^= 1;
            buf[offset::PUT_ACK_NFRAGS] ^= 1;
            assert_eq!(desc.view(&buf), Some(view));
        });
    }
    let sample = samples::get_req();
    let Body::GetReq { desc, .. } = Message::parse(&sample.bytes).unwrap().body else {
        panic!("not a GET_REQ");
    };
    assert_eq!(desc.desc().view(&sample.bytes), Some(desc));
}

#[test]
fn frozen_part() {
    let known = |version, endian| Probe::Known { version, endian };
    for endian in [Endian::Little, Endian::Big] {
        let sample = samples::connreq();
        let mut bytes = emitted(&sample.hdr, &sample.body, false, endian);
        assert_eq!(Probe::new(&bytes), known(Version::V2, endian));
        assert_eq!(Probe::new(&bytes[..6]), known(Version::V2, endian));
        for len in 0..6 {
            assert_eq!(Probe::new(&bytes[..len]), Probe::TooShort { len });
        }
        set_u16(&mut bytes, offset::VERSION, 0x11, endian);
        assert_eq!(Probe::new(&bytes), known(Version::V1, endian));
        set_u16(&mut bytes, offset::VERSION, 0x13, endian);
        assert_eq!(Probe::new(&bytes), Probe::UnknownVersion { version: 0x13 });
        let magic = UNIFIED_MAGIC;
        bytes[..4].copy_from_slice(&magic.to_ne_bytes());
        assert_eq!(Probe::new(&bytes), Probe::UnifiedMagic { magic });
        let magic = magic.swap_bytes();
        bytes[..4].copy_from_slice(&magic.to_ne_bytes());
        assert_eq!(Probe::new(&bytes), Probe::UnifiedMagic { magic });
        bytes[..4].copy_from_slice(&[1, 2, 3, 4]);
        let magic = u32::from_ne_bytes([1, 2, 3, 4]);
        assert_eq!(Probe::new(&bytes), Probe::UnknownMagic { magic });
    }
}

/// Log lines name what was wrong and what was there.
#[test]
fn error_texts() {
    let kind = MsgType::GetReq;
    let texts = [
        ParseError::TooShort { len: 3 }.to_string(),
        ParseError::BadMagic { magic: 0xbe91 }.to_string(),
        ParseError::BadVersion { version: 0x13 }.to_string(),
        ParseError::ShortHeader { len: 47 }.to_string(),
        ParseError::Truncated { nob: 99, len: 98 }.to_string(),
        ParseError::BadChecksum {
            found: 1,
            computed: 2,
        }
        .to_string(),
        ParseError::SrcNidAny.to_string(),
        ParseError::BodyTooShort { kind, nob: 135 }.to_string(),
        ParseError::UnknownType { kind: 0xd8 }.to_string(),
        ParseError::BadFragCount { nfrags: 258 }.to_string(),
        ParseError::FragsTruncated { nfrags: 2, nob: 84 }.to_string(),
        ParseError::FragSumOverflow.to_string(),
        ParseError::PayloadTruncated {
            payload_len: 6,
            nob: 125,
        }
        .to_string(),
        EmitError::BufferTooSmall { need: 48, have: 47 }.to_string(),
        EmitError::PayloadTooLong { payload_len: 3977 }.to_string(),
        RejectError::TooShort { len: 6 }.to_string(),
    ];
    assert_eq!(
        texts.join("\n"),
        "3 bytes are too short for any message\n\
         bad magic 0x0000be91\n\
         bad version 0x13\n\
         47 bytes are too short for a header\n\
         98 bytes of a message of 99\n\
         bad checksum 0x00000001, expected 0x00000002\n\
         source NID is the wildcard\n\
         135 bytes are too short for GET_REQ\n\
         unknown message type 0xd8\n\
         258 fragments, expected 1 to 257\n\
         84 bytes are too short for 2 fragments\n\
         sum of fragment lengths overflows\n\
         125 bytes are too short for a payload of 6\n\
         a message of 48 bytes for a buffer of 47\n\
         payload of 3977 bytes, at most 3976 fit\n\
         6 bytes are too short for a reject"
    );
}

/// Descriptors are the same when they name the same memory.
#[test]
fn descriptors_are_compared_by_what_they_name() {
    let hdr = Header {
        version: Version::V2,
        credits: 0,
        src: Nid::o2ib(0, 1),
        src_stamp: Stamp(1),
        dst: Nid::o2ib(0, 2),
        dst_stamp: Stamp(2),
    };
    let put_ack = |key, frags: &[Frag], endian| {
        let body = BodyOut::PutAck {
            src_cookie: Cookie(1),
            dst_cookie: Cookie(2),
            desc: DescOut { key, frags },
        };
        let mut buf = vec![0; 4096];
        let len = emit(&hdr, &body, false, endian, &mut buf).unwrap();
        buf.truncate(len);
        buf
    };
    let frags = [Frag { addr: 1, nob: 2 }, Frag { addr: 3, nob: 4 }];
    let other = [Frag { addr: 1, nob: 2 }, Frag { addr: 3, nob: 5 }];
    let native = Endian::NATIVE;
    let all = [
        (put_ack(9, &frags, native), true),
        (put_ack(9, &frags, native.opposite()), true),
        (put_ack(8, &frags, native), false),
        (put_ack(9, &other, native), false),
        (put_ack(9, &frags[..1], native), false),
    ];
    let desc = |bytes| match Message::parse(bytes).unwrap().body {
        Body::PutAck { desc, .. } => desc,
        other => panic!("{other:?}"),
    };
    for (bytes, same) in &all {
        assert_eq!(desc(bytes) == desc(&all[0].0), *same);
    }
}
