// SPDX-License-Identifier: GPL-2.0

//! Lets the kernel's print macros show types of the pure rooms, which know `core::fmt` only.

use crate::{
    driver::{
        tunables,
        usable::Usability, //
    },
    proto::{
        conn::ConnSnapshot,
        passive::RefuseCause,
        peer::PeerSnapshot,
        Cause, //
    },
    wire::{
        LnetMsgType,
        Nid,
        ParseError,
        RejectReason, //
    }, //
};
use kernel::fmt;

macro_rules! forward {
    ($($t:ty),* $(,)?) => {$(
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        }
    )*};
}

forward!(
    Cause,
    ConnSnapshot,
    LnetMsgType,
    Nid,
    ParseError,
    PeerSnapshot,
    RefuseCause,
    RejectReason,
    tunables::Clamped,
    tunables::Rejected,
    tunables::SetError,
    Usability,
);
