// SPDX-License-Identifier: GPL-2.0

//! Linux error numbers that appear on the wire or go to LNet, positive.

/// I/O error.
pub const EIO: i32 = 5;
/// Out of memory.
pub const ENOMEM: i32 = 12;
/// Invalid argument.
pub const EINVAL: i32 = 22;
/// No data available.
pub const ENODATA: i32 = 61;
/// Protocol error.
pub const EPROTO: i32 = 71;
/// Message too long.
pub const EMSGSIZE: i32 = 90;
/// Network is down.
pub const ENETDOWN: i32 = 100;
/// Software caused connection abort.
pub const ECONNABORTED: i32 = 103;
/// Connection reset by peer.
pub const ECONNRESET: i32 = 104;
/// Transport endpoint is not connected.
pub const ENOTCONN: i32 = 107;
/// Connection timed out.
pub const ETIMEDOUT: i32 = 110;
/// Connection refused.
pub const ECONNREFUSED: i32 = 111;
/// No route to host.
pub const EHOSTUNREACH: i32 = 113;
/// Stale handle.
pub const ESTALE: i32 = 116;
