#!/usr/bin/env python3
"""Checks that every relative link of the documentation leads somewhere. Exits 1 and names what is broken."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(#[^)\s]*)?\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.S | re.M)
"""Fenced blocks and code spans: a regular expression in one of them is no link."""


def broken_links(page: pathlib.Path) -> list[str]:
    """The relative links of a page that name no file, as `page: link`."""
    text = CODE.sub("", page.read_text())
    found = []
    for target, _ in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        if not (page.parent / target).exists():
            found.append(f"{page.relative_to(ROOT)}: {target}")
    return found


def main() -> int:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    found = [problem for page in sorted(pages) for problem in broken_links(page)]
    for problem in found:
        print(f"broken link: {problem}")
    print(f"{len(pages)} pages, {len(found)} broken links")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
