# SPDX-License-Identifier: BSD-3-Clause
"""Sorting and the largest elements."""

from __future__ import annotations

from typing import Any

from cograd.onnx._ops._table import OPS, op
from cograd.onnx._writer import Value, Writer


@op("topk")
def topk(
    w: Writer, input: Value, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    if not input.rank:
        return [w.emit("Identity", input), w.const(0)]
    return w.emit(
        "TopK", input, w.shape([k]), outputs=2, axis=dim, largest=int(largest), sorted=int(sorted)
    )


@op("sort", "argsort", "msort")
def sort(
    w: Writer, input: Value, dim: int = -1, descending: bool = False, stable: bool = False
) -> Any:
    # ONNX breaks ties by the lower index, so every sort is a stable one.
    return topk(w, input, w.size(input, dim) if input.rank else 1, dim, descending)


OPS["argsort"] = lambda w, input, dim=-1, descending=False, stable=False: sort(
    w, input, dim, descending
)[1]
OPS["msort"] = lambda w, input: sort(w, input, 0)[0]
