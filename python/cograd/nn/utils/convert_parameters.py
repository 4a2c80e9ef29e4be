# SPDX-License-Identifier: BSD-3-Clause
"""Converts parameters to one vector and back."""

from __future__ import annotations

from collections.abc import Iterable

from cograd import Tensor
from cograd._utils import _flatten_dense_tensors

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Flattens and concatenates all parameters; returns a differentiable copy of shape (n,)."""
    return _flatten_dense_tensors(parameters)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Turns the parameters into views of consecutive pieces of ``vec`` (n,).

    Raises:
        TypeError: ``vec`` is not a tensor.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected cograd.Tensor, but got: {type(vec).__name__}")
    start = 0
    for param in parameters:
        count = param.numel()
        param.data = vec[start : start + count].view_as(param).data
        start += count
