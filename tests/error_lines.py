#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Which error lines of scripts and makefiles has no test provoked?

    error_lines.py FILE... <WHAT-TESTS-SAW

Each text of die, wrong_usage and $(error), with anything in the place of its variables, must be
found in a line of the input, after the name of its script. Prints those that are not; exit status 1 when there are any.
"""
import os
import re
import sys

START = re.compile(r"(?:\b(?:die|wrong_usage)\s+(?P<quote>[\"'])|\$\(error\s+)")
VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9*@#$?])")


def closing(text, i):
    """The index after the parenthesis or brace that closes the one before i."""
    depth, pairs = 1, {"(": 1, "{": 1, ")": -1, "}": -1}
    while depth:
        depth += pairs.get(text[i], 0)
        i += 1
    return i


def pattern(text, i, end):
    """The text from i to end, an unquoted character, as a pattern."""
    out = ""
    while text[i] != end:
        variable = VARIABLE.match(text, i)
        if end != "'" and text[i : i + 2] in ("$(", "${"):
            out, i = out + ".*", closing(text, i + 2)
        elif end != "'" and variable:
            out, i = out + ".*", variable.end()
        elif end == '"' and text[i] == "\\":
            out, i = out + re.escape(text[i + 1]), i + 2
        else:
            out, i = out + re.escape(text[i]), i + 1
    return out


def said_by(path):
    """What stands before the text."""
    name = os.path.basename(path)
    if name == "Makefile":
        return r"\*\*\* "
    return ": error: " if name == "lib.sh" else f"{name}: error: "


def patterns(path):
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file if not line.lstrip().startswith("#")]
    text = re.sub(r"\\\n\s*", "", "".join(lines))
    for start in START.finditer(text):
        yield pattern(text, start.end(), start.group("quote") or ")")


def main():
    seen = sys.stdin.read()
    missing = [
        (path, wanted)
        for path in sys.argv[1:]
        for wanted in patterns(path)
        if not re.search(said_by(path) + wanted, seen)
    ]
    for path, wanted in missing:
        print(f"{path}: no test provokes: {wanted}")
    sys.exit(bool(missing))


main()
