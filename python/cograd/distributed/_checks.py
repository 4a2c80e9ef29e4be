# SPDX-License-Identifier: BSD-3-Clause
"""Checks arguments; all checks run before anything is sent."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cograd
from cograd._C import _check_written

if TYPE_CHECKING:
    from cograd import Tensor

__all__ = [
    "check_int",
    "check_lengths",
    "check_list",
    "check_same",
    "check_tensor",
    "check_written",
    "without_memory",
]


def check_int(name: str, argument: str, value: Any) -> int:
    """Returns an int of Python or NumPy; raises TypeError for anything else, also for bool."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"{name}: {argument} must be an int, got {type(value).__name__}")


def check_tensor(name: str, argument: str, tensor: Any) -> None:
    """Raises TypeError unless ``tensor`` is a Tensor."""
    if not isinstance(tensor, cograd.Tensor):
        raise TypeError(
            f"{name}: Invalid function argument. Expected parameter `{argument}` of type "
            f"Tensor but got {type(tensor)} instead."
        )


def check_list(name: str, argument: str, tensors: Any) -> list[Tensor]:
    """Returns a copy of a list of tensors; raises TypeError if it is something else."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}: Invalid function argument. Expected parameter `{argument}` of type "
            f"list of Tensor but got {type(tensors)} instead."
        )
    for tensor in tensors:
        if not isinstance(tensor, cograd.Tensor):
            raise TypeError(
                f"{name}: Invalid function argument. Expected parameter `{argument}` of type "
                f"list of Tensor but got one with an element of type {type(tensor)}."
            )
    return list(tensors)


def without_memory(name: str, error: RuntimeError) -> RuntimeError:
    """Returns ``error``, or for an error of vmap one that says what to use instead."""
    if not str(error).startswith("vmap:"):
        return error
    return RuntimeError(
        f"{name}: a tensor inside vmap holds a batch and has no memory of its own to communicate; "
        "use the functions of cograd.distributed.nn.functional, which support vmap"
    )


def check_written(name: str, argument: str, tensor: Any) -> None:
    """Raises RuntimeError unless a tensor may be written and has no internal overlap."""
    check_tensor(name, argument, tensor)
    try:
        _check_written(tensor, name)
    except RuntimeError as error:
        raise without_memory(name, error) from None
    if tensor.is_contiguous():
        return
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    if any(size > 1 and stride == 0 for size, stride in sizes):
        raise RuntimeError(
            f"{name}: {argument} of shape {list(tensor.shape)} and stride "
            f"{list(tensor.stride())} has several elements at one place in memory and cannot be "
            "written; clone() it first"
        )


def check_lengths(name: str, argument: str, tensors: Sequence[object], size: int) -> None:
    """Raises RuntimeError unless a list has one element for each rank."""
    if len(tensors) != size:
        raise RuntimeError(
            f"{name}: {argument} has {len(tensors)} elements, expected one for each of the "
            f"{size} ranks of the group"
        )


def check_same(
    name: str,
    argument: str,
    tensors: Sequence[Tensor],
    like: Tensor,
    *,
    shapes: bool = False,
) -> None:
    """Raises ValueError if a dtype, RuntimeError if a shape, differs from that of ``like``."""
    for at, tensor in enumerate(tensors):
        if tensor.dtype is not like.dtype:
            raise ValueError(
                f"{name}: Invalid usage of tensors with different dtypes. Found {like.dtype} and "
                f"{tensor.dtype} ({argument}, element {at})"
            )
        if shapes and tensor.shape != like.shape:
            raise RuntimeError(
                f"{name}: invalid tensor size at index {at} of {argument} (expected "
                f"{tuple(like.shape)}, got {tuple(tensor.shape)})"
            )
