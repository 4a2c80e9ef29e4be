# SPDX-License-Identifier: BSD-3-Clause
"""torch._check and its variants: raise an exception unless a condition holds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import cograd
from cograd import Tensor

__all__: list[str] = []

_Message = Callable[[], Any] | None
_UNSAID = "Expected cond to be True, but got False."


def _assert(condition: Any, message: Any) -> None:
    """Raises AssertionError with ``message`` unless ``condition`` holds."""
    if not condition:
        raise AssertionError(message)


def _raise(error: type[Exception], message: _Message) -> None:
    if message is None:
        raise error(_UNSAID)
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error(str(message()))


def _check_with(error_type: type[Exception], cond: Any, message: _Message = None) -> None:
    """Raises ``error_type`` with the result of ``message()`` unless ``cond``, a bool, is True."""
    if isinstance(cond, Tensor):
        raise TypeError(
            "cond must be a bool, but got a Tensor. For tensor conditions, use "
            "_check_tensor_all() to assert that all elements are true."
        )
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        _raise(error_type, message)


def _check(cond: Any, message: _Message = None) -> None:
    """Raises RuntimeError unless ``cond`` is True."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: _Message = None) -> None:
    """Raises IndexError unless ``cond`` is True."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: _Message = None) -> None:
    """Raises ValueError unless ``cond`` is True."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: _Message = None) -> None:
    """Raises TypeError unless ``cond`` is True."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: _Message = None) -> None:
    """Raises NotImplementedError unless ``cond`` is True."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: _Message = None, *, max: Any = None) -> None:
    """Raises RuntimeError unless 0 <= ``i`` <= ``max``; deprecated, as in torch."""
    warnings.warn(
        "_check_is_size will be removed in a future PyTorch release along with "
        "guard_size_oblivious.     Use _check(i >= 0) instead.",
        FutureWarning,
        stacklevel=2,
    )
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Any, message: _Message = None
) -> None:
    """Raises ``error_type`` unless all elements of ``cond``, a tensor of bools, are True."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype != cograd.bool:
        raise TypeError(f"cond tensor must have dtype {cograd.bool}, but got {cond.dtype}")
    if not cond.all().item():
        _raise(error_type, message)


def _check_tensor_all(cond: Any, message: _Message = None) -> None:
    """Raises RuntimeError unless all elements of ``cond``, a tensor of bools, are True."""
    _check_tensor_all_with(RuntimeError, cond, message)
