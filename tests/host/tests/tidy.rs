// SPDX-License-Identifier: GPL-2.0

//! The house rules as a test: which room may name which, what pure rooms must not contain,
//! one safety comment per `unsafe`, no generated bindings outside `ffi`, short lines and functions.
//!
//! Every rule has a counter-example in [`rules_can_fail`], so a rule that stops working is noticed.

use std::fs;
use std::path::{Path, PathBuf};

const LINE_MAX: usize = 100;
const FN_LINES_MAX: usize = 70;

/// Rooms, and the rooms whose names may stand in their code.
const ARROWS: &[(&str, &[&str])] = &[
    ("wire", &["wire"]),
    ("proto", &["proto", "wire"]),
    ("driver", &["driver", "proto", "wire"]),
    ("ffi", &["ffi"]),
    ("kx", &["kx", "ffi"]),
    ("rdma", &["rdma", "kx", "ffi"]),
    ("lnet", &["lnet", "kx", "ffi"]),
    ("selftest", &["selftest", "kx", "rdma", "lnet"]),
    (
        "lnd",
        &["lnd", "driver", "proto", "wire", "kx", "rdma", "lnet"],
    ),
];

/// The pure rooms.
const PURE: &[&str] = &["wire", "proto", "driver"];

/// What the pure rooms must not contain, and why.
const IMPURE: &[(&str, &str)] = &[
    ("unsafe", "pure rooms have no unsafe"),
    ("kernel::", "pure rooms do not know the kernel"),
    ("std::", "pure rooms are core only"),
    ("alloc::", "pure rooms do not allocate"),
    (".unwrap()", "a panic would be reachable"),
    (".expect(", "a panic would be reachable"),
    ("panic!", "a panic would be reachable"),
    ("unreachable!", "a panic would be reachable"),
    ("todo!", "no stubs"),
    ("unimplemented!", "no stubs"),
    ("assert!(", "a panic would be reachable"),
    ("assert_eq!(", "a panic would be reachable"),
    ("assert_ne!(", "a panic would be reachable"),
    ("SystemTime", "time is an argument"),
    ("Instant::now", "time is an argument"),
];

/// A source file: raw lines, and the same lines without comments and string contents.
struct Source {
    room: String,
    raw: Vec<String>,
    code: Vec<String>,
}

impl Source {
    fn new(room: &str, text: &str) -> Self {
        let raw: Vec<String> = text.lines().map(str::to_owned).collect();
        let code = strip(text).lines().map(str::to_owned).collect();
        Source {
            room: room.to_owned(),
            raw,
            code,
        }
    }
}

/// Blanks comments and the contents of string and character literals; keeps the line structure.
fn strip(text: &str) -> String {
    let b: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < b.len() {
        let rest = |s: &str| b[i..].iter().take(s.len()).copied().eq(s.chars());
        if rest("//") {
            while i < b.len() && b[i] != '\n' {
                i += 1;
            }
        } else if rest("/*") {
            while i < b.len() && !(b[i] == '*' && b.get(i + 1) == Some(&'/')) {
                if b[i] == '\n' {
                    out.push('\n');
                }
                i += 1;
            }
            i += 2;
        } else if b[i] == '"' {
            out.push('"');
            i += 1;
            while i < b.len() && b[i] != '"' {
                if b[i] == '\n' {
                    out.push('\n');
                }
                i += if b[i] == '\\' { 2 } else { 1 };
            }
            out.push('"');
            i += 1;
        } else if b[i] == '\'' && (b.get(i + 2) == Some(&'\'') || b.get(i + 1) == Some(&'\\')) {
            i += if b.get(i + 1) == Some(&'\\') { 3 } else { 2 };
            while i < b.len() && b[i] != '\'' {
                i += 1;
            }
            i += 1;
            out.push_str("' '");
        } else {
            out.push(b[i]);
            i += 1;
        }
    }
    out
}

/// Whether `word` stands in `line` not as a part of a longer identifier.
fn has_word(line: &str, word: &str) -> bool {
    let ident = |c: char| c.is_alphanumeric() || c == '_';
    let head = word.chars().next().is_some_and(ident);
    let tail = word.chars().last().is_some_and(ident);
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(ident);
        let after = line[at + word.len()..].chars().next().is_some_and(ident);
        !(head && before || tail && after)
    })
}

fn check_arrows(s: &Source, bad: &mut Vec<(usize, String)>) {
    let Some((_, allowed)) = ARROWS.iter().find(|(r, _)| *r == s.room) else {
        return;
    };
    for (n, line) in s.code.iter().enumerate() {
        for (room, _) in ARROWS.iter().filter(|(r, _)| !allowed.contains(r)) {
            let names = has_word(line, &format!("crate::{room}"));
            let neutral =
                *room == "ffi" && !line.replace("crate::ffi::types", "").contains("crate::ffi");
            if names && !neutral {
                bad.push((n, format!("room `{}` must not name `{room}`", s.room)));
            }
        }
    }
}

fn check_purity(s: &Source, bad: &mut Vec<(usize, String)>) {
    if !PURE.contains(&s.room.as_str()) {
        return;
    }
    for (n, line) in s.code.iter().enumerate() {
        let lint = line.contains("forbid(unsafe_code)");
        for (word, why) in IMPURE.iter().filter(|(w, _)| has_word(line, w)) {
            if !(lint && *word == "unsafe") {
                bad.push((n, format!("`{word}` in `{}`: {why}", s.room)));
            }
        }
    }
}

/// What is dead goes; what only the tests use is there for them alone (`feature = "tests"`). Only
/// the generated bindings, in `ffi`, have more than is used.
fn check_dead_code(s: &Source, bad: &mut Vec<(usize, String)>) {
    for (n, line) in s.code.iter().enumerate() {
        let hides = has_word(line, "dead_code") || has_word(line, "allow(unused");
        if hides && s.room != "ffi" {
            bad.push((n, "dead code is hidden".into()));
        }
    }
}

/// Whether the comment block right above line `n` (attributes and doc lines between) has `tag`.
fn documented(s: &Source, n: usize, tag: &str) -> bool {
    if s.raw[n].contains(tag) {
        return true;
    }
    for line in s.raw[..n].iter().rev().map(|l| l.trim()) {
        if line.starts_with("//") {
            if line.contains(tag) {
                return true;
            }
        } else if !(line.starts_with("#[") || line.starts_with("#![")) {
            // The head of a statement or of an expression that the unsafe block belongs to.
            if !(line.ends_with('=') || line.ends_with('(') || line.ends_with("=>")) {
                return false;
            }
        }
    }
    false
}

fn check_safety(s: &Source, bad: &mut Vec<(usize, String)>) {
    for (n, line) in s.code.iter().enumerate() {
        if !has_word(line, "unsafe") || line.contains("unsafe_code") || line.contains("unsafe_op") {
            continue;
        }
        let declares = has_word(line, "unsafe fn") || line.contains("unsafe extern");
        let is_type = line.contains(": unsafe extern")
            || line.contains("<unsafe extern")
            || line.contains(": unsafe fn")
            || line.contains("<unsafe fn");
        if is_type {
            continue;
        }
        if declares && line.contains("fn ") {
            if !documented(s, n, "# Safety") && !documented(s, n, "SAFETY:") {
                bad.push((n, "`unsafe fn` without `# Safety`".into()));
            }
        } else if !declares && !documented(s, n, "SAFETY:") {
            bad.push((n, "`unsafe` without `SAFETY:`".into()));
        }
        if line.matches("unsafe {").count() > 1 {
            bad.push((n, "two unsafe blocks on one line".into()));
        }
    }
}

/// A safety comment is a sentence.
fn check_sentences(s: &Source, bad: &mut Vec<(usize, String)>) {
    for (n, line) in s.raw.iter().enumerate() {
        let tag = ["// SAFETY:", "// INVARIANT:"];
        let text = tag.iter().find_map(|tag| line.trim().strip_prefix(tag));
        if text.is_some_and(|text| {
            !text
                .trim()
                .starts_with(|c: char| c.is_uppercase() || c == '`')
        }) {
            bad.push((n, "a safety comment that is no sentence".into()));
        }
    }
}

fn check_bindings(s: &Source, bad: &mut Vec<(usize, String)>) {
    if s.room == "ffi" {
        return;
    }
    for (n, line) in s.code.iter().enumerate() {
        if has_word(line, "bindings") {
            bad.push((n, "generated bindings are named outside `ffi`".into()));
        }
    }
}

fn check_lengths(s: &Source, bad: &mut Vec<(usize, String)>) {
    for (n, line) in s.raw.iter().enumerate() {
        if line.chars().count() > LINE_MAX {
            bad.push((n, format!("line over {LINE_MAX} columns")));
        }
    }
    let mut start: Option<(usize, usize)> = None;
    for (n, line) in s.code.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if start.is_none() && has_word(line, "fn") && !line.trim_end().ends_with(';') {
            start = Some((n, indent));
        }
        let Some((first, depth)) = start else {
            continue;
        };
        let closes = line.trim_start().starts_with('}') && indent == depth;
        if closes || line.trim_end().ends_with("{}") || (n > first && line.trim_end() == ";") {
            if n - first + 1 > FN_LINES_MAX {
                bad.push((first, format!("function over {FN_LINES_MAX} lines")));
            }
            start = None;
        } else if line.trim_end().ends_with(';') && indent == depth {
            start = None;
        }
    }
}

fn check(s: &Source) -> Vec<(usize, String)> {
    let mut bad = Vec::new();
    check_arrows(s, &mut bad);
    check_purity(s, &mut bad);
    check_dead_code(s, &mut bad);
    check_safety(s, &mut bad);
    check_sentences(s, &mut bad);
    check_bindings(s, &mut bad);
    check_lengths(s, &mut bad);
    bad
}

fn rust_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rust")
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs")
            && !path
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .ends_with("generated.rs")
        {
            out.push(path);
        }
    }
}

#[test]
fn the_tree_keeps_the_rules() {
    let root = rust_dir();
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 5, "found only {} sources", files.len());
    let mut report = String::new();
    for path in files {
        let rel = path.strip_prefix(&root).unwrap();
        let room = rel
            .components()
            .next()
            .unwrap()
            .as_os_str()
            .to_str()
            .unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for (n, why) in check(&Source::new(room, &text)) {
            report += &format!("rust/{}:{}: {why}\n", rel.display(), n + 1);
        }
        if !text.starts_with("// SPDX-License-Identifier: GPL-2.0") {
            report += &format!("rust/{}:1: no SPDX line\n", rel.display());
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn rules_can_fail() {
    let long_fn = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(FN_LINES_MAX));
    let long_line = format!("// {}\n", "x".repeat(LINE_MAX));
    let cases: &[(&str, &str)] = &[
        ("proto", "use crate::rdma::Qp;"),
        ("rdma", "use crate::lnet::Ni;"),
        ("lnet", "use crate::rdma::Qp;"),
        ("lnd", "use crate::ffi::ib_qp;"),
        ("lnd", "use crate::ffi::{types::Cpt, raw};"),
        ("wire", "use crate::proto::Conn;"),
        ("proto", "use crate::driver::form::Form;"),
        ("driver", "use crate::lnd::Ni;"),
        ("driver", "use crate::rdma::Qp;"),
        ("driver", "unsafe { f() }"),
        ("driver", "let x = y.unwrap();"),
        ("wire", "let x = y.unwrap();"),
        ("proto", "let b = alloc::boxed::Box::new(1);"),
        ("proto", "unsafe { f() }"),
        ("proto", "use kernel::prelude::*;"),
        ("rdma", "unsafe { f() };"),
        ("rdma", "// about something else\nlet x = unsafe { f() };"),
        ("rdma", "unsafe impl Send for X {}"),
        ("rdma", "// SAFETY: by contract.\nlet x = unsafe { f() };"),
        ("rdma", "// SAFETY:\nlet x = unsafe { f() };"),
        ("rdma", "/// Does it.\npub unsafe fn f() {}"),
        ("lnd", "use kernel::bindings;"),
        ("wire", "#[allow(dead_code)]\nmod desc;"),
        ("ko2iblnd.rs", "#[allow(\n    dead_code\n)]\nmod proto;"),
        ("proto", "#![allow(dead_code)]"),
        ("driver", "#[allow(unused)]\nmod cm;"),
        ("lnd", &long_fn),
        ("lnd", &long_line),
    ];
    for (room, text) in cases {
        assert!(
            !check(&Source::new(room, text)).is_empty(),
            "not caught in {room}: {text}"
        );
    }
}

#[test]
fn rules_let_good_code_pass() {
    let cases: &[(&str, &str)] = &[
        (
            "lnd",
            "use crate::ffi::types::PageSlice;\nuse crate::proto::Conn;",
        ),
        (
            "rdma",
            "// SAFETY: By the type invariant.\nlet x = unsafe { f() };",
        ),
        (
            "rdma",
            "// SAFETY: `p` is valid.\nlet x =\n    unsafe { f() };",
        ),
        (
            "rdma",
            "/// # Safety\n///\n/// `p` is valid.\npub(crate) unsafe fn f(p: *mut u8) {}",
        ),
        ("wire", "#![forbid(unsafe_code)]"),
        (
            "proto",
            "// kernel:: in a comment is no code, nor is unwrap() \nlet a = \"unsafe\";",
        ),
    ];
    for (room, text) in cases {
        assert_eq!(check(&Source::new(room, text)), vec![], "{room}: {text}");
    }
}
