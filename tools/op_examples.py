# SPDX-License-Identifier: BSD-3-Clause
"""Writes the output of the examples of docs/_ext/*.toml: op_examples.py [--check].

An example is a doctest. Run this after you change its code, or how tensors print: it runs every
example and fills in its output.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import doctest
import io
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docs" / "_ext"))
import op_pages


def run(text: str) -> str:
    """Returns a doctest with the output that its statements have now.

    Only a statement that shows an exception already may raise one.
    """
    import cograd

    cograd.manual_seed(0)
    names: dict[str, Any] = dict(op_pages.names_in_examples())
    out = []
    for example in doctest.DocTestParser().get_examples(text):
        first, *rest = example.source.splitlines()
        if rest and rest[-1].startswith(" "):  # the interpreter needs a blank line after a block
            rest.append("")
        out += [f">>> {first}", *(f"... {line}".rstrip() for line in rest)]
        shown = io.StringIO()
        try:
            with contextlib.redirect_stdout(shown):
                exec(compile(example.source, "example", "single"), names)
        except Exception as e:
            if example.exc_msg is None:
                raise
            shown.write("Traceback (most recent call last):\n    ...\n")
            shown.write("".join(traceback.format_exception_only(e)))
        out += [line or "<BLANKLINE>" for line in shown.getvalue().splitlines()]
    vars(builtins).pop("_", None)  # sys.displayhook keeps the last value there
    return "\n".join(out) + "\n"


def entry(name: str, note: dict[str, str]) -> str:
    """Returns the TOML of an op's notes."""
    key = f'"{name}"' if "." in name else name
    lines = [f"[{key}]"]
    for field in ("math", "gradient", "shape", "errors", "source"):
        if field in note:
            lines.append(
                f"{field} = '{note[field]}'"
                if "'" not in note[field]
                else f'{field} = """{note[field]}"""'.replace("\\", "\\\\")
            )
    if "example" in note:
        lines.append(f'example = """\n{note["example"]}"""'.replace("\\", "\\\\"))
    return "\n".join(lines) + "\n"


def rewrite(path: Path, check: bool) -> int:
    """Runs the examples of a file and writes, or compares, their output."""
    old = path.read_text()
    notes = op_pages.notes(path)
    for note in notes.values():
        if "example" in note:
            note["example"] = run(note["example"])
    head = old[: old.index("\n[")]
    text = "\n".join([head, *(entry(name, notes[name]) for name in sorted(notes))])
    if check:
        return int(text != old)
    path.write_text(text)
    return 0


def main() -> int:
    """Runs all examples and writes or compares the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    return max([rewrite(path, args.check) for path in (op_pages.NOTES, op_pages.CLASS_EXAMPLES)])


if __name__ == "__main__":
    sys.exit(main())
