# SPDX-License-Identifier: BSD-3-Clause
"""MIN and MAX of floating-point values, computed on integers in the same order.

MPI's own results depend on the order of the operands if one is NaN, or if zeros have both signs,
so ranks may get different results. Here NaN is the extreme, and -0.0 is less than 0.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cograd
from cograd.distributed._buffers import Target
from cograd.distributed._names import ReduceOp

if TYPE_CHECKING:
    from cograd import Tensor

__all__ = ["as_keys", "is_ordered", "keys"]

_INTEGERS = {cograd.float32: cograd.int32, cograd.float64: cograd.int64}


def is_ordered(op: ReduceOp, dtype: cograd.dtype) -> bool:
    """Returns whether ``op`` is MIN or MAX on a floating-point dtype."""
    return (op is ReduceOp.MAX or op is ReduceOp.MIN) and dtype in _INTEGERS


def _mirrored(bits: Tensor, most: int) -> Tensor:
    """Reverses the order of negative values, so that bits order as floats; its own inverse."""
    return cograd.where(bits < 0, bits ^ most, bits)


def keys(values: Tensor, op: ReduceOp) -> Tensor:
    """Returns integers, of the shape of ``values``, in the order of the float values."""
    limits = cograd.iinfo(_INTEGERS[values.dtype])
    with cograd.no_grad():
        values = values.detach()
        found = _mirrored(values.view(_INTEGERS[values.dtype]), limits.max)
        extreme = limits.max if op is ReduceOp.MAX else limits.min
        return found.masked_fill_(values.isnan(), extreme)


def as_keys(place: Target, op: ReduceOp, filled: bool = True) -> Target:
    """Returns a target of integer keys for ``place``; with ``filled``, of its present values."""
    whole = place.memory.detach()
    kind = _INTEGERS[whole.dtype]
    memory = keys(whole, op) if filled else cograd.empty(whole.shape, dtype=kind)

    def finish() -> None:
        with cograd.no_grad():
            whole.copy_(_mirrored(memory, cograd.iinfo(kind).max).view(whole.dtype))
        place.finish()

    return Target(memory, finish)
