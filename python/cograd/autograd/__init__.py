# SPDX-License-Identifier: BSD-3-Clause
"""Reverse-mode differentiation: backward, grad, modes, Function and gradcheck."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, overload

from cograd import _C
from cograd._base.memory_format import registered as _sparse
from cograd._C import (
    Tensor,
    get_num_backward_threads,
    is_multithreading_enabled,
    set_num_backward_threads,
)
from cograd.autograd import anomaly_mode, forward_ad, function, grad_mode, graph, variable
from cograd.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from cograd.autograd.function import Function
from cograd.autograd.grad_mode import (
    enable_grad,
    enforce_grad_layout_policy,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from cograd.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from cograd.autograd.variable import Variable
from cograd.overrides import refuse_torch

SavedTensor = _C.SavedTensor

if TYPE_CHECKING:
    from cograd.autograd import functional, profiler

__all__ = [
    "Function",
    "GradcheckError",
    "SavedTensor",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "enforce_grad_layout_policy",
    "forward_ad",
    "function",
    "functional",
    "get_num_backward_threads",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_multithreading_enabled",
    "no_grad",
    "profiler",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "set_num_backward_threads",
    "variable",
]

Tensors = Tensor | graph.GradientEdge | Sequence[Tensor | graph.GradientEdge]
_Key = TypeVar("_Key")
Inputs = Tensors | dict[Any, Tensor] | dict[Any, Tensor | graph.GradientEdge]


if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        if name in ("functional", "profiler", "profiler_util"):  # imported at first access
            return import_module(f"cograd.autograd.{name}")
        if name in ("handle_torch_function", "has_torch_function", "is_tensor_like"):
            return getattr(import_module("cograd.overrides"), name)
        from cograd._base import absent

        raise absent.missing(__name__, name)


def _tuple(value: Any) -> tuple[Any, ...]:
    if type(value) in (tuple, list):  # an isinstance of Tensor takes longer than all the rest
        return tuple(value)
    one = value is None or isinstance(value, (Tensor, graph.GradientEdge))
    if not one and not isinstance(value, (tuple, list)):
        refuse_torch("autograd", value)
    return (value,) if one else tuple(value)


def _input_tuple(inputs: Any, caller: str) -> tuple[Any, ...]:
    values = tuple(inputs.values()) if isinstance(inputs, dict) else _tuple(inputs)
    if not values:
        raise RuntimeError(f"`inputs` argument to `{caller}()` cannot be empty.")
    return values


def backward(
    tensors: Tensors,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Inputs | None = None,
) -> None:
    """Accumulates gradients of ``tensors`` into the ``.grad`` of the graph's leaves.

    Args:
        tensors: what to differentiate, tensors or GradientEdges; each must require grad.
        grad_tensors: the gradient of each, of its shape; may be None for one-element tensors.
        retain_graph: keep saved tensors for another run; default: ``create_graph``.
        create_graph: record the run, for higher derivatives.
        grad_variables: old name of ``grad_tensors``.
        inputs: accumulate only into these: one, a sequence, or the values of a dict. An edge that
            does not belong to a leaf has no ``.grad`` and accumulates nothing.

    Raises:
        RuntimeError: a required gradient is missing, shapes differ, or the graph has already been
            released.
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
    wanted = None if inputs is None else _input_tuple(inputs, "backward")
    roots = _tuple(tensors)
    grads = (None,) * len(roots) if grad_tensors is None else _tuple(grad_tensors)
    keep = create_graph if retain_graph is None else retain_graph
    if _sparse:
        roots, grads, wanted = _sparse["unwrap"](roots, grads, wanted)
    _C._run_backward(roots, grads, keep, create_graph, wanted, True)


@overload
def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = ...,
    retain_graph: bool | None = ...,
    create_graph: bool = ...,
    only_inputs: bool = ...,
    allow_unused: bool | None = ...,
    is_grads_batched: bool = ...,
    materialize_grads: bool = ...,
) -> tuple[Tensor, ...]: ...


@overload
def grad(
    outputs: Tensors,
    inputs: dict[_Key, Tensor] | dict[_Key, Tensor | graph.GradientEdge],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = ...,
    retain_graph: bool | None = ...,
    create_graph: bool = ...,
    only_inputs: bool = ...,
    allow_unused: bool | None = ...,
    is_grads_batched: bool = ...,
    materialize_grads: bool = ...,
) -> dict[_Key, Tensor]: ...


def grad(
    outputs: Tensors,
    inputs: Inputs,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Computes gradients of ``outputs`` with respect to ``inputs``: a tuple, or a dict for a dict.

    Args:
        outputs: what to differentiate, tensors or GradientEdges.
        inputs: what to differentiate with respect to: one tensor or edge, a sequence, or a dict of
            them; each must require grad.
        grad_outputs: the gradient of each output; may be None for one-element outputs.
        retain_graph: keep saved tensors for another run; default: ``create_graph``.
        create_graph: record the run, for higher derivatives.
        only_inputs: must be True.
        allow_unused: return None instead of raising for inputs the outputs do not depend on.
        is_grads_batched: each grad_output has an additional first dimension of size B; so do the
            results. One backward runs under ``vmap``: hooks run once, and see one batched gradient;
            Functions without a vmap rule run B times.
        materialize_grads: return zeros instead of None for unused inputs.

    Raises:
        RuntimeError: an input does not require grad or was not used; shapes differ.
        ValueError: the arguments contradict each other, or the batch sizes differ.
    """
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other parts of the graph, please use autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    elif materialize_grads and not allow_unused:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, "
            f"but got: allow_unused={allow_unused}."
        )
    roots, wanted = _tuple(outputs), _input_tuple(inputs, "grad")
    grads = (None,) * len(roots) if grad_outputs is None else _tuple(grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    given = wanted
    if _sparse:
        roots, grads, wanted = _sparse["unwrap"](roots, grads, wanted)
    if is_grads_batched:
        result = _batched(roots, grads, keep, create_graph, wanted)
    else:
        result = _C._run_backward(roots, grads, keep, create_graph, wanted, False)
    unused = [i for i, g in enumerate(result) if g is None]
    if unused and not allow_unused:
        raise RuntimeError(
            f"The differentiated Tensor at index {unused[0]} appears to not have been used in the "
            "graph. Set allow_unused=True if this is the desired behavior."
        )
    if unused and materialize_grads:
        result = tuple(map(_materialized, result, wanted))
    if wanted is not given:
        result = _sparse["rewrap"](given, result)
    if isinstance(inputs, dict):
        return dict(zip(inputs, result, strict=True))
    return result


def _materialized(gradient: Tensor | None, of: Any) -> Tensor:
    if gradient is not None:
        return gradient
    if isinstance(of, Tensor):
        return of.new_zeros(of.shape)
    import cograd

    meta = of.node._input_metadata[of.output_nr]
    return cograd.zeros(meta.shape, dtype=meta.dtype, device=meta.device)


def _shape_of(output: Any) -> tuple[int, ...]:
    if isinstance(output, Tensor):
        return tuple(output.shape)
    return tuple(output.node._input_metadata[output.output_nr].shape)


def _batched(
    roots: tuple[Any, ...],
    grads: tuple[Any, ...],
    keep: bool,
    create_graph: bool,
    wanted: tuple[Any, ...],
) -> tuple[Tensor | None, ...]:
    """Runs one backward for all rows of the grad_outputs; dim 0 of the gradients is the batch."""
    from cograd._transforms.vmap import vmap_quietly

    if len(roots) != len(grads):
        raise RuntimeError(f"got {len(roots)} tensors and {len(grads)} gradients")
    for i, (root, g) in enumerate(zip(roots, grads, strict=True)):
        if not isinstance(g, Tensor) or g.dim() == 0:
            got = "a tensor without dimensions" if isinstance(g, Tensor) else type(g).__name__
            raise ValueError(
                f"grad(): is_grads_batched=True needs a grad_output with a batch dimension for "
                f"every output, but grad_outputs[{i}] is {got}"
            )
        if tuple(g.shape[1:]) != _shape_of(root):
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output "
                "as the batch dimension. The sizes of the remaining dimensions are expected to "
                "match the shape of corresponding output, but a mismatch was detected: "
                f"grad_output[{i}] has a shape of {tuple(g.shape)} and output[{i}] has a shape of "
                f"{_shape_of(root)}."
            )
    sizes = [int(g.shape[0]) for g in grads]
    if len(set(sizes)) > 1:
        raise ValueError(f"grad(): the batch sizes of the grad_outputs differ: {sizes}")
    if sizes[0] == 0:
        raise ValueError("grad(): is_grads_batched=True with an empty batch: nothing to compute")
    found: list[Tensor | None] = []

    def run(*rows: Tensor) -> tuple[Tensor, ...]:
        found.extend(_C._run_backward(roots, rows, keep, create_graph, wanted, False))
        return tuple(g for g in found if g is not None)

    taken = iter(vmap_quietly(run, "same")(*grads))
    return tuple(None if g is None else next(taken) for g in found)
