// SPDX-License-Identifier: GPL-2.0

//! A short fuzz run without a fuzzer: the files of a corpus, and random changes of them.

use crate::prng::Prng;
use std::path::Path;

/// Longest input.
const MAX_LEN: usize = 4096;

/// The inputs in `tests/host/fuzz/corpus/NAME`, in the order of their names.
///
/// # Panics
///
/// When there are none.
pub fn load(name: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let entries = std::fs::read_dir(dir.join(name)).expect("there is a corpus");
    let mut paths: Vec<_> = entries.map(|e| e.expect("readable").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "the corpus is empty");
    let read = |path| std::fs::read(path).expect("readable");
    paths.iter().map(read).collect()
}

/// Runs `target` on every input of a corpus and on `n` changed ones. The same ones each time.
pub fn replay(name: &str, n: usize, target: impl Fn(&[u8])) {
    let corpus = load(name);
    for input in &corpus {
        target(input);
    }
    let mut prng = Prng::new(n as u64);
    for _ in 0..n {
        target(&changed(&corpus, &mut prng));
    }
}

fn changed(corpus: &[Vec<u8>], prng: &mut Prng) -> Vec<u8> {
    let mut input = corpus[prng.index(corpus.len())].clone();
    for _ in 0..prng.range(1, 4) {
        let at = prng.index(input.len() + 1);
        let byte = prng.next_u32() as u8;
        match prng.below(5) {
            0 => input.insert(at, byte),
            1 => input.truncate(at),
            2 => {
                let other = &corpus[prng.index(corpus.len())];
                let from = prng.index(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            3 if at < input.len() => input[at] ^= 1 << (byte & 7),
            _ if at < input.len() => input[at] = byte,
            _ => input.push(byte),
        }
    }
    input.truncate(MAX_LEN);
    input
}
