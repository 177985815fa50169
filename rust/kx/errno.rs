// SPDX-License-Identifier: GPL-2.0

//! Error numbers that `kernel::error::code` does not have, and conversions.

use kernel::error::Error;

/// An error number, positive, as in `errno.h`.
///
/// For comparing with and producing [`Error`]s in constants, which the `kernel` crate does not
/// allow for numbers it has no name for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errno(u16);

impl Errno {
    /// The negative number that C functions return, and LNet takes as a status.
    pub(crate) const fn to_status(self) -> i32 {
        -(self.0 as i32)
    }

    /// The same as an [`Error`].
    pub(crate) fn to_error(self) -> Error {
        Error::from_errno(self.to_status())
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        errno.to_error()
    }
}

impl PartialEq<Errno> for Error {
    fn eq(&self, other: &Errno) -> bool {
        self.to_errno() == other.to_status()
    }
}

macro_rules! errnos {
    ($($name:ident = $value:literal, $doc:literal;)*) => {
        $(
            #[doc = $doc]
            pub(crate) const $name: Errno = Errno($value);
        )*
    };
}

errnos! {
    EAFNOSUPPORT = 97, "Address family not supported.";
    EOPNOTSUPP = 95, "Operation not supported.";
    EADDRINUSE = 98, "Address already in use.";
    EADDRNOTAVAIL = 99, "Cannot assign requested address.";
    ENETDOWN = 100, "Network is down.";
    ENOTCONN = 107, "Transport endpoint is not connected.";
}
