# SPDX-License-Identifier: BSD-3-Clause
"""Trees of containers, for torch's private API: flatten, unflatten, map."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = [
    "SUPPORTED_NODES",
    "GetAttrKey",
    "KeyPath",
    "LeafSpec",
    "MappingKey",
    "NodeDef",
    "PyTree",
    "SequenceKey",
    "TreeSpec",
    "key_get",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
]

PyTree = Any
KeyPath = tuple[Any, ...]
_Flatten = Callable[[Any], tuple[Sequence[Any], Any]]
_Unflatten = Callable[[Iterable[Any], Any], Any]


def _dict_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _of_default(d: Any) -> tuple[list[Any], Any]:
    return list(d.values()), (d.default_factory, list(d))


class NodeDef(NamedTuple):
    """Functions that flatten and rebuild one type of container."""

    type: Any
    flatten_fn: _Flatten
    unflatten_fn: _Unflatten
    flatten_with_keys_fn: Callable[[Any], tuple[list[Any], Any]] | None


class MappingKey(NamedTuple):
    """The key of a dict's value in a path."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Returns the value at this key."""
        return mapping[self.key]


class SequenceKey(NamedTuple):
    """The index of a list's or tuple's item in a path."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Returns the item at this index."""
        return sequence[self.idx]


class GetAttrKey(NamedTuple):
    """The name of an attribute in a path, for example of a named tuple."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Returns the attribute."""
        return getattr(obj, self.name)


def _list_flatten(v: Any) -> tuple[list[Any], Any]:
    return list(v), None


_tuple_flatten = _list_flatten


def _list_unflatten(leaves: Iterable[Any], _: Any) -> list[Any]:
    return list(leaves)


def _tuple_unflatten(leaves: Iterable[Any], _: Any) -> tuple[Any, ...]:
    return tuple(leaves)


def _dict_unflatten(leaves: Iterable[Any], keys: Any) -> dict[Any, Any]:
    return dict(zip(keys, leaves))


SUPPORTED_NODES: dict[Any, NodeDef] = {}


def _builtin(
    kind: Any, flatten: _Flatten, unflatten: _Unflatten, key: Callable[[Any], Any]
) -> None:
    def with_keys(v: Any) -> tuple[list[Any], Any]:
        parts, context = flatten(v)
        names = v if isinstance(v, dict) else getattr(v, "_fields", range(len(parts)))
        return [(key(n), part) for n, part in zip(names, parts)], context

    SUPPORTED_NODES[kind] = NodeDef(kind, flatten, unflatten, with_keys)


_builtin(list, _list_flatten, _list_unflatten, SequenceKey)
_builtin(tuple, _tuple_flatten, _tuple_unflatten, SequenceKey)
_builtin(dict, _dict_flatten, _dict_unflatten, MappingKey)
_builtin(OrderedDict, _dict_flatten, lambda v, keys: OrderedDict(zip(keys, v)), MappingKey)
_builtin(defaultdict, _of_default, lambda v, how: defaultdict(how[0], zip(how[1], v)), MappingKey)
_builtin(deque, lambda v: (list(v), v.maxlen), lambda v, n: deque(v, maxlen=n), SequenceKey)
_builtin(namedtuple, lambda v: (list(v), type(v)), lambda v, kind: kind(*v), GetAttrKey)


_list_flatten_with_keys = SUPPORTED_NODES[list].flatten_with_keys_fn
_tuple_flatten_with_keys = SUPPORTED_NODES[tuple].flatten_with_keys_fn
_dict_flatten_with_keys = SUPPORTED_NODES[dict].flatten_with_keys_fn


def _get_node_type(tree: Any) -> Any:
    """Returns the key of SUPPORTED_NODES for ``tree``, or the type of a leaf."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return namedtuple
    return type(tree)


def _kind(tree: Any) -> Any:
    kind = _get_node_type(tree)
    return kind if kind in SUPPORTED_NODES else None


class TreeSpec:
    """The structure of a tree: a container with children, or a leaf."""

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type = type
        self.context = context
        self.children_specs = children_specs
        self.num_children = len(children_specs)
        leaves = sum(s.num_leaves for s in children_specs)
        self.num_leaves: int = 1 if type is None else leaves
        self.num_nodes: int = 1 + sum(s.num_nodes for s in children_specs)

    def is_leaf(self) -> bool:
        """Returns whether this is the structure of a leaf."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Returns the tree with these leaves."""
        return tree_unflatten(leaves, self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and (
            (self.type, self.context, self.children_specs)
            == (other.type, other.context, other.children_specs)
        )

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self.children_specs)))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context!r}, {self.children_specs!r})"


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


def register_pytree_node(
    cls: type,
    flatten_fn: _Flatten,
    unflatten_fn: _Unflatten,
    *,
    flatten_with_keys_fn: Callable[[Any], tuple[list[Any], Any]] | None = None,
    **options: Any,
) -> None:
    """Registers ``cls`` as a container.

    Args:
        flatten_fn: returns the parts and a context.
        unflatten_fn: the inverse, called with the parts and the context.
        flatten_with_keys_fn: like ``flatten_fn``, but returns pairs of a key and a part.
        options: accepted and ignored.
    """
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = _private_register_pytree_node = register_pytree_node


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """Returns the leaves in order, and the structure; None is a leaf."""
    leaves: list[Any] = []
    spec = _walk(tree, is_leaf, leaves)
    return leaves, spec


# An inner function would refer to itself, and so keep the leaves until a collection.
def _walk(node: Any, is_leaf: Callable[[Any], bool] | None, leaves: list[Any]) -> TreeSpec:
    """Appends the leaves of ``node``; returns its structure."""
    kind = None if is_leaf is not None and is_leaf(node) else _kind(node)
    if kind is None:
        leaves.append(node)
        return LeafSpec()
    parts, context = SUPPORTED_NODES[kind].flatten_fn(node)
    return TreeSpec(kind, context, [_walk(part, is_leaf, leaves) for part in parts])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Returns the tree of that structure.

    Raises:
        ValueError: the number of leaves differs.
    """
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(given)} but the spec "
            f"refers to a pytree that holds {treespec.num_leaves} items ({treespec})."
        )
    return _build(treespec, iter(given))


def _build(spec: TreeSpec, rest: Iterator[Any]) -> Any:
    """Returns the tree of that structure with the next leaves."""
    if spec.type is None:
        return next(rest)
    parts = [_build(part, rest) for part in spec.children_specs]
    return SUPPORTED_NODES[spec.type].unflatten_fn(parts, spec.context)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Returns the leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


tree_iter = tree_leaves


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """Returns the structure."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any],
    tree: Any,
    *rests: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Returns the tree of ``func`` of the leaves; further trees must have the same structure."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return tree_unflatten([func(*values) for values in zip(leaves, *others, strict=True)], spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Calls ``func`` with the leaves and returns ``tree``."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(kinds: Any, func: Callable[..., Any] | None = None, tree: Any = None) -> Any:
    """Maps leaves that are instances of ``kinds``; keeps others."""
    return tree_map(lambda v: func(v) if func and isinstance(v, kinds) else v, tree)


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Returns whether ``pred`` is true for a leaf."""
    return any(map(pred, tree_leaves(tree)))


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Returns whether ``pred`` is true for all leaves."""
    return all(map(pred, tree_leaves(tree)))


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[tuple[KeyPath, Any]]:
    """Returns pairs of a leaf's path, a tuple of keys, and the leaf.

    Raises:
        ValueError: a container was registered without a ``flatten_with_keys_fn``.
    """
    found: list[tuple[KeyPath, Any]] = []

    def walk(path: KeyPath, node: Any) -> None:
        kind = None if is_leaf is not None and is_leaf(node) else _kind(node)
        if kind is None:
            found.append((path, node))
            return
        parts = SUPPORTED_NODES[kind].flatten_with_keys_fn
        if parts is None:
            raise ValueError(
                f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a "
                "flatten_with_keys_fn argument to register_pytree_node."
            )
        for key, part in parts(node)[0]:
            walk((*path, key), part)

    walk((), tree)
    return found


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Returns leaves with their paths, and the structure; raises as ``tree_leaves_with_path``."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any],
    tree: Any,
    *rests: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Maps a function whose first argument is the path of the leaves."""
    leaves, spec = tree_flatten_with_path(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    values = [func(*pair, *rest) for pair, *rest in zip(leaves, *others, strict=True)]
    return tree_unflatten(values, spec)


def keystr(kp: KeyPath) -> str:
    """Formats a path: ``['a'][0].name``."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """Returns the object at the end of a path."""
    for key in kp:
        obj = key.get(obj)
    return obj
