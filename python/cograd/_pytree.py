# SPDX-License-Identifier: BSD-3-Clause
"""Flattens trees of lists, tuples and dicts into a list of leaves, and rebuilds them."""

from __future__ import annotations

from typing import Any


def flatten(tree: Any, leaves: list[Any]) -> Any:
    """Appends the leaves of ``tree`` in order; returns its structure, for ``unflatten``."""
    if isinstance(tree, dict):
        keys = list(tree)
        return (dict, keys, [flatten(tree[k], leaves) for k in keys])
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return (type(tree), None, [flatten(v, leaves) for v in tree])
    if isinstance(tree, (list, tuple)):
        return (type(tree), None, [flatten(v, leaves) for v in tree])
    leaves.append(tree)
    return None


def unflatten(spec: Any, leaves: Any) -> Any:
    """Returns the tree of structure ``spec`` with leaves taken from the iterator ``leaves``."""
    if spec is None:
        return next(leaves)
    kind, keys, parts = spec
    values = [unflatten(part, leaves) for part in parts]
    if kind is dict:
        return dict(zip(keys, values, strict=True))
    if kind in (list, tuple):
        return kind(values)
    return kind(*values)


def flat(tree: Any) -> tuple[list[Any], Any]:
    """Returns the leaves of a tree, and its structure."""
    leaves: list[Any] = []
    return leaves, flatten(tree, leaves)


def shown(spec: Any) -> str:
    """Returns a tree's structure as text: ``(*, {'a': *})``."""
    if spec is None:
        return "*"
    kind, keys, parts = spec
    inner = [shown(part) for part in parts]
    if kind is dict:
        return "{" + ", ".join(f"{k!r}: {v}" for k, v in zip(keys, inner, strict=True)) + "}"
    if kind is list:
        return "[" + ", ".join(inner) + "]"
    name = "" if kind is tuple else kind.__name__
    return name + "(" + ", ".join(inner) + ("," if len(inner) == 1 else "") + ")"
