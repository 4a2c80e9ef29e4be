# SPDX-License-Identifier: BSD-3-Clause
"""MIN and MAX of floating-point numbers as those of integers in the same order.

MPI's own depend on the order of the operands where one is NaN, or zeros have two signs, and give
ranks different results. Here NaN is the extreme, and -0.0 is less than 0.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cograd
from cograd.distributed._mpi.buffers import Target
from cograd.distributed._names import ReduceOp

if TYPE_CHECKING:
    from cograd import Tensor

__all__ = ["as_keys", "is_ordered", "keys"]

_INTEGERS = {cograd.float32: cograd.int32, cograd.float64: cograd.int64}


def is_ordered(op: ReduceOp, dtype: cograd.dtype) -> bool:
    """Returns whether ``op`` chooses one of its operands, which are floating-point."""
    return (op is ReduceOp.MAX or op is ReduceOp.MIN) and dtype in _INTEGERS


def _mirrored(bits: Tensor, most: int) -> Tensor:
    """Returns the numbers below zero in the order of their values; its own inverse."""
    return cograd.where(bits < 0, bits ^ most, bits)


def keys(values: Tensor, op: ReduceOp) -> Tensor:
    """Integers in the order of float32 or float64 ``values``, of their shape."""
    limits = cograd.iinfo(_INTEGERS[values.dtype])
    with cograd.no_grad():
        values = values.detach()
        found = _mirrored(values.view(_INTEGERS[values.dtype]), limits.max)
        extreme = limits.max if op is ReduceOp.MAX else limits.min
        return found.masked_fill_(values.isnan(), extreme)


def as_keys(place: Target, op: ReduceOp, filled: bool = True) -> Target:
    """A place for keys, whose ``finish`` writes the values; ``filled``: with those of ``place``."""
    whole = place.memory.detach()
    kind = _INTEGERS[whole.dtype]
    memory = keys(whole, op) if filled else cograd.empty(whole.shape, dtype=kind)

    def finish() -> None:
        with cograd.no_grad():
            whole.copy_(_mirrored(memory, cograd.iinfo(kind).max).view(whole.dtype))
        place.finish()

    return Target(memory, finish)
