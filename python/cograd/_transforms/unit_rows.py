# SPDX-License-Identifier: BSD-3-Clause
"""Maps a function over the rows of an identity matrix, as Jacobians need."""

from __future__ import annotations

from collections.abc import Callable

import cograd
from cograd._C import Tensor
from cograd._transforms.vmap import vmap_quietly


def _unit_rows(tensors: list[Tensor], begin: int, end: int) -> list[Tensor]:
    """Returns unit vectors ``begin`` to ``end`` in dim 0 of one tensor for each of ``tensors``."""
    rows, at = [], 0
    for t in tensors:
        n = t.numel()
        block = cograd.zeros(end - begin, n, dtype=t.dtype, device=t.device)
        first, last = max(begin, at), min(end, at + n)
        if first < last:
            block[first - begin : last - begin, first - at : last - at] = cograd.eye(
                last - first, dtype=t.dtype, device=t.device
            )
        rows.append(block.view(end - begin, *t.shape))
        at += n
    return rows


def _one_by_one(
    fn: Callable[[list[Tensor]], list[Tensor]], rows: list[Tensor]
) -> tuple[Tensor, ...]:
    columns = [fn([r[i] for r in rows]) for i in range(rows[0].shape[0])]
    return tuple(cograd.stack(column) for column in zip(*columns, strict=True))


def _is_limit(error: RuntimeError) -> bool:
    """True if vmap cannot run something that works row by row; False for a deliberate refusal."""
    text = str(error)
    if text.startswith("vmap: called random operation"):
        return False
    return text.startswith(("vmap", "inside of a vmap")) or getattr(error, "_in_vmap_rule", False)


def _map_rows(
    fn: Callable[[list[Tensor]], list[Tensor]],
    tensors: list[Tensor],
    chunk_size: int | None = None,
    randomness: str = "error",
) -> list[Tensor]:
    """Calls ``fn`` with each unit vector in the space of ``tensors``; stacks results along dim 0.

    A unit vector is passed as one tensor for each of ``tensors``, of its shape and dtype. Their
    number is the total number of elements, the first tensor's elements first; ``chunk_size`` of
    them are processed at once. If ``fn`` fails under vmap, it runs once per unit vector.
    """
    count = sum(t.numel() for t in tensors)
    if count == 0:  # the shapes of the results still matter
        empty = fn([cograd.zeros(t.shape, dtype=t.dtype, device=t.device) for t in tensors])
        return [t.new_zeros((0, *t.shape)) for t in empty]
    step = count if chunk_size is None else min(chunk_size, count)
    together = vmap_quietly(fn, randomness) if step > 1 else None
    parts = []
    for begin in range(0, count, step):
        rows = _unit_rows(tensors, begin, min(begin + step, count))
        if together is not None:
            try:
                parts.append(together(rows))
                continue
            except RuntimeError as error:
                if not _is_limit(error):
                    raise
                together = None
        parts.append(_one_by_one(fn, rows))
    if len(parts) == 1:
        return list(parts[0])
    return [cograd.cat(column) for column in zip(*parts, strict=True)]
