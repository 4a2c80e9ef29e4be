# SPDX-License-Identifier: BSD-3-Clause
"""Writes and reads torch.save's files: zip archives of a pickle and the storages' bytes.

Layout (all entries stored, not compressed): ``NAME/data.pkl``, a pickle in which a storage is the
persistent id ``("storage", type, key, location, elements)``; ``NAME/data/KEY``, its bytes;
``NAME/byteorder``; ``NAME/version``.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict
from typing import Any

import cograd
from cograd import _C, Tensor
from cograd._base.dtypes import dtype_name
from cograd._base.memory_format import layout, memory_format
from cograd._C import UntypedStorage
from cograd._files.locations import Place
from cograd._tensor.pickle import _state_of
from cograd.nn.parameter import Parameter, is_lazy
from cograd.storage import TypedStorage

__all__ = ["Archive", "write"]

# Storage classes by dtype; the other dtypes are stored as views of bytes.
STORAGES = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
_NAMES = {dtype: name for name, dtype in STORAGES.items()}
# Classes that have another path in torch.
_CLASSES = {
    Tensor: ("torch", "Tensor"),
    Parameter: ("torch.nn.parameter", "Parameter"),
    cograd.Size: ("torch", "Size"),
    UntypedStorage: ("torch.storage", "UntypedStorage"),
    TypedStorage: ("torch.storage", "TypedStorage"),
}
_ALIGNMENT = 64
_AT_ONCE = 1 << 24  # bytes that are first collected in memory


class _Global:
    """A name that the pickle refers to and that is never imported."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *args: Any) -> Any:
        raise TypeError(
            f"{self.module}.{self.name} is a placeholder for a name in a file and cannot be called"
        )


class _Stored:
    """Stands in for one storage, as elements of a dtype, until its persistent id is written."""

    def __init__(self, storage: UntypedStorage, dtype: Any) -> None:
        self.storage = storage
        self.dtype = dtype


class _Reduces:
    """Reduces tensors to torch's functions and collects the storages, keyed by their memory."""

    def __init__(self, file: Any) -> None:
        super().__init__(file, protocol=2)  # type: ignore[call-arg]
        self.storages: dict[tuple[int, int], tuple[str, UntypedStorage]] = {}
        self._stored: dict[tuple[int, Any], _Stored] = {}
        self._globals: dict[str, _Global] = {}

    def _global(self, module: str, name: str) -> Any:
        found = self._globals.get(f"{module}.{name}")
        if found is None:
            found = self._globals[f"{module}.{name}"] = _Global(module, name)
        return found

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is TypedStorage:
            obj = _Stored(obj.untyped(), obj.dtype)
        if type(obj) is not _Stored:
            return None
        name = _NAMES.get(dtype_name(obj.dtype))
        nbytes, location = obj.storage.nbytes(), str(obj.storage.device)
        # Arrays that begin at one address may differ in length; then each is written.
        place = (obj.storage.data_ptr() or -id(obj.storage), nbytes)
        key = self.storages.setdefault(place, (str(len(self.storages)), obj.storage))[0]
        if name is None:
            kind = self._global("torch.storage", "UntypedStorage")
            return ("storage", kind, key, location, nbytes)
        count = nbytes // obj.dtype.itemsize
        return ("storage", self._global("torch", name), key, location, count)

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is cograd.Size:
            return self._global("torch", "Size"), (tuple(obj),)
        if kind is cograd.device:
            return self._global("torch", "device"), (str(obj),)
        if kind is layout:
            name = f"torch.{dtype_name(obj)}"
            return self._global("torch.serialization", "_get_layout"), (name,)
        ours = kind.__module__.partition(".")[0] in ("cograd", "torch")
        if isinstance(obj, Tensor) and ours and not is_lazy(obj):
            return self._tensor(obj)
        return NotImplemented

    def _tensor(self, t: Tensor) -> Any:
        if t.layout != cograd.strided:
            return self._sparse(t)
        state = _state_of(t)
        if isinstance(t, Parameter):
            parts: tuple[Any, ...] = (t.detach(), t.requires_grad, OrderedDict())
            if state is None:
                return self._global("torch._utils", "_rebuild_parameter"), parts
            rebuild = self._global("torch._utils", "_rebuild_parameter_with_state")
            return rebuild, (*parts, state)
        rebuild, parts = self._plain(t)
        if state is None:
            return rebuild, parts
        typed = self._global("torch._tensor", "_rebuild_from_type_v2")
        return typed, (rebuild, self._global("torch", "Tensor"), parts, state)

    def _sparse(self, t: Any) -> Any:
        _, (shape, data) = t.__reduce_ex__(2)
        detached = tuple(d.detach() if isinstance(d, Tensor) else d for d in data)
        return self._global("torch._utils", "_rebuild_sparse_tensor"), (shape, detached)

    def _plain(self, t: Tensor) -> tuple[_Global, tuple[Any, ...]]:
        """Returns how to rebuild a tensor without its attributes."""
        if t.is_meta:
            rebuild = self._global("torch._utils", "_rebuild_meta_tensor_no_storage")
            dtype = self._global("torch", dtype_name(t.dtype))
            return rebuild, (dtype, tuple(t.shape), tuple(t.stride()), t.requires_grad)
        storage = t.untyped_storage()
        stored = self._stored.setdefault((id(storage), t.dtype), _Stored(storage, t.dtype))
        parts = (stored, t.storage_offset(), tuple(t.shape), tuple(t.stride()), t.requires_grad)
        if dtype_name(t.dtype) in _NAMES:
            return self._global("torch._utils", "_rebuild_tensor_v2"), (*parts, OrderedDict())
        rebuild = self._global("torch._utils", "_rebuild_tensor_v3")
        return rebuild, (*parts, OrderedDict(), self._global("torch", dtype_name(t.dtype)))


# The pickler written in Python, because its ``save`` can be overridden.
_PythonPickler: Any = getattr(pickle, "_Pickler")  # noqa: B009


class _Writer(_Reduces, _PythonPickler):  # type: ignore[misc]
    """Writes ``data.pkl`` with all objects that torch's files can hold."""

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if type(obj) in (_C.dtype, memory_format):
            obj = self._global("torch", dtype_name(obj))
        elif isinstance(obj, type) and obj in _CLASSES:
            obj = self._global(*_CLASSES[obj])
        if type(obj) is not _Global:
            super().save(obj, save_persistent_id)
        elif (known := self.memo.get(id(obj))) is not None:
            self.write(self.get(known[0]))
        else:
            self.write(b"c" + f"{obj.module}\n{obj.name}\n".encode())
            self.memoize(obj)


class _FastWriter(_Reduces, pickle.Pickler):
    """Writes the same bytes with the pickler written in C, three times faster.

    That pickler writes only names that can be imported. So a placeholder gets the name of an
    attribute of a module that exists during the call, whose name is random: ``text`` replaces it.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._file = file
        self._module = types.ModuleType(f"cograd_{os.urandom(16).hex()}")

    def _global(self, module: str, name: str) -> Any:
        found = self._globals.get(f"{module}.{name}")
        if found is None:
            found = super()._global(module, name)
            found.token = f"n{len(self._globals) - 1}"
            found.__module__ = self._module.__name__
            setattr(self._module, found.token, found)
        return found

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is _Global:
            return obj.token
        if kind in (_C.dtype, memory_format) or (isinstance(obj, type) and obj in _CLASSES):
            raise pickle.PicklingError("the other pickler writes another object instead")
        return super().reducer_override(obj)

    def text(self, obj: Any) -> bytes:
        name = self._module.__name__
        sys.modules[name] = self._module
        try:
            self.dump(obj)
        finally:
            del sys.modules[name]
        first, *rest = self._file.getvalue().split(b"c%s\nn" % name.encode())
        names = [f"c{g.module}\n{g.name}\n".encode() for g in self._globals.values()]
        parts = (part.partition(b"\n") for part in rest)
        return first + b"".join(names[int(number)] + after for number, _, after in parts)


def _pickled(obj: Any) -> tuple[bytes, _Reduces]:
    """Returns the pickle, and the writer, which has the storages."""
    fast = _FastWriter(io.BytesIO())
    try:
        return fast.text(obj), fast
    except Exception:  # it cannot write the object, or nothing can: _Writer's error is the same
        text = io.BytesIO()
        writer = _Writer(text)
        writer.dump(obj)
        return text.getvalue(), writer


def _entry(file: zipfile.ZipFile, name: str, data: Any, size: int) -> None:
    """Writes an entry whose bytes begin at a multiple of 64, so that the file can be mapped."""
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_STORED
    head = file.fp.tell() + 30 + len(name.encode()) + 4  # type: ignore[union-attr]
    if size < 1 << 30:
        pad = -head % _ALIGNMENT
        info.extra = struct.pack("<HH", 0x4246, pad) + b"Z" * pad
    info.file_size = size
    with file.open(info, "w", force_zip64=size >= 1 << 30) as out:
        view = memoryview(data)
        for start in range(0, size, 1 << 24):
            out.write(view[start : start + (1 << 24)])


def write(obj: Any, file: Any, name: str) -> None:
    """Writes ``obj`` to a seekable binary file, as an archive called ``name``.

    Raises:
        TypeError, pickle.PicklingError: ``obj`` holds something that cannot be pickled.
    """
    try:
        name.encode()
    except UnicodeEncodeError:  # a file's name need not be valid text
        name = "archive"
    text, writer = _pickled(obj)
    size = len(text) + sum(storage.nbytes() for _, storage in writer.storages.values())
    # zipfile seeks back to the header of each entry, which would write each to the disk.
    target = io.BytesIO() if size <= _AT_ONCE else file
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        _entry(archive, f"{name}/data.pkl", text, len(text))
        _entry(archive, f"{name}/byteorder", b"little", 6)
        for key, storage in writer.storages.values():
            _entry(archive, f"{name}/data/{key}", storage.cpu(), storage.nbytes())
        _entry(archive, f"{name}/version", b"3\n", 2)
    if target is not file:
        file.write(target.getbuffer())


# ---- reading -------------------------------------------------------------------------------------


class Archive:
    """An open torch.save archive: its pickle, and its storages, each read once.

    Raises:
        ValueError: the archive is damaged, or was not written by torch.save.
    """

    def __init__(self, file: Any, path: str | None = None, place: Place | None = None) -> None:
        self._place = place or (lambda storage, location: storage)
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, EOFError, struct.error) as error:
            raise ValueError(f"the zip archive is damaged: {error}") from error
        self._path = path  # set if the file may be mapped
        entries = {info.filename: info for info in self._zip.infolist()}
        tops = [name for name in entries if name.count("/") == 1 and name.endswith("/data.pkl")]
        if len(tops) != 1:
            raise ValueError("the zip archive has no data.pkl: torch.save has not written it")
        self.name = tops[0].partition("/")[0]
        self._entries = entries
        if f"{self.name}/constants.pkl" in entries:
            raise ValueError(
                "it is a TorchScript program: save the module's state_dict() in torch instead"
            )
        order = self._read("byteorder") if f"{self.name}/byteorder" in entries else b"little"
        if order != b"little":
            raise ValueError(f"its byte order is {order!r}, only b'little' can be read")
        self._storages: dict[str, UntypedStorage] = {}
        self._typed: dict[tuple[str, Any], TypedStorage] = {}

    def _info(self, record: str) -> zipfile.ZipInfo:
        info = self._entries.get(f"{self.name}/{record}")
        if info is None:
            raise ValueError(f"it has no entry {record!r}, though it refers to it")
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise ValueError(f"its entry {record!r} is compressed")
        return info

    def _read(self, record: str) -> bytes:
        info = self._info(record)
        try:
            return self._zip.read(info)
        except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, struct.error) as error:
            raise ValueError(f"its entry {record!r} is damaged: {error}") from error

    def pickle(self) -> bytes:
        """Returns the pickle's bytes."""
        return self._read("data.pkl")

    def storage(self, key: str, nbytes: int, location: str = "cpu") -> UntypedStorage:
        """Returns the storage of that key; every call returns the same object.

        Raises:
            ValueError: there is none, or it has another number of bytes.
        """
        if key not in self._storages:
            self._storages[key] = self._place(self._load(f"data/{key}"), location)
        found = self._storages[key]
        if found.nbytes() != nbytes:
            raise ValueError(f"storage {key!r} has {found.nbytes()} bytes, expected {nbytes}")
        return found

    def typed_storage(self, key: str, dtype: Any, count: int, location: str) -> TypedStorage:
        """Returns the storage of that key as ``count`` elements, the same object at every call.

        Raises:
            ValueError: there is none, or it has another number of bytes.
        """
        untyped = self.storage(key, count * dtype.itemsize, location)
        return self._typed.setdefault((key, dtype), TypedStorage(untyped, dtype))

    def _load(self, record: str) -> UntypedStorage:
        import numpy

        info = self._info(record)
        if info.file_size == 0:
            return cograd.empty(0, dtype=cograd.uint8).untyped_storage()
        offset = self._offset(info) if self._path is not None else 1
        if self._path is not None and offset % 16 == 0:
            array: Any = numpy.memmap(self._path, numpy.uint8, "c", offset, (info.file_size,))
        else:
            array = numpy.frombuffer(bytearray(self._read(record)), numpy.uint8)
        return cograd.from_numpy(array).untyped_storage()

    def _offset(self, info: zipfile.ZipInfo) -> int:
        """Returns the position in the file at which an entry's bytes begin."""
        file: Any = self._zip.fp
        file.seek(info.header_offset)
        head = file.read(30)
        if len(head) < 30 or head[:4] != b"PK\x03\x04":
            raise ValueError(f"the header of {info.filename!r} is damaged")
        name, extra = struct.unpack("<HH", head[26:30])
        start = int(info.header_offset + 30 + name + extra)
        if start + info.file_size > os.path.getsize(self._path or ""):
            raise ValueError(f"the entry {info.filename!r} extends past the end of the file")
        return start
