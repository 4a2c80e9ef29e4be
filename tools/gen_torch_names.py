#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes python/cograd/_as_torch/names.bin: the names of torch that cograd lacks, and their kinds.

The names of torch's modules go to tests/recorded/torch_modules.txt. At last, it lists the public
names that programs cannot import with the table that is installed: after `make install`, none.

    .venv/bin/python tools/gen_torch_names.py --torch /path/to/python-with-torch

The interpreter with torch walks torch's modules and lists names, nothing else. The file is a Bloom
filter, since the names as compressed text would take 100 KB of the wheel.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import typing
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "python" / "cograd" / "_as_torch" / "names.bin"
RECORDED = ROOT / "tests" / "recorded" / "torch_modules.txt"
TABLE = ROOT / "python" / "surface" / "placeholders.toml"
BITS = 8.8  # for a key: one in 70 unknown keys is taken for a known one


# ---- in the interpreter with torch ---------------------------------------------------------------


def modules() -> dict[str, Any]:
    """Imports all modules of torch; those that do not import are None."""
    import contextlib
    import importlib
    import os
    import pkgutil

    import torch

    found: dict[str, Any] = {"torch": torch}

    def walk(paths: list[str], prefix: str) -> None:
        for entry in sorted(pkgutil.iter_modules(paths, prefix)):
            name = entry.name
            if name.endswith("__main__") or name.startswith("torch.testing._internal."):
                continue
            found[name] = None
            with contextlib.suppress(BaseException):  # some exit, most lack a package
                found[name] = importlib.import_module(name)
            if entry.ispkg:
                last = name.rpartition(".")[2]
                walk([os.path.join(path, last) for path in paths], f"{name}.")

    walk(list(torch.__path__), "torch.")
    found["functorch"] = importlib.import_module("functorch")
    walk(list(found["functorch"].__path__), "functorch.")
    for name, module in list(sys.modules.items()):  # modules of torch's binary
        if name.startswith("torch.") and "testing._internal" not in name:
            found.setdefault(name, module)
    return found


def kind_of(value: Any) -> str:
    """Returns the kind of a value: class, enum, error, metaclass, function, truth or other."""
    import enum

    if isinstance(value, typing.TypeVar):
        return "typevar"
    if isinstance(value, type):
        if issubclass(value, BaseException):
            return "error"
        if issubclass(value, type):
            return "metaclass"
        enumerates = issubclass(value, enum.Enum) or 0 < len(members(value)) < 50
        return "enum" if enumerates else "class"
    if typing.get_origin(value) is not None:
        return "class"
    if callable(value):
        return "function"
    return "truth" if value is None or isinstance(value, bool) else "other"


def asked(value: Any, name: str) -> Any:
    """Returns an attribute, or None also if looking it up fails: some objects need a GPU."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def members(kind: Any) -> list[str]:
    """Returns the names of an enumeration's members, also of one of the binary."""
    listed = asked(kind, "__members__")
    return list(listed) if hasattr(listed, "keys") else []


def declared(module: Any) -> list[str]:
    """Returns the names in the module's ``__all__``, which it may lack on this machine."""
    listed = vars(module).get("__all__") if module is not None else None
    return list(map(str, listed)) if isinstance(listed, (list, tuple, set)) else []


def belongs(module: Any, name: str, value: Any) -> bool:
    """Returns whether programs may expect ``name`` in ``module``: it is no import of its own."""
    if name in declared(module):
        return True
    if module.__name__.startswith("torch._C"):
        return not name.startswith("_") or not callable(value) or isinstance(value, type)
    if typing.get_origin(value) is not None:
        return True
    home = asked(value, "__module__")
    if not isinstance(home, str) or home == module.__name__:
        return type(value).__name__ != "_Feature"  # of __future__
    private = any(part.startswith("_") for part in module.__name__.split("."))
    shown = not private or "__path__" in vars(module)  # a package's imports are for its users
    return home.startswith("torch") and shown and not name.startswith("_")


def listing() -> dict[str, dict[str, list[str]]]:
    """Returns a dict from module to name to kind, "same" if a parent has it, and members."""
    import types

    import torch

    found = modules()
    result: dict[str, dict[str, list[str]]] = {}
    for path, module in sorted(found.items()):
        rows = result.setdefault(path.removeprefix("torch").lstrip("."), {})
        parents = [found.get(path.rsplit(".", n)[0]) for n in range(1, path.count(".") + 1)]
        own = vars(module) if module is not None else {}
        for name in dict.fromkeys([*own, *declared(module)]):
            value = own[name] if name in own else asked(module, name)
            if name.startswith("__") or f"{path}.{name}" in found:
                continue
            if isinstance(value, types.ModuleType) and name not in declared(module):
                continue
            if name not in own and value is None:
                rows[name] = ["other", ""]  # the name alone says what it is
                continue
            if belongs(module, name, value):
                same = any(p is not None and vars(p).get(name) is value for p in parents)
                kind = kind_of(value)
                parts = members(value) if kind == "enum" else []
                rows[name] = [kind, "same" if same else "", *parts]
    schemas = (schema.name for schema in torch._C._jit_get_all_schemas())
    ops = sorted({name.removeprefix("aten::") for name in schemas if name.startswith("aten::")})
    result["ops.aten"] = {name: ["op", ""] for name in ops}
    return result


# ---- here ----------------------------------------------------------------------------------------


def below(path: str, roots: set[str]) -> bool:
    """Returns whether a root, or a part of the path before a dot, is among ``roots``."""
    parts = path.split(".")
    return any(".".join(parts[:n]) in roots for n in range(1, len(parts) + 1))


def has(path: str) -> Any:
    """Returns cograd's module of that path, or None."""
    import importlib

    try:
        place = f"_as_torch.{path}" if path == "functorch" else path
        return importlib.import_module(f"cograd.{place}".rstrip("."))
    except ImportError:
        return None


def keys(names: dict[str, dict[str, list[str]]], table: dict[str, Any]) -> list[str]:
    """Returns what the filter answers yes to: paths, and paths with the kind behind "=".

    Modules, and names of modules that cograd has, have a second key, so that wrong answers about
    them are rare.
    """
    from cograd._as_torch.names import guess

    absent, whole = (set(table[key].split()) for key in ("absent", "whole"))
    result: list[str] = []
    for path, rows in names.items():
        if path and not below(path, absent):
            open_ = below(path, whole) and has(path) is None
            result += [f"{path}.", f"{path}.*" if open_ else f"{path}.."]
        module = has("_C")._ops if path == "ops.aten" else has(path)
        if module is None and below(path, whole):
            continue
        for name, (kind, same, *parts) in rows.items():
            full = f"{path}.{name}".lstrip(".")
            if below(full, absent):
                continue
            if module is not None and hasattr(module, name):
                continue
            result.append(full)
            result += [f"{full}!"] * (module is not None and kind != "op")
            result += [f"{full}={kind}"] * (kind not in (guess(name), "op", "other"))
            result += [f"{full}=same"] * bool(same)
            result += [f"{full}.{part}" for part in parts]
    return result


def absent(names: dict[str, dict[str, list[str]]]) -> list[str]:
    """Returns, under the alias, the public names and modules that programs cannot import."""
    import importlib

    found = []
    for path, rows in names.items():
        module = path if below(path, {"functorch"}) else f"torch.{path}".rstrip(".")
        if any(part.startswith("_") for part in path.split(".")) or path == "ops.aten":
            continue
        try:
            importlib.import_module(module)
        except ImportError:
            found.append(f"module {module}")
            continue
        for name in rows:
            try:
                if not name.startswith("_"):
                    exec(f"from {module} import {name}", {})
            except ImportError:
                found.append(f"{module}.{name}")
    return found


def main() -> int:
    """Writes the file, or in the interpreter with torch the names."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--torch", required=True, help="an interpreter that has torch")
    parser.add_argument("--into", help=argparse.SUPPRESS)
    parser.add_argument("--absent", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.absent:
        print("\n".join(absent(json.loads(Path(given.absent).read_text()))))
        return 0
    if given.into:
        Path(given.into).write_text(json.dumps(listing()))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "names.json"
        command = [given.torch, "-W", "ignore", __file__, "--torch", "", "--into", str(into)]
        subprocess.run(command, check=True, cwd=folder, capture_output=True)
        names = json.loads(into.read_text())
        write(names)
        command = [sys.executable, "-W", "ignore", "-m", "cograd", "run", __file__]
        command += ["--torch", "", "--absent", str(into)]
        done = subprocess.run(command, check=True, cwd=folder, capture_output=True, text=True)
    print("cannot be imported with the installed table:", done.stdout.strip() or "nothing")
    return 0


def write(names: dict[str, dict[str, list[str]]]) -> None:
    """Writes the table of names and the list of modules."""
    from cograd._as_torch.names import Names

    wanted = sorted(set(keys(names, tomllib.loads(TABLE.read_text()))))
    filled = Names.of(wanted, math.ceil(len(wanted) * BITS / 8))
    FILE.write_bytes(filled.table)
    modules = (name if below(name, {"functorch"}) else f"torch.{name}" for name in names if name)
    RECORDED.write_text("".join(f"{name}\n" for name in sorted({*modules} - {"torch.ops.aten"})))
    wrong = sum(f"no_{n}.name_{n}" in filled for n in range(100_000)) / 1000
    print(f"{len(wanted)} keys in {len(filled.table)} bytes; wrong answers: {wrong:.2f}%")


if __name__ == "__main__":
    sys.exit(main())
