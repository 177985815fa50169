// SPDX-License-Identifier: GPL-2.0

//! What a connection is sized by.

use crate::common::*;
use ko2iblnd_host::proto::{DeviceCaps, LimitError, Limits};
use ko2iblnd_host::wire::{ConnParams, Version};

fn limits(depth: u16, caps: &DeviceCaps) -> Result<Limits, LimitError> {
    Limits::new(&tunables(depth), caps, Version::V2, None)
}

#[test]
fn every_depth_fits_rxe() {
    let rxe = CAPS;
    for depth in 1..=255 {
        let l = limits(depth, &rxe).unwrap();
        assert_eq!(l.queue_depth, depth);
        assert_eq!(l.rx_slots, 2 * depth + 2);
        assert_eq!(l.rq_wrs, u32::from(l.rx_slots) + 1);
        assert_eq!(l.cqe, l.sq_wrs + l.rq_wrs);
        assert!(l.cqe <= rxe.max_cqe && l.sq_wrs <= rxe.max_qp_wr);
        assert!(l.hiw >= 1 && l.hiw <= depth.saturating_sub(1).max(1));
        assert_eq!(l.send_slots, l.concurrent_sends);
        // The reference asks for 260 * depth.
        assert!(l.sq_wrs <= 17 * u32::from(depth) + 17, "{l:?}");
    }
}

#[test]
fn lu_9943_the_send_queue_holds_what_may_be_in_flight() {
    for depth in [1u16, 8, 32, 128, 255] {
        let l = limits(depth, &CAPS).unwrap();
        let sends = u32::from(l.concurrent_sends);
        // Every SEND with a REG, a LOCAL_INV per credit, the sentinel.
        assert!(l.sq_wrs > 2 * sends + u32::from(depth));
    }
}

#[test]
fn small_devices_lower_the_queues_and_then_the_depth() {
    let small = DeviceCaps {
        max_qp_wr: 100,
        max_cqe: 150,
        ..CAPS
    };
    let l = limits(255, &small).unwrap();
    assert!(l.sq_wrs <= 100 && l.rq_wrs <= 100 && l.cqe <= 150);
    assert!(l.queue_depth < 255 && l.queue_depth >= 16, "{l:?}");
    // A receive queue is longer than the shortest send queue.
    let short = DeviceCaps {
        max_qp_wr: 100,
        ..CAPS
    };
    let l = limits(255, &short).unwrap();
    assert_eq!((l.queue_depth, l.rq_wrs), (48, 99));
    let exact = DeviceCaps {
        max_qp_wr: 99,
        ..CAPS
    };
    let l = limits(255, &exact).unwrap();
    assert_eq!((l.queue_depth, l.rq_wrs), (48, 99));
    let none = DeviceCaps {
        max_qp_wr: 3,
        ..CAPS
    };
    assert_eq!(limits(8, &none), Err(LimitError::DeviceTooSmall));
    let one_sge = DeviceCaps {
        max_send_sge: 1,
        ..CAPS
    };
    assert_eq!(limits(8, &one_sge), Err(LimitError::DeviceTooSmall));
}

#[test]
fn lu_11702_lowering_ends_and_keeps_everything_in_step() {
    let mut l = limits(128, &CAPS).unwrap();
    let mut steps = 0;
    let (mut sq, mut sge, mut depth) = (0, 0, 0);
    while let Some(next) = l.lowered() {
        steps += 1;
        assert!(steps < 30, "{next:?}");
        let smaller = next.sq_wrs < l.sq_wrs
            || next.max_send_sge < l.max_send_sge
            || next.queue_depth < l.queue_depth;
        assert!(smaller && next.sq_wrs <= l.sq_wrs, "{l:?} {next:?}");
        // The order: send queue, SGEs, depth.
        assert!(next.max_send_sge == l.max_send_sge || l.sq_wrs == u32::from(l.queue_depth) + 3);
        assert!(next.queue_depth == l.queue_depth || l.max_send_sge == 2);
        sq += u32::from(next.sq_wrs < l.sq_wrs && next.queue_depth == l.queue_depth);
        sge += u32::from(next.max_send_sge < l.max_send_sge);
        depth += u32::from(next.queue_depth < l.queue_depth);
        if next.queue_depth < l.queue_depth {
            assert_eq!(next.sq_wrs, u32::from(next.queue_depth) + 3);
        }
        assert_eq!(next.cqe, next.sq_wrs + next.rq_wrs);
        assert_eq!(next.rx_slots, 2 * next.queue_depth + 2);
        assert!(u32::from(next.concurrent_sends) * 2 < next.sq_wrs || next.concurrent_sends == 1);
        l = next;
    }
    assert_eq!(l.queue_depth, 1);
    assert!(sq >= 2 && sge == 4 && depth == 7, "{sq} {sge} {depth}");
}

#[test]
fn lu_12569_the_threshold_follows_the_agreed_depth() {
    let mut t = tunables(128);
    t.credits_hiw = 64;
    let l = Limits::new(&t, &CAPS, Version::V2, None).unwrap();
    assert_eq!(l.hiw, 64);
    for (depth, hiw) in [(128, 64), (8, 4), (3, 1), (2, 1), (1, 1)] {
        let agreed = l.negotiated(params(depth, 257)).unwrap();
        assert_eq!((agreed.queue_depth, agreed.hiw), (depth, hiw));
        assert_eq!((agreed.rx_slots, agreed.sq_wrs), (l.rx_slots, l.sq_wrs));
    }
    t.credits_hiw = 128;
    let l = Limits::new(&t, &CAPS, Version::V2, None).unwrap();
    assert_eq!(l.hiw, 127);
}

#[test]
fn a5_values_that_nothing_can_be_done_with_are_refused() {
    let l = limits(8, &CAPS).unwrap();
    let negotiated = |queue_depth, max_frags, max_msg_size| {
        l.negotiated(ConnParams {
            queue_depth,
            max_frags,
            max_msg_size,
        })
    };
    assert_eq!(negotiated(0, 257, 4096), Err(LimitError::ZeroDepth));
    assert_eq!(negotiated(8, 0, 4096), Err(LimitError::ZeroFrags));
    assert!(matches!(
        negotiated(9, 257, 4096),
        Err(LimitError::DepthTooLarge { .. })
    ));
    assert!(matches!(
        negotiated(8, 258, 4096),
        Err(LimitError::FragsTooLarge { .. })
    ));
    assert!(matches!(
        negotiated(8, 257, 4097),
        Err(LimitError::MsgTooLarge { .. })
    ));
    assert!(negotiated(8, 257, 1).is_ok());
    for propose in [(0, 257), (8, 0)] {
        assert!(Limits::new(&tunables(8), &CAPS, Version::V2, Some(propose)).is_err());
    }
    // Version 1 keeps one credit for a NOOP.
    assert!(Limits::new(&tunables(8), &CAPS, Version::V1, Some((1, 257))).is_err());
    // Every NOOP would call for another: tests/exhaust.rs ran into it.
    assert!(Limits::new(&tunables(8), &CAPS, Version::V1, Some((2, 257))).is_err());
}

#[test]
fn a_proposal_is_never_exceeded() {
    let l = Limits::new(&tunables(128), &CAPS, Version::V2, Some((16, 32))).unwrap();
    assert_eq!((l.queue_depth, l.max_frags), (16, 32));
    let l = Limits::new(&tunables(8), &CAPS, Version::V2, Some((128, 300))).unwrap();
    assert_eq!((l.queue_depth, l.max_frags), (8, 257));
    assert_eq!(l.params(), params(8, 257));
}

/// The size of the send queue, by the formula of `Size::sq_wanted`.
#[test]
fn the_send_queue_has_room_for_what_can_be_in_flight() {
    for (depth, sends, transfers) in [(8, 64, 8), (64, 8, 8), (16, 16, 16)] {
        let mut t = tunables(depth);
        t.concurrent_sends = sends;
        let l = Limits::new(&t, &CAPS, Version::V2, None).unwrap();
        let writes = 257u32.div_ceil(u32::from(l.max_send_sge));
        let wanted = 1 + 2 * u32::from(sends) + u32::from(depth) + transfers * writes;
        assert_eq!(l.sq_wrs, wanted, "{l:?}");
    }
}
