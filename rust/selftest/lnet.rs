// SPDX-License-Identifier: GPL-2.0

//! Tests of what [`lnet`](crate::lnet) does without LNet's help. What it does with LNet is tried by
//! scenarios.

use super::{
    expect,
    expect_error,
    Outcome,
    Test, //
};
use crate::{
    ffi::types::RawBioVec,
    kx::{
        Cpt,
        Kiov,
        Node, //
    },
    lnet, //
};
use kernel::{
    page::{
        Page,
        PAGE_SIZE, //
    },
    prelude::*, //
};

pub(super) const TESTS: &[Test] = &[
    ("cpts_exist_or_not", cpts_exist_or_not),
    ("pages_take_and_give_bytes", pages_take_and_give_bytes),
    ("pages_have_bounds", pages_have_bounds),
    ("no_message_is_held", no_message_is_held),
];

fn cpts_exist_or_not() -> Outcome {
    let count = lnet::cpt_count();
    expect(count > 0, "no CPT")?;
    expect(
        lnet::cpt_weight(Cpt(count)) == 0,
        "CPUs in a CPT that does not exist",
    )?;
    expect(
        lnet::cpt_node(Cpt(count)) == Node(None),
        "its memory is somewhere",
    )?;
    expect_error(lnet::bind_to_cpt(Cpt(count)), EINVAL, "bound to it")
}

/// A page, with entries of a vector that name pieces of it: offset, length.
struct Pieces<const N: usize> {
    vector: [RawBioVec; N],
    _page: Page,
}

impl<const N: usize> Pieces<N> {
    fn new(pieces: [(u32, u32); N]) -> Result<Self> {
        let page = Page::alloc_page(GFP_KERNEL | __GFP_ZERO)?;
        let vector = pieces.map(|(offset, len)| RawBioVec {
            page: page.as_ptr().cast(),
            len,
            offset,
        });
        let _page = page;
        Ok(Self { vector, _page })
    }

    fn kiov(&self, offset: u32, len: u32) -> Kiov<'_> {
        // SAFETY: The vector and the page are borrowed for the life of the result.
        unsafe { Kiov::from_raw(self.vector.as_ptr(), N as u32, offset, len) }
    }
}

fn pages_take_and_give_bytes() -> Outcome {
    let pieces = Pieces::new([(0, 3), (100, 5)])?;
    lnet::copy_to_pages(pieces.kiov(1, 6), b"abcdef")?;
    let mut got = [0; 6];
    lnet::copy_from_pages(&mut got, pieces.kiov(1, 6))?;
    expect(&got == b"abcdef", "other bytes come back")?;
    // The same bytes by way of the whole page.
    let whole = Pieces {
        vector: [pieces.vector[0]],
        _page: pieces._page,
    };
    let mut around = [0; 4];
    lnet::copy_from_pages(&mut around, whole.kiov(0, 3)).err();
    lnet::copy_from_pages(&mut around[..3], whole.kiov(0, 3))?;
    expect(
        &around[..3] == b"\0ab",
        "bytes beside what was copied are changed",
    )
}

fn pages_have_bounds() -> Outcome {
    let outside = Pieces::new([(PAGE_SIZE as u32 - 2, 4)])?;
    let copied = lnet::copy_to_pages(outside.kiov(0, 4), b"abcd");
    expect_error(copied, EFAULT, "copied beyond the page")?;
    let mut buf = [0; 4];
    let copied = lnet::copy_from_pages(&mut buf, outside.kiov(0, 4));
    expect_error(copied, EFAULT, "read beyond the page")?;
    let short = Pieces::new([(0, 2)])?;
    let copied = lnet::copy_to_pages(short.kiov(0, 4), b"abcd");
    expect_error(copied, EFAULT, "more bytes than there is room")
}

fn no_message_is_held() -> Outcome {
    expect(lnet::live_messages() == 0, "messages without an NI")?;
    expect(lnet::lost_messages() == 0, "messages were lost")
}
