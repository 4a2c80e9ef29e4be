# SPDX-License-Identifier: BSD-3-Clause
"""What ``reduction`` and its deprecated forerunners mean to a loss."""

from __future__ import annotations

import warnings

from cograd import Tensor


def legacy_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The ``reduction`` that torch's deprecated pair of flags stands for."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def get_enum(reduction: str) -> int:
    """The number that torch's kernels have for a reduction: none 0, mean 1, sum 2."""
    known = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}
    if reduction not in known:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return known[reduction]


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """The ``reduction`` of the deprecated pair, of which None is True."""
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
    """The number of ``legacy_get_string``."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))


def reduce_loss(loss: Tensor, reduction: str) -> Tensor:
    """``loss`` after its reduction: 'none', 'mean' or 'sum'."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")
