// SPDX-License-Identifier: GPL-2.0

//! What a connection request and its answer say.

use ko2iblnd_host::driver::handshake::{accepted_identity, connack, Encoding, Proposal};
use ko2iblnd_host::proto::passive::{ConnReq, NiInfo};
use ko2iblnd_host::proto::peer::Offer;
use ko2iblnd_host::proto::{DeviceCaps, Limits, NiTunables, Span};
use ko2iblnd_host::wire::{Body, ConnParams, Endian, Header, Message, Nid, Stamp, Version};

const NI: NiInfo = NiInfo {
    nid: Nid::o2ib(0, 0xc0a8_0105),
    stamp: Stamp(17),
    peer_credits: 32,
};
const PEER: Nid = Nid::o2ib(0, 0xc0a8_0106);
const ENCODING: Encoding = Encoding {
    cksum: false,
    endian: Endian::NATIVE,
};

fn limits(version: Version, offer: Offer) -> Limits {
    let tunables = NiTunables {
        peer_credits: 32,
        credits_hiw: 16,
        concurrent_sends: 32,
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
    let offer = Some((offer.queue_depth, offer.max_frags));
    Limits::new(&tunables, &caps, version, offer).unwrap()
}

const fn offer(queue_depth: u16, max_frags: u16) -> Offer {
    Offer {
        queue_depth,
        max_frags,
    }
}

fn params(queue_depth: u16, max_frags: u16) -> ConnParams {
    ConnParams {
        queue_depth,
        max_frags,
        max_msg_size: 4096,
    }
}

#[test]
fn a_request_proposes_what_was_made() {
    for version in [Version::V1, Version::V2] {
        let proposal = Proposal {
            peer: PEER,
            version,
            offer: offer(8, 257),
            dst_stamp: Stamp(99),
        };
        let made = limits(version, offer(8, 200));
        let bytes = proposal.connreq(&NI, &made, ENCODING).unwrap();
        let msg = Message::parse(&bytes).unwrap();
        let hdr = Header {
            version,
            credits: 0,
            src: NI.nid,
            src_stamp: NI.stamp,
            dst: PEER,
            dst_stamp: Stamp(99),
        };
        assert_eq!(msg.hdr, hdr);
        assert_eq!(msg.body, Body::ConnReq(params(8, 200)));
        // What the CONNACK has to name is known when it comes.
        let ident = proposal.identity(&NI);
        assert_eq!((ident.local, ident.local_stamp), (NI.nid, NI.stamp));
        assert_eq!((ident.peer, ident.peer_stamp), (PEER, Stamp::UNKNOWN));
    }
}

#[test]
fn a_lower_offer_is_reported() {
    let proposal = Proposal {
        peer: PEER,
        version: Version::V2,
        offer: offer(8, 257),
        dst_stamp: Stamp::UNKNOWN,
    };
    let lowered = |depth, frags| proposal.lowered(&limits(Version::V2, offer(depth, frags)));
    assert_eq!(lowered(8, 257), None);
    assert_eq!(lowered(7, 257), Some(offer(7, 257)));
    assert_eq!(lowered(8, 256), Some(offer(8, 256)));
}

#[test]
fn an_answer_names_both_incarnations() {
    for version in [Version::V1, Version::V2] {
        let req = ConnReq {
            peer: PEER,
            stamp: Stamp(1234),
            version,
            queue_depth: 8,
            max_frags: 100,
        };
        let ident = accepted_identity(&NI, &req);
        let made = limits(version, offer(8, 100));
        let bytes = connack(&ident, &made, ENCODING).unwrap();
        let msg = Message::parse(&bytes).unwrap();
        let hdr = Header {
            version,
            credits: 0,
            src: NI.nid,
            src_stamp: NI.stamp,
            dst: PEER,
            dst_stamp: Stamp(1234),
        };
        assert_eq!(msg.hdr, hdr);
        assert_eq!(msg.body, Body::ConnAck(params(8, 100)));
    }
}

#[test]
fn checksum_and_byte_order_are_the_callers() {
    let proposal = Proposal {
        peer: PEER,
        version: Version::V2,
        offer: offer(8, 257),
        dst_stamp: Stamp::UNKNOWN,
    };
    let made = limits(Version::V2, offer(8, 257));
    for (cksum, endian) in [(false, Endian::Big), (true, Endian::Little)] {
        let bytes = proposal.connreq(&NI, &made, Encoding { cksum, endian });
        let bytes = bytes.unwrap();
        let msg = Message::parse(&bytes).unwrap();
        assert_eq!(msg.swapped, endian != Endian::NATIVE);
        let plain = proposal.connreq(
            &NI,
            &made,
            Encoding {
                cksum: false,
                endian,
            },
        );
        assert_eq!(bytes != plain.unwrap(), cksum);
    }
}
