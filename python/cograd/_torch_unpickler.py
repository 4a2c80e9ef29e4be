# SPDX-License-Identifier: BSD-3-Clause
"""A reader of pickles that makes tensors, containers and numbers, and nothing else.

It is an interpreter of the opcodes that such pickles have, not a restricted ``pickle.Unpickler``:
a global is looked up in the table below and nowhere else, nothing is imported, and only functions
of this file are called.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import cograd
from cograd import _C, Tensor
from cograd._torch_files import STORAGES, Archive

__all__ = ["Unpickler", "safe_globals"]

# What a program allows besides, by "module.name": see serialization.add_safe_globals.
safe_globals: dict[str, Any] = {}

_MARK = object()
_KEYS = (str, int, float, bool, bytes, complex, _C.dtype)
_KEY_DEPTH = 4
_KEY_ITEMS = 4096


class _Kind:
    """A storage's type in a persistent id."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


class _Storage:
    """What a persistent id stands for."""

    def __init__(self, data: Any, dtype: Any) -> None:
        self.data = data
        self.dtype = dtype


def _ints(value: Any, what: str) -> tuple[int, ...]:
    if not isinstance(value, tuple) or not all(type(v) is int for v in value):
        raise ValueError(f"a tensor's {what} is no tuple of ints, but a {type(value).__name__}")
    return value


def _rebuild(storage: Any, offset: Any, size: Any, stride: Any, dtype: Any, grad: Any) -> Tensor:
    if not isinstance(storage, _Storage) or type(offset) is not int:
        raise ValueError("a tensor without a storage")
    if not isinstance(dtype, _C.dtype):
        raise ValueError(f"a tensor's dtype is a {type(dtype).__name__}")
    shape, strides = _ints(size, "size"), _ints(stride, "stride")
    if any(abs(v) >= 1 << 62 for v in (offset, *shape, *strides)):
        raise ValueError("a tensor's offset, size or stride is out of range")
    result: Tensor = _C._rebuild_tensor(storage.data, dtype, offset, shape, strides, grad is True)
    return result


def _tensor(storage: Any, offset: Any, size: Any, stride: Any) -> Tensor:
    return _rebuild(storage, offset, size, stride, storage.dtype, False)


def _tensor_v2(
    storage: Any, offset: Any, size: Any, stride: Any, grad: Any, hooks: Any, metadata: Any = None
) -> Tensor:
    return _rebuild(storage, offset, size, stride, storage.dtype, grad)


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
    return _rebuild(storage, offset, size, stride, dtype, grad)


def _parameter(data: Any, grad: Any, hooks: Any, state: Any = None) -> Tensor:
    from cograd.nn.parameter import Parameter

    if not isinstance(data, Tensor):
        raise ValueError("a Parameter without a tensor")
    return Parameter(data, requires_grad=grad is True)


def _typed(func: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """A tensor of a type: a plain one, or a Parameter. Attributes are left out."""
    from cograd.nn.parameter import Parameter

    kinds = (_TENSOR, _PARAMETER, Tensor, Parameter)
    known = any(kind is k for k in kinds)
    if func not in (_tensor_v2, _tensor_v3, _parameter) or not known:
        raise ValueError("a tensor of a type that is not Tensor or Parameter")
    made = func(*arguments)
    if kind in (_PARAMETER, Parameter) and func is not _parameter:
        return _parameter(made.detach(), made.requires_grad, None)
    return made


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1", "utf-8", "ascii"):
        raise ValueError("bytes in an unknown encoding")
    return text.encode(encoding)


def _bytes(data: Any) -> bytes:
    if type(data) not in (bytes, str):
        raise ValueError("a bytearray of something else")
    return data.encode("latin1") if isinstance(data, str) else data


def _numbers(kind: Callable[..., Any]) -> Callable[..., Any]:
    def make(*args: Any) -> Any:
        if not all(type(a) in (int, float, str, bytes, list, tuple) for a in args):
            raise ValueError(f"{kind.__name__} of something else")
        return kind(*args)

    return make


def _check_key(key: Any) -> Any:
    """Raises for keys whose hash would take without bound, or run code."""
    level, seen = [key], 0
    for depth in range(_KEY_DEPTH + 1):
        inner: list[Any] = []
        for item in level:
            if type(item) in (tuple, frozenset) and depth < _KEY_DEPTH:
                seen += len(item)  # counted each time: a small file names one tuple many times
                if seen > _KEY_ITEMS:
                    raise ValueError(f"a key or an item of a set has more than {_KEY_ITEMS} items")
                inner += item
            elif item is not None and type(item) not in _KEYS:
                raise ValueError(f"a key or an item of a set is a {type(item).__name__}")
        level = inner
    return key


def _keys(items: Any) -> list[Any]:
    if type(items) not in (list, tuple, set, frozenset):
        raise ValueError("a set of something else")
    return [_check_key(item) for item in items]


def _mapping(kind: Callable[..., Any]) -> Callable[..., Any]:
    def make(items: Any = ()) -> Any:
        pairs = list(items.items()) if isinstance(items, dict) else items
        if type(pairs) not in (list, tuple) or not all(
            type(pair) in (tuple, list) and len(pair) == 2 for pair in pairs
        ):
            raise ValueError("a dict of something else")
        return kind({_check_key(key): value for key, value in pairs})

    return make


_TENSOR, _PARAMETER = object(), object()
_ORDERED, _COUNTER, _DICT = _mapping(OrderedDict), _mapping(Counter), _mapping(dict)
_CALLED: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor_v2,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._tensor._rebuild_from_type_v2": _typed,
    "torch.Size": lambda size=(): cograd.Size(
        _ints(tuple(size) if type(size) is list else size, "size")
    ),
    "torch.device": _numbers(lambda kind, index=None: cograd.device("cpu")),
    "collections.OrderedDict": _ORDERED,
    "collections.Counter": _COUNTER,
    "builtins.set": lambda items=(): set(_keys(items)),
    "builtins.frozenset": lambda items=(): frozenset(_keys(items)),
    "builtins.dict": _DICT,
    "builtins.complex": _numbers(complex),
    "builtins.bytearray": lambda data=b"", *_: bytearray(_bytes(data)),
    "_codecs.encode": _encoded,
}
_VALUES: dict[str, Any] = {
    "torch.Tensor": _TENSOR,
    "torch.nn.parameter.Parameter": _PARAMETER,
    "torch.storage.UntypedStorage": _Kind(None),
    "torch.UntypedStorage": _Kind(None),
    "torch.per_tensor_affine": None,
}


def _global(module: str, name: str) -> Any:
    """What a name in the file stands for."""
    module = {"__builtin__": "builtins", "cograd": "torch"}.get(module, module)
    path = f"{module}.{name}"
    if path in _CALLED:
        return _CALLED[path]
    if path in _VALUES:
        return _VALUES[path]
    if path in safe_globals:
        return safe_globals[path]
    if module == "torch":
        if name in STORAGES:
            return _Kind(getattr(cograd, STORAGES[name]))
        dtype = getattr(cograd, name, None) if name.islower() else None
        if isinstance(dtype, _C.dtype):
            return dtype
    raise ValueError(
        f"it refers to {path}, which is not loaded: tensors, numbers, strings, containers, Size, "
        "dtype, device and Parameter are. If you trust the file, which may run any code, use "
        "load(..., weights_only=False)"
    )


class Unpickler:
    """Reads one pickle of an archive.

    Raises:
        ValueError: the pickle is damaged, or holds something else.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def load(self) -> Any:
        """The object."""
        self._data = self._archive.pickle()
        self._at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        while True:
            code = self._take(1)
            if code == b".":
                return self._pop()
            step = _STEPS.get(code)
            if step is None:
                raise ValueError(f"its pickle has the opcode {code!r}, which is not read")
            step(self)

    # ---- the bytes and the stack ----

    def _take(self, n: int) -> bytes:
        piece = self._data[self._at : self._at + n]
        if len(piece) != n:
            raise ValueError("its pickle ends too early")
        self._at += n
        return piece

    def _line(self) -> str:
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise ValueError("its pickle ends too early")
        line = self._data[self._at : end]
        self._at = end + 1
        return line.decode("utf-8")

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _sized(self, form: str) -> bytes:
        return self._take(self._number(form))

    def push(self, value: Any) -> None:
        """Puts a value on the stack."""
        self._stack.append(value)

    def _pop(self) -> Any:
        if not self._stack:
            raise ValueError("its pickle takes from an empty stack")
        value = self._stack.pop()
        if value is _MARK:
            raise ValueError("its pickle takes a mark for a value")
        return value

    def _marked(self) -> list[Any]:
        """The values above the last mark, which goes too."""
        for i in range(len(self._stack) - 1, -1, -1):
            if self._stack[i] is _MARK:
                values = self._stack[i + 1 :]
                del self._stack[i:]
                return values
        raise ValueError("its pickle has no mark")

    def _several(self, n: int) -> tuple[Any, ...]:
        return tuple(reversed([self._pop() for _ in range(n)]))

    def _top(self, *kinds: type) -> Any:
        if not self._stack or type(self._stack[-1]) not in kinds:
            raise ValueError("its pickle fills something that is no container")
        return self._stack[-1]

    # ---- steps ----

    def _put(self, index: int) -> None:
        if not self._stack:
            raise ValueError("its pickle remembers nothing")
        self._memo[index] = self._stack[-1]

    def _get(self, index: int) -> None:
        if index not in self._memo:
            raise ValueError("its pickle recalls what it has not remembered")
        self._stack.append(self._memo[index])

    def _append(self, values: list[Any] | tuple[Any, ...]) -> None:
        self._top(list).extend(values)

    def _add(self, values: list[Any]) -> None:
        self._top(set).update(_keys(values))

    def _set_items(self, values: list[Any] | tuple[Any, ...]) -> None:
        if len(values) % 2:
            raise ValueError("its pickle has a key without a value")
        target = self._top(dict, OrderedDict, Counter)
        for key, value in zip(values[::2], values[1::2]):
            target[_check_key(key)] = value

    def _dict(self, values: list[Any]) -> None:
        self._stack.append({})
        self._set_items(values)

    def _find(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise ValueError("its pickle names something with no string")
        self._stack.append(_global(module, name))

    def _reduce(self) -> None:
        func, arguments = self._several(2)
        if type(arguments) is not tuple or not any(func is f for f in self._callable()):
            raise ValueError("its pickle calls what may not be called")
        self._stack.append(func(*arguments))

    def _callable(self) -> list[Any]:
        return [*_CALLED.values(), *safe_globals.values()]

    def _new(self) -> None:
        kind, arguments = self._several(2)
        if any(kind is f for f in safe_globals.values()) and isinstance(kind, type):
            self._stack.append(kind.__new__(kind, *arguments))
        elif any(kind is f for f in (_ORDERED, _COUNTER, _DICT)) and arguments == ():
            self._stack.append(kind())
        else:
            raise ValueError("its pickle makes what may not be made")

    def _build(self) -> None:
        state = self._pop()
        target: Any = self._stack[-1] if self._stack else None
        if type(target) is OrderedDict and isinstance(state, dict):
            if set(state) - {"_metadata"}:
                raise ValueError("an OrderedDict with attributes other than _metadata")
            vars(target).update(state)
        elif any(type(target) is kind for kind in safe_globals.values()):
            if hasattr(target, "__setstate__"):
                target.__setstate__(state)
            else:
                vars(target).update(state)
        elif not isinstance(target, Tensor):  # whose attributes are left out
            raise ValueError(f"its pickle sets attributes of {type(target).__name__}")

    def _persistent(self) -> None:
        match self._pop():
            case ("storage", _Kind() as kind, str(key), _, int(count)) if 0 <= count < 1 << 60:
                size = count * (1 if kind.dtype is None else kind.dtype.itemsize)
                self._stack.append(_Storage(self._archive.storage(key, size), kind.dtype))
            case other:
                raise ValueError(
                    f"its pickle refers to a {type(other).__name__}, expected a storage"
                )


def _long(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


_STEPS: dict[bytes, Callable[[Any], Any]] = {
    b"\x80": lambda u: u._take(1),  # the protocol
    b"\x95": lambda u: u._take(8),  # the length of a frame
    b"(": lambda u: u.push(_MARK),
    b"0": lambda u: u._pop(),
    b"1": lambda u: u._marked(),
    b"N": lambda u: u.push(None),
    b"\x88": lambda u: u.push(True),
    b"\x89": lambda u: u.push(False),
    b"J": lambda u: u.push(u._number("<i")),
    b"K": lambda u: u.push(u._number("<B")),
    b"M": lambda u: u.push(u._number("<H")),
    b"\x8a": lambda u: u.push(_long(u._sized("<B"))),
    b"\x8b": lambda u: u.push(_long(u._sized("<I"))),
    b"G": lambda u: u.push(u._number(">d")),
    b"X": lambda u: u.push(u._sized("<I").decode("utf-8", "surrogatepass")),
    b"\x8c": lambda u: u.push(u._sized("<B").decode("utf-8", "surrogatepass")),
    b"\x8d": lambda u: u.push(u._sized("<Q").decode("utf-8", "surrogatepass")),
    b"U": lambda u: u.push(u._sized("<B").decode("latin1")),
    b"T": lambda u: u.push(u._sized("<I").decode("latin1")),
    b"C": lambda u: u.push(u._sized("<B")),
    b"B": lambda u: u.push(u._sized("<I")),
    b"\x8e": lambda u: u.push(u._sized("<Q")),
    b"\x96": lambda u: u.push(bytearray(u._sized("<Q"))),
    b")": lambda u: u.push(()),
    b"]": lambda u: u.push([]),
    b"}": lambda u: u.push({}),
    b"\x8f": lambda u: u.push(set()),
    b"t": lambda u: u.push(tuple(u._marked())),
    b"l": lambda u: u.push(u._marked()),
    b"d": lambda u: u._dict(u._marked()),
    b"\x91": lambda u: u.push(frozenset(_keys(u._marked()))),
    b"\x85": lambda u: u.push(u._several(1)),
    b"\x86": lambda u: u.push(u._several(2)),
    b"\x87": lambda u: u.push(u._several(3)),
    b"a": lambda u: u._append([u._pop()]),
    b"e": lambda u: u._append(u._marked()),
    b"s": lambda u: u._set_items(u._several(2)),
    b"u": lambda u: u._set_items(u._marked()),
    b"\x90": lambda u: u._add(u._marked()),
    b"q": lambda u: u._put(u._number("<B")),
    b"r": lambda u: u._put(u._number("<I")),
    b"\x94": lambda u: u._put(len(u._memo)),
    b"h": lambda u: u._get(u._number("<B")),
    b"j": lambda u: u._get(u._number("<I")),
    b"c": lambda u: u._find(u._line(), u._line()),
    b"\x93": lambda u: u._find(*u._several(2)),
    b"R": lambda u: u._reduce(),
    b"\x81": lambda u: u._new(),
    b"b": lambda u: u._build(),
    b"Q": lambda u: u._persistent(),
}
