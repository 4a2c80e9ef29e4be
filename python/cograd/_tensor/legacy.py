# SPDX-License-Identifier: BSD-3-Clause
"""FloatTensor, LongTensor and so on: constructors for one dtype, and types for isinstance."""

from __future__ import annotations

from typing import Any

from cograd import _C
from cograd._C import Size, Tensor
from cograd._dtypes import typename

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
]


class _TypedTensor(type):
    """A class for one dtype: calling it creates such tensors; isinstance checks the dtype."""

    dtype: Any

    def __call__(cls, *args: Any) -> Tensor:
        """Creates an uninitialised tensor from sizes, or converts a sequence, array or tensor."""
        if len(args) != 1 or isinstance(args[0], (int, Size)):
            return _C._ops.empty(
                args[0] if args and isinstance(args[0], Size) else args or 0, dtype=cls.dtype
            )
        data = args[0]
        if isinstance(data, Tensor):
            if data.dtype != cls.dtype:
                raise TypeError(
                    f"{cls.__name__}(): expected a tensor of dtype {cls.dtype}, got {data.dtype}"
                )
            return data.detach()
        if not hasattr(data, "__len__"):
            raise TypeError(
                f"{cls.__name__}(): data must be a sequence (got {data.__class__.__name__})"
            )
        return _C.tensor(data, dtype=cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype == cls.dtype

    def __repr__(cls) -> str:
        return f"<class 'cograd.{cls.__name__}'>"


def _typed(name: str, dtype: Any) -> Any:
    doc = f"Makes tensors of {dtype}; see Tensor."
    return _TypedTensor(name, (), {"dtype": dtype, "__module__": "cograd", "__doc__": doc})


_to_type = Tensor.type


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> str | Tensor:
    """Returns the name of the tensor's type, or converts the tensor to ``dtype``.

    Args:
        dtype: a dtype, one of the classes of this module, or such a class's name.
        non_blocking: accepted and ignored.

    Raises:
        ValueError: ``dtype`` is a string that names no type.
        TypeError: ``dtype`` is something else.
    """
    if dtype is None:
        return typename(self)
    if isinstance(dtype, str):
        found = globals().get(dtype.rpartition(".")[2]) if dtype.startswith(_PREFIXES) else None
        if not isinstance(found, _TypedTensor):
            raise ValueError(f"invalid type: {dtype!r}")
        dtype = found
    if isinstance(dtype, _TypedTensor):
        dtype = dtype.dtype
    elif not isinstance(dtype, _C.dtype):
        raise TypeError(
            f"dtype must be a type, str, or dtype object, got {dtype.__class__.__name__}"
        )
    return _to_type(self, dtype, non_blocking)


_PREFIXES = ("torch.", "cograd.")
Tensor.type = _type  # type: ignore[method-assign, assignment]

BFloat16Tensor = _typed("BFloat16Tensor", _C.bfloat16)
BoolTensor = _typed("BoolTensor", _C.bool)
ByteTensor = _typed("ByteTensor", _C.uint8)
CharTensor = _typed("CharTensor", _C.int8)
DoubleTensor = _typed("DoubleTensor", _C.float64)
FloatTensor = _typed("FloatTensor", _C.float32)
HalfTensor = _typed("HalfTensor", _C.float16)
IntTensor = _typed("IntTensor", _C.int32)
LongTensor = _typed("LongTensor", _C.int64)
ShortTensor = _typed("ShortTensor", _C.int16)
