# SPDX-License-Identifier: BSD-3-Clause
"""Handles of registered hooks."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from types import TracebackType
from typing import Any

from cograd import _C


def _reference(hooks: Any) -> Callable[[], Any]:
    """Returns a weak reference, or a strong one for plain dicts, which do not support weak ones."""
    try:
        return weakref.ref(hooks)
    except TypeError:
        return lambda: hooks


class RemovableHandle:
    """Removes a hook from the dict it was registered in. A context manager; it can be pickled.

    Args:
        hooks_dict: the dict of hooks, keyed by handle id.
        extra_dict: one dict or a list of dicts from which the id is removed too.
    """

    next_id: int = 0
    id: int

    def __init__(self, hooks_dict: MutableMapping[int, Any], *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = _reference(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra = extra_dict if isinstance(extra_dict, (list, tuple)) else [extra_dict]
        self.extra_dict_ref = tuple(_reference(d) for d in extra if d is not None)

    def remove(self) -> None:
        """Removes the hook; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> Any:
        """Returns the dicts themselves: when pickled with their module, they stay the module's."""
        return (
            self.hooks_dict_ref(),
            self.id,
            tuple(reference() for reference in self.extra_dict_ref),
        )

    def __setstate__(self, state: Any) -> None:
        hooks, self.id, *rest = state
        self.hooks_dict_ref = _reference(OrderedDict() if hooks is None else hooks)
        extra = rest[0] if rest else ()
        self.extra_dict_ref = tuple(_reference(OrderedDict() if d is None else d) for d in extra)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None
    ) -> None:
        self.remove()


class _NodeHandle(RemovableHandle):
    """Removes a hook of a graph node. An unpickled copy removes nothing: nodes are not pickled."""

    def __init__(self, node: Any, which: int, hook_id: int) -> None:
        self._node: Any = node
        self._which = which
        self.id = hook_id

    def remove(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            _C._remove_hook(node, self._which, self.id)

    def __getstate__(self) -> Any:
        return (self._which, self.id)

    def __setstate__(self, state: Any) -> None:
        self._node = None
        self._which, self.id = state

    def __enter__(self) -> _NodeHandle:
        return self


# Pickles name this public path.
RemovableHandle.__module__ = _NodeHandle.__module__ = "cograd.utils.hooks"
