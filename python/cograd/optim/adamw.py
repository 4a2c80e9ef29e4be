# SPDX-License-Identifier: BSD-3-Clause
"""AdamW."""

from __future__ import annotations

from typing import Any, ClassVar

from cograd import Tensor

from .adam import Adam, adam

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
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        lr: the learning rate, a number or a tensor of one element.
        betas: decay rates of the running means of the gradient and of its square.
        eps: added to the denominator.
        weight_decay: lr * weight_decay times the parameter is subtracted from it first.
        amsgrad: whether to divide by the largest running mean of squares so far.
        foreach: None and True update all parameters in one call, False applies the formula to each.
        maximize: whether to maximize instead of minimize.
        capturable: not supported, as it is for CUDA graphs; True raises.
        differentiable: whether autograd records the steps.
        fused: as ``foreach``; with True, parameters that are not floating raise.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: modes exclude each other, or ``capturable`` is set.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        **Adam._later_options,
        "decoupled_weight_decay": True,
    }

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
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
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


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
    """Runs ``adam`` with decoupled_weight_decay; arguments and errors are the same."""
    adam(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        max_exp_avg_sqs,
        state_steps,
        foreach,
        capturable,
        differentiable,
        fused,
        grad_scale,
        found_inf,
        has_complex,
        decoupled_weight_decay=True,
        amsgrad=amsgrad,
        beta1=beta1,
        beta2=beta2,
        lr=lr,
        weight_decay=weight_decay,
        eps=eps,
        maximize=maximize,
    )
