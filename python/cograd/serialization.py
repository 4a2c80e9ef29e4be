# SPDX-License-Identifier: BSD-3-Clause
"""save and load: safetensors files, and the archives that torch.save writes.

``load`` recognizes the format by the file's content, ``save`` chooses it by the suffix. Files are
never passed to ``pickle``, unless ``weights_only=False`` requests it.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pickle import UnpicklingError
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import cograd
from cograd import _C, Tensor
from cograd._base import absent as _absent
from cograd._base.dtypes import dtype_name
from cograd._files.keys import Filler

__all__ = [
    "DEFAULT_PROTOCOL",
    "FILE_LIKE",
    "MAP_LOCATION",
    "FileError",
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "safe_globals",
    "save",
]

DEFAULT_PROTOCOL = 2  # pickle protocol
FILE_LIKE: TypeAlias = str | os.PathLike[str] | IO[bytes]
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | _C.device | str | dict[str, str] | None
_ARCHIVES = (".bin", ".ckpt", ".pkl", ".pt", ".pth", ".tar")  # suffixes of torch's files

_FORMAT = "cograd"
_VERSION = "1"
_HEADER_LIMIT = 100_000_000  # bytes of JSON; safetensors itself has this limit
_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
}
_CODES = {code: name for name, code in _NAMES.items()}


class FileError(RuntimeError, UnpicklingError):
    """Raised, with the file's name, for a file that is damaged, unknown or holds what is refused.

    It is an UnpicklingError, too, because programs catch that to try ``weights_only=False``.
    """


def _raw_array(tensor: Tensor) -> Any:
    """Returns the elements as a C-contiguous little-endian NumPy array; bfloat16 as int16."""
    import numpy

    data = tensor.detach().cpu().contiguous()
    if data.dtype == cograd.bfloat16:  # NumPy has no bfloat16
        data = data.view(cograd.int16)
    array = data.numpy()
    return numpy.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))


def _serialize(tensors: dict[str, Tensor], metadata: dict[str, str]) -> bytes:
    """Returns the bytes of a safetensors file."""
    import safetensors

    arrays = {key: _raw_array(tensor) for key, tensor in tensors.items()}
    spec = getattr(safetensors, "TensorSpec", None)
    entries: dict[str, Any] = {}
    for key, tensor in tensors.items():
        name, array = dtype_name(tensor.dtype), arrays[key]
        if spec is None:  # releases before 0.8 expect the bytes
            shape = list(tensor.shape)
            entries[key] = {"dtype": name, "shape": shape, "data": array.tobytes()}
        else:  # the arrays stay alive in ``arrays`` until serialize returns
            entries[key] = spec(
                dtype=name,
                shape=list(tensor.shape),
                data_ptr=array.ctypes.data,
                data_len=array.nbytes,
            )
    return bytes(safetensors.serialize(entries, metadata=metadata))


_INSTEAD = {
    "Module": "Save a module's state_dict().",
    "ndarray": "Save an array as a tensor: from_numpy(array).",
    "Size": "Save a size as a tuple: tuple(size).",
    "Namespace": "Save a namespace as a dict: vars(namespace).",
    "set": "Save a set as a list: sorted(values).",
    "dtype": "Save a dtype as its name: str(dtype).",
    "device": "Save a device as its name: str(device).",
    "complex": "Save a complex number as a tensor.",
}


def _instead(value: Any) -> str:
    """Returns advice on what to save instead of ``value`` and a space, or "" if there is none."""
    for cls in type(value).__mro__:
        if cls.__name__ in _INSTEAD:
            return _INSTEAD[cls.__name__] + " "
    return ""


class _Packer:
    """Converts an object to a JSON-able structure and the tensors it refers to by key."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.keys: dict[int, str] = {}
        self.storages: dict[tuple[int, Any, tuple[int, ...], tuple[int, ...]], str] = {}

    def pack(self, value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            if value.layout != cograd.strided:
                return self._pack_sparse(value, path)
            return self._pack_tensor(value, path)
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            return {"t": "int", "v": str(value)} if abs(value) >= 2**53 else value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"t": "float", "v": repr(value)}
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            kind = "list" if type(value) is list else "tuple"
            return {"t": kind, "v": [self.pack(v, _join(path, i)) for i, v in enumerate(value)]}
        if type(value) in (dict, OrderedDict):
            return self._pack_dict(value, path)
        raise TypeError(
            f"save(): cannot store an object of type {type(value).__name__} at "
            f"'{path or '<top>'}' in a safetensors file; expected a Tensor, None, bool, int, "
            f"float, str, or a list, tuple or dict of these. {_instead(value)}Or write torch's "
            'archive, which holds whatever can be pickled: save(..., format="torch"), or a path '
            "that ends in .pt."
        )

    def _pack_dict(self, value: dict[Any, Any], path: str) -> Any:
        items = []
        for key, item in value.items():
            if not isinstance(key, (str, int, float, bool)) and key is not None:
                raise TypeError(
                    f"save(): dict keys must be str or numbers, got {type(key).__name__} "
                    f"in '{path or '<top>'}'"
                )
            items.append([self.pack(key, path), self.pack(item, _join(path, key))])
        packed = {"t": "dict" if type(value) is dict else "ordered", "v": items}
        metadata = getattr(value, "_metadata", None)
        if metadata is not None:
            packed["m"] = self.pack(metadata, _join(path, "_metadata"))
        return packed

    def _pack_sparse(self, tensor: Tensor, path: str) -> Any:
        """Stores the indices and the values."""
        form: Any = tensor.__reduce_ex__(2)
        layout, data = form[1]
        parts = [tuple(d) if isinstance(d, cograd.Size) else d for d in data]
        return {"t": "sparse", "l": dtype_name(layout), "v": self.pack(parts, path)}

    def _pack_tensor(self, tensor: Tensor, path: str) -> Any:
        """Stores equal views of one storage once, so that they stay shared on load."""
        from .nn.parameter import Parameter

        place = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
        key = self.storages.get(place) if tensor.numel() else None
        # The format supports only complex64: complex128 is stored as its real and imaginary parts.
        parts = tensor.dtype == cograd.complex128
        stored = cograd.view_as_real(tensor.detach()) if parts else tensor
        if key is None:
            if dtype_name(stored.dtype) not in _NAMES:
                raise TypeError(f"save(): dtype {tensor.dtype} at '{path}' is not supported")
            key = self._fresh_key(path or "tensor")
            self.tensors[key] = stored
            if tensor.numel():
                self.storages[place] = key
        packed = {"t": "tensor", "k": key}
        if stored is not tensor:
            packed["c"] = True  # type: ignore[assignment]
        if isinstance(tensor, Parameter):
            packed["p"] = "parameter"
        if tensor.requires_grad:
            packed["g"] = True  # type: ignore[assignment]
        if tensor.device.type not in ("cpu", "meta"):
            packed["d"] = str(tensor.device)
        return packed

    def _fresh_key(self, path: str) -> str:
        key, n = path, 1
        while key in self.tensors or key == "__metadata__":
            key, n = f"{path}#{n}", n + 1
        return key


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    *,
    format: str | None = None,
) -> None:
    """Writes ``obj`` to a file.

    A safetensors file can hold tensors, None, bools, numbers, strings, and dicts, lists and tuples
    of them: what ``state_dict()`` of modules and optimizers returns. torch's archive, which
    ``torch.load`` reads, can hold anything that can be pickled, for example a module; ``load`` then
    requires ``weights_only=False``.

    Args:
        obj: the object to save. Tensors that share memory still do when they are loaded.
        f: a path, or a binary file open for writing.
        pickle_module, pickle_protocol: accepted and ignored.
        format: ``"safetensors"`` or ``"torch"``; None: torch's for the suffixes .pt, .pth, .ckpt,
            .bin, .pkl and .tar, and under ``install_as_torch`` for every suffix other than
            .safetensors.

    Raises:
        TypeError: ``obj`` holds something else; nothing is written then.
        ValueError: ``format`` is unknown.
    """
    if format not in (None, "safetensors", "torch"):
        raise ValueError(f"save(): format must be 'safetensors' or 'torch', got {format!r}")
    path = None if hasattr(f, "write") else os.fsdecode(f)
    suffix = "" if path is None else os.path.splitext(path)[1].lower()
    if format is None:
        archive = suffix in _ARCHIVES or _C._public_name() == "torch"
        format = "torch" if archive and suffix != ".safetensors" else "safetensors"
    if format == "torch":
        from cograd._files import archive as _torch_files

        name = os.path.splitext(os.path.basename(path or "archive"))[0] or "archive"
        content = io.BytesIO() if path is None else None
        if content is None:
            _replace(path or "", lambda file: _torch_files.write(obj, file, name))
        else:  # writing an archive seeks, which a stream may not support
            _torch_files.write(obj, content, name)
            f.write(content.getbuffer())
        return
    packer = _Packer()
    metadata = {
        "structure": json.dumps(packer.pack(obj, ""), separators=(",", ":")),
        "format": _FORMAT,
        "version": _VERSION,
    }
    data = _serialize(packer.tensors, metadata)
    if path is None:
        f.write(data)
    else:
        _replace(path, lambda file: file.write(data))


def _replace(path: str, write: Callable[[Any], Any]) -> None:
    """Writes a new file and renames it over the old one, which stays intact after an error."""
    import tempfile

    path = os.path.realpath(path)  # so that a link keeps pointing to the file
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device
        content = io.BytesIO()
        write(content)
        with open(path, "wb") as file:
            file.write(content.getbuffer())
        return
    folder, name = os.path.split(path)
    if os.path.exists(path):
        mode = os.stat(path).st_mode & 0o7777
        with open(path, "ab"):  # fails for a read-only file, which must not be replaced either
            pass
    else:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    handle, fresh = tempfile.mkstemp(prefix=f".{name[:64]}.", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise
    entry = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(entry)  # so that the directory entry also survives a power cut
    finally:
        os.close(entry)


def _describe(content: bytes) -> str | None:
    """Describes ``content`` if it is clearly not a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    sized = len(content) >= 8 and size <= _HEADER_LIMIT and 8 + size <= len(content)
    if sized and content[8:9] == b"{":
        return None  # checked first: the header's length may start with the bytes of a pickle
    if content[:1] == b"\x80" and len(content) > 1 and content[1] in (2, 3, 4, 5):
        if content[2:14] == b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19":
            return "a file of torch before 1.6; load it in torch and save it again"
        return "a pickle"
    if content[257:262] == b"ustar":
        return "a tar archive, as torch before 0.1.10 wrote it; load it in torch and save it again"
    if content[:6] == b"\x93NUMPY":
        return "a NumPy .npy file"
    if len(content) < 8:
        return f"{len(content)} bytes, too short for a header"
    if not sized:
        return f"a file whose first bytes are {content[:8]!r}"
    return f"a file whose header starts with {content[8:16]!r}"


def _parse(content: bytes, name: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Returns the tensors and the metadata of a safetensors file."""
    seen = _describe(content)
    if seen is not None:
        raise FileError(
            f"load(): {name} is neither a torch archive nor a safetensors file: it is {seen}. "
            "cograd.load reads safetensors files (written by cograd.save or by the safetensors "
            "package) and the zip archives that torch.save writes since torch 1.6."
        )
    from safetensors import SafetensorError, deserialize

    try:
        entries = deserialize(content)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise FileError(f"load(): {name} is not a valid safetensors file: {error}") from error
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    tensors = {key: _to_tensor(key, entry, name) for key, entry in entries}
    return tensors, header.get("__metadata__") or {}


def _to_tensor(key: str, entry: dict[str, Any], name: str) -> Tensor:
    import numpy

    code = entry["dtype"]
    if code not in _CODES:
        raise FileError(
            f"load(): tensor '{key}' in {name} has dtype {code}, expected one of "
            + ", ".join(_CODES)
        )
    kind = _CODES[code]
    shape = tuple(entry["shape"])
    storage = {"bfloat16": "int16"}.get(kind, kind)
    array = numpy.frombuffer(bytearray(entry["data"]), dtype=storage).reshape(shape)
    if array.size == 0:
        return cograd.empty(shape, dtype=getattr(cograd, kind))
    tensor = cograd.from_numpy(array)
    return tensor.view(cograd.bfloat16) if kind == "bfloat16" else tensor


class _Unpacker:
    """Rebuilds the object that ``_Packer`` converted."""

    def __init__(
        self, tensors: dict[str, Tensor], name: str, size: float = math.inf, place: Any = None
    ) -> None:
        self.tensors = tensors
        self.place = place or (lambda storage, location: storage)
        self.name = name
        self.filler = Filler(size)
        self.built: dict[tuple[str, Any], Tensor] = {}

    def unpack(self, node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        kind = node.get("t")
        if kind == "tensor":
            return self._tensor(node)
        if kind == "sparse":
            return self._sparse(node)
        if kind == "int":
            return int(node["v"])
        if kind == "float":
            return float(node["v"])
        if kind in ("list", "tuple"):
            items = [self.unpack(item) for item in node["v"]]
            return items if kind == "list" else tuple(items)
        if kind in ("dict", "ordered"):
            keys = [self.unpack(key) for key, _ in node["v"]]
            result: Any = {} if kind == "dict" else OrderedDict()
            self.filler.put(result, keys, [self.unpack(item) for _, item in node["v"]])
            if "m" in node:
                result._metadata = self.unpack(node["m"])
            return result
        raise FileError(f"load(): the structure in {self.name} has an unknown node {kind!r}")

    def _sparse(self, node: dict[str, Any]) -> Tensor:
        from ._files.names import FUNCTIONS

        layout = FUNCTIONS["torch.serialization._get_layout"].call(f"torch.{node['l']}")
        try:
            parts = tuple(self.unpack(node["v"]))
            made: Tensor = FUNCTIONS["torch._utils._rebuild_sparse_tensor"].call(layout, parts)
        except (ValueError, TypeError) as error:
            raise FileError(f"load(): {self.name}: {error}") from None
        return made

    def _tensor(self, node: dict[str, Any]) -> Tensor:
        key = node["k"]
        if key not in self.tensors:
            raise FileError(f"load(): {self.name} has no tensor '{key}', though it refers to it")
        form = (key, node.get("p"))
        if form not in self.built:
            tensor = self.tensors[key]
            if node.get("c"):
                tensor = cograd.view_as_complex(tensor)
            tensor = _placed(tensor, self.place, str(node.get("d", "cpu")))
            grad = bool(node.get("g", False))
            if node.get("p") == "parameter":
                from .nn.parameter import Parameter

                tensor = Parameter(tensor, requires_grad=grad)
            elif grad:
                tensor = tensor.detach().requires_grad_()
            self.built[form] = tensor
        return self.built[form]


def _placed(tensor: Tensor, place: Any, location: str) -> Tensor:
    """Returns a tensor that was read to the CPU where ``place`` puts its storage."""
    storage = tensor.untyped_storage()
    moved = place(storage, location)
    if moved is storage:
        return tensor
    parts = tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tensor.stride()
    result: Tensor = _C._rebuild_tensor(moved, *parts, False)
    return result


def _weights_only(given: bool | None) -> bool:
    """Returns whether to refuse what is no weight; under the alias torch's variables count."""
    if sys.modules.get("torch") is not cograd:
        return given is not False
    forced, forced_off = (
        os.environ.get(f"TORCH_FORCE_{word}WEIGHTS_ONLY_LOAD", "0").lower()
        in ("1", "y", "yes", "true")
        for word in ("", "NO_")
    )
    if forced and forced_off:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` "
            "should be set, but both were set."
        )
    if forced or given is not None or not forced_off:
        return forced or given is not False
    warnings.warn(
        "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the "
        "`weights_only` argument was not explicitly passed to `torch.load`, forcing "
        "weights_only=False.",
        UserWarning,
        stacklevel=3,
    )
    return False


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Reads a file of ``save`` or torch.save, or any safetensors file as a dict of tensors.

    From torch's archives it creates only tensors of dtypes that cograd has, Parameters, their
    attributes, storages, numbers, strings, containers, Size, dtype, device and layout. Tensors go
    to the device they were on; to the CPU if cograd does not have such devices.

    Args:
        f: a path, or a binary file open for reading.
        map_location: device of the tensors, such as 'cpu', 'cuda:1' or 'meta' (which reads shapes
            and dtypes only), a dict of locations, or a function that is called with each storage,
            which is on the CPU, and its location, and returns a storage or None.
        pickle_module: accepted and ignored.
        weights_only: False unpickles an archive with Python's unpickler, which can run any code of
            the file's author: only for files that you trust. None means True; in a program that
            runs cograd as torch, torch's variables TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD and
            TORCH_FORCE_WEIGHTS_ONLY_LOAD decide.
        mmap: maps the tensors of an archive instead of reading them; ``f`` must be a path. Changes
            stay in this process.

    Raises:
        FileError: the file is damaged, or of another kind; a RuntimeError whose message names the
            file and describes its content.
        RuntimeError: a tensor was on a GPU, or is to go to one, and there is no such GPU.
    """
    weights_only = _weights_only(weights_only)
    if isinstance(map_location, (str, cograd.device)):
        map_location = cograd.device(map_location)
        if map_location.type == "meta":
            return _load_to_meta(f, weights_only=weights_only, mmap=mmap)
    from cograd._files.locations import LocationError, restorer

    place = restorer(map_location)
    name = getattr(f, "name", "the file object") if hasattr(f, "read") else os.fspath(f)
    if mmap and hasattr(f, "read"):
        raise ValueError("load(): f must be a path to use mmap=True")
    try:
        if not hasattr(f, "read"):
            with open(name, "rb") as file:
                head = file.read(4)
                if head == b"PK\x03\x04":
                    return _load_archive(file, weights_only, name if mmap else None, place)
                return _load(head + file.read(), name, place)
        content = f.read()
        if not isinstance(content, (bytes, bytearray, memoryview)):
            raise TypeError(
                f"load(): reading '{name}' returned {type(content).__name__}; open it in binary "
                "mode"
            )
        if content[:4] == b"PK\x03\x04":
            return _load_archive(io.BytesIO(content), weights_only, None, place)
        return _load(bytes(content), name, place)
    except FileError:
        raise
    except LocationError as error:
        raise error.cause from None
    except _RefusedError as error:
        raise FileError(f"load(): '{name}' cannot be loaded: {error}") from error.__cause__
    # Damaged bytes cause these errors in the readers: wrong types, missing keys, endless nesting.
    except (
        RuntimeError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        OverflowError,
        EOFError,
    ) as error:
        if isinstance(error, MemoryError) or not weights_only:
            raise
        raise FileError(f"load(): '{name}' is damaged: {error!r}") from error


def _load_to_meta(f: Any, **options: Any) -> Any:
    """Loads a file without its data: every tensor is a meta tensor."""
    from cograd._files.names import to_meta

    token = to_meta.set(True)
    try:
        found = load(f, "cpu", **options)
    finally:
        to_meta.reset(token)
    if isinstance(found, dict):  # a safetensors file was read with its data
        found.update((k, v.to("meta")) for k, v in found.items() if isinstance(v, cograd.Tensor))
    return found


class _RefusedError(Exception):
    """Raised for content of a file that must not be loaded."""


def _load_archive(file: Any, weights_only: bool, path: Any, place: Any) -> Any:
    from cograd._files.archive import Archive
    from cograd._files.objects import load_all
    from cograd._files.unpickler import Unpickler

    try:
        archive = Archive(file, path, place)
        return Unpickler(archive).load() if weights_only else load_all(archive)
    except ValueError as error:
        if not weights_only:
            raise
        raise _RefusedError(str(error)) from error


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Lets ``load`` create objects of these classes, and call these functions.

    Args:
        safe_globals: classes and functions, or pairs of one and its name in the file.
    """
    from cograd._files.names import safe_globals as table

    for item in safe_globals:
        value, name = item if isinstance(item, tuple) else (item, None)
        table[name or f"{value.__module__}.{value.__qualname__}"] = value


def get_safe_globals() -> list[Any]:
    """Returns the values that were passed to ``add_safe_globals``."""
    from cograd._files.names import safe_globals as table

    return list(table.values())


def get_unsafe_globals_in_checkpoint(f: FILE_LIKE) -> list[str]:
    """Returns the names of classes and functions for which ``load`` refuses an archive.

    They have the form "module.name", in the order of their first use. Nothing is imported.

    Args:
        f: a path, or a file that is open for reading.

    Raises:
        FileError: the file is not an archive of torch.save, or is damaged.
    """
    from cograd._files.archive import Archive
    from cograd._files.names import refused_names

    with contextlib.ExitStack() as stack:
        name = str(os.fspath(f)) if isinstance(f, str | os.PathLike) else "the file"
        file: Any = stack.enter_context(open(f, "rb")) if isinstance(f, str | os.PathLike) else f
        try:
            return refused_names(Archive(file).pickle())
        except ValueError as error:
            raise FileError(
                f"get_unsafe_globals_in_checkpoint(): '{name}' cannot be read: {error}"
            ) from error


def clear_safe_globals() -> None:
    """Removes all values that were added by ``add_safe_globals``."""
    from cograd._files.names import safe_globals as table

    table.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Calls ``add_safe_globals`` for the duration of a with block."""
    from cograd._files.names import safe_globals as table

    before = dict(table)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        table.clear()
        table.update(before)


def _load(content: bytes, name: str, place: Any) -> Any:
    """Returns the object in a safetensors file."""
    tensors, metadata = _parse(content, f"'{name}'")
    if metadata.get("format") != _FORMAT or "structure" not in metadata:
        return {key: _placed(tensor, place, "cpu") for key, tensor in tensors.items()}
    if metadata.get("version") != _VERSION:
        raise FileError(
            f"load(): '{name}' has format version {metadata.get('version')}, "
            f"this cograd reads version {_VERSION}"
        )
    unpacker = _Unpacker(tensors, f"'{name}'", len(metadata["structure"]), place)
    return unpacker.unpack(json.loads(metadata["structure"]))


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
