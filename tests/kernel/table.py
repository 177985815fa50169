#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Print the demo's table.

Reads rows.1 and rows.2, lines of `row` in lib.sh: KIND SIZE MESSAGES MIB_PER_S P50_US P99_US ERRORS,
and rxe.1 and rxe.2, lines NAME VALUE. Exits 1 when there is no row or any row has errors.
"""
import argparse
import pathlib
import sys

HEADS = ["node", "kind", "size", "messages", "MiB/s", "p50 us", "p99 us", "errors"]


def read_rows(run, node):
    path = run / f"rows.{node}"
    if not path.exists():
        return []
    rows = []
    for line in path.read_text().splitlines():
        fields = line.split()
        if len(fields) != len(HEADS) - 1:
            raise SystemExit(f"{path}: not a row: {line!r}")
        kind, size, *rest = fields
        rows.append([f"{node} -> {3 - node}", kind.replace("_", " "), f"{int(size):,}", *rest])
    return rows


def show(rows):
    widths = [max(len(row[i]) for row in [HEADS, *rows]) for i in range(len(HEADS))]
    for row in [HEADS, ["-" * width for width in widths], *rows]:
        cells = [cell.ljust(width) if i < 2 else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def show_rxe(run):
    for node in (1, 2):
        path = run / f"rxe.{node}"
        if path.exists():
            counters = [line.split() for line in path.read_text().splitlines()]
            print(f"rxe on node {node}: " + ", ".join(f"{name} {value}" for name, value in counters))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", metavar="RUN_DIRECTORY", type=pathlib.Path)
    run = parser.parse_args().run
    rows = read_rows(run, 1) + read_rows(run, 2)
    if not rows:
        raise SystemExit(f"{run}: no rows: the demo did nothing")
    show(rows)
    show_rxe(run)
    sys.exit(any(row[-1] != "0" for row in rows))


main()
