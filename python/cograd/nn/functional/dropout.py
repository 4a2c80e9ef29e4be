# SPDX-License-Identifier: BSD-3-Clause
"""Dropout."""

from __future__ import annotations

import cograd
from cograd import Tensor


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with probability ``p`` and scales the rest by 1 / (1 - p)."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    if inplace:
        mask = cograd.rand_like(input) >= p
        return input.mul_(mask.to(input.dtype) * (0.0 if p == 1.0 else 1.0 / (1.0 - p)))
    return cograd._C._nn.dropout(input, p, training)
