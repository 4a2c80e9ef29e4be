# SPDX-License-Identifier: BSD-3-Clause
"""Resolves the ``reduction`` of a loss and the two deprecated flags that preceded it."""

from __future__ import annotations

import warnings

from cograd import Tensor


def legacy_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Returns the ``reduction`` that corresponds to torch's deprecated pair of flags."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def get_enum(reduction: str) -> int:
    """Returns the number that torch's kernels use for a reduction: none 0, mean 1, sum 2."""
    known = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}
    if reduction not in known:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return known[reduction]


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """Returns the ``reduction`` for the deprecated pair of flags; None counts as True."""
    found = legacy_reduction(size_average is not False, reduce, "mean")
    if emit_warning:
        warnings.warn(
            "size_average and reduce args will be deprecated, please use "
            f"reduction='{found}' instead.",
            stacklevel=2,
        )
    return found


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """Returns ``get_enum`` of what ``legacy_get_string`` returns."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))


def reduce_loss(loss: Tensor, reduction: str) -> Tensor:
    """Reduces ``loss`` by 'none', 'mean' or 'sum'."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")
