// SPDX-License-Identifier: GPL-2.0

//! Page vectors: the walker of `rust/ffi/types.rs` over vectors in memory of the test.

#![allow(missing_docs)]

#[path = "../../../rust/ffi/types.rs"]
#[allow(dead_code)]
mod types;

use types::*;

const PAGE: u32 = 4096;

/// A page is never read here, so any address other than 0 can stand for one.
fn page(n: usize) -> *mut RawPage {
    std::ptr::without_provenance_mut((n + 1) * 64)
}

fn vector(entries: &[(u32, u32)]) -> Vec<RawBioVec> {
    let entry = |(n, &(offset, len)): (usize, &(u32, u32))| RawBioVec {
        page: page(n),
        len,
        offset,
    };
    entries.iter().enumerate().map(entry).collect()
}

fn kiov(v: &[RawBioVec], offset: u32, len: u32) -> Kiov<'_> {
    // SAFETY: the vector is borrowed for the life of the result, and its pages are not touched.
    unsafe { Kiov::from_raw(v.as_ptr(), v.len() as u32, offset, len) }
}

/// The slices as (index of the page, offset, length).
fn slices(k: Kiov<'_>) -> Vec<(usize, u32, u32)> {
    k.slices()
        .map(|s| (s.page.as_ptr() as usize / 64 - 1, s.offset, s.len))
        .collect()
}

/// Whether the slices make up the whole length.
fn is_backed(k: Kiov<'_>) -> bool {
    k.slices().map(|s| u64::from(s.len)).sum::<u64>() == u64::from(k.len())
}

/// Byte by byte: what [`slices`] must say, in the slow and obvious way.
fn reference(v: &[RawBioVec], offset: u32, len: u32) -> Vec<(usize, u32, u32)> {
    let bytes = v
        .iter()
        .enumerate()
        .flat_map(|(n, e)| (0..e.len).map(move |i| (n, e.offset + i)));
    let mut out: Vec<(usize, u32, u32)> = Vec::new();
    for (n, at) in bytes.skip(offset as usize).take(len as usize) {
        match out.last_mut() {
            Some((page, first, count)) if *page == n && *first + *count == at => *count += 1,
            _ => out.push((n, at, 1)),
        }
    }
    out
}

#[test]
fn a_slice_of_each_kind() {
    let v = vector(&[(100, 3996), (0, PAGE), (0, 50)]);
    assert_eq!(slices(kiov(&v, 0, 10)), [(0, 100, 10)]);
    assert_eq!(slices(kiov(&v, 3995, 2)), [(0, 4095, 1), (1, 0, 1)]);
    assert_eq!(slices(kiov(&v, 3996, 1)), [(1, 0, 1)]);
    let all = [(0, 100, 3996), (1, 0, PAGE), (2, 0, 50)];
    assert_eq!(slices(kiov(&v, 0, 3996 + PAGE + 50)), all);
    assert_eq!(slices(kiov(&v, 5, 0)), []);
    assert!(kiov(&v, 5, 0).is_empty() && is_backed(kiov(&v, 5, 0)));
    assert_eq!(slices(kiov(&v, 0, 500).truncated(7)), [(0, 100, 7)]);
    assert_eq!(kiov(&v, 0, 500).truncated(900).len(), 500);
}

#[test]
fn no_vector_has_no_slices() {
    // SAFETY: NULL stands for no vector, whatever the count says.
    let null = unsafe { Kiov::from_raw(std::ptr::null(), 7, 0, 100) };
    assert_eq!(slices(null), []);
    assert!(!is_backed(null));
}

/// LU-15851: the vector may be far longer than any limit on what is sent.
#[test]
fn lu_15851_long_vector_short_slice() {
    let v = vector(&vec![(0, PAGE); 10_000]);
    let offset = 4321 * PAGE + 1234;
    let k = kiov(&v, offset, 1 << 20);
    let got = slices(k);
    assert_eq!(got.len(), 257);
    assert_eq!(got[0], (4321, 1234, PAGE - 1234));
    assert_eq!(got[256], (4321 + 256, 0, 1234));
    assert!(is_backed(k));
}

#[test]
fn vectors_that_are_too_short_are_found_out() {
    let mut v = vector(&[(0, 100), (0, 100)]);
    assert!(is_backed(kiov(&v, 0, 200)));
    assert!(!is_backed(kiov(&v, 0, 201)));
    assert!(!is_backed(kiov(&v, 1, 200)));
    assert!(!is_backed(kiov(&v, u32::MAX, 1)));
    assert!(!is_backed(kiov(&v, 0, u32::MAX)));
    v[1].page = std::ptr::null_mut();
    assert_eq!(slices(kiov(&v, 0, 200)), [(0, 0, 100)]);
    assert!(!is_backed(kiov(&v, 0, 200)));
    let v = vector(&[(u32::MAX, 100)]);
    assert_eq!(slices(kiov(&v, 10, 50)), []);
}

#[test]
fn any_slice_is_what_counting_bytes_says() {
    let mut seed = 1u64;
    let mut random = |below: u32| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((seed >> 33) as u32) % below
    };
    for _ in 0..2000 {
        let n = 1 + random(6);
        let entries: Vec<_> = (0..n).map(|_| (random(9), random(20))).collect();
        let v = vector(&entries);
        let (offset, len) = (random(60), random(60));
        let k = kiov(&v, offset, len);
        let want = reference(&v, offset, len);
        assert_eq!(slices(k), want, "{entries:?} {offset} {len}");
        let sum: u32 = want.iter().map(|s| s.2).sum();
        assert_eq!(is_backed(k), sum == len);
    }
}

#[test]
fn nodes_in_the_kernels_form() {
    for (raw, node) in [(-1, None), (-7, None), (0, Some(0)), (3, Some(3))] {
        assert_eq!(Node::from_raw(raw), Node(node));
    }
    assert_eq!(Node(None).as_raw(), -1);
    assert_eq!(Node(Some(u32::MAX)).as_raw(), -1);
    assert_eq!(Node(Some(2)).as_raw(), 2);
}
