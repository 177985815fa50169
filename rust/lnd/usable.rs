// SPDX-License-Identifier: GPL-2.0

//! Whether an NI can be used: the fatal flag as a pure function of what is known.
//!
//! LNet avoids an NI whose flag is set (lnd-contract.md 16.3). The flag is computed anew from all
//! inputs at every event, never switched by the event itself, so up and down are symmetric
//! whatever the order of the events.

/// What is known about the way from an NI to its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usability {
    /// The RDMA device is there.
    pub(crate) device: bool,
    /// The RDMA port is active, and the device has not reported a fatal error.
    pub(crate) port: bool,
    /// The network interface is there and operational.
    pub(crate) netdev: bool,
    /// The link as ethtool sees it; `None` when it does not know.
    pub(crate) link: Option<bool>,
    /// The NI's address is on the interface.
    pub(crate) address: bool,
}

impl Usability {
    /// What is assumed before anything is known to be wrong.
    pub(crate) const UP: Self = Self {
        device: true,
        port: true,
        netdev: true,
        link: None,
        address: true,
    };

    /// Whether LNet should avoid the NI.
    pub(crate) const fn is_fatal(&self) -> bool {
        let no_link = matches!(self.link, Some(false));
        !(self.device && self.port && self.netdev && self.address) || no_link
    }
}
