# SPDX-License-Identifier: BSD-3-Clause
"""Copying and pickling of tensors and their storages."""

from __future__ import annotations

import copy
import copyreg
from typing import Any

from cograd import _C
from cograd._C import Tensor, UntypedStorage


def _rebuild_tensor(
    storage: UntypedStorage,
    dtype: Any,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    cls: type | None = None,
) -> Tensor:
    """Inverts ``Tensor.__reduce_ex__``."""
    plain = _C._rebuild_tensor(storage, dtype, offset, size, stride, requires_grad)
    if cls is None:
        return plain
    return _C._alias_as(cls, plain, requires_grad)  # type: ignore[no-any-return]


def _rebuild_meta(
    dtype: Any,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    cls: type | None = None,
) -> Tensor:
    """Returns a meta tensor, which has no storage to pickle."""
    plain: Tensor = _C._ops.empty_strided(size, stride, dtype=dtype, device="meta")
    if cls is None:
        return plain.requires_grad_(requires_grad)
    return _C._alias_as(cls, plain, requires_grad)  # type: ignore[no-any-return]


def _load_storage(data: Any, location: str = "cpu") -> UntypedStorage:
    """Inverts ``UntypedStorage.__reduce_ex__``."""
    loaded: UntypedStorage = _C._storage_from_bytes(data)
    if location == "cpu":
        return loaded
    from cograd._files.locations import restore

    return restore(loaded, location)


def _storage_reduce(self: UntypedStorage, protocol: Any) -> tuple[Any, ...]:
    if self.device.type != "cpu":
        return _load_storage, (bytes(self.cpu()), str(self.device))
    if int(protocol) >= 5:
        import pickle

        return (_load_storage, (pickle.PickleBuffer(self),))  # can be pickled out of band
    return (_load_storage, (bytes(self),))


def _by_name(name: str, *arguments: Any) -> Any:
    """Returns the dtype, layout or memory format of that name, or a new Size or device.

    Raises:
        pickle.UnpicklingError: the name is unknown.
    """
    import pickle

    import cograd
    from cograd._base.memory_format import layout, memory_format

    if len(arguments) == 1 and name in ("Size", "device"):
        return getattr(_C, name)(arguments[0])
    kinds: tuple[type, ...] = (_C.dtype, layout, memory_format)
    if len(arguments) == 1 and name in ("layout", "memory_format"):  # in older pickles
        kinds, name = (layout, memory_format), str(arguments[0]).rpartition(".")[2]
        arguments = ()
    found = None if arguments else vars(cograd).get(name)
    if not isinstance(found, kinds):
        raise pickle.UnpicklingError(
            f"the pickle names {name!r}, expected a dtype, layout or memory format, or 'Size' or "
            "'device' with an argument"
        )
    return found


def pickle_without_module() -> None:
    """Makes dtypes, sizes and so on pickle by name, independent of the module of their class."""
    from cograd._base.memory_format import layout, memory_format

    def reduce_name(obj: Any) -> tuple[Any, ...]:
        return _by_name, (str(obj).rpartition(".")[2],)

    def reducer(name: str, argument: Any) -> Any:
        return lambda obj: (_by_name, (name, argument(obj)))

    for kind in (_C.dtype, layout, memory_format):
        copyreg.pickle(kind, reduce_name)
    copyreg.pickle(_C.Size, reducer("Size", tuple))
    copyreg.pickle(_C.device, reducer("device", str))


def _state_of(obj: Tensor) -> Any:
    """Returns attributes set by the user, in the form that ``pickle`` and ``copy`` restore."""
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
    geometry = (tuple(self.size()), self.stride(), self.requires_grad)
    rebuild: Any = _rebuild_tensor
    arguments: tuple[Any, ...]
    if self.is_meta:
        rebuild, arguments = _rebuild_meta, (self.dtype, *geometry)
    else:
        arguments = (_C._untyped_storage(self), self.dtype, self.storage_offset(), *geometry)
    state = _state_of(self)
    made = (rebuild, arguments if cls is None else (*arguments, cls))
    return made if state is None else (*made, state)


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if id(self) in memo:
        return memo[id(self)]  # type: ignore[no-any-return]
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment; use tensor.detach() or tensor.clone()"
        )
    cls = None if type(self) is Tensor else type(self)
    geometry = (tuple(self.size()), self.stride(), self.requires_grad)
    if self.is_meta:
        result = _rebuild_meta(self.dtype, *geometry, cls)
    else:
        storage = copy.deepcopy(_C._untyped_storage(self), memo)  # views share one copy
        result = _rebuild_tensor(storage, self.dtype, self.storage_offset(), *geometry, cls)
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
