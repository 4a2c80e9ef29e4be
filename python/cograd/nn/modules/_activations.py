# SPDX-License-Identifier: BSD-3-Clause
"""Base classes of activation layers: they define ``forward`` and ``repr``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cograd import Tensor

from ._family import _Family


class _Plain(_Family):
    """An activation without options."""

    @staticmethod
    def _forward_of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def forward(self: Any, input: Tensor) -> Tensor:
            """Maps (*) to (*)."""
            return function(input)

        return forward


class _InPlace(_Family):
    """An activation whose only option is ``inplace``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    @staticmethod
    def _forward_of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def forward(self: Any, input: Tensor) -> Tensor:
            """Maps (*) to (*)."""
            return function(input, self.inplace)

        return forward

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


def _inplace_suffix(module: Any) -> str:
    return ", inplace=True" if module.inplace else ""


class _AlongDim(_Family):
    """A layer that applies a function of the softmax family."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    @staticmethod
    def _forward_of(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def forward(self: Any, input: Tensor) -> Tensor:
            """Maps (*) to (*)."""
            return function(input, self.dim, 5)

        return forward

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
