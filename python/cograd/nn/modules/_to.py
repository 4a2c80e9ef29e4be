# SPDX-License-Identifier: BSD-3-Clause
"""Parses the arguments of ``Module.to``."""

from __future__ import annotations

from typing import Any, NamedTuple

import cograd
from cograd import Tensor

_TYPES = {float: cograd.float64, complex: cograd.complex128}  # Python's types name dtypes


class Target(NamedTuple):
    """Holds what ``Module.to`` converts to; None leaves a property as it is."""

    device: Any
    dtype: Any
    memory_format: Any


def _form(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
    """Returns the names of the positional arguments of the form that is called."""
    if "tensor" in kwargs or (args and isinstance(args[0], Tensor)):
        return ("tensor", "non_blocking", "copy")
    if args and isinstance(args[0], (cograd.dtype, type)):
        return ("dtype", "non_blocking", "copy")
    return ("device", "dtype", "non_blocking", "copy")


def _refuse(args: tuple[Any, ...], kwargs: dict[str, Any], why: str) -> TypeError:
    got = [type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
    return TypeError(
        f"to() received an invalid combination of arguments - got ({', '.join(got)}): {why}. But "
        "expected one of: (device=None, dtype=None, non_blocking=False), (dtype, "
        "non_blocking=False), (tensor, non_blocking=False), each with memory_format=None"
    )


def _fits(name: str, value: Any) -> bool:
    if name in ("non_blocking", "copy"):
        return isinstance(value, bool)
    kinds: dict[str, Any] = {
        "tensor": Tensor,
        "dtype": (cograd.dtype, type(None)),
        "device": (str, int, cograd.device, type(None)),
        "memory_format": (cograd.memory_format, type(None)),
    }
    if name == "dtype" and isinstance(value, type):
        return value in _TYPES
    return isinstance(value, kinds[name]) and not isinstance(value, bool)


def parse(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Target:
    """Returns what to convert to.

    Raises:
        TypeError: the arguments fit no form, or the dtype is an integer one.
        RuntimeError: ``copy`` was passed: a module converts in place.
    """
    names = _form(args, kwargs)
    given = dict(zip(names, args))
    if len(args) > len(names):
        raise _refuse(args, kwargs, f"there are {len(args)} positional arguments")
    for name, value in kwargs.items():
        if name not in (*names, "memory_format"):
            raise _refuse(args, kwargs, f"there is no argument {name!r}")
        if name in given:
            raise _refuse(args, kwargs, f"{name!r} was passed twice")
        given[name] = value
    for name, value in given.items():
        if not _fits(name, value):
            raise _refuse(args, kwargs, f"{name} is {value!r}")
    if "copy" in given:
        raise RuntimeError(".to() does not accept copy argument")
    device, dtype = given.get("device"), given.get("dtype")
    if "tensor" in given:
        device, dtype = given["tensor"].device, given["tensor"].dtype
    if isinstance(dtype, type):
        dtype = _TYPES[dtype]
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise TypeError(
            "nn.Module.to only accepts floating point or complex dtypes, but got desired "
            f"dtype={dtype}"
        )
    return Target(device, dtype, given.get("memory_format"))
