# SPDX-License-Identifier: BSD-3-Clause
"""Helpers of torch._utils that packages import."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import cograd
from cograd import Tensor

__all__: list[str] = []


def _rebuild_sparse_tensor(layout: Any, data: tuple[Any, ...]) -> Tensor:
    """Returns the sparse tensor of which a pickle has (*indices, values, size, is_coalesced)."""
    if layout == cograd.sparse_coo:
        at, values, size = data[:3]
        make: Any = cograd.sparse_coo_tensor
        arrays: tuple[Any, ...] = (at, values.detach())
        options = {"is_coalesced": bool(len(data) > 3 and data[3])}
    else:
        *arrays_, values, size = data
        make, options = cograd.sparse_compressed_tensor, {"layout": layout}
        arrays = (*arrays_, values.detach())
    out: Tensor = make(*arrays, size, requires_grad=values.requires_grad, **options)
    return out


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """Returns one new vector of the elements of all tensors."""
    return cograd.cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Returns views of the parts of ``flat``, in the shapes of ``tensors``."""
    parts, start = [], 0
    for t in tensors:
        parts.append(flat.narrow(0, start, t.numel()).view(t.shape))
        start += t.numel()
    return tuple(parts)


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Yields lists of tensors of one dtype, each of at most ``size_limit`` bytes or one tensor."""
    open_lists: dict[Any, tuple[list[Tensor], int]] = {}
    for t in tensors:
        found, size = open_lists.get(t.dtype, ([], 0))
        if found and size + t.nbytes > size_limit:
            yield found
            found, size = [], 0
        open_lists[t.dtype] = [*found, t], size + t.nbytes
    for found, _ in open_lists.values():
        if found:
            yield found


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Returns the index of a device; -1 for the CPU if ``allow_cpu``; an int is an index itself.

    Raises:
        ValueError: the device is the CPU, or has no index.
        RuntimeError: None with ``optional``: there is no current device.
    """
    if isinstance(device, str):
        device = cograd.device(device)
    if isinstance(device, cograd.device):
        if device.type == "cpu":
            if allow_cpu:
                return -1
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        device = device.index
    if isinstance(device, int):
        return device
    if optional:
        return cograd.cuda.current_device()
    raise ValueError(f"Expected a device with a specified index or an integer, but got: {device}")


class KeyErrorMessage(str):
    """A message that KeyError shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """Stores an exception and its traceback as text, to raise it elsewhere."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        info: Any = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = info[0]
        self.exc_msg = "".join(traceback.format_exception(*info))
        self.where = where

    def reraise(self) -> None:
        """Raises an exception of the stored type, with the stored text."""
        msg = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            msg = KeyErrorMessage(msg)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=msg)
        try:
            error = self.exc_type(msg)
        except Exception:  # the type has another constructor
            raise RuntimeError(msg) from None
        raise error
