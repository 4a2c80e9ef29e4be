# SPDX-License-Identifier: BSD-3-Clause
"""The table of ops and what their functions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cograd
from cograd.onnx._writer import Value, Writer
from cograd.onnx.errors import SymbolicValueError

__all__ = ["OPS", "floating", "many", "number_like", "op", "promoted", "refuse", "scaled", "unlike"]

OPS: dict[Any, Callable[..., Any]] = {}


def op(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enters a function under the names of ops."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        OPS.update(dict.fromkeys(names, function))
        return function

    return enter


def refuse(what: str) -> SymbolicValueError:
    """Returns the error for a form of an op that is not converted."""
    return SymbolicValueError(f"onnx.export: {what} is not supported")


def promoted(*values: Any) -> Any:
    """Returns the dtype in which an op computes with these values and numbers."""
    found: Any = None
    for value in values:
        if isinstance(value, Value) and not value.is_number:
            sample: Any = cograd.empty((0,) * value.rank, dtype=value.dtype)
        else:
            sample = 1 if isinstance(value, Value) else value
        found = (
            sample
            if found is None
            else cograd.empty(
                (0,) * max(getattr(found, "ndim", 0), getattr(sample, "ndim", 0)),
                dtype=cograd.result_type(found, sample),
            )
        )
    return found.dtype if isinstance(found, cograd.Tensor) else cograd.result_type(found, found)


def floating(w: Writer, x: Any) -> str:
    """Returns a value as the dtype of the result."""
    return w.to(x, w.dtype)


def number_like(w: Writer, n: Any, x: Any) -> str:
    """Returns a number as a constant of a dtype, or of the dtype of ``x``."""
    return w.to(n, x.dtype if isinstance(x, Value) else x)


def many(w: Writer, dtype: Any, *values: Any) -> list[str]:
    """Returns values and numbers in one dtype."""
    return [w.to(value, dtype) for value in values]


def scaled(w: Writer, x: str, factor: Any) -> str:
    """Multiplies by a number unless it is 1."""
    return x if factor == 1 else str(w.emit("Mul", x, w.to(factor)))


def unlike(w: Writer, x: str, dtype: Any) -> str:
    """Converts a result that was computed in ``dtype`` to the dtype of the op."""
    return w.cast(x, w.dtype, dtype)
