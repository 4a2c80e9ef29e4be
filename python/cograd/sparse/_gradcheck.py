# SPDX-License-Identifier: BSD-3-Clause
"""Sparse tensors as inputs and outputs of gradcheck."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._convert import to_dense
from ._tensor import SparseTensor, make

__all__ = ["by_values"]


def by_values(func: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
    """Returns a function of the values of sparse inputs, with dense outputs, and its arguments."""
    patterns = [x._pattern if isinstance(x, SparseTensor) else None for x in inputs]
    plain = tuple(x._v if isinstance(x, SparseTensor) else x for x in inputs)

    def called(*args: Any) -> Any:
        pairs = zip(patterns, args, strict=True)
        out = func(*(arg if p is None else make(p, arg) for p, arg in pairs))
        if isinstance(out, (tuple, list)):
            return tuple(to_dense(o) if isinstance(o, SparseTensor) else o for o in out)
        return to_dense(out) if isinstance(out, SparseTensor) else out

    return called, plain
