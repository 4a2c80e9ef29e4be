# SPDX-License-Identifier: BSD-3-Clause
"""Rprop."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._lists import for_lists, step_lists
from ._options import within
from ._rule import Rule, counter, filled, zeros
from .optimizer import Optimizer, ParamsT

__all__ = ["Rprop", "rprop"]


def _formula(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns Rprop's new parameter."""
    (shorter, longer), (least, most) = group["etas"], group["step_sizes"]
    turn = grad * state["prev"]
    kept = cograd.ones_like(turn)
    factor = cograd.where(turn > 0, kept * longer, cograd.where(turn < 0, kept * shorter, kept))
    size = state["step_size"] = (state["step_size"] * factor).clamp(least, most)
    grad = state["prev"] = cograd.where(turn < 0, cograd.zeros_like(grad), grad)
    return param.sub(grad.sign() * size)


class Rprop(Optimizer):
    """Steps by the gradient's sign; each element's step grows until the sign changes.

    Riedmiller and Braun, A Direct Adaptive Method for Faster Backpropagation Learning: The RPROP
    Algorithm (1993).

    Each step::

        s = s * etas[1] where g * g_before > 0, s * etas[0] where it is < 0, within step_sizes
        p -= sign(g) s, except where the sign changed

    g is the gradient (its negative with ``maximize``); after a sign change g_before is 0. State:
    step, prev (g_before), step_size (s). Parameters are floating or complex; complex ones count as
    pairs of real ones.

    Args:
        lr: the first step of every element, a number or a tensor of one element.
        etas: factors of the step where the sign changed, and where it did not.
        step_sizes: the smallest and the largest step.
    """

    _rule = Rule(
        _formula,
        "_rprop_step",
        state=(counter("step"), zeros("prev"), filled("step_size", lambda group: group["lr"])),
        checks={
            "etas": within(
                lambda etas: 0.0 < etas[0] < 1.0 < etas[1], "Invalid eta values: {0[0]}, {0[1]}"
            ),
        },
        parts={
            "etas": ("etaminus", "etaplus"),
            "step_sizes": ("step_size_min", "step_size_max"),
        },
        gpu_counts=True,
        order="lr etas step_sizes foreach maximize differentiable capturable",
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, self._rule.defaults(locals()))


@for_lists(Rprop)
def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """Runs one step of Rprop on tensors and state that no optimizer owns."""
    step_lists(Rprop, locals())
