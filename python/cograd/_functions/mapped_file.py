# SPDX-License-Identifier: BSD-3-Clause
"""from_file: a tensor over a file that is mapped into memory."""

from __future__ import annotations

import os
from typing import Any

import cograd
from cograd import Tensor

__all__ = [
    "from_file",
]


def from_file(
    filename: str | os.PathLike[str],
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Returns a vector over the first ``size`` elements of a file, mapped into memory.

    Args:
        filename: the file; with ``shared`` it is created, or extended if it is too short.
        shared: True writes changes to the file; otherwise they stay in this process.
        size: the number of elements; None counts as 0.
        dtype: the dtype of the elements in the file; the default dtype if None.

    Raises:
        RuntimeError: the file is missing or too short.
    """
    import numpy

    kind = cograd.get_default_dtype() if dtype is None else dtype
    if device is not None and cograd.device(device).type != "cpu":
        raise RuntimeError(f"from_file(): device must be 'cpu', got {device!r}")
    if layout is not None and str(layout).rpartition(".")[2] != "strided":
        raise RuntimeError(f"from_file(): layout must be strided, got {layout}")
    count = int(size or 0)
    if count < 0:
        raise RuntimeError(f"from_file(): size must not be negative, got {count}")
    path, needed = os.fspath(filename), count * kind.itemsize
    if shared:
        with open(path, "ab") as file:
            if file.tell() < needed:
                file.truncate(needed)
    found = os.path.getsize(path) if os.path.exists(path) else -1
    if found < needed:
        seen = "does not exist" if found < 0 else f"has {found} bytes"
        raise RuntimeError(f"from_file(): {path!r} {seen}, expected at least {needed} bytes")
    if count == 0:
        return cograd.empty(0, dtype=kind, requires_grad=requires_grad)
    raw = numpy.memmap(path, numpy.uint8, "r+" if shared else "c", 0, (needed,))
    result = cograd.from_numpy(raw).view(kind)
    return result.requires_grad_() if requires_grad else result
