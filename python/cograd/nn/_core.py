# SPDX-License-Identifier: BSD-3-Clause
"""How nn.functional finds the ops that the C++ core offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cograd
from cograd import Tensor

Op = Callable[..., Tensor]


def core_op(name: str) -> Op | None:
    """The core's op ``name``: first from ``_C._nn``, then from the package; None if absent."""
    namespace = getattr(getattr(cograd, "_C", None), "_nn", None)
    op = getattr(namespace, name, None)
    return op if op is not None else getattr(cograd, name, None)


def core_function(name: str) -> Op:
    """The core's op ``name``, which every build has."""
    op = core_op(name)
    if op is None:
        raise ImportError(
            f"cograd's core has no operation {name!r}; it was built from other sources"
        )
    return op


def core_or(name: str, composed: Op) -> Op:
    """The core's op ``name``, or ``composed``, made of other ops, where the core has none."""
    op = core_op(name)
    return composed if op is None else op


def write_back(op: Op, input: Tensor, *args: Any) -> Tensor:
    """Runs ``op`` in place: through the method ``name_`` if there is one, else by a copy.

    The copy feeds ``op`` a clone, as ``op`` may have saved its input for the backward.
    """
    method = getattr(input, op.__name__ + "_", None)
    if method is not None:
        return method(*args)  # type: ignore[no-any-return]
    source = input.clone() if cograd.is_grad_enabled() and input.requires_grad else input
    return input.copy_(op(source, *args))


def legacy_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The ``reduction`` that torch's deprecated pair of flags stands for."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def reduce_loss(loss: Tensor, reduction: str) -> Tensor:
    """``loss`` after its reduction: 'none', 'mean' or 'sum'."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")
