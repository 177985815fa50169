// SPDX-License-Identifier: GPL-2.0

//! The only door between Rust and C.
//!
//! The generated bindings are private to this room. What leaves it are opaque newtypes, plain
//! structures of our own (`kor_*`, declared in `include/ko2iblnd/`) and unsafe functions. Only the
//! rooms [`kx`](crate::kx), [`rdma`](crate::rdma) and `lnet` may name them; the neutral types
//! of [`types`] are re-exported from there.

/// The output of bindgen over `include/ko2iblnd/bindings.h`, made by `Kbuild`. Not to be used
/// directly.
#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    improper_ctypes,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unnameable_types,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod bindings {
    type __kernel_size_t = usize;
    type __kernel_ssize_t = isize;
    type __kernel_ptrdiff_t = isize;

    include!(env!("KOR_BINDINGS"));
}

pub(crate) mod kx;
pub(crate) mod lnet;
pub(crate) mod types;
pub(crate) mod verbs;
