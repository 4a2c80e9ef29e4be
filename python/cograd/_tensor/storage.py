# SPDX-License-Identifier: BSD-3-Clause
"""Storages with torch's interface, and the methods that change a tensor's memory: set_, new."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import cograd
from cograd import _C
from cograd._C import Size, Tensor, UntypedStorage


def _elements(storage: UntypedStorage, dtype: Any) -> Tensor:
    """Returns all of ``storage`` as a vector of ``dtype``, sharing its memory."""
    return _C._rebuild_tensor(storage, dtype, 0, (storage.nbytes() // dtype.itemsize,), (1,), False)


class TypedStorage:
    """The memory behind a tensor, counted in elements of the tensor's dtype."""

    def __init__(self, wrap_storage: UntypedStorage, dtype: Any) -> None:
        self._untyped = wrap_storage
        self.dtype = dtype

    @property
    def device(self) -> _C.device:
        return self._untyped.device

    @property
    def _cdata(self) -> int:
        return id(self._untyped)

    def untyped(self) -> UntypedStorage:
        """Returns the same memory in bytes."""
        return self._untyped

    def element_size(self) -> int:
        """Returns the size of one element in bytes."""
        return int(self.dtype.itemsize)

    def nbytes(self) -> int:
        """Returns the number of bytes."""
        return self._untyped.nbytes()

    def size(self) -> int:
        """Returns the number of elements."""
        return self.nbytes() // self.element_size()

    def __len__(self) -> int:
        return self.size()

    def data_ptr(self) -> int:
        """Returns the address of the first byte."""
        return self._untyped.data_ptr()

    def is_shared(self) -> bool:
        """Returns whether other processes can map the memory."""
        return self._untyped.is_shared()

    def resize_(self, size: int) -> TypedStorage:
        """Releases the memory (size 0), or allocates the released size again."""
        self._untyped.resize_(size * self.element_size())
        return self

    def tolist(self) -> list[Any]:
        """Returns the elements as Python numbers."""
        result: list[Any] = _elements(self._untyped, self.dtype).tolist()
        return result

    def cpu(self) -> TypedStorage:
        """Returns the storage on the CPU; itself if it is there."""
        return self._moved(self._untyped.cpu())

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """Returns the storage on a GPU; itself if it is there."""
        return self._moved(self._untyped.cuda(device))

    def _moved(self, untyped: UntypedStorage) -> TypedStorage:
        return self if untyped is self._untyped else TypedStorage(untyped, self.dtype)

    @property
    def is_cuda(self) -> bool:
        """True if the memory is on a GPU."""
        return self.device.type == "cuda"

    def clone(self) -> TypedStorage:
        """Returns a copy of the storage."""
        return TypedStorage(self._untyped.clone(), self.dtype)

    def fill_(self, value: Any) -> TypedStorage:
        """Sets every element to ``value``."""
        _elements(self._untyped, self.dtype).fill_(value)
        return self

    def copy_(self, source: TypedStorage) -> TypedStorage:
        """Copies the values of ``source``, which must have the same number of elements."""
        _elements(self._untyped, self.dtype).copy_(_elements(source._untyped, source.dtype))
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: int) -> Any:
        return _elements(self._untyped, self.dtype)[index].item()

    def __setitem__(self, index: int | slice, value: Any) -> None:
        _elements(self._untyped, self.dtype)[index] = value

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, TypedStorage) and self.dtype == other.dtype
        return same and self._untyped is other._untyped  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((id(self._untyped), self.dtype))

    def __repr__(self) -> str:
        return f"TypedStorage({self.tolist()}, dtype={self.dtype})"


# ---- UntypedStorage -----------------------------------------------------------------------------


def _untyped_fill_(self: UntypedStorage, value: int) -> UntypedStorage:
    """Sets every byte to ``value``."""
    _elements(self, _C.uint8).fill_(value)
    return self


def _untyped_copy_(self: UntypedStorage, source: UntypedStorage) -> UntypedStorage:
    """Copies the bytes of ``source``, which must have the same number."""
    if self.nbytes() != source.nbytes():
        raise RuntimeError(
            f"size does not match, self was {self.nbytes()} bytes but src was "
            f"{source.nbytes()} bytes"
        )
    _elements(self, _C.uint8).copy_(_elements(source, _C.uint8))
    return self


def _untyped_getitem(self: UntypedStorage, index: int | slice) -> int | UntypedStorage:
    if isinstance(index, slice):
        start, stop, step = index.indices(self.nbytes())
        if step != 1:
            raise RuntimeError(f"UntypedStorage: the step of a slice must be 1, got {step}")
        if start >= stop:
            return _C._ops.empty((0,), dtype=_C.uint8, device=self.device).untyped_storage()
        if self.device.type != "cpu":
            result: UntypedStorage = _C._storage_part(self, start, stop - start)
            return result
        part: Tensor = _C.frombuffer(self, dtype=_C.uint8, offset=start, count=stop - start)
        return part.untyped_storage()
    return int(_elements(self, _C.uint8)[index].item())


def _untyped_setitem(self: UntypedStorage, index: int, value: int) -> None:
    _elements(self, _C.uint8)[index] = value


def _untyped_tolist(self: UntypedStorage) -> list[int]:
    """Returns the bytes as ints."""
    return list(memoryview(_untyped_to(self, "cpu")))


def _itself(self: UntypedStorage) -> UntypedStorage:
    """Returns this storage, which is untyped already."""
    return self


def _from_file(
    filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0
) -> UntypedStorage:
    """Returns a storage over the first ``nbytes`` bytes of a file, mapped into memory.

    Args:
        filename: the file; with ``shared`` it is created or extended if it is too short.
        shared: True writes changes to the file; otherwise they stay in this process.
        nbytes: number of bytes, not negative.

    Raises:
        RuntimeError: the file is missing or too short.
    """
    bytes_of_file: Tensor = cograd.from_file(filename, shared, nbytes, dtype=_C.uint8, device="cpu")
    return bytes_of_file.untyped_storage()


def _storage(self: Tensor) -> TypedStorage:
    """Returns the memory behind the tensor and its views, in elements of its dtype."""
    return TypedStorage(self.untyped_storage(), self.dtype)


# ---- set_ and new -------------------------------------------------------------------------------


def _set_(
    self: Tensor,
    source: Tensor | TypedStorage | UntypedStorage | None = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Makes this tensor use the memory of ``source`` (None: none), with its or the given geometry.

    A tensor as ``source`` also determines the shape, unless ``size`` is given; a storage becomes a
    vector.

    Raises:
        RuntimeError: the dtypes differ, the geometry exceeds the storage, or a tensor requires
            grad while gradients are recorded.
    """
    if _C.is_grad_enabled():
        if self.requires_grad and self.is_leaf:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation."
            )
        if self.requires_grad or (isinstance(source, Tensor) and source.requires_grad):
            raise RuntimeError("set_(): the derivative is not implemented; use no_grad()")
    if source is None:
        source = _C._ops.empty((0,), dtype=self.dtype, device=self.device)
    if not isinstance(source, UntypedStorage) and source.dtype != self.dtype:
        raise RuntimeError(
            f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}"
        )
    if size is None and isinstance(source, Tensor):
        storage_offset, size, stride = source.storage_offset(), source.shape, source.stride()
    if isinstance(source, Tensor):
        storage = source.untyped_storage()
    else:
        storage = source if isinstance(source, UntypedStorage) else source.untyped()
    if size is None:
        size = (storage.nbytes() // self.element_size() - storage_offset,)
    if stride is None:
        stride = [1] * len(size)
        for i in range(len(size) - 1, 0, -1):
            stride[i - 1] = stride[i] * max(size[i], 1)
    self.data = _C._rebuild_tensor(
        storage, self.dtype, storage_offset, tuple(size), tuple(stride), False
    )
    _C._increment_version(self)
    return self


def _new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """Creates a tensor of this dtype: empty, of the given sizes, from data, or over a storage."""
    if device is not None:
        _C.device(device)
    if len(args) == 1 and not isinstance(args[0], int):
        (data,) = args
        if isinstance(data, Size):
            return self.new_empty(data)
        if isinstance(data, TypedStorage | UntypedStorage):
            return _set_(self.new_empty((0,)), data)
        if isinstance(data, Tensor):
            if data.dtype != self.dtype:
                raise TypeError(f"new(): expected a tensor of {self.dtype}, got {data.dtype}")
            return data.view_as(data)
        return _C.tensor(data, dtype=self.dtype, device=self.device)
    return self.new_empty(args if args else (0,))


def _untyped_to(self: UntypedStorage, device: Any, non_blocking: bool = False) -> UntypedStorage:
    """Returns the bytes on a device; the storage itself if they are there."""
    if isinstance(device, int):
        device = f"cuda:{device}"
    there = _elements(self, _C.uint8).to(device)
    return self if there.device == self.device else there.untyped_storage()


def _untyped_cpu(self: UntypedStorage) -> UntypedStorage:
    """Returns the bytes on the CPU; the storage itself if they are there."""
    return _untyped_to(self, "cpu")


def _untyped_cuda(
    self: UntypedStorage, device: Any = None, non_blocking: bool = False
) -> UntypedStorage:
    """Returns the bytes on a GPU; the storage itself if they are there."""
    return _untyped_to(self, "cuda" if device is None else device)


UNTYPED_METHODS: dict[str, Any] = {
    "__getitem__": _untyped_getitem,
    "__setitem__": _untyped_setitem,
    "copy_": _untyped_copy_,
    "cpu": _untyped_cpu,
    "cuda": _untyped_cuda,
    "fill_": _untyped_fill_,
    "from_file": staticmethod(_from_file),
    "is_cuda": property(lambda self: self.device.type == "cuda"),
    "to": _untyped_to,
    "tolist": _untyped_tolist,
    "untyped": _itself,
}
TENSOR_METHODS: dict[str, Any] = {"new": _new, "set_": _set_, "storage": _storage}
