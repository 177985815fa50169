// SPDX-License-Identifier: GPL-2.0

//! What people read: every finding of the engine and of the parsers is a line of its own.

use crate::common::*;
use ko2iblnd_host::proto::cause::Violation;
use ko2iblnd_host::proto::chain::ChainError;
use ko2iblnd_host::proto::conn::Role;
use ko2iblnd_host::proto::passive::RefuseCause;
use ko2iblnd_host::proto::{Cause, LimitError, RxId, WrId};
use ko2iblnd_host::wire::{
    Checksum, EmitError, Endian, IdentityError, LnetMsgType, MsgType, Nid, ParseError, RejectError,
    RejectReason, Stamp,
};
use std::collections::BTreeSet;
use std::fmt::{Debug, Display};

/// Short lines without line breaks, all different, each with the numbers that it is about.
fn lines<T: Debug + Display>(items: &[T], numbers: &[&str]) {
    let mut seen = BTreeSet::new();
    let mut all = String::new();
    for item in items {
        let line = item.to_string();
        assert!(
            !line.is_empty() && line.len() < 120 && line.is_ascii() && !line.contains('\n'),
            "{item:?}: {line}"
        );
        all.push_str(&line);
        all.push('\n');
        assert!(seen.insert(line), "{item:?} reads like another");
    }
    for number in numbers {
        assert!(all.contains(number), "no {number} in {all}");
    }
}

const LIMITS: [LimitError; 6] = [
    LimitError::ZeroDepth,
    LimitError::ZeroFrags,
    LimitError::DepthTooLarge {
        found: 111,
        limit: 112,
    },
    LimitError::FragsTooLarge {
        found: 113,
        limit: 114,
    },
    LimitError::MsgTooLarge { found: 115 },
    LimitError::DeviceTooSmall,
];

const CHAINS: [ChainError; 4] = [
    ChainError::SourceTooShort,
    ChainError::SinkTooShort,
    ChainError::TooManyWrites,
    ChainError::BadArgument,
];

const IDENTITIES: [IdentityError; 4] = [
    IdentityError::SrcNid {
        found: US,
        expected: THEM,
    },
    IdentityError::DstNid {
        found: THEM,
        expected: US,
    },
    IdentityError::SrcStamp {
        found: Stamp(0x121),
        expected: Stamp(0x122),
    },
    IdentityError::DstStamp {
        found: Stamp(0x123),
        expected: Stamp(0x124),
    },
];

fn violations() -> Vec<Violation> {
    let mut all = vec![
        Violation::TooManyCredits {
            held: 131,
            given: 132,
        },
        Violation::NoCredit(MsgType::Noop),
        Violation::WrongType(MsgType::ConnReq),
        Violation::WrongLnetType(MsgType::Immediate),
        Violation::DescTooLong {
            desc: 133,
            msg: 134,
        },
        Violation::NoSuchCookie(MsgType::PutAck),
        Violation::ReplyTooLong {
            status: 135,
            sink: 136,
        },
        Violation::BadConnAck,
    ];
    all.extend(LIMITS.map(Violation::BadParams));
    all
}

#[test]
fn findings_of_the_engine() {
    lines(&LIMITS, &["111", "112", "113", "114", "115"]);
    lines(&CHAINS, &[]);
    lines(&violations(), &["131", "132", "133", "134", "135", "136"]);
    let mut causes = vec![
        Cause::NoMemory,
        Cause::Unreachable,
        Cause::ConnectTimeout,
        Cause::WaitTimeout,
        Cause::Rejected,
        Cause::ConnectFailed(-141),
        Cause::PeerGone,
        Cause::Deleted,
        Cause::Disconnected,
        Cause::Timeout,
        Cause::NewIncarnation,
        Cause::BadMessage(ParseError::SrcNidAny),
        Cause::SendFailed(142),
        Cause::RecvFailed,
        Cause::Flushed,
        Cause::PostFailed(-143),
        Cause::LnetRefused(-144),
        Cause::BadCompletion,
        Cause::BadInput,
        Cause::CqError,
        Cause::DeviceGone,
        Cause::TooMany,
        Cause::Remote(-145),
    ];
    causes.extend(violations().into_iter().map(Cause::Protocol));
    causes.extend(IDENTITIES.map(Cause::Stale));
    causes.extend(CHAINS.map(Cause::Descriptor));
    lines(&causes, &["-141", "142", "-143", "-144", "-145"]);
}

#[test]
fn findings_of_the_parsers() {
    lines(&IDENTITIES, &["121", "122", "123", "124"]);
    let emits = [
        EmitError::BufferTooSmall {
            need: 151,
            have: 152,
        },
        EmitError::SrcNidAny,
        EmitError::PayloadTooLong { payload_len: 153 },
        EmitError::PayloadMismatch {
            payload_len: 154,
            given: 155,
        },
        EmitError::BadFragCount { nfrags: 156 },
        EmitError::FragSumOverflow,
    ];
    lines(&emits, &["151", "152", "153", "154", "155", "156"]);
    let rejects = [
        RejectError::TooShort { len: 161 },
        RejectError::BadMagic { magic: 0x162 },
    ];
    lines(&rejects, &["161", "0x00000162"]);
    let types = [
        LnetMsgType::Ack,
        LnetMsgType::Put,
        LnetMsgType::Get,
        LnetMsgType::Reply,
        LnetMsgType::Hello,
        LnetMsgType::Unknown(0x171),
    ];
    lines(&types, &["0x171"]);
    let reasons: Vec<_> = (0..=10).map(RejectReason::Unknown).collect();
    lines(&reasons, &["10"]);
    let reasons = [
        RejectReason::ConnRace,
        RejectReason::NoResources,
        RejectReason::Fatal,
        RejectReason::ConnUncompat,
        RejectReason::ConnStale,
        RejectReason::RdmaFrags,
        RejectReason::MsgQueueSize,
        RejectReason::InvalidSrvId,
        RejectReason::Early,
    ];
    lines(&reasons, &["CONN_RACE", "EARLY"]);
}

#[test]
fn reasons_to_refuse_a_request() {
    let nid = Nid::o2ib(3, 0x0a00_0001);
    let causes = [
        RefuseCause::Forged { src: nid },
        RefuseCause::Port { port: 1024 },
        RefuseCause::Parse(ParseError::SrcNidAny),
        RefuseCause::UnifiedMagic,
        RefuseCause::NoNi { nid },
        RefuseCause::NotReady { nid },
        RefuseCause::WrongDevice { nid },
        RefuseCause::StaleDst {
            found: Stamp(0x181),
        },
        RefuseCause::NotConnReq {
            kind: MsgType::Noop,
        },
        RefuseCause::ZeroParams,
        RefuseCause::QueueDepth {
            asked: 182,
            limit: 183,
        },
        RefuseCause::Frags { asked: 184 },
        RefuseCause::MsgSize { asked: 185 },
        RefuseCause::StaleSrc {
            found: Stamp(0x186),
        },
        RefuseCause::Race,
        RefuseCause::TooManyPending,
        RefuseCause::NoResources,
    ];
    let numbers = ["1024", "181", "182", "183", "184", "185", "186", "10.0.0.1"];
    lines(&causes, &numbers);
}

#[test]
fn ids_in_a_log() {
    let ids = [
        WrId::recv(RxId(191), 192),
        WrId::send(193),
        WrId::SENTINEL_SQ,
        WrId::SENTINEL_RQ,
    ];
    let all: Vec<_> = ids.iter().map(|wr| format!("{wr:?}")).collect();
    assert!(all[0].contains("191") && all[0].contains("192"), "{all:?}");
    assert!(all[1].contains("193"), "{all:?}");
    assert!(all[2] != all[3], "{all:?}");
}

/// The dump of a connection has the fields that the C driver's has, and the cause when there is
/// one.
#[test]
fn dump_of_a_connection() {
    let mut b = Bench::connecting(Role::Active, &tunables(8));
    assert!(b.conn.snapshot().to_string().starts_with("state 1 depth 8"));
    let ack = connack(params(5, 257));
    let ack = ko2iblnd_host::wire::Message::parse(&ack);
    b.conn.handle_established(b.now, Some(ack));
    b.pump();
    b.send_immediate(1);
    b.send_put(2, 8192);
    b.send_get(3, 8192);
    b.recv_put_req(4);
    let open = b.conn.snapshot().to_string();
    for part in [
        "state 3",
        "depth 5",
        "credits 2",
        "reserved 3",
        "noops/sends 0/3",
        "sq 4",
        "lnet 1",
        "ops 3 (3 ours)",
        "queued rsrvd 0 credit 0 nocred 0 inv 0 drain 0",
        "alive 1 s",
        "msgs rx 1 tx 3 noops 0 writes 0",
    ] {
        assert!(open.contains(part), "no \"{part}\" in {open}");
    }
    assert!(!open.contains("error"), "{open}");
    b.conn.close(b.now, Cause::Timeout);
    let closed = b.conn.snapshot().to_string();
    assert!(
        closed.contains("state 4") && closed.contains("error -110 (a message was"),
        "{closed}"
    );
    b.tear_down();
    assert!(b.conn.snapshot().to_string().contains("state 5"));
}

#[test]
fn small_helpers() {
    assert_eq!(Endian::Little.opposite(), Endian::Big);
    assert_eq!(Endian::Big.opposite(), Endian::Little);
    let (a, b) = (Checksum::default(), Checksum::new());
    assert_eq!(a.finish(), b.finish());
}
