# SPDX-License-Identifier: BSD-3-Clause
"""``python -m cograd new-extension NAME``: writes a package with an op, ready to build."""

from __future__ import annotations

import argparse
import importlib.util
import keyword
import os
import re
import sys
from collections.abc import Sequence

import cograd
from cograd.commands import _new_files

__all__ = ["main"]

# Words that cannot name a namespace of ops, because the sources have the name as an identifier.
_C_WORDS = frozenset(
    "alignas alignof asm auto bool case catch char concept const constexpr decltype default delete"
    " do double enum explicit export extern false float friend goto inline int long mutable"
    " namespace new noexcept nullptr operator private protected public register requires short"
    " signed sizeof static struct switch template this throw true typedef typeid typename union"
    " unsigned using virtual void volatile wchar_t main std linux unix".split()
)
_TAKEN = frozenset({"cograd", "numpy", "torch", "aten", "prims", "test", "tests"})
_NEXT = """wrote {name}/:
{files}

next:
  cd {name}
  pip install {tools} pytest
  pip install --no-build-isolation .
  pytest
README.md says how to make wheels for others.
"""


def main(arguments: Sequence[str]) -> int:
    """Writes the package into the folder NAME and returns 0, or 1 if the name cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m cograd new-extension",
        description="Writes a package with an op, its gradient and a test into the folder NAME.",
    )
    parser.add_argument("name", metavar="NAME", help="name of the package, an identifier: my_ops")
    kinds = parser.add_mutually_exclusive_group()
    for kind, text in (
        ("setuptools", "C++, built by setuptools; needs only a compiler (default)"),
        ("cmake", "C++, built by CMake and scikit-build-core"),
        ("c", "C, built by setuptools"),
    ):
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, help=text)
    given = parser.parse_args(arguments)
    wrong = refusal(given.name)
    if wrong:
        print(f"python -m cograd new-extension: {wrong}", file=sys.stderr)
        return 1
    try:
        kind = given.kind or "setuptools"
        written = write(given.name, kind)
    except OSError as e:
        print(f"python -m cograd new-extension: {e.filename}: {e.strerror}", file=sys.stderr)
        return 1
    files, tools = "\n".join(f"  {path}" for path in written), _new_files.tools(kind)
    print(_NEXT.format(name=given.name, files=files, tools=tools), end="")
    return 0


def refusal(name: str) -> str:
    """Returns why a package cannot have a name, with what to do, or ""."""
    if not re.fullmatch(r"[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?", name):
        near = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lstrip("0123456789_")
        hint = f"; {near!r} would be one" if near and not refusal(near) else ""
        return (
            f"{name!r} is not an identifier of ASCII letters, digits and inner underscores that "
            f"starts with a letter{hint}"
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        return f"{name!r} is a keyword of Python; choose another name"
    if name in _C_WORDS:
        return f"{name!r} has a meaning in C or C++; choose another name"
    if os.path.lexists(name):
        return f"{os.path.abspath(name)} exists; nothing was written"
    lower = name.lower()
    if lower in _TAKEN or lower in sys.stdlib_module_names:
        return f"{name!r} would hide the module {lower}; choose another name"
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return ""
    if found is not None:
        where = found.origin or ", ".join(found.submodule_search_locations or [])
        return f"{name!r} would hide a module that is there already, {where}; choose another name"
    return ""


def write(name: str, kind: str) -> list[str]:
    """Writes the files of a package of a kind; returns their paths, which did not exist.

    Raises:
        FileExistsError: the folder exists.
    """
    version = ".".join(cograd.__version__.split(".")[:2])
    os.mkdir(name)
    written = []
    for path, text in _new_files.files(kind).items():
        for mark, value in {
            "@NAME@": name,
            "@DIST@": name.replace("_", "-"),
            "@COGRAD@": f"cograd>={version}",
        }.items():
            path, text = path.replace(mark, value), text.replace(mark, value)
        full = os.path.join(name, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "x", encoding="utf-8") as file:
            file.write(text)
        written.append(full)
    return written
