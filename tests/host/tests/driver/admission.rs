// SPDX-License-Identifier: GPL-2.0

//! Who is admitted.

use std::cell::Cell;

use ko2iblnd_host::driver::admission::*;
use ko2iblnd_host::driver::handshake::{Encoding, Proposal};
use ko2iblnd_host::proto::passive::{ConnReq, NiInfo, Refusal, RefuseCause};
use ko2iblnd_host::proto::peer::Offer;
use ko2iblnd_host::proto::{DeviceCaps, Limits, NiTunables, Span};
use ko2iblnd_host::wire::{Endian, Nid, ParseError, Reject, RejectReason, Stamp, Version};

const ADDR: u32 = 0xc0a8_0106;
const NI: NiInfo = NiInfo {
    nid: Nid::o2ib(0, 0xc0a8_0105),
    stamp: Stamp(17),
    peer_credits: 8,
};

/// A request of the node with address [`ADDR`], to [`NI`].
fn connreq() -> [u8; 56] {
    let tunables = NiTunables {
        peer_credits: 8,
        credits_hiw: 4,
        concurrent_sends: 8,
        max_frags: 257,
        wrq_sge: 2,
        timeout: Span::from_secs(50),
        connect_timeout: Span::from_secs(12),
        keepalive: None,
        conns_per_peer: 1,
        cksum: false,
    };
    let caps = DeviceCaps {
        max_qp_wr: 16_384,
        max_cqe: 32_767,
        max_send_sge: 30,
        max_mr_pages: 256,
    };
    let limits = Limits::new(&tunables, &caps, Version::V2, None).unwrap();
    let from = NiInfo {
        nid: Nid::o2ib(0, ADDR),
        stamp: Stamp(5),
        peer_credits: 8,
    };
    let offer = Offer {
        queue_depth: 8,
        max_frags: 257,
    };
    let proposal = Proposal {
        peer: NI.nid,
        version: Version::V2,
        offer,
        dst_stamp: Stamp::UNKNOWN,
    };
    let encoding = Encoding {
        cksum: true,
        endian: Endian::NATIVE,
    };
    proposal.connreq(&from, &limits, encoding).unwrap()
}

fn request(private: &[u8]) -> Request<'_> {
    Request {
        private,
        addr: Some(ADDR),
        port: 1000,
        privileged: true,
    }
}

const FOUND: Found = Found {
    info: NI,
    on_listener: true,
    in_service: true,
};

/// What is found, and whether the NIs of the listener are complete.
fn try_judge(
    request: &Request<'_>,
    found: Option<Found>,
    complete: bool,
) -> Result<ConnReq, Refusal> {
    let find = |nid| {
        assert_eq!(nid, NI.nid);
        found.map(|found| ("the NI", found))
    };
    let judged = judge(request, || (), find, || complete);
    judged.map(|(ni, req)| {
        assert_eq!(ni, "the NI");
        req
    })
}

fn refused(
    request: &Request<'_>,
    found: Option<Found>,
    complete: bool,
) -> (RejectReason, RefuseCause) {
    let refusal = try_judge(request, found, complete).unwrap_err();
    (refusal.reject.why, refusal.cause)
}

#[test]
fn a_good_request_is_admitted() {
    let req = try_judge(&request(&connreq()), Some(FOUND), true).unwrap();
    let want = ConnReq {
        peer: Nid::o2ib(0, ADDR),
        stamp: Stamp(5),
        version: Version::V2,
        queue_depth: 8,
        max_frags: 257,
    };
    assert_eq!(req, want);
}

#[test]
fn a_request_is_for_an_ni_that_is_there() {
    let bytes = connreq();
    let req = request(&bytes);
    let nid = NI.nid;
    let elsewhere = Found {
        on_listener: false,
        ..FOUND
    };
    let why = (RejectReason::Fatal, RefuseCause::WrongDevice { nid });
    assert_eq!(refused(&req, Some(elsewhere), true), why);
    let stopped = Found {
        in_service: false,
        ..FOUND
    };
    let early = (RejectReason::Early, RefuseCause::NotReady { nid });
    assert_eq!(refused(&req, Some(stopped), true), early);
    // Elsewhere, and not in service: it will never be here.
    let both = Found {
        in_service: false,
        ..elsewhere
    };
    assert_eq!(refused(&req, Some(both), true), why);
    assert_eq!(refused(&req, None, false), early);
    let hopeless = (RejectReason::Fatal, RefuseCause::NoNi { nid });
    assert_eq!(refused(&req, None, true), hopeless);
}

#[test]
fn a_request_comes_from_its_own_address_and_port() {
    let bytes = connreq();
    let src = Nid::o2ib(0, ADDR);
    for addr in [None, Some(ADDR + 1)] {
        let req = Request {
            addr,
            ..request(&bytes)
        };
        let forged = (RejectReason::Fatal, RefuseCause::Forged { src });
        assert_eq!(refused(&req, Some(FOUND), true), forged);
    }
    let port = Request {
        port: 1024,
        ..request(&bytes)
    };
    let cause = RefuseCause::Port { port: 1024 };
    assert_eq!(
        refused(&port, Some(FOUND), true),
        (RejectReason::Fatal, cause)
    );
    let any = Request {
        privileged: false,
        ..port
    };
    assert!(try_judge(&any, Some(FOUND), true).is_ok());
}

#[test]
fn what_can_be_read_is_counted() {
    let bytes = connreq();
    for (private, addr, want) in [
        (&bytes[..], Some(ADDR), 1),
        (&bytes[..], None, 1),
        (&bytes[..20], Some(ADDR), 0),
    ] {
        let seen = Cell::new(0);
        let req = Request {
            addr,
            ..request(private)
        };
        let _ = judge(
            &req,
            || seen.set(seen.get() + 1),
            |_| Some(((), FOUND)),
            || true,
        );
        assert_eq!(seen.get(), want);
    }
}

#[test]
fn the_nis_of_a_listener_are_complete() {
    assert!(!is_complete([].into_iter()));
    assert!(is_complete([true].into_iter()));
    assert!(is_complete([true, true].into_iter()));
    assert!(!is_complete([true, false].into_iter()));
    assert!(!is_complete([false, true].into_iter()));
}

#[test]
fn limits_of_what_is_under_way() {
    assert!(has_room(0) && has_room(1023));
    assert!(!has_room(1024) && !has_room(u64::MAX));
    assert!(peer_has_room(0) && peer_has_room(31));
    assert!(!peer_has_room(32) && !peer_has_room(u32::MAX));
    assert!(may_serve(0, 256) && may_serve(1023, 256));
    assert!(!may_serve(1024, 256) && !may_serve(0, 0));
    assert!(may_serve(u32::MAX - 1, u32::MAX));
}

#[test]
fn without_resources_the_requester_is_told_so() {
    let req = try_judge(&request(&connreq()), Some(FOUND), true).unwrap();
    for version in [Version::V1, Version::V2] {
        let req = ConnReq { version, ..req };
        for (pending, cause) in [
            (false, RefuseCause::NoResources),
            (true, RefuseCause::TooManyPending),
        ] {
            let refusal = no_resources(&NI, &req, pending);
            assert_eq!(refusal.cause, cause);
            assert_eq!(
                refusal.reject,
                NI.reject(version, RejectReason::NoResources)
            );
        }
    }
}

#[test]
fn refusals_are_counted_by_kind() {
    let nid = NI.nid;
    let found = Stamp(1);
    let cases = [
        (RefuseCause::Forged { src: nid }, RefusalKind::Forged),
        (RefuseCause::Port { port: 1 }, RefusalKind::Port),
        (RefuseCause::NotReady { nid }, RefusalKind::Early),
        (RefuseCause::TooManyPending, RefusalKind::Pending),
        (RefuseCause::NoResources, RefusalKind::NoResources),
        (RefuseCause::StaleDst { found }, RefusalKind::Stale),
        (RefuseCause::StaleSrc { found }, RefusalKind::Stale),
        (RefuseCause::Race, RefusalKind::Race),
        (RefuseCause::NoNi { nid }, RefusalKind::Bad),
        (RefuseCause::WrongDevice { nid }, RefusalKind::Bad),
        (RefuseCause::ZeroParams, RefusalKind::Bad),
        (RefuseCause::UnifiedMagic, RefusalKind::Bad),
    ];
    for (cause, kind) in cases {
        assert_eq!(RefusalKind::from(&cause), kind, "{cause:?}");
    }
    // Made without an NI.
    let short = refused(&request(&[0; 3]), None, true).1;
    assert!(
        matches!(short, RefuseCause::Parse(ParseError::TooShort { .. })),
        "{short:?}"
    );
    assert_eq!(RefusalKind::from(&short), RefusalKind::Bad);
    let reject = try_judge(&request(&[0; 3]), None, true).unwrap_err().reject;
    assert_eq!(reject, Reject::anonymous(RejectReason::Fatal));
}
