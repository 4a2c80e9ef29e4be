# SPDX-License-Identifier: BSD-3-Clause
"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from typing import Any, ClassVar

from cograd import Tensor

from . import _rules
from ._lists import step_lists
from ._options import check_lr, check_modes, check_not_negative
from .optimizer import Optimizer

__all__ = ["SGD", "sgd"]


class SGD(Optimizer):
    """Updates by p -= lr * buf, buf = momentum * buf + (1 - dampening) * (grad + weight_decay * p).

    Robbins and Monro, A Stochastic Approximation Method (1951); Nesterov's momentum in the form of
    Sutskever et al., On the importance of initialization and momentum in deep learning (2013).

    Each step::

        buf = momentum buf + (1 - dampening) g
        p -= lr buf;  with nesterov p -= lr (g + momentum buf)

    g is the gradient (its negative with ``maximize``) plus weight_decay times p. The first buffer
    is g.

    State: momentum_buffer (buf), only with ``momentum``. Parameters are floating or complex;
    complex ones count as pairs of real ones.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        lr: the learning rate, a number or a tensor of one element.
        momentum: momentum of the buffer; 0 keeps no buffer.
        dampening: the fraction of a gradient that is not added to the buffer.
        weight_decay: ``weight_decay`` times the parameter is added to the gradient.
        nesterov: whether to step by grad + momentum * buf.
        maximize: whether to maximize instead of minimize.
        foreach: None and True update all parameters in one call, False applies the formula to each.
        differentiable: whether autograd records the steps.
        fused: as ``foreach``; with True, parameters that are not floating raise.

    Raises:
        ValueError: an option is negative, or ``nesterov`` is set without momentum or with
            dampening.
        RuntimeError: ``fused`` is set together with ``differentiable`` or ``foreach``.
    """

    _later_options: ClassVar[dict[str, Any]] = {
        "nesterov": False,
        "maximize": False,
        "foreach": None,
        "differentiable": False,
        "fused": False,
    }
    _rule = staticmethod(_rules.sgd)
    _kernel = 0

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check_not_negative("momentum", momentum)
        check_not_negative("weight_decay", weight_decay)
        check_modes(foreach=foreach, fused=fused, differentiable=differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _options(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return group["momentum"], group["dampening"], group["nesterov"]

    def _state_names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        momentum = group["momentum"]
        keeps = isinstance(momentum, Tensor) or momentum != 0
        return super()._init_state(param, group) if keeps else {}

    def _begin_state(self, param: Tensor, group: dict[str, Any]) -> None:
        # Only creates the buffer: the loop writes this step's values to it.
        assert param.grad is not None
        self.state[param]["momentum_buffer"] = param.grad.detach().clone()


def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """Runs one step of SGD on tensors and state that no optimizer owns.

    Args:
        params: the tensors to update in place.
        d_p_list: one gradient for each parameter.
        momentum_buffer_list: the state of each parameter, written in place.
        grad_scale: the divisor of the gradients.
        found_inf: if it is not 0, the step is skipped.
        has_sparse_grad: accepted and ignored.
        foreach, fused, weight_decay, momentum, lr, dampening, nesterov, maximize: as in SGD.

    Raises:
        ValueError: the lists have different lengths.
        RuntimeError: modes exclude each other, ``capturable`` is set, or a leaf requires grad while
            grad mode is on and the step is not differentiable.
    """
    group = {
        "weight_decay": weight_decay,
        "momentum": momentum,
        "lr": lr,
        "dampening": dampening,
        "nesterov": nesterov,
        "maximize": maximize,
        "foreach": foreach,
        "fused": fused,
    }
    columns: dict[str, Any] = {}
    if momentum != 0:
        columns["momentum_buffer"] = momentum_buffer_list
    step_lists(SGD, params, d_p_list, columns, group, grad_scale=grad_scale, found_inf=found_inf)
