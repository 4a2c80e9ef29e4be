# SPDX-License-Identifier: BSD-3-Clause
"""Layers that infer the number of their inputs from the first call."""

from __future__ import annotations

import inspect
from typing import Any

import cograd
from cograd import Tensor

from ..parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from .module import Module

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Lets a module wait for its first input; the module then becomes a ``cls_to_become``.

    Until then its parameters are UninitializedParameters, which have no shape. Loading a
    state_dict also sets their shapes.
    """

    cls_to_become: type[Module] | None = None

    def _wait(self) -> None:
        module: Any = self
        self._load_hook = module._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = module.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        module: Any = self
        for name, param in module._parameters.items():
            if param is not None:
                lazy = is_lazy(param) or keep_vars
                destination[prefix + name] = param if lazy else param.detach()
        for name, buffer in module._buffers.items():
            if buffer is not None and name not in module._non_persistent_buffers_set:
                lazy = is_lazy(buffer) or keep_vars
                destination[prefix + name] = buffer if lazy else buffer.detach()

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """Gives uninitialised parameters and buffers the shapes of the values to load."""
        module: Any = self
        for name, member in (*module._parameters.items(), *module._buffers.items()):
            key = prefix + name
            if member is None or key not in state_dict:
                continue
            value = state_dict[key]
            if is_lazy(member) and not is_lazy(value):
                with cograd.no_grad():
                    member.materialize(value.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Creates the parameters for the given input; subclasses define it."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Returns whether a parameter or buffer has no shape yet."""
        module: Any = self
        members = (*module._parameters.values(), *module._buffers.values())
        return any(is_lazy(member) for member in members)

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {type(self).__name__} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


class _LazyConvMixin(LazyModuleMixin):
    def reset_parameters(self) -> None:
        """Samples new weights and biases if they have a shape."""
        module: Any = self
        if not self.has_uninitialized_params() and module.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Creates the parameters for an input (N, C, *) or (C, *)."""
        module: Any = self
        if not self.has_uninitialized_params():
            return
        n = module._dims
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        channels = module.in_channels = input.shape[-n - 1]
        if channels % module.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        rows, columns = module.out_channels, channels // module.groups
        if module.transposed:
            rows, columns = channels, module.out_channels // module.groups
        with cograd.no_grad():
            module.weight.materialize((rows, columns, *module.kernel_size))
            if module.bias is not None:
                module.bias.materialize((module.out_channels,))
            self.reset_parameters()


def _without(base: type[Any], argument: str, what: str) -> str:
    """Returns the docstring of ``base`` without ``argument``; ``what`` says how it is inferred."""
    first = f"{base.__name__} whose {what}"
    summary, _, rest = inspect.cleandoc(base.__doc__ or "").partition("\n")
    kept = "\n".join(line for line in rest.split("\n") if not line.startswith(f"    {argument}:"))
    return f"{first}\n\n{summary}\n{kept}" if summary else first


def _lazy_conv(base: type[Any]) -> type[Any]:
    """Returns the lazy subclass of ``base``, which has no ``in_channels``."""
    parameters = [
        p
        for name, p in inspect.signature(base.__init__).parameters.items()
        if name != "in_channels"
    ]
    signature = inspect.Signature(parameters)

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        options = dict(given.arguments)
        options.pop("self")
        out_channels, bias = options.pop("out_channels"), options.pop("bias")
        base.__init__(self, 0, 0, bias=False, **options)
        where = {"device": options["device"], "dtype": options["dtype"]}
        self.weight = UninitializedParameter(**where)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(**where)
        self._wait()

    init.__signature__ = signature  # type: ignore[attr-defined]
    name = f"Lazy{base.__name__}"
    doc = _without(base, "in_channels", "``in_channels`` is inferred from its first input.")
    members = {
        "__init__": init,
        "__doc__": doc,
        "cls_to_become": base,
        "__module__": base.__module__,
    }
    return type(name, (_LazyConvMixin, base), members)


class _LazyNormMixin(LazyModuleMixin):
    def reset_parameters(self) -> None:
        """Sets the weight to one and the bias to zero if they have a shape."""
        module: Any = self
        if not self.has_uninitialized_params() and module.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:
        """Creates the parameters for an input (N, C, *)."""
        module: Any = self
        if not self.has_uninitialized_params():
            return
        module.num_features = input.shape[1]
        members = [module.weight, module.bias, module.running_mean, module.running_var]
        for member in members:
            if is_lazy(member):
                member.materialize((module.num_features,))
        self.reset_parameters()


def _lazy_norm(base: type[Any]) -> type[Any]:
    """Returns the lazy subclass of ``base``, which has no ``num_features``."""
    parameters = [
        p.replace(default=True) if name in ("affine", "track_running_stats") else p
        for name, p in inspect.signature(base.__init__).parameters.items()
        if name != "num_features"
    ]
    signature = inspect.Signature(parameters)

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        options = dict(given.arguments)
        options.pop("self")
        affine = options.pop("affine")
        tracks = options.pop("track_running_stats")
        with_bias = options.pop("bias")
        base.__init__(self, 0, affine=False, track_running_stats=False, **options)
        where = {"device": options["device"], "dtype": options["dtype"]}
        self.affine = affine
        self.track_running_stats = tracks
        if affine:
            self.weight = UninitializedParameter(**where)
            if with_bias:
                self.bias = UninitializedParameter(**where)
        if tracks:
            self.running_mean = UninitializedBuffer(**where)
            self.running_var = UninitializedBuffer(**where)
            count = cograd.tensor(0, dtype=cograd.int64, device=where["device"])
            self.num_batches_tracked = count
        self._wait()

    init.__signature__ = signature  # type: ignore[attr-defined]
    name = f"Lazy{base.__name__}"
    doc = _without(base, "num_features", "``num_features`` is inferred from its first input.")
    members = {
        "__init__": init,
        "__doc__": doc,
        "cls_to_become": base,
        "__module__": base.__module__,
    }
    return type(name, (_LazyNormMixin, base), members)
