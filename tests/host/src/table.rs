// SPDX-License-Identifier: GPL-2.0

//! Tables of `Documentation/state-table.md`: tests make them from what the engines do, and fail
//! when the page says something else. With `KOR_TABLE=FILE` in the environment the page is written
//! to FILE instead, each table into its place.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Mutex;

/// A table of outcomes: a row for each input, a column for each state, or the other way round.
pub struct Table {
    corner: &'static str,
    columns: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

impl Table {
    /// An empty table; `corner` says what the rows are.
    pub const fn new(corner: &'static str, columns: Vec<String>) -> Self {
        Self {
            corner,
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    ///
    /// When a cell is missing, or empty, or the row is there already.
    pub fn row(&mut self, name: String, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "{name}");
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{name}");
        assert!(self.rows.iter().all(|(other, _)| *other != name), "{name}");
        self.rows.push((name, cells));
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    fn text(&self) -> String {
        let mut text = format!("| {} | {} |\n", self.corner, self.columns.join(" | "));
        text.push_str(&"|---".repeat(self.columns.len() + 1));
        text.push_str("|\n");
        for (name, cells) in &self.rows {
            let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        }
        text
    }
}

/// The names of the variants of an enum, from its source.
///
/// # Panics
///
/// When there is no such enum.
pub fn rows_of(source: &str, head: &str) -> Vec<String> {
    let at = source.find(&format!("{head} {{\n")).expect("the enum");
    let body = &source[at..];
    let body = &body[..body.find("\n}").expect("its end")];
    let variants = body.lines().skip(1).filter_map(|line| {
        let name = line.strip_prefix("    ")?;
        let first = name.chars().next()?;
        first.is_ascii_uppercase().then(|| {
            let end = name.find(|c: char| !c.is_ascii_alphanumeric());
            name[..end.unwrap_or(name.len())].to_owned()
        })
    });
    variants.collect()
}

static WRITING: Mutex<()> = Mutex::new(());

/// Compares a table with the one that the page has under `name`, or writes it there.
///
/// # Panics
///
/// When they differ.
pub fn check_page(name: &str, table: &Table) {
    let committed = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../Documentation/state-table.md"
    );
    let out = std::env::var_os("KOR_TABLE").map(PathBuf::from);
    let path = out.clone().unwrap_or_else(|| PathBuf::from(committed));
    let _alone = WRITING.lock();
    let page = std::fs::read_to_string(path).expect("the page");
    let (start, end) = (
        format!("<!-- {name} -->\n\n"),
        format!("\n<!-- end of {name} -->\n"),
    );
    let from = page.find(&start).expect("a place for the table") + start.len();
    let to = from + page[from..].find(&end).expect("the end of its place");
    println!("covered: {name}: {} cells", table.cells());
    let text = table.text();
    if let Some(out) = out {
        let page = format!("{}{text}{}", &page[..from], &page[to..]);
        return std::fs::write(out, page).expect("written");
    }
    let found: Vec<_> = page[from..to].lines().collect();
    for (at, line) in text.lines().enumerate() {
        assert_eq!(
            found.get(at).copied(),
            Some(line),
            "{name}: the page is not up to date: scripts/prove table-update"
        );
    }
    assert_eq!(found.len(), text.lines().count(), "{name}");
}
