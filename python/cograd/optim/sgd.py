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
    """p -= lr * buf, buf = momentum * buf + (1 - dampening) * (grad + weight_decay * p).

    Robbins and Monro, A Stochastic Approximation Method (1951); Nesterov's momentum in the form of
    Sutskever et al., On the importance of initialization and momentum in deep learning (2013).

    Each step::

        buf = momentum buf + (1 - dampening) g
        p -= lr buf;  with nesterov p -= lr (g + momentum buf)

    g is the gradient (minus it with ``maximize``), to which weight_decay times p is added. The
    first buffer is g.

    State: momentum_buffer (buf), with ``momentum`` alone. Parameters are floating or complex;
    complex ones count as pairs of real ones.

    Args:
        params: tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.
        lr: the learning rate, a number or a tensor of one element.
        momentum: of the buffer; 0 keeps none.
        dampening: the part of a gradient that does not go into the buffer.
        weight_decay: times the parameter is added to the gradient.
        nesterov: steps by grad + momentum * buf.
        maximize: maximize instead of minimize.
        foreach: whether one call updates all parameters: None and True do, False takes the formula.
        differentiable: autograd records the steps.
        fused: as ``foreach``; True refuses parameters that are not floating.

    Raises:
        ValueError: a negative option, or nesterov without momentum or with dampening.
        RuntimeError: fused together with differentiable or foreach.
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
        # Its values are those of this step, which the loop writes.
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
    """One step of SGD for tensors and state that are not an optimizer's.

    Args:
        params: what is updated, in place.
        d_p_list: a gradient for each.
        momentum_buffer_list: the state of each, written in place.
        grad_scale: the gradients are divided by it.
        found_inf: if it is not 0 nothing is done.
        has_sparse_grad: accepted; nothing follows from it.
        foreach, fused, weight_decay, momentum, lr, dampening, nesterov, maximize: as SGD's.

    Raises:
        ValueError: lists of different lengths.
        RuntimeError: modes that exclude each other, capturable, or a leaf that requires grad while
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
