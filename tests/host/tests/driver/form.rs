// SPDX-License-Identifier: GPL-2.0

//! Which form a message takes (protocol.md 10.1).

use ko2iblnd_host::driver::form::{Form, Request};
use ko2iblnd_host::wire::LnetMsgType;

const MAX: u32 = 3976;

const NOTHING: Request = Request {
    kind: LnetMsgType::Ack,
    payload: 0,
    md_len: 0,
    gpu: false,
    routing: false,
    to_router: false,
};

fn get(md_len: u32) -> Request {
    Request {
        kind: LnetMsgType::Get,
        md_len,
        ..NOTHING
    }
}

#[test]
fn an_ack_is_immediate() {
    assert_eq!(NOTHING.form(), Form::Immediate(0));
    // Whatever else is said about it.
    let ack = Request {
        gpu: true,
        routing: true,
        to_router: true,
        md_len: 1 << 20,
        ..NOTHING
    };
    assert_eq!(ack.form(), Form::Immediate(0));
}

#[test]
fn a_put_or_reply_goes_by_its_payload() {
    for kind in [LnetMsgType::Put, LnetMsgType::Reply] {
        let put = |payload, gpu| {
            let md_len = 1 << 20;
            Request {
                kind,
                payload,
                md_len,
                gpu,
                ..NOTHING
            }
        };
        assert_eq!(put(0, false).form(), Form::Immediate(0));
        assert_eq!(put(MAX, false).form(), Form::Immediate(MAX));
        assert_eq!(put(MAX + 1, false).form(), Form::Put(MAX + 1));
        assert_eq!(put(1 << 20, false).form(), Form::Put(1 << 20));
        // The CPU may not copy a GPU's memory, of which nothing is copied when there is none.
        assert_eq!(put(0, true).form(), Form::Immediate(0));
        assert_eq!(put(1, true).form(), Form::Put(1));
        // A router forwards by RDMA what is large.
        let forwarded = Request {
            routing: true,
            to_router: true,
            ..put(MAX + 1, false)
        };
        assert_eq!(forwarded.form(), Form::Put(MAX + 1));
    }
}

#[test]
fn a_get_goes_by_its_sink() {
    assert_eq!(get(0).form(), Form::Immediate(0));
    assert_eq!(get(MAX).form(), Form::Immediate(0));
    assert_eq!(get(MAX + 1).form(), Form::Get(MAX + 1));
    let gpu = |md_len| Request {
        gpu: true,
        ..get(md_len)
    };
    assert_eq!(gpu(0).form(), Form::Immediate(0));
    assert_eq!(gpu(1).form(), Form::Get(1));
}

#[test]
fn a_get_by_way_of_a_router_has_no_sink() {
    // The router cannot write to it; the reply comes as a message of its own.
    for (routing, to_router) in [(true, false), (false, true), (true, true)] {
        for gpu in [false, true] {
            let request = Request {
                routing,
                to_router,
                gpu,
                ..get(1 << 20)
            };
            assert_eq!(request.form(), Form::Immediate(0), "{request:?}");
        }
    }
}

#[test]
fn nothing_else_is_sent() {
    for kind in [LnetMsgType::Hello, LnetMsgType::Unknown(7)] {
        let request = Request { kind, ..NOTHING };
        assert_eq!(request.form(), Form::Unsupported);
    }
}
