# SPDX-License-Identifier: BSD-3-Clause
"""Resolves the names in torch's pickles: classes, and the functions that rebuild tensors."""

from __future__ import annotations

import inspect
import pickletools
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import cograd
from cograd import _C, Tensor
from cograd._base.memory_format import memory_format
from cograd._files.archive import STORAGES
from cograd.nn.parameter import Parameter
from cograd.storage import TypedStorage, UntypedStorage

__all__ = [
    "CLASSES",
    "FUNCTIONS",
    "MAKERS",
    "Arguments",
    "Function",
    "StorageType",
    "checked",
    "find",
    "refused_names",
    "safe_globals",
    "set_attributes",
    "to_meta",
    "tuple_of",
]

# Additional names that a program allows, by "module.name": see serialization.add_safe_globals.
safe_globals: dict[str, Any] = {}


class _Inner:
    """An object that a pickle may name, call or pass on but not load as a value; see ``what``."""

    what: str


class StorageType(_Inner):
    """The type of a storage in a persistent id."""

    def __init__(self, name: str) -> None:
        self.what = f"the class torch.{name}"
        self.dtype = getattr(cograd, STORAGES[name])

    def __repr__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


class Function(_Inner):
    """A function: its name in the file, and the callable that implements it."""

    def __init__(self, path: str, call: Callable[..., Any]) -> None:
        self.what = f"the function {path}"
        self.call = call


class Arguments(tuple, _Inner):  # type: ignore[type-arg]
    """A tuple that contains another _Inner."""


def tuple_of(values: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the values as a tuple; an ``Arguments`` if one of them is an _Inner."""
    for value in values:
        if isinstance(value, _Inner):
            result = Arguments(values)
            result.what = value.what
            return result
    return tuple(values)


def checked(value: Any) -> Any:
    """Returns ``value``. Raises ValueError if it must not be part of the loaded object."""
    if isinstance(value, _Inner):
        raise ValueError(f"it holds {value.what} as a value, which is not allowed")
    return value


# ---- tensors ------------------------------------------------------------------------------------


def _ints(value: Any, what: str) -> tuple[int, ...]:
    if not isinstance(value, tuple) or not all(type(v) is int for v in value):
        raise ValueError(f"a tensor's {what} must be a tuple of ints, got {type(value).__name__}")
    return value


def _rebuild(storage: Any, offset: Any, size: Any, stride: Any, dtype: Any, grad: Any) -> Tensor:
    if not isinstance(storage, TypedStorage) or type(offset) is not int:
        raise ValueError("a tensor without a storage")
    dtype = storage.dtype if dtype is None else dtype
    if not isinstance(dtype, _C.dtype):
        raise ValueError(f"a tensor's dtype is a {type(dtype).__name__}")
    shape, strides = _ints(size, "size"), _ints(stride, "stride")
    if any(abs(v) >= 1 << 62 for v in (offset, *shape, *strides)):
        raise ValueError("a tensor's offset, size or stride is out of range")
    if to_meta.get():
        return _meta_tensor(dtype, shape, strides, grad is True)
    data = storage.untyped()
    result: Tensor = _C._rebuild_tensor(data, dtype, offset, shape, strides, grad is True)
    return result


# True while a file is loaded with map_location="meta".
to_meta: ContextVar[bool] = ContextVar("to_meta", default=False)


def _meta_tensor(dtype: Any, size: Any, stride: Any, grad: Any) -> Tensor:
    if not isinstance(dtype, _C.dtype):
        raise ValueError(f"a tensor's dtype is a {type(dtype).__name__}")
    shape, strides = _ints(size, "size"), _ints(stride, "stride")
    made: Tensor = cograd.empty_strided(shape, strides, dtype=dtype, device="meta")
    return made.requires_grad_(grad is True)


def _tensor(storage: Any, offset: Any, size: Any, stride: Any) -> Tensor:
    return _rebuild(storage, offset, size, stride, None, False)


def _tensor_v2(
    storage: Any, offset: Any, size: Any, stride: Any, grad: Any, hooks: Any, metadata: Any = None
) -> Tensor:
    return _rebuild(storage, offset, size, stride, None, grad)


def _tensor_v3(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    if dtype is None:
        raise ValueError("a tensor's dtype is None")
    return _rebuild(storage, offset, size, stride, dtype, grad)


def _parameter(data: Any, grad: Any, hooks: Any, state: Any = None) -> Tensor:
    if not isinstance(data, Tensor):
        raise ValueError("a Parameter without a tensor")
    return set_attributes(Parameter(data, requires_grad=grad is True), state)


def _typed(func: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """Rebuilds a tensor of class Tensor or Parameter, with its attributes."""
    known = isinstance(func, Function) and func.call in (_tensor_v2, _tensor_v3, _parameter)
    if not known or type(arguments) is not tuple or (kind is not Tensor and kind is not Parameter):
        raise ValueError("a tensor of a type that is not Tensor or Parameter")
    made = func.call(*arguments)
    if kind is Parameter and type(made) is not Parameter:
        made = Parameter(made.detach(), made.requires_grad)
    return set_attributes(made, state)


def set_attributes(tensor: Tensor, state: Any) -> Tensor:
    """Sets the attributes that ``tensor`` had in the program that saved it, and returns it.

    Raises:
        ValueError: they are not a dict, or one would replace an attribute of Tensor itself.
    """
    checked(state)
    attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    if not attributes and not slots:
        return tensor
    if slots:
        raise ValueError("a tensor has attributes in slots, which are not loaded")
    if type(attributes) not in (dict, OrderedDict):
        raise ValueError(
            f"a tensor's attributes are a {type(attributes).__name__}, expected a dict"
        )
    for name, value in attributes.items():
        if type(name) is not str:
            raise ValueError(
                f"a tensor's attribute has a name of type {type(name).__name__}, expected str"
            )
        own = inspect.getattr_static(type(tensor), name, None)
        if name.startswith("__") or hasattr(type(own), "__set__"):
            raise ValueError(
                f"it sets the attribute {name[:80]!r} of a tensor, which Tensor itself defines"
            )
        vars(tensor)[name] = checked(value)
    return tensor


# ---- other --------------------------------------------------------------------------------------


_LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def _layout(name: Any) -> Any:
    if type(name) is not str or name.removeprefix("torch.") not in _LAYOUTS:
        shown = repr(name[:80]) if type(name) is str else f"of a {type(name).__name__}"
        raise ValueError(f"it holds the layout {shown}, expected 'torch.strided'")
    return getattr(cograd, name.removeprefix("torch."))


def _sparse(layout: Any, data: Any) -> Tensor:
    from cograd._utils import _rebuild_sparse_tensor

    coo = layout == cograd.sparse_coo
    kinds = (Tensor,) * (2 if coo else 3)
    if (
        type(layout) is not type(cograd.strided)
        or layout == cograd.strided
        or type(data) is not tuple
        or len(data) not in ((3, 4) if coo else (4,))
        or not all(isinstance(d, k) for d, k in zip(data, kinds))
        or not isinstance(data[len(kinds)], cograd.Size | tuple)
        or not all(type(flag) is bool or flag is None for flag in data[len(kinds) + 1 :])
    ):
        raise ValueError("a sparse tensor whose parts are not indices, values and a size")
    try:
        return _rebuild_sparse_tensor(layout, data)
    except (RuntimeError, TypeError, IndexError) as error:
        raise ValueError(f"a sparse tensor: {error}") from None


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise ValueError("bytes in an unknown encoding")
    return text.encode(encoding)


def _bytearray(data: Any = b"", *_: Any) -> bytearray:
    if type(data) not in (bytes, str):
        raise ValueError("a bytearray of something else")
    return bytearray(data.encode("latin1") if isinstance(data, str) else data)


def _complex(*args: Any) -> complex:
    if not all(type(a) in (int, float, str) for a in args):
        raise ValueError("complex of something else")
    return complex(*args)


def _size(size: Any = ()) -> cograd.Size:
    return cograd.Size(_ints(tuple(size) if type(size) is list else size, "size"))


def _device(kind: Any, index: Any = None) -> cograd.device:
    if type(kind) is str and kind.partition(":")[0] == "cuda":
        text = kind if index is None else f"{kind}:{index}"
        try:
            return cograd.device(text)
        except RuntimeError as error:
            raise ValueError(str(error)) from None
    return cograd.device("meta" if kind == "meta" else "cpu")


# Implementations of the classes that may be called and that have no keys.
MAKERS: dict[Any, Callable[..., Any]] = {
    cograd.Size: _size,
    cograd.device: _device,
    complex: _complex,
    bytearray: _bytearray,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor_v2,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_meta_tensor_no_storage": _meta_tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._tensor._rebuild_from_type_v2": _typed,
    "torch.serialization._get_layout": _layout,
    "_codecs.encode": _encoded,
}
FUNCTIONS = {path: Function(path, call) for path, call in _CALLS.items()}
CLASSES: dict[str, Any] = {
    "torch.Size": cograd.Size,
    "torch.Tensor": Tensor,
    "torch.UntypedStorage": UntypedStorage,
    "torch.device": cograd.device,
    "torch.nn.parameter.Parameter": Parameter,
    "torch.storage.TypedStorage": TypedStorage,
    "torch.storage.UntypedStorage": UntypedStorage,
    "collections.Counter": Counter,
    "collections.OrderedDict": OrderedDict,
    "builtins.bytearray": bytearray,
    "builtins.complex": complex,
    "builtins.dict": dict,
    "builtins.frozenset": frozenset,
    "builtins.set": set,
}


def find(module: str, name: str) -> Any:
    """Returns the object that a name in the file refers to.

    Raises:
        ValueError: the name is not allowed in a file.
    """
    module = {"__builtin__": "builtins", "cograd": "torch"}.get(module, module)
    path = f"{module}.{name}"
    for table in (FUNCTIONS, CLASSES, safe_globals):
        if path in table:
            return table[path]
    if module == "torch":
        if name in STORAGES:
            return StorageType(name)
        named = getattr(cograd, name, None) if name.islower() else None
        if isinstance(named, _C.dtype | memory_format):
            return named
    raise ValueError(
        f"it refers to {path}, which is not allowed; tensors, numbers, strings, containers, Size, "
        "dtype, device and Parameter are allowed. If you trust the file, which may run any code, "
        "use load(..., weights_only=False)"
    )


def refused_names(data: bytes) -> list[str]:
    """Returns the names in a pickle for which ``find`` raises, in the order of their first use.

    Raises:
        ValueError: the pickle is damaged.
    """
    refused: dict[str, None] = {}
    texts: list[str] = []  # the strings so far, the last two of which STACK_GLOBAL takes
    memo: dict[int, str] = {}
    arg: Any
    for code, arg, _ in pickletools.genops(data):
        if code.name == "GLOBAL":
            module, name = arg.split(" ", 1)
        elif code.name == "STACK_GLOBAL" and len(texts) > 1:
            module, name = texts[-2:]
        else:
            if isinstance(arg, str):
                texts.append(arg)
            elif "PUT" in code.name and texts:
                memo[arg] = texts[-1]
            elif code.name == "MEMOIZE":
                memo[len(memo)] = texts[-1] if texts else ""
            elif "GET" in code.name:
                texts.append(memo.get(arg, ""))
            continue
        try:
            find(module, name)
        except ValueError:
            refused[f"{module}.{name}"] = None
    return list(refused)
