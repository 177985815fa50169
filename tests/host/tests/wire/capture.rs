// SPDX-License-Identifier: GPL-2.0

//! The C driver's own bytes: every message of a capture of RoCEv2 frames parses, and is emitted
//! again to the same bytes.
//!
//! `data/c-driver-both-ends.pcap` has the traffic of two nodes that both run the C driver: ping,
//! and brw read and write of 1k and 8k.

use crate::samples::{emitted, with_out};
use ko2iblnd_host::wire::{Body, Endian, Identity, Message, MsgType, Nid, Stamp, Version, MAGIC};
use std::collections::BTreeMap;

const CAPTURE: &[u8] = include_bytes!("../../data/c-driver-both-ends.pcap");

/// RoCEv2's UDP port.
const ROCE_PORT: u16 = 4791;
/// Base transport header, in bytes.
const BTH: usize = 12;
/// Datagram extended transport header, in bytes.
const DETH: usize = 8;
/// Invariant checksum at the end of every frame, in bytes.
const ICRC: usize = 4;
/// Header that rdma_cm puts in front of the private data of a REQ, in bytes.
const CMA_HDR: usize = 36;

/// Messages by the two ways that they come.
#[derive(Default)]
struct Messages {
    /// Private data of CM messages, padded to what the CM message has room for.
    cm: Vec<Vec<u8>>,
    /// SENDs of reliable connections.
    rc: Vec<Vec<u8>>,
}

/// Puts the SENDs of each queue pair together.
#[derive(Default)]
struct Reassembly {
    /// By destination address and queue pair: the next packet number, and the bytes so far.
    partial: BTreeMap<(u32, u32), (u32, Vec<u8>)>,
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The Ethernet frames of a classic little-endian pcap file.
fn frames(pcap: &[u8]) -> Vec<&[u8]> {
    let le32 = |at: usize| u32::from_le_bytes(pcap[at..at + 4].try_into().unwrap());
    assert_eq!((le32(0), le32(20)), (0xa1b2_c3d4, 1), "an Ethernet capture");
    let mut frames = Vec::new();
    let mut at = 24;
    while at < pcap.len() {
        let (captured, original) = (le32(at + 8) as usize, le32(at + 12) as usize);
        assert_eq!(captured, original, "a frame was cut");
        frames.push(&pcap[at + 16..at + 16 + captured]);
        at += 16 + captured;
    }
    frames
}

/// Destination address and UDP payload of a RoCEv2 frame.
fn roce(frame: &[u8]) -> Option<(u32, &[u8])> {
    let ip = frame.get(14..)?;
    if be16(frame, 12) != 0x0800 || ip[9] != 17 {
        return None;
    }
    let udp = &ip[usize::from(ip[0] & 0xf) * 4..];
    let len = usize::from(be16(udp, 4));
    (be16(udp, 2) == ROCE_PORT).then(|| (be32(ip, 16), &udp[8..len]))
}

/// The LNet part of the private data of a connection management datagram.
fn private_data(mad: &[u8]) -> Option<&[u8]> {
    const CM_CLASS: u8 = 0x07;
    if mad[1] != CM_CLASS {
        return None;
    }
    match be16(mad, 16) {
        0x0010 => Some(&mad[24 + 140 + CMA_HDR..]),
        0x0013 => Some(&mad[24 + 36..]),
        // RTU, DREQ and DREP carry nothing of ours.
        _ => None,
    }
}

impl Reassembly {
    /// Takes one packet of a SEND and returns the message when it is complete.
    fn send(&mut self, to: (u32, u32), opcode: u8, psn: u32, data: &[u8]) -> Option<Vec<u8>> {
        const FIRST: u8 = 0;
        const MIDDLE: u8 = 1;
        const LAST: u8 = 2;
        const ONLY: u8 = 4;
        if matches!(opcode, FIRST | ONLY) {
            self.partial.insert(to, (psn, Vec::new()));
        }
        let (next, bytes) = self.partial.get_mut(&to).expect("the first packet");
        assert_eq!(*next, psn, "a packet is missing");
        *next = (psn + 1) & 0xff_ffff;
        bytes.extend_from_slice(data);
        match opcode {
            FIRST | MIDDLE => None,
            LAST | ONLY => self.partial.remove(&to).map(|(_, bytes)| bytes),
            _ => panic!("not a SEND"),
        }
    }
}

/// All o2iblnd messages of a capture.
fn messages(pcap: &[u8]) -> Messages {
    let mut reassembly = Reassembly::default();
    let mut messages = Messages::default();
    for frame in frames(pcap) {
        let Some((dest, packet)) = roce(frame) else {
            continue;
        };
        let (opcode, flags) = (packet[0], packet[1]);
        let qp = be32(packet, 4) & 0xff_ffff;
        let psn = be32(packet, 8) & 0xff_ffff;
        let end = packet.len() - ICRC - usize::from((flags >> 4) & 3);
        match opcode {
            // Reliable connection: SEND first, middle, last, only.
            0 | 1 | 2 | 4 => {
                let data = &packet[BTH..end];
                let message = reassembly.send((dest, qp), opcode, psn, data);
                messages.rc.extend(message);
            }
            // RDMA WRITE first, middle, last, only; acknowledge.
            6 | 7 | 8 | 10 | 17 => {}
            // Unreliable datagram: SEND only.
            100 => {
                let mad = &packet[BTH + DETH..end];
                messages.cm.extend(private_data(mad).map(<[u8]>::to_vec));
            }
            other => panic!("opcode {other} was not expected in this capture"),
        }
    }
    assert!(reassembly.partial.is_empty(), "a message was not finished");
    messages
}

#[test]
fn every_message_parses_and_is_emitted_again() {
    let Messages { cm, rc } = messages(CAPTURE);
    assert_eq!((cm.len(), rc.len()), (2, 92));
    let mut counts: BTreeMap<u8, usize> = BTreeMap::new();
    for bytes in cm.iter().chain(&rc) {
        let msg = Message::parse(bytes).expect("a legal message");
        let nob = msg.nob as usize;
        assert_eq!(msg.hdr.version, Version::V2);
        assert_eq!(msg.swapped, Endian::Little.is_swapped());
        with_out(&msg.body, |out| {
            let again = emitted(&msg.hdr, out, false, Endian::Little);
            assert_eq!(again, bytes[..nob], "{}", msg.kind());
        });
        *counts.entry(msg.kind().to_wire()).or_default() += 1;
    }
    // The same counts as tshark's LNET dissector has for this file.
    let count = |kind: MsgType| counts.get(&kind.to_wire()).copied().unwrap_or(0);
    assert_eq!(
        MsgType::ALL.map(|kind| (kind, count(kind))),
        [
            (MsgType::ConnReq, 1),
            (MsgType::ConnAck, 1),
            (MsgType::Noop, 0),
            (MsgType::Immediate, 77),
            (MsgType::PutReq, 3),
            (MsgType::PutNak, 0),
            (MsgType::PutAck, 3),
            (MsgType::PutDone, 3),
            (MsgType::GetReq, 3),
            (MsgType::GetDone, 3),
        ]
    );
}

/// SENDs are exactly as long as they say; CM private data has room behind the message.
#[test]
fn lengths() {
    let Messages { cm, rc } = messages(CAPTURE);
    for bytes in &rc {
        assert_eq!(Message::parse(bytes).unwrap().nob as usize, bytes.len());
    }
    let lens: Vec<_> = cm.iter().map(Vec::len).collect();
    assert_eq!(lens, [56, 196]);
    assert!(cm.iter().all(|bytes| bytes[56..].iter().all(|&b| b == 0)));
}

/// Every message passes the identity check of the one connection in the capture, and not that of
/// any other.
#[test]
fn identities() {
    let Messages { cm, rc } = messages(CAPTURE);
    let request = Message::parse(&cm[0]).unwrap();
    let answer = Message::parse(&cm[1]).unwrap();
    let (Body::ConnReq(asked), Body::ConnAck(granted)) = (request.body, answer.body) else {
        panic!("not a CONNREQ and a CONNACK");
    };
    assert_eq!(asked, granted);
    assert_eq!((asked.queue_depth, asked.max_frags), (8, 257));
    assert_eq!(request.hdr.src.to_string(), "10.0.0.2@o2ib");
    assert_eq!(request.hdr.dst_stamp, Stamp::UNKNOWN);

    let passive = Identity {
        peer: request.hdr.src,
        peer_stamp: request.hdr.src_stamp,
        local: answer.hdr.src,
        local_stamp: answer.hdr.src_stamp,
    };
    let active = Identity {
        peer: passive.local,
        peer_stamp: passive.local_stamp,
        local: passive.peer,
        local_stamp: passive.peer_stamp,
    };
    for bytes in &rc {
        let hdr = Message::parse(bytes).unwrap().hdr;
        let to_passive = hdr.dst == passive.local;
        assert_eq!(hdr.check_identity(&passive).is_ok(), to_passive);
        assert_eq!(hdr.check_identity(&active).is_ok(), !to_passive);
        let rebooted = Identity {
            local_stamp: Stamp(passive.local_stamp.0 + 1),
            ..passive
        };
        assert!(hdr.check_identity(&rebooted).is_err());
        assert_ne!(hdr.src, Nid::ANY);
    }
}

/// The cookie of every request comes back in its answers.
#[test]
fn cookies_pair_up() {
    let Messages { rc, .. } = messages(CAPTURE);
    let (mut puts, mut acks, mut gets) = (Vec::new(), Vec::new(), Vec::new());
    let take = |open: &mut Vec<_>, cookie| {
        let at = open.iter().position(|&c| c == cookie);
        open.swap_remove(at.expect("an open request"));
    };
    for bytes in &rc {
        match Message::parse(bytes).unwrap().body {
            Body::PutReq { cookie, .. } => puts.push(cookie),
            Body::PutAck {
                src_cookie,
                dst_cookie,
                desc,
            } => {
                take(&mut puts, src_cookie);
                acks.push(dst_cookie);
                assert_eq!(desc.desc().total(), 8192);
            }
            Body::PutDone(done) => take(&mut acks, done.cookie),
            Body::GetReq { cookie, desc, .. } => {
                gets.push(cookie);
                assert_eq!(desc.desc().total(), 8192);
            }
            Body::GetDone(done) => {
                take(&mut gets, done.cookie);
                assert_eq!(done.status, 8192);
            }
            _ => {}
        }
    }
    assert!(puts.is_empty() && acks.is_empty() && gets.is_empty());
}

/// The capture has no SEND of more than one packet, so the reassembly is tried here.
#[test]
fn sends_of_several_packets() {
    let message: Vec<u8> = (0..100).collect();
    let mut reassembly = Reassembly::default();
    let (here, there) = ((1, 17), (2, 17));
    let mut send = |to, opcode, psn, range| reassembly.send(to, opcode, psn, range);
    assert_eq!(send(here, 0, 0xff_ffff, &message[..40]), None);
    assert_eq!(send(there, 4, 7, &message[..5]), Some(vec![0, 1, 2, 3, 4]));
    assert_eq!(send(here, 1, 0, &message[40..80]), None);
    assert_eq!(send(here, 2, 1, &message[80..]), Some(message.clone()));
    assert_eq!(MAGIC.to_le_bytes()[..], messages(CAPTURE).rc[0][..4]);
}
