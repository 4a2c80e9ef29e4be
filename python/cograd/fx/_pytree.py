# SPDX-License-Identifier: BSD-3-Clause
"""Flattens arguments by a structure that an earlier call had, in generated code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from cograd.utils import _pytree as pytree

__all__ = ["pytree", "register_pytree_flatten_spec", "tree_flatten_spec"]

_flatten: dict[type, Callable[[Any, Any], list[Any]]] = {}


def register_pytree_flatten_spec(
    cls: type,
    flatten_fn_spec: Callable[[Any, Any], list[Any]],
    flatten_fn_exact_match_spec: Callable[[Any, Any], bool] | None = None,
) -> None:
    """Registers how ``tree_flatten_spec`` takes a value of ``cls`` apart."""
    _flatten[cls] = flatten_fn_spec


def _parts(tree: Any, spec: Any) -> list[Any]:
    kind = spec.type
    if kind in _flatten:
        return list(_flatten[kind](tree, spec))
    if isinstance(kind, type) and issubclass(kind, dict):
        keys = spec.context[1] if issubclass(kind, defaultdict) else spec.context
        return [tree[key] for key in keys]
    return [tree[i] for i in range(spec.num_children)]


def tree_flatten_spec(pytree: Any, spec: Any) -> list[Any]:
    """Returns the leaves of ``pytree`` at the places where ``spec`` has leaves."""
    if spec.is_leaf():
        return [pytree]
    found: list[Any] = []
    for part, child in zip(_parts(pytree, spec), spec.children_specs, strict=True):
        found.extend(tree_flatten_spec(part, child))
    return found


tree_flatten, tree_unflatten = pytree.tree_flatten, pytree.tree_unflatten
