# SPDX-License-Identifier: BSD-3-Clause
"""Pruning: a parameter ``name`` becomes ``name_orig`` times the buffer ``name_mask``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import cograd
from cograd import Tensor

from ..modules.module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


def _check_amount(amount: Any) -> None:
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if (isinstance(amount, int) and amount < 0) or (
        isinstance(amount, float) and not 0.0 <= amount <= 1.0
    ):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _count(amount: float, size: int) -> int:
    """Returns how many of ``size`` elements to prune; raises ValueError if it exceeds ``size``."""
    if isinstance(amount, int):
        if amount > size:
            raise ValueError(
                f"amount={amount} should be smaller than the number of parameters to prune={size}"
            )
        return amount
    return round(amount * size)


def _check_structured(t: Tensor, dim: int) -> None:
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {tuple(t.shape)} with {t.dim()} dims"
        )
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {tuple(t.shape)}")


def _validate_pruning_amount(amount: float, tensor_size: int) -> None:
    """Raises ValueError if there are fewer elements than are to be pruned."""
    _count(amount, tensor_size)


def _validate_structured_pruning(t: Tensor) -> None:
    """Raises ValueError for tensors with fewer than two dims."""
    _check_structured(t, -1)


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    """Raises IndexError if there is no such dim."""
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {tuple(t.shape)}")


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    """Returns the n-norm over all dims but ``dim``."""
    dims = [d for d in range(t.dim()) if d != dim % t.dim()]
    return cograd.norm(t, p=n, dim=dims)


# Names by which pruning methods of other packages call these.
_validate_pruning_amount_init = _check_amount
_compute_nparams_toprune = _count


class BasePruningMethod(ABC):
    """Chooses what to prune; as a forward pre-hook, multiplies by the mask.

    Subclasses set ``PRUNING_TYPE`` and define ``compute_mask(t, default_mask)``; the class method
    ``apply(module, name, ...)`` prunes.
    """

    _tensor_name: str
    PRUNING_TYPE = "unstructured"

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Returns ``default_mask`` with additional zeros where ``t`` is to be pruned."""

    def apply_mask(self, module: Module) -> Tensor:
        """Returns the pruned tensor."""
        if not hasattr(self, "_tensor_name"):
            raise AssertionError(f"Module {module} has to be pruned")
        mask = getattr(module, self._tensor_name + "_mask")
        orig = getattr(module, self._tensor_name + "_orig")
        return mask.to(orig.dtype) * orig  # type: ignore[no-any-return]

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Prunes ``name`` of ``module``, further if it is pruned already.

        ``importance_scores``, of its shape, are used instead of its values if given.
        """
        found = [
            (key, hook)
            for key, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        orig = getattr(module, name)
        scores = orig if importance_scores is None else importance_scores
        if scores.shape != orig.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}"
            )
        if found:
            key, old = found[0]
            del module._forward_pre_hooks[key]
            chain = PruningContainer(old)
            chain.add_pruning_method(method)
            mask = chain.compute_mask(scores, getattr(module, name + "_mask"))
            method = chain
        else:
            mask = method.compute_mask(scores, cograd.ones_like(orig))
            param = module._parameters.pop(name)
            module.register_parameter(name + "_orig", param)
        module.register_buffer(name + "_mask", mask.detach())
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """Returns ``t``, pruned without a module."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        mask = cograd.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Makes the pruned tensor the parameter again."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        orig = module._parameters.pop(name + "_orig")
        orig.data = weight.detach()
        del module._buffers[name + "_mask"]
        setattr(module, name, orig)


class PruningContainer(BasePruningMethod):
    """Applies several methods; each one prunes what the previous ones have left.

    Args:
        args: pruning methods, or one iterable of them, of the same parameter.

    Raises:
        TypeError: an argument is not a pruning method.
        ValueError: a method prunes another parameter.
    """

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1 and isinstance(args[0], BasePruningMethod):
            self._tensor_name = args[0]._tensor_name
        methods = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        for method in methods:
            for one in method if isinstance(method, PruningContainer) else (method,):
                self.add_pruning_method(one)

    def add_pruning_method(self, method: Any) -> None:
        """Appends a pruning method."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        name = getattr(self, "_tensor_name", None)
        if method is not None and name is not None and method._tensor_name != name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Applies the last method to what ``default_mask`` leaves; returns the combined mask."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype)
        kind = method.PRUNING_TYPE
        if kind == "unstructured":
            kept = mask == 1
            new = mask.clone()
            new[kept] = method.compute_mask(t[kept], mask[kept]).to(mask.dtype)
            return new
        if kind == "structured":
            dim = getattr(method, "dim", 0) % t.dim()
            rest = [d for d in range(t.dim()) if d != dim]
            kept = mask.sum(rest) != 0
            at = cograd.argwhere(kept)[:, 0]
            part = method.compute_mask(t.index_select(dim, at), mask.index_select(dim, at))
            return mask.index_copy(dim, at, part.to(mask.dtype))
        if kind == "global":
            return method.compute_mask(t, mask)  # type: ignore[no-any-return]
        raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")


class Identity(BasePruningMethod):
    """Prunes nothing; adds a mask of ones to the parameter."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Returns ``default_mask`` unchanged."""
        return default_mask


class _Amount(BasePruningMethod):
    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    def _without(self, default_mask: Tensor, at: Tensor) -> Tensor:
        mask = default_mask.clone().contiguous()
        mask.view(-1)[at] = 0
        return mask


class RandomUnstructured(_Amount):
    """Prunes random elements: a number or fraction ``amount`` of them.

    Args:
        amount: a number of elements, an int, or a fraction in [0, 1].

    Raises:
        TypeError: ``amount`` is not a number.
        ValueError: ``amount`` is negative, a fraction above 1, or exceeds the number of elements.
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Returns the mask with ``amount`` more zeros."""
        count = _count(self.amount, t.numel())
        return self._without(
            default_mask, cograd.rand(t.numel(), device=t.device).topk(count).indices
        )


class L1Unstructured(_Amount):
    """Prunes the elements with the smallest absolute values: a number or fraction ``amount``.

    Args:
        amount: a number of elements, an int, or a fraction in [0, 1].

    Raises:
        TypeError: ``amount`` is not a number.
        ValueError: ``amount`` is negative, a fraction above 1, or exceeds the number of elements.
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Returns the mask with ``amount`` more zeros."""
        count = _count(self.amount, t.numel())
        at = t.detach().abs().reshape(-1).topk(count, largest=False).indices
        return self._without(default_mask, at)


class _Channels(BasePruningMethod):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.dim = dim

    def _scores(self, t: Tensor) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Returns the mask with zeros in the pruned channels."""
        _check_structured(t, self.dim)
        count = _count(self.amount, t.shape[self.dim])
        at = self._scores(t.detach()).topk(count, largest=False).indices
        return default_mask.index_fill(self.dim, at, 0)


class RandomStructured(_Channels):
    """Prunes random channels along ``dim``: a number or fraction ``amount`` of them.

    Args:
        amount: a number of channels, an int, or a fraction in [0, 1].
        dim: the dim of the channels.

    Raises:
        TypeError: ``amount`` is not a number.
        ValueError: ``amount`` is negative, a fraction above 1, or exceeds the number of channels;
            or the tensor has one dim.
        IndexError: ``dim`` does not exist.
    """

    def _scores(self, t: Tensor) -> Tensor:
        return cograd.rand(t.shape[self.dim], device=t.device)


class LnStructured(_Channels):
    """Prunes the channels with the smallest n-norm along ``dim``: a number or fraction ``amount``.

    Args:
        amount: a number of channels, an int, or a fraction in [0, 1].
        n: order of the norm: a number, inf, -inf, 'fro' or 'nuc'.
        dim: the dim of the channels.

    Raises:
        TypeError: ``amount`` is not a number.
        ValueError: ``amount`` is negative, a fraction above 1, or exceeds the number of channels;
            or the tensor has one dim.
        IndexError: ``dim`` does not exist.
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor) -> Tensor:
        dims = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        return cograd.norm(t, p=self.n, dim=dims)


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is zero.

    Args:
        mask: a tensor of 0 and 1 with the parameter's shape.

    Raises:
        AssertionError: the mask has another shape.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Returns the product of both masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError("the mask should have the shape of the parameter")
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """Adds a mask of ones to the parameter."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prunes random elements of the parameter: a number or fraction ``amount`` of them."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Prunes the parameter's elements with the smallest absolute values."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prunes random channels along ``dim``: a number or fraction ``amount`` of them."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module,
    name: str,
    amount: float,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Module:
    """Prunes the channels with the smallest n-norm along ``dim``."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prunes where ``mask`` is zero."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: Any,
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prunes several (module, name) together: the method sees all elements as one tensor."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs = list(parameters)
    given = {} if importance_scores is None else importance_scores
    if not isinstance(given, dict):
        raise TypeError("global_unstructured(): importance_scores should be of type dict")
    scores = [given.get(pair, getattr(*pair)).reshape(-1) for pair in pairs]
    masks = [
        getattr(module, name + "_mask", cograd.ones_like(getattr(module, name))).reshape(-1)
        for module, name in pairs
    ]
    chain = PruningContainer()
    chain._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    chain.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    final = chain.compute_mask(cograd.cat(scores), cograd.cat(masks))
    for (module, name), part in zip(pairs, final.split([m.numel() for m in masks])):
        custom_from_mask(module, name, part.reshape(getattr(module, name).shape))


def remove(module: Module, name: str) -> Module:
    """Makes the pruned tensor the parameter again; raises ValueError if it is not pruned."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Returns whether ``module`` or a descendant has a pruned parameter."""
    return any(
        isinstance(hook, BasePruningMethod)
        for _, part in module.named_modules()
        for hook in part._forward_pre_hooks.values()
    )
