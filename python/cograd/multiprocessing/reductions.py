# SPDX-License-Identifier: BSD-3-Clause
"""Makes ``multiprocessing`` send tensors as sizes, strides and the descriptor of a memory file."""

from __future__ import annotations

import os
import pickle
from multiprocessing import context, reduction
from typing import Any

from cograd import _C, Tensor, UntypedStorage
from cograd.nn.parameter import Parameter

__all__ = [
    "ForkingPickler",
    "init_reductions",
    "rebuild_storage",
    "reduce_storage",
    "reduce_tensor",
]

ForkingPickler = reduction.ForkingPickler


def rebuild_storage(handle: Any, nbytes: int) -> UntypedStorage:
    """Maps the memory behind ``handle``; a process maps the same memory only once."""
    fd = handle.detach()
    try:
        return _C._open_shared(fd, nbytes, True, False)  # type: ignore[no-any-return]
    finally:
        os.close(fd)


def _shared_copy(storage: UntypedStorage) -> UntypedStorage:
    copy: UntypedStorage = _C._new_shared(storage.nbytes())
    with memoryview(storage) as source, memoryview(copy) as target:
        target[:] = source
    return copy


def reduce_storage(storage: UntypedStorage) -> tuple[Any, ...]:
    """Reduces a storage to its file, or to that of a copy in shared memory."""
    if storage.nbytes() == 0:
        return storage.__reduce_ex__(2)  # type: ignore[return-value]
    if _C._shared_fd(storage) < 0:
        storage = _shared_copy(storage)
    popen = context.get_spawning_popen()
    if popen is not None:  # keeps the file open until the child gets it
        vars(popen).setdefault("_cograd_storages", []).append(storage)
    return rebuild_storage, (reduction.DupFd(_C._shared_fd(storage)), storage.nbytes())


def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """Reduces a tensor, and moves its memory to shared memory if nothing else uses it.

    Raises:
        RuntimeError: the tensor has a history.
    """
    if tensor.is_leaf and tensor.untyped_storage().nbytes() > 0:
        _C._share_tensor(tensor, [])
    return tensor.__reduce_ex__(pickle.DEFAULT_PROTOCOL)  # type: ignore[return-value]


def init_reductions() -> None:
    """Registers the reductions with ``multiprocessing``; called when this package is imported."""
    ForkingPickler.register(UntypedStorage, reduce_storage)
    for kind in (Tensor, Parameter):
        ForkingPickler.register(kind, reduce_tensor)
