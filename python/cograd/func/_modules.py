# SPDX-License-Identifier: BSD-3-Clause
"""Calls modules as functions of their parameters and buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import cograd
from cograd import Tensor
from cograd.nn.utils.stateless import _functional_call


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with other tensors in place of its parameters and buffers.

    Args:
        module: the module; it is unchanged afterwards.
        parameter_and_buffer_dicts: tensors by their names in the module; others are the module's
            own. Several dicts may not contain the same name.
        args: the positional arguments; anything but a tuple is the only one.
        kwargs: the keyword arguments.
        tie_weights: whether a tensor with several names is replaced under all of them.
        strict: raise RuntimeError unless exactly all parameters and buffers are named.
    """
    if isinstance(parameter_and_buffer_dicts, dict):
        given = parameter_and_buffer_dicts
    elif isinstance(parameter_and_buffer_dicts, Sequence):
        if not all(isinstance(d, dict) for d in parameter_and_buffer_dicts):
            raise ValueError(
                "Expected all elements of parameter_and_buffer_dicts to be dictionaries"
            )
        counts = Counter(k for d in parameter_and_buffer_dicts for k in d)
        repeated = [k for k, n in counts.items() if n > 1]
        if repeated:
            raise ValueError(
                f"{repeated} appeared in multiple dictionaries; behavior of functional call is "
                "ambiguous"
            )
        given = {k: v for d in parameter_and_buffer_dicts for k, v in d.items()}
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts)}"
        )
    return _functional_call(module, given, args, kwargs, tie_weights=tie_weights, strict=strict)


def _forget_statistics(module: Any) -> None:
    if getattr(module, "track_running_stats", False):
        module.running_mean = module.running_var = module.num_batches_tracked = None
        module.track_running_stats = False


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Removes the running statistics of ``root`` and all modules in it, and returns ``root``.

    Running statistics of a captured module cannot be written under vmap; without them the module
    uses the statistics of the batch. Only modules with ``track_running_stats`` have them.
    """
    for module in root.modules():
        _forget_statistics(module)
    return root


def _stacked(tensors: list[Tensor], name: str) -> Tensor:
    wanted = {t.requires_grad for t in tensors}
    if len(wanted) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    result = cograd.stack(tensors)
    return result.detach().requires_grad_() if wanted == {True} else result


def stack_module_state(models: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Returns (parameters, buffers) of models of one class, stacked along a new dim 0.

    The parameters are new leaves that require grad if the models' do.
    """
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return (
        {k: _stacked([p[k] for p in parameters], k) for k in parameters[0]},
        {k: _stacked([b[k] for b in buffers], k) for k in buffers[0]},
    )
