# SPDX-License-Identifier: BSD-3-Clause
"""FloatTensor, LongTensor and so on: constructors for one dtype, and types for isinstance."""

from __future__ import annotations

from typing import Any

from cograd import _C
from cograd._base.dtypes import typename
from cograd._C import Size, Tensor

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
    """A class for a dtype and a kind of device: it creates such tensors; isinstance checks both."""

    dtype: Any
    on_gpu: bool

    def __call__(cls, *args: Any) -> Tensor:
        """Creates an uninitialised tensor from sizes, or converts a sequence, array or tensor."""
        if len(args) != 1 or isinstance(args[0], (int, Size)):
            return _C._ops.empty(
                args[0] if args and isinstance(args[0], Size) else args or 0,
                dtype=cls.dtype,
                device=cls._device(),
            )
        data = args[0]
        if isinstance(data, Tensor):
            if not isinstance(data, cls):
                raise TypeError(
                    f"{cls.__name__}(): expected a tensor of dtype {cls.dtype} on the "
                    f"{'GPU' if cls.on_gpu else 'CPU'}, got {data.dtype} on {data.device}"
                )
            return data.detach()
        if not hasattr(data, "__len__"):
            raise TypeError(
                f"{cls.__name__}(): data must be a sequence (got {data.__class__.__name__})"
            )
        return _C.tensor(data, dtype=cls.dtype, device=cls._device())

    def _device(cls) -> str | None:
        return "cuda" if cls.on_gpu else None

    def __instancecheck__(cls, instance: Any) -> bool:
        same = isinstance(instance, Tensor) and instance.dtype == cls.dtype
        return same and instance.is_cuda == cls.on_gpu

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"


def _typed(name: str, dtype: Any, module: str = "cograd") -> Any:
    on_gpu = module == "cograd.cuda"
    doc = f"Makes tensors of {dtype}{' on the GPU' if on_gpu else ''}; see Tensor."
    facts = {"dtype": dtype, "on_gpu": on_gpu, "__module__": module, "__doc__": doc}
    return _TypedTensor(name, (), facts)


_to_type = Tensor.type


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> str | Tensor:
    """Returns the name of the tensor's type, or converts the tensor to ``dtype``.

    Args:
        dtype: a dtype, a class such as ``FloatTensor`` or ``cuda.FloatTensor``, which also says
            whether the result is on a GPU, or such a class's name.
        non_blocking: accepted and ignored.

    Raises:
        ValueError: ``dtype`` is a string that names no type.
        TypeError: ``dtype`` is something else.
    """
    if dtype is None:
        return typename(self)
    if isinstance(dtype, str):
        package, _, name = dtype.partition(".")
        found = ON_GPU.get(name[5:]) if name.startswith("cuda.") else globals().get(name)
        if package not in ("torch", "cograd") or not isinstance(found, _TypedTensor):
            raise ValueError(f"invalid type: {dtype!r}")
        dtype = found
    if isinstance(dtype, _TypedTensor):
        if dtype.on_gpu != self.is_cuda:
            return self.to("cuda" if dtype.on_gpu else "cpu", dtype.dtype, non_blocking)
        dtype = dtype.dtype
    elif not isinstance(dtype, _C.dtype):
        raise TypeError(
            f"dtype must be a type, str, or dtype object, got {dtype.__class__.__name__}"
        )
    return _to_type(self, dtype, non_blocking)


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

# The classes of the module cuda.
ON_GPU = {name: _typed(name, globals()[name].dtype, "cograd.cuda") for name in __all__}
