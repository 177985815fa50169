// SPDX-License-Identifier: GPL-2.0

//! The NIs that are up.

use super::{
    conn::Network,
    device::Dev, //
};
use crate::{
    driver::admission,
    wire::Nid, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// The networks that are up.
///
/// The mutex is held for looking only; nothing but addresses' mutex is taken inside.
#[pin_data]
pub(crate) struct Networks {
    #[pin]
    list: Mutex<KVec<Arc<Network>>>,
}

impl Networks {
    /// None.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                list <- new_mutex!(KVec::new(), "ko2iblnd::Networks"),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds a network.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add(&self, network: Arc<Network>) -> Result {
        Ok(self.list.lock().push(network, GFP_KERNEL)?)
    }

    /// Takes a network out.
    pub(crate) fn remove(&self, network: &Arc<Network>) {
        self.list
            .lock()
            .retain(|other| !Arc::ptr_eq(other, network));
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.lock().is_empty()
    }

    /// All networks, in no special order. No lock is held between them: of those that come or go
    /// meanwhile some are seen.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<Network>> + '_ {
        let mut at = 0..;
        core::iter::from_fn(move || self.list.lock().get(at.next()?).cloned())
    }

    /// The network whose NI has this NID.
    pub(crate) fn by_nid(&self, nid: Nid) -> Option<Arc<Network>> {
        let list = self.list.lock();
        list.iter().find(|net| net.ni.info().nid == nid).cloned()
    }

    /// Calls `f` with whether an address is used by an NI, while no NI comes or goes.
    pub(crate) fn with_used(&self, f: impl FnOnce(&dyn Fn(&Arc<Dev>) -> bool)) {
        let list = self.list.lock();
        f(&|dev| list.iter().any(|net| Arc::ptr_eq(&net.ni.dev, dev)));
    }

    /// Whether the NIs of the listener with `tag` are complete, see [`admission::is_complete`].
    pub(crate) fn is_complete(&self, tag: u64) -> bool {
        let list = self.list.lock();
        let on_dev = list.iter().filter(|net| net.ni.dev.tag() == tag);
        admission::is_complete(on_dev.map(|net| net.ni.is_in_service()))
    }

    /// Tells LNet which NIs to avoid. Sleeps (takes RTNL).
    pub(crate) fn update_usability(&self) {
        for network in self.iter() {
            network.ni.update_usability();
        }
    }
}
