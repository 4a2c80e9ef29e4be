# SPDX-License-Identifier: BSD-3-Clause
"""The older weight_norm and spectral_norm, which use a forward pre-hook."""

from __future__ import annotations

import warnings
from typing import Any

import cograd
from cograd import Tensor

from .. import functional as F
from ..modules.module import Module
from ..parameter import Parameter
from ._norms import writing


class WeightNorm:
    """Computes a weight from its magnitude ``name_g`` and direction ``name_v`` before each call.

    Args:
        name: name of the parameter.
        dim: the dim that has a magnitude for each index; None for a single magnitude.
    """

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """Returns g v / |v|."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / cograd.norm_except_dim(v, 2, self.dim))  # type: ignore[no-any-return]

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Replaces the parameter ``name`` by ``name_g`` and ``name_v``: weight = g v / |v|.

    Prefer ``parametrizations.weight_norm``, which is newer.
    """
    warnings.warn(
        "`cograd.nn.utils.weight_norm` is deprecated in favor of "
        "`cograd.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, WeightNorm) and hook.name == name:
            raise RuntimeError(
                f"Cannot register two weight_norm hooks on the same parameter {name}"
            )
    made = WeightNorm(name, dim)
    weight = getattr(module, name)
    del module._parameters[name]
    module.register_parameter(
        name + "_g", Parameter(cograd.norm_except_dim(weight.detach(), 2, made.dim).clone())
    )
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    setattr(module, name, made.compute_weight(module))
    module.register_forward_pre_hook(made)
    return module


def _take_hook(module: Module, kind: type, name: str) -> Any:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:  # type: ignore[attr-defined]
            del module._forward_pre_hooks[key]
            return hook
    raise ValueError(f"{kind.__name__} of '{name}' not found in {module}")


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Makes the weight a parameter again; raises ValueError if it has no weight_norm."""
    hook = _take_hook(module, WeightNorm, name)
    weight = hook.compute_weight(module).detach()
    delattr(module, name)
    del module._parameters[name + "_g"]
    del module._parameters[name + "_v"]
    setattr(module, name, Parameter(weight))
    return module


class SpectralNorm:
    """Divides ``name_orig`` by its largest singular value before each call.

    Args:
        name: name of the parameter.
        n_power_iterations: number of power iterations in each training call, positive.
        dim: the dim of the outputs.
        eps: the lower limit of a norm to divide by.

    Raises:
        ValueError: ``n_power_iterations`` is not positive.
    """

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def matrix_of(self, weight: Tensor) -> Tensor:
        """Returns the weight as a matrix with one row for each output."""
        return weight.movedim(self.dim, 0).reshape(weight.shape[self.dim], -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Returns weight / (u^T W v)."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.matrix_of(weight)
        if do_power_iteration:
            with writing(u, v), cograd.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.detach().t() @ u, dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.detach() @ v, dim=0, eps=self.eps))
            u, v = u.clone(), v.clone()
        return weight / cograd.dot(u, cograd.mv(matrix, v))  # type: ignore[no-any-return]

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divides a weight by its largest singular value; the parameter becomes ``name_orig``.

    Prefer ``parametrizations.spectral_norm``, which is newer. ``dim`` is the dim of the outputs: 1
    for transposed convolutions, else 0.
    """
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            raise RuntimeError(
                f"Cannot register two spectral_norm hooks on the same parameter {name}"
            )
    made = SpectralNorm(name, n_power_iterations, dim, eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    with cograd.no_grad():
        matrix = made.matrix_of(weight.detach())
        u = F.normalize(matrix.new_empty(matrix.shape[0]).normal_(0, 1), dim=0, eps=eps)
        v = F.normalize(matrix.new_empty(matrix.shape[1]).normal_(0, 1), dim=0, eps=eps)
    del module._parameters[name]
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    module.register_forward_pre_hook(made)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Makes the weight a parameter again; raises ValueError if it has no spectral_norm."""
    hook = _take_hook(module, SpectralNorm, name)
    with cograd.no_grad():
        weight = hook.compute_weight(module, False).detach()
    delattr(module, name)
    for suffix in ("_u", "_v"):
        delattr(module, name + suffix)
    delattr(module, name + "_orig")
    module.register_parameter(name, Parameter(weight))
    return module
