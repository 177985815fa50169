// SPDX-License-Identifier: GPL-2.0

//! No circles: in every folder of `rust/`, what stands side by side names each other in one
//! direction. A folder counts as one; the file `mod.rs` of a folder, which holds the type whose
//! methods are in the files beside it, does not count there.
//!
//! In `rust/lnd` the order is stated, and what holds all parts of the driver is known to the top
//! alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What stands in `rust/lnd`, from the top down: each names only what comes after it.
const LND: &[&str] = &[
    "debugfs", "ops", "driver", "ctl", "connd", "removal", "traffic", "networks", "conn", "peer",
    "ni", "tx", "device", "display", "storage", "stats", "clock",
];

/// Who may name `Driver`, and why. Everything else in `rust/lnd` is given what it needs.
const DRIVER: &[(&[&str], &str)] = &[
    (&["lnd", "ops"], "LNet's operations start and stop it"),
    (&["lnd", "driver"], "defines it"),
];

type Names = Vec<String>;

/// What a file names.
struct Source {
    /// All paths.
    all: Vec<Names>,
    /// Those that it exports again.
    exported: Vec<Names>,
    /// All words of the code.
    words: BTreeSet<String>,
}

/// The sources by the path of their modules; `mod.rs` has the path of its folder.
#[derive(Default)]
struct Tree {
    files: BTreeMap<Names, Source>,
}

fn names(path: &[&str]) -> Names {
    path.iter().map(ToString::to_string).collect()
}

/// Without comments, and with the contents of strings left away.
fn code(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut line = line;
        if let Some(at) = line.find("//") {
            line = &line[..at];
        }
        for (n, part) in line.split('"').enumerate() {
            if n % 2 == 0 {
                out.push_str(part);
            }
        }
        out.push('\n');
    }
    out
}

/// Words and the punctuation that paths are made of.
fn tokens(text: &str) -> Names {
    let mut tokens = Names::new();
    let mut word = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            tokens.push(std::mem::take(&mut word));
        }
        match c {
            ':' if chars.peek() == Some(&':') => {
                chars.next();
                tokens.push("::".into());
            }
            c if c.is_whitespace() => {}
            c => tokens.push(c.to_string()),
        }
    }
    tokens
}

/// The tree of a `use` from token `at` on: its paths are added to `out`. Returns what follows.
fn use_tree(tokens: &[String], mut at: usize, prefix: &[String], out: &mut Vec<Names>) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match tokens.get(at).map(String::as_str) {
            Some("{") => {
                at += 1;
                while tokens.get(at).is_some_and(|t| t != "}") {
                    at = use_tree(tokens, at, &path, out);
                    if tokens.get(at).is_some_and(|t| t == ",") {
                        at += 1;
                    }
                }
                return at + 1;
            }
            Some("::") => at += 1,
            Some("as") => at += 2,
            Some("," | "}" | ";") | None => {
                if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
                    path.pop();
                }
                out.push(path);
                return at;
            }
            Some(word) => {
                path.push(word.to_owned());
                at += 1;
            }
        }
    }
}

/// All paths that begin with `crate`, `super` or `self`, in uses and elsewhere; those of uses that
/// are exported again apart.
fn paths(text: &str) -> Source {
    let tokens = tokens(&code(text));
    let (mut all, mut exported) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let word = tokens[at].as_str();
        if word == "use" {
            let mut found = Vec::new();
            let public = at > 0 && (tokens[at - 1] == "pub" || tokens[at - 1] == ")");
            at = use_tree(&tokens, at + 1, &[], &mut found);
            if public {
                exported.extend(found.iter().cloned());
            }
            all.extend(found);
        } else if matches!(word, "crate" | "super" | "self")
            && tokens.get(at + 1).is_some_and(|t| t == "::")
            && (at == 0 || tokens[at - 1] != "::")
        {
            let mut path = vec![word.to_owned()];
            while tokens.get(at + 1).is_some_and(|t| t == "::")
                && tokens
                    .get(at + 2)
                    .is_some_and(|t| t.starts_with(char::is_alphabetic))
            {
                path.push(tokens[at + 2].clone());
                at += 2;
            }
            all.push(path);
            at += 1;
        } else {
            at += 1;
        }
    }
    Source {
        all,
        exported,
        words: tokens.into_iter().collect(),
    }
}

impl Tree {
    fn read(root: &Path) -> Self {
        let mut tree = Self::default();
        tree.add(root, &mut Names::new());
        tree
    }

    fn add(&mut self, dir: &Path, at: &mut Names) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path: PathBuf = entry.path();
            let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                at.push(stem);
                self.add(&path, at);
                at.pop();
            } else if path.extension().is_some_and(|e| e == "rs") && !at.is_empty() {
                let mut name = at.clone();
                if stem != "mod" {
                    name.push(stem);
                }
                let text = fs::read_to_string(&path).unwrap();
                self.files.insert(name, paths(&text));
            }
        }
    }

    /// The absolute path of what `path` says in the module `from`.
    fn absolute(from: &[String], path: &[String]) -> Option<Names> {
        let mut base = match path.first()?.as_str() {
            "crate" => Names::new(),
            "self" => from.to_vec(),
            "super" => from[..from.len().checked_sub(1)?].to_vec(),
            _ => return None,
        };
        for word in &path[1..] {
            match word.as_str() {
                "super" => {
                    base.pop()?;
                }
                word => base.push(word.to_owned()),
            }
        }
        Some(base)
    }

    /// The file that `path`, said in `from`, leads to; what is exported again is followed.
    fn file(&self, from: &[String], path: &[String], depth: usize) -> Option<Names> {
        let full = Self::absolute(from, path)?;
        let module = (1..=full.len()).rev().find_map(|n| {
            let name = &full[..n];
            self.files.contains_key(name).then(|| name.to_vec())
        })?;
        let item = full.get(module.len());
        if let (Some(item), true) = (item, depth < 8) {
            let exported = &self.files[&module].exported;
            let via = exported.iter().find(|path| path.last() == Some(item));
            if let Some(found) = via.and_then(|via| self.file(&module, via, depth + 1)) {
                return Some(found);
            }
        }
        Some(module)
    }

    /// Who names whom, by folder.
    fn arrows(&self) -> BTreeMap<Names, BTreeMap<String, BTreeSet<String>>> {
        let mut arrows: BTreeMap<Names, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (from, source) in &self.files {
            for path in &source.all {
                let Some(to) = self.file(from, path, 0) else {
                    continue;
                };
                let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                // One of them is the folder of the other.
                let (Some(a), Some(b)) = (from.get(common), to.get(common)) else {
                    continue;
                };
                let folder = arrows.entry(from[..common].to_vec()).or_default();
                folder.entry(a.clone()).or_default().insert(b.clone());
            }
        }
        arrows
    }

    /// What in `folder` names something that does not come after it in `order`, and what is missing
    /// from `order` or from `folder`.
    fn against(&self, folder: &str, order: &[&str]) -> Vec<String> {
        let place = |name: &str| order.iter().position(|other| *other == name);
        let here = names(&[folder]);
        let there: BTreeSet<&str> = self
            .files
            .keys()
            .filter(|file| file.starts_with(&here))
            .filter_map(|file| file.get(1).map(String::as_str))
            .collect();
        let listed: BTreeSet<&str> = order.iter().copied().collect();
        let mut bad: Vec<String> = there
            .symmetric_difference(&listed)
            .map(|name| format!("{name} is only in the list, or not in it"))
            .collect();
        for (from, to) in self.arrows().get(&here).into_iter().flatten() {
            for to in to.iter().filter(|to| place(to) <= place(from)) {
                bad.push(format!("{from} must not name {to}"));
            }
        }
        bad
    }

    /// The files of `folder` that name `word`, but for those `allowed`.
    fn naming(&self, folder: &str, word: &str, allowed: &[(&[&str], &str)]) -> Vec<Names> {
        self.files
            .iter()
            .filter(|(file, source)| file[0] == folder && source.words.contains(word))
            .map(|(file, _)| file.clone())
            .filter(|file| !allowed.iter().any(|(name, _)| names(name) == *file))
            .collect()
    }

    /// The circles of every folder: those that can be reached from each other.
    fn circles(&self) -> BTreeSet<(String, Names)> {
        let mut circles = BTreeSet::new();
        for (folder, arrows) in self.arrows() {
            let reach = |from: &String| {
                let mut seen: BTreeSet<String> = BTreeSet::new();
                let mut left: Names = arrows.get(from).into_iter().flatten().cloned().collect();
                while let Some(at) = left.pop() {
                    if seen.insert(at.clone()) {
                        left.extend(arrows.get(&at).into_iter().flatten().cloned());
                    }
                }
                seen
            };
            let reached: BTreeMap<&String, BTreeSet<String>> =
                arrows.keys().map(|name| (name, reach(name))).collect();
            for (name, seen) in &reached {
                if seen.contains(*name) {
                    let circle = reached
                        .iter()
                        .filter(|(other, back)| seen.contains(**other) && back.contains(*name));
                    let circle: Names = circle.map(|(other, _)| other.to_string()).collect();
                    circles.insert((folder.join("/"), circle));
                }
            }
        }
        circles
    }
}

#[test]
fn the_tree_has_no_circles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rust");
    let tree = Tree::read(&root);
    assert!(tree.files.len() > 50, "found only {}", tree.files.len());
    let arrows = tree.arrows();
    let count: usize = arrows.values().flatten().map(|(_, to)| to.len()).sum();
    assert!(count > 100, "found only {count} arrows");
    let found = tree.circles();
    for (folder, circle) in &found {
        let members: BTreeSet<String> = circle.iter().cloned().collect();
        for from in circle {
            let folder: Names = folder.split('/').map(str::to_owned).collect();
            let to = arrows[&folder][from].intersection(&members);
            let to: Names = to.cloned().collect();
            println!("rust/{}: {from} names {}", folder.join("/"), to.join(", "));
        }
    }
    assert!(found.is_empty(), "circles: {found:?}");
}

#[test]
fn lnd_has_a_direction() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rust");
    let tree = Tree::read(&root);
    assert_eq!(tree.against("lnd", LND), Names::new());
    let found = tree.naming("lnd", "Driver", DRIVER);
    assert_eq!(found, Vec::<Names>::new(), "give it what it needs instead");
    for (file, why) in DRIVER {
        let words = &tree.files[&names(file)].words;
        assert!(words.contains("Driver"), "{file:?} does not ({why})");
    }
}

#[test]
fn wrong_directions_are_found() {
    let tree = tree(&[
        (&["room"], "struct Whole;"),
        (
            &["room", "a"],
            "use super::{b::Two, c};\nfn f(_: Driver) {}",
        ),
        (&["room", "b"], "fn f() { super::a::f(); } // Driver"),
        (&["room", "c", "x"], "use super::super::Whole;"),
    ]);
    let order = ["a", "b", "c"];
    assert_eq!(tree.against("room", &order), ["b must not name a"]);
    assert_eq!(tree.against("room", &order[..2]).len(), 2);
    assert_eq!(tree.against("room", &["a", "b", "c", "d"]).len(), 2);
    let a: &[&str] = &["room", "a"];
    assert_eq!(tree.naming("room", "Driver", &[]), [names(a)]);
    assert_eq!(tree.naming("room", "Driver", &[(a, "top")]).len(), 0);
}

fn tree(files: &[(&[&str], &str)]) -> Tree {
    Tree {
        files: files
            .iter()
            .map(|(name, text)| (names(name), paths(text)))
            .collect(),
    }
}

#[test]
fn circles_are_found() {
    let circle = |files: &[(&[&str], &str)]| tree(files).circles().into_iter().collect::<Vec<_>>();
    // By a use, by a path, and by what a folder exports again.
    let found = circle(&[
        (
            &["room"],
            "pub(crate) use self::{\n    a::{\n        One,\n    },\n};",
        ),
        (&["room", "a"], "use super::{\n    b::Two,\n    c, //\n};"),
        (&["room", "b"], "fn f() { super::c::f(); }"),
        (&["room", "c"], "use super::One;"),
    ]);
    assert_eq!(found, [("room".to_owned(), names(&["a", "b", "c"]))]);
    // Between folders, by files that are in no circle themselves.
    let found = circle(&[
        (&["room", "a", "x"], "use crate::room::b::y::Y;"),
        (&["room", "a", "z"], "struct Z;"),
        (&["room", "b", "y"], "struct Y;"),
        (&["room", "b", "w"], "use super::super::a::z::Z;"),
    ]);
    assert_eq!(found, [("room".to_owned(), names(&["a", "b"]))]);
    // One direction; a file and its folder; what only a comment says.
    let found = circle(&[
        (&["room"], "use self::a::A;\nstruct Whole;"),
        (&["room", "a"], "use super::{\n    b::B,\n    Whole, //\n};"),
        (&["room", "b"], "// use super::a::A;\nstruct B;"),
    ]);
    assert_eq!(found, []);
}
