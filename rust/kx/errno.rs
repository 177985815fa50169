// SPDX-License-Identifier: GPL-2.0

//! Error numbers that `kernel::error::code` lacks in a supported kernel (7.2), as the kernel's
//! headers have them, and conversions.

use crate::ffi::kx::errno;
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
    ($($name:ident, $doc:literal;)*) => {
        $(
            #[doc = $doc]
            pub(crate) const $name: Errno = Errno(errno::$name as u16);
        )*
    };
}

errnos! {
    EAFNOSUPPORT, "Address family not supported.";
    EOPNOTSUPP, "Operation not supported.";
    EADDRINUSE, "Address already in use.";
    EADDRNOTAVAIL, "Cannot assign requested address.";
    ENETDOWN, "Network is down.";
    ENOTCONN, "Transport endpoint is not connected.";
}
