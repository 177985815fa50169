// SPDX-License-Identifier: GPL-2.0

//! More rules of the bug catalogue, by their ids.

use crate::common::*;
use ko2iblnd_host::proto::chain::{Cursor, SrcFrag};
use ko2iblnd_host::proto::conn::{Action, OutBody, Role};
use ko2iblnd_host::proto::{Cause, Health};
use ko2iblnd_host::wire::{Body, BodyOut, Cookie, DescOut, Endian, Message, MAX_FRAGS};

fn late_events(b: &mut Bench) {
    b.conn.handle_conn_failed(b.now, Cause::Unreachable);
    b.conn.handle_conn_failed(b.now, Cause::Rejected);
    b.conn.handle_established(b.now, None);
    b.conn.handle_comm_est(b.now);
    b.conn.handle_disconnected(b.now);
    b.pump();
}

/// Whatever the CM says after DISCONNECTED, and after that again: one close, one drain.
#[test]
fn lu_20476_a7_events_after_disconnected_change_nothing() {
    for role in [Role::Active, Role::Passive] {
        for open in [false, true] {
            let mut b = Bench::connecting(role, &tunables(8));
            if open {
                let ack = connack(params(8, 257));
                let msg = Message::parse(&ack);
                b.conn.handle_established(b.now, Some(msg));
                b.pump();
            }
            b.conn.handle_disconnected(b.now);
            b.pump();
            let cause = b.cause();
            late_events(&mut b);
            b.flush();
            assert!(b.conn.is_drained());
            late_events(&mut b);
            assert_eq!(b.cause(), cause);
            let count = |what: fn(&Action<()>) -> bool| b.acts.iter().filter(|a| what(a)).count();
            assert_eq!(count(|a| matches!(a, Action::Closed { .. })), 1);
            assert_eq!(count(|a| matches!(a, Action::Disconnect { .. })), 1);
            assert_eq!(count(|a| matches!(a, Action::Drained { .. })), 1);
            assert!(b.conn.is_released());
        }
    }
}

/// "Fail all" on nothing, on one, on many, in every queue.
#[test]
fn lu_12678_lu_15125_fail_all_finds_each_once() {
    for n in [0, 1, 2, 16] {
        for what in [immediate(9), put(8192), get(8192)] {
            let mut b = Bench::open(2);
            for tx in 0..n {
                b.submit(tx, what).unwrap();
            }
            b.tear_down();
            assert_eq!(b.ends.len(), n as usize);
            assert!(b.ends.iter().all(|end| end.done.status < 0));
        }
    }
}

/// Far more operations than there are slots, in sequence; then more at a time than there are.
#[test]
fn lu_9472_slots_come_back() {
    let mut b = Bench::open(8);
    for tx in 0..3_000 {
        b.send_get(tx, 8192);
        let cookie = b.cookie_sent(b.sent.len() - 1);
        b.recv_with(1, &BodyOut::GetDone(completion(cookie, 8192)));
        b.complete_all();
        assert_eq!(b.ends.pop().map(|end| end.tx), Some(tx));
    }
    let taken = (0..100)
        .filter(|&tx| b.submit(tx, get(8192)).is_ok())
        .count();
    assert_eq!(taken, usize::from(b.conn.limits().local_ops));
    b.tear_down();
    assert_eq!(b.ends.len(), taken);
}

/// 1 MiB that starts inside a page needs one fragment more than pages, and a table that is
/// exactly full works.
#[test]
fn lu_8057_lu_15092_an_exactly_full_table_works() {
    for offset in [0, 1, 4095] {
        let mut sizes = vec![4096 - offset];
        sizes.resize(256, 4096);
        sizes.extend((offset > 0).then_some(offset));
        let frags: Vec<_> = sizes.iter().map(|&nob| frag(nob)).collect();
        let desc = DescOut {
            key: 1,
            frags: &frags,
        };
        let hdr = Bench::open(1).hdr_from_peer(0);
        let put_ack = bytes(
            &hdr,
            &BodyOut::PutAck {
                src_cookie: Cookie(1),
                dst_cookie: Cookie(2),
                desc,
            },
        );
        let Body::PutAck { desc, .. } = Message::parse(&put_ack).unwrap().body else {
            panic!();
        };
        let desc = desc.desc();
        assert_eq!(usize::from(desc.nfrags()), frags.len());
        assert_eq!(desc.total(), 1 << 20);
        let src: Vec<_> = sizes.iter().map(|&len| SrcFrag { addr: 0, len }).collect();
        let cursor = Cursor::new(desc, 1 << 20);
        let writes = cursor.count(&src, &put_ack, 1, MAX_FRAGS).unwrap();
        assert_eq!(usize::from(writes), frags.len());
        assert!(writes <= MAX_FRAGS);
        let mut b = Bench::open(8);
        b.send_put(1, 1 << 20);
        let cookie = b.cookie_sent(0);
        b.recv_put_ack(cookie, &frags);
        b.complete_all();
        assert_eq!(b.status(1), Some(0), "offset {offset}");
        b.tear_down();
    }
}

/// However many pages there are: one fragment is sent, and the length says so.
#[test]
fn lu_13181_lu_5956_length_follows_from_what_is_in_a_message() {
    let len_of = |b: &Bench| {
        let mut buf = [0; 192];
        b.sent.last().unwrap().emit(false, &mut buf).unwrap().len
    };
    for pages in [1, 16, 256] {
        let mut b = Bench::open(8);
        b.send_get(1, pages * 4096);
        assert!(matches!(b.last_sent(), OutBody::GetReq { .. }));
        assert_eq!(len_of(&b), 148);
        b.recv_put_req(5);
        let (rx, ..) = b.take_delivered();
        let sink = sink(pages * 4096);
        b.conn.put_sink(b.now, rx, Tx(2), sink).unwrap();
        b.pump();
        assert_eq!(len_of(&b), 84);
    }
    let hdr = Bench::open(1).hdr_from_peer(0);
    for n in [1, 2, 17, 256, 257] {
        let frags = vec![frag(4096); n];
        let desc = DescOut {
            key: 1,
            frags: &frags,
        };
        let body = BodyOut::PutAck {
            src_cookie: Cookie(1),
            dst_cookie: Cookie(2),
            desc,
        };
        let mut buf = [0; 4096];
        let len = ko2iblnd_host::wire::emit(&hdr, &body, false, Endian::NATIVE, &mut buf).unwrap();
        assert_eq!(len, 72 + 12 * n);
        assert_eq!(Message::parse(&buf[..len]).unwrap().nob as usize, len);
    }
}

/// Nothing of a message that failed is left in its slot for the next one.
#[test]
fn lu_17189_a_reused_slot_starts_fresh() {
    let mut b = Bench::open(8);
    let (mut bad, mut good) = (Vec::new(), Vec::new());
    // Slots are used in turn, and their number is no multiple of five.
    assert_ne!(b.conn.limits().ops % 5, 0);
    for tx in 0..320 {
        if tx % 5 == 0 {
            bad.push(b.submit(tx, put(8192)).unwrap().idx);
            let cookie = b.cookie_sent(b.sent.len() - 1);
            b.recv_with(1, &BodyOut::PutNak(completion(cookie, -5)));
            b.complete_all();
            assert_eq!(b.status(tx), Some(-5));
        } else {
            let op = b.submit(tx, immediate(9)).unwrap();
            good.extend(bad.contains(&op.idx).then_some(op.idx));
            b.complete_all();
            b.recv_with(1, &BodyOut::Noop);
            let end = b.end(tx).unwrap();
            assert_eq!((end.done.status, end.drained), (0, false));
        }
    }
    assert!(!good.is_empty(), "no slot was used after a failure");
    b.tear_down();
}

/// What cannot be told apart lowers both sides.
#[test]
fn a9_no_answer_is_nobodys_fault() {
    for cause in [
        Cause::ConnectTimeout,
        Cause::Unreachable,
        Cause::WaitTimeout,
    ] {
        assert_eq!(cause.outcome().health, Health::NetworkTimeout);
    }
}
