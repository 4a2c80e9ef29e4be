# SPDX-License-Identifier: BSD-3-Clause
"""Trees of containers under torch's private names: flatten, unflatten, map."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Sequence
from typing import Any

__all__ = [
    "LeafSpec",
    "PyTree",
    "TreeSpec",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_iter",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]

PyTree = Any
_Flatten = Callable[[Any], tuple[Sequence[Any], Any]]
_Unflatten = Callable[[Iterable[Any], Any], Any]


def _of_dict(d: Any) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _of_default(d: Any) -> tuple[list[Any], Any]:
    return list(d.values()), (d.default_factory, list(d))


_NODES: dict[type, tuple[_Flatten, _Unflatten]] = {
    list: (lambda v: (v, None), lambda leaves, _: list(leaves)),
    tuple: (lambda v: (v, None), lambda leaves, _: tuple(leaves)),
    dict: (_of_dict, lambda leaves, keys: dict(zip(keys, leaves))),
    OrderedDict: (_of_dict, lambda leaves, keys: OrderedDict(zip(keys, leaves))),
    defaultdict: (_of_default, lambda leaves, how: defaultdict(how[0], zip(how[1], leaves))),
    deque: (lambda v: (list(v), v.maxlen), lambda leaves, n: deque(leaves, maxlen=n)),
    namedtuple: (lambda v: (list(v), type(v)), lambda leaves, kind: kind(*leaves)),  # type: ignore[dict-item]
}


def _kind(tree: Any) -> Any:
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return namedtuple
    return type(tree) if type(tree) in _NODES else None


class TreeSpec:
    """The shape of a tree: of a container with parts, or of a leaf."""

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type = type
        self.context = context
        self.children_specs = children_specs
        self.num_children = len(children_specs)
        leaves = sum(s.num_leaves for s in children_specs)
        self.num_leaves: int = 1 if type is None else leaves
        self.num_nodes: int = 1 + sum(s.num_nodes for s in children_specs)

    def is_leaf(self) -> bool:
        """Whether it is the shape of a leaf."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with these leaves."""
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
    """The shape of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


def register_pytree_node(
    cls: type, flatten_fn: _Flatten, unflatten_fn: _Unflatten, **options: Any
) -> None:
    """Makes objects of ``cls`` containers.

    Args:
        flatten_fn: gives the parts and a context.
        unflatten_fn: the inverse, called with the parts and the context.
        options: accepted and ignored.
    """
    _NODES[cls] = (flatten_fn, unflatten_fn)


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and the shape; None is a leaf."""
    leaves: list[Any] = []

    def walk(node: Any) -> TreeSpec:
        kind = None if is_leaf is not None and is_leaf(node) else _kind(node)
        if kind is None:
            leaves.append(node)
            return LeafSpec()
        parts, context = _NODES[kind][0](node)
        return TreeSpec(kind, context, [walk(part) for part in parts])

    spec = walk(tree)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of that shape.

    Raises:
        ValueError: another number of leaves.
    """
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(given)} but the spec "
            f"refers to a pytree that holds {treespec.num_leaves} items ({treespec})."
        )
    rest = iter(given)

    def build(spec: TreeSpec) -> Any:
        if spec.type is None:
            return next(rest)
        parts = [build(part) for part in spec.children_specs]
        return _NODES[spec.type][1](parts, spec.context)

    return build(treespec)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


tree_iter = tree_leaves


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The shape."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any],
    tree: Any,
    *rests: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """The tree of ``func`` of the leaves; further trees have the same shape."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return tree_unflatten([func(*values) for values in zip(leaves, *others, strict=True)], spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Calls ``func`` with the leaves and returns ``tree``."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(kinds: Any, func: Callable[..., Any] | None = None, tree: Any = None) -> Any:
    """``tree_map`` for leaves that are instances of ``kinds``; others stay."""
    return tree_map(lambda v: func(v) if func and isinstance(v, kinds) else v, tree)


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether ``pred`` holds for a leaf."""
    return any(map(pred, tree_leaves(tree)))


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether ``pred`` holds for all leaves."""
    return all(map(pred, tree_leaves(tree)))
