# SPDX-License-Identifier: BSD-3-Clause
"""RAdam."""

from __future__ import annotations

from typing import Any

from cograd import Tensor

from ._formula import decay, moments, step_of
from ._lists import for_lists, step_lists
from ._options import check_betas, not_negative
from ._rule import Rule, counter, zeros
from .optimizer import Optimizer, ParamsT

__all__ = ["RAdam", "radam"]


def _formula(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns RAdam's new parameter."""
    beta1, beta2 = group["betas"]
    step = step_of(state, param)
    param, grad = decay(param, grad, group)
    mean, square = moments(grad, state, beta1, beta2)
    correction = 1 - beta2**step
    limit = 2 / (1 - beta2) - 1
    rho = limit - 2 * step * beta2**step / correction
    update = mean / (1 - beta1**step) * group["lr"]
    if isinstance(step, Tensor):  # on a GPU, where nothing decides by it
        rect = (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)
        scale = (correction * rect.clamp(min=0)).sqrt() / (square.sqrt() + group["eps"])
        update = update * scale.where(rho > 5, scale.new_ones(()))
    elif rho > 5:
        rect = (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)
        update = update * (correction**0.5 * rect**0.5) / (square.sqrt() + group["eps"])
    return param.sub(update)


class RAdam(Optimizer):
    """Adam with a rate that corrects for the variance of the adaptive rate in the first steps.

    Liu et al., On the Variance of the Adaptive Learning Rate and Beyond (arXiv:1908.03265).

    Each step::

        m = beta1 m + (1 - beta1) g
        v = beta2 v + (1 - beta2) g^2
        n = 2 / (1 - beta2) - 1;  r = n - 2 t beta2^t / (1 - beta2^t)
        c = sqrt((r - 4) (r - 2) n / ((n - 4) (n - 2) r) * (1 - beta2^t)) / (sqrt(v) + eps)
        p -= lr m / (1 - beta1^t) * (c if r > 5 else 1)

    g is the gradient (its negative with ``maximize``) plus weight_decay times p.

    State: step (t), exp_avg (m), exp_avg_sq (v). Parameters are floating or complex; complex ones
    count as pairs of real ones.
    """

    _rule = Rule(
        _formula,
        "_radam_step",
        state=(counter("step"), zeros("exp_avg"), zeros("exp_avg_sq")),
        checks={
            "eps": not_negative("epsilon"),
            "betas": check_betas,
            "weight_decay": not_negative("weight_decay"),
        },
        parts={"betas": ("beta1", "beta2")},
        order="lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay "
        "differentiable",
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, self._rule.defaults(locals()))


@for_lists(RAdam)
def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    eps: float,
) -> None:
    """Runs one step of RAdam on tensors and state that no optimizer owns."""
    step_lists(RAdam, locals())
