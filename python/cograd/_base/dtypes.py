# SPDX-License-Identifier: BSD-3-Clause
"""Queries about dtypes and tensors (finfo, iinfo, promotion, type names); devices as contexts."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from cograd import _C
from cograd._C import Tensor, can_cast, dtype, promote_types, result_type

__all__ = [
    "can_cast",
    "finfo",
    "iinfo",
    "is_complex",
    "is_floating_point",
    "is_nonzero",
    "is_storage",
    "is_tensor",
    "numel",
    "promote_types",
    "result_type",
    "set_default_dtype",
    "typename",
]


_F = TypeVar("_F", bound=Callable[..., Any])


def dtype_name(value: Any) -> str:
    """Returns the name without the package: float32."""
    return str(value).rsplit(".", 1)[-1]


class _TypeInfo:
    """Fields of a dtype's numeric range; equal when made for the same dtype."""

    _fields: tuple[str, ...] = ()

    def __init__(self, type: Any) -> None:
        self._type = type
        self.dtype = dtype_name(type)
        for name, value in _C._dtype_info(type).items():
            setattr(self, name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TypeInfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((self.__class__, self.dtype))

    def __repr__(self) -> str:
        parts = [f"{name}={getattr(self, name):g}" for name in self._fields]
        return f"{self.__class__.__name__}({', '.join(parts)}, dtype={self.dtype})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (self.__class__, (self._type,))


_OF_PYTHON_TYPE = {
    float: _C.float64,
    int: _C.int64,
    bool: _C.bool,
    complex: _C.complex128,
}


def _as_dtype(op: str, value: Any) -> Any:
    """Returns ``value`` if it is a dtype, or the dtype of a Python number type."""
    if isinstance(value, type):
        value = _OF_PYTHON_TYPE.get(value, value)
    if not isinstance(value, dtype):
        raise TypeError(
            f"{op}(): argument 'type' (position 1) must be cograd.dtype, "
            f"not {value.__class__.__name__}"
        )
    return value


class finfo(_TypeInfo):
    """The limits of a floating dtype, or of the parts of a complex one.

    Args:
        type: a floating or complex dtype; by default the default dtype.

    Raises:
        TypeError: ``type`` is not a dtype, or is an integer dtype.
    """

    _fields = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    smallest_normal: float
    resolution: float

    def __init__(self, type: Any = None) -> None:
        if type is None:
            type = _C.get_default_dtype()
        if getattr(type, "limits", None):  # one of the names in _symbols
            self._type, self.dtype = type, dtype_name(type)
            vars(self).update(type.limits)
            return
        type = _as_dtype("finfo", type)
        if not (type.is_floating_point or type.is_complex):
            raise TypeError(
                f"finfo() requires a floating point dtype, got {dtype_name(type)}; "
                "use iinfo for integer dtypes"
            )
        super().__init__(type.to_real())


class iinfo(_TypeInfo):
    """The limits of an integer dtype.

    Args:
        type: an integer dtype.

    Raises:
        TypeError: ``type`` is not a dtype, or not an integer dtype.
    """

    _fields = ("min", "max")
    bits: int
    max: int
    min: int

    def __init__(self, type: Any) -> None:
        type = _as_dtype("iinfo", type)
        if type.is_floating_point or type.is_complex or type == _C.bool:
            raise TypeError(
                f"iinfo() requires an integer dtype, got {dtype_name(type)}"
                + ("; use finfo for floating dtypes" if type.is_floating_point else "")
            )
        super().__init__(type)


def _check_tensor(op: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{op}(): argument 'input' (position 1) must be Tensor, not {value.__class__.__name__}"
        )


def is_tensor(obj: Any) -> bool:
    """Returns whether ``obj`` is a Tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Returns whether ``obj`` is the storage of a tensor."""
    return isinstance(obj, _C.UntypedStorage)


def is_floating_point(input: Tensor) -> bool:
    """Returns whether ``input`` has a floating dtype. Raises TypeError if it is not a Tensor."""
    _check_tensor("is_floating_point", input)
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Returns whether ``input`` has a complex dtype. Raises TypeError if it is not a Tensor."""
    _check_tensor("is_complex", input)
    return input.dtype.is_complex


def is_nonzero(input: Tensor) -> bool:
    """Returns whether the only element of ``input`` is not zero.

    Raises:
        RuntimeError: ``input`` does not have exactly one element.
    """
    _check_tensor("is_nonzero", input)
    return bool(input)


def numel(input: Tensor) -> int:
    """Returns the number of elements of ``input``. Raises TypeError if it is not a Tensor."""
    _check_tensor("numel", input)
    return input.numel()


def set_default_dtype(d: Any) -> None:
    """Sets the dtype of new floating tensors.

    Args:
        d: a floating dtype.

    Raises:
        TypeError: ``d`` is not a floating dtype.
    """
    if not isinstance(d, dtype):
        raise TypeError(
            "set_default_dtype(): only floating-point types are supported as the default type, "
            f"got {d!r}"
        )
    _C._set_default_dtype(d)


def typename(obj: Any, /) -> str:
    """Returns the full name of an object's type; for a tensor, the name contains its dtype."""
    if isinstance(obj, Tensor):
        place = ".cuda" if obj.is_cuda else ""
        return f"{_C._public_name()}{place}.{_C._scalar_type_name(obj.dtype)}Tensor"
    owner = obj if hasattr(obj, "__qualname__") else obj.__class__
    module = getattr(owner, "__module__", None) or ""
    if module in ("builtins", "__builtin__"):
        module = ""
    return f"{module}.{owner.__qualname__}" if module else str(owner.__qualname__)


def _is_complex_method(self: Tensor) -> bool:
    """Returns whether the elements are complex numbers."""
    return self.dtype.is_complex


Tensor.is_complex = _is_complex_method  # type: ignore[method-assign]


# ``with device(d):`` and ``@device(d)`` set where factories create tensors on this thread.


class _Outer(threading.local):
    """The default devices of the ``with`` blocks around, on this thread."""

    def __init__(self) -> None:
        self.devices: list[_C.device] = []


_outer = _Outer()


def _enter_device(self: _C.device) -> _C.device:
    """Makes the device the default one. Raises RuntimeError if cograd does not have it."""
    _outer.devices.append(_C._set_default_device(self))
    return self


def _exit_device(self: _C.device, *exc: object) -> None:
    """Restores the former default device."""
    _C._set_default_device(_outer.devices.pop())


def _on_device(self: _C.device, func: _F) -> _F:
    """Returns ``func`` wrapped so that it runs with the device as default."""
    _C._check_device(self)

    @functools.wraps(func)
    def on_device(*args: Any, **kwargs: Any) -> Any:
        with self:
            return func(*args, **kwargs)

    return cast("_F", on_device)


_C.device.__enter__ = _enter_device  # type: ignore[attr-defined, method-assign, unused-ignore]
_C.device.__exit__ = _exit_device  # type: ignore[attr-defined, method-assign, unused-ignore]
_C.device.__call__ = _on_device  # type: ignore[assignment, method-assign, unused-ignore]
