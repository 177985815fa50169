// SPDX-License-Identifier: GPL-2.0

//! The RDMA core, for [`rdma`](crate::rdma).
//!
//! Objects of the core are opaque here. Work requests and completions are newtypes over the core's
//! structures, because they are filled and read on the hot path.

use super::{
    bindings,
    types::{
        PageSlice,
        RawNet, //
    },
};
use ::kernel::ffi::c_void;
use core::ptr;

/// `struct ib_device`.
pub(crate) type IbDevice = bindings::ib_device;
/// `struct ib_pd`.
pub(crate) type IbPd = bindings::ib_pd;
/// `struct ib_cq`.
pub(crate) type IbCq = bindings::ib_cq;
/// `struct ib_qp`.
pub(crate) type IbQp = bindings::ib_qp;
/// `struct ib_mr`.
pub(crate) type IbMr = bindings::ib_mr;
/// `struct ib_event`.
pub(crate) type IbEvent = bindings::ib_event;
/// `struct rdma_cm_id`.
pub(crate) type RdmaCmId = bindings::rdma_cm_id;
/// `struct scatterlist`.
pub(crate) type Scatterlist = bindings::scatterlist;
/// Storage of a registered handler of device events.
pub(crate) type RawEventHandler = bindings::kor_event_handler;
/// Limits of a device.
pub(crate) type DeviceCaps = bindings::kor_device_caps;
/// Capacities of a QP.
pub(crate) type QpCaps = bindings::kor_qp_caps;
/// An event of the CM, valid during the callback.
pub(crate) type CmEvent = bindings::kor_cm_event;
/// Parameters of a connection.
pub(crate) type CmParam = bindings::kor_cm_param;
/// A socket address.
pub(crate) type SockAddr = bindings::kor_sockaddr;

pub(crate) use bindings::{
    kor_buf_alloc as buf_alloc, //
    kor_buf_free as buf_free,
    kor_client_register as client_register,
    kor_client_unregister as client_unregister,
    kor_cm_accept as cm_accept,
    kor_cm_addrs as cm_addrs,
    kor_cm_bind as cm_bind,
    kor_cm_connect as cm_connect,
    kor_cm_device as cm_device,
    kor_cm_listen as cm_listen,
    kor_cm_path_mtu as cm_path_mtu,
    kor_cm_port as cm_port,
    kor_cm_reject as cm_reject,
    kor_cm_resolve_addr as cm_resolve_addr,
    kor_cm_resolve_route as cm_resolve_route,
    kor_cm_set_context as cm_set_context,
    kor_cm_set_path_mtu as cm_set_path_mtu,
    kor_cq_arm as cq_arm,
    kor_cq_create as cq_create,
    kor_cq_destroy as cq_destroy,
    kor_device_caps as device_caps,
    kor_device_get as device_get,
    kor_device_name as device_name,
    kor_device_port_active as device_port_active,
    kor_device_put as device_put,
    kor_dma_check_exit as dma_check_exit,
    kor_dma_check_init as dma_check_init,
    kor_dma_map as dma_map,
    kor_dma_sync_for_cpu as dma_sync_for_cpu,
    kor_dma_sync_for_device as dma_sync_for_device,
    kor_dma_unmap as dma_unmap,
    kor_event_handler_register as event_handler_register,
    kor_event_handler_unregister as event_handler_unregister,
    kor_mr_alloc as mr_alloc,
    kor_mr_free as mr_free,
    kor_mr_iova as mr_iova,
    kor_mr_length as mr_length,
    kor_mr_map as mr_map,
    kor_mr_rkey as mr_rkey,
    kor_pd_alloc as pd_alloc,
    kor_pd_free as pd_free,
    kor_pd_lkey as pd_lkey,
    kor_qp_create as qp_create,
    kor_qp_num as qp_num,
    kor_qp_of as qp_of,
    kor_qp_to_error as qp_to_error,
    kor_sgl_alloc as sgl_alloc,
    kor_sgl_free as sgl_free,
    kor_sgl_map as sgl_map,
    kor_sgl_unmap as sgl_unmap,
    rdma_destroy_id as cm_destroy,
    rdma_destroy_qp as qp_destroy,
    rdma_disconnect as cm_disconnect,
    rdma_set_reuseaddr as cm_set_reuseaddr,
    rdma_set_service_type as cm_set_service_type,
};

#[cfg(KOR_DMA_CHECK)]
pub(crate) use bindings::kor_dma_check_cpu as dma_check_cpu;

/// Bytes of a device's name, with the zero at its end.
pub(crate) const DEVICE_NAME_MAX: usize = bindings::KOR_DEVICE_NAME_MAX as usize;

/// The address family of an IPv4 [`SockAddr`].
pub(crate) const AF_INET: u16 = bindings::AF_INET as u16;

/// The kinds of [`CmEvent`]s.
pub(crate) mod cm_event {
    use super::bindings;

    macro_rules! kinds {
        ($($name:ident = $binding:ident;)*) => {
            $(pub(crate) const $name: u32 = bindings::$binding;)*
        };
    }

    kinds! {
        ADDR_RESOLVED = rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED;
        ADDR_ERROR = rdma_cm_event_type_RDMA_CM_EVENT_ADDR_ERROR;
        ROUTE_RESOLVED = rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED;
        ROUTE_ERROR = rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_ERROR;
        CONNECT_REQUEST = rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST;
        CONNECT_ERROR = rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_ERROR;
        UNREACHABLE = rdma_cm_event_type_RDMA_CM_EVENT_UNREACHABLE;
        REJECTED = rdma_cm_event_type_RDMA_CM_EVENT_REJECTED;
        ESTABLISHED = rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED;
        DISCONNECTED = rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED;
        DEVICE_REMOVAL = rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL;
        ADDR_CHANGE = rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE;
        TIMEWAIT_EXIT = rdma_cm_event_type_RDMA_CM_EVENT_TIMEWAIT_EXIT;
    }
}

/// The kinds of device and QP events.
pub(crate) mod ib_event {
    use super::bindings;

    pub(crate) const COMM_EST: u32 = bindings::ib_event_type_IB_EVENT_COMM_EST;
    pub(crate) const GID_CHANGE: u32 = bindings::ib_event_type_IB_EVENT_GID_CHANGE;
    pub(crate) const DEVICE_FATAL: u32 = bindings::ib_event_type_IB_EVENT_DEVICE_FATAL;
    pub(crate) const PORT_ACTIVE: u32 = bindings::ib_event_type_IB_EVENT_PORT_ACTIVE;
    pub(crate) const PORT_ERR: u32 = bindings::ib_event_type_IB_EVENT_PORT_ERR;
    pub(crate) const QP_FATAL: u32 = bindings::ib_event_type_IB_EVENT_QP_FATAL;
    pub(crate) const QP_REQ_ERR: u32 = bindings::ib_event_type_IB_EVENT_QP_REQ_ERR;
    pub(crate) const QP_ACCESS_ERR: u32 = bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR;
}

/// Which event this is, one of [`ib_event`] or another.
///
/// # Safety
///
/// `event` is valid: during the callback it was given to.
pub(crate) unsafe fn event_kind(event: *const IbEvent) -> u32 {
    // SAFETY: By the contract of this function.
    unsafe { (*event).event }
}

/// The direction of a mapping, as the shims take it.
pub(crate) mod dma_dir {
    use super::bindings;

    pub(crate) const TO_DEVICE: u32 = bindings::dma_data_direction_DMA_TO_DEVICE;
    pub(crate) const FROM_DEVICE: u32 = bindings::dma_data_direction_DMA_FROM_DEVICE;
}

/// Tells the CM that a message arrived before the connection was established.
///
/// # Safety
///
/// `id` is alive. Process context.
pub(crate) unsafe fn cm_notify_comm_est(id: *mut RdmaCmId) -> i32 {
    // SAFETY: By the contract of this function.
    unsafe { bindings::rdma_notify(id, ib_event::COMM_EST) }
}

/// A mapped piece of memory: address, bytes.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct DmaSeg(bindings::kor_dma_seg);

impl DmaSeg {
    /// For arrays that [`sgl_read`] fills.
    pub(crate) const EMPTY: Self = Self(bindings::kor_dma_seg {
        addr: 0,
        len: 0,
        pad: 0,
    });

    /// DMA address of the first byte.
    pub(crate) const fn addr(&self) -> u64 {
        self.0.addr
    }

    /// Bytes.
    pub(crate) const fn len(&self) -> u32 {
        self.0.len
    }
}

/// Sets entry `i` of a list and makes it the last.
///
/// # Safety
///
/// `sgl` has more than `i` entries, of which those before `i` are set.
pub(crate) unsafe fn sgl_set(sgl: *mut Scatterlist, i: u32, slice: &PageSlice) {
    // SAFETY: By the contract of this function; the types have one layout, checked below.
    unsafe { bindings::kor_sgl_set(sgl, i, ptr::from_ref(slice).cast()) }
}

const _: () = assert!(size_of::<PageSlice>() == size_of::<bindings::kor_page_slice>());

/// Copies the first `segs.len()` mapped entries of a list out.
///
/// # Safety
///
/// `sgl` is mapped to that many entries at least.
pub(crate) unsafe fn sgl_read(sgl: *mut Scatterlist, segs: &mut [DmaSeg]) {
    // Fits: the list was mapped to a number of entries that fits.
    let n = segs.len() as u32;
    // SAFETY: By the contract of this function; `DmaSeg` is transparent.
    unsafe { bindings::kor_sgl_read(sgl, n, segs.as_mut_ptr().cast()) }
}

/// Creates a CM id in `net` that carries `context`; an error pointer on failure.
///
/// # Safety
///
/// `net` is referenced. `context` is good for the callback until the id is destroyed. Process
/// context.
pub(crate) unsafe fn cm_create(net: *mut RawNet, context: *mut c_void) -> *mut RdmaCmId {
    // SAFETY: By the contract of this function.
    unsafe { bindings::kor_cm_create(net.cast(), context) }
}

/// `struct ib_sge`: a local piece of memory in a work request.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Sge(bindings::ib_sge);

impl Sge {
    /// `length` bytes at DMA address `addr`, under `lkey`.
    pub(crate) const fn new(addr: u64, length: u32, lkey: u32) -> Self {
        Self(bindings::ib_sge { addr, length, lkey })
    }
}

/// A send work request of any kind used here.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union SendWr {
    wr: bindings::ib_send_wr,
    rdma: bindings::ib_rdma_wr,
    reg: bindings::ib_reg_wr,
}

/// What all send work requests have.
#[derive(Clone, Copy)]
pub(crate) struct SendCommon {
    /// Comes back in the completion.
    pub(crate) wr_id: u64,
    /// Whether success, too, makes a completion.
    pub(crate) signaled: bool,
}

impl SendWr {
    fn base(
        common: SendCommon,
        opcode: bindings::ib_wr_opcode,
        sges: *mut Sge,
        num_sge: u16,
    ) -> bindings::ib_send_wr {
        let mut flags = 0;
        if common.signaled {
            flags |= bindings::ib_send_flags_IB_SEND_SIGNALED;
        }
        // SAFETY: All fields are integers and pointers, for which zeroes are valid.
        let mut wr: bindings::ib_send_wr = unsafe { core::mem::zeroed() };
        wr.__bindgen_anon_1.wr_id = common.wr_id;
        wr.sg_list = sges.cast();
        wr.num_sge = num_sge.into();
        wr.opcode = opcode;
        wr.send_flags = flags;
        wr
    }

    /// A SEND of `num_sge` pieces.
    pub(crate) fn send(common: SendCommon, sges: *mut Sge, num_sge: u16) -> Self {
        Self {
            wr: Self::base(common, bindings::ib_wr_opcode_IB_WR_SEND, sges, num_sge),
        }
    }

    /// An RDMA WRITE of `num_sge` pieces to `remote`.
    pub(crate) fn write(
        common: SendCommon,
        sges: *mut Sge,
        num_sge: u16,
        remote: u64,
        rkey: u32,
    ) -> Self {
        Self {
            rdma: bindings::ib_rdma_wr {
                wr: Self::base(
                    common,
                    bindings::ib_wr_opcode_IB_WR_RDMA_WRITE,
                    sges,
                    num_sge,
                ),
                remote_addr: remote,
                rkey,
            },
        }
    }

    /// A registration of `mr` under its current key, for local and remote writing.
    pub(crate) fn reg(common: SendCommon, mr: *mut IbMr, key: u32) -> Self {
        let access = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
            | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
        Self {
            reg: bindings::ib_reg_wr {
                wr: Self::base(
                    common,
                    bindings::ib_wr_opcode_IB_WR_REG_MR,
                    ptr::null_mut(),
                    0,
                ),
                mr,
                key,
                // A small positive number; C keeps it in an int.
                access: access as i32,
            },
        }
    }

    /// An invalidation of `rkey`.
    pub(crate) fn local_inv(common: SendCommon, rkey: u32) -> Self {
        let opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
        let mut wr = Self::base(common, opcode, ptr::null_mut(), 0);
        wr.ex.invalidate_rkey = rkey;
        Self { wr }
    }

    /// Makes `next` follow this request.
    pub(crate) fn link(&mut self, next: *mut SendWr) {
        self.wr.next = next.cast();
    }
}

/// `struct ib_recv_wr`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct RecvWr(bindings::ib_recv_wr);

impl RecvWr {
    /// A receive into `num_sge` pieces.
    pub(crate) fn new(wr_id: u64, sges: *mut Sge, num_sge: u16) -> Self {
        // SAFETY: All fields are integers and pointers, for which zeroes are valid.
        let mut wr: bindings::ib_recv_wr = unsafe { core::mem::zeroed() };
        wr.__bindgen_anon_1.wr_id = wr_id;
        wr.sg_list = sges.cast();
        wr.num_sge = num_sge.into();
        Self(wr)
    }

    /// Makes `next` follow this request.
    pub(crate) fn link(&mut self, next: *mut RecvWr) {
        self.0.next = next.cast();
    }
}

/// Posts a chain of send work requests.
///
/// Returns 0 or an error, and how many requests were accepted.
///
/// # Safety
///
/// `qp` is alive. `wr` heads a chain of initialised requests whose pieces stay mapped until each
/// has completed or the QP is gone.
pub(crate) unsafe fn post_send(qp: *mut IbQp, wr: &mut SendWr) -> (i32, u32) {
    let mut accepted = 0;
    // SAFETY: By the contract of this function; every kind starts with a `struct ib_send_wr`.
    let rc = unsafe { bindings::kor_qp_post_send(qp, ptr::from_mut(wr).cast(), &mut accepted) };
    (rc, accepted)
}

/// Posts a chain of receive work requests, as [`post_send`].
///
/// # Safety
///
/// As for [`post_send`].
pub(crate) unsafe fn post_recv(qp: *mut IbQp, wr: &mut RecvWr) -> (i32, u32) {
    let mut accepted = 0;
    // SAFETY: By the contract of this function.
    let rc = unsafe { bindings::kor_qp_post_recv(qp, ptr::from_mut(wr).cast(), &mut accepted) };
    (rc, accepted)
}

/// `struct ib_wc`: a completion.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Wc(bindings::ib_wc);

impl Wc {
    /// For arrays that [`cq_poll`] fills.
    pub(crate) fn empty() -> Self {
        // SAFETY: All fields are integers and pointers, for which zeroes are valid.
        Self(unsafe { core::mem::zeroed() })
    }

    /// What was given to the work request.
    pub(crate) fn wr_id(&self) -> u64 {
        // SAFETY: Both views of the union are plain numbers.
        unsafe { self.0.__bindgen_anon_1.wr_id }
    }

    /// `enum ib_wc_status`.
    pub(crate) fn status(&self) -> u32 {
        self.0.status
    }

    /// Bytes received; only for a successful receive.
    pub(crate) fn byte_len(&self) -> u32 {
        self.0.byte_len
    }

    /// Whether the peer had a key of ours invalidated; only for a successful receive.
    pub(crate) fn is_invalidating(&self) -> bool {
        self.0.wc_flags & bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE as i32 != 0
    }

    /// The vendor's own code for an error.
    pub(crate) fn vendor_err(&self) -> u32 {
        self.0.vendor_err
    }
}

// What the users of [`Wc::status`] take for granted: 0 is success, 5 a flushed request.
const _: () = assert!(bindings::ib_wc_status_IB_WC_SUCCESS == 0);
const _: () = assert!(bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR == 5);

/// Fills `wc` with completions; how many, or an error.
///
/// # Safety
///
/// `cq` is alive.
pub(crate) unsafe fn cq_poll(cq: *mut IbCq, wc: &mut [Wc]) -> i32 {
    let n = i32::try_from(wc.len()).unwrap_or(i32::MAX);
    // SAFETY: By the contract of this function; `wc` has room for `n`.
    unsafe { bindings::kor_cq_poll(cq, n, wc.as_mut_ptr().cast()) }
}

/// The text for an `enum ib_wc_status`.
pub(crate) fn wc_status_text(status: u32) -> &'static ::kernel::str::CStr {
    // SAFETY: The function takes any number and returns a static string.
    unsafe {
        <::kernel::str::CStr as ::kernel::str::CStrExt>::from_char_ptr(bindings::ib_wc_status_msg(
            status,
        ))
    }
}
