# SPDX-License-Identifier: BSD-3-Clause
"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from cograd import Tensor

from . import constraints
from .gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The sum of the squares of ``df`` standard normal numbers.

    The density is ``x ** (df / 2 - 1) * exp(-x / 2) / (2 ** (df / 2) * gamma(df / 2))`` for x >= 0,
    with mean ``df`` and variance ``2 * df``. It is the ``Gamma`` of concentration ``df / 2`` and
    rate 1/2. The batch shape is that of ``df``; the event shape is ``()``. ``rsample`` is
    differentiable with respect to ``df``. The gradient is implicit, as in Gamma.

    Args:
        df: positive number or tensor: the degrees of freedom, not necessarily an integer.
        validate_args: see ``Distribution``.

    Raises:
        ValueError: a parameter is out of its range.
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        return self.concentration * 2
