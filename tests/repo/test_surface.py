# SPDX-License-Identifier: BSD-3-Clause
"""Torch's surface, python/surface: names do what their rows say, and rows can become code."""

import ast
import importlib
import inspect
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

import cograd
from cograd._base.absent_names import TOPICS

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "python" / "surface").exists():
    pytest.skip("no source checkout", allow_module_level=True)
tomllib = pytest.importorskip("tomllib")
sys.path.insert(0, str(ROOT / "tools"))
import gen_surface  # noqa: E402

sys.path.pop(0)

MODULES = {
    path: rows
    for file in ("faces.toml", "switches.toml")
    for path, rows in tomllib.loads((gen_surface.TABLES / file).read_text()).items()
}
ROWS = [
    (path, kind, name)
    for path, rows in MODULES.items()
    for kind in ("returns", "nothing", "raises", "types", "aliases", "from", "pairs")
    for name in rows.get(kind, {})
    if name not in ("base", "by", "topic", "path")
]


def call(function):
    """Calls a function with a value for each parameter that needs one."""
    parameters = inspect.signature(function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind <= p.POSITIONAL_OR_KEYWORD]
    return function(*("argument" for _ in needed)), [p.name for p in needed]


def check(path, kind, name):
    module, row = importlib.import_module(f"cograd.{path}"), MODULES[path][kind][name]
    found = getattr(module, name.partition("(")[0], None)
    if kind == "returns":
        result, parameters = call(found)
        value = row.split(":")[0].split(";")[0]
        if value in parameters:
            assert result == "argument"
        else:
            assert result == ast.literal_eval(value)
    elif kind == "nothing":
        assert call(found)[0] is None
    elif kind == "raises":
        with pytest.raises(RuntimeError, match="there is no cuda device"):
            call(found)
    elif kind == "types":
        topic = MODULES[path]["types"].get("topic")
        with (
            pytest.raises((NotImplementedError, RuntimeError)) if topic else nullcontext() as error
        ):
            assert isinstance(found, type) and (topic is None or found())
        assert topic is None or TOPICS[topic] in str(error.value)
    elif kind == "aliases":
        assert found is getattr(module, row)
    elif kind == "from":
        for one in row.split():
            place = importlib.import_module(name)
            assert getattr(module, one) is getattr(place, one, place)
    else:
        check_pair(module, found, row)


def check_pair(module, get, row):
    set_ = getattr(module, row["set"].partition("(")[0])
    before = dict(module._stored)
    try:
        module._stored.clear()
        first = eval(row["first"], {"_C": cograd._C})
        assert get() == first
        for _, error, _ in row.get("refuses", ()):
            kind = (
                pytest.warns(UserWarning, match="nothing of the kind")
                if error == "warning"
                else pytest.raises((TypeError, RuntimeError))
            )
            with kind:
                set_(-1 if error == "RuntimeError" else "nothing of the kind")
            assert get() == first
        other = {True: False, "highest": "medium"}.get(first, 7)
        assert set_(other) is None and get() == other
    finally:
        module._stored.clear()
        module._stored.update(before)


def test_names_do_what_their_rows_say():
    wrong = []
    for row in ROWS:
        try:
            check(*row)
        except (AssertionError, TypeError, pytest.fail.Exception) as error:
            wrong.append((*row, str(error)))
    assert not wrong and len(ROWS) > 70


@pytest.mark.parametrize("path", [path for path, rows in MODULES.items() if "flags" in rows])
def test_flags_are_restored(path):
    module = importlib.import_module(f"cograd.{path}")
    names = module._SWITCHES
    before = tuple(getattr(module, name) for name in names)
    with module.flags(**{name: f"{name} of the block" for name in names}):
        assert module.enabled == "enabled of the block"
        assert module.set_flags("inner") == tuple(f"{name} of the block" for name in names)
        assert module.enabled == "inner"
    assert tuple(getattr(module, name) for name in names) == before


def test_a_row_becomes_code(tmp_path, monkeypatch):
    """A module of rows alone is written by hand once its doc is deleted, and a row is replaced."""
    tables, package = tmp_path / "surface", tmp_path / "cograd"
    tables.mkdir()
    (package / "_base").mkdir(parents=True)
    monkeypatch.setattr(gen_surface, "TABLES", tables)
    monkeypatch.setattr(gen_surface, "PACKAGE", package)
    (package / "_tensor").mkdir()
    begin = gen_surface.BEGIN.format(file="absent.toml").ljust(100, "-")
    marks = f"{begin}\n{gen_surface.END.ljust(100, '-')}\n"
    (package / "_tensor" / "absent.py").write_text(marks)
    empty = "[topics]\n[instead]\n[whole]\n[names]\n[methods]\n"
    (tables / "absent.toml").write_text(empty)
    (tables / "headers.toml").write_text("")

    def written(rows):
        (tables / "faces.toml").write_text(rows)
        for file, text in gen_surface.texts().items():
            file.write_text(text)
        names = {}
        exec((package / "gpu.py").read_text(), names)
        return names

    first = '[gpu.returns]\n"count() -> int" = "0"\n'
    second = '"ready() -> bool" = "False"\n'
    assert written(f'[gpu]\ndoc = "A device."\n{first}{second}')["ready"]() is False
    assert written(first + second)["ready"]() is False
    place = package / "gpu.py"
    place.write_text(place.read_text() + "\n\ndef ready() -> bool:\n    return count() == 0\n")
    names = written(first)
    assert names["ready"]() is True and names["count"]() == 0
    assert names["__all__"] == ["count", "ready"] and names["__doc__"] == "A device."
