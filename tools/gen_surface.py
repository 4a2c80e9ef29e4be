# SPDX-License-Identifier: BSD-3-Clause
"""Writes the Python of torch's surface from the tables in python/surface: gen_surface.py [--check].

A module with a `doc` is written as a whole; in any other one, the rows go between two comments
(BEGIN and END below), and the rest is written by hand. docs/architecture.md lists the kinds of
rows. The build reads headers.toml itself; here it is only parsed. With --check nothing is written,
and the exit status is 1 if a file would change. Uses nothing of cograd.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "python" / "surface"
PACKAGE = ROOT / "python" / "cograd"
SPDX = "# SPDX-License-Identifier: BSD-3-Clause\n"
WRITTEN = "# Written by make stubs from the rows of python/surface/{file}: change those.\n"
BEGIN = "# ---- rows of python/surface/{file}, written by make stubs "
END = "# ---- end of the rows "
WIDTH = 100
COMPOUND = ("def ", "class ", "@")  # what ruff separates by two empty lines
# Where a name of a written text comes from.
IMPORTS = {
    "Any": "typing",
    "Iterator": "collections.abc",
    "SimpleNamespace": "types",
    "TypeVar": "typing",
    "contextmanager": "contextlib",
}
Rows = dict[str, Any]


def arguments(text: str) -> list[str]:
    """Splits the text of parameters or arguments at the commas outside of brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


def names_of(parameters: str) -> list[str]:
    """Returns the names of parameters."""
    return [re.split(r"[:=]", part)[0].strip(" *") for part in arguments(parameters)]


def folded(head: str, inside: str, tail: str, depth: int = 0) -> str:
    """Returns head + inside + tail, in as few lines of WIDTH as ruff would use."""
    width = WIDTH - 4 * depth
    if len(line := f"{head}{inside}{tail}") <= width:
        return line
    if len(inside) + 4 <= width:
        return f"{head}\n    {inside}\n{tail}"
    return "\n".join([head, *(f"    {part}," for part in arguments(inside)), tail])


def literal(text: str, depth: int) -> str:
    """Returns a string literal, an f-string where the text has braces, in lines of WIDTH."""
    if '"' in text:
        raise ValueError(f"use single quotes: {text}")
    pieces = textwrap.wrap(text, WIDTH - 4 * depth - 8, break_on_hyphens=False)
    pieces[:-1] = [f"{piece} " for piece in pieces[:-1]]
    return "\n".join(f'{"f" if "{" in piece else ""}"{piece}"' for piece in pieces)


def docstring(text: str) -> str:
    """Returns the line of a docstring. Raises ValueError if it is too long."""
    line = f'    """{text if text.endswith(".") else text + "."}"""'
    if len(line) > WIDTH:
        raise ValueError(f"the docstring is longer than {WIDTH} characters: {line}")
    return line


def function(signature: str, doc: str, *body: str) -> str:
    """Returns the definition of a function; ``signature`` is as in "f(x: int) -> bool"."""
    head, _, rest = signature.partition("(")
    inside, _, result = rest.rpartition(")")
    define = folded(f"def {head}(", inside, f"){result}:")
    return "\n".join([define, docstring(doc), *(textwrap.indent(part, "    ") for part in body)])


def said(value: str, parameters: list[str]) -> str:
    """Returns how a docstring names the value of a row."""
    if value in parameters or value.endswith("()"):
        return f"``{value.rpartition('.')[2]}``"
    return {"[]": "an empty list", "{}": "an empty dict"}.get(value, value)


def values(_path: str, rows: Rows) -> Iterator[str]:
    """Yields assignments: "expression", or "type = expression"."""
    lines = []
    for name, text in rows.items():
        kind, equals, value = text.rpartition(" = ")
        call = re.fullmatch(r"(\w+\()(.*)(\))", text)
        if equals and "(" not in kind:
            lines.append(f"{name}: {kind} = {value}")
        elif call:
            lines.append(folded(f"{name} = {call[1]}", call[2], call[3]))
        else:
            lines.append(f"{name} = {text}")
    yield "\n".join(lines)


def types(path: str, rows: Rows) -> Iterator[str]:
    """Yields classes; with a ``topic`` they raise its advice instead of creating an instance."""
    base, topic, path = rows.get("base"), rows.get("topic"), rows.get("path", path)
    for name, doc in rows.items():
        if name in ("base", "topic", "path"):
            continue
        lines = [f"class {name}({base}):" if base else f"class {name}:", docstring(doc)]
        if topic is not None:
            lines += ["", "    def __init__(self, *args: Any, **kwargs: Any) -> None:"]
            call = folded("raise _absent.refused(", f'"{path}.{name}", "{topic}"', ")", 2)
            lines.append(textwrap.indent(call, "        "))
        yield "\n".join(lines)


def returns(_path: str, rows: Rows) -> Iterator[str]:
    """Yields functions with one result: "value", or "value: reason"."""
    for signature, text in rows.items():
        found = re.fullmatch(r'("[^"]*"|[^:;]+)(.*)', text)
        value, reason = found.groups() if found else (text, "")
        parameters = names_of(signature.partition("(")[2].rpartition(")")[0])
        doc = f"Returns {said(value, parameters)}{reason}"
        yield function(signature, doc, *([] if value == "None" else [f"return {value}"]))


def nothing(_path: str, rows: Rows) -> Iterator[str]:
    """Yields functions without an effect; the text is the reason, or empty."""
    for signature, reason in rows.items():
        doc = f"Does nothing: {reason}" if reason else "Does nothing"
        yield function(f"{signature} -> None", doc)


def raises(_path: str, rows: Rows) -> Iterator[str]:
    """Yields functions that pass their name to the function of the module that raises."""
    for signature, reason in rows.items():
        if signature != "by":
            call = f'{rows["by"]}("{signature.partition("(")[0]}()")'
            yield function(signature, f"Raises RuntimeError: {reason}", call)


def pairs(_path: str, rows: Rows) -> Iterator[str]:
    """Yields switches with a function that stores a value and one that returns it."""
    yield "_stored: dict[str, Any] = {}"
    for getter, row in rows.items():
        name, kind = getter.partition("(")[0], getter.rpartition(" -> ")[2]
        setter, _, parameters = row["set"].partition("(")
        body = [refusal(*case) for case in row.get("refuses", ())]
        body.append(f'_stored["{name}"] = {names_of(parameters)[0]}')
        yield function(f"{row['set']} -> None", row["doc"], *body)
        doc = f"Returns the value of ``{setter}``; at first {said(row['first'], [])}"
        value = f'value: {kind} = _stored.get("{name}", {row["first"]})'
        yield function(getter, doc, value, "return value")


def refusal(condition: str, error: str, text: str) -> str:
    """Returns the lines that reject a value; after a warning the old one stays."""
    if error == "warning":
        inside = textwrap.indent(literal(text, 3), "        ")
        return (
            f"if {condition}:\n    warnings.warn(\n{inside},\n        stacklevel=2,\n    )\n"
            "    return"
        )
    call = folded(f"raise {error}(", literal(text, 3), ")", 2)
    return f"if {condition}:\n{textwrap.indent(call, '    ')}"


def flags(_path: str, row: Rows) -> Iterator[str]:
    """Yields ``set_flags`` and ``flags``, over the module's values of the same names."""
    given = names_of(row["set"])
    kept = [name.removeprefix("_") for name in given]
    passed = ", ".join(f"{name}=_{name}" for name in kept)
    doc = "Stores the given switches and returns the former values of all"
    store = folded(f"before: {row['returns']} = _store(", f"globals(), {passed}", ")", 1)
    yield function(f"set_flags({row['set']}) -> {row['returns']}", doc, store, "return before")
    doc = "Stores the switches for the duration of a with block"
    before = "before = {name: globals()[name] for name in _SWITCHES}"
    call = folded("set_flags(", ", ".join(kept), ")", 1)
    restore = "try:\n    yield\nfinally:\n    globals().update(before)"
    names = ", ".join(f'"{name}"' for name in kept) + ("," if len(kept) == 1 else "")
    yield folded("_SWITCHES = (", names, ")")
    yield "@contextmanager\n" + function(
        f"flags({row['block']}) -> Iterator[None]", doc, before, call, restore
    )


def aliases(_path: str, rows: Rows) -> Iterator[str]:
    """Yields second names."""
    yield "\n".join(f"{name} = {target}" for name, target in rows.items())


KINDS = {f.__name__: f for f in (values, types, returns, nothing, raises, pairs, flags, aliases)}


def definitions(path: str, rows: Rows) -> str:
    """Returns the text of a module's rows, kind by kind, with the empty lines that ruff wants."""
    text, last = "", ""
    for kind, write in KINDS.items():
        for part in write(path, rows[kind]) if kind in rows else ():
            apart = part.startswith(COMPOUND) or last.startswith(COMPOUND)
            text += ("\n\n\n" if apart else "\n") * bool(text) + part
            last = part
    return text


def whole(path: str, rows: Rows, file: str) -> str:
    """Returns the text of a module that has nothing but rows."""
    body = definitions(path, rows)
    taken = {
        place: sorted(names.split(), key=as_isort) for place, names in rows.get("from", {}).items()
    }
    absent = rows.get("absent", False)
    lines = list(rows.get("imports", ()))
    places: dict[str, list[str]] = {"typing": ["TYPE_CHECKING"]} if absent else {}
    for name, place in IMPORTS.items():
        if re.search(rf"\b{name}\b", body):
            places.setdefault(place, []).append(name)
    lines += [
        f"from {place} import {', '.join(sorted(names, key=as_isort))}"
        for place, names in places.items()
    ]
    own = [f"from {p} import {', '.join(n)}" for p, n in taken.items()]
    own += ["from cograd._base import absent as _absent"] * (absent or "_absent." in body)
    own += ["from cograd._as_torch.stored import store as _store"] * ("_store(" in body)
    own += [line for line in lines if line.startswith("from cograd")]
    standard = sorted(line for line in lines if line not in own)
    public = sorted({name for names in taken.values() for name in names} | set(defined(body)))
    parts = ["from __future__ import annotations"]
    parts += [
        "\n".join(group)
        for group in (standard, sorted(map(long_import, own), key=str.lower))
        if group
    ]
    parts.append("__all__ = [\n" + "".join(f'    "{n}",\n' for n in public) + "]")
    text = SPDX + WRITTEN.format(file=file) + f'"""{rows["doc"]}"""\n\n' + "\n\n".join(parts) + "\n"
    if body:
        text += ("\n\n" if body.startswith(COMPOUND) else "\n") + body + "\n"
    if absent:
        text += "\n\n" if body else "\n"
        text += "if not TYPE_CHECKING:  # type checkers would accept every name\n"
        text += "    __getattr__ = _absent.reporter(__name__)\n    del TYPE_CHECKING, annotations\n"
    return text


def as_isort(name: str) -> tuple[bool, bool, str]:
    """Orders constants before classes before functions."""
    return not name.isupper(), not name[0].isupper(), name


def long_import(line: str) -> str:
    """Returns an import in several lines if it is too long for one."""
    head, _, names = line.partition(" import ")
    rows = "".join(f"    {name},\n" for name in names.split(", "))
    return line if len(line) <= WIDTH else f"{head} import (\n{rows})"


def defined(text: str) -> Iterator[str]:
    """Yields the public names that a text defines."""
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names = [node.name]
        else:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", 0)]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        yield from (name for name in names if name[0] != "_")


def inserted(place: Path, rows: str, file: str) -> str:
    """Returns the text of a module written by hand, with its rows replaced."""
    text = place.read_text()
    begin, end = (mark.ljust(WIDTH, "-") + "\n" for mark in (BEGIN.format(file=file), END))
    if begin not in text and WRITTEN.format(file=file) in text:  # it had a `doc` until now
        text = text.replace(WRITTEN.format(file=file), "").replace(rows, begin + end, 1)
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"{place.relative_to(ROOT)}: expected these lines:\n{begin}{end}")
    gap = "\n\n" if rows.startswith(COMPOUND) else "\n"
    return f"{before}{begin}{gap}{rows}\n\n\n{end}{after}"


def entry(key: str, text: str, depth: int) -> str:
    """Returns an item of a dict, whose value takes several lines if it must."""
    text = " ".join(text.split())
    line = f'{"    " * depth}"{key}": "{text}",'
    if len(line) <= WIDTH:
        return f"{line}\n"
    inside = textwrap.indent(literal(text, depth), "    " * (depth + 1))
    return f'{"    " * depth}"{key}": (\n{inside}\n{"    " * depth}),\n'


def absent_names(table: Rows) -> str:
    """Returns the text of _base/absent_names.py."""
    doc = "Lists torch's names that cograd lacks: topics, their names, and what to use instead."
    text = (
        SPDX
        + WRITTEN.format(file="absent.toml")
        + f'"""{doc}"""\n\nfrom __future__ import annotations\n\n'
    )
    text += '__all__ = ["INSTEAD", "NAMES", "TOPICS", "WHOLE"]\n\n'
    for name in ("topics", "instead", "whole"):
        rows = "".join(entry(key, row, 1) for key, row in table[name].items())
        text += f"{name.upper()} = {{\n{rows}}}\n"
    text += "NAMES = {\n"
    for module, topics in table["names"].items():
        rows = "".join(entry(topic, names, 2) for topic, names in topics.items())
        text += f'    "{module}": {{\n{rows}    }},\n'
    return text + "}\n"


def place_of(path: str) -> Path:
    """Returns the file of a module."""
    base = PACKAGE.joinpath(*path.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def texts() -> dict[Path, str]:
    """Returns every file that the tables decide, and its text."""
    tables = {file.name: tomllib.loads(file.read_text()) for file in sorted(TABLES.glob("*.toml"))}
    absent = tables.pop("absent.toml")
    del tables["headers.toml"]  # cmake/torch_headers.cmake reads it
    tables.pop("placeholders.toml", None)  # tools/gen_torch_names.py reads it
    found = {PACKAGE / "_base" / "absent_names.py": absent_names(absent)}
    methods = "".join(entry(topic, names, 1) for topic, names in absent["methods"].items())
    place = place_of("_tensor.absent")
    found[place] = inserted(place, f"TENSOR = {{\n{methods}}}", "absent.toml")
    for file, modules in tables.items():
        for path, rows in modules.items():
            unknown = {k for k, v in rows.items() if isinstance(v, dict)} - {*KINDS, "from"}
            if unknown or place_of(path) in found:
                raise ValueError(f"{file}: {path} stands there twice, or has rows of {unknown}")
            place = place_of(path)
            if "doc" in rows:
                found[place] = whole(path, rows, file)
            else:
                found[place] = inserted(place, definitions(path, rows), file)
    return found


def main() -> int:
    """Writes or compares the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    status = 0
    for path, text in texts().items():
        if path.exists() and path.read_text() == text:
            continue
        name = path.relative_to(ROOT)
        if check:
            print(f"{name} is out of date; run: make stubs")
            status = 1
        else:
            path.write_text(text)
            print(f"wrote {name}")
    return status


if __name__ == "__main__":
    sys.exit(main())
