# SPDX-License-Identifier: BSD-3-Clause
"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._formula import counter_value, decayed, step_of, used
from ._lists import for_lists, step_lists
from ._options import not_negative, number
from ._rule import Rule, counter, zeros
from .optimizer import Optimizer, ParamsT

__all__ = ["ASGD", "asgd"]


def _formula(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns ASGD's new parameter."""
    lr, lambd = group["lr"], group["lambd"]
    step = step_of(state, param)
    eta, mu = counter_value(state["eta"], param), counter_value(state["mu"], param)
    param = param * (1 - lambd * eta) - eta * decayed(param, grad, group)
    state["ax"] = state["ax"] + mu * (param - state["ax"]) if used(mu - 1) else param.clone()
    eta = lr / (1 + lambd * lr * step) ** group["alpha"]
    state["eta"] = state["eta"] * 0 + eta
    if isinstance(step, Tensor):
        state["mu"] = 1 / (step - group["t0"]).clamp(min=1)
    else:
        state["mu"] = cograd.full_like(state["mu"], 1 / max(1, step - group["t0"])).detach()
    return param


class ASGD(Optimizer):
    """SGD with a decreasing rate, and the mean of the parameters from step ``t0`` on.

    Polyak and Juditsky, Acceleration of Stochastic Approximation by Averaging (1992). The mean is
    ``state[param]["ax"]``.

    Each step::

        p = p (1 - lambd eta) - eta g
        ax = ax + mu (p - ax)
        eta = lr / (1 + lambd lr t)^alpha;  mu = 1 / max(1, t - t0)

    g is the gradient (its negative with ``maximize``) plus weight_decay times p.

    State: step (t), eta, mu, ax. Parameters are floating or complex; complex ones count as pairs of
    real ones.

    Args:
        lambd: decay rate of the parameters.
        alpha: the exponent of the decrease of the rate.
        t0: the step at which averaging begins.
    """

    _rule = Rule(
        _formula,
        "_asgd_step",
        state=(
            counter("step"),
            counter("eta", lambda group: number(group["lr"])),
            counter("mu", 1.0),
            zeros("ax"),
        ),
        checks={"weight_decay": not_negative("weight_decay")},
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, self._rule.defaults(locals()))


@for_lists(ASGD)
def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """Runs one step of ASGD on tensors and state that no optimizer owns."""
    step_lists(ASGD, locals())
