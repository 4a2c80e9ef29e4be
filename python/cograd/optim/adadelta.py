# SPDX-License-Identifier: BSD-3-Clause
"""Adadelta."""

from __future__ import annotations

from typing import Any

from cograd import Tensor

from ._formula import decayed
from ._lists import for_lists, step_lists
from ._options import not_negative, within
from ._rule import Rule, counter, zeros
from .optimizer import Optimizer, ParamsT

__all__ = ["Adadelta", "adadelta"]


def _formula(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns Adadelta's new parameter."""
    rho, eps = group["rho"], group["eps"]
    grad = decayed(param, grad, group)
    square = state["square_avg"] = rho * state["square_avg"] + (1 - rho) * grad * grad
    delta = (state["acc_delta"] + eps).sqrt() / (square + eps).sqrt() * grad
    state["acc_delta"] = rho * state["acc_delta"] + (1 - rho) * delta * delta
    return param.sub(group["lr"] * delta)


class Adadelta(Optimizer):
    """Scales gradients by the running RMS of the updates over that of the gradients.

    Zeiler, ADADELTA: An Adaptive Learning Rate Method (arXiv:1212.5701).

    Each step::

        v = rho v + (1 - rho) g^2
        d = sqrt(u + eps) / sqrt(v + eps) * g
        u = rho u + (1 - rho) d^2
        p -= lr d

    g is the gradient (its negative with ``maximize``) plus weight_decay times p.

    State: step, square_avg (v), acc_delta (u). Parameters are floating or complex; complex ones
    count as pairs of real ones.

    Args:
        rho: decay rate of both running means of squares.
        eps: added to both running means of squares.
    """

    _rule = Rule(
        _formula,
        "_adadelta_step",
        state=(counter("step"), zeros("square_avg"), zeros("acc_delta")),
        checks={
            "rho": within(lambda rho: 0.0 <= rho <= 1.0, "Invalid rho value: {}"),
            "eps": not_negative("epsilon"),
            "weight_decay": not_negative("weight_decay"),
        },
        gpu_counts=True,
        order="lr rho eps weight_decay maximize capturable foreach differentiable",
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, self._rule.defaults(locals()))


@for_lists(Adadelta)
def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    acc_deltas: list[Tensor],
    state_steps: list[Tensor],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Runs one step of Adadelta on tensors and state that no optimizer owns."""
    step_lists(Adadelta, locals())
