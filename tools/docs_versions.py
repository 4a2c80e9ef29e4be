# SPDX-License-Identifier: BSD-3-Clause
"""Lists the versions of the documentation in a directory: docs_versions.py FOLDER.

`make docs DOCS_VERSION=0.1.0` builds into docs/_build/site/0.1.0 and calls this. It writes
versions.json, the newest release first, which the version menu of each page reads, and an
index.html that redirects to the newest release, or to the first version if there is no release.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

PAGE = """<!doctype html>
<meta charset="utf-8">
<title>cograd</title>
<meta http-equiv="refresh" content="0; url={name}/">
<a href="{name}/">cograd {name}</a>
"""


def numbers(name: str) -> tuple[int, ...]:
    """Returns the numbers of a release, and () for other versions, such as "dev"."""
    return tuple(map(int, name.split("."))) if re.fullmatch(r"\d+(\.\d+)*", name) else ()


def versions(folder: Path) -> list[dict[str, str]]:
    """Returns name and title of each version in the directory, the newest release first."""
    names = sorted(p.parent.name for p in folder.glob("*/index.html"))
    names.sort(key=numbers, reverse=True)
    newest = next((n for n in names if numbers(n)), None)
    return [{"name": n, "title": n + (" (newest)" if n == newest else "")} for n in names]


def main() -> int:
    """Writes the two files."""
    folder = Path(sys.argv[1])
    found = versions(folder)
    if not found:
        print(f"{folder}: no version is here", file=sys.stderr)
        return 1
    (folder / "versions.json").write_text(json.dumps(found, indent=1) + "\n")
    (folder / "index.html").write_text(PAGE.format(name=found[0]["name"]))
    print(f"{folder}: {', '.join(v['title'] for v in found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
