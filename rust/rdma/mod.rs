// SPDX-License-Identifier: GPL-2.0

//! RDMA verbs and connection management, made safe.
//!
//! Ownership is the destroy order: a [`Qp`] holds its [`Cq`], [`Pd`] and CM id, an [`Mr`] its
//! [`Pd`], every mapping its [`Device`], so nothing can go before what uses it, and a device is
//! not unregistered while any of them exists.
//!
//! Things of two devices do not meet: each knows its device or PD, and where one is used with
//! another ([`CmId::create_qp`], [`Mr::map`], the chains, posting) they are compared, and refused
//! with `EXDEV` or `EINVAL`. The comparisons are of numbers; nothing is counted or locked for them.
//!
//! What a caller must still get right is marked `unsafe`: memory that the device may access stays
//! mapped until the work request that names it has completed or its QP is gone, and a registered
//! sink is given back only after its invalidation completed ([`Mr::invalidated`]) or when nothing
//! that names it is in progress ([`Mr::dereg`]). To forget the latter is safe: then it stays
//! registered and mapped.
//!
//! # Contexts
//!
//! Everything runs in process context. These may be used under a spinlock, because they neither
//! sleep nor allocate: [`Qp::post_send`], [`Qp::post_recv`], [`Cq::poll`], [`Cq::arm`], the
//! chains, [`DmaBuf`]'s syncs, [`MrPool::get_cached`], all getters. Nothing of ours runs in
//! interrupt context but the completion handler, which sets a flag, pushes on a list and wakes.

mod client;
mod cm;
mod cq;
mod device;
mod dma;
mod mr;
mod qp;
mod stack;
mod wr;

pub(crate) use client::{
    Client,
    ClientRegistration, //
};
pub(crate) use cm::{
    CmEvent,
    CmEventKind,
    CmEvents,
    CmId,
    CmQueue,
    ConnParam,
    Listener,
    PrivateData,
    Room,
    SockAddr, //
};
pub(crate) use cq::{
    Cq,
    CqNotify,
    CqQueue,
    Wc,
    WcBatch, //
};
pub(crate) use device::{
    Device,
    DeviceId,
    Pd,
    PdId,
    PortState,
    PortWatch, //
};
// Of the self-tests alone.
#[cfg(KOR_DMA_CHECK)]
pub(crate) use dma::Direction;
pub(crate) use dma::{
    DmaAddr,
    DmaBuf,
    DmaSg,
    FromDevice,
    SgTable,
    ToDevice, //
};
pub(crate) use mr::{
    Free,
    Mapped,
    Mr,
    MrPool,
    Posted, //
};
pub(crate) use qp::{
    Failed,
    Live,
    PostError,
    Qp,
    QpCaps, //
};
pub(crate) use stack::check_loaded_stack;
pub(crate) use wr::{
    Piece,
    RecvChain,
    Registered,
    SendChain,
    SendFlags, //
};
