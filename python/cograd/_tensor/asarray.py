# SPDX-License-Identifier: BSD-3-Clause
"""asarray: converts numeric data to a tensor, sharing its memory where possible."""

from __future__ import annotations

from typing import Any

from cograd import _C
from cograd._base.dtypes import dtype_name
from cograd._C import Tensor, from_dlpack, from_numpy, frombuffer, tensor


def is_ndarray(obj: Any) -> bool:
    # Matches only NumPy's own class and its subclasses, without importing NumPy.
    return any(c.__module__ == "numpy" and c.__name__ == "ndarray" for c in type(obj).__mro__)


def _supports_buffer(obj: Any) -> bool:
    try:
        memoryview(obj).release()
    except (TypeError, BufferError):
        return False
    return True


def _shared(obj: Any, dtype: Any) -> Tensor | None:
    """Returns ``obj`` as a tensor over the same memory, or None if it has none to share."""
    if isinstance(obj, Tensor):
        return obj
    if is_ndarray(obj):
        return from_numpy(obj)
    if hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        return from_dlpack(obj)
    if not hasattr(obj, "dtype") and _supports_buffer(obj):
        return frombuffer(obj, dtype=_C.get_default_dtype() if dtype is None else dtype)
    return None


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Converts ``obj`` to a tensor, sharing its memory where possible.

    Args:
        obj: a Tensor, NumPy array, DLPack capsule or object with ``__dlpack__``, object with the
            buffer protocol (read as ``dtype``), number, or nested sequence of numbers.
        dtype: the result's dtype; by default that of ``obj``.
        device: that of the result.
        copy: True always copies, False never, None only if necessary.
        requires_grad: True makes a result without history a leaf that requires grad, False
            detaches it, None keeps the requires_grad of ``obj``.

    Raises:
        ValueError: ``copy=False`` but the memory cannot be shared.
        TypeError: ``obj`` is none of the above.
    """
    if device is not None and _C.device(device).type != "cpu":
        _C._check_device(device)
        whole = asarray(obj, dtype=dtype, copy=copy).to(device)
        return whole if requires_grad is None else whole.detach().requires_grad_(requires_grad)
    shared = _shared(obj, dtype)
    if shared is None:
        if copy is False:
            raise ValueError("asarray(): can't alias arbitrary sequence into a tensor.")
        return tensor(obj, dtype=dtype, requires_grad=bool(requires_grad))
    result = shared
    if dtype is not None and result.dtype != dtype:
        if copy is False:
            raise ValueError(
                f"asarray(): can't alias tensor with dtype '{dtype_name(result.dtype)}' into dtype "
                f"'{dtype_name(dtype)}'."
            )
        result = result.to(dtype)
    elif copy:
        result = result.clone()
    if requires_grad is False and result.requires_grad:
        result = result.detach()
    elif requires_grad and not result.requires_grad:
        result = (result.detach() if result is obj else result).requires_grad_()
    return result
