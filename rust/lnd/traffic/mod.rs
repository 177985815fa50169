// SPDX-License-Identifier: GPL-2.0

//! Messages on their way: from LNet ([`send`], [`recv`]), and by completions to LNet ([`sched`],
//! [`exec`]).
//!
//! What they lead to is decided in [`driver`](crate::driver), for which [`shell`] does what is done
//! with nothing locked.

pub(super) mod exec;
pub(super) mod recv;
pub(super) mod sched;
pub(super) mod send;
pub(super) mod shell;
