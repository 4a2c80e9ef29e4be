# SPDX-License-Identifier: BSD-3-Clause
"""Registered ops by name: `cograd.ops.<namespace>.<op>(...)`.

Ops come from C++ and C (COGRAD_LIBRARY, `cograd/c_api.h`) and from `cograd.library`. A namespace
is looked up when it is accessed, so code may name ops before the library is loaded. An import,
`from cograd.ops.<namespace> import <op>`, needs the op to be registered.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cograd import _C
from cograd._base import registered_ops as _op_table

if TYPE_CHECKING:
    from cograd.utils.cpp_extension._load import load_library, loaded_libraries

__all__ = ["load_library", "loaded_libraries"]

_namespaces: dict[str, Namespace] = {}
_PREFIX = "cograd.ops."
__path__: list[str] = []  # makes this module a package, whose modules are the namespaces


class Namespace(ModuleType):
    """The ops of one namespace, as attributes."""

    def __init__(self, name: str) -> None:
        super().__init__(_PREFIX + name)
        self.__path__: list[
            str
        ] = []  # an import of an unknown op then asks _Finder, which explains

    def __getattr__(self, op: str) -> Any:
        if op == "__all__":
            return dir(self)
        if op.startswith("__"):
            raise AttributeError(op)
        space = self.__name__.removeprefix(_PREFIX)
        found = _find(f"{space}::{op}")
        if found is None and space in _op_table.stand_ins:
            found = _op_table.stand_ins[space](op)
        if found is None:
            raise AttributeError(_unknown(space, op), name=op, obj=self)
        self.__dict__[op] = found
        return found

    def __dir__(self) -> list[str]:
        prefix = f"{self.__name__.removeprefix(_PREFIX)}::"
        return sorted(n[len(prefix) :] for n in _names() if n.startswith(prefix))

    def __repr__(self) -> str:
        return f"<{self.__name__}: {', '.join(dir(self)) or 'no ops'}>"


class _Finder:
    """Finds the namespaces that have ops, for `from cograd.ops.<namespace> import <op>`."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(_PREFIX):
            return None
        space, _, op = name.removeprefix(_PREFIX).partition(".")
        if op:
            raise ImportError(_unknown(space, op), name=name)
        try:
            namespace = __getattr__(space)
        except AttributeError:
            return None
        if space not in _op_table.stand_ins and not dir(namespace):
            raise ModuleNotFoundError(
                f"{name}: no op of this namespace is registered; {_loaded_namespaces()}", name=name
            )
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _namespaces[spec.name.removeprefix(_PREFIX)]

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the namespace looks ops up itself."""


if not any(
    type(f).__qualname__ == "_Finder" and type(f).__module__ == __name__ for f in sys.meta_path
):
    sys.meta_path.append(_Finder())


def _find(qualified: str) -> Any:
    """Returns the op or None."""
    python_op = _op_table.python_ops.get(qualified)
    if python_op is not None:
        return python_op
    if qualified in _op_table.gone:
        return None
    try:
        return _C._find_op(qualified)
    except AttributeError:
        return None


def _names() -> list[str]:
    """Returns all registered ops as "namespace::name"."""
    return [
        *_op_table.python_ops,
        *(n for n in map(str, _C._foreign_ops()) if n not in _op_table.gone),
    ]


def _forget(names: Iterable[str]) -> None:
    """Drops cached ops with these names, because the names refer to other ops now."""
    for name in names:
        namespace, _, op = name.rpartition("::")
        if namespace in _namespaces:
            _namespaces[namespace].__dict__.pop(op, None)


_op_table.listeners.append(_forget)


def _unknown(namespace: str, op: str) -> str:
    """Returns the message for an op that does not exist, with similar names."""
    import difflib

    names = _names()
    text = f"cograd.ops.{namespace}.{op}: there is no op '{namespace}::{op}'"
    if namespace in ("aten", "prims"):
        there = f": call cograd.{op}" if hasattr(_C._ops, op) else ", and cograd has no such op"
        return f"{text}; {namespace} names torch's own ops{there}"
    near = difflib.get_close_matches(f"{namespace}::{op}", names, n=3, cutoff=0.6)
    near += [n for n in names if n.rpartition("::")[2] == op and n not in near][:3]
    if near:
        return f"{text}; did you mean {' or '.join(near)}?"
    own = sorted(n for n in names if n.startswith(f"{namespace}::"))
    if own:
        return f"{text}; the namespace has {', '.join(own[:10])}"
    return f"{text}; {_loaded_namespaces()}"


def _loaded_namespaces() -> str:
    """Returns the end of a message about a namespace that has no ops."""
    spaces = sorted({n.partition("::")[0] for n in _names()})
    loaded = f"; loaded namespaces: {', '.join(spaces[:10])}" if spaces else ""
    return f"was its library loaded? See cograd.ops.load_library{loaded}"


def __getattr__(name: str) -> Any:
    if name in __all__:  # imported late, because most programs do not need the package
        from cograd.utils.cpp_extension import _load

        return getattr(_load, name)
    if name.startswith("_"):
        raise AttributeError(f"module 'cograd.ops' has no attribute '{name}'")
    if name not in _namespaces:
        _namespaces[name] = Namespace(name)
    return _namespaces[name]


def __dir__() -> list[str]:
    return sorted({*__all__, *(n.partition("::")[0] for n in _names())})
