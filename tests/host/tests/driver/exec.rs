// SPDX-License-Identifier: GPL-2.0

//! Completions and asynchronous events.

use ko2iblnd_host::driver::exec::{is_logged, AsyncEvents, Completion};
use ko2iblnd_host::driver::shell::Request;
use ko2iblnd_host::proto::conn::WcStatus;
use ko2iblnd_host::proto::{Cause, RxId, WrId};

const ALL: [WcStatus; 3] = [WcStatus::Success, WcStatus::Flushed, WcStatus::Error(12)];

/// A request with an identifier of this kind.
fn wr(raw: u64) -> WrId {
    WrId::from_raw(raw).unwrap()
}

#[test]
fn statuses_are_the_kernels() {
    let read = |raw| WcStatus::from_raw(raw);
    assert_eq!((read(0), read(5)), (WcStatus::Success, WcStatus::Flushed));
    for raw in [1, 4, 6, 12, 22, u32::MAX] {
        assert_eq!(read(raw), WcStatus::Error(raw));
    }
}

#[test]
fn completions_are_told_apart() {
    let recv = 1 << 60 | 3 << 16 | 5;
    let send = 2 << 60 | 1 << 59 | 77;
    let (sentinel_sq, sentinel_rq) = (3 << 60, 4 << 60);
    for status in ALL {
        let flushed = status == WcStatus::Flushed;
        let failed = |raw| Completion::RecvFailed {
            wr: wr(raw),
            flushed,
        };
        let sent = |raw| Completion::Sent {
            wr: wr(raw),
            status,
        };
        let want = match status {
            WcStatus::Success => Completion::Received {
                wr: wr(recv),
                rx: RxId(5),
            },
            WcStatus::Flushed | WcStatus::Error(_) => failed(recv),
        };
        assert_eq!(Completion::new(recv, status), want);
        assert_eq!(Completion::new(send, status), sent(send));
        assert_eq!(Completion::new(sentinel_sq, status), sent(sentinel_sq));
        assert_eq!(Completion::new(sentinel_rq, status), failed(sentinel_rq));
        assert_eq!(Completion::new(0, status), Completion::Unknown);
        assert_eq!(Completion::new(9 << 60, status), Completion::Unknown);
    }
}

#[test]
fn what_has_failed_is_logged_and_what_was_flushed_is_not() {
    let (recv, send, sentinel) = (1 << 60 | 3 << 16 | 5, 2 << 60 | 77, 4 << 60);
    for status in ALL {
        let failed = status == WcStatus::Error(12);
        for (id, what) in [(send, "send"), (0, ""), (recv, "receive")] {
            let want = (failed && id != 0).then_some(what);
            assert_eq!(Completion::new(id, status).failure(), want);
        }
        // Of a sentinel nothing but a flush is expected.
        let want = (status != WcStatus::Flushed).then_some("receive");
        assert_eq!(Completion::new(sentinel, status).failure(), want);
    }
    for (cause, established, logged) in [
        (Cause::Timeout, true, true),
        (Cause::Timeout, false, false),
        (Cause::Deleted, true, false),
    ] {
        assert_eq!(is_logged(cause, established), logged, "{cause:?}");
    }
}

#[test]
fn an_asynchronous_error_blames_who_is_to_blame() {
    let none = AsyncEvents::default();
    assert_eq!(none.cause(), None);
    let comm_est = AsyncEvents {
        comm_est: true,
        ..none
    };
    assert_eq!(comm_est.cause(), None);
    for bits in 1..8u8 {
        let events = AsyncEvents {
            comm_est: false,
            cq_error: bits & 4 != 0,
            qp_error: bits & 2 != 0,
            peer_error: bits & 1 != 0,
        };
        // The queue of completions first, and this node before the peer.
        let want = match bits {
            4.. => Cause::CqError,
            2..=3 => Cause::DeviceGone,
            _ => Cause::RecvFailed,
        };
        assert_eq!(events.cause(), Some(want));
    }
}

#[test]
fn requests_are_served_in_order() {
    let order = [
        Request::NotifyEstablished,
        Request::Disconnect,
        Request::DestroyQp,
        Request::TakeDown,
    ];
    assert_eq!(Request::ALL, order);
    // The driver keeps them in flags.
    for (n, request) in Request::ALL.into_iter().enumerate() {
        assert_eq!(request as usize, n);
    }
}
