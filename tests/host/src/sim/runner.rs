// SPDX-License-Identifier: GPL-2.0

//! Many seeds on all CPUs, and the smallest run that still fails of one that does.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use super::options::Options;
use super::phases::run;
use super::report::Report;

/// How a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// File and line.
    pub place: String,
    /// What was said.
    pub text: String,
}

thread_local! {
    static LAST: RefCell<Option<Failure>> = const { RefCell::new(None) };
    static CAUGHT: RefCell<bool> = const { RefCell::new(false) };
}

/// Panics of runs are kept, not printed.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !CAUGHT.with(|caught| *caught.borrow()) {
                return print(info);
            }
            let place = info.location().map(ToString::to_string);
            let text = info.payload();
            let text = text.downcast_ref::<String>().cloned().or_else(|| {
                let text = info.payload().downcast_ref::<&str>();
                text.map(ToString::to_string)
            });
            let failure = Failure {
                place: place.unwrap_or_default(),
                text: text.unwrap_or_default(),
            };
            LAST.with(|last| last.borrow_mut().get_or_insert(failure).clone());
        }));
    });
}

/// Runs one seed.
///
/// # Errors
///
/// What was violated.
pub fn try_run(seed: u64, options: &Options) -> Result<Report, Failure> {
    listen();
    LAST.with(|last| last.borrow_mut().take());
    CAUGHT.with(|caught| *caught.borrow_mut() = true);
    let result = catch_unwind(AssertUnwindSafe(|| run(seed, options)));
    CAUGHT.with(|caught| *caught.borrow_mut() = false);
    result.map_err(|_| {
        let last = LAST.with(|last| last.borrow_mut().take());
        last.unwrap_or(Failure {
            place: String::new(),
            text: "unknown".into(),
        })
    })
}

/// What a minimisation has come to.
#[derive(Clone, Debug)]
pub struct Minimal {
    /// How to run it.
    pub options: Options,
    /// How it fails.
    pub failure: Failure,
    /// Runs that it took.
    pub runs: u32,
}

/// Leaves away faults, messages, nodes and connections as long as `seed` fails in the same place.
/// `None` when it does not fail.
pub fn minimise(seed: u64, options: &Options) -> Option<Minimal> {
    let failure = try_run(seed, options).err()?;
    let mut best = Minimal {
        options: options.clone(),
        failure,
        runs: 1,
    };
    let coarse: [fn(&mut Options); 5] = [
        |o| o.nodes = 2,
        |o| o.nodes = 3,
        |o| o.conns = 1,
        |o| o.no_post_faults = true,
        |o| o.skip_faults = (0..1000).collect(),
    ];
    for change in coarse {
        best.attempt(seed, change);
    }
    best.shrink(seed, |o| &mut o.skip_faults);
    best.shrink(seed, |o| &mut o.skip_msgs);
    best.shrink(seed, |o| &mut o.skip_faults);
    Some(best)
}

impl Minimal {
    fn attempt(&mut self, seed: u64, change: impl Fn(&mut Options)) -> bool {
        let mut options = self.options.clone();
        change(&mut options);
        if options == self.options {
            return false;
        }
        self.runs += 1;
        match try_run(seed, &options) {
            Err(failure) if failure.place == self.failure.place => {
                self.options = options;
                self.failure = failure;
                true
            }
            Ok(_) | Err(_) => false,
        }
    }

    /// Leaves away large pieces, then smaller ones.
    fn shrink(&mut self, seed: u64, set: fn(&mut Options) -> &mut BTreeSet<u64>) {
        let mut size = 256u64;
        while size > 0 {
            for from in (0..512).step_by(size as usize) {
                self.attempt(seed, |options| set(options).extend(from..from + size));
            }
            size /= 2;
        }
    }
}

/// Runs `count` seeds from `first` on with as many threads as there are CPUs (`KOR_JOBS` says
/// otherwise) and reports progress when there are many.
///
/// # Panics
///
/// When one fails: it is minimised, and its story told.
pub fn seeds(first: u64, count: u64) -> Report {
    let jobs = std::env::var("KOR_JOBS").ok().and_then(|n| n.parse().ok());
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    let jobs = jobs.unwrap_or(cpus).clamp(1, 64);
    let (next, stop) = (AtomicU64::new(first), AtomicBool::new(false));
    let total = Mutex::new(Report::default());
    let failed = Mutex::new(None);
    let start = Instant::now();
    let work = || {
        let mut report = Report::default();
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                break;
            }
            match try_run(seed, &Options::new()) {
                Ok(seen) => report += seen,
                Err(failure) => {
                    stop.store(true, Ordering::Relaxed);
                    *failed.lock().expect("no panic") = Some((seed, failure));
                }
            }
        }
        *total.lock().expect("no panic") += report;
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let mut said = Instant::now();
        while threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
            if said.elapsed() > Duration::from_secs(10) {
                said = Instant::now();
                let done = next.load(Ordering::Relaxed).min(first + count) - first;
                let rate = done as f64 / start.elapsed().as_secs_f64();
                println!("{done} of {count} seeds, {rate:.0} a second, nothing violated");
            }
        }
    });
    if let Some((seed, failure)) = failed.into_inner().expect("no panic") {
        tell(seed, &failure, &Options::new());
        panic!("seed {seed}: {}: {}", failure.place, failure.text);
    }
    let rate = count as f64 / start.elapsed().as_secs_f64();
    println!("{count} seeds from {first} on, {jobs} threads, {rate:.0} schedules a second");
    total.into_inner().expect("no panic")
}

/// Says how a seed fails, as small as it can be made.
pub fn tell(seed: u64, failure: &Failure, options: &Options) {
    println!("seed {seed} fails at {}: {}", failure.place, failure.text);
    let Some(mut minimal) = minimise(seed, options) else {
        return println!("but not again");
    };
    minimal.options.story = true;
    let _ = try_run(seed, &minimal.options);
    let skip = minimal.options.skip();
    println!("{}: {}", minimal.failure.place, minimal.failure.text);
    println!(
        "after {} runs; run it again: scripts/replay seed {seed} {skip}",
        minimal.runs
    );
}
