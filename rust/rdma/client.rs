// SPDX-License-Identifier: GPL-2.0

//! Devices that come and go.

use super::{
    Device,
    DeviceId, //
};
use crate::ffi::verbs;
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    ffi::c_void,
    prelude::*,
    sync::Arc, //
};

/// Is told of devices; see [`ClientRegistration`].
pub(crate) trait Client: Send + Sync + 'static {
    /// A device is there. Called for those that exist already, too. May sleep.
    fn add(&self, dev: Arc<Device>);

    /// A device goes away. May sleep, and must: when it returns, no [`Device`] with this id may be
    /// held any longer than it takes to let it go.
    fn remove(&self, dev: DeviceId);
}

/// Registers a [`Client`] with the RDMA core (`struct ib_client`). One can exist at a time.
pub(crate) struct ClientRegistration<C: Client> {
    _client: Arc<C>,
}

impl<C: Client> ClientRegistration<C> {
    /// Registers; [`Client::add`] runs for every device before this returns.
    ///
    /// # Errors
    ///
    /// `EBUSY` when there is one, `ENOMEM`.
    pub(crate) fn new(client: Arc<C>) -> Result<Self> {
        let ctx = Arc::as_ptr(&client).cast_mut().cast::<c_void>();
        // SAFETY: `ctx` points to a `C` that outlives the registration: `drop` ends that before
        // it lets the reference go.
        to_result(unsafe { verbs::client_register(Some(add::<C>), Some(remove::<C>), ctx) })?;
        Ok(Self { _client: client })
    }
}

impl<C: Client> Drop for ClientRegistration<C> {
    /// Runs [`Client::remove`] for every device that is left. Sleeps.
    fn drop(&mut self) {
        // SAFETY: There is a registration, made by `new`; it is the only one.
        unsafe { verbs::client_unregister() }
    }
}

/// # Safety
///
/// `ctx` points to a live `C`, `dev` to a registered device.
unsafe extern "C" fn add<C: Client>(ctx: *mut c_void, dev: *mut verbs::IbDevice) {
    // SAFETY: By the contract of this function.
    let client = unsafe { &*ctx.cast::<C>() };
    let Some(dev) = NonNull::new(dev) else {
        return;
    };
    // SAFETY: By the contract of this function.
    match unsafe { Device::get(dev) } {
        Ok(dev) => client.add(dev),
        Err(e) => pr_warn!("an RDMA device was added but cannot be used: {e:?}\n"),
    }
}

/// # Safety
///
/// As for [`add`].
unsafe extern "C" fn remove<C: Client>(ctx: *mut c_void, dev: *mut verbs::IbDevice) {
    // SAFETY: By the contract of this function.
    let client = unsafe { &*ctx.cast::<C>() };
    client.remove(DeviceId::of(dev));
}
