# SPDX-License-Identifier: BSD-3-Clause
"""Functions and values of torch's internal modules that packages call while they run."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import cograd
from cograd import _C

__all__ = ["find_working"]


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Returns device, dtype, non_blocking and memory_format of arguments of ``Module.to``."""
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    other, memory_format = kwargs.pop("tensor", None), kwargs.pop("memory_format", None)
    non_blocking = kwargs.pop("non_blocking", None)
    kwargs.pop("copy", None)
    if kwargs:
        raise TypeError(f"to() received an unexpected keyword argument '{next(iter(kwargs))}'")
    for arg in args:
        if isinstance(arg, cograd.Tensor):
            other = arg
        elif isinstance(arg, cograd.dtype):
            dtype = arg
        elif isinstance(arg, bool):  # the first one; the second is copy
            non_blocking = arg if non_blocking is None else non_blocking
        elif arg is not None:
            device = arg
    if other is not None:
        device, dtype = other.device, other.dtype
    return (
        None if device is None else cograd.device(device),
        dtype,
        bool(non_blocking),
        memory_format,
    )


def _is_traceable_wrapper_subclass(t: Any) -> bool:
    """Returns False: no tensor is made of others that a tracer could see."""
    return False


class _PrintOptions:
    """The options of printing, as attributes that can be set."""

    def __getattr__(self, name: str) -> Any:
        try:
            return cograd.get_printoptions()[name]
        except KeyError:
            raise AttributeError(f"PRINT_OPTS has no attribute {name!r}", name=name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        cograd.set_printoptions(**{name: value})


def _add_batch_dim(t: Any, in_dim: int, level: int) -> Any:
    """Returns one sample of ``t`` for the vmap of that level."""
    return _C._add_samples(t, in_dim, level)


def _remove_batch_dim(t: Any, level: int, batch_size: int, out_dim: int) -> Any:
    """Returns all samples of a result of the vmap of that level."""
    return _C._take_samples(t, out_dim, level, batch_size)


def _maybe_remove_batch_dim(name: str, t: Any, level: int, batch_size: int, out_dim: Any) -> Any:
    """Returns all samples of a result; with ``out_dim`` None, a result equal for all samples."""
    if out_dim is None:
        if _is_batchedtensor(t) and _C._describe_samples(t)[0] == level:
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
            )
        return t
    if not isinstance(t, cograd.Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(t)}. Did you "
            "mean to set out_dims= to None for output?"
        )
    return _remove_batch_dim(t, level, batch_size, out_dim)


def _no_fake_mode(*inputs: Any) -> None:
    """Returns None: there are no fake tensors."""


def _is_batchedtensor(t: Any) -> bool:
    """Returns whether ``t`` is a sample inside a vmap."""
    return _C._describe_samples(t) is not None


def _get_unwrapped(t: Any) -> Any:
    """Returns the tensor of all samples; ``t`` itself outside of a vmap."""
    described = _C._describe_samples(t)
    return t if described is None else described[2]


_WORKING: dict[str, dict[str, Any]] = {
    "": {"StorageBase": cograd.UntypedStorage},
    "_C": {"StorageBase": cograd.UntypedStorage},
    "_C._functorch": {
        "_add_batch_dim": _add_batch_dim,
        "_remove_batch_dim": _remove_batch_dim,
        "get_unwrapped": _get_unwrapped,
        "is_batchedtensor": _is_batchedtensor,
    },
    "_functorch.vmap": {
        "_add_batch_dim": _add_batch_dim,
        "_maybe_remove_batch_dim": _maybe_remove_batch_dim,
        "_remove_batch_dim": _remove_batch_dim,
    },
    "_guards": {"active_fake_mode": _no_fake_mode, "detect_fake_mode": _no_fake_mode},
    "_C._nn": {"_parse_to": _parse_to},
    "_tensor_str": {"PRINT_OPTS": _PrintOptions()},
    "distributed.constants": {
        "default_pg_timeout": timedelta(minutes=30),
        "default_pg_nccl_timeout": timedelta(minutes=10),
    },
    "utils._python_dispatch": {"is_traceable_wrapper_subclass": _is_traceable_wrapper_subclass},
}
# Modules of torch whose names are in another module of cograd.
_ELSEWHERE = {
    "_C._nn": "nn.functional",
    "_subclasses.fake_tensor": "_as_torch.tracing",
    "_tensor_str": "_tensor.str",
    "distributed.tensor": "_as_torch.placements",
    "distributed.tensor.placement_types": "_as_torch.placements",
    "distributed._tensor": "distributed.tensor",
    "distributed._tensor.api": "distributed.tensor",
    "fx.experimental.proxy_tensor": "_as_torch.tracing",
}


def find_working(path: str, name: str) -> Any:
    """Returns what ``name`` is in the module ``path`` of torch, in a namespace; None if absent."""
    found = _WORKING.get(path, {})
    if name in found:
        return SimpleNamespace(value=found[name])
    if path in _ELSEWHERE:
        module = import_module(f"cograd.{_ELSEWHERE[path]}")
        if name in vars(module) and not name.startswith("__"):
            return SimpleNamespace(value=vars(module)[name])
    return None
