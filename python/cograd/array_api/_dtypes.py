# SPDX-License-Identifier: BSD-3-Clause
"""Dtypes of the standard: kinds, promotion, limits, and the library's capabilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import cograd
from cograd import Tensor

__all__ = [
    "__array_namespace_info__",
    "astype",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
]

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_REAL = ("float32", "float64")
_COMPLEX = ("complex64", "complex128")
_KINDS = {
    "bool": ("bool",),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": _SIGNED + _UNSIGNED,
    "real floating": _REAL,
    "complex floating": _COMPLEX,
    "numeric": _SIGNED + _UNSIGNED + _REAL + _COMPLEX,
}
# Dtypes that are not in the standard, by kind.
_MORE = {"real floating": ("float16", "bfloat16"), "numeric": ("float16", "bfloat16")}


def _dtypes_of(kind: str) -> tuple[Any, ...]:
    names = _KINDS[kind] + _MORE.get(kind, ())
    return tuple(getattr(cograd, name) for name in names)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Returns whether a dtype is of a kind: a name of the standard, a dtype, or a tuple of these.

    Raises:
        TypeError: ``dtype`` is not a dtype, or ``kind`` has another type.
        ValueError: a name is unknown.
    """
    if not isinstance(dtype, cograd.dtype):
        raise TypeError(f"isdtype(): expected a dtype, got {type(dtype).__name__}")
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, cograd.dtype):
        return dtype == kind
    if not isinstance(kind, str):
        raise TypeError(f"isdtype(): kind must be str, dtype or tuple, got {type(kind).__name__}")
    if kind not in _KINDS:
        raise ValueError(f"isdtype(): unknown kind {kind!r}; there are {', '.join(_KINDS)}")
    return dtype in _dtypes_of(kind)


def result_type(*arrays_and_dtypes: Any) -> Any:
    """Returns the dtype that arrays, dtypes and Python numbers promote to.

    0-dim arrays count like other arrays.

    Raises:
        ValueError: there are no arguments, or only numbers.
    """
    strong: list[Any] = []
    weak: list[Any] = []
    for item in arrays_and_dtypes:
        if isinstance(item, (Tensor, cograd.dtype)):
            strong.append(item.dtype if isinstance(item, Tensor) else item)
        elif isinstance(item, (bool, int, float, complex)):
            weak.append(item)
        else:
            raise TypeError(
                f"result_type(): expected arrays, dtypes and numbers, got {type(item).__name__}"
            )
    if not strong:
        raise ValueError("result_type(): at least one array or dtype is required")
    dtype = strong[0]
    for other in strong[1:]:
        dtype = cograd.promote_types(dtype, other)
    for number in weak:
        dtype = cograd.result_type(cograd.empty(1, dtype=dtype), number)
    return dtype


def can_cast(from_: Any, to: Any, /) -> bool:
    """Returns whether promotion converts a dtype, or an array's, to another one."""
    dtype = from_.dtype if isinstance(from_, Tensor) else from_
    return bool(cograd.promote_types(dtype, to) == to)


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """Converts ``x`` to a dtype; ``copy=False`` returns ``x`` itself if it has that dtype."""
    if device is not None:
        x = x.to(device)
    return x.to(dtype, copy=copy)


class _FInfo(NamedTuple):
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


class _IInfo(NamedTuple):
    bits: int
    max: int
    min: int
    dtype: Any


def _dtype_of(type: Any) -> Any:
    return type.dtype if isinstance(type, Tensor) else type


def finfo(type: Any, /) -> _FInfo:
    """Returns limits of a floating dtype, of a complex one's parts, or of an array's dtype."""
    dtype = _dtype_of(type)
    info = cograd.finfo(dtype)
    real = {cograd.complex64: cograd.float32, cograd.complex128: cograd.float64}.get(dtype, dtype)
    return _FInfo(info.bits, info.eps, info.max, info.min, info.smallest_normal, real)


def iinfo(type: Any, /) -> _IInfo:
    """Returns limits of an integer dtype, or of an array's dtype."""
    info = cograd.iinfo(_dtype_of(type))
    return _IInfo(info.bits, info.max, info.min, _dtype_of(type))


class _Info:
    """The library's capabilities, as returned by ``__array_namespace_info__()``."""

    def capabilities(self) -> dict[str, Any]:
        """Returns the capabilities, which include masks as indices and data-dependent shapes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """Returns the CPU."""
        return cograd.device("cpu")

    def devices(self) -> list[Any]:
        """Returns a list with only the CPU."""
        return [cograd.device("cpu")]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """Returns the dtypes that functions use by default."""
        real = cograd.get_default_dtype()
        wide = real == cograd.float64
        return {
            "real floating": real,
            "complex floating": cograd.complex128 if wide else cograd.complex64,
            "integral": cograd.int64,
            "indexing": cograd.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """Returns dtypes by name, all or of a kind; without float16 and bfloat16 (not standard)."""
        kinds = ("bool", "numeric") if kind is None else kind
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        for one in kinds:
            if one not in _KINDS:
                raise ValueError(f"dtypes(): unknown kind {one!r}; there are {', '.join(_KINDS)}")
        return {name: getattr(cograd, name) for one in kinds for name in _KINDS[one]}


def __array_namespace_info__() -> _Info:  # noqa: N807
    """Returns an object that reports capabilities, devices and dtypes."""
    return _Info()
