// SPDX-License-Identifier: GPL-2.0

//! The clock of the engines.

use crate::{
    kx,
    proto::Instant, //
};

/// The present time, as the engines take it. Any context.
pub(crate) fn now() -> Instant {
    Instant(kx::monotonic_ns())
}
