// SPDX-License-Identifier: GPL-2.0

//! How a seed is run: what is said, what is left away, what is broken on purpose.

use std::collections::BTreeSet;

/// A fault, to see that the simulator finds it. Of an engine: a node's messages are changed on
/// their way to its queue pair, or its calls left away. Of the C driver: all models of it miscount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Every eleventh message of node 0 gives a credit too many.
    CreditTooMany,
    /// Every eleventh message of node 0 loses the credits that it carries.
    CreditLost,
    /// Every eleventh WRITE of node 0 writes something else.
    WrongData,
    /// Node 0 forgets every fifth buffer that LNet gives back.
    BufferLost,
    /// The C driver gives a credit back for a NOOP of version 2 as well.
    CreditForNoop,
    /// It gives one back for a PUT_REQ, whose buffer is for the PUT_DONE, as well.
    CreditForPutReq,
    /// It gives none back for a PUT_DONE.
    NoCreditForPutDone,
}

impl Broken {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::CreditTooMany,
        Self::CreditLost,
        Self::WrongData,
        Self::BufferLost,
        Self::CreditForNoop,
        Self::CreditForPutReq,
        Self::NoCreditForPutDone,
    ];
}

/// How a seed is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Tell what happens.
    pub story: bool,
    /// Faults that are left away, by number.
    pub skip_faults: BTreeSet<u64>,
    /// Messages that are left away, by number.
    pub skip_msgs: BTreeSet<u64>,
    /// Nodes, if the seed wants more.
    pub nodes: usize,
    /// `conns_per_peer`, if the seed wants more.
    pub conns: u8,
    /// No post call fails.
    pub no_post_faults: bool,
    /// What is broken.
    pub broken: Option<Broken>,
}

impl Options {
    /// As the seed wants it.
    pub fn new() -> Self {
        Self {
            nodes: usize::MAX,
            conns: u8::MAX,
            ..Self::default()
        }
    }

    /// From `KOR_SIM_SKIP`, which [`Options::skip`] has printed.
    ///
    /// # Panics
    ///
    /// When the text is not understood.
    pub fn parse(text: &str) -> Self {
        let mut options = Self::new();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let (kind, number) = word.split_at(1);
            let mut range = number.split('-').map(|n| n.parse::<u64>().expect(word));
            let from = range.next().unwrap_or(0);
            let to = range.next().unwrap_or(from);
            match kind {
                "f" => options.skip_faults.extend(from..=to),
                "m" => options.skip_msgs.extend(from..=to),
                "n" => options.nodes = from as usize,
                "c" => options.conns = from as u8,
                "p" => options.no_post_faults = true,
                "b" => options.broken = Some(Broken::ALL[from as usize]),
                _ => panic!("KOR_SIM_SKIP: {word}"),
            }
        }
        options
    }

    /// What is left away, for `KOR_SIM_SKIP`.
    pub fn skip(&self) -> String {
        let mut words = Vec::new();
        for (kind, set) in [("f", &self.skip_faults), ("m", &self.skip_msgs)] {
            for (from, to) in ranges(set) {
                words.push(format!("{kind}{from}-{to}"));
            }
        }
        if self.nodes != usize::MAX {
            words.push(format!("n{}", self.nodes));
        }
        if self.conns != u8::MAX {
            words.push(format!("c{}", self.conns));
        }
        if self.no_post_faults {
            words.push("p0".into());
        }
        if let Some(broken) = self.broken {
            let number = Broken::ALL.iter().position(|&b| b == broken);
            words.push(format!("b{}", number.unwrap_or(0)));
        }
        words.join(",")
    }
}

fn ranges(set: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &n in set {
        match ranges.last_mut() {
            Some((_, to)) if *to + 1 == n => *to = n,
            _ => ranges.push((n, n)),
        }
    }
    ranges
}
