#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Does a test notice when a condition of wire or proto is turned round or a statement left out?

usage: mutants.py OUT SHARD SECONDS

All mutants are compiled at once into a copy of the tree below OUT, each behind a number that
the environment chooses (KOR_MUTANT), and the tests are run for every SHARD-th mutant ("I/N"), until
SECONDS are over. Not in const functions, where a choice at run time is not possible. OUT/results
has a line for each mutant that was run.
"""
import os
import re
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
        std::env::var("KOR_MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0)
    });
    /// Whether this one is chosen.
    pub fn is(n: u32) -> bool {
        *CHOSEN == n
    }
}
"""
TESTS = {"wire": ["wire"], "conn": ["conn", "sim"], "peer": ["peer", "sim"]}
OTHER = ["conn", "peer", "model", "sim"]
COND = re.compile(r"^(\s*(?:\} else )?(?:if|while) )(?!let\b)(?!.*\blet\b)(.+)( \{)$")
ARM = re.compile(r"^(\s*\S.* if )(?!let\b)(.+)( =>.*)$")
STATEMENT = re.compile(r"^(\s*)(?!let\b|return\b|break|continue|use\b|type\b)((?:self|\*?[a-z_]+)\b[^;{}|]*[^;{}|,(]\)?;)$")
TAIL = re.compile(r"^(\s*)([^;{}]*(?:==|!=|<=|>=|&&|\|\|| < | > )[^;{}]*[^;{},(|&=])$")


def sources():
    for room in ("wire", "proto"):
        for base, _, names in os.walk(os.path.join(TREE, "rust", room)):
            for name in sorted(names):
                if name.endswith(".rs"):
                    yield os.path.relpath(os.path.join(base, name), TREE)


def sites():
    """(file, line, kind), in a fixed order."""
    found = []
    for path in sorted(sources()):
        const, inside = False, False
        with open(os.path.join(TREE, path), encoding="utf-8") as source:
            lines = source.read().splitlines()
        for n, line in enumerate(lines):
            head = re.match(r"\s*(?:pub(?:\(\w+\))? )?(const )?fn ", line)
            if head:
                const, inside = bool(head[1]), True
            if not inside or const or line.strip().startswith("//"):
                continue
            if COND.match(line) or ARM.match(line):
                found.append((path, n, "turned round"))
            elif STATEMENT.match(line) and is_statement(lines, n):
                found.append((path, n, "left out"))
            elif TAIL.match(line) and lines[n + 1].strip() == "}" and is_statement(lines, n):
                found.append((path, n, "turned round"))
    return found


def is_statement(lines, n):
    before = lines[n - 1].rstrip()
    return before.endswith(("{", ";", "}", "=> {")) and not before.strip().startswith("//")


def instrument(number, line):
    for pattern in (COND, ARM):
        match = pattern.match(line)
        if match:
            return f"{match[1]}({match[2]}) != crate::mutant::is({number}){match[3]}"
    match = STATEMENT.match(line)
    if match:
        return f"{match[1]}if !crate::mutant::is({number}) {{ {match[2]} }}"
    match = TAIL.match(line)
    return f"{match[1]}({match[2]}) != crate::mutant::is({number})"


def in_root(*command, **options):
    return subprocess.run([os.path.join(TREE, "scripts/in-root"), *command], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)


def lay_out(src, all_sites, dropped):
    for path in set(site[0] for site in all_sites):
        with open(os.path.join(TREE, path), encoding="utf-8") as source:
            lines = source.read().splitlines()
        for number, (where, n, _) in enumerate(all_sites, 1):
            if where == path and number not in dropped:
                lines[n] = instrument(number, lines[n])
        with open(os.path.join(src, path), "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")


def build(src, target, all_sites):
    """Leaves out what does not compile. The test programs by name, and what was left out."""
    dropped = set()
    for _ in range(12):
        lay_out(src, all_sites, dropped)
        run = in_root("env", f"CARGO_TARGET_DIR={target}", "cargo", "test", "--offline", "--release",
                      "--no-run", "--message-format", "short", cwd=os.path.join(src, "tests/host"))
        if run.returncode == 0:
            found = re.findall(r"Executable tests/(\w+)\S* \((\S+)\)", run.stdout)
            return dict(found), dropped
        bad = set()
        for where, row in re.findall(r"(rust/\S+\.rs):(\d+):\d+: error", run.stdout):
            for number, (path, n, _) in enumerate(all_sites, 1):
                if where.endswith(path) and abs(n + 1 - int(row)) <= 1:
                    bad.add(number)
        if not bad - dropped:
            sys.exit(run.stdout[-3000:])
        dropped |= bad
    sys.exit("does not compile")


def killed(programs, number, path, cwd):
    """The test program that notices, or None."""
    part = next((p for p in TESTS if f"/{p}/" in path or path.startswith(f"rust/{p}/")), None)
    for name in TESTS.get(part, OTHER):
        env = dict(os.environ, KOR_MUTANT=str(number), KOR_SIM_SEEDS="60")
        try:
            run = subprocess.run([programs[name], "-q"], env=env, cwd=cwd, timeout=240, check=False,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return f"{name} (timeout)"
        if run.returncode != 0:
            return name
    return None


def main():
    out, shard, seconds = sys.argv[1:]
    first, step = map(int, shard.split("/"))
    src = os.path.join(out, "src")
    shutil.rmtree(src, ignore_errors=True)
    for part in ("rust", "tests/host", "Documentation"):
        shutil.copytree(os.path.join(TREE, part), os.path.join(src, part),
                        ignore=shutil.ignore_patterns("target"))
    # Names of tests and house rules are not what is checked.
    for name in ("tidy.rs", "history.rs", "tunables.rs", "kiov.rs"):
        os.remove(os.path.join(src, "tests/host/tests", name))
    with open(os.path.join(src, "tests/host/src/lib.rs"), "a", encoding="utf-8") as lib:
        lib.write(SWITCH)
    # The pure rooms deny what the instrument brings in.
    all_sites = sites()
    programs, dropped = build(src, os.path.join(out, "target"), all_sites)
    cwd = os.path.join(src, "tests/host")
    start, run, survivors, total = time.time(), 0, [], len(all_sites) - len(dropped)
    if killed(programs, 0, "", cwd):
        sys.exit("the tests fail without a mutant")
    with open(os.path.join(out, "results"), "w", encoding="utf-8") as results:
        for number, (path, n, kind) in enumerate(all_sites, 1):
            if number in dropped or number % step != first or time.time() - start > float(seconds):
                continue
            by = killed(programs, number, path, cwd)
            run += 1
            with open(os.path.join(TREE, path), encoding="utf-8") as source:
                text = source.read().splitlines()[n].strip()
            line = f"{'killed by ' + by if by else 'SURVIVES'}: {path}:{n + 1}: {kind}: {text}"
            print(line, file=results, flush=True)
            if not by:
                survivors.append(line)
    print("\n".join(survivors))
    print(f"{run - len(survivors)} of {run} killed (of {total} mutants), in {time.time() - start:.0f} s")


main()
