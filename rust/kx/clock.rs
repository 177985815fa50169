// SPDX-License-Identifier: GPL-2.0

//! Clocks. Any context, nothing here sleeps.

use crate::ffi;

/// Nanoseconds since boot, suspend not counted (`CLOCK_MONOTONIC`).
pub(crate) fn monotonic_ns() -> u64 {
    // SAFETY: No requirements.
    unsafe { ffi::kx::monotonic_ns() }
}

/// Seconds since boot, as LNet counts them (`ktime_get_seconds()`).
///
/// Not from [`monotonic_ns`], which is ahead of it by up to a tick: LNet ignores what it is told of
/// the future.
pub(crate) fn monotonic_secs() -> i64 {
    // SAFETY: No requirements.
    unsafe { ffi::kx::monotonic_secs() }
}

/// Microseconds since 1970, UTC (`CLOCK_REALTIME`).
pub(crate) fn realtime_us() -> u64 {
    // SAFETY: No requirements.
    unsafe { ffi::kx::realtime_us() }
}
