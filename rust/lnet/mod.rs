// SPDX-License-Identifier: GPL-2.0

//! Safe LNet: what an LNet network driver (LND) is given and what it may call.
//!
//! [`Lnd`] is implemented by the driver and put into service by a [`Registration`]. LNet then
//! starts and stops [`Ni`]s, hands over [`Message`]s to send and asks for received ones.
//!
//! Knows no RDMA and no wire format: a NID is LNet's 64-bit form in a `u64`, a header the 72 bytes
//! of its wire form, an address a `u32` in host order.
//!
//! # Contexts
//!
//! Unless a function says otherwise it is called in process context, may sleep, and must be called
//! with no lock of the driver held: LNet calls back into the driver from [`NiHandle::parse`],
//! [`Message::finalize`] and [`Ni::notify_down`], on the same stack.

mod build;
mod cpt;
mod handle;
mod iface;
mod msg;
mod ni;
mod ops;
mod pages;
mod params;
mod startup;

pub(crate) use crate::ffi::lnet::{
    CmnTunables, //
    O2ibTunables,
    Tunables,
};

pub(crate) use self::{
    build::check_loaded_build,
    cpt::{
        bind_to_cpt, //
        cpt_count,
        cpt_node,
        cpt_of_node,
        cpt_weight,
    },
    handle::NiHandle,
    iface::{
        is_link_up, //
        Interface,
        Interfaces,
    },
    msg::{
        held_receives,
        live_messages, //
        lost_messages,
        Health,
        Message,
        Received,
        Refused,
        Reply,
        RxHandle,
        RxOwner,
        RxTag,
        SendMsg,
    },
    ni::Ni,
    ops::{
        fail_map_sg, //
        lnet_timeout,
        mark_ping_buffer,
        Ctl,
        CtlReply,
        Lnd,
        ModuleRef,
        Registration,
        NO_PREFERENCE,
    },
    pages::{
        copy_from_pages, //
        copy_to_pages,
    },
    params::Params,
    startup::{
        Asked, //
        Startup,
    },
};
