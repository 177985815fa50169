// SPDX-License-Identifier: GPL-2.0

//! Connection management.
//!
//! An id of the CM has one owner, a [`CmId`]. Its context points to a *slot*: memory for the id's
//! events that exists before the id does. The callback copies the event into it, wakes the thread
//! that serves the [`CmEvents`] and returns 0; it takes no lock that is held across a call of the
//! CM, allocates nothing and decides nothing. Every kind of event has its place in the slot, so
//! none is lost; one that is repeated before it is taken counts once.
//!
//! A new id, made by the CM for a connection request, starts with its listener's context. Its
//! listener has a backlog of slots for that: the callback gives it one of them. When the backlog is
//! empty the callback refuses, and the CM destroys the new id.
//!
//! The pointer is good for as long as callbacks are made. The CM makes them under the handler mutex
//! of the id, and of a listener's new id also under that of the listener; `rdma_destroy_id()` takes
//! the mutex to mark the id, after which there are none; and a slot is held until it has returned.
//!
//! Lock order: slots' locks are leaves, never held together.
//!
//! [`param`] has what is passed to and from the CM, [`slot`] the slots and the shares in an id,
//! [`id`] the owner of an id and its calls, [`event`] the callback and the consuming end.

mod event;
mod id;
mod param;
mod slot;

pub(crate) use event::{
    CmEvent,
    CmEventKind,
    CmEvents, //
};
pub(crate) use id::{
    CmId,
    Listener, //
};
pub(crate) use param::{
    ConnParam,
    PrivateData,
    SockAddr, //
};
pub(super) use slot::IdRef;
pub(crate) use slot::{
    CmQueue,
    Room, //
};
