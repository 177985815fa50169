// SPDX-License-Identifier: GPL-2.0

//! `ko2iblnd`: an LNet network driver over RDMA verbs.

mod ffi;
mod kx;
mod lnd;
mod lnet;
#[cfg(KOR_MISUSE)]
mod misuse;
mod rdma;
#[cfg(KOR_DMA_CHECK)]
mod selftest;

// Also parts of the library of `tests/host`, to which their interfaces are public. What only that
// library uses of them is there with its feature "tests".
#[allow(unreachable_pub)]
mod driver;
#[allow(unreachable_pub)]
mod proto;
#[allow(unreachable_pub)]
mod wire;

use kernel::prelude::*;

module! {
    type: Module,
    name: "ko2iblnd",
    authors: ["The ko2iblnd-rs developers"],
    description: "LNet network driver over RDMA verbs",
    license: "GPL",
}

/// The module. Fields are dropped in this order: LNet forgets the driver first.
struct Module {
    _registration: lnet::Registration<lnd::Ko2iblnd>,
    _files: lnd::Files,
    #[cfg(KOR_DMA_CHECK)]
    _tests: selftest::Tests,
    _leaks: lnd::LeakCheck,
    _room: rdma::Room,
    _unload: kx::Unload,
}

impl kernel::Module for Module {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // Before anything of theirs is called or looked into.
        lnet::check_loaded_build()?;
        rdma::check_loaded_stack()?;
        let room = rdma::Room::new()?;
        let lnd = lnd::Ko2iblnd::new()?;
        let files = lnd::Files::new(&lnd)?;
        Ok(Self {
            _registration: lnet::Registration::new(lnd)?,
            _files: files,
            #[cfg(KOR_DMA_CHECK)]
            _tests: selftest::Tests::new()?,
            _leaks: lnd::LeakCheck,
            _room: room,
            _unload: kx::Unload::new(),
        })
    }
}
