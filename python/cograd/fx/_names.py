# SPDX-License-Identifier: BSD-3-Clause
"""Names: unique ones for values of a graph, and the public path of a function."""

from __future__ import annotations

import builtins
import keyword
import operator
import re
import sys
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import cograd
from cograd import _C

__all__ = [
    "Namespace",
    "is_own",
    "public",
    "qualified_name",
    "resolve",
    "root_name",
    "snake_case",
    "type_text",
]

_ILLEGAL = re.compile(r"[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"(.+)_(\d+)")
_TAKEN = {"inf", "nan", "NoneType", "torch", "cograd", "device", "fx_pytree", "pytree"}
_TAKEN |= {*keyword.kwlist, *dir(builtins)} - {"None", "True", "False"}


class Namespace:
    """Gives each object a name that no other object, keyword or builtin has."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any) -> str:
        """Returns the object's name, or makes it from ``candidate``: ``relu``, ``relu_1``."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        name = _ILLEGAL.sub("_", candidate) or "_unnamed"
        if name[0].isdigit():
            name = f"_{name}"
        numbered = _NUMBERED.fullmatch(name)
        base, count = name, 0
        if numbered:
            base, count = numbered[1], int(numbered[2])
        count = count or self._base_count.get(base, 0)
        while name in self._used_names or self._is_taken(name, obj):
            count += 1
            name = f"{base}_{count}"
        self._used_names.add(name)
        self._base_count[base] = count
        if obj is not None:
            self._obj_to_name[obj] = name
        return name

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Reserves ``name`` for ``obj``."""
        if self._obj_to_name.setdefault(obj, name) != name:
            raise AssertionError("obj is already associated")
        self._used_names.add(name)

    def _rename_object(self, obj: Any, name: str) -> None:
        self._obj_to_name[obj] = name
        self._used_names.add(name)

    @staticmethod
    def _is_taken(name: str, obj: Any) -> bool:
        return name in _TAKEN and not (obj is not None and getattr(builtins, name, None) is obj)


def snake_case(name: str) -> str:
    """Returns ``name`` in lower case with underscores before its capital letters."""
    return "".join(
        f"_{c.lower()}" if c.isupper() and i and name[i - 1].islower() else c.lower()
        for i, c in enumerate(name)
    )


def root_name() -> str:
    """Returns what the package is called: ``torch`` under the alias, or ``cograd``."""
    return _C._public_name()


def is_own(module: str) -> bool:
    """Returns whether a module with this name is a part of this package."""
    top = module.partition(".")[0]
    return top == "cograd" or (top == "torch" and sys.modules.get("torch") is cograd)


def public(module: str) -> str:
    """Returns the name by which programs know a module of this package, or any other module."""
    if not is_own(module):
        return module
    parts = module.split(".")[1:]
    if parts[:2] == ["nn", "functional"]:
        parts = parts[:2]
    elif parts[:1] not in (["_C"], ["fx"]):
        private = next((i for i, part in enumerate(parts) if part[0] == "_"), len(parts))
        parts = parts[:private]
    return ".".join([root_name(), *parts])


# Functions that torch has in another module than the core, or than this package.
_FUNCTIONAL = frozenset(
    """
    atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist meshgrid norm
    split tensordot unique unique_consecutive
    """.split()
)
_NN_PYTHON = frozenset("fold pad unfold".split())
_ROOT = frozenset(
    """
    celu_ channel_shuffle pairwise_distance pixel_shuffle pixel_unshuffle relu_ rrelu_ selu_
    threshold_
    """.split()
)


def resolve(path: str) -> Any:
    """Returns what a path below this package means, or None."""
    found: Any = cograd
    for name in path.split(".") if path else ():
        found = getattr(found, name, None)
    return found


def _own_paths(module: str, name: str) -> Iterator[str]:
    """Yields where programs may find a function of this package, torch's place first."""
    space, _, short = name.partition("_")
    place = public(module).partition(".")[2]
    if name == "softplus":
        yield f"_C._nn.{name}"
    if name in _NN_PYTHON:
        yield f"nn.functional.{name}"
    if name in _FUNCTIONAL:
        yield f"functional.{name}"
    if name in _ROOT or place in ("", "_C"):
        yield f"Tensor.{name}"
        yield name
    yield f"{place}.{name}"
    if space in ("special", "linalg", "fft"):
        yield f"{space}.{short}"
    yield f"nn.functional.{name}"
    yield name


def qualified_name(func: Any) -> str:
    """Returns the dotted path of a function: ``torch.nn.functional.relu``."""
    name: str = getattr(func, "__name__", None) or type(func).__name__
    if getattr(builtins, name, None) is func:
        return name
    if type(func).__name__ == "AtenOp":
        return f"{root_name()}.ops.{func!r}"
    module = getattr(func, "__module__", None)
    if module is None and getattr(operator, name, None) is not func:
        raise RuntimeError(f"cannot find module for {func}")
    if module in (None, "_operator"):
        return f"operator.{name}"
    if is_own(module):
        for path in _own_paths(str(module), name):
            if resolve(path) is func:
                return f"{root_name()}.{path}"
    if name == "<lambda>":
        name = _name_of_lambda(func, module)
    return f"{public(module)}.{name}"


def _name_of_lambda(func: Any, module: str) -> str:
    """Returns the global name of a lambda; ``<lambda>`` if it has none."""
    for name, value in vars(sys.modules.get(module, ModuleType("none"))).items():
        if value is func:
            return name
    return "<lambda>"


def type_text(obj: Any) -> str:
    """Returns a type as the text of an annotation."""
    if isinstance(obj, type) and typing.get_origin(obj) is None:
        if obj.__module__ == "builtins":
            return obj.__qualname__
        return f"{public(obj.__module__)}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    return obj.__name__ if isinstance(obj, typing.types.FunctionType) else repr(obj)  # type: ignore[attr-defined]
