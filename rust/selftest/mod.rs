// SPDX-License-Identifier: GPL-2.0

//! Tests of the rooms that need a kernel, in test builds (`KOR_DMA_CHECK=1`).
//!
//! Reading a file in `/sys/kernel/debug/ko2iblnd_selftest/` runs the tests of the room of that name
//! in the reader's context, and shows what came of them as KTAP, the form that KUnit's tools read.
//! They are plain functions, so they need no `CONFIG_KUNIT`; the scenario `rooms` reads the files.

mod kx;
mod lnet;
mod rdma;

use crate::kx::debugfs::{
    Dir,
    File, //
};
use core::panic::Location;
use kernel::{
    fmt,
    prelude::*,
    sync::Arc, //
};

/// What a test that fails says.
pub(crate) struct Failure {
    at: &'static Location<'static>,
    what: &'static str,
    error: Option<Error>,
}

impl From<Error> for Failure {
    #[track_caller]
    fn from(error: Error) -> Self {
        Self {
            at: Location::caller(),
            what: "a call that has to work",
            error: Some(error),
        }
    }
}

impl From<kernel::alloc::AllocError> for Failure {
    #[track_caller]
    fn from(_: kernel::alloc::AllocError) -> Self {
        Error::from(kernel::alloc::AllocError).into()
    }
}

/// How a test ended.
type Outcome = core::result::Result<(), Failure>;

/// A test and its name.
type Test = (&'static str, fn() -> Outcome);

/// Fails with `what` unless it is so.
#[track_caller]
fn expect(so: bool, what: &'static str) -> Outcome {
    if so {
        return Ok(());
    }
    Err(Failure {
        at: Location::caller(),
        what,
        error: None,
    })
}

/// Fails with `what` unless `result` is this error.
#[track_caller]
fn expect_error<T>(result: Result<T>, error: Error, what: &'static str) -> Outcome {
    match result {
        Err(e) if e == error => Ok(()),
        other => Err(Failure {
            at: Location::caller(),
            what,
            error: other.err(),
        }),
    }
}

/// Runs tests.
fn run(tests: &[Test], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "KTAP version 1\n1..{}", tests.len())?;
    for (n, (name, test)) in (1..).zip(tests) {
        match test() {
            Ok(()) => writeln!(f, "ok {n} {name}")?,
            Err(Failure { at, what, error }) => {
                writeln!(f, "# {name}: {}:{}: {what}", at.file(), at.line())?;
                if let Some(error) = error {
                    writeln!(f, "# {name}: error {}", error.to_errno())?;
                }
                writeln!(f, "not ok {n} {name}")?;
            }
        }
    }
    Ok(())
}

/// The files.
pub(crate) struct Tests {
    _kx: File<()>,
    _lnet: File<()>,
    _rdma: File<()>,
}

impl Tests {
    /// Makes the files.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let dir = Arc::new(Dir::new(c"ko2iblnd_selftest"), GFP_KERNEL)?;
        Ok(Self {
            _kx: File::new(&dir, c"kx", (), |(), f| run(kx::TESTS, f))?,
            _lnet: File::new(&dir, c"lnet", (), |(), f| run(lnet::TESTS, f))?,
            _rdma: File::new(&dir, c"rdma", (), |(), f| run(rdma::TESTS, f))?,
        })
    }
}
