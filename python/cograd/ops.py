# SPDX-License-Identifier: BSD-3-Clause
"""Registered ops by name: `cograd.ops.<namespace>.<op>(...)`.

Ops come from C++ and C (COGRAD_LIBRARY, `cograd/c_api.h`) and from `cograd.library`. A namespace
is looked up when it is asked for, so code may name ops before the library is loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from cograd import _C

__all__ = ["load_library", "loaded_libraries"]

loaded_libraries: set[str] = set()
_loaded: dict[str, tuple[int, int, int]] = {}
_namespaces: dict[str, Namespace] = {}
_gone: set[str] = set()


def load_library(path: str | os.PathLike[str]) -> None:
    """Loads a shared object; the ops it registers are found under `cograd.ops`.

    Loading the same file again does nothing; a file that was rebuilt since replaces its ops.

    Args:
        path: the shared object, built by `cograd.utils.cpp_extension`, CMake or by hand.

    Raises:
        ImportError: no such file, another ABI, unresolved symbols, or an op of that name exists.
    """
    from cograd.utils.cpp_extension import _load

    full = os.path.realpath(os.fspath(path))
    try:
        status = os.stat(full)
    except OSError as e:
        raise ImportError(
            f"cograd.ops.load_library: {os.fspath(path)}: {e.strerror}", path=full
        ) from e
    stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
    if _loaded.get(full) == stamp:
        return
    _load.register(_load._copy(full) if full in _loaded else full, f"file:{full}")
    _loaded[full] = stamp
    loaded_libraries.add(os.fspath(path))


class Namespace:
    """The ops of one namespace, as attributes."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, op: str) -> Any:
        if op.startswith("__"):
            raise AttributeError(op)
        found = _find(f"{self.__name__}::{op}")
        if found is None:
            raise AttributeError(_unknown(self.__name__, op), name=op, obj=self)
        self.__dict__[op] = found
        return found

    def __dir__(self) -> list[str]:
        prefix = f"{self.__name__}::"
        return sorted(n[len(prefix) :] for n in _names() if n.startswith(prefix))

    def __repr__(self) -> str:
        return f"<cograd.ops.{self.__name__}: {', '.join(dir(self)) or 'no ops'}>"


def _find(qualified: str) -> Any:
    """Returns the op or None."""
    python_op = _python_table().get(qualified)
    if python_op is not None:
        return python_op
    if qualified in _gone:
        return None
    try:
        return _C._find_op(qualified)
    except AttributeError:
        return None


def _names() -> list[str]:
    """Returns all registered ops as "namespace::name"."""
    return [*_python_table(), *(n for n in map(str, _C._foreign_ops()) if n not in _gone)]


def _python_table() -> dict[str, Any]:
    """Returns the ops of `cograd.library`, if that has been used."""
    table = sys.modules.get("cograd.library._table")
    return {} if table is None else table._python_ops


def _forget(names: Iterable[str]) -> None:
    """Drops what was looked up under these names: they mean something else now."""
    for name in names:
        namespace, _, op = name.rpartition("::")
        if namespace in _namespaces:
            _namespaces[namespace].__dict__.pop(op, None)


def _changed(names: Iterable[str], gone: Iterable[str]) -> None:
    """Takes note of ops that were registered anew, and of those a rebuilt library lacks."""
    _gone.difference_update(names)
    _gone.update(gone)
    adopted = sys.modules.get("cograd.library._foreign")
    if adopted is not None:
        adopted.refresh(names, gone)
    _forget((*names, *gone))


def _unknown(namespace: str, op: str) -> str:
    """Returns the message for an op that does not exist, with names that are near."""
    import difflib

    names = _names()
    text = f"cograd.ops.{namespace}.{op}: there is no op '{namespace}::{op}'"
    near = difflib.get_close_matches(f"{namespace}::{op}", names, n=3, cutoff=0.6)
    near += [n for n in names if n.rpartition("::")[2] == op and n not in near][:3]
    if near:
        return f"{text}; did you mean {' or '.join(near)}?"
    own = sorted(n for n in names if n.startswith(f"{namespace}::"))
    if own:
        return f"{text}; the namespace has {', '.join(own[:10])}"
    spaces = sorted({n.partition("::")[0] for n in names})
    loaded = f"; loaded namespaces: {', '.join(spaces[:10])}" if spaces else ""
    return f"{text}; was its library loaded? See cograd.ops.load_library{loaded}"


def __getattr__(name: str) -> Namespace:
    if name.startswith("_"):
        raise AttributeError(f"module 'cograd.ops' has no attribute '{name}'")
    if name not in _namespaces:
        _namespaces[name] = Namespace(name)
    return _namespaces[name]


def __dir__() -> list[str]:
    return sorted({*__all__, *(n.partition("::")[0] for n in _names())})
