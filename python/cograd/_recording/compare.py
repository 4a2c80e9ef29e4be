# SPDX-License-Identifier: BSD-3-Clause
"""Compares two recordings of one function: what differs was read from the example inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import cograd
from cograd._recording.recorder import Recording
from cograd._recording.values import TracerWarning
from cograd.fx.node import Node, map_aggregate

__all__ = [
    "check_same",
    "check_values",
    "difference",
    "inputs_of",
    "rerun",
    "warn_of",
    "where",
]


def _other_values(value: Any) -> Any:
    """Returns inputs of the same sizes with other elements, which are valid where the given are."""
    if not isinstance(value, cograd.Tensor):
        return value
    if value.dtype.is_floating_point:
        return value.detach() * 0.75
    return value.detach().flatten().flip(0).view(value.shape) if value.numel() else value


def inputs_of(first: Recording, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the inputs in the order of the first run, by position and by name."""
    return tuple(args), {name: kwargs[name] for name in first.by_name}


def rerun(
    first: Recording, run: Any, args: Any, kwargs: Any, change: Callable[[Any], Any]
) -> Recording:
    """Records again with the inputs that ``change`` returns; the program's warnings are not shown.

    Args:
        run: called with inputs by position and by name, returns their recording.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_position, by_name = change(inputs_of(first, args, kwargs))
        made: Recording = run(tuple(by_position), dict(by_name))
        return made


def check_values(first: Recording, run: Any, args: Any, kwargs: Any) -> bool:
    """Warns if the calls depend on elements of the inputs unnoticed; returns whether they do.

    Args:
        run: called with other inputs, returns their recording.
    """
    if first.warned:
        return False
    try:
        second = rerun(first, run, args, kwargs, lambda v: map_aggregate(v, _other_values))
    except Exception:  # the program does not accept these values
        return False
    found = difference(first, second)
    if found is not None:
        warn_of(
            "The trace depends on the values of the inputs, and keeps those of the examples:", found
        )
    return found is not None


def warn_of(message: str, found: tuple[str, tuple[str, int]]) -> None:
    """Warns of a difference, with the line of the program."""
    text, (file, line) = found
    warnings.warn_explicit(f"{message} {text} {_at((file, line))}", TracerWarning, file, line)


class _DifferenceError(Exception):
    pass


def check_same(first: Recording, second: Recording, ignored: Any = None) -> str | None:
    """Returns how the second recording differs in its calls, or None.

    Args:
        ignored: called with a node and the name or place of an argument; true if it may differ.
    """
    found = difference(first, second, ignored)
    return None if found is None else f"{found[0]} {_at(found[1])}"


def where(node: Node) -> str:
    """Returns "at file:line" of a call."""
    return _at(_place(node))


def difference(
    first: Recording, second: Recording, ignored: Any = None
) -> tuple[str, tuple[str, int]] | None:
    """Returns how the second recording differs, with file and line, or None, see check_same."""
    pairs: dict[Node, Node] = {}
    a_nodes, b_nodes = list(first.graph.nodes), list(second.graph.nodes)
    for a, b in zip(a_nodes, b_nodes, strict=False):
        if a.op != b.op or (a.target != b.target and a.op != "get_attr"):
            text = f"the program makes another call, {_name(a)} or {_name(b)},"
            return text, _place(a, b)
        pairs[a] = b
        for key, left, right in _arguments(a, b):
            if ignored is not None and ignored(a, key):
                continue
            try:
                _compare(left, right, pairs)
            except _DifferenceError as found:
                return f"{_name(a)}() gets {found}", _place(a, b)
        if a.op == "get_attr" and a.target in first.constants:
            x, y = first.constants[a.target], second.constants.get(str(b.target))
            if y is None or not _equal(x, y):
                user = next(iter(a.users), a)
                text = f"{_name(user)}() gets a tensor that depends on the inputs"
                return text, _place(user, a)
    return None


def _equal(x: Any, y: Any) -> bool:
    same = x.dtype == y.dtype and x.shape == y.shape
    return same and bool(cograd.allclose(x, y, equal_nan=True) if x.numel() else True)


def _name(node: Node) -> str:
    if node.op == "output":
        return "return"
    return str(getattr(node.target, "__name__", node.target))


def _place(*nodes: Node) -> tuple[str, int]:
    """Returns file and line of the first of these nodes that has them, or of one before."""
    for node in (*nodes, *_before(nodes[0])):
        if "place" in node.meta:
            file, line = node.meta["place"]
            return file, line
    return "<trace>", 0


def _before(node: Node) -> list[Node]:
    nodes = list(node.graph.nodes)
    return nodes[: nodes.index(node)][::-1]


def _at(place: tuple[str, int]) -> str:
    return "at {}:{}".format(*place)


def _arguments(a: Node, b: Node) -> list[tuple[Any, Any, Any]]:
    if len(a.args) != len(b.args) or list(a.kwargs) != list(b.kwargs):
        return [("", len(a.args), len(b.args))]
    by_place = list(zip(range(len(a.args)), a.args, b.args, strict=True))
    return by_place + [(key, a.kwargs[key], b.kwargs[key]) for key in a.kwargs]


def _compare(a: Any, b: Any, pairs: dict[Node, Node]) -> None:
    if isinstance(a, Node) or isinstance(b, Node):
        if pairs.get(a) is not b:
            raise _DifferenceError("another value")
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            raise _DifferenceError(f"{len(a)} or {len(b)} values")
        for left, right in zip(a, b, strict=True):
            _compare(left, right, pairs)
    elif isinstance(a, dict) and isinstance(b, dict):
        _compare(list(a.values()), list(b.values()), pairs)
    elif isinstance(a, slice) and isinstance(b, slice):
        _compare((a.start, a.stop, a.step), (b.start, b.stop, b.step), pairs)
    elif a is not b and a != b and not (a != a and b != b):
        raise _DifferenceError(f"{a!r} or {b!r}, which was read from an input as a Python value")
