#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The table and the totals of a run with real LNet.

Scenarios are named PAIRING or PART-PAIRING, as ours-c or checks-ours-c. Each has left its items
in RUN_DIR/SCENARIO/items.1 and .2: lines of pass, fail or skip, the item's name and a remark,
separated by tabs. RUNNER_OUTPUT has the runner's own verdict on each scenario: a kernel report,
or a node that died.

An item passes when it passes in every pairing that ran it. The last line gives the totals.
"""
import argparse
import re
import sys
from pathlib import Path

RUN = "kernel and unloading"


def worse(one, other):
    """Of two results of an item: a failure counts more than a pass, that more than a skip."""
    order = ("skip", "pass", "fail")
    return other if one is None or order.index(other[0]) > order.index(one[0]) else one


def read_items(directory):
    """{item: (state, remark)} of one pairing; what failed once has failed."""
    items = {}
    for node in (1, 2):
        path = directory / f"items.{node}"
        for line in path.read_text().splitlines() if path.exists() else []:
            state, name, remark = line.split("\t", 2)
            items[name] = worse(items.get(name), (state, remark))
    return items


def read_verdicts(output, scenarios):
    """The runner's line for each scenario, as one more item of it."""
    verdicts = {}
    for line in output.splitlines():
        match = re.match(r"(PASS|FAIL) (\S+?):? (.*)", line)
        if not match or match[2] not in scenarios:
            continue
        # What is wrong by its items alone is counted there.
        bad = match[1] == "FAIL" and "not all items passed" not in match[3]
        verdicts[match[2]] = ("fail" if bad else "pass", match[3] if bad else "")
    return verdicts


def split_name(scenario):
    """(part, pairing) of a scenario's name."""
    match = re.fullmatch(r"(?:(.*)-)?([^-]+-[^-]+)", scenario)
    return (match[1] or "", match[2]) if match else ("", scenario)


def collect(run_dir, output, scenarios):
    """({item: {pairing: (state, remark)}}, pairings)"""
    table = {}
    verdicts = read_verdicts(output, scenarios)
    for scenario in scenarios:
        part, pairing = split_name(scenario)
        items = read_items(run_dir / scenario)
        items[f"{RUN} {part}".strip()] = verdicts.get(scenario, ("fail", "did not run"))
        for name, result in items.items():
            results = table.setdefault(name, {})
            results[pairing] = worse(results.get(pairing), result)
    return table, sorted({split_name(s)[1] for s in scenarios})


def state_of(table, item, pairings):
    """pass, fail or skip: over all pairings. What is not there did not run."""
    states = [table[item].get(p, ("fail", ""))[0] for p in pairings]
    if "fail" in states:
        return "fail"
    return "pass" if "pass" in states else "skip"


def report(table, pairings):
    words = {"pass": "ok", "fail": "FAIL", "skip": "skip"}
    width = max(len(name) for name in table)
    lines = [" ".join([f"{'':{width}}"] + [f"{p:>10}" for p in pairings])]
    for name, results in table.items():
        cells = [words.get(results.get(p, ("-",))[0], "not run") for p in pairings]
        lines.append(" ".join([f"{name:{width}}"] + [f"{c:>10}" for c in cells]))
    for name, results in table.items():
        for pairing, (state, remark) in results.items():
            if state != "pass":
                lines.append(f"{words[state]}: {name} ({pairing}): {remark}")
    states = [state_of(table, name, pairings) for name in table]
    lines.append(", ".join(f"{states.count(s)} {w}" for s, w in
                           (("pass", "passed"), ("fail", "failed"), ("skip", "skipped"))))
    return "\n".join(lines) + "\n", "fail" not in states


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path)
    parser.add_argument("output", metavar="OUTPUT", type=Path)
    parser.add_argument("runner_output", metavar="RUNNER_OUTPUT", type=Path)
    parser.add_argument("scenarios", metavar="SCENARIO", nargs="+")
    args = parser.parse_args()
    table, pairings = collect(args.run_dir, args.runner_output.read_text(), args.scenarios)
    text, good = report(table, pairings)
    args.output.write_text(text)
    lines = text.splitlines()
    print("\n".join(lines[:-1]))
    print(f"results: {args.output}")
    print(lines[-1])
    sys.exit(not good)


if __name__ == "__main__":
    main()
