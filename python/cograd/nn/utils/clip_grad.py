# SPDX-License-Identifier: BSD-3-Clause
"""Clips the gradients of parameters."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import cograd
from cograd import Tensor

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]


def _listed(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _grads(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [p.grad for p in _listed(parameters) if p.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Returns the norm of all tensors as if they were one vector; a 0-dim tensor.

    Raises:
        RuntimeError: the norm is NaN or infinite, and ``error_if_nonfinite`` is set.
    """
    norm_type = float(norm_type)
    norms = [t.detach().norm(norm_type) for t in _listed(tensors)]
    if not norms:
        return cograd.tensor(0.0)
    total = cograd.stack(norms).norm(norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scales the gradients by ``max_norm / total_norm`` if that is below 1."""
    with cograd.no_grad():
        scale = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
        for grad in _grads(parameters):
            grad.mul_(scale.to(grad.dtype))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales all gradients, in place, so that their total norm is at most ``max_norm``.

    Returns:
        the norm before scaling, a 0-dim tensor.
    """
    params = _listed(parameters)
    total = get_total_norm(_grads(params), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(params, float(max_norm), total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Calls ``clip_grad_norm_`` under its deprecated name, which warns."""
    warnings.warn(
        "`cograd.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`cograd.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: Any, foreach: bool | None = None
) -> None:
    """Clamps every element of the gradients, in place, to [-clip_value, clip_value]."""
    limit = float(clip_value)
    with cograd.no_grad():
        for grad in _grads(parameters):
            grad.clamp_(min=-limit, max=limit)
