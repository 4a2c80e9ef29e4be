# SPDX-License-Identifier: BSD-3-Clause
"""Lists and dicts that cannot change: a node's arguments, whose users the graph counts."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["immutable_dict", "immutable_list"]


def _no_mutation(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__!r} object does not support mutation. If you are attempting to "
        "modify the kwargs or args of a torch.fx.Node object,\n"
        "instead create a new copy of it and assign the copy to the node:\n\n"
        "    new_args = ...  # copy and mutate args\n"
        "    node.args = new_args"
    )


class immutable_list(list):  # type: ignore[type-arg]
    """A list that can be hashed and not changed."""

    append = clear = extend = insert = pop = remove = reverse = sort = _no_mutation
    __delitem__ = __iadd__ = __imul__ = __setitem__ = _no_mutation

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self),)


class immutable_dict(dict):  # type: ignore[type-arg]
    """A dict that can be hashed and not changed."""

    clear = pop = popitem = setdefault = update = _no_mutation
    __delitem__ = __setitem__ = __ior__ = _no_mutation

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return type(self), (dict(self),)
