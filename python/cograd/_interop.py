# SPDX-License-Identifier: BSD-3-Clause
"""Data exchange: NumPy's protocols, copies and pickles of tensors, and the asarray family."""

from __future__ import annotations

import copy
import copyreg
from collections.abc import Callable
from typing import Any

from cograd import _C, _legacy
from cograd._C import (
    Tensor,
    UntypedStorage,
    as_tensor,
    from_dlpack,
    from_numpy,
    frombuffer,
    tensor,
)
from cograd._legacy import *  # noqa: F403

__all__ = [
    *_legacy.__all__,
    "UntypedStorage",
    "as_tensor",
    "asarray",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "tensor",
]


def _name(dtype: Any) -> str:
    return str(dtype).rsplit(".", 1)[-1]


# ---- asarray ------------------------------------------------------------------------------------


def _is_ndarray(obj: Any) -> bool:
    # Without an import of NumPy: only NumPy's own class and its subclasses are meant.
    return any(c.__module__ == "numpy" and c.__name__ == "ndarray" for c in type(obj).__mro__)


def _supports_buffer(obj: Any) -> bool:
    try:
        memoryview(obj).release()
    except (TypeError, BufferError):
        return False
    return True


def _shared(obj: Any, dtype: Any) -> Tensor | None:
    """``obj`` as a tensor over the same memory, or None if it has none to share."""
    if isinstance(obj, Tensor):
        return obj
    if _is_ndarray(obj):
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
    """``obj`` as a tensor, sharing its memory where that is possible.

    Args:
        obj: a Tensor, NumPy array, DLPack capsule or object with ``__dlpack__``, object with the
            buffer protocol (read as ``dtype``), number, or nested sequence of numbers.
        dtype: the result's dtype; by default that of ``obj``.
        device: the CPU.
        copy: True copies always, False never, None only where it must.
        requires_grad: True makes a result without history a leaf that requires grad, False
            detaches it, None leaves it as ``obj`` has it.

    Raises:
        ValueError: ``copy=False`` but the memory cannot be shared.
        TypeError: ``obj`` is none of the above.
    """
    if device is not None:
        _C.device(device)
    shared = _shared(obj, dtype)
    if shared is None:
        if copy is False:
            raise ValueError("asarray(): can't alias arbitrary sequence into a tensor.")
        return tensor(obj, dtype=dtype, requires_grad=bool(requires_grad))
    result = shared
    if dtype is not None and result.dtype != dtype:
        if copy is False:
            raise ValueError(
                f"asarray(): can't alias tensor with dtype '{_name(result.dtype)}' into dtype "
                f"'{_name(dtype)}'."
            )
        result = result.to(dtype)
    elif copy:
        result = result.clone()
    if requires_grad is False and result.requires_grad:
        result = result.detach()
    elif requires_grad and not result.requires_grad:
        result = (result.detach() if result is obj else result).requires_grad_()
    return result


# ---- NumPy's protocols --------------------------------------------------------------------------


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """This tensor as a NumPy array, sharing memory unless ``dtype`` or ``copy`` forbid it."""
    array = self.numpy()
    if dtype is not None:
        cast = array.astype(dtype, copy=False)
        if cast is not array:
            if copy is False:
                raise ValueError(
                    f"__array__(): a copy is needed to convert {_name(self.dtype)} to {dtype}, "
                    "but copy=False"
                )
            return cast
    return array.copy() if copy else array


def _array_wrap(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
    """The result of a NumPy function on this tensor, as a tensor."""
    return from_numpy(array) if _is_ndarray(array) else tensor(array)


# ---- Python's protocols -------------------------------------------------------------------------


def _format(self: Tensor, spec: str) -> str:
    return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)


def _complex(self: Tensor) -> complex:
    return complex(float(self))


def _reversed(self: Tensor) -> Tensor:
    return self if self.dim() == 0 else self.flip(0)


def _write_elements(self: Tensor, values: list[Any]) -> Tensor:
    self.copy_(tensor(values, dtype=self.dtype).reshape(self.shape))
    return self


def _check_no_grad(self: Tensor, op: str) -> None:
    if self.requires_grad:
        raise RuntimeError(
            f"Can't call {op}() on Variable that requires grad. Use var.detach().{op}() instead."
        )


def _apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replaces every element v by ``callable(v)``, in row-major order."""
    _check_no_grad(self, "apply_")
    return _write_elements(self, [callable(v) for v in _C._flat_list(self)])


def _map_(self: Tensor, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replaces every element a by ``callable(a, b)`` with b from ``other``, broadcast."""
    _check_no_grad(self, "map_")
    _check_no_grad(other, "map_")
    pairs = zip(_C._flat_list(self), _C._flat_list(other.expand(self.shape)), strict=True)
    return _write_elements(self, [callable(a, b) for a, b in pairs])


# ---- copies and pickles -------------------------------------------------------------------------


def _rebuild_tensor(
    storage: UntypedStorage,
    dtype: Any,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    cls: type | None = None,
) -> Tensor:
    """Inverse of ``Tensor.__reduce_ex__``."""
    plain = _C._rebuild_tensor(storage, dtype, offset, size, stride, requires_grad)
    if cls is None:
        return plain
    return _C._alias_as(cls, plain, requires_grad)  # type: ignore[no-any-return]


def _load_storage(data: Any) -> UntypedStorage:
    """Inverse of ``UntypedStorage.__reduce_ex__``."""
    return _C._storage_from_bytes(data)


def _storage_reduce(self: UntypedStorage, protocol: Any) -> tuple[Any, ...]:
    if int(protocol) >= 5:
        import pickle

        return (_load_storage, (pickle.PickleBuffer(self),))  # may travel out of band
    return (_load_storage, (bytes(self),))


def _state_of(obj: Tensor) -> Any:
    """Attributes set by the user, in the form that ``pickle`` and ``copy`` put back."""
    get = getattr(type(obj), "__getstate__", None)
    if get is not None and get is not getattr(object, "__getstate__", None):
        return get(obj)
    names = getattr(copyreg, "_slotnames")(type(obj))  # noqa: B009
    slots = {name: getattr(obj, name) for name in names if hasattr(obj, name)}
    attributes = obj.__dict__ or None
    return (attributes, slots) if slots else attributes


def _put_state(obj: Tensor, state: Any) -> None:
    if state is None:
        return
    if hasattr(obj, "__setstate__"):
        obj.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    obj.__dict__.update(attributes or {})
    for name, value in (slots or {}).items():
        setattr(obj, name, value)


def _reduce_ex(self: Tensor, protocol: Any) -> tuple[Any, ...]:
    if not self.is_leaf:
        raise RuntimeError(
            "cannot pickle a Tensor that is not a leaf: its history is not stored; use "
            "tensor.detach() first"
        )
    cls = None if type(self) is Tensor else type(self)
    arguments = (
        _C._untyped_storage(self),
        self.dtype,
        self.storage_offset(),
        tuple(self.size()),
        self.stride(),
        self.requires_grad,
    )
    state = _state_of(self)
    made = (_rebuild_tensor, arguments if cls is None else (*arguments, cls))
    return made if state is None else (*made, state)


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if id(self) in memo:
        return memo[id(self)]  # type: ignore[no-any-return]
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment; use tensor.detach() or tensor.clone()"
        )
    storage = copy.deepcopy(_C._untyped_storage(self), memo)  # views stay views of one copy
    result = _rebuild_tensor(
        storage,
        self.dtype,
        self.storage_offset(),
        tuple(self.size()),
        self.stride(),
        self.requires_grad,
        None if type(self) is Tensor else type(self),
    )
    memo[id(self)] = result
    if self.grad is not None:
        result.grad = copy.deepcopy(self.grad, memo)
    _put_state(result, copy.deepcopy(_state_of(self), memo))
    return result


def _copy(self: Tensor) -> Tensor:
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support copy.copy(); use "
            "tensor.detach() or tensor.view_as(tensor)"
        )
    result: Tensor = _C._alias_as(type(self), self, self.requires_grad)
    _put_state(result, copy.copy(_state_of(self)))
    return result


# ---- storage and memory -------------------------------------------------------------------------


def _untyped_storage(self: Tensor) -> UntypedStorage:
    """The bytes this tensor shares with its views."""
    return _C._untyped_storage(self)


def _is_shared(self: Tensor) -> bool:
    """False: tensors are not in memory shared between processes."""
    return False


def _share_memory_(self: Tensor) -> Tensor:
    raise RuntimeError(
        "share_memory_(): memory shared between processes is not supported; share a NumPy array "
        "over multiprocessing.shared_memory and use from_numpy()"
    )


def _is_pinned(self: Tensor, device: Any = None) -> bool:
    """False: pinned memory needs an accelerator."""
    return False


def _pin_memory(self: Tensor, device: Any = None) -> Tensor:
    raise RuntimeError("pin_memory(): needs an accelerator; cograd runs on the CPU only")


def _same(self: Tensor) -> Tensor:
    """This tensor: there are no complex dtypes and no negative bits to resolve."""
    return self


def _false(self: Tensor) -> bool:
    """False: there are no complex dtypes."""
    return False


_METHODS: dict[str, Any] = {
    "__array__": _array,
    "__array_priority__": 1000,
    "__array_wrap__": _array_wrap,
    "__complex__": _complex,
    "__copy__": _copy,
    "__deepcopy__": _deepcopy,
    "__format__": _format,
    "__reduce_ex__": _reduce_ex,
    "__reversed__": _reversed,
    "apply_": _apply_,
    "is_conj": _false,
    "is_neg": _false,
    "is_pinned": _is_pinned,
    "is_shared": _is_shared,
    "map_": _map_,
    "pin_memory": _pin_memory,
    "resolve_conj": _same,
    "resolve_neg": _same,
    "share_memory_": _share_memory_,
    "untyped_storage": _untyped_storage,
}


def _install() -> None:
    """Puts the methods of this file on Tensor; those an op already gave it stay."""
    for name, value in _METHODS.items():
        if not name.startswith("__") and name in Tensor.__dict__:
            continue
        if callable(value):
            value.__name__ = name
            value.__qualname__ = f"Tensor.{name}"
        setattr(Tensor, name, value)
    UntypedStorage.__reduce_ex__ = _storage_reduce  # type: ignore[method-assign, assignment]


_install()
