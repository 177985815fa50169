// SPDX-License-Identifier: GPL-2.0

//! The incarnation of an NI (protocol.md section 7).

use core::fmt;

/// An incarnation: the wall-clock time in microseconds at which an NI was started. Compared for
/// equality only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    /// The incarnation of a peer that we have not heard from, and of no NI.
    pub const UNKNOWN: Self = Self(0);

    /// Whether this stands for no incarnation.
    pub const fn is_unknown(self) -> bool {
        self.0 == Self::UNKNOWN.0
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}
