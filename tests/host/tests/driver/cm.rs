// SPDX-License-Identifier: GPL-2.0

//! What every event of the CM leads to.

use ko2iblnd_host::driver::cm::{
    active, listener, passive, Active, CmEvent, ConnInput, Listener, Passive,
};
use ko2iblnd_host::proto::peer::AttemptEvent;
use ko2iblnd_host::proto::Cause;
use ko2iblnd_host::wire::Message;

const PRIVATE: &[u8] = &[1, 2, 3];

const EVENTS: [CmEvent<&[u8]>; 12] = [
    CmEvent::AddrResolved,
    CmEvent::AddrError(-19),
    CmEvent::RouteResolved,
    CmEvent::RouteError(-113),
    CmEvent::ConnectError(-12),
    CmEvent::Unreachable(-110),
    CmEvent::Rejected {
        reason: 28,
        private: PRIVATE,
    },
    CmEvent::Established { private: PRIVATE },
    CmEvent::Disconnected,
    CmEvent::DeviceRemoval,
    CmEvent::AddrChange,
    CmEvent::TimewaitExit,
];

fn report<'a>(conn: Option<ConnInput<'a>>, attempt: Option<AttemptEvent<'a>>) -> Active<'a> {
    Active::Report { conn, attempt }
}

#[test]
fn on_the_active_side() {
    let failed = |attempt| report(None, Some(attempt));
    let want = [
        Active::ResolveRoute,
        failed(AttemptEvent::AddrError),
        Active::Request,
        failed(AttemptEvent::RouteError),
        failed(AttemptEvent::ConnectError),
        failed(AttemptEvent::Unreachable),
        failed(AttemptEvent::Rejected {
            cm_reason: 28,
            private: PRIVATE,
        }),
        Active::Open { private: PRIVATE },
        report(
            Some(ConnInput::Disconnected),
            Some(AttemptEvent::Disconnected),
        ),
        report(
            Some(ConnInput::Close(Cause::DeviceGone)),
            Some(AttemptEvent::DeviceGone),
        ),
        // An orderly end, and not that of an attempt that has no connection yet.
        report(Some(ConnInput::Disconnected), None),
        report(None, None),
    ];
    for (event, want) in EVENTS.into_iter().zip(want) {
        assert_eq!(active(event), want, "{event:?}");
    }
    // The neighbour may have answered all the same.
    assert_eq!(active(CmEvent::AddrError(-110)), Active::ResolveAgain);
}

#[test]
fn on_the_passive_side() {
    let failed = |cause| Passive::Conn(ConnInput::Failed(cause));
    let want = [
        Passive::Unexpected,
        Passive::Unexpected,
        Passive::Unexpected,
        Passive::Unexpected,
        failed(Cause::Rejected),
        failed(Cause::ConnectTimeout),
        failed(Cause::Rejected),
        Passive::Conn(ConnInput::Established),
        Passive::Conn(ConnInput::Disconnected),
        Passive::Conn(ConnInput::Close(Cause::DeviceGone)),
        Passive::Conn(ConnInput::Disconnected),
        Passive::Nothing,
    ];
    for (event, want) in EVENTS.into_iter().zip(want) {
        assert_eq!(passive(event), want, "{event:?}");
    }
}

#[test]
fn on_a_listener() {
    for event in EVENTS {
        let want = match event {
            CmEvent::AddrChange => Listener::Moved,
            CmEvent::DeviceRemoval => Listener::Removed,
            _ => Listener::Unexpected,
        };
        assert_eq!(listener(event), want, "{event:?}");
    }
}

#[test]
fn only_what_must_be_closed_is_told_without_being_known() {
    let close = ConnInput::Close(Cause::DeviceGone);
    let failed = ConnInput::Failed(Cause::Rejected);
    assert!(close.is_for_unknown());
    let opened = ConnInput::Opened(Message::parse(PRIVATE));
    let others = [
        ConnInput::Disconnected,
        ConnInput::QpError,
        ConnInput::QpDestroyed,
        opened,
        failed,
    ];
    for input in others.into_iter().chain([ConnInput::Established]) {
        assert!(!input.is_for_unknown(), "{input:?}");
    }
    assert!(ConnInput::Established.ends_pending());
    for input in others.into_iter().chain([close]) {
        assert!(!input.ends_pending(), "{input:?}");
    }
}

#[test]
fn private_data_comes_with_two_events() {
    for event in EVENTS {
        assert_eq!(event.borrowed(), event);
        let want = match event {
            CmEvent::Rejected { .. } | CmEvent::Established { .. } => PRIVATE,
            _ => &[],
        };
        assert_eq!(event.private(), want, "{event:?}");
    }
}

#[test]
fn failures_have_their_number() {
    let want = [
        None,
        Some(("no address", -19)),
        None,
        Some(("no route", -113)),
        Some(("connect error", -12)),
        Some(("unreachable", -110)),
        Some(("rejected", 28)),
        None,
        None,
        None,
        None,
        None,
    ];
    for (event, want) in EVENTS.iter().zip(want) {
        assert_eq!(event.failure(), want, "{event:?}");
    }
}
