// SPDX-License-Identifier: GPL-2.0

//! Rate-limited log lines.

use super::monotonic_ns;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// Lines per interval that are let through.
const BURST: u32 = 10;
/// The interval in nanoseconds: 5 s, as the kernel's own default.
const INTERVAL_NS: u64 = 5_000_000_000;

/// Limits one place in the code to ten log lines in five seconds.
///
/// Use it through [`warn_ratelimited!`](crate::warn_ratelimited) and
/// [`info_ratelimited!`](crate::info_ratelimited).
pub(crate) struct RateLimit {
    /// When the current interval began, in nanoseconds; 0 before the first line.
    begin: Atomic<u64>,
    used: Atomic<u32>,
    dropped: Atomic<u32>,
}

impl RateLimit {
    /// Nothing used yet.
    pub(crate) const fn new() -> Self {
        Self {
            begin: Atomic::new(0),
            used: Atomic::new(0),
            dropped: Atomic::new(0),
        }
    }

    /// Whether a line may be printed now: the number of lines left out since the last one that
    /// could, or [`None`].
    ///
    /// Any context. Two threads that begin an interval at the same time may let a few lines more
    /// through.
    pub(crate) fn allow(&self) -> Option<u32> {
        let now = monotonic_ns();
        let begin = self.begin.load(Relaxed);
        if begin == 0 || now.wrapping_sub(begin) >= INTERVAL_NS {
            self.begin.store(now.max(1), Relaxed);
            self.used.store(0, Relaxed);
        }
        if self.used.fetch_add(1, Relaxed) < BURST {
            return Some(self.dropped.xchg(0, Relaxed));
        }
        self.dropped.add(1, Relaxed);
        None
    }
}

/// Prints a line with `$print!` unless this place printed too many of late.
#[doc(hidden)]
#[macro_export]
macro_rules! print_ratelimited {
    ($print:ident, $($arg:tt)*) => {{
        static LIMIT: $crate::kx::RateLimit = $crate::kx::RateLimit::new();
        if let Some(dropped) = LIMIT.allow() {
            if dropped != 0 {
                ::kernel::$print!("{} lines like the next were left out\n", dropped);
            }
            ::kernel::$print!($($arg)*);
        }
    }};
}

/// `pr_warn!`, ten times in five seconds at most for each place.
#[macro_export]
macro_rules! warn_ratelimited {
    ($($arg:tt)*) => { $crate::print_ratelimited!(pr_warn, $($arg)*) };
}

/// `pr_info!`, ten times in five seconds at most for each place.
#[macro_export]
macro_rules! info_ratelimited {
    ($($arg:tt)*) => { $crate::print_ratelimited!(pr_info, $($arg)*) };
}
