# SPDX-License-Identifier: BSD-3-Clause
"""Tensors as MPI sees them: contiguous ones in place, others through a contiguous copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import cograd
from cograd._C import _increment_version
from cograd._utils import _flatten_dense_tensors
from cograd.distributed._mpi.checks import without_memory
from cograd.distributed._mpi.dtypes import datatype, is_half

if TYPE_CHECKING:
    from cograd import Tensor

__all__ = [
    "Target",
    "flat_source",
    "flat_target",
    "message",
    "overlap",
    "source",
    "target",
]


def _address(tensor: Tensor) -> int:
    try:
        return tensor.data_ptr()
    except RuntimeError as error:
        raise without_memory("cograd.distributed", error) from None


def message(mpi: Any, tensor: Tensor, parts: int = 1) -> list[Any]:
    """Address, count and datatype of a contiguous tensor; the caller keeps the tensor alive.

    ``parts``: how many ranks' values it holds; the count is that of one.
    """
    count = tensor.numel()
    memory = mpi.buffer.fromaddress(_address(tensor), count * tensor.element_size())
    return [memory, count // parts, datatype(mpi, tensor.dtype)]


def source(tensor: Tensor, *, reduced: bool = False) -> Tensor:
    """Returns the values of ``tensor`` in one piece: itself when contiguous.

    ``reduced``: the values are to be added up, so half precision becomes float32.
    """
    if reduced and is_half(tensor.dtype):
        return tensor.detach().to(cograd.float32).contiguous()
    return tensor if tensor.is_contiguous() else tensor.detach().contiguous()


class Target:
    """Where MPI writes (``memory``, contiguous) and how it reaches the tensors (``finish``)."""

    __slots__ = ("finish", "memory")

    def __init__(self, memory: Tensor, finish: Callable[[], None]) -> None:
        self.memory = memory
        self.finish = finish


def target(tensor: Tensor, *, reduced: bool = False, filled: bool = False) -> Target:
    """Returns a place for MPI's result that ``finish`` brings into ``tensor``.

    The write is not recorded by autograd, whether or not the tensor requires grad, and counts in
    its version. ``filled``: the place begins with the tensor's own values.
    """
    wide = reduced and is_half(tensor.dtype)
    if tensor.is_contiguous() and not wide:
        return Target(tensor, lambda: _increment_version(tensor))
    if filled:
        memory = source(tensor, reduced=reduced)
    else:
        dtype = cograd.float32 if wide else tensor.dtype
        memory = cograd.empty(tensor.shape, dtype=dtype)

    def finish() -> None:
        with cograd.no_grad():
            tensor.detach().copy_(memory)

    return Target(memory, finish)


def adjacent(tensors: Sequence[Tensor]) -> bool:
    """Returns whether the tensors lie one after the other in memory, so that no copy is needed."""
    place = None
    for tensor in tensors:
        if not tensor.is_contiguous() or not tensor.numel():
            return False
        start = tensor.data_ptr()
        if place is not None and place != start:
            return False
        place = start + tensor.numel() * tensor.element_size()
    return bool(tensors) and _same_storage(tensors)


def _same_storage(tensors: Sequence[Tensor]) -> bool:
    first = tensors[0].untyped_storage().data_ptr()
    return all(t.untyped_storage().data_ptr() == first for t in tensors)


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    """Returns one flat view over adjacent tensors."""
    total = sum(t.numel() for t in tensors)
    return tensors[0].detach().as_strided((total,), (1,))


def flat_source(tensors: Sequence[Tensor], *, reduced: bool = False) -> Tensor:
    """The values of several tensors one after the other, without a copy where they lie so."""
    if not (reduced and is_half(tensors[0].dtype)) and adjacent(tensors):
        return _joined(tensors)
    return _flatten_dense_tensors(source(t, reduced=reduced).detach() for t in tensors)


def flat_target(tensors: Sequence[Tensor], *, reduced: bool = False) -> Target:
    """Returns a flat place whose parts ``finish`` brings into the tensors."""
    wide = reduced and is_half(tensors[0].dtype)

    if not wide and adjacent(tensors):

        def count() -> None:
            for tensor in tensors:
                _increment_version(tensor)

        return Target(_joined(tensors), count)
    dtype = cograd.float32 if wide else tensors[0].dtype
    memory = cograd.empty(sum(t.numel() for t in tensors), dtype=dtype)

    def finish() -> None:
        with cograd.no_grad():
            parts = memory.split([t.numel() for t in tensors])
            for tensor, part in zip(tensors, parts, strict=True):
                tensor.detach().copy_(part.view(tensor.shape))

    return Target(memory, finish)


def overlap(a: Tensor, b: Tensor) -> bool:
    """Returns whether two contiguous tensors share memory."""
    begin_a, begin_b = _address(a), _address(b)
    end_a = begin_a + a.numel() * a.element_size()
    end_b = begin_b + b.numel() * b.element_size()
    return begin_a < end_b and begin_b < end_a
