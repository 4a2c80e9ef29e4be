# SPDX-License-Identifier: BSD-3-Clause
"""The table of ops registered from Python, by "namespace::name"."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._custom_op import CustomOpDef

__all__ = ["_python_ops", "add", "find", "remove", "split"]

_python_ops: dict[str, CustomOpDef] = {}


def split(qualname: str) -> tuple[str, str]:
    """("namespace", "name") of "namespace::name".

    Raises:
        ValueError: it has another form.
    """
    namespace, found, name = qualname.partition("::")
    if not (found and namespace.isidentifier() and name.isidentifier()):
        raise ValueError(
            f"expected the name of an op, 'namespace::name' of two identifiers, got {qualname!r}"
        )
    return namespace, name


def _forget(qualname: str) -> None:
    """Tells cograd.ops, if it is imported, that the name means something else now."""
    forget = getattr(sys.modules.get("cograd.ops"), "_forget", None)
    if forget is not None:
        forget([qualname])


def add(op: CustomOpDef) -> None:
    """Enters an op; one of the same name is replaced."""
    _python_ops[op._qualname] = op
    _forget(op._qualname)


def remove(op: CustomOpDef) -> None:
    """Takes an op out, unless its name has been given to another since."""
    if _python_ops.get(op._qualname) is op:
        del _python_ops[op._qualname]
        _forget(op._qualname)


def find(qualname: str) -> CustomOpDef:
    """The op of that name.

    Raises:
        ValueError: there is none.
    """
    split(qualname)
    if qualname not in _python_ops:
        known = ", ".join(sorted(_python_ops)[:10]) or "none"
        raise ValueError(f"there is no op {qualname!r} registered from Python; known: {known}")
    return _python_ops[qualname]
