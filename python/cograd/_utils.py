# SPDX-License-Identifier: BSD-3-Clause
"""Helpers of torch._utils that packages import."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import cograd
from cograd import Tensor

__all__: list[str] = []


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """One vector of the elements of all, in a new memory."""
    return cograd.cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of the parts of ``flat``, in the shapes of ``tensors``."""
    parts, start = [], 0
    for t in tensors:
        parts.append(flat.narrow(0, start, t.numel()).view(t.shape))
        start += t.numel()
    return tuple(parts)
