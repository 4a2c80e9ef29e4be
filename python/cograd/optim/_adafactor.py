# SPDX-License-Identifier: BSD-3-Clause
"""Adafactor."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import Tensor

from ._lists import for_lists, step_lists
from ._options import number, rate, within
from ._rule import Rule, State, counter
from .optimizer import Optimizer, ParamsT

__all__ = ["Adafactor", "adafactor"]


def _mean_square(grad: Tensor, dim: int) -> Tensor:
    """Returns (grad * grad).mean(dim, keepdim=True) without storing the squares of all elements."""
    return cograd.norm(grad, dim=dim, keepdim=True).square_().div_(grad.size(dim))


def _row(param: Tensor, group: dict[str, Any]) -> Tensor | None:
    grad = param.grad
    return grad.new_zeros([*grad.shape[:-1], 1]) if grad is not None and grad.dim() > 1 else None


def _column(param: Tensor, group: dict[str, Any]) -> Tensor | None:
    grad = param.grad
    if grad is None or grad.dim() <= 1:
        return None
    return grad.new_zeros([*grad.shape[:-2], 1, grad.shape[-1]])


def _whole(param: Tensor, group: dict[str, Any]) -> Tensor | None:
    grad = param.grad
    return cograd.zeros_like(grad).detach() if grad is not None and grad.dim() <= 1 else None


def _check_eps(eps: Any) -> None:
    if eps[0] is not None and not eps[0] >= 0.0:
        raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
    if not eps[1] >= 0.0:
        raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")


class Adafactor(Optimizer):
    """Adam without momentum, with a rank-1 running mean of squares for matrices.

    Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost
    (arXiv:1804.04235), where ``lr`` is the largest relative step and weight decay is decoupled.

    Each step::

        b = t^beta2_decay
        r = (1 - b) r + b mean_j g^2;  c = (1 - b) c + b mean_i g^2
        u = g / sqrt(r c / mean(r))
        p -= max(eps[1], rms(p)) min(lr, 1 / sqrt(t)) u / max(1, rms(u) / d)

    g is the gradient (its negative with ``maximize``). Vectors keep the squares themselves. State:
    step (t), row_var (r) and col_var (c), or variance.

    Args:
        lr: the largest relative step, a number or a tensor of one element.
        beta2_decay: each step, the running mean of squares keeps the fraction 1 - step^beta2_decay.
        eps: the lower limit of the root of the running mean of squares, None for that of the dtype;
            the lower limit of the root mean square of a parameter.
        d: the upper limit of the root mean square of an update.
        weight_decay: lr * weight_decay times the parameter is subtracted from it first.
        foreach: accepted and ignored.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: a parameter is complex, in ``step``.
    """

    _rule = Rule(
        state=(
            counter("step"),
            State("row_var", _row, column="row_vars"),
            State("col_var", _column, column="col_vars"),
            State("variance", _whole, column="variances"),
        ),
        checks={
            "lr": rate("Learning rate should be >= 0 but is: {}"),
            "beta2_decay": within(lambda v: v <= 0.0, "beta2_decay should be <= 0 but is: {}"),
            "eps": _check_eps,
            "d": within(lambda v: v >= 1.0, "Clipping threshold d should be >= 1 but is: {}"),
            "weight_decay": within(lambda v: v >= 0.0, "weight_decay should be >= 0 but is: {}"),
        },
        parts={"eps": ("eps1", "eps2")},
    )

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, self._rule.defaults(locals()))

    def _update(self, group: dict[str, Any]) -> None:
        params = [param for param in group["params"] if param.grad is not None]
        if any(param.is_complex() for param in params):
            raise RuntimeError("Adafactor does not support complex parameters")
        lr, (eps1, eps2) = number(group["lr"]), group["eps"]
        for param in params:
            grad = param.grad.neg() if group["maximize"] else param.grad
            state = self._init_state(param, group)
            state["step"] += 1
            step = state["step"].item()
            root = param.numel() ** 0.5 or 1.0
            size = param.norm(2).item() / root
            rate = max(eps2, size) * min(lr, 1 / step**0.5)
            if group["weight_decay"] != 0:
                param.mul_(1 - lr * group["weight_decay"])
            least = cograd.finfo(param.dtype).eps if eps1 is None else eps1
            update = self._variance(grad, state, step ** group["beta2_decay"], least)
            update.clamp_(min=least * least).rsqrt_().mul_(grad)
            clip = max(1.0, update.norm(2).item() / (root * group["d"]))
            param.add_(update, alpha=-rate / clip)

    @staticmethod
    def _variance(grad: Tensor, state: dict[str, Any], weight: float, least: float) -> Tensor:
        """Returns an estimate of the running mean of squares, in new memory."""
        if grad.dim() <= 1:
            variance: Tensor = state["variance"].lerp_(grad * grad, weight)
            return variance.clone()
        row = state["row_var"].lerp_(_mean_square(grad, -1), weight)
        column = state["col_var"].lerp_(_mean_square(grad, -2), weight)
        estimate: Tensor = row @ column
        return estimate.div_(row.mean(dim=-2, keepdim=True).clamp_(min=least))


@for_lists(Adafactor)
def adafactor(
    params: list[Tensor],
    grads: list[Tensor],
    row_vars: list[Tensor | None],
    col_vars: list[Tensor | None],
    variances: list[Tensor | None],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: Any,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
) -> None:
    """Runs one step of Adafactor on tensors and state that no optimizer owns.

    Vectors have a variance, all other parameters have a row and a column.

    Raises:
        ValueError: the lists have different lengths.
        RuntimeError: a parameter is complex, or a leaf requires grad while grad mode is on.
    """
    step_lists(Adafactor, locals())
