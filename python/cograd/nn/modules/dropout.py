# SPDX-License-Identifier: BSD-3-Clause
"""Dropout layers."""

from __future__ import annotations

from cograd import Tensor

from .. import functional as F
from .module import Module

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
]


class _DropoutNd(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """In training, zeroes elements with probability ``p`` and divides the others by 1 - p.

    In evaluation it returns its input. The gradient is that of the sampled mask: 0 for zeroed
    elements, 1 / (1 - p) for the others.

    Srivastava et al., Dropout: A Simple Way to Prevent Neural Networks from Overfitting (2014). See
    ``nn.functional.dropout``.

    Args:
        p: probability of a zero, in [0, 1]; 1 zeroes everything.
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        ValueError: ``p`` is not in [0, 1].
        RuntimeError: the input is integer or bool in training.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating or complex.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(Dropout):
    """In training, zeroes whole channels of (N, C, L) with probability ``p``.

    The others are divided by 1 - p; in evaluation it returns its input. Tompson et al., Efficient
    Object Localization Using Convolutional Networks (arXiv:1411.4280). See
    ``nn.functional.dropout1d``.

    Args:
        p: probability of a zeroed channel, in [0, 1].
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        ValueError: ``p`` is not in [0, 1].
        RuntimeError: the input does not have 2 or 3 dims.

    Shape:
        - input and output: (N, C, L) or (C, L).
        - dtypes: floating or complex.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, L) or (C, L) to the same shape."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(Dropout):
    """In training, zeroes whole channels of (N, C, H, W) with probability ``p``.

    The others are divided by 1 - p; in evaluation it returns its input. For an input of 3 dims,
    (N, C, L), the channels are those of dim 1, as in torch. Tompson et al., Efficient Object
    Localization Using Convolutional Networks (arXiv:1411.4280). See ``nn.functional.dropout2d``.

    Args:
        p: probability of a zeroed channel, in [0, 1].
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        ValueError: ``p`` is not in [0, 1].

    Shape:
        - input and output: (N, C, H, W) or (N, C, L).
        - dtypes: floating or complex.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, H, W) to the same shape."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(Dropout):
    """In training, zeroes whole channels of (N, C, D, H, W) with probability ``p``.

    The others are divided by 1 - p; in evaluation it returns its input. Tompson et al., Efficient
    Object Localization Using Convolutional Networks (arXiv:1411.4280). See
    ``nn.functional.dropout3d``.

    Args:
        p: probability of a zeroed channel, in [0, 1].
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        ValueError: ``p`` is not in [0, 1].

    Shape:
        - input and output: (N, C, D, H, W) or (C, D, H, W).
        - dtypes: floating or complex.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, D, H, W) to the same shape."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(Dropout):
    """Dropout that keeps the mean and variance of SELU activations.

    In training, elements become -1.7580993408473766, the limit of SELU, with probability ``p``;
    then all are scaled and shifted to mean 0 and variance 1. In evaluation it returns its input.

    Klambauer et al., Self-Normalizing Neural Networks (arXiv:1706.02515). See
    ``nn.functional.alpha_dropout``.

    Args:
        p: probability, in [0, 1].
        inplace: stored without effect.

    Raises:
        ValueError: ``p`` is not in [0, 1].

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(Dropout):
    """AlphaDropout of whole channels.

    In training, channels become -1.7580993408473766, the limit of SELU, with probability ``p``, and
    all are scaled and shifted as in AlphaDropout. In evaluation it returns its input. See
    ``nn.functional.feature_alpha_dropout``.

    Args:
        p: probability, in [0, 1].
        inplace: stored without effect.

    Raises:
        ValueError: ``p`` is not in [0, 1].
        RuntimeError: the input has fewer than 2 dims.

    Shape:
        - input and output: (N, C, *), at least 2 dims.
        - dtypes: floating.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, *) to the same shape."""
        return F.feature_alpha_dropout(input, self.p, self.training)
