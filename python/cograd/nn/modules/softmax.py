# SPDX-License-Identifier: BSD-3-Clause
"""The softmax layers; activation.py has them too, where torch keeps them."""

from __future__ import annotations

from cograd import Tensor

from .. import functional as F
from ._activations import _AlongDim
from .module import Module

__all__ = [
    "LogSoftmax",
    "Softmax",
    "Softmax2d",
    "Softmin",
]


class Softmax2d(Module):
    """Computes exp(x_c) / sum_k exp(x_k) over the channels of images.

    See ``nn.functional.softmax``.

    Raises:
        ValueError: the input does not have 3 or 4 dims.
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (N, C, H, W) or (C, H, W).
        - dtypes: floating.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, H, W) or (C, H, W) to the same shape."""
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)


class Softmax(_AlongDim):
    """Computes exp(x_i) / sum_j exp(x_j) along ``dim``: positive values whose sum is 1.

    The function is smooth for finite values. An element inf, or only elements -inf, make NaN.
    See ``nn.functional.softmax``.

    Args:
        dim: the dim to sum over; None warns and means 0 for inputs of 0, 1 or 3 dims, else 1.

    Raises:
        IndexError: ``dim`` does not exist.
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (*), any shape that has ``dim``.
        - dtypes: floating.
    """

    _function = staticmethod(F.softmax)


class LogSoftmax(_AlongDim):
    """Computes x_i - log(sum_j exp(x_j)) along ``dim``: the logarithms of Softmax.

    The function is smooth for finite values. An element inf, or only elements -inf, make NaN.
    See ``nn.functional.log_softmax``.

    Args:
        dim: the dim to sum over; None warns and means 0 for inputs of 0, 1 or 3 dims, else 1.

    Raises:
        IndexError: ``dim`` does not exist.
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (*), any shape that has ``dim``.
        - dtypes: floating.
    """

    _function = staticmethod(F.log_softmax)


class Softmin(_AlongDim):
    """Computes exp(-x_i) / sum_j exp(-x_j) along ``dim``: the smallest value gets most.

    The function is smooth for finite values. See ``nn.functional.softmin``.

    Args:
        dim: the dim to sum over; None warns and means 0 for inputs of 0, 1 or 3 dims, else 1.

    Raises:
        IndexError: ``dim`` does not exist.
        NotImplementedError: the input is integer or complex.
        RuntimeError: the input is bool.

    Shape:
        - input and output: (*), any shape that has ``dim``.
        - dtypes: floating.
    """

    _function = staticmethod(F.softmin)
