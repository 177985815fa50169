#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Does a test notice when wire, proto or driver is broken in one place?

What is done to them, one at a time: conditions are turned round, and their operators replaced by
their neighbours (< by <=, && by ||); statements are left out; adding becomes subtracting, the
smaller the larger; functions return at once what says nothing (0, 1, true, false, None, Ok(())).

All mutants are compiled at once into a copy of the tree below OUT, each behind a number that
the environment chooses (KOR_MUTANT), and the tests are run for every SHARD-th mutant ("I/N"), until
SECONDS are over; first the fast tests of the same room, last the simulator. With
KOR_PROVE_MUTANTS_AGAIN=FILE only what survived according to the results in FILE. Not in const functions,
where a choice at run time is not possible. OUT/results has a line for each mutant that was run.

mutants-explained.txt says of survivors why no test can notice; a survivor that it does not explain
is a failure, and so is an explanation that nothing needs.
"""
import argparse
import concurrent.futures
import os
import re
import resource
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
SWITCH = """
/// Test instrument.
pub mod mutant {
    use std::sync::LazyLock;
    static CHOSEN: LazyLock<u32> = LazyLock::new(|| {
        if std::env::var_os("KOR_MUTANT_ENDS").is_some() {
            // The first test that fails is enough.
            std::panic::set_hook(Box::new(|_| std::process::exit(101)));
        }
        std::env::var("KOR_MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0)
    });
    /// Whether this one is chosen.
    pub fn is(n: u32) -> bool {
        *CHOSEN == n
    }
}
"""
# Programs in the order in which they are asked, by room.
ORDER = {"wire": ["wire", "conn", "peer"], "conn": ["conn", "exhaust"], "peer": ["peer"],
         "driver": ["driver"]}
ALL = ["conn", "peer", "driver", "wire", "model", "exhaust", "sim"]
# Tests in which a panic is what is wanted; the other fast ones end with the first panic.
PANICS = re.compile(r"^(?:cdriver::)|broken|simulat|minimi|reference")
# A test that takes longer is asked only when no faster one notices.
FAST = 0.1

COND = re.compile(r"^(\s*(?:\} else )?(?:if|while) )(?!let\b)(?!.*\blet\b)(.+)( \{)$")
ARM = re.compile(r"^(\s*\S.* if )(?!let\b)(.+)( =>.*)$")
MATCH = re.compile(r"^(.*\bmatch )(.+)( \{)$")
STATEMENT = re.compile(
    r"^(\s*)(?!let\b|return\b|break|continue|use\b|type\b)((?:self|\*?[a-z_]+)\b[^;{}|]*[^;{}|,(]\)?;)$")
LET = re.compile(r"^(\s*let [^=]+ = )([^;{}|]*)(;)$")
TAIL = re.compile(r"^(\s*)([^;{}]*(?:==|!=|<=|>=|&&|\|\|| < | > )[^;{}]*[^;{},(|&=])$")
VALUE = re.compile(r"^(\s*)([^;{}|]*\b(?:saturating_add|saturating_sub|wrapping_add|min|max)\([^;{}|]*\))$")
BOOLEAN = re.compile(r" (?:==|!=|<=|>=|&&|\|\||<|>) ")
SWAPS = [(" && ", " || "), (" || ", " && "), (" < ", " <= "), (" <= ", " < "), (" > ", " >= "),
         (" >= ", " > "), (".min(", ".max("), (".max(", ".min("),
         ("saturating_add(", "saturating_sub("), ("saturating_sub(", "saturating_add("),
         ("wrapping_add(", "wrapping_sub("), ("wrapping_sub(", "wrapping_add("),
         ("is_some_and(", "is_none_or("), (".any(", ".all("), (".all(", ".any(")]
RETURNS = [(r"bool", ["true", "false"]), (r"(?:u8|u16|u32|u64|usize)", ["0", "1"]),
           (r"Option<.*>", ["None"]), (r"Result<\(\), .*>", ["Ok(())"]), (r"", [""])]


class Mutant:
    """One way to break one line."""

    def __init__(self, path, line, kind):
        self.path, self.line, self.kind, self.number = path, line, kind, 0


def sources():
    for room in ("wire", "proto", "driver"):
        for base, _, names in os.walk(os.path.join(TREE, "rust", room)):
            for name in sorted(names):
                if name.endswith(".rs"):
                    yield os.path.relpath(os.path.join(base, name), TREE)


def swapped(text):
    """(kind, text) for each operator of `text` that has a neighbour."""
    for old, new in SWAPS:
        at = text.find(old)
        while at >= 0:
            yield f"{old.strip()} to {new.strip()}", text[:at] + new + text[at + len(old):]
            at = text.find(old, at + 1)


def is_statement(lines, n):
    before = lines[n - 1].rstrip()
    return before.endswith(("{", ";", "}", "=> {")) and not before.strip().startswith("//")


def ways(lines, n):
    """How line n can be broken: (kind, part), and how the line is put together from the parts."""
    line = lines[n]
    last = n + 1 < len(lines) and lines[n + 1].strip() == "}"
    for pattern in (COND, ARM):
        match = pattern.match(line)
        if match:
            parts = [("turned round", f"!({match[2]})"), *swapped(match[2])]
            return parts, match[1], match[2], match[3]
    match = MATCH.match(line)
    if match and lines[n + 1].strip().startswith(("true =>", "false =>")):
        return [("turned round", f"!({match[2]})"), *swapped(match[2])], match[1], match[2], match[3]
    if not is_statement(lines, n):
        return [], "", "", ""
    match = LET.match(line)
    if match:
        parts = list(swapped(match[2]))
        if BOOLEAN.search(match[2]):
            parts.insert(0, ("turned round", f"!({match[2]})"))
        return parts, match[1], match[2], match[3]
    match = STATEMENT.match(line)
    if match:
        return [("left out", ""), *swapped(match[2])], match[1], match[2], ""
    match = TAIL.match(line)
    if match and last:
        parts = [("turned round", f"!({match[2]})"), *swapped(match[2])]
        return parts, match[1], match[2], ""
    match = VALUE.match(line)
    if match and last:
        return list(swapped(match[2])), match[1], match[2], ""
    return [], "", "", ""


def returns(lines, start):
    """The last line of a function's head and what it may return at once."""
    head, n = "", start
    while not lines[n].rstrip().endswith(("{", ";")):
        head, n = head + lines[n].strip() + " ", n + 1
    head += lines[n].strip()
    if head.endswith(";"):
        return n, []
    found = re.search(r"\)(?: -> (.*?))?(?: where .*)? \{$", head)
    for pattern, values in RETURNS:
        if found and re.fullmatch(pattern, found[1] or ""):
            return n, values
    return n, []


def sites():
    """All mutants, in a fixed order."""
    found = []
    for path in sorted(sources()):
        const, inside = False, False
        with open(os.path.join(TREE, path), encoding="utf-8") as source:
            lines = source.read().splitlines()
        for n, line in enumerate(lines):
            head = re.match(r"\s*(?:pub(?:\(\w+\))? )?(const )?fn ", line)
            if head:
                # Hashing and copying an engine is for searches, which compare what they count.
                const = bool(head[1]) or re.match(r"\s*(?:pub(?:\(\w+\))? )?fn (?:hash\w*|clone)\b", line) is not None
                inside = True
                if not const:
                    at, values = returns(lines, n)
                    found.extend(Mutant(path, at, f"returns {v or 'at once'}") for v in values)
                continue
            if inside and not const and not line.strip().startswith("//"):
                found.extend(Mutant(path, n, kind) for kind, _ in ways(lines, n)[0])
    for number, mutant in enumerate(found, 1):
        mutant.number = number
    return found


def instrument(lines, n, mutants):
    """Line n with these mutants in it."""
    line = lines[n]
    early = [m for m in mutants if m.kind.startswith("returns ")]
    if early:
        for m in early:
            value = m.kind.removeprefix("returns ").replace("at once", "")
            line += f" if crate::mutant::is({m.number}) {{ return {value}; }}"
        return line
    parts, before, text, after = ways(lines, n)
    # The same kind may be there twice: in order.
    chain, left = "", list(parts)
    for m in mutants:
        at = next(i for i, (kind, _) in enumerate(left) if kind == m.kind)
        chain += f"if crate::mutant::is({m.number}) {{ {left[at][1]} }} else "
        del left[:at + 1]
    if not chain:
        return line
    if line.rstrip().endswith(";") and not after:
        return f"{before}{chain}{{ {text} }}"
    return f"{before}({chain}{{ {text} }}){after}"


def in_root(*command, **options):
    return subprocess.run([os.path.join(TREE, "scripts/in-root"), *command], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)


def lay_out(src, mutants, dropped):
    for path in sorted(set(m.path for m in mutants)):
        with open(os.path.join(TREE, path), encoding="utf-8") as source:
            lines = source.read().splitlines()
        out = list(lines)
        for n in set(m.line for m in mutants if m.path == path):
            here = [m for m in mutants if (m.path, m.line) == (path, n)]
            out[n] = instrument(lines, n, [m for m in here if m.number not in dropped])
        with open(os.path.join(src, path), "w", encoding="utf-8") as file:
            file.write("\n".join(out) + "\n")


def build(src, target, mutants):
    """Leaves out what does not compile. The test programs by name, and what was left out."""
    dropped = set()
    for _ in range(30):
        lay_out(src, mutants, dropped)
        run = in_root("env", f"CARGO_TARGET_DIR={target}", "RUSTFLAGS=-Awarnings", "cargo", "test",
                      "--offline", "--release", "--no-run", "--message-format", "short",
                      cwd=os.path.join(src, "tests/host"))
        if run.returncode == 0:
            found = re.findall(r"Executable tests/(\w+)\S* \((\S+)\)", run.stdout)
            return dict(found), dropped
        bad = set()
        for where, row in re.findall(r"(rust/\S+\.rs):(\d+):\d+: error", run.stdout):
            for reach in (0, 1):
                near = {m.number for m in mutants if m.number not in dropped
                        and where.endswith(m.path) and abs(m.line + 1 - int(row)) <= reach}
                # What the line says itself is more likely to compile than what it might say.
                extra = {m.number for m in mutants if m.number in near
                         and m.kind not in ("turned round", "left out")}
                if extra or near:
                    bad |= extra or near
                    break
        if not bad:
            sys.exit(run.stdout[-3000:])
        dropped |= bad
    sys.exit("does not compile")


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def run_tests(program, names, number, cwd, fast):
    """Whether they pass; None when they do not end."""
    env = dict(os.environ, KOR_MUTANT=str(number), KOR_SIM_SEEDS="60", KOR_EXHAUST="2")
    if fast:
        env["KOR_MUTANT_ENDS"] = "1"
    try:
        run = subprocess.run([program, "-q", "--test-threads=1", "--exact", *names], env=env, cwd=cwd,
                             timeout=8 if fast else 60, check=False, preexec_fn=limit,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None
    return run.returncode == 0


def by_time(program, cwd):
    """The tests of a program: fast and slow ones."""
    env = dict(os.environ, RUSTC_BOOTSTRAP="1", KOR_SIM_SEEDS="60", KOR_EXHAUST="2")
    run = subprocess.run([program, "-Zunstable-options", "--report-time", "--test-threads=1"],
                         env=env, cwd=cwd, text=True, stdout=subprocess.PIPE, check=False)
    took = re.findall(r"^test (\S+) \.\.\. (?:.*\n)*?.*?ok <([\d.]+)s>$", run.stdout, re.M)
    if run.returncode or not took:
        sys.exit(f"{program} fails without a mutant:\n{run.stdout[-2000:]}")
    fast = [name for name, seconds in took if float(seconds) <= FAST and not PANICS.search(name)]
    return fast, [name for name, _ in took if name not in fast]


def killed(stages, programs, mutant, cwd, end):
    """The test program that notices, or None."""
    if time.time() > end:
        return "no time"
    parts = mutant.path.split("/")
    first = next((ORDER[p] for p in parts if p in ORDER), [])
    order = first + [name for name in ALL if name not in first]
    for slow in (0, 1):
        for name in order:
            names = stages[name][slow]
            passed = run_tests(programs[name], names, mutant.number, cwd, not slow) \
                if names else True
            if not passed:
                return name if passed is False else f"{name} (does not end)"
    return None


def explained():
    """Lines "PATH | KIND | TEXT OF THE LINE | WHY"."""
    reasons = {}
    with open(os.path.join(HERE, "mutants-explained.txt"), encoding="utf-8") as source:
        for line in source:
            if line.strip() and not line.startswith("#"):
                path, kind, *text, why = line.rstrip("\n").split(" | ")
                reasons[path, kind, " | ".join(text)] = why
    return reasons


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("shard", metavar="SHARD", help="which part of how many, as in 1/4")
    parser.add_argument("seconds", metavar="SECONDS", type=float)
    args = parser.parse_args()
    out = os.path.abspath(args.out)
    first, step = map(int, args.shard.split("/"))
    src = os.path.join(out, "src")
    shutil.rmtree(src, ignore_errors=True)
    for part in ("rust", "tests/host", "Documentation"):
        shutil.copytree(os.path.join(TREE, part), os.path.join(src, part),
                        ignore=shutil.ignore_patterns("target"))
    # Names of tests and house rules are not what is checked.
    for name in ("tidy.rs", "circles.rs", "history.rs", "kiov.rs", "citations.rs"):
        os.remove(os.path.join(src, "tests/host/tests", name))
    with open(os.path.join(src, "tests/host/src/lib.rs"), "a", encoding="utf-8") as lib:
        lib.write(SWITCH)
    mutants, reasons = sites(), explained()
    texts = {}
    for path in set(m.path for m in mutants):
        with open(os.path.join(TREE, path), encoding="utf-8") as source:
            texts[path] = source.read().splitlines()
    programs, dropped = build(src, os.path.join(out, "target"), mutants)
    cwd = os.path.join(src, "tests/host")
    stages = {name: by_time(programs[name], cwd) for name in ALL}
    start, run, bad, needed, total = time.time(), 0, [], set(), len(mutants) - len(dropped)
    jobs = int(os.environ.get("KOR_JOBS", "2"))
    chosen = [m for m in mutants if m.number not in dropped and m.number % step == first]
    again = os.environ.get("KOR_PROVE_MUTANTS_AGAIN")
    if again:
        # Only what survived according to this file, wherever it stands now.
        with open(again, encoding="utf-8") as source:
            found = [re.match(r"(?!killed).*?: (\S+):\d+: (.*)$", line) for line in source]
        alive = {(match[1], match[2]) for match in found if match}
        chosen = [m for m in chosen if (m.path, f"{m.kind}: {texts[m.path][m.line].strip()}") in alive]
    with open(os.path.join(out, "results"), "w", encoding="utf-8") as results:
        pool = concurrent.futures.ThreadPoolExecutor(jobs)
        end = start + args.seconds
        judged = pool.map(lambda m: (m, killed(stages, programs, m, cwd, end)), chosen)
        for m, by in judged:
            if by == "no time":
                continue
            run += 1
            text = texts[m.path][m.line].strip()
            key = m.path, m.kind, text
            verdict = f"killed by {by}" if by else \
                "survives, explained" if key in reasons else "SURVIVES"
            print(f"{verdict}: {m.path}:{m.line + 1}: {m.kind}: {text}", file=results, flush=True)
            if by:
                continue
            needed.add(key)
            if key not in reasons:
                bad.append(f"SURVIVES: {m.path}:{m.line + 1}: {m.kind}: {text}")
    complete = run == total
    if complete:
        bad += [f"explained for nothing: {' | '.join(key)}" for key in reasons if key not in needed]
    print("\n".join(bad))
    alive = sum(1 for line in open(os.path.join(out, "results"), encoding="utf-8")
                if not line.startswith("killed"))
    print(f"{run - alive} of {run} killed, {alive} survive, {len(bad)} of them unexplained"
          f"{'' if complete else f' (of {total} mutants in all)'}, in {time.time() - start:.0f} s")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
