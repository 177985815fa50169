// SPDX-License-Identifier: GPL-2.0

//! Every state of an attempt with every event, and every outcome with what it means.

use super::common::*;
use ko2iblnd_host::proto::{
    errno::*,
    peer::{
        AttemptEvent,
        Claim,
        Offer,
        PeerSubmit,
        Verdict,
        CM_REJ_INVALID_SERVICE_ID,
        CM_REJ_STALE_CONN, //
    },
    AttemptId,
    Cause,
    ConnId,
    Done,
    Health,
    LiveTunables,
    Refused,
    Span, //
};
use ko2iblnd_host::table::{
    check_page,
    rows_of,
    Table, //
};
use ko2iblnd_host::wire::{
    RejectReason,
    Stamp,
    Version, //
};

const CONN: ConnId = ConnId(7);
const OTHER_CONN: ConnId = ConnId(8);
const LOWER: Offer = Offer {
    queue_depth: 100,
    max_frags: 200,
};

/// The events, in the order of the columns of [`TABLE`].
fn events(private: &[u8]) -> [AttemptEvent<'_>; 15] {
    [
        AttemptEvent::AddrResolved,
        AttemptEvent::RouteResolved,
        AttemptEvent::Connecting,
        AttemptEvent::AddrError,
        AttemptEvent::RouteError,
        AttemptEvent::CallFailed(-EINVAL),
        AttemptEvent::CreateFailed(-ENOMEM),
        AttemptEvent::LimitsLowered(LOWER),
        AttemptEvent::Connected(OTHER_CONN),
        rejected(private),
        AttemptEvent::Unreachable,
        AttemptEvent::ConnectError,
        AttemptEvent::Disconnected,
        AttemptEvent::DeviceGone,
        AttemptEvent::Released,
    ]
}

/// `.` nothing changes, `>` a later phase, `l` a lower offer, `C` connected, `F` failed,
/// `X` failed and released at once, `R` released.
const TABLE: &[(State, &str)] = &[
    (State::Unknown, "..............."),
    (State::Free, "..............."),
    (State::Delayed, "..............."),
    (State::Starting, "..............."),
    (State::Addr, ">>>FFFFlCFFFFFX"),
    (State::Route, ".>>FFFFlCFFFFFX"),
    (State::Create, "..>FFFFlCFFFFFX"),
    (State::Connect, "...FFFFlCFFFFFX"),
    (State::Opening, "..............X"),
    (State::Dying, "..............R"),
    (State::DyingRetry, "..............R"),
    (State::Done, "..............."),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No such slot.
    Unknown,
    /// Failed and released.
    Free,
    /// Failed and released; the retry waits for its time.
    Delayed,
    /// Failed and released; the retry was decided and not pulled.
    Starting,
    Addr,
    Route,
    Create,
    Connect,
    /// ESTABLISHED came; the connection judges.
    Opening,
    /// Failed, not released, no retry.
    Dying,
    /// Failed, not released, to be retried.
    DyingRetry,
    /// Became a connection.
    Done,
}

/// A peer with one message and one attempt in the state.
fn bench(state: State) -> (Bench, AttemptId) {
    let mut b = Bench::new(config(1));
    b.queue();
    let id = b.start();
    match state {
        State::Unknown => return (b, AttemptId(id.0 | 0x55)),
        State::Addr => {}
        State::Route => b.ok(id, AttemptEvent::AddrResolved),
        State::Create => b.ok(id, AttemptEvent::RouteResolved),
        State::Connect => b.ok(id, AttemptEvent::Connecting),
        State::Opening => b.ok(id, AttemptEvent::Connected(CONN)),
        State::Done => {
            b.establish(id, CONN);
            b.acts();
        }
        State::Free | State::Dying => {
            b.ok(id, AttemptEvent::ConnectError);
            b.acts();
            if state == State::Free {
                b.ok(id, AttemptEvent::Released);
                assert_eq!(b.acts(), [Act::Idle]);
            }
        }
        State::Starting | State::DyingRetry => {
            b.reject(id, RejectReason::ConnRace);
            b.acts();
            if state == State::Starting {
                b.ok(id, AttemptEvent::Released);
            }
        }
        State::Delayed => return delayed(b, id),
    }
    (b, id)
}

/// The eleventh retry waits.
fn delayed(mut b: Bench, mut id: AttemptId) -> (Bench, AttemptId) {
    for _ in 0..100 {
        b.reject(id, RejectReason::ConnRace);
        assert_eq!(b.acts(), [Act::Abort(id, Cause::Rejected)]);
        b.ok(id, AttemptEvent::Released);
        match b.acts()[..] {
            [Act::Start(next, ..)] => id = next,
            [] => return (b, id),
            ref other => panic!("{other:?}"),
        }
    }
    panic!("no retry is delayed");
}

/// Checks one cell and returns what the event did.
fn check(state: State, event: AttemptEvent<'_>, expected: char) {
    let (mut b, id) = bench(state);
    let place = format!("{state:?} and {event:?}");
    if expected == '.' {
        if state == State::Starting {
            // The new attempt is not disturbed by what is said of the old one.
            assert_eq!(b.event(id, event), Claim::Late, "{place}");
            assert_eq!(b.peer.snapshot().connecting, 1, "{place}");
            b.start();
        } else {
            b.late(id, event);
        }
        return;
    }
    let before = b.peer.snapshot();
    assert_eq!(b.event(id, event), Claim::Taken, "{place}");
    let acts = b.acts();
    let after = b.peer.snapshot();
    match expected {
        '>' => assert!(acts.is_empty() && after == before, "{place}: {acts:?}"),
        'l' => assert!(acts.is_empty() && after.offer == LOWER, "{place}: {acts:?}"),
        'C' => assert!(acts.is_empty() && after.conns == 1, "{place}: {acts:?}"),
        'F' => check_failed(&acts, id, &place),
        'X' => {
            let fails = |act: &&Act| matches!(act, Act::Fail(0, _));
            assert_eq!(acts.iter().filter(fails).count(), 1, "{place}: {acts:?}");
            assert_eq!(after.dying, 0, "{place}");
            assert_eq!(after.connecting, 0, "{place}");
        }
        'R' if state == State::Dying => assert_eq!(acts, [Act::Idle], "{place}"),
        'R' => assert!(
            matches!(acts[..], [Act::Start(next, ..)] if next != id),
            "{place}"
        ),
        other => panic!("no such code: {other}"),
    }
    // The same again, now that the outcome is claimed.
    if matches!(expected, 'F' | 'C' | 'X') {
        b.late(id, event);
    }
}

fn check_failed(acts: &[Act], id: AttemptId, place: &str) {
    let [Act::Abort(aborted, cause), Act::Fail(0, done), Act::Down(_)] = acts[..] else {
        panic!("{place}: {acts:?}");
    };
    assert_eq!(aborted, id, "{place}");
    assert_eq!(done, Done::from(cause.outcome_waiting()), "{place}");
}

#[test]
fn every_state_with_every_event() {
    let private = reject_bytes(Version::V2, RejectReason::Fatal, THEIR_STAMP, 128, 257);
    let mut cells = 0;
    for (state, row) in TABLE {
        let events = events(&private);
        assert_eq!(row.len(), events.len());
        for (event, expected) in events.into_iter().zip(row.chars()) {
            check(*state, event, expected);
            cells += 1;
        }
    }
    assert_eq!(cells, 12 * 15);
}

/// One row of the table of section 14.5.
struct Outcome<'a> {
    event: AttemptEvent<'a>,
    status: i32,
    health: Health,
    retry: bool,
}

fn outcome(event: AttemptEvent<'_>, errno: i32, health: Health, retry: bool) -> Outcome<'_> {
    Outcome {
        event,
        status: -errno,
        health,
        retry,
    }
}

fn check_outcome(row: &Outcome<'_>) {
    let mut b = Bench::new(config(1));
    b.queue();
    let id = b.start();
    b.ok(id, AttemptEvent::Connecting);
    b.ok(id, row.event);
    let acts = b.acts();
    let aborts = |act: &&Act| matches!(act, Act::Abort(aborted, _) if *aborted == id);
    assert_eq!(acts.iter().filter(aborts).count(), 1, "{:?}", row.event);
    let failed = acts.iter().find_map(|act| match act {
        Act::Fail(0, done) => Some(*done),
        _ => None,
    });
    let expected = Done {
        status: row.status,
        health: row.health,
        reply_len: None,
    };
    assert_eq!(failed, (!row.retry).then_some(expected), "{:?}", row.event);
    assert_eq!(
        b.peer.snapshot().reconnecting > 0,
        row.retry,
        "{:?}",
        row.event
    );
    // A retry that is no longer wanted ends the same way.
    if row.retry {
        assert!(b.peer.poll_timeout().is_some());
    }
}

fn rej(cm_reason: i32, private: &[u8]) -> AttemptEvent<'_> {
    AttemptEvent::Rejected { cm_reason, private }
}

/// The table of section 14.5, and of section 17.1 for the status (LU-13571, LU-14540).
#[test]
fn lu_13571_lu_14540_outcomes() {
    use Health::*;
    let r = |why| reject_bytes(Version::V2, why, THEIR_STAMP, 64, 128);
    let race = r(RejectReason::ConnRace);
    let stale = r(RejectReason::ConnStale);
    let uncompat = r(RejectReason::ConnUncompat);
    let depth = r(RejectReason::MsgQueueSize);
    let frags = r(RejectReason::RdmaFrags);
    let finals: Vec<_> = [
        RejectReason::NoResources,
        RejectReason::Fatal,
        RejectReason::Early,
        RejectReason::InvalidSrvId,
        RejectReason::Unknown(0),
        RejectReason::Unknown(10),
        RejectReason::Unknown(255),
    ]
    .map(r)
    .into();
    let v1 = reject_bytes(Version::V1, RejectReason::Fatal, THEIR_STAMP, 8, 256);
    let mut bad_magic = race.clone();
    bad_magic[0] ^= 1;
    let mut bad_version = race.clone();
    bad_version[4] = 0x13;
    let mut rows = vec![
        outcome(AttemptEvent::AddrError, EHOSTUNREACH, NetworkTimeout, false),
        outcome(
            AttemptEvent::RouteError,
            EHOSTUNREACH,
            NetworkTimeout,
            false,
        ),
        outcome(
            AttemptEvent::CallFailed(-EINVAL),
            EINVAL,
            LocalDropped,
            false,
        ),
        outcome(
            AttemptEvent::CallFailed(EHOSTUNREACH),
            EHOSTUNREACH,
            NetworkTimeout,
            false,
        ),
        outcome(
            AttemptEvent::CallFailed(-ETIMEDOUT),
            ETIMEDOUT,
            NetworkTimeout,
            false,
        ),
        outcome(
            AttemptEvent::CallFailed(-ECONNREFUSED),
            ECONNREFUSED,
            RemoteDropped,
            false,
        ),
        outcome(
            AttemptEvent::CreateFailed(-ENOMEM),
            ENOMEM,
            LocalDropped,
            false,
        ),
        outcome(AttemptEvent::Unreachable, ETIMEDOUT, NetworkTimeout, false),
        outcome(AttemptEvent::ConnectError, ENOTCONN, LocalDropped, false),
        outcome(AttemptEvent::Disconnected, ECONNRESET, LocalDropped, false),
        outcome(AttemptEvent::DeviceGone, ENETDOWN, LocalError, false),
        outcome(
            rej(CM_REJ_STALE_CONN, &[]),
            ECONNREFUSED,
            RemoteDropped,
            true,
        ),
        outcome(
            rej(CM_REJ_INVALID_SERVICE_ID, &[]),
            EHOSTUNREACH,
            NetworkTimeout,
            false,
        ),
        outcome(rejected(&bad_magic), ECONNREFUSED, RemoteDropped, false),
        outcome(rejected(&bad_version), ECONNREFUSED, RemoteDropped, false),
        outcome(rejected(&race[..6]), ECONNREFUSED, RemoteDropped, false),
        outcome(rejected(&race), ECONNREFUSED, RemoteDropped, true),
        outcome(rejected(&stale), ECONNREFUSED, RemoteDropped, true),
        outcome(rejected(&uncompat), ECONNREFUSED, RemoteDropped, true),
        outcome(rejected(&v1), ECONNREFUSED, RemoteDropped, true),
        outcome(rejected(&depth), ECONNREFUSED, RemoteDropped, true),
        outcome(rejected(&frags), ECONNREFUSED, RemoteDropped, true),
    ];
    for private in &finals {
        rows.push(outcome(
            rejected(private),
            ECONNREFUSED,
            RemoteDropped,
            false,
        ));
    }
    for cm_reason in (-200..200).filter(|r| ![8, 10, 28].contains(r)) {
        rows.push(outcome(
            rej(cm_reason, &race),
            ECONNREFUSED,
            RemoteDropped,
            false,
        ));
    }
    rows.iter().for_each(check_outcome);
}

/// The same for our own timers: each phase has its deadline.
#[test]
fn deadlines_of_the_phases() {
    use Health::NetworkTimeout;
    let resolve = Span::from_secs(5);
    for (state, after, errno) in [
        (State::Addr, resolve, EHOSTUNREACH),
        (State::Route, resolve, EHOSTUNREACH),
        (State::Create, CONNECT_TIMEOUT, ETIMEDOUT),
        (State::Connect, CONNECT_TIMEOUT, ETIMEDOUT),
        (State::Opening, CONNECT_TIMEOUT, ETIMEDOUT),
    ] {
        let (mut b, id) = bench(state);
        b.now.0 += after.0 - 1;
        b.peer.handle_timeout(b.now);
        assert_eq!(b.acts(), [], "{state:?}");
        b.now.0 += 1;
        b.peer.handle_timeout(b.now);
        let acts = b.acts();
        let done = Done {
            status: -errno,
            health: NetworkTimeout,
            reply_len: None,
        };
        let (ended, rest) = acts.split_first().unwrap();
        match ended {
            Act::Abort(aborted, _) if state != State::Opening => assert_eq!(*aborted, id),
            Act::Close(conn, _) if state == State::Opening => assert_eq!(*conn, CONN),
            other => panic!("{state:?}: {other:?}"),
        }
        assert!(
            matches!(rest, [Act::Fail(0, d), Act::Down(_)] if *d == done),
            "{state:?}: {rest:?}"
        );
    }
}

/// What the next attempt says, after each reject that teaches something.
#[test]
fn lessons_of_rejects() {
    let full = Offer {
        queue_depth: 128,
        max_frags: 257,
    };
    let depth = Offer {
        queue_depth: 64,
        ..full
    };
    let frags = Offer {
        max_frags: 128,
        ..full
    };
    let v1 = Offer {
        queue_depth: 8,
        max_frags: 256,
    };
    let theirs = THEIR_STAMP;
    let r = |version, why, stamp| reject_bytes(version, why, stamp, 64, 128);
    let unknown = Stamp::UNKNOWN;
    use RejectReason::*;
    for (private, version, offer, stamp) in [
        (r(Version::V2, ConnRace, theirs), Version::V2, full, theirs),
        (
            r(Version::V2, ConnRace, unknown),
            Version::V2,
            full,
            unknown,
        ),
        (r(Version::V2, ConnStale, theirs), Version::V2, full, theirs),
        (
            r(Version::V2, MsgQueueSize, theirs),
            Version::V2,
            depth,
            theirs,
        ),
        (
            r(Version::V2, RdmaFrags, theirs),
            Version::V2,
            frags,
            theirs,
        ),
        (r(Version::V1, Fatal, theirs), Version::V1, v1, unknown),
        (
            r(Version::V1, ConnUncompat, theirs),
            Version::V1,
            v1,
            unknown,
        ),
    ] {
        let mut b = Bench::new(config(1));
        b.queue();
        let id = b.start();
        b.ok(id, rejected(&private));
        b.acts();
        b.ok(id, AttemptEvent::Released);
        let acts = b.acts();
        let [Act::Start(_, got_version, got_offer, got_stamp)] = acts[..] else {
            panic!("{acts:?}");
        };
        assert_eq!((got_version, got_offer, got_stamp), (version, offer, stamp));
    }
}

// --- the peer's part of Documentation/state-table.md ---------------------------------------------

fn first_word(text: &str) -> String {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric());
    text[..end.unwrap_or(text.len())].to_owned()
}

fn source(name: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rust/proto/peer/");
    std::fs::read_to_string(format!("{root}{name}.rs")).unwrap()
}

/// What the codes of [`TABLE`] mean; [`every_state_with_every_event`] shows that they are true.
fn code_name(code: char) -> &'static str {
    match code {
        '.' => "late",
        '>' => "taken, goes on",
        'l' => "the offer is lowered",
        'C' => "becomes a connection",
        'F' => "fails; abort, message fails",
        'X' => "fails, and its slot is free",
        'R' => "the slot is free",
        other => panic!("no such code: {other}"),
    }
}

#[test]
fn the_page_has_every_attempt_with_every_event() {
    let private = reject_bytes(Version::V2, RejectReason::Fatal, THEIR_STAMP, 128, 257);
    let events = events(&private).map(|event| first_word(&format!("{event:?}")));
    let mut table = Table::new("attempt", events.to_vec());
    for (state, row) in TABLE {
        let cells = row.chars().map(|code| code_name(code).to_owned());
        table.row(format!("{state:?}"), cells.collect());
    }
    check_page("attempt", &table);
    for variant in rows_of(&source("attempt"), "enum AttemptEvent<'a>") {
        assert!(events.contains(&variant), "no column for {variant}");
    }
    let rows: Vec<_> = TABLE
        .iter()
        .map(|(state, _)| format!("{state:?}"))
        .collect();
    let mut states = rows_of(&source("attempt"), "enum AttemptState");
    // The driver works on it: in one of the phases.
    states.retain(|state| state != "Active");
    states.extend(rows_of(&source("attempt"), "enum AttemptPhase"));
    assert!(states.len() >= 9);
    for state in states {
        assert!(rows.contains(&state), "no row for {state}");
    }
}

const NEW_CONN: ConnId = ConnId(9);

/// States of a connection as its peer sees it: the variant of the engine, and how to get there.
type ConnState = (&'static str, fn() -> Bench);

const CONNS: [ConnState; 6] = [
    ("Free", || Bench::new(config(1))),
    ("Accepting", || {
        let mut b = Bench::new(config(1));
        let verdict = b.peer.handle_connreq(b.now, CONN, &connreq());
        assert!(matches!(verdict, Verdict::Accept { .. }));
        b.queue();
        assert_eq!(b.acts(), []);
        b
    }),
    ("Opening", || bench(State::Opening).0),
    ("Up", up),
    ("Leaving", || {
        let mut b = up();
        assert_eq!(b.peer.close_conns(Cause::Deleted), 1);
        b.acts();
        b
    }),
    ("Closing", || {
        let mut b = up();
        b.peer
            .handle_closed(b.now, CONN, Cause::Disconnected, b.now);
        assert_eq!(b.acts(), []);
        b
    }),
];

fn up() -> Bench {
    let (mut b, id) = bench(State::Connect);
    b.ok(id, AttemptEvent::Connected(CONN));
    assert_eq!(b.peer.handle_established(b.now, CONN, &est()), Ok(()));
    b.acts();
    b
}

type PeerInput = (&'static str, &'static str, fn(&mut Bench) -> String);

fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Accept { .. } => "accepted".to_owned(),
        Verdict::Reject(refusal) => format!("rejected: {}", refusal.reject.why),
    }
}

fn submitted(result: PeerSubmit<Tx>) -> String {
    match result {
        PeerSubmit::Use { .. } => "uses a connection".to_owned(),
        PeerSubmit::Queued => "waits".to_owned(),
        PeerSubmit::Refused(refused) => format!("refused: {:?}", refused.cause),
    }
}

/// A message that the connection did not take. It had been chosen once.
fn came_back(b: &mut Bench, cause: Cause) -> String {
    let mut other = up();
    let (_, tx, ticket) = other.send();
    let refused = Refused { tx, cause };
    submitted(b.peer.handle_conn_refused(b.now, CONN, refused, ticket))
}

fn closed(b: &mut Bench, cause: Cause) -> String {
    b.peer.handle_closed(b.now, CONN, cause, b.now);
    String::new()
}

const PEER_INPUTS: [PeerInput; 21] = [
    ("submit", "", |b| submitted(b.peer.submit(b.now, Tx(50)))),
    ("handle_connreq", "", |b| {
        verdict(b.peer.handle_connreq(b.now, NEW_CONN, &connreq()))
    }),
    ("handle_connreq", "with the same name", |b| {
        verdict(b.peer.handle_connreq(b.now, CONN, &connreq()))
    }),
    ("handle_connreq", "of another incarnation", |b| {
        let mut req = connreq();
        req.stamp = Stamp(4711);
        verdict(b.peer.handle_connreq(b.now, NEW_CONN, &req))
    }),
    ("handle_connreq", "of version 1", |b| {
        let mut req = connreq();
        req.version = Version::V1;
        verdict(b.peer.handle_connreq(b.now, NEW_CONN, &req))
    }),
    ("handle_established", "", |b| {
        let result = b.peer.handle_established(b.now, CONN, &est());
        result.map_or_else(
            |cause| format!("to be closed: {cause:?}"),
            |()| "good".into(),
        )
    }),
    ("handle_established", "of another incarnation", |b| {
        let mut info = est();
        info.peer_stamp = Stamp(4711);
        let result = b.peer.handle_established(b.now, CONN, &info);
        result.map_or_else(
            |cause| format!("to be closed: {cause:?}"),
            |()| "good".into(),
        )
    }),
    ("handle_closed", "by the peer", |b| {
        closed(b, Cause::Disconnected)
    }),
    ("handle_closed", "timeout", |b| closed(b, Cause::Timeout)),
    ("handle_closed", "on request", |b| closed(b, Cause::Deleted)),
    ("handle_gone", "", |b| {
        b.peer.handle_gone(b.now, CONN);
        String::new()
    }),
    ("handle_conn_refused", "closed", |b| {
        came_back(b, Cause::Disconnected)
    }),
    ("handle_conn_refused", "full", |b| {
        came_back(b, Cause::TooMany)
    }),
    ("handle_conn_refused", "impossible", |b| {
        came_back(b, Cause::BadInput)
    }),
    ("close_conns", "", |b| {
        format!("{} closed", b.peer.close_conns(Cause::Deleted))
    }),
    ("delete", "", |b| {
        b.peer.delete(Cause::Deleted);
        String::new()
    }),
    ("delete", "the device is gone", |b| {
        b.peer.delete(Cause::DeviceGone);
        String::new()
    }),
    ("retire", "", |b| match b.peer.retire() {
        true => "retired".to_owned(),
        false => "stays".to_owned(),
    }),
    ("retune", "timeout of 0", |b| {
        let live = LiveTunables {
            timeout: Span::ZERO,
            connect_timeout: Span::ZERO,
            keepalive: None,
            cksum: false,
        };
        b.peer.retune(live);
        String::new()
    }),
    ("handle_timeout", "nothing is due", |b| {
        b.peer.handle_timeout(b.now);
        String::new()
    }),
    ("handle_timeout", "after a minute", |b| {
        b.pass(Span::from_secs(60));
        b.peer.handle_timeout(b.now);
        String::new()
    }),
];

fn act_name(act: &Act) -> String {
    let conn = |id: &ConnId| match *id {
        CONN => "it",
        _ => "another",
    };
    match act {
        Act::Start(..) => "starts an attempt".to_owned(),
        Act::Abort(_, cause) => format!("aborts the attempt ({cause:?})"),
        Act::Assign(id, _) => format!("gives {} the message", conn(id)),
        Act::Fail(_, done) => format!("message fails: {} {:?}", done.status, done.health),
        Act::Close(id, cause) => format!("closes {} ({cause:?})", conn(id)),
        Act::Down(_) => "tells LNet: down".to_owned(),
        Act::Idle => "idle".to_owned(),
    }
}

fn peer_outcome(b: &mut Bench, input: fn(&mut Bench) -> String) -> String {
    let before = b.peer.snapshot();
    let said = input(b);
    let mut parts: Vec<_> = (!said.is_empty()).then_some(said).into_iter().collect();
    parts.extend(b.acts().iter().map(act_name));
    let after = b.peer.snapshot();
    for (name, from, to) in [
        ("up", before.up, after.up),
        ("accepting", before.accepting, after.accepting),
        ("connections", before.conns, after.conns),
        ("planned", before.reconnecting, after.reconnecting),
    ] {
        if from != to {
            parts.push(format!("{name} {from} to {to}"));
        }
    }
    if after.counters.late > before.counters.late {
        parts.push("late".to_owned());
    }
    match parts.is_empty() {
        true if after == before => "-".to_owned(),
        true => "taken".to_owned(),
        false => parts.join("; "),
    }
}

/// Every call of the peer with every state that a connection of it can be in.
#[test]
fn the_page_has_every_connection_of_a_peer_with_every_input() {
    let columns = CONNS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut table = Table::new("input", columns);
    for (call, with, input) in PEER_INPUTS {
        let cells = CONNS.iter().map(|(_, make)| {
            let mut b = make();
            let cell = peer_outcome(&mut b, input);
            // Whatever came, the peer can be taken down.
            b.peer.delete(Cause::Deleted);
            b.acts();
            for conn in [CONN, NEW_CONN] {
                b.gone(conn, Cause::Deleted);
            }
            let left = b.peer.snapshot();
            assert_eq!((left.conns, left.waiting), (0, 0), "{call} {with}");
            cell
        });
        let name = match with {
            "" => format!("`{call}`"),
            with => format!("`{call}`: {with}"),
        };
        let cells = cells.collect();
        table.row(name, cells);
    }
    check_page("peer", &table);
    for variant in rows_of(&source("conns"), "enum PeerConnState") {
        let known = CONNS.iter().any(|(name, _)| *name == variant);
        assert!(known, "no column for {variant}");
    }
    let mut calls = 0;
    for file in ["active", "ends", "mod"] {
        let text = source(file);
        let heads = text.split("pub fn ").skip(1);
        for (name, rest) in heads.filter_map(|head| head.split_once('(')) {
            let other = ["poll_action", "handle_attempt"].contains(&name);
            if !rest.trim_start().starts_with("&mut self") || other {
                continue;
            }
            calls += 1;
            let known = PEER_INPUTS.iter().any(|(call, ..)| *call == name);
            assert!(known, "no row for {name}");
        }
    }
    assert!(calls >= 10, "{calls}");
}
