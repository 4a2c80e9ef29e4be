# SPDX-License-Identifier: BSD-3-Clause
"""Dropout."""

from __future__ import annotations

import warnings
from typing import Any

import cograd
from cograd import Tensor

__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
]


def _check(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _run(name: str, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    if not training or p == 0.0:  # as in torch, a leaf is allowed here: nothing is written
        return input
    method: Any = getattr(cograd, name)
    if inplace:
        return getattr(input, name + "_")(p, training)  # type: ignore[no-any-return]
    return method(input, p, training)  # type: ignore[no-any-return]


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with probability ``p`` and scales the rest by 1 / (1 - p)."""
    _check(p)
    if not training or p == 0.0:  # else vmap would treat the op as a random one
        return input
    if inplace:
        return input.dropout_(p, training)
    return cograd._C._nn.dropout(input, p, training)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Applies a ``dropout`` that keeps the mean and variance of SELU activations."""
    _check(p)
    return _run("alpha_dropout", input, p, training, inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Applies ``alpha_dropout`` to whole channels of (N, C, *)."""
    _check(p)
    return _run("feature_alpha_dropout", input, p, training, inplace)


def _channels(input: Tensor, p: float, training: bool, inplace: bool, batched: bool) -> Tensor:
    """Zeroes whole channels of (N, C, *), or of (C, *) unless ``batched``."""
    if not batched:
        result = _run("feature_dropout", input.unsqueeze(0), p, training, inplace)
        return input if inplace else result.squeeze(0)
    return _run("feature_dropout", input, p, training, inplace)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels of (N, C, L) or (C, L) with probability ``p``."""
    _check(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. "
            "Note that dropout1d exists to provide channel-wise dropout on inputs with 1 "
            "spatial dimension, a channel dimension, and an optional batch dimension "
            "(i.e. 2D or 3D inputs)."
        )
    return _channels(input, p, training, inplace, input.dim() == 3)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels of (N, C, H, W) with probability ``p``."""
    _check(p)
    if input.dim() not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {input.dim()}-D input to dropout2d, which is deprecated and "
            "will result in an error in a future release.",
            stacklevel=2,
        )
    return _run("feature_dropout", input, p, training, inplace)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W) with probability ``p``."""
    _check(p)
    if input.dim() not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {input.dim()}-D input to dropout3d, which is deprecated and "
            "will result in an error in a future release.",
            stacklevel=2,
        )
    return _channels(input, p, training, inplace, input.dim() == 5)
