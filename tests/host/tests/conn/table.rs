// SPDX-License-Identifier: GPL-2.0

//! The connection's part of `Documentation/state-table.md`: every state with every input, and
//! every phase of a message with everything that can happen to it. The page says what comes of
//! each; this test makes the tables anew and compares. `scripts/prove table-update` writes them.

use crate::common::*;
use ko2iblnd_host::proto::chain::ChainError;
use ko2iblnd_host::proto::conn::{Action, OutBody, Post, Role, WcStatus};
use ko2iblnd_host::proto::{Cause, DeviceCaps, Limits, OpId, RxId, Span, WrId};
use ko2iblnd_host::table::{check_page, rows_of, Table};
use ko2iblnd_host::wire::{
    BodyOut, Cookie, DescOut, LnetMsgType, Message, MsgType, Stamp, Version,
};

// --- states of a connection with every input -----------------------------------------------------

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    ConnectingActive,
    ConnectingPassive,
    Established,
    Closing,
    DrainingUnposted,
    DrainingPosted,
    DrainingSqFlushed,
    DrainingRqFlushed,
    DrainingStuck,
    Drained,
    DrainedForced,
}

/// Names of the columns; a state's variant in the engine stands first.
const STATES: [(State, &str); 11] = [
    (State::ConnectingActive, "Connecting, active"),
    (State::ConnectingPassive, "Connecting, passive"),
    (State::Established, "Established"),
    (State::Closing, "Closing"),
    (State::DrainingUnposted, "Draining, sentinels to be posted"),
    (State::DrainingPosted, "Draining, sentinels posted"),
    (State::DrainingSqFlushed, "Draining, send sentinel flushed"),
    (
        State::DrainingRqFlushed,
        "Draining, receive sentinel flushed",
    ),
    (State::DrainingStuck, "Draining, stuck"),
    (State::Drained, "Drained"),
    (State::DrainedForced, "Drained, forced"),
];

/// Buffers that LNet holds, when it can hold any.
struct Held {
    immediate: RxId,
    put: RxId,
    get: RxId,
}

/// A connection in a state. Once it was established: a SEND in flight (message 1), and LNet holds
/// an IMMEDIATE, a PUT_REQ and a GET_REQ.
fn prepared(state: State) -> (Bench, Held) {
    let mut held = Held {
        immediate: RxId(0),
        put: RxId(0),
        get: RxId(0),
    };
    let role = match state {
        State::ConnectingActive => Role::Active,
        _ => Role::Passive,
    };
    let mut b = Bench::connecting(role, &tunables(8));
    if matches!(state, State::ConnectingActive | State::ConnectingPassive) {
        return (b, held);
    }
    b.conn.handle_established(b.now, None);
    b.pump();
    b.send_immediate(1);
    b.recv_immediate(9);
    held.immediate = b.take_delivered().0;
    b.recv_put_req(5);
    held.put = b.take_delivered().0;
    b.recv_get_req(6, &[frag(8192)]);
    held.get = b.take_delivered().0;
    if state == State::Established {
        return (b, held);
    }
    b.conn.close(b.now, Cause::Deleted);
    b.pump();
    if state == State::Closing {
        return (b, held);
    }
    b.conn.handle_qp_error_state(b.now);
    let (now, sq) = (b.now, WrId::SENTINEL_SQ);
    let forced = matches!(state, State::DrainingStuck | State::DrainedForced);
    match state {
        State::DrainingUnposted => return (b, held),
        _ if forced => b.fail_post = Some(0),
        _ => {}
    }
    b.pump();
    match state {
        State::DrainingSqFlushed => b.conn.handle_send_completion(now, sq, WcStatus::Flushed),
        State::DrainingRqFlushed => b.conn.handle_recv_error(now, WrId::SENTINEL_RQ, true),
        State::Drained => b.flush(),
        State::DrainedForced => b.conn.handle_qp_destroyed(now),
        _ => {}
    }
    b.pump();
    (b, held)
}

/// One input: the call, which must be named as in the engine, and with what.
type Input = (&'static str, &'static str, fn(&mut Bench, &Held));

/// The oldest SEND in flight, or one that was.
fn send(b: &Bench) -> WrId {
    b.sq.front().map_or(WrId::send(0), |posted| posted.wr)
}

/// A receive that is posted, or one that was.
fn recv(b: &Bench) -> WrId {
    b.rq.front().copied().unwrap_or(WrId::recv(RxId(0), 1))
}

fn message(b: &mut Bench, credits: u8, stamp: Stamp, body: &BodyOut<'_>) {
    let mut hdr = b.hdr_from_peer(credits);
    hdr.src_stamp = stamp;
    if b.conn.role() == Role::Active && !b.conn.is_established() {
        hdr.src_stamp = THEIR_STAMP;
    }
    let wr = recv(b);
    let bytes = bytes(&hdr, body);
    b.conn
        .handle_msg(b.now, wr, &Message::parse(&bytes).unwrap());
}

fn from_peer(b: &mut Bench, body: &BodyOut<'_>) {
    message(b, 0, THEIR_STAMP, body);
}

fn whole(b: &mut Bench, kind: LnetMsgType) {
    let (hdr, payload) = (lnet(kind, 1), &[7]);
    from_peer(b, &BodyOut::Immediate { hdr, payload });
}

fn get_req(b: &mut Bench, total: u32) {
    let (hdr, cookie) = (get_hdr(8192), Cookie(12));
    let frags = [frag(total)];
    let desc = DescOut {
        key: 9,
        frags: &frags,
    };
    from_peer(b, &BodyOut::GetReq { hdr, cookie, desc });
}

fn connack_of(b: &mut Bench, depth: u16) {
    let ack = connack(params(depth, 257));
    b.conn.handle_established(b.now, Some(Message::parse(&ack)));
}

const INPUTS: &[Input] = &[
    ("handle_msg", "NOOP", |b, _| from_peer(b, &BodyOut::Noop)),
    ("handle_msg", "IMMEDIATE with a PUT", |b, _| {
        whole(b, LnetMsgType::Put);
    }),
    ("handle_msg", "IMMEDIATE with a HELLO", |b, _| {
        whole(b, LnetMsgType::Hello);
    }),
    ("handle_msg", "PUT_REQ", |b, _| {
        let (hdr, cookie) = (lnet(LnetMsgType::Put, 8192), Cookie(11));
        from_peer(b, &BodyOut::PutReq { hdr, cookie });
    }),
    ("handle_msg", "GET_REQ", |b, _| get_req(b, 8192)),
    ("handle_msg", "GET_REQ for more than its sink", |b, _| {
        get_req(b, 8193);
    }),
    ("handle_msg", "PUT_NAK for nothing", |b, _| {
        from_peer(b, &BodyOut::PutNak(completion(Cookie(1), 0)));
    }),
    ("handle_msg", "PUT_ACK for nothing", |b, _| {
        let frags = [frag(8192)];
        let desc = DescOut {
            key: 9,
            frags: &frags,
        };
        let (src_cookie, dst_cookie) = (Cookie(1), Cookie(2));
        from_peer(
            b,
            &BodyOut::PutAck {
                src_cookie,
                dst_cookie,
                desc,
            },
        );
    }),
    ("handle_msg", "PUT_DONE for nothing", |b, _| {
        from_peer(b, &BodyOut::PutDone(completion(Cookie(1), 0)));
    }),
    ("handle_msg", "GET_DONE for nothing", |b, _| {
        from_peer(b, &BodyOut::GetDone(completion(Cookie(1), 0)));
    }),
    ("handle_msg", "CONNREQ", |b, _| {
        from_peer(b, &BodyOut::ConnReq(params(8, 257)));
    }),
    ("handle_msg", "CONNACK", |b, _| {
        from_peer(b, &BodyOut::ConnAck(params(8, 257)));
    }),
    ("handle_msg", "NOOP that gives 9 credits", |b, _| {
        message(b, 9, THEIR_STAMP, &BodyOut::Noop);
    }),
    ("handle_msg", "NOOP of another incarnation", |b, _| {
        message(b, 0, Stamp(4711), &BodyOut::Noop);
    }),
    ("handle_msg", "for a receive that is not posted", |b, _| {
        let bytes = bytes(&b.hdr_from_peer(0), &BodyOut::Noop);
        let msg = Message::parse(&bytes).unwrap();
        b.conn.handle_msg(b.now, WrId::recv(RxId(999), 1), &msg);
    }),
    ("handle_bad_msg", "", |b, _| {
        let error = Message::parse(&[]).unwrap_err();
        b.conn.handle_bad_msg(b.now, recv(b), error);
    }),
    (
        "handle_bad_msg",
        "for a receive that is not posted",
        |b, _| {
            let error = Message::parse(&[]).unwrap_err();
            b.conn.handle_bad_msg(b.now, WrId::send(0), error);
        },
    ),
    ("handle_recv_error", "flushed", |b, _| {
        b.conn.handle_recv_error(b.now, recv(b), true);
    }),
    ("handle_recv_error", "failed", |b, _| {
        b.conn.handle_recv_error(b.now, recv(b), false);
    }),
    ("handle_recv_error", "send sentinel", |b, _| {
        b.conn.handle_recv_error(b.now, WrId::SENTINEL_SQ, true);
    }),
    ("handle_recv_error", "receive sentinel", |b, _| {
        b.conn.handle_recv_error(b.now, WrId::SENTINEL_RQ, true);
    }),
    ("handle_recv_error", "a SEND", |b, _| {
        b.conn.handle_recv_error(b.now, send(b), true);
    }),
    ("handle_send_completion", "success", |b, _| {
        b.conn
            .handle_send_completion(b.now, send(b), WcStatus::Success);
    }),
    ("handle_send_completion", "success, not the last", |b, _| {
        b.conn
            .handle_send_completion(b.now, send(b).not_last(), WcStatus::Success);
    }),
    ("handle_send_completion", "flushed", |b, _| {
        b.conn
            .handle_send_completion(b.now, send(b), WcStatus::Flushed);
    }),
    ("handle_send_completion", "flushed, not the last", |b, _| {
        b.conn
            .handle_send_completion(b.now, send(b).not_last(), WcStatus::Flushed);
    }),
    ("handle_send_completion", "error 12", |b, _| {
        b.conn
            .handle_send_completion(b.now, send(b), WcStatus::Error(12));
    }),
    ("handle_send_completion", "of nothing", |b, _| {
        b.conn
            .handle_send_completion(b.now, WrId::send(999), WcStatus::Success);
    }),
    ("handle_send_completion", "send sentinel", |b, _| {
        b.conn
            .handle_send_completion(b.now, WrId::SENTINEL_SQ, WcStatus::Flushed);
    }),
    ("handle_send_completion", "receive sentinel", |b, _| {
        b.conn
            .handle_send_completion(b.now, WrId::SENTINEL_RQ, WcStatus::Flushed);
    }),
    ("handle_send_completion", "a receive", |b, _| {
        b.conn
            .handle_send_completion(b.now, recv(b), WcStatus::Success);
    }),
    ("handle_unknown_completion", "", |b, _| {
        b.conn.handle_unknown_completion(b.now);
    }),
    ("handle_established", "without a CONNACK", |b, _| {
        b.conn.handle_established(b.now, None);
    }),
    ("handle_established", "with a good CONNACK", |b, _| {
        connack_of(b, 8);
    }),
    ("handle_established", "with a bad CONNACK", |b, _| {
        connack_of(b, 0);
    }),
    ("handle_established", "with no message", |b, _| {
        b.conn.handle_established(b.now, Some(Message::parse(&[])));
    }),
    ("handle_comm_est", "", |b, _| b.conn.handle_comm_est(b.now)),
    ("handle_disconnected", "", |b, _| {
        b.conn.handle_disconnected(b.now);
    }),
    ("handle_conn_failed", "rejected", |b, _| {
        b.conn.handle_conn_failed(b.now, Cause::Rejected);
    }),
    ("handle_qp_error_state", "", |b, _| {
        b.conn.handle_qp_error_state(b.now);
    }),
    ("handle_qp_destroyed", "", |b, _| {
        b.conn.handle_qp_destroyed(b.now);
    }),
    ("handle_timeout", "nothing is due", |b, _| {
        b.pass(Span::from_secs(1));
        b.conn.handle_timeout(b.now);
    }),
    ("handle_timeout", "after the LND timeout", |b, _| {
        b.pass(T);
        b.conn.handle_timeout(b.now);
    }),
    ("submit", "IMMEDIATE", |b, _| submit(b, immediate(9))),
    ("submit", "PUT", |b, _| submit(b, put(8192))),
    ("submit", "GET", |b, _| submit(b, get(8192))),
    ("submit", "PUT of 0 bytes", |b, _| submit(b, put(0))),
    ("submit", "IMMEDIATE that cannot be posted", |b, _| {
        b.fail_post = Some(0);
        submit(b, immediate(9));
    }),
    ("rx_done", "", |b, held| {
        b.conn.rx_done(b.now, held.immediate);
    }),
    ("rx_done", "for a buffer that LNet does not have", |b, _| {
        b.conn.rx_done(b.now, RxId(999));
    }),
    ("rx_refused", "", |b, held| {
        b.conn.rx_refused(b.now, held.immediate, -71);
    }),
    ("put_nak", "", |b, held| {
        b.conn.put_nak(b.now, held.put, 0);
    }),
    ("put_nak", "for a GET_REQ", |b, held| {
        b.conn.put_nak(b.now, held.get, 0);
    }),
    ("put_sink", "", |b, held| {
        let result = b.conn.put_sink(b.now, held.put, Tx(2), sink(8192));
        note(b, result);
    }),
    ("put_sink", "for an IMMEDIATE", |b, held| {
        let result = b.conn.put_sink(b.now, held.immediate, Tx(2), sink(8192));
        note(b, result);
    }),
    ("get_done", "", |b, held| {
        b.conn.get_done(b.now, held.get, -61);
    }),
    ("get_done", "for a PUT_REQ", |b, held| {
        b.conn.get_done(b.now, held.put, -61);
    }),
    ("get_source", "", |b, held| {
        let result = b.conn.get_source(b.now, held.get, Tx(2), 4096, Ok(1));
        note(b, result);
    }),
    ("get_source", "longer than the sink", |b, held| {
        let result = b.conn.get_source(b.now, held.get, Tx(2), 8193, Ok(1));
        note(b, result);
    }),
    ("get_source", "for a PUT_REQ", |b, held| {
        let result = b.conn.get_source(b.now, held.put, Tx(2), 4096, Ok(1));
        note(b, result);
    }),
    ("put_planned", "for nothing", |b, _| {
        b.conn.put_planned(b.now, OpId { idx: 0, gen: 0 }, Ok(1));
    }),
    ("close", "", |b, _| b.conn.close(b.now, Cause::CqError)),
    ("posted", "of nothing", |b, _| b.conn.posted(b.now, Ok(()))),
    ("retune", "timeout of 0", |b, _| {
        let mut t = tunables(8);
        t.timeout = Span::ZERO;
        b.conn.retune(t.live());
    }),
];

/// Calls that are no inputs.
const NO_INPUTS: [&str; 3] = ["poll_action", "poll_post", "tx_mut"];

fn note(b: &mut Bench, result: Result<OpId, ko2iblnd_host::proto::Refused<Tx>>) {
    if let Err(refused) = result {
        b.refused.push(refused.cause);
    }
}

fn submit(b: &mut Bench, what: ko2iblnd_host::proto::conn::Submit) {
    let result = b.conn.submit(b.now, Tx(2), what);
    note(b, result);
}

fn state_name(b: &Bench) -> &'static str {
    match (b.conn.snapshot().state, b.conn.is_drained()) {
        (_, true) => "Drained",
        (1 | 2, _) => "Connecting",
        (3, _) => "Established",
        (4, _) => "Closing",
        _ => "Draining",
    }
}

fn cause_name(cause: Cause) -> String {
    let name = format!("{cause:?}");
    let short = name.split(['(', ' ']).next().unwrap_or("");
    match cause {
        Cause::Protocol(violation) => {
            let name = format!("{violation:?}");
            name.split(['(', ' ']).next().unwrap_or("").to_owned()
        }
        _ => short.to_owned(),
    }
}

fn end_name(end: &End) -> String {
    let when = if end.drained { ", drained" } else { "" };
    format!("{} {:?}{when}", end.done.status, end.done.health)
}

fn post_name(post: &Post) -> String {
    match post {
        Post::Recv { .. } => "a receive".to_owned(),
        Post::Send { msg, reg, .. } => {
            let reg = if *reg { "REG + " } else { "" };
            format!("{reg}{}", msg.kind().name())
        }
        Post::Writes { count, .. } => format!("{count} WRITE"),
        Post::Inv { .. } => "LOCAL_INV".to_owned(),
        Post::SentinelSq { .. } => "the send sentinel".to_owned(),
        Post::SentinelRq { .. } => "the receive sentinel".to_owned(),
    }
}

/// What an input does, in words. Nothing that can be seen is left out.
fn outcome(b: &mut Bench, input: impl FnOnce(&mut Bench)) -> String {
    let (before, name) = (b.conn.snapshot(), state_name(b));
    let (acts, ends, posts, sent) = (b.acts.len(), b.ends.len(), b.posts.len(), b.delivered.len());
    b.refused.clear();
    input(b);
    b.pump();
    let after = b.conn.snapshot();
    let mut parts = Vec::new();
    if state_name(b) != name {
        let cause = after.cause.filter(|_| before.cause.is_none());
        let cause = cause.map_or(String::new(), |cause| format!(" ({})", cause_name(cause)));
        parts.push(format!("**{}**{cause}", state_name(b)));
    }
    parts.extend(
        b.refused
            .iter()
            .map(|cause| format!("refused: {}", cause_name(*cause))),
    );
    let posted: Vec<_> = b.posts[posts..].iter().map(post_name).collect();
    if !posted.is_empty() {
        parts.push(format!("posts {}", posted.join(", ")));
    }
    parts.extend(b.acts[acts..].iter().filter_map(|act| {
        Some(match act {
            Action::Established(_) => "reports it".to_owned(),
            Action::NotifyEstablished => "tells the CM".to_owned(),
            // Both go without saying with a change of the state.
            Action::Closed { .. } | Action::Disconnect { .. } => return None,
            Action::Plan { .. } => "asks for a plan".to_owned(),
            Action::DestroyQp => "has the QP destroyed".to_owned(),
            Action::Drained { forced } => {
                if *forced {
                    "over, forced".to_owned()
                } else {
                    "over".to_owned()
                }
            }
            Action::Deliver { .. } | Action::Finish { .. } | Action::FinishAfterDrain { .. } => {
                unreachable!("the bench keeps them elsewhere")
            }
        })
    }));
    parts.extend(
        b.ends[ends..]
            .iter()
            .map(|end| format!("message {} ends: {}", end.tx, end_name(end))),
    );
    if b.delivered.len() > sent {
        parts.push("delivered".to_owned());
    }
    let (c, d) = (&after.counters, &before.counters);
    for (now, then, what) in [
        (after.rx_parked.into(), before.rx_parked.into(), "parked"),
        (c.dropped_msgs, d.dropped_msgs, "dropped"),
        (c.bad_completions, d.bad_completions, "bad completion"),
        (c.bad_inputs, d.bad_inputs, "bad input"),
        (c.ignored_events, d.ignored_events, "ignored"),
    ] {
        if now > then {
            parts.push(what.to_owned());
        }
    }
    let mut rest = after;
    rest.counters = before.counters;
    rest.alive = before.alive;
    match parts.is_empty() {
        true if rest == before => "-".to_owned(),
        true => "taken".to_owned(),
        false => parts.join("; "),
    }
}

/// Whatever came: the connection ends in order, and so does every message.
fn end_in_order(b: &mut Bench, held: &Held) {
    b.fail_post = None;
    b.conn.close(b.now, Cause::Deleted);
    b.pump();
    b.flush();
    if !b.conn.is_drained() {
        b.conn.handle_qp_destroyed(b.now);
        b.pump();
    }
    let lent = std::mem::take(&mut b.delivered).into_iter();
    let rxs = [held.immediate, held.put, held.get];
    for rx in lent.map(|(rx, ..)| rx).chain(rxs) {
        b.conn.rx_done(b.now, rx);
    }
    b.pump();
    assert!(b.conn.is_released(), "{:?}", b.conn.snapshot());
}

fn states_and_inputs() -> Table {
    let columns = STATES.iter().map(|(_, name)| (*name).to_owned()).collect();
    let mut table = Table::new("input", columns);
    for (call, with, input) in INPUTS {
        let cells = STATES.iter().map(|(state, name)| {
            let (mut b, held) = prepared(*state);
            assert!(name.starts_with(state_name(&b)), "{state:?}");
            let cell = outcome(&mut b, |b| input(b, &held));
            end_in_order(&mut b, &held);
            let messages = b.ends.iter().filter(|end| end.tx == 1).count();
            let established = !name.starts_with("Connecting");
            assert_eq!(messages, usize::from(established), "{call} {with} {name}");
            cell
        });
        let name = match *with {
            "" => format!("`{call}`"),
            with => format!("`{call}`: {with}"),
        };
        table.row(name, cells.collect());
    }
    table
}

/// Every state of the engine has a column, every call a row.
#[test]
fn no_state_and_no_input_is_missing() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rust/proto/conn/");
    let read = |name: &str| std::fs::read_to_string(format!("{root}{name}.rs")).unwrap();
    for variant in rows_of(&read("state"), "enum ConnState") {
        let known = STATES.iter().any(|(_, name)| name.starts_with(&variant));
        assert!(known, "no column for {variant}");
    }
    let mut calls = 0;
    for file in ["input", "command", "action", "post", "mod", "snapshot"] {
        let text = read(file);
        let heads = text.split("pub fn ").skip(1);
        for head in heads.filter_map(|head| head.split_once('(')) {
            let inputs = head.1.trim_start().starts_with("&mut self");
            if !inputs || NO_INPUTS.contains(&head.0) {
                continue;
            }
            calls += 1;
            let known = INPUTS.iter().any(|(call, ..)| *call == head.0);
            assert!(known, "no row for {}", head.0);
        }
    }
    assert!(calls >= 20, "{calls}");
    for kind in MsgType::ALL {
        let known = INPUTS
            .iter()
            .any(|(call, with, _)| *call == "handle_msg" && with.starts_with(kind.name()));
        assert!(known, "no row for {}", kind.name());
    }
}

// --- phases of a message with everything that can happen to it ------------------------------------

/// A phase: its name, the phase of the engine, and a connection where message 1 is in it.
type PhaseOf = (&'static str, &'static str, fn() -> Bench);

/// A connection of depth 1, with a message that has taken the only credit or the only receive.
fn narrow(first: ko2iblnd_host::proto::conn::Submit) -> Bench {
    let mut b = Bench::open(1);
    b.submit(9, first).unwrap();
    b
}

fn put_sent() -> Bench {
    let mut b = Bench::open(8);
    b.auto_plan = false;
    b.send_put(1, 8192);
    b
}

/// The PUT_ACK has come; nothing has been pulled since.
fn put_acked() -> Bench {
    let mut b = put_sent();
    let cookie = b.cookie_sent(0);
    let frags = [frag(4096), frag(4096)];
    let desc = DescOut {
        key: 9,
        frags: &frags,
    };
    let body = BodyOut::PutAck {
        src_cookie: cookie,
        dst_cookie: Cookie(77),
        desc,
    };
    quiet(&mut b, &body);
    b
}

/// A message of the peer, after which nothing is pulled.
fn quiet(b: &mut Bench, body: &BodyOut<'_>) {
    let wr = b.rq.pop_front().unwrap();
    let bytes = bytes(&b.hdr_from_peer(0), body);
    b.conn
        .handle_msg(b.now, wr, &Message::parse(&bytes).unwrap());
}

fn put_planning() -> Bench {
    let mut b = put_acked();
    b.pump();
    b
}

fn put_planned() -> Bench {
    let mut b = put_planning();
    b.conn.put_planned(b.now, OpId { idx: 0, gen: 0 }, Ok(2));
    b
}

/// Some WRITEs are posted; the others wait for room on the send queue.
fn put_split() -> Bench {
    let mut t = tunables(8);
    t.concurrent_sends = 4;
    let caps = DeviceCaps {
        max_qp_wr: 24,
        ..CAPS
    };
    let limits = Limits::new(&t, &caps, Version::V2, None).unwrap();
    let mut b = Bench::with(Role::Passive, &t, limits);
    b.conn.handle_established(b.now, None);
    b.pump();
    b.send_put(1, 8192);
    b.complete_all();
    let cookie = b.cookie_sent(0);
    b.recv_put_ack(cookie, &[frag(100); 80]);
    b
}

fn get_sent() -> Bench {
    let mut b = Bench::open(8);
    b.send_get(1, 8192);
    b
}

fn get_answered() -> Bench {
    let mut b = get_sent();
    let cookie = b.cookie_sent(0);
    quiet(&mut b, &BodyOut::GetDone(completion(cookie, 8192)));
    b
}

/// LNet has given a sink; nothing has been pulled since.
fn sink_given() -> Bench {
    let mut b = Bench::open(8);
    b.recv_put_req(5);
    let (rx, ..) = b.take_delivered();
    b.conn.put_sink(b.now, rx, Tx(1), sink(8192)).unwrap();
    b
}

fn sink_offered() -> Bench {
    let mut b = sink_given();
    b.pump();
    b
}

fn sink_filled() -> Bench {
    let mut b = sink_offered();
    let cookie = b.cookie_sent(0);
    quiet(&mut b, &BodyOut::PutDone(completion(cookie, 0)));
    b
}

fn pulled(mut b: Bench) -> Bench {
    b.pump();
    b
}

fn source_given(writes: Result<u16, ChainError>) -> Bench {
    let mut b = Bench::open(8);
    b.recv_get_req(6, &[frag(8192)]);
    let (rx, ..) = b.take_delivered();
    b.conn.get_source(b.now, rx, Tx(1), 8192, writes).unwrap();
    b
}

const PHASES: &[PhaseOf] = &[
    ("IMMEDIATE waits for a credit", "Credit", || {
        let mut b = narrow(immediate(9));
        b.send_immediate(1);
        b
    }),
    ("IMMEDIATE is posted", "Sent", || {
        let mut b = Bench::open(8);
        b.send_immediate(1);
        b
    }),
    ("PUT waits for a receive to be set aside", "Reserve", || {
        let mut b = narrow(get(8192));
        b.send_put(1, 8192);
        b
    }),
    ("PUT waits for a credit", "Credit", || {
        let mut b = narrow(immediate(9));
        b.send_put(1, 8192);
        b
    }),
    ("PUT: PUT_REQ is posted", "Wait", put_sent),
    ("PUT: the driver is to plan", "Plan", put_acked),
    ("PUT: the driver plans", "Planning", put_planning),
    ("PUT: WRITEs wait to be posted", "Reply", put_planned),
    ("PUT: some WRITEs are posted", "Reply", put_split),
    ("PUT: WRITEs and PUT_DONE are posted", "Sent", || {
        pulled(put_planned())
    }),
    ("GET waits for a receive to be set aside", "Reserve", || {
        let mut b = narrow(put(8192));
        b.send_get(1, 8192);
        b
    }),
    ("GET waits for a credit", "Credit", || {
        let mut b = narrow(immediate(9));
        b.send_get(1, 8192);
        b
    }),
    ("GET: GET_REQ is posted", "Wait", get_sent),
    ("GET: LOCAL_INV waits", "Inv", get_answered),
    ("GET: LOCAL_INV is posted", "InvSent", || {
        pulled(get_answered())
    }),
    ("sink of a PUT: PUT_ACK waits", "Reply", sink_given),
    ("sink of a PUT: PUT_ACK is posted", "Wait", sink_offered),
    ("sink of a PUT: LOCAL_INV waits", "Inv", sink_filled),
    ("sink of a PUT: LOCAL_INV is posted", "InvSent", || {
        pulled(sink_filled())
    }),
    ("source of a GET: WRITEs wait", "Reply", || {
        source_given(Ok(2))
    }),
    (
        "source of a GET: WRITEs and GET_DONE are posted",
        "Sent",
        || pulled(source_given(Ok(2))),
    ),
    ("source of a GET that cannot write", "Reply", || {
        source_given(Err(ChainError::TooManyWrites))
    }),
    ("failed, with WRITEs on the send queue", "Abort", || {
        let mut b = put_split();
        b.conn.close(b.now, Cause::Disconnected);
        b.pump();
        assert!(b.ends.is_empty());
        b
    }),
    ("ended well, to be handed out", "Finish", || {
        let mut b = Bench::open(8);
        b.send_immediate(1);
        let wr = b.sq.pop_front().unwrap().wr;
        b.conn.handle_send_completion(b.now, wr, WcStatus::Success);
        b
    }),
    ("failed, waits for the drain", "Drain", || {
        let mut b = get_sent();
        b.conn.close(b.now, Cause::Disconnected);
        b.pump();
        assert!(b.ends.is_empty());
        b
    }),
];

type Happens = (&'static str, fn(&mut Bench));

/// The cookie of message 1, as the peer knows it.
fn cookie(b: &Bench) -> Option<Cookie> {
    let cookies = b.sent.iter().filter_map(|msg| match msg.body {
        OutBody::PutReq { cookie, .. } | OutBody::GetReq { cookie, .. } => Some(cookie),
        OutBody::PutAck { dst_cookie, .. } => Some(dst_cookie),
        _ => None,
    });
    cookies.last()
}

fn answer(b: &mut Bench, body: fn(Cookie) -> BodyOut<'static>) {
    let cookie = cookie(b).unwrap_or(Cookie(0));
    if b.conn.is_established() {
        b.recv(&body(cookie));
    }
}

const HAPPENS: [Happens; 12] = [
    ("all completions are well", Bench::complete_all),
    ("a completion fails", |b| {
        let wr = send(b);
        b.sq.pop_front();
        b.conn
            .handle_send_completion(b.now, wr, WcStatus::Error(12));
    }),
    ("its posts fail", |b| {
        b.fail_post = Some(0);
        b.pump();
        b.fail_post = None;
    }),
    ("the LND timeout passes", |b| {
        b.pass(T);
        b.conn.handle_timeout(b.now);
    }),
    ("the peer disconnects", |b| {
        b.conn.handle_disconnected(b.now);
    }),
    ("the QP is destroyed", |b| {
        b.conn.handle_qp_destroyed(b.now);
        b.sq.clear();
        b.rq.clear();
    }),
    ("PUT_NAK 0", |b| {
        answer(b, |cookie| BodyOut::PutNak(completion(cookie, 0)));
    }),
    ("PUT_NAK -5", |b| {
        answer(b, |cookie| BodyOut::PutNak(completion(cookie, -5)));
    }),
    ("PUT_ACK", |b| {
        let cookie = cookie(b).unwrap_or(Cookie(0));
        if b.conn.is_established() {
            b.auto_plan = true;
            b.recv_put_ack(cookie, &[frag(8192)]);
        }
    }),
    ("PUT_DONE 0", |b| {
        answer(b, |cookie| BodyOut::PutDone(completion(cookie, 0)));
    }),
    ("GET_DONE 8192", |b| {
        answer(b, |cookie| BodyOut::GetDone(completion(cookie, 8192)));
    }),
    ("GET_DONE 8193", |b| {
        answer(b, |cookie| BodyOut::GetDone(completion(cookie, 8193)));
    }),
];

/// How message 1 fares, and what it costs the connection.
fn fate(b: &mut Bench, happens: fn(&mut Bench)) -> String {
    let open = b.conn.is_established();
    happens(b);
    b.pump();
    let closed = match (open, b.cause()) {
        (true, Some(cause)) => format!("**{}**: ", cause_name(cause)),
        _ => String::new(),
    };
    // What it needs now, a good device and the driver do.
    let waits = match (b.end(1), b.conn.is_established()) {
        (Some(_), _) => None,
        (None, true) => {
            b.complete_all();
            Some(b.end(1).map_or("waits on", |_| ""))
        }
        (None, false) => {
            b.flush();
            Some("")
        }
    };
    match (b.end(1), waits) {
        (Some(end), _) => format!("{closed}{}", end_name(&end)),
        (None, Some(waits)) if !waits.is_empty() => format!("{closed}{waits}"),
        (None, _) => panic!("neither ended nor waiting"),
    }
}

fn phases_and_events() -> Table {
    let columns = HAPPENS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut table = Table::new("message", columns);
    for (name, phase, make) in PHASES {
        let cells = HAPPENS.iter().map(|(happens, event)| {
            let mut b = make();
            assert!(b.end(1).is_none(), "{name}");
            let fate = fate(&mut b, *event);
            b.fail_post = None;
            b.tear_down_hard();
            let ends = b.ends.iter().filter(|end| end.tx == 1).count();
            assert_eq!(ends, 1, "{name}: {happens}");
            fate
        });
        let row = format!("{name} (`{phase}`)");
        let cells = cells.collect();
        table.row(row, cells);
    }
    table
}

/// Every phase of the engine has a row.
#[test]
fn no_phase_is_missing() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rust/proto/conn/ops.rs");
    let phases = rows_of(&std::fs::read_to_string(path).unwrap(), "enum OpPhase");
    assert!(phases.len() >= 13);
    for phase in phases.iter().filter(|phase| *phase != "Free") {
        let known = PHASES.iter().any(|(_, of, _)| of == phase);
        assert!(known, "no row for {phase}");
    }
}

#[test]
fn the_page_has_every_state_with_every_input() {
    check_page("connection", &states_and_inputs());
}

#[test]
fn the_page_has_every_phase_with_every_event() {
    check_page("message", &phases_and_events());
}
