// SPDX-License-Identifier: GPL-2.0

//! What code and documents cite is there: pages and their headings, sections of the protocol and
//! of the contract and steps in them, entries of the bug catalogue, items of the contract's
//! checklist, files of the tree, and functions in files.
//!
//! A citation is `page.md section N`, `page.md N.N`, or `section N` alone, which means
//! protocol.md. Further numbers may follow with a comma, `and` or `to`; `step N of section M` and
//! `section M, step N` name an item of a numbered list.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files of ours with text in them, relative to the root of the tree.
fn texts() -> Vec<(String, String)> {
    const DIRS: [&str; 6] = [
        "Documentation",
        "include",
        "rust",
        "scripts",
        "tests",
        "debian",
    ];
    let mut files = Vec::new();
    for dir in DIRS {
        collect(&root().join(dir), &mut files);
    }
    for entry in fs::read_dir(root()).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    let mut out = Vec::new();
    for path in files {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
        // Captures and corpora are bytes.
        if let Ok(text) = fs::read_to_string(&path) {
            out.push((name.to_owned(), text));
        }
    }
    assert!(out.len() > 200, "found only {} files", out.len());
    out
}

fn collect(dir: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for path in entries.map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir()
            && !matches!(
                name,
                "target" | "data" | "corpus" | "plants" | "__pycache__"
            )
        {
            collect(&path, out);
        } else if path.is_file() && !name.ends_with("generated.rs") {
            out.push(path);
        }
    }
}

/// A page: its sections by number with the items of their numbered lists, and its headings as
/// links name them.
#[derive(Default)]
struct Page {
    sections: BTreeMap<String, u32>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn new(text: &str) -> Self {
        let mut page = Self::default();
        let mut at = String::new();
        let mut code = false;
        for line in text.lines() {
            code ^= line.starts_with("```");
            if code {
                continue;
            }
            if let Some(heading) = line.strip_prefix('#') {
                let heading = heading.trim_start_matches('#').trim();
                page.anchors.insert(anchor(heading));
                let heading = heading.strip_prefix("Part ").unwrap_or(heading);
                let word = heading.split(' ').next().unwrap_or("");
                at = word.trim_end_matches('.').to_owned();
                if number(&at).is_some() {
                    page.sections.insert(at.clone(), 0);
                }
            } else if let Some((item, _)) = line.trim_start().split_once(". ") {
                if let (Ok(item), Some(last)) = (item.parse(), page.sections.get_mut(&at)) {
                    *last = (*last).max(item);
                }
            }
        }
        page
    }
}

/// What a link to a heading has after its `#`.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

fn trimmed(word: &str) -> &str {
    let word = word.trim_matches(|c: char| "()[],.;:'\"*`|?!".contains(c));
    word.strip_suffix("'s").unwrap_or(word)
}

/// A section's number, as in `9`, `14.2`, `F` or `F.2`.
fn number(word: &str) -> Option<&str> {
    let (first, rest) = word.split_once('.').unwrap_or((word, "0"));
    let digits = |s: &str| !s.is_empty() && s.len() < 3 && s.bytes().all(|b| b.is_ascii_digit());
    let part = first.len() == 1 && ("A"..="F").contains(&first);
    ((digits(first) || part) && digits(rest)).then_some(word)
}

/// The words of a text with the lines they stand in, without what marks a comment.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut out = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let line = line.trim_start_matches("//!").trim_start_matches("///");
        let line = line.trim_start_matches("//").trim_start_matches("* ");
        let line = line.strip_prefix("# ").unwrap_or(line);
        out.extend(line.split_whitespace().map(|word| (n + 1, word)));
    }
    out
}

/// The numbers from word `at` on, and the word behind them.
fn numbers<'a>(words: &[(usize, &'a str)], mut at: usize) -> (Vec<&'a str>, usize) {
    let mut found = Vec::new();
    while let Some(&(_, word)) = words.get(at) {
        let Some(n) = number(trimmed(word)) else {
            break;
        };
        found.push(n);
        at += 1;
        let next = words.get(at).map(|&(_, word)| word);
        if matches!(next, Some("and" | "to" | "or")) {
            at += 1;
        } else if !word.ends_with(',') {
            break;
        }
    }
    (found, at)
}

/// What one file cites: line, page, section, steps of it.
fn citations<'a>(file: &'a str, text: &'a str) -> Vec<(usize, &'a str, &'a str, Vec<&'a str>)> {
    let default = match file {
        "Documentation/lnd-contract.md" => "lnd-contract.md",
        _ => "protocol.md",
    };
    let words = words(text);
    let is = |at: usize, what: [&str; 2]| {
        let word = words.get(at).map(|&(_, word)| trimmed(word).to_lowercase());
        word.is_some_and(|word| what.contains(&&*word))
    };
    let page = |at: usize| {
        let word = trimmed(words.get(at)?.1);
        let name = word.rsplit('/').next()?;
        let ours = matches!(name, "protocol.md" | "lnd-contract.md");
        ours.then_some(name)
    };
    let mut out = Vec::new();
    for at in 0..words.len() {
        let (start, doc) = if is(at, ["section", "sections"]) {
            (at + 1, page(at.wrapping_sub(1)))
        } else if let Some(doc) = page(at) {
            (at + 1, Some(doc))
        } else {
            continue;
        };
        let (sections, end) = numbers(&words, start);
        let mut steps = Vec::new();
        if words[end - 1].1.ends_with(',') && is(end, ["step", "steps"]) {
            steps = numbers(&words, end + 1).0;
        } else if at >= 2 && is(at - 1, ["of", "in"]) {
            let back = (at.saturating_sub(5)..at).rev();
            if let Some(back) = back.into_iter().find(|&at| is(at, ["step", "steps"])) {
                let (found, behind) = numbers(&words, back + 1);
                if behind + 1 == at {
                    steps = found;
                }
            }
        }
        for section in sections {
            out.push((words[at].0, doc.unwrap_or(default), section, steps.clone()));
        }
    }
    out
}

type Pages = BTreeMap<String, Page>;

fn pages(texts: &[(String, String)]) -> Pages {
    let pages = texts.iter().filter(|(file, _)| file.ends_with(".md"));
    pages
        .map(|(file, text)| {
            let name = file.rsplit('/').next().unwrap().to_owned();
            (name, Page::new(text))
        })
        .collect()
}

/// Whether a name behind `head` in its line is one of Rust or C, and no page.
fn is_code(file: &str, head: &str) -> bool {
    let compiled = [".rs", ".c", ".h", ".pml"];
    let comment = head.contains("//") || head.trim_start().starts_with(['*', '/']);
    compiled.iter().any(|ext| file.ends_with(ext)) && !comment
}

fn check_sections(pages: &Pages, file: &str, text: &str, bad: &mut Vec<String>) {
    for (line, page, section, steps) in citations(file, text) {
        let Some(last) = pages[page].sections.get(section) else {
            bad.push(format!("{file}:{line}: {page} has no section {section}"));
            continue;
        };
        for step in steps {
            if step.parse().map_or(true, |step: u32| step > *last) {
                bad.push(format!(
                    "{file}:{line}: {page} section {section} has no step {step}"
                ));
            }
        }
    }
}

/// Pages that are named, and headings that links go to.
fn check_pages(pages: &Pages, file: &str, text: &str, bad: &mut Vec<String>) {
    for (n, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices(".md") {
            let head = &line[..at];
            let name = |c: char| c.is_alphanumeric() || "-_.".contains(c);
            let start = head.rfind(|c| !name(c)).map_or(0, |at| at + 1);
            let rest = &line[at + 3..];
            let named = head[start..].starts_with(|c: char| c.is_alphabetic());
            let longer = rest.starts_with(|c: char| c.is_alphanumeric());
            if !named || longer || is_code(file, head) {
                continue;
            }
            let page = format!("{}.md", &head[start..]);
            let Some(found) = pages.get(&page) else {
                bad.push(format!("{file}:{}: there is no {page}", n + 1));
                continue;
            };
            if let Some(to) = rest.strip_prefix('#') {
                let to = to.split(')').next().unwrap();
                if !found.anchors.contains(to) {
                    bad.push(format!("{file}:{}: {page} has no heading {to}", n + 1));
                }
            }
        }
    }
}

/// Files that documents name in backticks, with a star for any name and with what comes behind.
fn check_files(file: &str, text: &str, bad: &mut Vec<String>) {
    // These are about files of the kernel's tree.
    let kernel = file.ends_with("/prepare-tree.md") || file.ends_with("/porting.md");
    if !file.ends_with(".md") || kernel {
        return;
    }
    const DIRS: [&str; 5] = ["Documentation/", "include/", "rust/", "scripts/", "tests/"];
    for (n, line) in text.lines().enumerate() {
        for quoted in line.split('`').skip(1).step_by(2) {
            let path = quoted.split([' ', ':']).next().unwrap();
            let placeholder = path.contains(|c: char| c.is_ascii_uppercase() || c == '<');
            if !DIRS.iter().any(|dir| path.starts_with(dir)) || placeholder {
                continue;
            }
            if !exists(path) {
                bad.push(format!("{file}:{}: there is no {path}", n + 1));
            }
        }
    }
}

/// Functions that documents name with their file, as in `send` (`rust/lnd/send.rs`).
fn check_functions(file: &str, text: &str, bad: &mut Vec<String>) -> usize {
    let mut seen = 0;
    for (n, line) in text.lines().enumerate() {
        let parts: Vec<_> = line.split('`').collect();
        for three in parts.windows(4).skip(1).step_by(2) {
            let &[name, " (", path, rest] = three else {
                continue;
            };
            if !path.ends_with(".rs") || !rest.starts_with(')') {
                continue;
            }
            seen += 1;
            let code = fs::read_to_string(root().join(path)).unwrap_or_default();
            let head = format!("fn {name}");
            let there = code.match_indices(&head).any(|(at, _)| {
                let behind = &code[at + head.len()..];
                behind.starts_with(['(', '<'])
            });
            if !there {
                bad.push(format!("{file}:{}: there is no `{name}` in {path}", n + 1));
            }
        }
    }
    seen
}

fn exists(path: &str) -> bool {
    let Some((head, tail)) = path.split_once('*') else {
        return root().join(path).exists();
    };
    let (dir, start) = head.rsplit_once('/').unwrap();
    let Ok(entries) = fs::read_dir(root().join(dir)) else {
        return false;
    };
    let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.any(|name| name.starts_with(start) && name.ends_with(tail))
}

/// Ids of Lustre's tracker, `LU-` and digits.
fn ids(text: &str) -> BTreeSet<&str> {
    let found = text.match_indices("LU-").map(|(at, _)| {
        let rest = &text[at + 3..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        &text[at..at + 3 + digits]
    });
    found.filter(|id| id.len() > 3).collect()
}

/// Numbers of the rows of the checklist in the contract's part F.
fn checklist(contract: &str) -> BTreeSet<u32> {
    let (_, part) = contract.split_once("\n# Part F.").unwrap();
    let rows = part.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| row.split(' ').next()?.parse().ok())
        .collect()
}

/// Numbers at the head of the names of items in the scripts for real LNet.
fn items(script: &str) -> BTreeSet<u32> {
    let mut out = BTreeSet::new();
    for call in ["item ", "anew ", "skip "] {
        for (at, _) in script.match_indices(call) {
            let name = script[at + call.len()..].trim_start_matches(['\'', '"']);
            out.extend(name.split(' ').map_while(|word| word.parse::<u32>().ok()));
        }
    }
    out
}

#[test]
fn citations_resolve() {
    let texts = texts();
    let pages = pages(&texts);
    let catalogue = &texts
        .iter()
        .find(|(file, _)| file == "Documentation/bug-catalogue.md")
        .unwrap()
        .1;
    let known = ids(catalogue);
    let mut bad = Vec::new();
    let (mut seen, mut functions) = (0, 0);
    for (file, text) in &texts {
        if file.ends_with("tests/citations.rs") {
            continue;
        }
        seen += citations(file, text).len();
        check_sections(&pages, file, text, &mut bad);
        check_pages(&pages, file, text, &mut bad);
        check_files(file, text, &mut bad);
        if file.ends_with(".md") {
            functions += check_functions(file, text, &mut bad);
        }
        for id in ids(text).difference(&known) {
            bad.push(format!("{file}: {id} is not in bug-catalogue.md"));
        }
    }
    assert!(seen > 80, "only {seen} sections are cited");
    assert!(functions > 30, "only {functions} functions are named");
    assert!(bad.is_empty(), "\n{}", bad.join("\n"));
}

/// The scripts for real LNet run the contract's checklist, all of it and nothing else by number.
#[test]
fn the_checklist_is_run() {
    let texts = texts();
    let contract = texts
        .iter()
        .find(|(file, _)| file == "Documentation/lnd-contract.md");
    let listed = checklist(&contract.unwrap().1);
    let scripts = texts
        .iter()
        .filter(|(file, _)| file.starts_with("tests/kernel/lnet-"));
    let run: BTreeSet<u32> = scripts.flat_map(|(_, text)| items(text)).collect();
    assert!(listed.len() > 50);
    assert_eq!(listed, run);
}

#[test]
fn a_citation_can_fail() {
    let protocol = "# P\n## 9. Nine\n1. one\n2. two\n### 9.1 More\n## 14. X\n";
    let contract = "# C\n# Part F. List\n### F.2 Two\n## 6. Six\n";
    let texts = [
        ("Documentation/protocol.md".to_owned(), protocol.to_owned()),
        (
            "Documentation/lnd-contract.md".to_owned(),
            contract.to_owned(),
        ),
    ];
    let pages = pages(&texts);
    let check = |text: &str| {
        let mut bad = Vec::new();
        check_sections(&pages, "rust/x.rs", text, &mut bad);
        check_pages(&pages, "rust/x.rs", text, &mut bad);
        check_files("x.md", text, &mut bad);
        check_functions("x.md", text, &mut bad);
        bad
    };
    let good = [
        "// (section 9.1, and more)",
        "//! (protocol.md sections 9 and\n//! 14).",
        "// lnd-contract.md 6, F.2",
        "// section 9, steps 1 to\n// 2",
        "// Step 2 of section 9.",
        "// see [x](protocol.md#9-nine)",
        "// a section of text; steps 7 to 10",
        "let x = self.md.len();",
        "`tests/host/tests/tidy.rs` `rust/*.rs`",
        "| `strip` (`tests/host/tests/tidy.rs`) | `x` (y) |",
    ];
    for text in good {
        assert_eq!(check(text), Vec::<String>::new(), "{text}");
    }
    let wrong = [
        "// (section 9.2)",
        "// sections 9 and 15",
        "//! (protocol.md sections 9 and\n//! 15).",
        "// lnd-contract.md 9",
        "// lnd-contract.md 6, F.3",
        "// section 9, steps 1 to 3",
        "// Step 3 of section 9.",
        "// section 14, step 1",
        "// see [x](protocol.md#9-ten)",
        "// see design.md",
        "let x = 1; // see design.md",
        "`tests/host/tests/untidy.rs`",
        "`rust/*.py`",
        "| `strap` (`tests/host/tests/tidy.rs`) |",
        "| x | `stri` (`tests/host/tests/tidy.rs`) |",
    ];
    for text in wrong {
        assert_eq!(check(text).len(), 1, "{text}");
    }
    assert_eq!(
        ids("LU-12 LU-x (LU-345)"),
        BTreeSet::from(["LU-12", "LU-345"])
    );
    assert_eq!(
        items("item '13 15 defaults' item \"58 $k\""),
        [13, 15, 58].into()
    );
}
