// SPDX-License-Identifier: GPL-2.0

//! `ko2iblnd`: an LNet network driver over RDMA verbs.

mod ffi;
mod kx;
mod lnet;
mod rdma;

use kernel::prelude::*;

module! {
    type: Ko2iblnd,
    name: "ko2iblnd",
    authors: ["The ko2iblnd-rs developers"],
    description: "LNet network driver over RDMA verbs",
    license: "GPL",
}

struct Ko2iblnd;

impl kernel::Module for Ko2iblnd {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
