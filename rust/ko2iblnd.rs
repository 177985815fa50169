// SPDX-License-Identifier: GPL-2.0

//! `ko2iblnd`: an LNet network driver over RDMA verbs.

mod ffi;
mod kx;
mod lnd;
mod lnet;
mod rdma;

// Also libraries of `tests/host`, which uses more of them than the driver does.
#[allow(unreachable_pub)]
mod driver;
#[allow(dead_code, unreachable_pub, unused_imports)]
mod proto;
#[allow(dead_code, unreachable_pub, unused_imports)]
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
    _files: Pin<KBox<lnd::Files>>,
    _leaks: lnd::LeakCheck,
    _room: rdma::Room,
}

impl kernel::Module for Module {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // Before anything of theirs is called or looked into.
        lnet::check_loaded_build()?;
        rdma::check_loaded_stack()?;
        let room = rdma::Room::new()?;
        let lnd = lnd::Ko2iblnd::new()?;
        let files = KBox::pin_init(lnd::Files::new(lnd.clone()), GFP_KERNEL)?;
        Ok(Self {
            _registration: lnet::Registration::new(lnd)?,
            _files: files,
            _leaks: lnd::LeakCheck,
            _room: room,
        })
    }
}
