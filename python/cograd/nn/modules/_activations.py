# SPDX-License-Identifier: BSD-3-Clause
"""Base classes of activation layers: they define ``forward`` and ``repr``."""

from __future__ import annotations

from typing import Any

from cograd import Tensor

from .module import Module


class _Plain(Module):
    """An activation without options."""

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        output: Tensor = self._function(input)
        return output


class _InPlace(Module):
    """An activation whose only option is ``inplace``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        output: Tensor = self._function(input, self.inplace)
        return output

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


def _inplace_suffix(module: Any) -> str:
    return ", inplace=True" if module.inplace else ""


class _AlongDim(Module):
    """A layer that applies a function of the softmax family."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        output: Tensor = self._function(input, self.dim, 5)
        return output

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
