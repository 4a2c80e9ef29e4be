# SPDX-License-Identifier: BSD-3-Clause
"""Reverse-mode differentiation: backward, grad, modes, Function and gradcheck."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from cograd import _C
from cograd._C import Tensor
from cograd.autograd import function, grad_mode, graph
from cograd.autograd.function import Function
from cograd.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from cograd.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = [
    "Function",
    "GradcheckError",
    "Variable",
    "backward",
    "enable_grad",
    "function",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
]

Tensors = Tensor | Sequence[Tensor]


def _tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if value is None or isinstance(value, Tensor) else tuple(value)


def backward(
    tensors: Tensors,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Tensors | None = None,
) -> None:
    """Accumulates gradients of ``tensors`` into the ``.grad`` of the graph's leaves.

    Args:
        tensors: what to differentiate; each must require grad.
        grad_tensors: the gradient of each, of its shape; may be None for one-element tensors.
        retain_graph: keep saved tensors for another run; default: ``create_graph``.
        create_graph: record the run, for higher derivatives.
        grad_variables: old name of ``grad_tensors``.
        inputs: accumulate only into these tensors.

    Raises:
        RuntimeError: a tensor needs a gradient it was not given, shapes differ, or the graph has
            already been released.
    """
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            FutureWarning,
            stacklevel=2,
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    if inputs is not None:
        inputs = _tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    roots = _tuple(tensors)
    grads = (None,) * len(roots) if grad_tensors is None else _tuple(grad_tensors)
    keep = create_graph if retain_graph is None else retain_graph
    _C._run_backward(roots, grads, keep, create_graph, inputs, True)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """Gradients of ``outputs`` with respect to ``inputs``, one per input.

    Args:
        outputs: what to differentiate.
        inputs: with respect to what; each must require grad.
        grad_outputs: the gradient of each output; may be None for one-element outputs.
        retain_graph: keep saved tensors for another run; default: ``create_graph``.
        create_graph: record the run, for higher derivatives.
        only_inputs: must be True.
        allow_unused: None instead of an error for inputs the outputs do not depend on.
        is_grads_batched: not offered yet.
        materialize_grads: zeros instead of None for such inputs.

    Raises:
        RuntimeError: an input does not require grad or was not used.
    """
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other parts of the graph, please use autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    if is_grads_batched:
        raise NotImplementedError("grad(): is_grads_batched=True needs vmap, which is not offered")
    if allow_unused is None:
        allow_unused = materialize_grads
    elif materialize_grads and not allow_unused:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, "
            f"but got: allow_unused={allow_unused}."
        )
    roots, wanted = _tuple(outputs), _tuple(inputs)
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    grads = (None,) * len(roots) if grad_outputs is None else _tuple(grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    result = _C._run_backward(roots, grads, keep, create_graph, wanted, False)
    unused = [i for i, g in enumerate(result) if g is None]
    if unused and not allow_unused:
        raise RuntimeError(
            f"The differentiated Tensor at index {unused[0]} appears to not have been used in the "
            "graph. Set allow_unused=True if this is the desired behavior."
        )
    if materialize_grads:
        result = tuple(
            t.new_zeros(t.shape) if g is None else g for g, t in zip(result, wanted, strict=True)
        )
    return result


class _VariableMeta(type):
    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=_VariableMeta):
    """Old name: ``Variable(t)`` is the tensor ``t`` itself, detached if flags are given."""

    def __new__(cls, data: Tensor, requires_grad: bool = False, volatile: bool = False) -> Any:
        out = data.detach()
        return out.requires_grad_() if requires_grad else out
