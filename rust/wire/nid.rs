// SPDX-License-Identifier: GPL-2.0

//! LNet network identifiers in their 64-bit form (protocol.md section 7).

use core::fmt;

/// LNet network type of this driver's networks, `o2ib`.
const NET_TYPE_O2IB: u16 = 5;

const NET_TYPE_TCP: u16 = 2;
const NET_TYPE_LO: u16 = 9;

/// A network identifier in 64-bit form.
///
/// Bits 63..48 are the network type, bits 47..32 the network number, bits 31..0 the IPv4 address
/// as an integer. There is no wire format for larger (IPv6) identifiers.
///
/// The order of [`Ord`] is that of the number, which is the connection-race order of releases
/// before 2.16; see [`Nid::race_hash`] for the order of 2.16 and later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nid(pub u64);

impl Nid {
    /// The wildcard, all ones. Never a legal source.
    pub const ANY: Self = Self(u64::MAX);

    /// Builds an identifier from its parts.
    #[cfg(feature = "tests")]
    pub const fn new(net_type: u16, net_num: u16, addr: u32) -> Self {
        let [t1, t0] = net_type.to_be_bytes();
        let [n1, n0] = net_num.to_be_bytes();
        let [a3, a2, a1, a0] = addr.to_be_bytes();
        Self(u64::from_be_bytes([t1, t0, n1, n0, a3, a2, a1, a0]))
    }

    /// The identifier of IPv4 address `addr` on network `o2ib<net_num>`.
    #[cfg(feature = "tests")]
    pub const fn o2ib(net_num: u16, addr: u32) -> Self {
        Self::new(NET_TYPE_O2IB, net_num, addr)
    }

    /// Network type: 5 for `o2ib`.
    pub const fn net_type(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Network number: 3 for `o2ib3`.
    pub const fn net_num(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Network type and number as LNet's 32-bit network id, `type << 16 | number`.
    pub const fn net(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The IPv4 address as an integer: `0xc0a80105` for 192.168.1.5.
    pub const fn addr(self) -> u32 {
        self.0 as u32
    }

    /// Whether this is the wildcard.
    pub const fn is_any(self) -> bool {
        self.0 == Self::ANY.0
    }

    /// The hash that decides connection races in releases 2.16 and later (section 14.7), as
    /// computed on this machine: the node whose hash is *lower* gives way.
    ///
    /// The C driver XORs the address word as stored (big-endian) but read as a native integer,
    /// so machines of different byte order disagree. Releases up to 2.15 compare the identifiers
    /// as numbers instead, which is this type's [`Ord`].
    pub const fn race_hash(self) -> u32 {
        if cfg!(target_endian = "little") {
            self.race_hash_little()
        } else {
            self.race_hash_big()
        }
    }

    /// [`Nid::race_hash`] as a little-endian machine computes it.
    pub const fn race_hash_little(self) -> u32 {
        self.net() ^ self.addr().swap_bytes()
    }

    /// [`Nid::race_hash`] as a big-endian machine computes it.
    pub const fn race_hash_big(self) -> u32 {
        self.net() ^ self.addr()
    }
}

/// `192.168.1.5@o2ib`, `10.0.0.1@o2ib3`, `0@lo`; `@<type:number>` for types without a name here.
impl fmt::Display for Nid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_any() {
            return f.write_str("<any>");
        }
        if self.net_type() == NET_TYPE_LO {
            write!(f, "{}@lo", self.addr())?;
        } else {
            let [a, b, c, d] = self.addr().to_be_bytes();
            write!(f, "{a}.{b}.{c}.{d}@")?;
            match self.net_type() {
                NET_TYPE_O2IB => f.write_str("o2ib")?,
                NET_TYPE_TCP => f.write_str("tcp")?,
                other => return write!(f, "<{}:{}>", other, self.net_num()),
            }
        }
        match self.net_num() {
            0 => Ok(()),
            num => write!(f, "{num}"),
        }
    }
}
