# SPDX-License-Identifier: BSD-3-Clause
"""NAdam."""

from __future__ import annotations

from typing import Any

from cograd import Tensor

from ._formula import counter_value, decay, moments, step_of
from ._lists import for_lists, step_lists
from ._options import check_betas, not_negative
from ._rule import Rule, counter, zeros
from .optimizer import Optimizer, ParamsT

__all__ = ["NAdam", "nadam"]


def _formula(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns NAdam's new parameter."""
    lr, (beta1, beta2), psi = group["lr"], group["betas"], group["momentum_decay"]
    step = step_of(state, param)
    param, grad = decay(param, grad, group)
    mean, square = moments(grad, state, beta1, beta2)
    mu = beta1 * (1 - 0.5 * 0.96 ** (step * psi))
    mu_next = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * psi))
    state["mu_product"] = state["mu_product"] * mu
    product = counter_value(state["mu_product"], param)
    denom = (square / (1 - beta2**step)).sqrt() + group["eps"]
    of_grad = lr * (1 - mu) / (1 - product)
    of_mean = lr * mu_next / (1 - product * mu_next)
    return param.sub((of_grad * grad + of_mean * mean) / denom)


class NAdam(Optimizer):
    """Adam with Nesterov's momentum.

    Dozat, Incorporating Nesterov Momentum into Adam (2016).

    Each step::

        m = beta1 m + (1 - beta1) g
        v = beta2 v + (1 - beta2) g^2
        mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2)
        c = lr mu_{t+1} / (1 - mu_1 ... mu_{t+1}) m + lr (1 - mu_t) / (1 - mu_1 ... mu_t) g
        p -= c / (sqrt(v / (1 - beta2^t)) + eps)

    g is the gradient (its negative with ``maximize``) plus weight_decay times p.

    State: step (t), mu_product, exp_avg (m), exp_avg_sq (v). Parameters are floating or complex;
    complex ones count as pairs of real ones.

    Args:
        momentum_decay: how fast the momentum approaches its limit.
    """

    _rule = Rule(
        _formula,
        "_nadam_step",
        state=(
            counter("step"),
            counter("mu_product", 1.0),
            zeros("exp_avg"),
            zeros("exp_avg_sq"),
        ),
        checks={
            "eps": not_negative("epsilon"),
            "betas": check_betas,
            "weight_decay": not_negative("weight_decay"),
            "momentum_decay": not_negative("momentum_decay"),
        },
        parts={"betas": ("beta1", "beta2")},
        order="lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize "
        "foreach capturable differentiable",
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, self._rule.defaults(locals()))


@for_lists(NAdam)
def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """Runs one step of NAdam on tensors and state that no optimizer owns."""
    step_lists(NAdam, locals())
