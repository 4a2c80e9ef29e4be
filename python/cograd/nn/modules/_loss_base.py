# SPDX-License-Identifier: BSD-3-Clause
"""Base classes of the losses."""

from __future__ import annotations

from cograd import Tensor

from .._reduction import legacy_reduction
from .module import Module

__all__ = []


class _Loss(Module):
    """Stores ``reduction``: 'none', 'mean' or 'sum' (or derives it from the deprecated flags)."""

    reduction: str

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.reduction = legacy_reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """Stores the buffer ``weight``, which may be None."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class _MarginLoss(_Loss):
    """Stores ``margin``."""

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin
