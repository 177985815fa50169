#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Lines and branches of the pure rooms that the tests reach, from what llvm-cov exports.

EXPORT is the output of `llvm-cov export`. A function that is generic, or in several test programs,
is there several times: a branch is taken when it is taken in one of them, a line likewise. Each
condition has two branches. Prints what is not taken, then the figures; fails when less than LEAST
percent of the branches are taken.
"""
import argparse
import collections
import json
import re
import sys

PURE = re.compile(r"/(rust/(?:wire|proto|driver)/\S+\.rs)$")


def line_counts(segments):
    """Times that each line was run, as llvm-cov counts: the most of the regions that start in it,
    and of the one that goes on from before."""
    lines = {}
    wrapped = None
    by_line = collections.defaultdict(list)
    for segment in segments:
        by_line[segment[0]].append(segment)
    if not by_line:
        return lines
    for line in range(min(by_line), max(by_line) + 1):
        here = by_line.get(line, [])
        # [line, column, count, has a count, starts a region, is a gap]
        starts = [s for s in here if s[3] and s[4] and not s[5]]
        skipped = here and not here[0][3] and here[0][4]
        mapped = not skipped and ((wrapped is not None and wrapped[3]) or bool(starts))
        if mapped:
            counts = [s[2] for s in starts]
            if wrapped is not None and wrapped[3]:
                counts.append(wrapped[2])
            lines[line] = max(counts)
        if here:
            wrapped = here[-1]
    return lines


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", metavar="EXPORT")
    parser.add_argument("least", metavar="LEAST", type=float)
    args = parser.parse_args()
    with open(args.export, encoding="utf-8") as source:
        data = json.load(source)["data"][0]
    branches = collections.defaultdict(lambda: [0, 0])
    for function in data["functions"]:
        for first, column, last, end, true, false, file_id, *_ in function.get("branches", []):
            match = PURE.search(function["filenames"][file_id])
            if match:
                count = branches[match[1], first, column, last, end]
                count[0] += true
                count[1] += false
    lines = {}
    for source in data["files"]:
        match = PURE.search(source["filename"])
        if match:
            for line, count in line_counts(source["segments"]).items():
                lines[match[1], line] = count
    rooms = collections.defaultdict(lambda: [0, 0, 0, 0])
    for (path, _), count in lines.items():
        room = rooms[path.split("/")[1]]
        room[0] += 1
        room[1] += count > 0
    for (path, line, column, *_), counts in sorted(branches.items()):
        room = rooms[path.split("/")[1]]
        room[2] += 2
        room[3] += (counts[0] > 0) + (counts[1] > 0)
        for taken, count in zip(("true", "false"), counts):
            if not count:
                print(f"{path}:{line}:{column}: never {taken}")
    total = [sum(room[i] for room in rooms.values()) for i in range(4)]
    if not total[0] or not total[2]:
        sys.exit("no lines or no branches of the pure rooms: nothing was measured")
    missed = sorted(f"{path}:{line}" for (path, line), count in lines.items() if not count)
    print("lines not reached:", *missed)
    for name, room in [*sorted(rooms.items()), ("all", total)]:
        print(f"{name}: lines {room[1]} of {room[0]} ({100 * room[1] / room[0]:.2f} %), "
              f"branches {room[3]} of {room[2]} ({100 * room[3] / room[2]:.2f} %)")
    sys.exit(100 * total[3] / total[2] < args.least)


main()
