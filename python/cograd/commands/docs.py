# SPDX-License-Identifier: BSD-3-Clause
"""``python -m cograd docs WORD``: prints the reference of a name, or the pages about a word.

The reference is that of the docstrings. Of the pages, the package has titles, beginnings and
headings; ``tools/gen_docs_index.py`` writes them.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from cograd._base.docs import address

__all__ = ["main"]

# A name without dots is looked for in these, in this order.
_PLACES = (
    "",
    "Tensor",
    "nn",
    "nn.functional",
    "optim",
    "optim.lr_scheduler",
    "autograd",
    "autograd.graph",
    "autograd.profiler",
    "func",
    "linalg",
    "special",
    "fft",
    "distributions",
    "signal.windows",
    "sparse",
    "testing",
    "utils.data",
    "utils.checkpoint",
    "utils.cpp_extension",
    "distributed",
    "nn.utils",
    "nn.init",
    "onnx",
    "jit",
    "fx",
    "library",
)


def _found(path: str) -> Any:
    """Returns the object of a dotted name below cograd, or None."""
    here: Any = import_module("cograd")
    for part in filter(None, path.split(".")):
        try:
            here = getattr(here, part)
        except Exception:  # a module that is not imported yet, or whose extra is absent
            try:
                here = import_module(f"{here.__name__}.{part}")
            except Exception:
                return None
    return here


def _objects(word: str) -> Iterator[tuple[str, Any]]:
    """Yields the documented objects of a name; each text once."""
    word = re.sub(r"^(cograd|torch)\.", "", word)
    seen: set[str] = set()
    for place in _PLACES:
        name = f"{place}.{word}".strip(".")
        found = _found(name)
        doc = inspect.getdoc(found) if found is not None else None
        if not doc or doc in seen:  # a function and the method have the same text
            continue
        if not (callable(found) or inspect.ismodule(found) or inspect.isdatadescriptor(found)):
            continue
        seen.add(doc)
        yield name, found


class _Bare(str):
    """An annotation that a signature shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _signature(of: Any) -> inspect.Signature:
    """Returns the signature of an object, whose annotations are shown as the source has them."""
    found = inspect.signature(of)

    def bare(annotation: Any) -> Any:
        return _Bare(annotation) if isinstance(annotation, str) else annotation

    parameters = [p.replace(annotation=bare(p.annotation)) for p in found.parameters.values()]
    return found.replace(parameters=parameters, return_annotation=bare(found.return_annotation))


def _reference(name: str, of: Any) -> str:
    """Returns the signature and the docstring of an object."""
    try:
        head = f"cograd.{name}{_signature(of)}"
    except (TypeError, ValueError):
        head = f"cograd.{name}"
    lines = (inspect.getdoc(of) or "").replace("``", "`").splitlines()
    if lines[0].startswith(f"{name.rpartition('.')[2]}("):  # an op's text begins with its signature
        head, lines = f"cograd.{name.rpartition('.')[0]}.{lines[0]}".replace("..", "."), lines[2:]
    return "\n".join([head, *(f"    {line}".rstrip() for line in lines)])


def _pages() -> list[tuple[str, str, str, list[str]]]:
    """Returns name, title, beginning and headings of each page."""
    pages: list[tuple[str, str, str, list[str]]] = []
    index = Path(__file__).with_name("_docs_index.txt").read_text(encoding="utf-8")
    for line in index.splitlines():
        first, _, rest = line.partition("\t")
        if first:
            title, _, text = rest.partition("\t")
            pages.append((first, title, text, []))
        else:
            pages[-1][3].append(rest)
    return pages


def _score(words: Sequence[str], name: str, title: str, text: str, headings: Sequence[str]) -> int:
    """Returns how well a page fits: 0 unless each word is its name or begins a word of it."""
    total = 0
    for word in words:
        begins = re.compile(rf"\b{re.escape(word)}", re.I)
        value = 6 * bool(begins.search(title)) + bool(begins.search(text))
        value += 3 * any(begins.search(h) for h in headings) + 20 * (word.lower() == name)
        if not value:
            return 0
        total += value
    return total


def _page(page: tuple[str, str, str, list[str]]) -> str:
    """Returns the lines of a page: where it is, what it is about, its sections."""
    name, title, text, headings = page
    at = address() or "docs/"  # in the source
    lines = [f"{title}  ({at}{name}{'.html' if '://' in at else '.md'})"]
    lines += [f"    {text}"] if text else []
    return "\n".join([*lines, *(f"    - {h}" for h in headings)])


def main(arguments: Sequence[str]) -> int:
    """Prints what is known of the words; returns 1 if nothing is."""
    parser = argparse.ArgumentParser(
        prog="python -m cograd docs",
        description="Prints the reference of a name (relu, nn.Linear, Tensor.add_), and the pages "
        "about a word; without one, the titles of all pages.",
    )
    parser.add_argument("word", nargs="*", help="a name, or words such as: save model")
    words = parser.parse_args(arguments).word
    if not words:
        width = max(len(p[0]) for p in _pages())
        print("\n".join(f"{name:{width}}  {title}" for name, title, _, _ in _pages()))
        return 0
    parts = [_reference(*found) for found in _objects(words[0])] if len(words) == 1 else []
    scores = [(_score(words, *page), page) for page in _pages()]
    best = sorted((s for s in scores if s[0]), key=lambda s: -s[0])
    parts += [_page(page) for _, page in best[:5]]
    if not parts:
        print(f"python -m cograd docs: nothing about {' '.join(words)!r}; without a word, it lists")
        print("all pages.")
        return 1
    print("\n\n".join(parts))
    return 0
