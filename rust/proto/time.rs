// SPDX-License-Identifier: GPL-2.0

//! Points in time and lengths of time. All arithmetic saturates.

/// A point in time: nanoseconds of a monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Instant {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);

    /// `self` plus `span`, at most the end of the clock.
    pub const fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Time from `earlier` to `self`; zero when `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Whether a deadline at `self` has passed at `now`. A deadline passes when it is reached.
    pub const fn passed(self, now: Self) -> bool {
        self.0 <= now.0
    }

    /// The earlier of two optional points; `None` is "never".
    pub fn earlier(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (Some(a), None) => Some(a),
            (None, b) => b,
        }
    }
}

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000_000))
    }

    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// Whole seconds, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// The sum of two lengths.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// `n` times this length.
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }

    /// The `n`th part of this length; all of it when `n` is 0.
    pub const fn over(self, n: u64) -> Self {
        match self.0.checked_div(n) {
            Some(part) => Self(part),
            None => self,
        }
    }
}
