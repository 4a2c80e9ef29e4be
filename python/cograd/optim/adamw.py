# SPDX-License-Identifier: BSD-3-Clause
"""AdamW."""

from __future__ import annotations

from typing import Any, ClassVar

from .adam import Adam

__all__ = ["AdamW"]


class AdamW(Adam):
    """Adam with weight decay applied to the parameters instead of the gradients.

    Loshchilov and Hutter, Decoupled Weight Decay Regularization (arXiv:1711.05101).

    Args:
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        lr: the learning rate, a number or a tensor of one element.
        betas: of the running means of the gradient and of its square.
        eps: added to the denominator.
        weight_decay: lr * weight_decay times the parameter is taken from it first.
        amsgrad: divides by the largest running square so far.
        foreach: whether one call updates all parameters: None and True do, False takes the formula.
        maximize: maximize instead of minimize.
        capturable: refused; it is for CUDA graphs.
        differentiable: autograd records the steps.
        fused: as ``foreach``; True refuses parameters that are not floating.

    Raises:
        ValueError: an option out of range.
        RuntimeError: modes that exclude each other, or capturable.
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
