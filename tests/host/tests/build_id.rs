// SPDX-License-Identifier: GPL-2.0

//! R5: GNU build-ids as the build records them and as the kernel shows them.

#![allow(missing_docs)]

#[path = "../../../rust/kx/build_id.rs"]
mod build_id;

use build_id::BuildId;

/// One note as the linker writes it: words, name and descriptor, each filled up to a word.
fn note(name: &[u8], kind: u32, desc: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend((name.len() as u32).to_ne_bytes());
    out.extend((desc.len() as u32).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    for part in [name, desc] {
        out.extend(part);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

fn sha1() -> Vec<u8> {
    (0..20).map(|n| n * 13 + 1).collect()
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    for b in bytes {
        out += &format!("{b:02x}");
    }
    out
}

#[test]
fn r5_the_recorded_id_is_the_loaded_one() {
    let found = BuildId::from_notes(&note(b"GNU\0", 3, &sha1())).unwrap();
    let recorded = BuildId::from_hex(hex(&sha1()).as_bytes()).unwrap();
    assert_eq!(found, recorded);
    assert_eq!(found.short(), &hex(&sha1())[..12]);
}

#[test]
fn r5_every_byte_of_an_id_counts() {
    let recorded = BuildId::from_hex(hex(&sha1()).as_bytes()).unwrap();
    for n in 0..20 {
        let mut other = sha1();
        other[n] ^= 0x80;
        assert_ne!(
            BuildId::from_notes(&note(b"GNU\0", 3, &other)).unwrap(),
            recorded
        );
    }
    let shorter = BuildId::from_notes(&note(b"GNU\0", 3, &sha1()[..19])).unwrap();
    assert_ne!(shorter, recorded);
}

#[test]
fn r5_notes_of_other_kinds_are_skipped() {
    let mut notes = note(b"GNU\0", 5, &[7; 16]);
    notes.extend(note(b"Linux\0", 3, &[1, 2, 3]));
    notes.extend(note(b"GNU\0", 3, &sha1()));
    let recorded = BuildId::from_hex(hex(&sha1()).as_bytes());
    assert_eq!(BuildId::from_notes(&notes), recorded);
    assert_eq!(BuildId::from_notes(&note(b"GNU\0", 5, &sha1())), None);
    assert_eq!(BuildId::from_notes(&note(b"XYZ\0", 3, &sha1())), None);
}

#[test]
fn r5_a_note_that_is_not_whole_is_none() {
    let whole = note(b"GNU\0", 3, &sha1());
    for len in 0..whole.len() {
        assert_eq!(BuildId::from_notes(&whole[..len]), None, "{len} bytes");
    }
    assert_eq!(BuildId::from_notes(&note(b"GNU\0", 3, &[])), None);
    assert_eq!(BuildId::from_notes(&note(b"GNU\0", 3, &[1; 21])), None);
    let mut huge = whole;
    huge[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
    assert_eq!(BuildId::from_notes(&huge), None);
}

#[test]
fn r5_what_is_not_an_id_is_not_taken_for_one() {
    for text in [
        "",
        "1",
        "0g",
        "AB",
        "ab cd",
        &"a".repeat(41),
        &"a".repeat(42),
    ] {
        assert_eq!(BuildId::from_hex(text.as_bytes()), None, "{text}");
    }
    let short = BuildId::from_hex(b"01ab").unwrap();
    assert_eq!(short.short(), "01ab");
    assert!(BuildId::from_hex("a".repeat(40).as_bytes()).is_some());
    assert!(note(b"GNU\0", 3, &sha1()).len() <= BuildId::NOTE_MAX);
}
