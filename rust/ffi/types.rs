// SPDX-License-Identifier: GPL-2.0

//! Neutral types that both `rdma` and `lnet` use: page slices, CPTs, NUMA nodes, and opaque
//! handles of kernel objects that one of them gets and the other uses.
//!
//! Free of `kernel::` and of the generated bindings, so that `tests/host` compiles it too.

use core::marker::PhantomData;
use core::ptr::NonNull;

/// A CPU partition of LNet, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cpt(pub(crate) u32);

/// A NUMA node to allocate on; `None` for any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(pub(crate) Option<u32>);

impl Node {
    /// From the kernel's form, in which every negative number means any node.
    pub(crate) fn from_raw(node: i32) -> Self {
        Node(u32::try_from(node).ok())
    }

    /// The kernel's form; -1 (`NUMA_NO_NODE`) for any.
    pub(crate) fn as_raw(self) -> i32 {
        self.0.and_then(|n| i32::try_from(n).ok()).unwrap_or(-1)
    }
}

/// Stands for `struct page`; only pointers to it exist.
#[repr(C)]
pub(crate) struct RawPage {
    _opaque: [u8; 0],
}

/// Stands for `struct net`; only pointers to it exist.
#[repr(C)]
pub(crate) struct RawNet {
    _opaque: [u8; 0],
}

/// Layout of `struct bio_vec`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawBioVec {
    pub(crate) page: *mut RawPage,
    pub(crate) len: u32,
    pub(crate) offset: u32,
}

/// A `struct page *`.
///
/// Carries no reference: who hands it on says how long the page stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page(NonNull<RawPage>);

impl Page {
    /// The pointer, for a shim or a binding (cast it to the generated type).
    pub(crate) fn as_ptr(self) -> *mut RawPage {
        self.0.as_ptr()
    }
}

// SAFETY: A page pointer is an address without thread affinity; whatever uses it states its needs.
unsafe impl Send for Page {}
// SAFETY: As for `Send`.
unsafe impl Sync for Page {}

/// Part of one page, in the layout of `struct kor_page_slice`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageSlice {
    /// The page.
    pub(crate) page: Page,
    /// First byte.
    pub(crate) offset: u32,
    /// Bytes; never 0 when it comes from [`Kiov::slices`].
    pub(crate) len: u32,
}

/// `len` bytes of a page vector, starting `offset` bytes into its first entry.
///
/// The vector may be longer than what is meant, even much longer (LU-15851): whoever has a limit
/// applies it to what [`slices`](Self::slices) yields, never to the vector.
///
/// # Invariants
///
/// For `'a`, `bv` points to `nr` entries whose pages stay; unless `nr` is 0.
#[derive(Clone, Copy)]
pub(crate) struct Kiov<'a> {
    bv: *const RawBioVec,
    nr: u32,
    offset: u32,
    len: u32,
    _vector: PhantomData<&'a [RawBioVec]>,
}

impl<'a> Kiov<'a> {
    /// Takes a page vector in the kernel's form.
    ///
    /// # Safety
    ///
    /// Unless `bv` is NULL or `nr` is 0, `bv` must point to `nr` entries of `struct bio_vec` that
    /// neither change nor go away during `'a`, nor do their pages.
    pub(crate) unsafe fn from_raw(bv: *const RawBioVec, nr: u32, offset: u32, len: u32) -> Self {
        // INVARIANT: By the contract of this function; without a vector there are no entries.
        Kiov {
            bv,
            nr: if bv.is_null() { 0 } else { nr },
            offset,
            len,
            _vector: PhantomData,
        }
    }

    /// Bytes meant; the vector may turn out to be shorter.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Whether no bytes are meant.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slices that cover the bytes, in order. Their lengths add up to [`len`](Self::len) unless
    /// the vector is too short or has an entry without a page.
    pub(crate) fn slices(&self) -> Slices<'a> {
        Slices {
            bv: self.bv,
            nr: self.nr,
            skip: self.offset,
            left: self.len,
            _vector: PhantomData,
        }
    }

    /// The first `len` bytes; everything when there are fewer.
    pub(crate) fn truncated(self, len: u32) -> Self {
        Kiov {
            len: self.len.min(len),
            ..self
        }
    }
}

/// Iterator over the slices of a [`Kiov`].
///
/// # Invariants
///
/// As of [`Kiov`]: `bv` points to `nr` more entries.
#[derive(Clone)]
pub(crate) struct Slices<'a> {
    bv: *const RawBioVec,
    nr: u32,
    skip: u32,
    left: u32,
    _vector: PhantomData<&'a [RawBioVec]>,
}

impl Iterator for Slices<'_> {
    type Item = PageSlice;

    fn next(&mut self) -> Option<PageSlice> {
        while self.left > 0 && self.nr > 0 {
            // SAFETY: By the type invariant `bv` points to an entry, as `nr` is not 0.
            let entry = unsafe { *self.bv };
            // INVARIANT: One entry less follows the one behind it.
            self.bv = self.bv.wrapping_add(1);
            self.nr -= 1;
            if entry.len <= self.skip {
                self.skip -= entry.len;
                continue;
            }
            let len = (entry.len - self.skip).min(self.left);
            let offset = entry.offset.checked_add(self.skip);
            self.skip = 0;
            let (Some(offset), Some(page)) = (offset, NonNull::new(entry.page)) else {
                self.left = 0;
                return None;
            };
            self.left -= len;
            let page = Page(page);
            return Some(PageSlice { page, offset, len });
        }
        None
    }
}
