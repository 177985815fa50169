// SPDX-License-Identifier: GPL-2.0

//! Ids, lists, causes, time.

use ko2iblnd_host::proto::cause::Violation;
use ko2iblnd_host::proto::chain::ChainError;
use ko2iblnd_host::proto::errno;
use ko2iblnd_host::proto::slab::{Links, List, ListId};
use ko2iblnd_host::proto::{Cause, Health, Instant, RxId, Span, Stage, WrId, WrKind};
use ko2iblnd_host::sim::Heap;
use ko2iblnd_host::wire::MsgType;

#[test]
fn lu_13553_ids_of_completions_are_checked() {
    for raw in [
        0,
        1,
        u64::MAX,
        5 << 60,
        1 << 59,
        3 << 60 | 1,
        4 << 60 | 1 << 59,
    ] {
        assert_eq!(WrId::from_raw(raw), None, "{raw:#x}");
    }
    assert_eq!(WrId::from_raw(1 << 60 | 1 << 57), None);
    let recv = WrId::recv(RxId(513), 7);
    let send = WrId::send(99);
    for wr in [
        recv,
        send,
        send.not_last(),
        WrId::SENTINEL_SQ,
        WrId::SENTINEL_RQ,
    ] {
        assert_ne!(wr.to_raw(), 0);
        assert_eq!(WrId::from_raw(wr.to_raw()), Some(wr));
    }
    let (rx, gen) = (RxId(513), 7);
    assert_eq!(recv.kind(), WrKind::Recv { rx, gen });
    let last = false;
    assert_eq!(send.not_last().kind(), WrKind::Send { seq: 99, last });
}

#[test]
fn an_index_is_on_one_list_at_a_time() {
    let Ok(mut links) = Links::new(&mut Heap, 4);
    let mut a = List::new(ListId::new(1));
    let mut b = List::new(ListId::new(2));
    for idx in [2, 0, 3] {
        assert!(links.push_back(&mut a, idx));
    }
    assert!(!links.push_back(&mut b, 2));
    assert!(!links.push_back(&mut a, 4));
    assert!(!links.remove(&mut b, 0));
    assert!(!links.remove(&mut a, 1) && !links.remove(&mut a, 9));
    assert_eq!(links.next(2), Some(0));
    assert_eq!((links.next(3), links.next(1)), (None, None));
    assert!(links.remove(&mut a, 0));
    assert!(links.push_back(&mut b, 0));
    assert_eq!((a.len(), b.len()), (2, 1));
    assert_eq!(links.pop_front(&mut a), Some(2));
    assert_eq!(links.pop_front(&mut a), Some(3));
    assert_eq!(links.pop_front(&mut a), None);
    assert!(a.is_empty());
    assert_eq!(b.front(), Some(0));
}

#[test]
fn lu_13571_ambiguous_failures_blame_the_network() {
    for cause in [
        Cause::Unreachable,
        Cause::ConnectTimeout,
        Cause::WaitTimeout,
    ] {
        assert_eq!(cause.outcome().health, Health::NetworkTimeout, "{cause:?}");
    }
    assert_eq!(Cause::Unreachable.outcome().status, -errno::EHOSTUNREACH);
    assert_eq!(Cause::ConnectTimeout.outcome().status, -errno::ETIMEDOUT);
}

#[test]
fn lu_14540_a_refusal_is_a_remote_status() {
    let outcome = Cause::Rejected.outcome();
    assert_eq!(outcome.status, -errno::ECONNREFUSED);
    assert_eq!(outcome.health, Health::RemoteDropped);
    for status in [-12, -61, -71] {
        let outcome = Cause::Remote(status).outcome();
        assert_eq!(
            (outcome.status, outcome.health),
            (status, Health::RemoteError)
        );
    }
}

/// The table of section 17.1 for connections.
#[test]
fn causes_have_the_status_of_the_table() {
    use Stage::{Sending, Unsent, Waiting};
    let aborted = -errno::ECONNABORTED;
    let table = [
        (Cause::Timeout, Unsent, aborted, Health::LocalTimeout),
        (Cause::Timeout, Waiting, aborted, Health::RemoteTimeout),
        (Cause::Timeout, Sending, aborted, Health::NetworkTimeout),
        (Cause::Disconnected, Unsent, aborted, Health::LocalError),
        (Cause::Disconnected, Waiting, aborted, Health::Ok),
        (
            Cause::Disconnected,
            Sending,
            -errno::EIO,
            Health::RemoteDropped,
        ),
        (
            Cause::SendFailed(12),
            Sending,
            -errno::EIO,
            Health::RemoteDropped,
        ),
        (Cause::PostFailed(-12), Sending, -12, Health::Ok),
        (Cause::PostFailed(12), Sending, -12, Health::Ok),
        (
            Cause::ConnectFailed(-104),
            Unsent,
            -104,
            Health::LocalDropped,
        ),
        (
            Cause::NoMemory,
            Unsent,
            -errno::EHOSTUNREACH,
            Health::LocalError,
        ),
        (Cause::PeerGone, Unsent, aborted, Health::LocalError),
        (
            Cause::ConnectFailed(0),
            Unsent,
            -errno::EIO,
            Health::LocalDropped,
        ),
    ];
    for (cause, stage, status, health) in table {
        let outcome = cause.outcome_at(stage);
        assert_eq!(
            (outcome.status, outcome.health),
            (status, health),
            "{cause:?} {stage:?}"
        );
    }
    assert_eq!(Cause::Deleted.outcome_waiting().status, -errno::EIO);
    // An orderly end is no news for LNet; everything else is an errno.
    assert_eq!(Cause::Deleted.errno(), 0);
    assert_eq!(Cause::Disconnected.errno(), 0);
    let violation = Cause::Protocol(Violation::WrongType(MsgType::ConnReq));
    assert_eq!(violation.errno(), -errno::EPROTO);
    assert_eq!(Cause::Timeout.errno(), -errno::ETIMEDOUT);
    assert_eq!(
        Cause::Descriptor(ChainError::TooManyWrites).errno(),
        -errno::EMSGSIZE
    );
}

#[test]
fn time_saturates() {
    let end = Instant(u64::MAX);
    assert_eq!(end.after(Span(1)), end);
    assert_eq!(Instant(5).since(Instant(7)), Span::ZERO);
    assert_eq!(Instant::earlier(None, Some(Instant(3))), Some(Instant(3)));
    assert_eq!(
        Instant::earlier(Some(Instant(4)), Some(Instant(3))),
        Some(Instant(3))
    );
    assert!(Instant(3).passed(Instant(3)) && !Instant(4).passed(Instant(3)));
    assert_eq!(Span::from_secs(50).over(4), Span::from_millis(12_500));
    assert_eq!(Span(7).over(0), Span(7));
    assert_eq!(Span::from_secs(u64::MAX).plus(Span(1)), Span(u64::MAX));
    assert_eq!(Span(2000).times(3), Span(6000));
    assert_eq!(Span::from_millis(2999).as_secs(), 2);
}
