# SPDX-License-Identifier: BSD-3-Clause
"""vmap: a function of one sample as a function of many."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import cograd
from cograd import _C, _pytree

__all__ = ["vmap"]


def _spread(dims: Any, tree: Any, what: str, where: str) -> list[int | None]:
    """One dim for each leaf of ``tree``; a dim stands for all leaves below its place."""
    if dims is None or isinstance(dims, int):
        leaves: list[Any] = []
        _pytree.flatten(tree, leaves)
        return [dims] * len(leaves)
    if isinstance(tree, dict) and isinstance(dims, dict) and dims.keys() == tree.keys():
        return [d for k in tree for d in _spread(dims[k], tree[k], what, where)]
    if (
        isinstance(tree, (list, tuple))
        and isinstance(dims, (list, tuple))
        and len(dims) == len(tree)
    ):
        return [d for i, t in zip(dims, tree, strict=True) for d in _spread(i, t, what, where)]
    raise ValueError(
        f"vmap({where}, {what}={dims}, ...)(<inputs>): {what} is not compatible with the structure "
        f"of what it is for: {type(tree).__name__}. It may be a dim, None, or the same structure of "
        "dims."
    )


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", type(func).__name__)


def _batch_size(name: str, in_dims: Any, leaves: list[Any], dims: list[int | None]) -> int:
    sizes = set()
    for leaf, dim in zip(leaves, dims, strict=True):
        if dim is None:
            continue
        if not isinstance(leaf, cograd.Tensor):
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for an input but "
                f"the input is of type {type(leaf)}. We cannot vmap over non-Tensor arguments, "
                "please use None as the respective in_dim"
            )
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for some input, "
                f"but that input is a Tensor of dimensionality {leaf.dim()} so expected in_dim to "
                f"satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
            )
        sizes.add(leaf.shape[dim])
    if not sizes:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims has no Tensor to map over: at "
            "least one input needs a dim of samples"
        )
    if len(sizes) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{[x.shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None]} for the "
            "mapped dimension"
        )
    return sizes.pop()


def _check_output(name: str, leaf: Any) -> None:
    if not isinstance(leaf, cograd.Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(leaf)}. Did you "
            "mean to set out_dims= to None for output?"
        )


def _run(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dims: list[int | None],
    size: int,
    out_dims: Any,
    randomness: str,
) -> Any:
    level = _C._begin_vmap(size, randomness)
    try:
        leaves: list[Any] = []
        spec = _pytree.flatten(args, leaves)
        handles = [
            leaf if dim is None else _C._add_samples(leaf, dim, level)
            for leaf, dim in zip(leaves, dims, strict=True)
        ]
        result = func(*_pytree.unflatten(spec, iter(handles)), **kwargs)
        outputs: list[Any] = []
        out_spec = _pytree.flatten(result, outputs)
        places = _spread(out_dims, result, "out_dims", _name(func))
        taken = []
        for leaf, dim in zip(outputs, places, strict=True):
            if dim is None:
                if isinstance(leaf, cograd.Tensor) and _has_samples(leaf, level):
                    raise ValueError(
                        f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor "
                        "when out_dim is None"
                    )
                taken.append(leaf)
                continue
            _check_output(_name(func), leaf)
            taken.append(_C._take_samples(leaf, dim, level, size))
        return _pytree.unflatten(out_spec, iter(taken))
    finally:
        _C._end_vmap(level)


def _has_samples(t: Any, level: int) -> bool:
    found = _C._describe_samples(t)
    return found is not None and found[0] == level


def _chunks(
    run: Callable[[tuple[Any, ...], int], Any],
    args: tuple[Any, ...],
    dims: list[int | None],
    size: int,
    chunk: int,
    out_dims: Any,
) -> Any:
    leaves: list[Any] = []
    spec = _pytree.flatten(args, leaves)
    results = []
    for start in range(0, size, chunk):
        n = min(chunk, size - start)
        part = [
            leaf if dim is None else leaf.narrow(dim, start, n)
            for leaf, dim in zip(leaves, dims, strict=True)
        ]
        results.append(run(_pytree.unflatten(spec, iter(part)), n))
    columns: list[list[Any]] = []
    for result in results:
        flat: list[Any] = []
        out_spec = _pytree.flatten(result, flat)
        columns.append(flat)
    places = _spread(out_dims, results[0], "out_dims", "func")
    joined = [
        column[0] if dim is None else cograd.cat(column, dim)
        for column, dim in zip(zip(*columns, strict=True), places, strict=True)
    ]
    return _pytree.unflatten(out_spec, iter(joined))


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that does what ``func`` does to one sample to many at once.

    Args:
        func: takes trees of tensors and anything else, returns a tree of tensors.
        in_dims: the dim of the samples in each positional argument: one for all, or a tree of them;
            None: the argument is the same for all samples. Keyword arguments have them in dim 0.
        out_dims: where the results have them, alike; None: a result that is the same for all.
        randomness: what random operations do: raise ("error"), draw anew for each sample
            ("different"), or once for all ("same").
        chunk_size: at most as many samples are run at once.

    An operation without a rule of its own runs sample by sample, and a warning says so once; so does a
    Function without a ``vmap``. What needs the value of one sample (``item()``, ``bool()``, ``numpy()``)
    raises.

    Raises:
        ValueError: in_dims or out_dims do not fit, or the numbers of samples differ.
        RuntimeError: a program that depends on values, or writes samples into what has none.
    """
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        name = _name(func)
        given = in_dims
        if isinstance(given, list):
            given = tuple(given)
        if not isinstance(given, (int, tuple)):
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a "
                f"(potentially nested) tuple matching the structure of inputs, got: {type(in_dims)}."
            )
        if not args and not kwargs:
            raise ValueError(
                f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are "
                "trying to vmap over a function with no inputs. The latter is unsupported."
            )
        # Keyword arguments go with the others, their samples in dim 0.
        everything = (args, kwargs)
        leaves: list[Any] = []
        _pytree.flatten(args, leaves)
        dims = _spread(given, args, "in_dims", name)
        keyword_leaves: list[Any] = []
        _pytree.flatten(kwargs, keyword_leaves)
        dims = dims + [0 if isinstance(t, cograd.Tensor) else None for t in keyword_leaves]
        leaves += keyword_leaves
        size = _batch_size(name, in_dims, leaves, dims)

        def call(a: tuple[Any, ...], k: dict[str, Any]) -> Any:
            return func(*a, **k)

        functools.update_wrapper(call, func) if hasattr(func, "__name__") else None

        def run(part: tuple[Any, ...], n: int) -> Any:
            return _run(call, part, {}, dims, n, out_dims, randomness)

        if chunk_size is None or chunk_size >= size:
            return run(everything, size)
        return _chunks(run, everything, dims, size, chunk_size, out_dims)

    return mapped
