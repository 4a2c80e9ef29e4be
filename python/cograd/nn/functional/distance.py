# SPDX-License-Identifier: BSD-3-Clause
"""Similarity and distance of vectors."""

from __future__ import annotations

import cograd
from cograd import Tensor

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]

cosine_similarity = cograd.cosine_similarity
pdist = cograd._C._nn.pdist


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """Returns the p-norm of ``x1 - x2 + eps`` over the last dim."""
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)
