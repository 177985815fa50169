// SPDX-License-Identifier: GPL-2.0

//! Plans of RDMA WRITEs (protocol.md section 11.4).

use crate::common::*;
use ko2iblnd_host::prng::Prng;
use ko2iblnd_host::proto::chain::{ChainError, Cursor, SrcFrag};
use ko2iblnd_host::wire::{Body, BodyOut, Cookie, Desc, DescOut, Frag, Message};

/// A PUT_ACK with these fragments.
fn message(frags: &[Frag]) -> Vec<u8> {
    let b = Bench::open(1);
    let desc = DescOut { key: 9, frags };
    let body = BodyOut::PutAck {
        src_cookie: Cookie(1),
        dst_cookie: Cookie(2),
        desc,
    };
    bytes(&b.hdr_from_peer(0), &body)
}

/// A sink, and the message that it is from.
#[derive(Clone, Copy)]
struct Sink<'a> {
    desc: Desc,
    message: &'a [u8],
}

fn sink_in(message: &[u8]) -> Sink<'_> {
    let desc = match Message::parse(message).unwrap().body {
        Body::PutAck { desc, .. } => desc.desc(),
        other => panic!("{other:?}"),
    };
    Sink { desc, message }
}

fn count_writes(
    src: &[SrcFrag],
    sink: Sink<'_>,
    total: u32,
    max_sge: u16,
    max_frags: u16,
) -> Result<u16, ChainError> {
    Cursor::new(sink.desc, total).count(src, sink.message, max_sge, max_frags)
}

/// Pieces of `len` bytes each, but the first, which starts `offset` bytes into its page.
fn pages(total: u32, page: u32, offset: u32) -> Vec<SrcFrag> {
    let mut out = Vec::new();
    let (mut at, mut room) = (0, page - offset);
    while at < total {
        let len = room.min(total - at);
        out.push(SrcFrag {
            addr: 0x10_0000 * (out.len() as u64 + 1),
            len,
        });
        at += len;
        room = page;
    }
    out
}

fn sink_pages(total: u32, page: u32, offset: u32) -> Vec<Frag> {
    let place = |f: &SrcFrag| Frag {
        addr: f.addr << 20,
        nob: f.len,
    };
    pages(total, page, offset).iter().map(place).collect()
}

/// Carries a plan out, byte ranges instead of bytes; checks that source and sink are met in order.
fn carry_out(src: &[SrcFrag], sink: Sink<'_>, total: u32, max_sge: usize) -> u16 {
    let mut cursor = Cursor::new(sink.desc, total);
    let mut sges = vec![SrcFrag::default(); max_sge];
    let flat = |frags: &[(u64, u32)]| -> Vec<u64> {
        frags
            .iter()
            .flat_map(|&(addr, len)| (0..u64::from(len)).map(move |i| addr + i))
            .collect()
    };
    let src_bytes = flat(&src.iter().map(|f| (f.addr, f.len)).collect::<Vec<_>>());
    let frags = sink.desc.view(sink.message).unwrap().frags();
    let sink_bytes = flat(&frags.map(|f| (f.addr, f.nob)).collect::<Vec<_>>());
    let (mut at, mut writes) = (0, 0);
    while let Some(write) = cursor.next(src, sink.message, &mut sges).unwrap() {
        writes += 1;
        assert_eq!(write.rkey, 9);
        assert!(write.nsge >= 1 && write.nsge <= max_sge);
        let mut remote = write.remote;
        for sge in &sges[..write.nsge] {
            for i in 0..u64::from(sge.len) {
                assert_eq!(src_bytes[at], sge.addr + i);
                assert_eq!(sink_bytes[at], remote);
                remote += 1;
                at += 1;
            }
        }
    }
    assert_eq!(at, total as usize);
    assert_eq!(cursor.rest(), 0);
    writes
}

#[test]
fn lu_5718_misaligned_lists_stay_within_the_limit() {
    let total = 64 * 1024;
    for offset in [0, 1, 512, 2048, 4095] {
        for sink_offset in [0, 1, 1000, 4095] {
            let src = pages(total, 4096, offset);
            let msg = message(&sink_pages(total, 4096, sink_offset));
            let sink = sink_in(&msg);
            let writes = count_writes(&src, sink, total, 2, 257).unwrap();
            assert_eq!(writes, carry_out(&src, sink, total, 2));
            assert_eq!(writes, sink.desc.nfrags(), "{offset} {sink_offset}");
        }
    }
    // 1 MiB, every page split in two.
    let src = pages(1 << 20, 4096, 1);
    let msg = message(&sink_pages(1 << 20, 4096, 0));
    let sink = sink_in(&msg);
    assert_eq!(count_writes(&src, sink, 1 << 20, 2, 257), Ok(256));
    let too_many = count_writes(&src, sink, 1 << 20, 1, 257);
    assert_eq!(too_many, Err(ChainError::TooManyWrites));
}

#[test]
fn a_write_that_is_open_at_the_end_counts() {
    let src = [SrcFrag {
        addr: 64,
        len: 5000,
    }];
    let msg = message(&[frag(8192)]);
    let sink = sink_in(&msg);
    assert_eq!(count_writes(&src, sink, 5000, 2, 257), Ok(1));
    assert_eq!(carry_out(&src, sink, 5000, 2), 1);
}

#[test]
fn lu_7650_nodes_of_different_page_size() {
    for (mine, theirs) in [(4096, 65536), (65536, 4096), (65536, 65536)] {
        for (offset, sink_offset) in [(0, 0), (1, 0), (0, 1), (4095, 4095)] {
            let total = 1 << 20;
            let src = pages(total, mine, offset);
            let msg = message(&sink_pages(total, theirs, sink_offset));
            let sink = sink_in(&msg);
            for max_sge in [2, 32] {
                let most = src.len() + usize::from(sink.desc.nfrags());
                let writes = count_writes(&src, sink, total, max_sge, 600).unwrap();
                assert!(usize::from(writes) <= most);
                assert!(writes >= sink.desc.nfrags());
            }
        }
    }
}

#[test]
fn lu_15186_a_peer_that_sends_256_fragments() {
    let src = pages(256 * 4096, 4096, 0);
    let msg = message(&sink_pages(256 * 4096, 4096, 0));
    assert_eq!(
        count_writes(&src, sink_in(&msg), 256 * 4096, 32, 256),
        Ok(256)
    );
    let mut b = Bench::open(8);
    b.send_put(1, 256 * 4096);
    let cookie = b.cookie_sent(0);
    b.recv_put_ack(cookie, &sink_pages(256 * 4096, 4096, 0));
    b.complete_all();
    b.complete_all();
    assert_eq!(b.status(1), Some(0));
    b.tear_down();
}

#[test]
fn sides_that_are_too_short_have_no_plan() {
    let src = [SrcFrag { addr: 1, len: 10 }];
    let msg = message(&[frag(8)]);
    let sink = sink_in(&msg);
    let count = |total, sge| count_writes(&src, sink, total, sge, 257);
    assert_eq!(count(9, 2), Err(ChainError::SinkTooShort));
    assert_eq!(count(8, 0), Err(ChainError::BadArgument));
    assert_eq!(count(0, 2), Ok(0));
    assert_eq!(
        count_writes(&[], sink, 8, 2, 257),
        Err(ChainError::SourceTooShort)
    );
    let mut cursor = Cursor::new(sink.desc, 8);
    let no_room = cursor.next(&src, sink.message, &mut []);
    assert_eq!(no_room, Err(ChainError::BadArgument));
    assert_eq!(cursor, Cursor::new(sink.desc, 8));
    // Neither without the fragments, though all of it has been moved.
    let short = &msg[..msg.len() - 1];
    let mut sges = [SrcFrag::default(); 2];
    for total in [0, 8] {
        let mut cursor = Cursor::new(sink.desc, total);
        let lost = Err(ChainError::BadArgument);
        assert_eq!(cursor.next(&src, short, &mut sges), lost);
        assert_eq!(cursor.count(&src, short, 2, 257).err(), lost.err());
    }
}

#[test]
fn random_plans_move_every_byte_once() {
    let mut prng = Prng::new(7);
    for _ in 0..300 {
        let total = prng.range(1, 3000) as u32;
        let mut pieces = |empty: bool| {
            let mut out = Vec::new();
            let mut rest = total + prng.range(0, 50) as u32;
            while rest > 0 && out.len() < 256 {
                let low = u64::from(!empty);
                let len = (prng.range(low, 40) as u32).min(rest);
                out.push(len);
                rest -= len;
            }
            out.push(rest + 1);
            out
        };
        let src: Vec<SrcFrag> = pieces(true)
            .iter()
            .enumerate()
            .map(|(i, &len)| SrcFrag {
                addr: 0x1_0000 * (i as u64 + 1),
                len,
            })
            .collect();
        let frags: Vec<Frag> = pieces(true)
            .iter()
            .enumerate()
            .map(|(i, &nob)| Frag {
                addr: 0x1_0000_0000 * (i as u64 + 1),
                nob,
            })
            .collect();
        let msg = message(&frags);
        let sink = sink_in(&msg);
        for max_sge in [1, 2, 7] {
            let writes = count_writes(&src, sink, total, max_sge, u16::MAX).unwrap();
            assert_eq!(writes, carry_out(&src, sink, total, usize::from(max_sge)));
        }
    }
}
