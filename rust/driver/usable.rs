// SPDX-License-Identifier: GPL-2.0

//! Whether an NI can be used: the fatal flag as a pure function of what is known.
//!
//! LNet avoids an NI whose flag is set (lnd-contract.md 16.3). The flag is computed anew from all
//! inputs at every event, never switched by the event itself, so up and down are symmetric
//! whatever the order of the events.

use core::fmt;

/// The state of everything between an NI and its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usability {
    /// The RDMA device exists, and has not reported a fatal error.
    pub device: bool,
    /// The RDMA port is active.
    pub port: bool,
    /// The network interface exists, is operational, and has a link as far as ethtool knows.
    pub link: bool,
    /// The NI's address is on the interface.
    pub address: bool,
}

impl Usability {
    /// Whether LNet should avoid the NI.
    pub const fn is_fatal(&self) -> bool {
        !(self.device && self.port && self.link && self.address)
    }
}

/// The first thing that makes an NI unusable, for the log.
impl fmt::Display for Usability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons = [
            (self.device, "its RDMA device is gone or has failed"),
            (self.port, "the RDMA port is not active"),
            (self.link, "the interface has no link"),
            (
                self.address,
                "the interface is down or has lost the address",
            ),
        ];
        let mut between = "";
        for (_, reason) in reasons.iter().filter(|(good, _)| !good) {
            write!(f, "{between}{reason}")?;
            between = ", ";
        }
        Ok(())
    }
}
