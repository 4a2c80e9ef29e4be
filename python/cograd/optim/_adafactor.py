# SPDX-License-Identifier: BSD-3-Clause
"""Adafactor."""

from __future__ import annotations

from typing import Any, ClassVar

import cograd
from cograd import Tensor

from ._lists import step_lists
from ._options import check_lr, new_counter, number
from .optimizer import Optimizer

__all__ = ["Adafactor", "adafactor"]


def _mean_square(grad: Tensor, dim: int) -> Tensor:
    """Returns (grad * grad).mean(dim, keepdim=True) without storing the squares of all elements."""
    return cograd.norm(grad, dim=dim, keepdim=True).square_().div_(grad.size(dim))


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
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        lr: the largest relative step, a number or a tensor of one element.
        beta2_decay: each step, the running mean of squares keeps the fraction 1 - step^beta2_decay.
        eps: the lower limit of the root of the running mean of squares, None for that of the dtype;
            the lower limit of the root mean square of a parameter.
        d: the upper limit of the root mean square of an update.
        weight_decay: lr * weight_decay times the parameter is subtracted from it first.
        foreach: accepted and ignored.
        maximize: whether to maximize instead of minimize.

    Raises:
        ValueError: an option is out of range.
        RuntimeError: a parameter is complex, in ``step``.
    """

    _later_options: ClassVar[dict[str, Any]] = {"foreach": None}

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_lr(lr, "Learning rate should be >= 0 but is: {}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self.state[param]
        if state:
            return state
        grad = param.grad
        assert grad is not None
        state["step"] = new_counter()
        if grad.dim() > 1:
            shape = list(grad.shape)
            state["row_var"] = grad.new_zeros([*shape[:-1], 1])
            state["col_var"] = grad.new_zeros([*shape[:-2], 1, shape[-1]])
        else:
            state["variance"] = cograd.zeros_like(grad).detach()
        return state

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

    Args:
        params: the tensors to update in place.
        grads: one gradient for each parameter.
        row_vars, col_vars, variances, state_steps: the state of each parameter, written in place;
            vectors have a variance, all other parameters have a row and a column.
        grad_scale: the divisor of the gradients.
        found_inf: if it is not 0, the step is skipped.
        has_complex: accepted and ignored.
        foreach, d, lr, beta2_decay, weight_decay, maximize: as in Adafactor.
        eps1, eps2: the two values of Adafactor's ``eps``.

    Raises:
        ValueError: the lists have different lengths.
        RuntimeError: a parameter is complex, or a leaf requires grad while grad mode is on.
    """
    group = {
        "d": d,
        "lr": lr,
        "beta2_decay": beta2_decay,
        "weight_decay": weight_decay,
        "eps": (eps1, eps2),
        "maximize": maximize,
        "foreach": foreach,
    }
    columns: dict[str, Any] = {
        "row_var": row_vars,
        "col_var": col_vars,
        "variance": variances,
        "step": state_steps,
    }
    step_lists(Adafactor, params, grads, columns, group, grad_scale=grad_scale, found_inf=found_inf)
