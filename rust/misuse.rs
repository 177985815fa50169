// SPDX-License-Identifier: GPL-2.0

//! What must not compile: misuse of the rooms that safe code could otherwise write.
//! `tests/kernel/misuse_selftest.sh` has this compiled (`KOR_MISUSE=1`), and compares the errors
//! with the comments at the ends of lines: exactly these must come.

use crate::{
    kx::{
        Kthread,
        Net,
        Node,
        NofsScope, //
    },
    lnet::{
        Health,
        Message,
        Ni, //
    },
    rdma::{
        CmId,
        Device,
        Failed,
        Mapped,
        Mr,
        Piece,
        Posted,
        Qp,
        SendChain,
        SendFlags,
        SockAddr, //
    },
};
use kernel::prelude::*;

/// A region whose registration is in a chain cannot be given back as one that is not in one.
fn s5c_cancel_what_is_posted(chain: &mut SendChain, mr: Mr<Mapped>) {
    let _posted = chain.reg(1, SendFlags::default(), mr);
    let _ = mr.cancel(); //~ E0382
}

/// It cannot be deregistered without a promise that nothing names it.
fn s5c_deregister_what_is_posted(mr: Mr<Posted>) {
    let _ = mr.dereg(); //~ E0133
}

/// It cannot be taken for invalidated.
fn s5c_reuse_what_is_posted(mr: Mr<Posted>) {
    let _ = mr.invalidated(); //~ E0133
}

/// A piece of memory for a request comes from a mapping, which knows its device.
fn s2_piece_from_an_address(device: &Device, source: &Piece) -> Piece {
    let _ = source;
    Piece::new(device.id(), todo(), 1) //~ E0624
}

fn todo<T>() -> T {
    loop {
        core::hint::spin_loop();
    }
}

/// The holder of a share of an id cannot have its path freed while another one uses it.
fn s5f_resolve_a_shared_id(id: &CmId) {
    let _ = id.resolve_route(1); //~ E0596
}

fn s5f_bind_a_shared_id(id: &CmId) {
    let _ = id.bind(&SockAddr::v4([10, 0, 0, 1], 1)); //~ E0596
}

fn s5f_change_the_path_of_a_shared_id(id: &CmId) {
    let _ = id.set_path_mtu(1024); //~ E0596
}

/// A namespace is owned, not copied.
fn s5d_copy_a_namespace(net: Net) -> (Net, Net) {
    (net, net) //~ E0382
}

/// Only a GET of this node's own has a reply.
fn s5g_reply_to_any_message(msg: &Message, ni: &Ni) {
    let _ = msg.create_reply(ni); //~ E0599
}

/// A message ends once.
fn message_that_ends_twice(msg: Message) {
    msg.finalize(0, Health::OK);
    msg.finalize(0, Health::OK); //~ E0382
}

/// Nothing but sentinels is posted to a queue pair in the error state.
fn post_to_a_failed_queue_pair(qp: &Qp<u64, Failed>, chain: &mut SendChain) {
    // SAFETY: It does not compile.
    let _ = unsafe { qp.post_send(chain) }; //~ E0599
}

/// A NOFS scope belongs to the thread that entered it.
fn leave_a_scope_in_another_thread(scope: NofsScope) {
    let _ = Kthread::spawn(c"misuse", Node(None), move |_| drop(scope)); //~ E0277
}
