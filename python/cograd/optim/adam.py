# SPDX-License-Identifier: BSD-3-Clause
"""Adam."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._formula import decay, moments, step_of
from ._lists import for_lists, step_lists
from ._options import check_betas, not_negative
from ._rule import Rule, counter, zeros
from .optimizer import Optimizer, ParamsT

__all__ = ["Adam", "adam"]


def _formula(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    """Returns the new parameter of Adam and AdamW."""
    lr, (beta1, beta2) = group["lr"], group["betas"]
    step = step_of(state, param)
    param, grad = decay(param, grad, group)
    mean, square = moments(grad, state, beta1, beta2)
    if group["amsgrad"]:
        square = cograd.maximum(state["max_exp_avg_sq"], square)
        state["max_exp_avg_sq"] = square
    denom = square.sqrt() / (1 - beta2**step) ** 0.5 + group["eps"]
    return param.sub(lr / (1 - beta1**step) * mean / denom)


class Adam(Optimizer):
    """Adam: steps by the running mean of gradients over the root of that of their squares.

    Kingma and Ba, Adam: A Method for Stochastic Optimization (arXiv:1412.6980); amsgrad of Reddi et
    al., On the Convergence of Adam and Beyond (arXiv:1904.09237).

    Each step::

        m = beta1 m + (1 - beta1) g
        v = beta2 v + (1 - beta2) g^2
        p -= lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)

    g is the gradient (its negative with ``maximize``) plus weight_decay times p.

    State: step (t), exp_avg (m), exp_avg_sq (v), and with ``amsgrad`` max_exp_avg_sq. Parameters
    are floating or complex; complex ones count as pairs of real ones.

    Args:
        amsgrad: whether to divide by the largest running mean of squares so far.
        decoupled_weight_decay: whether to decay as AdamW does.
    """

    _rule = Rule(
        _formula,
        "_adam_step",
        state=(
            counter("step"),
            zeros("exp_avg"),
            zeros("exp_avg_sq"),
            zeros("max_exp_avg_sq", when="amsgrad"),
        ),
        checks={
            "eps": not_negative("epsilon"),
            "betas": check_betas,
            "weight_decay": not_negative("weight_decay"),
        },
        parts={"betas": ("beta1", "beta2")},
        later={"amsgrad": False},
        gpu_counts=True,
        order="lr betas eps weight_decay amsgrad maximize foreach capturable differentiable "
        "fused decoupled_weight_decay",
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(params, self._rule.defaults(locals()))


@for_lists(Adam)
def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: Any,
    beta2: Any,
    lr: Any,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """Runs one step of Adam on tensors and state that no optimizer owns."""
    step_lists(Adam, locals())
