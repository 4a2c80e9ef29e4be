# SPDX-License-Identifier: BSD-3-Clause
"""The package functorch, which comes with torch: func under its old name, and functional modules.

The alias imports this module for ``import functorch``.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import cograd
from cograd import Tensor, nn
from cograd.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vjp,
    vmap,
)

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "vjp",
    "vmap",
]

__version__ = cograd.__version__


def _copied(model: Any, disable_autograd_tracking: bool) -> Any:
    """Returns a copy of ``model``, whose parameters the caller gets."""
    model = copy.deepcopy(model)
    if disable_autograd_tracking:
        for parameter in model.parameters():
            parameter.requires_grad_(False)
    return model


class FunctionalModule(nn.Module):
    """A module as a function of its parameters: ``f(params, *args)``."""

    def __init__(self, stateless_model: Any) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(dict(stateless_model.named_parameters()))

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Calls the module with ``params`` in the order of ``named_parameters()``."""
        state = dict(zip(self.param_names, params, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModuleWithBuffers(nn.Module):
    """A module as a function of its parameters and buffers: ``f(params, buffers, *args)``."""

    def __init__(self, stateless_model: Any) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(dict(stateless_model.named_parameters()))
        self.buffer_names = tuple(dict(stateless_model.named_buffers()))

    def forward(
        self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        """Calls the module with the given parameters and buffers."""
        state = dict(zip(self.param_names, params, strict=True))
        state.update(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


def make_functional(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """Returns ``model`` as a function of its parameters, and copies of these.

    Raises:
        RuntimeError: the module has buffers.
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    made = FunctionalModule(_copied(model, disable_autograd_tracking))
    return made, tuple(made.stateless_model.parameters())


def make_functional_with_buffers(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Returns ``model`` as a function of its parameters and buffers, and copies of these."""
    made = FunctionalModuleWithBuffers(_copied(model, disable_autograd_tracking))
    inner = made.stateless_model
    return made, tuple(inner.parameters()), tuple(inner.buffers())


def combine_state_for_ensemble(
    models: Sequence[Any],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Returns the first model as a function, and the stacked states of all models, for ``vmap``.

    Raises:
        RuntimeError: there is no model, or they differ in their class or mode.
    """
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({bool(model.training) for model in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same training/eval mode."
        )
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to be of the same class."
        )
    made = [make_functional_with_buffers(model) for model in models]

    def stacked(place: int) -> tuple[Tensor, ...]:
        states: list[Any] = [entry[place] for entry in made]
        return tuple(cograd.stack(tensors).detach() for tensors in zip(*states, strict=True))

    return made[0][0], stacked(1), stacked(2)
