# SPDX-License-Identifier: BSD-3-Clause
"""Distances between vectors."""

from __future__ import annotations

from cograd._C import Tensor
from cograd.nn import functional as F

__all__ = [
    "pairwise_distance",
    "pdist",
]

pairwise_distance = F.pairwise_distance


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Calls functional.pdist."""
    return F.pdist(input, p)
