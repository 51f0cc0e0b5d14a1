#!/usr/bin/env python3
"""Lists the checks of docs/spec that no test claims with `@pytest.mark.spec("RR-6")`. A claim proves nothing.

Usage: spec_coverage.py [PREFIX ...] [--missing]. Always exits 0; CI prints it.
"""

import argparse
import ast
import pathlib
import re
from collections import defaultdict

ROOT = pathlib.Path(__file__).resolve().parents[1]
PREFIXES = ("RR", "SR", "RB", "ON", "IS", "MO", "LA", "MA", "IN", "CR", "CI", "CS", "AP")
CHECK = re.compile(rf"\b({'|'.join(PREFIXES)})-(\d+)\b")


def known_checks() -> dict[str, set[int]]:
    """Prefix -> numbers that the specification defines or names."""
    known: dict[str, set[int]] = defaultdict(set)
    for page in (ROOT / "docs" / "spec").glob("*.md"):
        for prefix, number in CHECK.findall(page.read_text()):
            known[prefix].add(int(number))
    return known


def claimed_checks() -> dict[str, set[int]]:
    """Prefix -> numbers that a `mark.spec(...)` of a test names."""
    claimed: dict[str, set[int]] = defaultdict(set)
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "spec"):
                continue
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    for prefix, number in CHECK.findall(argument.value):
                        claimed[prefix].add(int(number))
    return claimed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("prefix", nargs="*")
    parser.add_argument("--missing", action="store_true", help="only the unclaimed checks, one a line")
    options = parser.parse_args()
    known, claimed = known_checks(), claimed_checks()
    for prefix in PREFIXES:
        if options.prefix and prefix not in options.prefix:
            continue
        missing = sorted(known[prefix] - claimed[prefix])
        if options.missing:
            print("\n".join(f"{prefix}-{number}" for number in missing))
            continue
        done = len(known[prefix] & claimed[prefix])
        tail = f"  unclaimed: {' '.join(map(str, missing))}" if missing else ""
        print(f"{prefix} {done}/{len(known[prefix])}{tail}")


if __name__ == "__main__":
    main()
