// SPDX-License-Identifier: GPL-2.0

//! LNet and the module parameters, for [`lnet`](crate::lnet).
//!
//! The contract of every function is in `include/ko2iblnd/lnet.h`.

use super::{
    bindings,
    types::{
        RawBioVec,
        RawNet,
        RawPage, //
    },
};

/// `struct lnet_ni`, opaque.
pub(crate) type RawNi = bindings::lnet_ni;
/// `struct lnet_msg`, opaque.
pub(crate) type RawMsg = bindings::lnet_msg;
/// `struct lnet_inetdev`, opaque.
pub(crate) type RawInetDev = bindings::lnet_inetdev;
/// `struct kor_lnd_ops`: the table that LNet's calls end in.
pub(crate) type LndOps = bindings::kor_lnd_ops;
/// `struct kor_send`.
pub(crate) type Send = bindings::kor_send;
/// `struct kor_recv`.
pub(crate) type Recv = bindings::kor_recv;
/// `struct kor_ctl`.
pub(crate) type Ctl = bindings::kor_ctl;
/// `struct kor_params`: the module parameters under their names.
pub(crate) type Params = bindings::kor_params;
/// `struct kor_kiov`.
pub(crate) type RawKiov = bindings::kor_kiov;
/// `struct kor_built_for`.
pub(crate) type BuiltFor = bindings::kor_built_for;
/// `struct kor_inetdev`.
pub(crate) type InetDev = bindings::kor_inetdev;

/// Tunables that every kind of network has; -1 is unset. Per net, credits per NI and CPT.
pub(crate) type CmnTunables = bindings::kor_cmn_tunables;
/// Tunables of an o2ib NI in the binary form that users see.
pub(crate) type O2ibTunables = bindings::kor_o2ib_tunables;
/// Both.
pub(crate) type Tunables = bindings::kor_tunables;

/// Bytes of an LNet header on the wire.
pub(crate) const HDR_SIZE: usize = bindings::KOR_HDR_SIZE as usize;
/// The wildcard NID, and what a NID without a 64-bit form reads as.
pub(crate) const NID_ANY: u64 = u64::MAX;
/// Size of an interface name with its terminator.
pub(crate) const IFNAMSIZ: usize = bindings::KOR_IFNAMSIZ as usize;

pub(crate) use bindings::{
    kor_lnet_built_for as built_for, //
    kor_lnet_cpt_bind as cpt_bind,
    kor_lnet_cpt_node as cpt_node,
    kor_lnet_cpt_number as cpt_number,
    kor_lnet_cpt_of_node as cpt_of_node,
    kor_lnet_cpt_weight as cpt_weight,
    kor_lnet_create_reply as create_reply,
    kor_lnet_fail_map_sg as fail_map_sg,
    kor_lnet_finalize as finalize,
    kor_lnet_inet_entry as inet_entry,
    kor_lnet_inet_free as inet_free,
    kor_lnet_inet_select as inet_select,
    kor_lnet_lnd_timeout as lnd_timeout,
    kor_lnet_mark_ping_buffer as mark_ping_buffer,
    kor_lnet_ni_active as ni_active,
    kor_lnet_ni_addr_len as ni_addr_len,
    kor_lnet_ni_conns_per_peer as ni_conns_per_peer,
    kor_lnet_ni_cpt as ni_cpt,
    kor_lnet_ni_interface as ni_interface,
    kor_lnet_ni_netnum as ni_netnum,
    kor_lnet_ni_nid as ni_nid,
    kor_lnet_ni_set_addr as ni_set_addr,
    kor_lnet_ni_set_dev_cpt as ni_set_dev_cpt,
    kor_lnet_ni_set_fatal as ni_set_fatal,
    kor_lnet_ni_set_interface as ni_set_interface,
    kor_lnet_ni_set_tunables as ni_set_tunables,
    kor_lnet_ni_tos as ni_tos,
    kor_lnet_ni_tunables as ni_tunables,
    kor_lnet_nid2cpt as nid2cpt,
    kor_lnet_notify_down as notify_down,
    kor_lnet_parse as parse,
    kor_lnet_register as register,
    kor_lnet_set_reply_len as set_reply_len,
    kor_lnet_simulate_error as simulate_error,
    kor_lnet_unregister as unregister,
    kor_module_get as module_get,
    kor_module_put as module_put,
};

// The walker in `types` reads the kernel's page vectors in its own words.
const _: () = {
    assert!(size_of::<RawBioVec>() == size_of::<bindings::bio_vec>());
    assert!(
        core::mem::offset_of!(RawBioVec, page) == core::mem::offset_of!(bindings::bio_vec, bv_page)
    );
    assert!(
        core::mem::offset_of!(RawBioVec, len) == core::mem::offset_of!(bindings::bio_vec, bv_len)
    );
    assert!(
        core::mem::offset_of!(RawBioVec, offset)
            == core::mem::offset_of!(bindings::bio_vec, bv_offset)
    );
};

/// The page vector of a [`RawKiov`] in the words of [`types`](super::types).
pub(crate) fn kiov_entries(k: &RawKiov) -> *const RawBioVec {
    k.bv.cast()
}

/// The namespace of an NI.
///
/// # Safety
///
/// `ni` must be valid.
pub(crate) unsafe fn ni_net_ns(ni: *const RawNi) -> *mut RawNet {
    // SAFETY: By the contract of this function.
    unsafe { bindings::kor_lnet_ni_net_ns(ni) }.cast()
}

/// Lists the addresses of a namespace. Sleeps.
///
/// # Safety
///
/// `list` must be writable and `ns` a namespace that is held.
pub(crate) unsafe fn inet_enumerate(list: *mut *mut RawInetDev, ns: *mut RawNet) -> i32 {
    // SAFETY: By the contract of this function.
    unsafe { bindings::kor_lnet_inet_enumerate(list, ns.cast()) }
}

/// Whether an interface can carry traffic. Sleeps.
///
/// # Safety
///
/// `ns` must be a namespace that is held.
pub(crate) unsafe fn link_status(ns: *mut RawNet, ifindex: u32) -> i32 {
    // SAFETY: By the contract of this function.
    unsafe { bindings::kor_lnet_link_status(ns.cast(), ifindex) }
}

/// Copies from a page.
///
/// # Safety
///
/// `page` must be a page that stays, `off + len` at most its size, and `dst` writable for `len`
/// bytes.
pub(crate) unsafe fn page_read(page: *mut RawPage, off: u32, dst: *mut u8, len: u32) {
    // SAFETY: By the contract of this function.
    unsafe { bindings::kor_page_read(page.cast(), off, dst.cast(), len) }
}

/// Copies to a page.
///
/// # Safety
///
/// As of [`page_read`], with `src` readable for `len` bytes.
pub(crate) unsafe fn page_write(page: *mut RawPage, off: u32, src: *const u8, len: u32) {
    // SAFETY: By the contract of this function.
    unsafe { bindings::kor_page_write(page.cast(), off, src.cast(), len) }
}

/// A copy of all module parameters, and the pointer behind `ipif_name`.
///
/// Parameters with mode 0644 change at any time, so each is loaded once.
pub(crate) fn params() -> Params {
    // SAFETY: The structure exists as long as the module; its ints are written whole.
    unsafe { core::ptr::read_volatile(&raw const bindings::kor_params) }
}

impl Default for RawKiov {
    fn default() -> Self {
        RawKiov {
            bv: core::ptr::null(),
            nr: 0,
            offset: 0,
            length: 0,
        }
    }
}

impl Default for InetDev {
    fn default() -> Self {
        InetDev {
            addr_len: 0,
            addr: 0,
            ifindex: 0,
            cpt: -1,
            bond_master: false,
            name: [0; IFNAMSIZ],
        }
    }
}

impl Default for CmnTunables {
    /// Nothing set.
    fn default() -> Self {
        CmnTunables {
            version: 0,
            peer_timeout: -1,
            peer_tx_credits: -1,
            peer_rtr_credits: -1,
            max_tx_credits: -1,
        }
    }
}

#[expect(clippy::derivable_impls, reason = "the structure is generated")]
impl Default for O2ibTunables {
    fn default() -> Self {
        O2ibTunables {
            version: 0,
            peercredits_hiw: 0,
            map_on_demand: 0,
            concurrent_sends: 0,
            fmr_pool_size: 0,
            fmr_flush_trigger: 0,
            fmr_cache: 0,
            conns_per_peer: 0,
            ntx: 0,
            timeout: 0,
            tos: 0,
            pad: 0,
        }
    }
}

impl Default for Tunables {
    /// Nothing set.
    fn default() -> Self {
        Tunables {
            cmn: CmnTunables::default(),
            o2ib: O2ibTunables::default(),
            o2ib_set: false,
        }
    }
}
