# SPDX-License-Identifier: BSD-3-Clause
"""Passes tensors to MPI: contiguous ones directly, others through a contiguous copy.

MPI reads and writes the memory of the host, so tensors of other devices are copied. NCCL, which
works on the GPU's memory, asks for buffers ``on_device``.
"""

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
    """Returns address, count and datatype of a contiguous tensor, which the caller keeps alive.

    ``parts`` is the number of ranks whose values it holds; the count is for one rank.
    """
    count = tensor.numel()
    memory = mpi.buffer.fromaddress(_address(tensor), count * tensor.element_size())
    return [memory, count // parts, datatype(mpi, tensor.dtype)]


def _stays(tensor: Tensor, on_device: bool) -> bool:
    return on_device or tensor.device.type == "cpu"


def source(tensor: Tensor, *, reduced: bool = False, on_device: bool = False) -> Tensor:
    """Returns the values of ``tensor`` as a contiguous tensor: itself if it is contiguous.

    With ``reduced`` the values will be summed, so half precision becomes float32.
    """
    if not _stays(tensor, on_device):
        tensor = tensor.detach().cpu()
    if reduced and is_half(tensor.dtype):
        return tensor.detach().to(cograd.float32).contiguous()
    return tensor if tensor.is_contiguous() else tensor.detach().contiguous()


class Target:
    """Memory that MPI writes (``memory``) and a function that copies it to tensors (``finish``)."""

    __slots__ = ("finish", "memory")

    def __init__(self, memory: Tensor, finish: Callable[[], None]) -> None:
        self.memory = memory
        self.finish = finish


def target(
    tensor: Tensor, *, reduced: bool = False, filled: bool = False, on_device: bool = False
) -> Target:
    """Returns a target for MPI's result, whose ``finish`` copies it into ``tensor``.

    Autograd does not record the write, whether or not the tensor requires grad, but its version
    increases. With ``filled``, the memory starts with the tensor's own values.
    """
    wide = reduced and is_half(tensor.dtype)
    stays = _stays(tensor, on_device)
    if tensor.is_contiguous() and not wide and stays:
        return Target(tensor, lambda: _increment_version(tensor))
    if filled:
        memory = source(tensor, reduced=reduced, on_device=on_device)
    else:
        dtype = cograd.float32 if wide else tensor.dtype
        memory = cograd.empty(tensor.shape, dtype=dtype, device=_place(tensor, stays))

    def finish() -> None:
        with cograd.no_grad():
            tensor.detach().copy_(memory)

    return Target(memory, finish)


def _place(tensor: Tensor, stays: bool) -> cograd.device:
    return tensor.device if stays else cograd.device("cpu")


def adjacent(tensors: Sequence[Tensor]) -> bool:
    """Returns whether the tensors are adjacent in memory, so that no copy is needed."""
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
    """Returns a flat view of adjacent tensors."""
    total = sum(t.numel() for t in tensors)
    return tensors[0].detach().as_strided((total,), (1,))


def flat_source(
    tensors: Sequence[Tensor], *, reduced: bool = False, on_device: bool = False
) -> Tensor:
    """Returns the values of several tensors in one flat tensor; a view if they are adjacent."""
    wide = reduced and is_half(tensors[0].dtype)
    if not wide and _stays(tensors[0], on_device) and adjacent(tensors):
        return _joined(tensors)
    options = {"reduced": reduced, "on_device": on_device}
    return _flatten_dense_tensors(source(t, **options).detach() for t in tensors)


def flat_target(
    tensors: Sequence[Tensor], *, reduced: bool = False, on_device: bool = False
) -> Target:
    """Returns a flat target, whose ``finish`` copies its parts into the tensors."""
    wide = reduced and is_half(tensors[0].dtype)
    stays = _stays(tensors[0], on_device)

    if not wide and stays and adjacent(tensors):

        def count() -> None:
            for tensor in tensors:
                _increment_version(tensor)

        return Target(_joined(tensors), count)
    dtype = cograd.float32 if wide else tensors[0].dtype
    memory = cograd.empty(
        sum(t.numel() for t in tensors), dtype=dtype, device=_place(tensors[0], stays)
    )

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
