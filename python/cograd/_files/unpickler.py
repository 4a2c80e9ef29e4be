# SPDX-License-Identifier: BSD-3-Clause
"""A pickle reader that creates only tensors, containers and numbers.

It interprets the opcodes that such pickles contain, instead of restricting ``pickle.Unpickler``:
a global is looked up only in the tables of ``_torch_names``, nothing is imported, and only
functions of that module are called.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import cograd
from cograd import Tensor
from cograd._files import names as _torch_names
from cograd._files.archive import Archive
from cograd._files.keys import Filler
from cograd._files.names import checked, safe_globals, tuple_of
from cograd.storage import TypedStorage, UntypedStorage

__all__ = ["Unpickler", "stored"]

_MARK = object()
_FILLED = (dict, OrderedDict, Counter, set, frozenset)


def stored(archive: Archive, pid: Any) -> TypedStorage:
    """Returns the storage of a persistent id.

    Raises:
        ValueError: ``pid`` does not describe a storage.
    """
    match pid:
        case ("storage", kind, str(key), str(location), int(count)) if 0 <= count < 1 << 60:
            if kind is UntypedStorage:
                return archive.typed_storage(key, cograd.uint8, count, location)
            if isinstance(kind, _torch_names.StorageType):
                return archive.typed_storage(key, kind.dtype, count, location)
    raise ValueError(f"its pickle refers to a {_kind(pid)}, expected a storage")


def _kind(value: Any) -> str:
    return "tuple" if isinstance(value, tuple) else type(value).__name__


def _pairs(items: Any) -> tuple[list[Any], list[Any]]:
    """Returns the keys and the values of a dict's items."""
    pairs = list(items.items()) if isinstance(items, dict) else items
    if type(pairs) not in (list, tuple) or not all(
        type(pair) in (tuple, list) and len(pair) == 2 for pair in pairs
    ):
        raise ValueError("a dict of something else")
    return [key for key, _ in pairs], [value for _, value in pairs]


class Unpickler:
    """Reads one pickle of an archive.

    Raises:
        ValueError: the pickle is damaged, or holds an object that is not allowed.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def load(self) -> Any:
        """Returns the object."""
        self._data = self._archive.pickle()
        self._filler = Filler(len(self._data))
        self._at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        while True:
            code = self._take(1)
            if code == b".":
                return checked(self._pop())
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
        """Pushes a value on the stack."""
        self._stack.append(value)

    def _pop(self) -> Any:
        if not self._stack:
            raise ValueError("its pickle pops from an empty stack")
        value = self._stack.pop()
        if value is _MARK:
            raise ValueError("its pickle uses a mark as a value")
        return value

    def _marked(self) -> list[Any]:
        """Pops the last mark and the values above it; returns the values."""
        for i in range(len(self._stack) - 1, -1, -1):
            if self._stack[i] is _MARK:
                values = self._stack[i + 1 :]
                del self._stack[i:]
                return values
        raise ValueError("its pickle has no mark")

    def _several(self, n: int) -> tuple[Any, ...]:
        return tuple_of([self._pop() for _ in range(n)][::-1])

    def _top(self, *kinds: type) -> Any:
        if not self._stack or type(self._stack[-1]) not in kinds:
            raise ValueError("its pickle adds items to something that is not a container")
        return self._stack[-1]

    # ---- steps ----

    def _put(self, index: int) -> None:
        if not self._stack:
            raise ValueError("its pickle memoizes from an empty stack")
        self._memo[index] = self._stack[-1]

    def _get(self, index: int) -> None:
        if index not in self._memo:
            raise ValueError("its pickle reads a memo entry that does not exist")
        self._stack.append(self._memo[index])

    def _append(self, values: Sequence[Any]) -> None:
        self._top(list).extend([checked(value) for value in values])

    def _add(self, values: list[Any]) -> None:
        self._filler.add(self._top(set), values)

    def _set_items(self, values: Sequence[Any]) -> None:
        if len(values) % 2:
            raise ValueError("its pickle has a key without a value")
        target = self._top(dict, OrderedDict, Counter)
        self._filler.put(target, values[::2], [checked(value) for value in values[1::2]])

    def _dict(self, values: list[Any]) -> None:
        self._stack.append({})
        self._set_items(values)

    def _frozenset(self, values: list[Any]) -> None:
        found: set[Any] = set()
        self._filler.add(found, values)
        self._stack.append(frozenset(found))

    def _find(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise ValueError("its pickle names a global by something other than strings")
        self._stack.append(_torch_names.find(module, name))

    def _reduce(self) -> None:
        arguments, func = self._pop(), self._pop()
        if not isinstance(arguments, tuple):
            raise ValueError("its pickle calls something with arguments that are not a tuple")
        if isinstance(func, _torch_names.Function):
            self._stack.append(func.call(*arguments))
            return
        checked(arguments)
        if any(func is kind for kind in _FILLED):
            self._stack.append(self._filled(func, *arguments))
        elif any(func is kind for kind in _torch_names.MAKERS):
            self._stack.append(_torch_names.MAKERS[func](*arguments))
        elif any(func is allowed for allowed in safe_globals.values()):
            self._stack.append(func(*arguments))
        else:
            raise ValueError("its pickle calls a function that is not allowed")

    def _filled(self, kind: Any, items: Any = ()) -> Any:
        """Returns a dict or a set built from a list, a tuple, or another dict or set."""
        if issubclass(kind, dict):
            made = kind()
            keys, values = _pairs(items)
            self._filler.put(made, keys, [checked(value) for value in values])
            return made
        if type(items) not in (list, tuple, set, frozenset):
            raise ValueError("a set of something else")
        found: set[Any] = set()
        self._filler.add(found, list(items))
        return kind(found)

    def _new(self) -> None:
        arguments, kind = checked(self._pop()), self._pop()
        if any(kind is f for f in safe_globals.values()) and isinstance(kind, type):
            self._stack.append(kind.__new__(kind, *arguments))
        elif any(kind is f for f in (OrderedDict, Counter, dict)) and arguments == ():
            self._stack.append(kind())
        else:
            raise ValueError("its pickle creates an object of a class that is not allowed")

    def _build(self) -> None:
        state = checked(self._pop())
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
        elif isinstance(target, Tensor):
            _torch_names.set_attributes(target, state)
        else:
            raise ValueError(f"its pickle sets attributes of {type(target).__name__}")

    def _persistent(self) -> None:
        self._stack.append(stored(self._archive, self._pop()))


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
    b"t": lambda u: u.push(tuple_of(u._marked())),
    b"l": lambda u: u.push(u._marked()),
    b"d": lambda u: u._dict(u._marked()),
    b"\x91": lambda u: u._frozenset(u._marked()),
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
