// SPDX-License-Identifier: GPL-2.0

//! Fuzz target, and a short run of it. `make fuzz` runs it long.

use super::props::assert_stable;
use ko2iblnd_host::corpus::replay;
use ko2iblnd_host::proto::passive;
use ko2iblnd_host::wire::{Endian, Reject};

/// Any bytes as a message, as a reject and as a connection request.
pub(crate) fn target(input: &[u8]) {
    assert_stable(input);
    if let Ok(reject) = Reject::parse(input) {
        let mut buf = [0; 64];
        for endian in [Endian::Little, Endian::Big] {
            let len = reject.emit(endian, &mut buf).expect("there is room");
            let again = Reject::parse(&buf[..len]).expect("what we send parses");
            assert_eq!(again.why, reject.why);
        }
    }
    if let Ok(screened) = passive::screen(input, 1023, true) {
        let refused = passive::admit(&screened, passive::Target::NotReady);
        assert!(refused.is_err());
    }
}

#[test]
fn corpus_and_changes() {
    replay("wire", 20_000, target);
}
