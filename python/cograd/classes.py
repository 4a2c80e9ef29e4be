# SPDX-License-Identifier: BSD-3-Clause
"""C++ classes by name: ``cograd.classes.<namespace>.<Class>(...)``.

They are registered by ``class_`` in a COGRAD_LIBRARY (``cograd/class.h``). An object lives in C++;
its Python object refers to it by a number and releases it when it is deleted.
"""

from __future__ import annotations

import copyreg
import inspect
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from cograd import _C, _op_table, ops

if TYPE_CHECKING:
    from cograd.utils.cpp_extension._load import load_library, loaded_libraries

__all__ = ["Object", "load_library", "loaded_libraries"]

_INDEX = "__class__"
_namespaces: dict[str, Namespace] = {}
_lock = threading.RLock()  # reentrant: signal handlers and finalizers may create objects too
# Operators for which Python tries the other operand if the first returns NotImplemented.
_BINARY = {
    f"__{prefix}{name}__"
    for name in (
        *("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "matmul", "truediv"),
        *("floordiv", "mod", "divmod", "pow", "and", "or", "xor", "lshift", "rshift"),
    )
    for prefix in ("", "r", "i")
}


class Object:
    """The base of all C++ classes' objects; an op that receives one is passed its number."""

    _qualified: ClassVar[tuple[str, str]] = ("", "")
    _members: ClassVar[dict[str, Any]] = {}  # special functions: init, release, getstate, setstate
    _alive: ClassVar[weakref.WeakValueDictionary[int, Object]]
    _number: int | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        make = self._members.get("init")
        if make is None:
            raise TypeError(f"{'::'.join(self._qualified)} has no constructor (def(init<...>()))")
        self._hold(make(*args, **kwargs))

    def _hold(self, number: int) -> None:
        self._let_go()
        self._number = number
        with _lock:
            self._alive[number] = self

    def _let_go(self) -> None:
        number, self._number = self._number, None
        if number is not None:
            self._members["release"](number)

    def __index__(self) -> int:
        if self._number is None:
            raise TypeError(f"{type(self).__name__}.__init__() was not called")
        return self._number

    def __del__(self) -> None:
        self._let_go()

    def __reduce__(self) -> Any:
        get = self._members.get("getstate")
        if get is None:
            raise TypeError(
                f"cannot pickle or copy an object of {'::'.join(self._qualified)}: "
                "the class has no def_pickle"
            )
        kind = self._qualified if "_qualified" in type(self).__dict__ else type(self)
        state = get(self)
        own: Any = {k: v for k, v in self.__dict__.items() if k != "_number"} or None
        names = getattr(copyreg, "_slotnames")(type(self))  # noqa: B009
        slots = {name: getattr(self, name) for name in names if hasattr(self, name)}
        if slots:
            own = (own, slots)
        return _restore, (kind, state if isinstance(state, tuple) else (state,)), own


def _restore(kind: Any, state: tuple[Any, ...]) -> Object:
    """Rebuilds an object from the state that ``__reduce__`` saved."""
    if isinstance(kind, tuple):
        kind = getattr(__getattr__(kind[0]), kind[1])
    restored: Object = kind.__new__(kind)
    restored._hold(kind._members["setstate"](*state))
    return restored


def _wrap(kind: type[Object], number: Any) -> Any:
    """Returns the Python object for a number that a function returned: an existing or a new one."""
    if number is None:
        return None
    with _lock:
        found = kind._alive.get(number)
    if found is not None:
        kind._members["release"](number)  # the existing object holds a reference already
        return found
    made = kind.__new__(kind)
    made._hold(number)
    return made


def _function(op: Any, name: str, result: str, owner: str, bound: bool) -> Callable[..., Any]:
    """Wraps an op in a plain function, so that it binds to objects."""
    if result:
        namespace, _, class_name = result.partition("::")

        def call(*args: Any, **kwargs: Any) -> Any:
            return _wrap(getattr(__getattr__(namespace), class_name), op(*args, **kwargs))
    else:

        def call(*args: Any, **kwargs: Any) -> Any:
            return op(*args, **kwargs)

    if bound and name in _BINARY:
        call = _operator(call)
    call.__name__ = name
    call.__qualname__ = f"{owner}.{name}"
    call.__doc__ = op.__doc__
    try:
        call.__signature__ = inspect.signature(op)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        pass
    return call if bound else staticmethod(call)


def _operator(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps ``call`` to return NotImplemented for an operand that the C++ function rejects."""

    def operator(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except TypeError:
            return NotImplemented

    return operator


def _build(namespace: str, name: str) -> type[Object]:
    """Creates the Python class of a registered C++ class."""
    index = _C._find_op(f"{namespace}::{name}{_INDEX}")
    members: dict[str, Any] = {}
    body: dict[str, Any] = {
        "__module__": f"cograd.classes.{namespace}",
        "_qualified": (namespace, name),
        "_members": members,
        "_alive": weakref.WeakValueDictionary(),
    }
    setters: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    for entry in index():
        kind, member, op_name, result = entry.split("\t")
        if kind == "doc":
            body["__doc__"] = member or None
            continue
        op = _C._find_op(f"{namespace}::{op_name}")
        if kind in ("method", "static"):
            body[member] = _function(op, member, result, name, kind == "method")
        elif kind == "get":
            properties[member] = _function(op, member, result, name, True)
        elif kind == "set":
            setters[member] = op
        else:
            members[kind] = op
    for member, get in properties.items():
        put = setters.get(member)
        body[member] = property(get, None if put is None else _setter(put), None, get.__doc__)
    made = type(name, (Object,), body)
    if "init" in members:
        try:
            made.__signature__ = inspect.signature(members["init"])  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            pass
    return made


def _setter(op: Any) -> Callable[[Object, Any], None]:
    def put(self: Object, value: Any) -> None:
        op(self, value)

    return put


def _classes() -> Iterable[tuple[str, str]]:
    """Yields namespace and name of every registered class."""
    for qualified in map(str, _C._foreign_ops()):
        if qualified.endswith(_INDEX) and qualified not in _op_table.gone:
            namespace, _, name = qualified.partition("::")
            yield namespace, name[: -len(_INDEX)]


class Namespace:
    """The classes of one namespace, as attributes."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if (self.__name__, name) not in _classes():
            known = ", ".join(f"{n}.{c}" for n, c in _classes()) or "none"
            raise AttributeError(
                f"cograd.classes.{self.__name__}.{name}: there is no such class; "
                f"registered: {known}. Was its library loaded? See cograd.ops.load_library",
                name=name,
                obj=self,
            )
        with _lock:
            return self.__dict__.setdefault(name, _build(self.__name__, name))

    def __dir__(self) -> list[str]:
        return sorted(c for n, c in _classes() if n == self.__name__)

    def __repr__(self) -> str:
        return f"<cograd.classes.{self.__name__}: {', '.join(dir(self)) or 'no classes'}>"


def _forget(names: Iterable[str]) -> None:
    """Drops classes whose library was rebuilt. Existing objects keep their classes."""
    for qualified in names:
        namespace, _, op = qualified.rpartition("::")
        if namespace in _namespaces and op.endswith(_INDEX):
            _namespaces[namespace].__dict__.pop(op[: -len(_INDEX)], None)


_op_table.listeners.append(_forget)


def __getattr__(name: str) -> Any:
    if name in ("load_library", "loaded_libraries"):
        return getattr(ops, name)
    if name.startswith("_"):
        raise AttributeError(f"module 'cograd.classes' has no attribute '{name}'")
    return _namespaces.setdefault(name, Namespace(name))


def __dir__() -> list[str]:
    return sorted({*__all__, *(n for n, _ in _classes())})
