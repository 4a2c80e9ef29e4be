# SPDX-License-Identifier: BSD-3-Clause
"""Compares the modules of all ranks, and copies the values of one rank to the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cograd
from cograd import Tensor
from cograd._utils import _flatten_dense_tensors

__all__ = ["broadcast_tensors", "verify_parameters"]

_TOGETHER = 1 << 16  # bytes below which tensors are sent together
_CHUNK = 1 << 26  # most bytes of a flat tensor that is sent


def broadcast_tensors(tensors: Sequence[Tensor], source: int, group: Any) -> None:
    """Copies the values of rank ``source`` of the group into the tensors of all ranks."""
    dist = cograd.distributed
    source = dist.get_global_rank(group, source)
    small: dict[tuple[cograd.dtype, cograd.device], list[Tensor]] = {}
    with cograd.no_grad():
        for tensor in map(Tensor.detach, tensors):
            if tensor.numel() == 0:
                continue
            if tensor.is_contiguous() and tensor.numel() * tensor.element_size() >= _TOGETHER:
                dist.broadcast(tensor, source, group=group)
            else:
                small.setdefault((tensor.dtype, tensor.device), []).append(tensor)
        for same in small.values():
            _broadcast_flat(same, source, group)


def _broadcast_flat(tensors: list[Tensor], source: int, group: Any) -> None:
    chunk: list[Tensor] = []
    size = 0
    for index, tensor in enumerate(tensors):
        chunk.append(tensor)
        size += tensor.numel() * tensor.element_size()
        if size < _CHUNK and index + 1 < len(tensors):
            continue
        flat = _flatten_dense_tensors(chunk)
        cograd.distributed.broadcast(flat, source, group=group)
        for target, values in zip(chunk, flat.split([t.numel() for t in chunk]), strict=True):
            target.copy_(values.view(target.shape))
        chunk, size = [], 0


def verify_parameters(names: Sequence[str], parameters: Sequence[Tensor], group: Any) -> None:
    """Raises RuntimeError on every rank if the parameters of some rank differ from rank 0's."""
    mine = [
        (name, tuple(parameter.shape), str(parameter.dtype))
        for name, parameter in zip(names, parameters, strict=True)
    ]
    found: list[Any] = [None] * cograd.distributed.get_world_size(group)
    cograd.distributed.all_gather_object(found, mine, group=group)
    for rank, other in enumerate(found):
        if len(other) != len(found[0]):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank 0 has {len(found[0])} params, "
                f"while rank {rank} has inconsistent {len(other)} params."
            )
        for index, (here, first) in enumerate(zip(other, found[0], strict=True)):
            if here != first:
                raise RuntimeError(
                    f"DDP expects same model across all ranks: params[{index}] of rank {rank} is "
                    f"{_text(here)}, which does not match rank 0's {_text(first)}"
                )


def _text(entry: tuple[str, tuple[int, ...], str]) -> str:
    name, shape, dtype = entry
    return f"{name!r} with sizes {list(shape)} of {dtype}"
