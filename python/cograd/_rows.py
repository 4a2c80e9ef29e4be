# SPDX-License-Identifier: BSD-3-Clause
"""One function for every row of an identity matrix: what Jacobians are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cograd
from cograd import Tensor


def _rows(tensors: list[Tensor]) -> Iterator[list[Tensor]]:
    zeros = [cograd.zeros(t.shape, dtype=t.dtype) for t in tensors]
    for at, t in enumerate(tensors):
        for element in range(t.numel()):
            one = cograd.zeros(t.numel(), dtype=t.dtype)
            one[element] = 1
            yield [*zeros[:at], one.view(t.shape), *zeros[at + 1 :]]


def _map_rows(
    fn: Callable[[list[Tensor]], list[Tensor]],
    tensors: list[Tensor],
    chunk_size: int | None = None,
) -> list[Tensor]:
    """``fn`` of each unit vector in the space of ``tensors``, its results stacked along dim 0.

    A unit vector comes as one tensor for each of ``tensors``, of its shape and dtype. There are as
    many as these have elements together, the first tensor's elements first.
    """
    columns = [fn(row) for row in _rows(tensors)]
    if not columns:  # the shapes of the results still matter
        empty = fn([cograd.zeros(t.shape, dtype=t.dtype) for t in tensors])
        return [t.new_zeros((0, *t.shape)) for t in empty]
    return [cograd.stack(column) for column in zip(*columns, strict=True)]
