# SPDX-License-Identifier: BSD-3-Clause
"""AdamW."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cograd import Tensor

from ._lists import for_lists, step_lists
from .adam import Adam
from .optimizer import ParamsT

__all__ = ["AdamW", "adamw"]


class AdamW(Adam):
    """Adam with weight decay that applies to the parameters instead of the gradients.

    Loshchilov and Hutter, Decoupled Weight Decay Regularization (arXiv:1711.05101).

    Each step::

        p -= lr weight_decay p
        m = beta1 m + (1 - beta1) g
        v = beta2 v + (1 - beta2) g^2
        p -= lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)

    g is the gradient (its negative with ``maximize``).

    State: step (t), exp_avg (m), exp_avg_sq (v), and with ``amsgrad`` max_exp_avg_sq. Parameters
    are floating or complex; complex ones count as pairs of real ones.

    Args:
        weight_decay: lr * weight_decay times the parameter is subtracted from it first.
        amsgrad: whether to divide by the largest running mean of squares so far.
    """

    _rule = replace(Adam._rule, later={**Adam._rule.later, "decoupled_weight_decay": True})

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        options = {**locals(), "decoupled_weight_decay": True}
        super(Adam, self).__init__(params, self._rule.defaults(options))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


@for_lists(AdamW)
def adamw(
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
    *,
    amsgrad: bool,
    beta1: Any,
    beta2: Any,
    lr: Any,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """Runs one step of AdamW on tensors and state that no optimizer owns."""
    step_lists(Adam, {**locals(), "decoupled_weight_decay": True})
