// SPDX-License-Identifier: GPL-2.0

//! The page on the bugs of the C driver says what the tests say.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn sources(dir: &Path, out: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            out.push(std::fs::read_to_string(path).unwrap());
        }
    }
}

/// Names of all test functions.
fn tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    let mut names = BTreeSet::new();
    for text in files {
        for part in text.split("#[test]\n").skip(1) {
            let head = part.trim_start().strip_prefix("fn ");
            names.extend(head.and_then(|head| Some(head.split_once('(')?.0.to_owned())));
        }
    }
    assert!(names.len() > 100);
    names
}

/// Ids as test names have them: `lu_5678`, `b_10778`, `a5`.
fn tag(id: &str) -> String {
    id.to_lowercase().replace(['-', '='], "_")
}

fn shows(test: &str, id: &str) -> bool {
    format!("_{test}_").contains(&format!("_{}_", tag(id)))
}

struct Entry {
    ids: Vec<String>,
    why_not: String,
}

fn entries() -> Vec<Entry> {
    let text = std::fs::read_to_string(root().join("history.txt")).unwrap();
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let parts: Vec<_> = line.split('|').map(str::trim).collect();
            assert_eq!(parts.len(), 3, "{line}");
            Entry {
                ids: parts[0].split(' ').map(str::to_owned).collect(),
                why_not: parts[2].to_owned(),
            }
        })
        .collect()
}

/// Either a test has its id in its name, or it is said why there is none. Not both.
#[test]
fn every_entry_has_a_test_or_a_reason() {
    let tests = tests();
    let entries = entries();
    assert!(entries.len() >= 70);
    for Entry { ids, why_not } in entries {
        let shown = tests
            .iter()
            .any(|test| ids.iter().any(|id| shows(test, id)));
        assert_eq!(shown, why_not.is_empty(), "{ids:?}");
    }
}

/// The entries are those of the catalogue: those with a heading, and the defects that are listed.
#[test]
fn the_entries_are_those_of_the_catalogue() {
    let catalogue = root().join("../../../Documentation/bug-catalogue.md");
    let catalogue = std::fs::read_to_string(catalogue).unwrap();
    let heads: Vec<_> = catalogue
        .lines()
        .filter_map(|line| line.strip_prefix("### ").or(line.strip_prefix("- **")))
        .collect();
    let known: BTreeSet<_> = entries().into_iter().flat_map(|entry| entry.ids).collect();
    assert!(heads.len() > 60);
    for head in heads {
        let first = head.split([' ', ',', '*']).next().unwrap();
        assert!(known.contains(first), "{first}");
    }
    for id in known {
        assert!(catalogue.contains(&id), "{id}");
    }
}

/// The page has a line for each entry, and names the tests that there are.
#[test]
fn the_page_is_up_to_date() {
    let page = root().join("../../../Documentation/known-bugs.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| ")).collect();
    let tests = tests();
    for Entry { ids, .. } in entries() {
        let start = format!("| {} |", ids.join(", "));
        let found: BTreeSet<_> = rows
            .iter()
            .filter(|row| row.starts_with(&start))
            .flat_map(|row| row.split('`').skip(1).step_by(2))
            .filter(|name| tests.contains(*name))
            .map(str::to_owned)
            .collect();
        let wanted = tests
            .iter()
            .filter(|test| ids.iter().any(|id| shows(test, id)));
        let wanted: BTreeSet<_> = wanted.cloned().collect();
        assert!(
            wanted.is_subset(&found),
            "{ids:?}: run scripts/prove history-update"
        );
        let listed = rows.iter().any(|row| row.starts_with(&start));
        assert!(listed, "{ids:?}: run scripts/prove history-update");
    }
    for name in page.split('`').skip(1).step_by(2) {
        let known = tests.contains(name) || !name.contains('_');
        assert!(known, "{name} is no test: run scripts/prove history-update");
    }
}
