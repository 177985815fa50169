// SPDX-License-Identifier: GPL-2.0

//! The parameters of the module, and what is said of them to administrators: the manual page, the
//! sample of `/etc/modprobe.d` and `Documentation/tunables.md` name every one of them, with its
//! default and its mode, and nothing else.

#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Default and whether it can be written while the module runs, by name.
type Parameters = BTreeMap<String, (String, bool)>;

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(file);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn add(to: &mut Parameters, name: &str, default: &str, writable: bool) {
    let old = to.insert(name.to_string(), (default.to_string(), writable));
    assert!(old.is_none(), "{name} is there twice");
}

/// The lines between `start` and the next line that is `end`.
fn section<'a>(text: &'a str, start: &str, end: &'a str) -> impl Iterator<Item = &'a str> {
    let at = text.find(start).unwrap_or_else(|| panic!("no {start}"));
    text[at..].lines().skip(1).take_while(move |l| *l != end)
}

/// The sources: `KOR_RANGED(name, ..., 0444, "...")` and its kin, and the table of initial values.
fn of_the_module(c: &str) -> Parameters {
    let defaults: BTreeMap<&str, &str> = section(c, "struct kor_params kor_params = {", "};")
        .filter_map(|l| {
            l.trim()
                .strip_prefix('.')?
                .strip_suffix(',')?
                .split_once('=')
        })
        .map(|(n, v)| (n.trim(), v.trim().trim_matches('"')))
        .collect();
    let mut found = Parameters::new();
    for line in c.lines() {
        let args = ["KOR_RANGED(", "KOR_COUNT(", "KOR_PARAM("];
        let Some(args) = args.iter().find_map(|p| line.strip_prefix(p)) else {
            continue;
        };
        let name = args.split(',').next().unwrap();
        let mode = args
            .split(", ")
            .find(|a| a.starts_with('0') && a.len() == 4);
        add(
            &mut found,
            name,
            defaults.get(name).unwrap_or(&"0"),
            match mode {
                Some("0444") => false,
                Some("0644") => true,
                _ => panic!("mode of {name}: {mode:?}"),
            },
        );
    }
    for name in defaults.keys() {
        assert!(
            found.contains_key(*name),
            "{name} has a value but is no parameter"
        );
    }
    found
}

/// Lines `.BR name " (default, mode, unit)"` of the page's PARAMETERS.
fn of_the_page(page: &str) -> Parameters {
    let mut found = Parameters::new();
    let mut after_tp = false;
    for line in section(page, ".SH PARAMETERS", ".SH FILES") {
        if after_tp {
            let entry = line.strip_prefix(".BR ").expect(line);
            let (name, words) = entry.split_once(" \" (").expect(line);
            let words: Vec<_> = words.strip_suffix(")\"").expect(line).split(", ").collect();
            let [default, mode, _unit] = words[..] else {
                panic!("{line}")
            };
            assert!(mode == "ro" || mode == "rw", "{line}");
            add(&mut found, name, &default.replace("\\-", "-"), mode == "rw");
        }
        after_tp = line == ".TP";
    }
    found
}

/// Lines `#options ko2iblnd name=default`; the sample says nothing of modes.
fn of_the_sample(sample: &str) -> BTreeMap<String, String> {
    let mut found = Parameters::new();
    for line in sample
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with("# "))
    {
        let option = line.strip_prefix("#options ko2iblnd ").expect(line);
        let (name, default) = option.split_once('=').expect(line);
        add(&mut found, name, default, false);
    }
    found.into_iter().map(|(n, (d, _))| (n, d)).collect()
}

/// Rows "| `name` | 0644 rw | default | ..." of the first table.
fn of_the_tunables(text: &str) -> Parameters {
    let mut found = Parameters::new();
    for line in section(text, "| parameter | mode | default |", "").skip(1) {
        let cells: Vec<_> = line
            .split('|')
            .map(|c| c.trim().trim_matches('`'))
            .collect();
        add(&mut found, cells[1], cells[3], cells[2] == "0644 rw");
    }
    found
}

#[test]
fn are_all_documented_and_nothing_else() {
    let module = of_the_module(&read("rust/ffi/params.c"));
    assert_eq!(
        module.len(),
        27,
        "the C driver's parameters, and no knob of our own"
    );
    assert_eq!(
        of_the_page(&read("Documentation/ko2iblnd.4")),
        module,
        "ko2iblnd(4)"
    );
    assert_eq!(
        of_the_tunables(&read("Documentation/tunables.md")),
        module,
        "tunables.md"
    );
    let defaults: BTreeMap<_, _> = module.into_iter().map(|(n, (d, _))| (n, d)).collect();
    let sample = of_the_sample(&read("Documentation/modprobe/ko2iblnd-rs.conf"));
    assert_eq!(sample, defaults, "modprobe/ko2iblnd-rs.conf");
}

/// One number for the module, the page and the packages.
#[test]
fn version_is_one() {
    let version = read("VERSION");
    let version = version.trim();
    let changelog = read("debian/changelog");
    assert!(
        changelog.starts_with(&format!("ko2iblnd-rs ({version}) ")),
        "debian/changelog"
    );
    let title = format!("\"ko2iblnd-rs {version}\"");
    let page = read("Documentation/ko2iblnd.4");
    let head = page.lines().find(|l| l.starts_with(".TH ")).unwrap();
    assert!(head.contains(&title), "{head}");
}
