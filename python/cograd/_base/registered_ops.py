# SPDX-License-Identifier: BSD-3-Clause
"""The ops registered from Python by "namespace::name", and the callbacks for changes of names.

`cograd.library` fills the table, `cograd.ops` reads it, and loaded libraries report the ops that
they registered; this module imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

__all__ = [
    "add",
    "changed",
    "find",
    "gone",
    "listeners",
    "python_ops",
    "reloaders",
    "remove",
    "split",
    "stand_ins",
]


class NamedOp(Protocol):
    """The attributes that the table needs of an op."""

    _qualname: str


python_ops: dict[str, Any] = {}
stand_ins: dict[str, Callable[[str], Any]] = {}  # by namespace: what to give for an unknown op
gone: set[str] = set()  # ops that the core still has, although their rebuilt library lacks them
listeners: list[Callable[[Sequence[str]], None]] = []  # called with names whose op changed
reloaders: list[Callable[[Sequence[str], Sequence[str]], None]] = []  # called after a library loads


def split(qualname: str) -> tuple[str, str]:
    """Splits "namespace::name" into ("namespace", "name").

    Raises:
        ValueError: it has another form.
    """
    namespace, found, name = qualname.partition("::")
    if not (found and namespace.isidentifier() and name.isidentifier()):
        raise ValueError(
            f"expected the name of an op, 'namespace::name' of two identifiers, got {qualname!r}"
        )
    return namespace, name


def _tell(names: Sequence[str]) -> None:
    for listener in listeners:
        listener(names)


def add(op: NamedOp) -> None:
    """Adds an op; replaces one of the same name."""
    python_ops[op._qualname] = op
    _tell([op._qualname])


def remove(op: NamedOp) -> None:
    """Removes an op, unless another op has taken its name."""
    if python_ops.get(op._qualname) is op:
        del python_ops[op._qualname]
        _tell([op._qualname])


def find(qualname: str) -> Any:
    """Returns the op of that name.

    Raises:
        ValueError: there is none.
    """
    split(qualname)
    if qualname not in python_ops:
        known = ", ".join(sorted(python_ops)[:10]) or "none"
        raise ValueError(f"there is no op {qualname!r} registered from Python; known: {known}")
    return python_ops[qualname]


def changed(names: Iterable[str], without: Iterable[str]) -> None:
    """Records the ops that a library registered again, and those that a rebuilt library lacks."""
    names, without = list(names), list(without)
    gone.difference_update(names)
    gone.update(without)
    for reload in reloaders:
        reload(names, without)
    _tell([*names, *without])
