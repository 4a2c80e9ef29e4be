# SPDX-License-Identifier: BSD-3-Clause
"""Functions whose arguments and results are trees of lists, tuples and dicts."""

from __future__ import annotations

from typing import Any


class _Run:
    """The shapes of one call's arguments and results."""

    def __init__(self, in_spec: Any) -> None:
        self.in_spec = in_spec
        self.out_spec: Any = None


def flatten(tree: Any, leaves: list[Any]) -> Any:
    """Appends the leaves of ``tree`` in order; returns its shape, to be given to unflatten."""
    if isinstance(tree, dict):
        keys = list(tree)
        return (dict, keys, [flatten(tree[k], leaves) for k in keys])
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return (type(tree), None, [flatten(v, leaves) for v in tree])
    if isinstance(tree, (list, tuple)):
        return (type(tree), None, [flatten(v, leaves) for v in tree])
    leaves.append(tree)
    return None


def unflatten(spec: Any, leaves: Any) -> Any:
    """The tree of shape ``spec`` with leaves taken from the iterator ``leaves``."""
    if spec is None:
        return next(leaves)
    kind, keys, parts = spec
    values = [unflatten(part, leaves) for part in parts]
    if kind is dict:
        return dict(zip(keys, values, strict=True))
    if kind in (list, tuple):
        return kind(values)
    return kind(*values)


def _gradient_leaves(spec: Any, tree: Any, leaves: list[Any], where: str) -> None:
    """Leaves of a gradient tree; a None stands for a whole subtree without gradient."""
    if spec is None:
        leaves.append(tree)
        return
    kind, keys, parts = spec
    if tree is None:
        for part in parts:
            _gradient_leaves(part, None, leaves, where)
        return
    if kind is dict:
        if not isinstance(tree, dict) or set(tree) - set(keys):
            raise RuntimeError(f"{where}: expected a dict of gradients with keys {keys}")
        values = [tree.get(k) for k in keys]
    else:
        if not isinstance(tree, (list, tuple)) or len(tree) != len(parts):
            raise RuntimeError(f"{where}: expected {len(parts)} gradients in a {kind.__name__}")
        values = list(tree)
    for part, value in zip(parts, values, strict=True):
        _gradient_leaves(part, value, leaves, where)


def _flat_function(cls: Any) -> Any:
    """The Function over leaves that carries out ``cls``; made once per class."""
    found = cls.__dict__.get("_flat")
    if found is not None:
        return found
    from cograd.autograd.function import Function

    def forward(ctx: Any, run: _Run, *leaves: Any) -> Any:
        args = unflatten(run.in_spec, iter(leaves))
        ctx._in_spec = run.in_spec
        if cls._style == "setup":
            output = cls.forward(*args)
            cls.setup_context(ctx, tuple(args), output)
        else:
            output = cls.forward(ctx, *args)
        out: list[Any] = []
        ctx._out_spec = run.out_spec = flatten(output, out)
        return tuple(out)

    def backward(ctx: Any, *grads: Any) -> Any:
        tree = unflatten(ctx._out_spec, iter(grads))
        single = not (isinstance(ctx._out_spec, tuple) and ctx._out_spec[0] is tuple)
        result = cls.backward(ctx, tree) if single else cls.backward(ctx, *tree)
        if not isinstance(result, tuple):
            result = (result,)
        parts = ctx._in_spec[2]
        while len(result) > len(parts) and result[-1] is None:
            result = result[:-1]
        leaves: list[Any] = []
        _gradient_leaves(ctx._in_spec, result, leaves, f"{cls.__name__}.backward")
        return (None, *leaves)

    flat = type(
        cls.__name__,
        (Function,),
        {"forward": staticmethod(forward), "backward": staticmethod(backward)},
    )
    cls._flat = flat
    return flat


def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """``apply`` of a Function with ``pytree = True``."""
    if kwargs:
        from cograd.autograd.function import _Helper

        args, names = _Helper.bind(cls, args, kwargs)
        if names:
            raise TypeError(f"{cls.__name__}: pytree Functions take no keyword-only arguments")
    leaves: list[Any] = []
    spec = flatten(tuple(args), leaves)
    run = _Run(spec)
    out = _flat_function(cls).apply(run, *leaves)
    return unflatten(run.out_spec, iter(out))
