# SPDX-License-Identifier: BSD-3-Clause
"""Weak references and dicts that compare keys by identity: `==` of tensors is elementwise."""

from __future__ import annotations

import contextlib
import copy
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from cograd import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that is equal to another one if both refer to the same object.

    Args:
        key: the object; it need not be hashable.
        callback: is called with this reference when the object is gone.
    """

    __slots__ = ("_id",)
    _id: int

    def __new__(cls, key: Any, callback: Callable[[Any], Any] | None = None) -> WeakIdRef:
        """Creates the reference."""
        return super().__new__(cls, key, callback)

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, weakref.ref):
            return NotImplemented
        mine, others = self(), other()
        return self is other if mine is None or others is None else mine is others

    def __ne__(self, other: object) -> bool:
        return not self == other


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dict whose keys are found by identity, and which does not keep them alive.

    An item goes with its key. During an iteration, items whose keys go meanwhile are skipped.

    Args:
        dict: initial items, a mapping or pairs.
        ref_type: the class of the references to keys.

    Attributes:
        data: a dict from references to values.
    """

    def __init__(self, dict: Any = None, ref_type: Callable[..., Any] = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        self._readers = 0
        self._gone: list[Any] = []
        own = weakref.ref(self)

        def drop(reference: Any) -> None:
            this = own()
            if this is None:
                return
            if this._readers:
                this._gone.append(reference)
            else:
                this.data.pop(reference, None)

        self._drop = drop
        if dict is not None:
            self.update(dict)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Keeps the size of ``data`` while it is iterated over."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1
            while self._gone and not self._readers:
                self.data.pop(self._gone.pop(), None)

    def _living(self) -> Iterator[tuple[Any, Any]]:
        with self._reading():
            for reference, value in self.data.items():
                key = reference()
                if key is not None:
                    yield key, value

    def __getitem__(self, key: Any) -> Any:
        try:
            return self.data[self.ref_type(key)]
        except KeyError:
            raise KeyError(key) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._drop)] = value

    def __delitem__(self, key: Any) -> None:
        try:
            del self.data[self.ref_type(key)]
        except KeyError:
            raise KeyError(key) from None

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # a number has no weak reference
            return False

    def __len__(self) -> int:
        return len(self.data) - sum(reference in self.data for reference in self._gone)

    def __iter__(self) -> Iterator[Any]:
        for key, _ in self._living():
            yield key

    def keys(self) -> Iterator[Any]:  # type: ignore[override]
        """Returns an iterator over the keys."""
        return iter(self)

    def items(self) -> Iterator[tuple[Any, Any]]:  # type: ignore[override]
        """Returns an iterator over pairs of key and value."""
        return self._living()

    def values(self) -> Iterator[Any]:  # type: ignore[override]
        """Returns an iterator over the values."""
        for _, value in self._living():
            yield value

    def keyrefs(self) -> list[Any]:
        """Returns the references to the keys; those of keys that are gone return None."""
        return list(self.data)

    def popitem(self) -> tuple[Any, Any]:
        """Removes an item and returns it."""
        while True:
            reference, value = self.data.popitem()
            key = reference()
            if key is not None:
                return key, value

    def copy(self) -> WeakIdKeyDictionary:
        """Returns a dict with the same keys and values."""
        return WeakIdKeyDictionary(self.items(), self.ref_type)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> WeakIdKeyDictionary:
        """Returns a dict with the same keys and copies of the values."""
        made = type(self)(ref_type=self.ref_type)
        for key, value in self.items():
            made[key] = copy.deepcopy(value, memo)
        return made

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: Any) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        made = type(self)(other, self.ref_type)
        made.update(self)
        return made

    def __ior__(self, other: Any) -> WeakIdKeyDictionary:
        self.update(other)
        return self

    def __eq__(self, other: object) -> Any:
        """Compares keys by identity and values by ``==``."""
        if not isinstance(other, Mapping):
            return NotImplemented
        mine, others = ({id(k): v for k, v in d.items()} for d in (self, other))
        return mine == others

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def update(self, other: Any = (), /, **items: Any) -> None:
        """Sets items, given as a mapping or as pairs."""
        pairs: Iterable[Any] = other.items() if isinstance(other, Mapping) else other
        for key, value in pairs:
            self[key] = value
        for name, value in items.items():  # raises: a str has no weak reference
            self[name] = value


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor; a call returns the tensor, or None if it is gone."""

    __slots__ = ("ref",)

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"TensorWeakRef: expected a Tensor, got {type(tensor).__name__}")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        """Returns the tensor or None."""
        return self.ref()
