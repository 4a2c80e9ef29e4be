# SPDX-License-Identifier: BSD-3-Clause
"""vmap: maps a function of one sample over a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import cograd
from cograd import _C
from cograd._base import pytree as _pytree
from cograd._base.pytree import flat, shown
from cograd._base.traces import refuse_vmap

__all__ = ["vmap"]


def _spread(dims: Any, value: Any) -> list[Any] | None:
    """Returns a dim per leaf; a dim applies to its whole subtree. None if they do not match."""
    if not isinstance(dims, (dict, list, tuple)):
        return [dims] * len(flat(value)[0])
    if isinstance(dims, dict):
        if not isinstance(value, dict) or dims.keys() != value.keys():
            return None
        pairs = [(dims[k], value[k]) for k in value]
    else:
        kind = list if isinstance(dims, list) else tuple
        if not isinstance(value, kind) or len(dims) != len(value):
            return None
        pairs = list(zip(dims, value, strict=True))
    parts = [_spread(d, v) for d, v in pairs]
    return None if None in parts else [dim for part in parts for dim in part or ()]


def _is_dim(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", type(func).__name__)


def _input_dims(name: str, in_dims: Any, args: tuple[Any, ...]) -> list[int | None]:
    where = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
    dims = _spread(tuple(in_dims) if isinstance(in_dims, list) else in_dims, args)
    if dims is None:
        raise ValueError(
            f"{where}: in_dims is not compatible with the structure of `inputs`. in_dims has "
            f"structure {shown(flat(in_dims)[1])} but inputs has structure {shown(flat(args)[1])}."
        )
    for dim in dims:
        if not _is_dim(dim):
            raise ValueError(
                f"{where}: Got in_dim={dim} for an input but in_dim must be either an integer "
                "dimension or None."
            )
    return dims


def _output_dims(name: str, out_dims: Any, result: Any) -> list[int | None]:
    where = f"vmap({name}, ..., out_dims={out_dims})"
    one = isinstance(out_dims, tuple) and len(out_dims) == 1
    if one and not isinstance(result, (dict, list, tuple)):
        out_dims = out_dims[0]
    dims = _spread(out_dims, result)
    if dims is None:
        raise ValueError(
            f"{where}(<inputs>): out_dims is not compatible with the structure of `outputs`. "
            f"out_dims has structure {shown(flat(out_dims)[1])} but outputs has structure "
            f"{shown(flat(result)[1])}."
        )
    if not all(_is_dim(dim) for dim in dims):
        raise ValueError(
            f"{where}: `out_dims` must be an int, None or a python collection of ints representing "
            "where in the outputs the vmapped dimension should appear."
        )
    return dims


def _adds_samples(value: Any) -> bool:
    """True for containers that batch their tensors themselves, by torch's names: TensorDict."""
    return hasattr(value, "_add_batch_dim") and hasattr(value, "_maybe_remove_batch_dim")


def _one_sample(leaf: Any, dim: int | None, level: int) -> Any:
    if isinstance(leaf, cograd.Tensor) or not _adds_samples(leaf):
        return leaf if dim is None else _C._add_samples(leaf, dim, level)
    if dim is None:
        return leaf
    return leaf._add_batch_dim(in_dim=dim % leaf.dim(), vmap_level=level)


def _all_samples(name: str, leaf: Any, dim: int, level: int, size: int) -> Any:
    if not isinstance(leaf, cograd.Tensor) and _adds_samples(leaf):
        return leaf._maybe_remove_batch_dim(name, level, size, dim)
    _check_output(name, leaf)
    return _C._take_samples(leaf, dim, level, size)


def _part(leaf: Any, dim: int, start: int, n: int) -> Any:
    if isinstance(leaf, cograd.Tensor):
        return leaf.narrow(dim, start, n)
    index = (*[slice(None)] * (dim % leaf.dim()), slice(start, start + n))
    return leaf[index]


def _batch_size(name: str, in_dims: Any, leaves: list[Any], dims: list[int | None]) -> int:
    sizes: set[int] = set()
    for leaf, dim in zip(leaves, dims, strict=True):
        if dim is None:
            continue
        if not isinstance(leaf, cograd.Tensor) and not _adds_samples(leaf):
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for an input "
                f"but the input is of type {type(leaf)}. We cannot vmap over non-Tensor arguments, "
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
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims has no Tensor to map over: "
            "at least one input needs a dim of samples"
        )
    if len(sizes) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{[x.shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None]} for the "
            "mapped dimension. An argument that all samples share has the in_dim None"
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
    with _C._vmap_scope(size, randomness) as level:
        leaves: list[Any] = []
        spec = _pytree.flatten(args, leaves)
        handles = [_one_sample(leaf, dim, level) for leaf, dim in zip(leaves, dims, strict=True)]
        result = func(*_pytree.unflatten(spec, iter(handles)), **kwargs)
        outputs: list[Any] = []
        out_spec = _pytree.flatten(result, outputs)
        places = _output_dims(_name(func), out_dims, result)
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
            taken.append(_all_samples(_name(func), leaf, dim, level, size))
        return _pytree.unflatten(out_spec, iter(taken))


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
    same_numbers: bool,
) -> Any:
    leaves: list[Any] = []
    spec = _pytree.flatten(args, leaves)
    results = []
    state = cograd.get_rng_state() if same_numbers else None
    for start in range(0, size, chunk):
        if state is not None:
            cograd.set_rng_state(state)
        n = min(chunk, size - start)
        part = [
            leaf if dim is None else _part(leaf, dim, start, n)
            for leaf, dim in zip(leaves, dims, strict=True)
        ]
        results.append(run(_pytree.unflatten(spec, iter(part)), n))
    columns: list[list[Any]] = []
    for result in results:
        flat: list[Any] = []
        out_spec = _pytree.flatten(result, flat)
        columns.append(flat)
    places = _output_dims("func", out_dims, results[0])
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
    """Returns a function that applies ``func`` to all samples of a batch at once.

    Args:
        func: a function from trees of tensors and other arguments to a tree of tensors.
        in_dims: the batch dim of each positional argument: one for all, or a tree of them; None if
            the argument is the same for all samples, as keyword arguments are.
        out_dims: the batch dim of each result, in the same form; None for a result that is the
            same for all samples.
        randomness: behaviour of random operations: raise ("error"), draw separate values for each
            sample ("different"), or the same values for all ("same").
        chunk_size: maximum number of samples that run at once.

    An operation without a batching rule runs sample by sample and warns once; so does a Function
    without a ``vmap``. Operations that need the value of one sample (``item()``, ``bool()``,
    ``numpy()``) raise.

    Raises:
        ValueError: in_dims or out_dims do not fit, or the batch sizes differ.
        RuntimeError: ``func`` depends on values, or writes a batched tensor into one that is not
            batched.
    """
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        refuse_vmap()
        name = _name(func)
        if not isinstance(in_dims, (int, list, tuple)):
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or "
                "a (potentially nested) tuple matching the structure of inputs, got: "
                f"{type(in_dims)}."
            )
        if not args:
            raise ValueError(
                f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you "
                "are trying to vmap over a function with no inputs. The latter is unsupported."
            )
        dims = _input_dims(name, in_dims, args)
        size = _batch_size(name, in_dims, flat(args)[0], dims)

        def run(part: tuple[Any, ...], n: int) -> Any:
            return _run(func, part, kwargs, dims, n, out_dims, randomness)

        if chunk_size is None or chunk_size >= size:
            return run(args, size)
        return _chunks(run, args, dims, size, chunk_size, out_dims, randomness == "same")

    return mapped


def vmap_quietly(func: Callable[..., Any], randomness: str) -> Callable[..., Any]:
    """Returns ``vmap(func)`` without warnings for ops that run sample by sample."""
    run = vmap(func, randomness=randomness)

    def quiet(*args: Any) -> Any:
        before = _C._tell_of_loops(False)
        try:
            return run(*args)
        finally:
            _C._tell_of_loops(before)

    return quiet


def _vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: int = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., Any]:
    """Returns ``vmap(func)``, as torch's older function; results may be None if that is allowed."""
    if not allow_none_pass_through:
        return vmap(func, in_dims, out_dims)
    seen: list[Any] = []

    def tensors(*args: Any) -> tuple[Any, ...]:
        leaves: list[Any] = []
        seen[:] = _pytree.flatten(func(*args), leaves), leaves
        return tuple(leaf for leaf in leaves if leaf is not None)

    @functools.wraps(func)
    def mapped(*args: Any) -> Any:
        found = iter(vmap(tensors, in_dims, out_dims)(*args))
        spec, leaves = seen
        return _pytree.unflatten(spec, iter([None if v is None else next(found) for v in leaves]))

    return mapped
