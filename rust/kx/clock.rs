// SPDX-License-Identifier: GPL-2.0

//! Clocks. Any context, nothing here sleeps.

use crate::ffi;

/// Nanoseconds since boot, suspend not counted (`CLOCK_MONOTONIC`).
pub(crate) fn monotonic_ns() -> u64 {
    // SAFETY: No requirements.
    unsafe { ffi::kx::monotonic_ns() }
}

/// Seconds since boot, as LNet counts them (`ktime_get_seconds()`).
pub(crate) fn monotonic_secs() -> i64 {
    // Fits: a u64 of nanoseconds is less than 2^35 seconds.
    (monotonic_ns() / 1_000_000_000) as i64
}

/// Microseconds since 1970, UTC (`CLOCK_REALTIME`).
pub(crate) fn realtime_us() -> u64 {
    // SAFETY: No requirements.
    unsafe { ffi::kx::realtime_us() }
}
