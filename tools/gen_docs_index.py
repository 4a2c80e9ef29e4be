# SPDX-License-Identifier: BSD-3-Clause
"""Writes the index of the docs that `python -m cograd docs` reads: titles, beginnings, headings.

The wheel has this index and no pages, whose text takes seven times as much. With --check, it writes
nothing and fails if the index is not that of docs/.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INDEX = ROOT / "python" / "cograd" / "commands" / "_docs_index.txt"
INNER = {"index", "architecture", "hardening", "abi", "gallery"}  # not for users' questions


def plain(text: str) -> str:
    """Returns Markdown on one line, without links and marks."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(text.split()))
    return text.replace("`", "").replace("**", "")


def entry(name: str, text: str) -> str:
    """Returns a page's lines: name, title and first sentence; then a line for each heading."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    title = re.search(r"^# (.*)$", text, re.M)
    if title is None:
        raise ValueError(f"{name} has no title")
    body = text[title.end() :].strip().split("\n\n")
    first = "" if body[0].startswith(("#", "|", "-", "!")) else plain(body[0])
    first = re.split(r"(?<=[.:?]) (?=[A-Z])", first)[0]
    headings = [plain(h) for h in re.findall(r"^##+ (.*)$", text, re.M)]
    return "\n".join([f"{name}\t{plain(title[1])}\t{first}", *(f"\t{h}" for h in headings)])


def index() -> str:
    """Returns the index of docs/ and docs/tutorials/."""
    docs = ROOT / "docs"
    pages = sorted([*docs.glob("*.md"), *docs.glob("tutorials/*.md")])
    names = {p.relative_to(docs).with_suffix("").as_posix(): p for p in pages}
    chosen = [entry(n, p.read_text()) for n, p in names.items() if n.split("/")[-1] not in INNER]
    return "\n".join(chosen) + "\n"


def main() -> int:
    """Writes the index, or compares it."""
    if "--check" in sys.argv[1:]:
        if INDEX.read_text() == index():
            return 0
        print(f"{INDEX.name} is not that of docs/: run tools/gen_docs_index.py", file=sys.stderr)
        return 1
    INDEX.write_text(index())
    return 0


if __name__ == "__main__":
    sys.exit(main())
