// SPDX-License-Identifier: GPL-2.0

//! CPU partitions, as LNet divides the machine.

use crate::ffi::{
    lnet as ffi, //
    types::{
        Cpt,
        Node, //
    },
};
use kernel::{
    error::to_result, //
    prelude::*,
};

/// How many CPTs there are; at least 1. They are numbered from 0.
pub(crate) fn cpt_count() -> u32 {
    // SAFETY: LNet's table exists while this module uses LNet's symbols.
    unsafe { ffi::cpt_number() }.max(1)
}

/// CPUs of `cpt`; 0 when it has none or does not exist.
pub(crate) fn cpt_weight(cpt: Cpt) -> u32 {
    // SAFETY: As in `cpt_count`; the function checks the index.
    unsafe { ffi::cpt_weight(cpt.0) }
}

/// The node to allocate on for `cpt`.
pub(crate) fn cpt_node(cpt: Cpt) -> Node {
    // SAFETY: As in `cpt_count`; the function checks the index.
    Node::from_raw(unsafe { ffi::cpt_node(cpt.0) })
}

/// The CPT that `node` belongs to; `None` when it is unknown.
pub(crate) fn cpt_of_node(node: Node) -> Option<Cpt> {
    // SAFETY: As in `cpt_count`; LNet takes any number.
    let cpt = unsafe { ffi::cpt_of_node(node.as_raw()) };
    u32::try_from(cpt).ok().map(Cpt)
}

/// Binds the calling thread to the CPUs of `cpt`.
///
/// # Errors
///
/// `EINVAL` for a CPT that does not exist, `ENODEV` when none of its CPUs is online.
pub(crate) fn bind_to_cpt(cpt: Cpt) -> Result {
    // SAFETY: As in `cpt_count`; the function checks the index.
    to_result(unsafe { ffi::cpt_bind(cpt.0) })
}
