# SPDX-License-Identifier: BSD-3-Clause
"""Distances between rows of two inputs."""

from __future__ import annotations

from cograd import Tensor

from .. import functional as F
from .module import Module

__all__ = [
    "CosineSimilarity",
    "PairwiseDistance",
]


class CosineSimilarity(Module):
    """Computes x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along ``dim``.

    For a zero vector the result is 0 and the gradient x2 / (eps |x2|). See
    ``nn.functional.cosine_similarity``.

    Args:
        dim: the dim of the vectors.
        eps: the lower limit of a norm.

    Raises:
        RuntimeError: the shapes do not broadcast, or an input is integer or bool.
        IndexError: ``dim`` does not exist.
        NotImplementedError: an input is complex.

    Shape:
        - x1, x2: (*1, D, *2), D at ``dim``, or shapes that broadcast to one.
        - output: (*1, *2).
        - dtypes: floating.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Maps (*1, D, *2), (*1, D, *2) to (*1, *2)."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """Computes the p-norm of x1 - x2 + eps over the last dim.

    With ``eps`` 0, the norm of a zero vector has the gradient 0. See
    ``nn.functional.pairwise_distance``.

    Args:
        p: order of the norm; inf and negative values are allowed.
        eps: added to each difference, so that the gradient of the root is finite.
        keepdim: keeps the last dim, with size 1.

    Raises:
        RuntimeError: the shapes do not broadcast.

    Shape:
        - x1, x2: (*, D) or (D), broadcast against each other.
        - output: (*), or (*, 1) with ``keepdim``.
        - dtypes: floating or complex.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Maps (*, D), (*, D) to (*)."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
