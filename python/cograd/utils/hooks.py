# SPDX-License-Identifier: BSD-3-Clause
"""Handles of registered hooks."""

from __future__ import annotations

from collections.abc import MutableMapping
from types import TracebackType
from typing import Any

from cograd import _C


class RemovableHandle:
    """Removes a hook from the dict it was registered in.

    Args:
        hooks_dict: the dict of hooks, keyed by handle id.
        extra_dict: one dict or a list of dicts from which the id is removed too.
    """

    next_id: int = 0

    def __init__(self, hooks_dict: MutableMapping[int, Any], *, extra_dict: Any = None) -> None:
        self.hooks_dict = hooks_dict
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra = extra_dict if isinstance(extra_dict, (list, tuple)) else [extra_dict]
        self.extra_dicts = [d for d in extra if d is not None]

    def remove(self) -> None:
        """Removes the hook; a second call does nothing."""
        self.hooks_dict.pop(self.id, None)
        for d in self.extra_dicts:
            d.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None
    ) -> None:
        self.remove()


class _NodeHandle(RemovableHandle):
    """A hook that lives in a graph node."""

    def __init__(self, node: Any, which: int, hook_id: int) -> None:
        self._node: Any = node
        self._which = which
        self.id = hook_id

    def remove(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            _C._remove_hook(node, self._which, self.id)

    def __enter__(self) -> _NodeHandle:
        return self
