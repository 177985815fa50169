// SPDX-License-Identifier: GPL-2.0

//! What LNet's word about a received message is answered with.

use ko2iblnd_host::driver::recv::{payload, prepare, Answer, Incoming};
use ko2iblnd_host::proto::chain::ChainError;
use ko2iblnd_host::proto::conn::{Delivery, Sink};
use ko2iblnd_host::proto::Done;
use ko2iblnd_host::wire::{emit, BodyOut, Cookie, Header, LnetHdr, Nid, Stamp, Version};
use ko2iblnd_host::wire::{Body, Desc, DescOut, Endian, Frag, Message};

/// A message of so many bytes, and how its memory behaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fake {
    errno: i32,
    copied: u32,
    attached: u32,
}

const SINK: Sink = Sink {
    key: 7,
    addr: 8,
    nob: 9,
};

impl Incoming for Fake {
    type Msg = u32;
    type Tx = &'static str;

    fn wanted(&self, msg: &u32) -> u32 {
        *msg
    }

    fn offered(&self, msg: &u32) -> u32 {
        *msg
    }

    fn copy(&mut self, msg: &u32) -> Result<(), i32> {
        self.copied = *msg;
        self.failed()
    }

    fn map_sink(&mut self, _msg: &u32) -> Result<(&'static str, Sink), i32> {
        self.failed().map(|()| ("sink", SINK))
    }

    fn map_source(&mut self, _msg: &u32) -> Result<&'static str, i32> {
        self.failed().map(|()| "source")
    }

    fn plan(&mut self, tx: &mut &'static str, _sink: Desc, len: u32) -> Result<u16, ChainError> {
        assert_eq!(*tx, "source");
        match len {
            100 => Err(ChainError::SinkTooShort),
            _ => Ok(3),
        }
    }

    fn attach(&mut self, _tx: &mut &'static str, msg: u32) {
        self.attached = msg;
    }

    fn end(&mut self, _msg: u32, _status: i32) {}

    fn finish(&mut self, _tx: &'static str, _done: Done) {}
}

impl Fake {
    fn failed(&self) -> Result<(), i32> {
        match self.errno {
            0 => Ok(()),
            errno => Err(errno),
        }
    }
}

fn fails(errno: i32) -> Fake {
    Fake {
        errno,
        ..Fake::default()
    }
}

/// Where the descriptor of a GET_REQ is.
fn desc() -> Desc {
    let hdr = Header {
        version: Version::V2,
        credits: 0,
        src: Nid::o2ib(0, 1),
        src_stamp: Stamp(1),
        dst: Nid::o2ib(0, 2),
        dst_stamp: Stamp(2),
    };
    let frags = &[Frag { nob: 50, addr: 0 }][..];
    let body = BodyOut::GetReq {
        hdr: LnetHdr::from_bytes(&[0; 72]),
        cookie: Cookie(1),
        desc: DescOut { key: 1, frags },
    };
    let mut buf = [0; 4096];
    let len = emit(&hdr, &body, false, Endian::NATIVE, &mut buf).unwrap();
    match Message::parse(&buf[..len]).unwrap().body {
        Body::GetReq { desc, .. } => desc.desc(),
        other => panic!("{other:?}"),
    }
}

/// What an answer says: kind, status, and the message that ends with which status.
fn said(answer: Answer<u32, &'static str>) -> (&'static str, i32, Option<(u32, i32)>) {
    match answer {
        Answer::Done { end } => ("done", 0, end),
        Answer::Nak { status, end } => ("nak", status, end),
        Answer::NoData { status, end } => ("no data", status, end),
        Answer::Sink { tx, sink } => {
            assert_eq!((tx, sink), ("sink", SINK));
            ("sink", 0, None)
        }
        Answer::Source { tx, len, writes } => {
            assert_eq!(tx, "source");
            (
                if writes.is_ok() { "source" } else { "none" },
                len as i32,
                None,
            )
        }
    }
}

#[test]
fn an_immediate_gives_its_buffer_back() {
    let mut fake = Fake::default();
    assert_eq!(
        said(prepare(&mut fake, Delivery::Immediate, None)),
        ("done", 0, None)
    );
    assert_eq!(fake, Fake::default());
    let answer = prepare(&mut fake, Delivery::Immediate, Some(5));
    assert_eq!(said(answer), ("done", 0, Some((5, 0))));
    assert_eq!(fake.copied, 5);
    // An empty one, too: there may be nothing to copy it to.
    let answer = prepare(&mut fake, Delivery::Immediate, Some(0));
    assert_eq!(said(answer), ("done", 0, Some((0, 0))));
    let answer = prepare(&mut fails(-14), Delivery::Immediate, Some(5));
    assert_eq!(said(answer), ("done", 0, Some((5, -14))));
}

#[test]
fn a_put_is_taken_or_refused() {
    // Discarded and empty: nothing is wrong.
    let answer = |fake: &mut Fake, msg| said(prepare(fake, Delivery::PutReq, msg));
    assert_eq!(answer(&mut Fake::default(), None), ("nak", 0, None));
    assert_eq!(answer(&mut fails(-12), Some(0)), ("nak", 0, Some((0, 0))));
    let mut fake = Fake::default();
    assert_eq!(answer(&mut fake, Some(9)), ("sink", 0, None));
    assert_eq!(fake.attached, 9);
    // The sender and LNet here are told the same.
    assert_eq!(
        answer(&mut fails(-12), Some(9)),
        ("nak", -12, Some((9, -12)))
    );
    assert_eq!(
        answer(&mut fails(-100), Some(9)),
        ("nak", -100, Some((9, -100)))
    );
}

#[test]
fn a_get_is_served_or_not() {
    let kind = Delivery::GetReq { desc: desc() };
    let answer = |fake: &mut Fake, msg| said(prepare(fake, kind, msg));
    // Nothing matched: no data. Matched and empty: an empty reply.
    assert_eq!(answer(&mut Fake::default(), None), ("no data", -61, None));
    assert_eq!(
        answer(&mut fails(-12), Some(0)),
        ("no data", 0, Some((0, 0)))
    );
    let mut fake = Fake::default();
    assert_eq!(answer(&mut fake, Some(9)), ("source", 9, None));
    assert_eq!(fake.attached, 9);
    // The engine tells the requester.
    assert_eq!(answer(&mut Fake::default(), Some(100)), ("none", 100, None));
    assert_eq!(
        answer(&mut fails(-12), Some(9)),
        ("no data", -12, Some((9, -12)))
    );
}

#[test]
fn no_more_is_copied_than_came() {
    let buf: Vec<u8> = (0..130).collect();
    assert_eq!(payload(&buf, 0), Ok(&[][..]));
    assert_eq!(payload(&buf, 10), Ok(&buf[120..130]));
    assert_eq!(payload(&buf, 11), Err(-71));
    assert_eq!(payload(&buf, u32::MAX), Err(-71));
    assert_eq!(payload(&buf[..60], 0), Err(-71));
}
