# SPDX-License-Identifier: BSD-3-Clause
"""Sparse tensors as roots, gradients and inputs of backward, and as gradients that are added."""

from __future__ import annotations

from typing import Any

from cograd import _C, Tensor
from cograd._base.memory_format import registered

from ._arithmetic import add
from ._convert import sparse_mask, to_dense
from ._embedding import embedding_bag_rows, embedding_rows
from ._gradcheck import by_values
from ._tensor import HANDLERS, SparseTensor, make

__all__ = ["install", "rewrap", "unwrap"]


def _gradient(root: SparseTensor, g: Any, index: int) -> Any:
    if g is None:
        if root.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        return None
    if tuple(g.shape) != tuple(root.shape):
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{index}] has a shape of {tuple(g.shape)} and "
            f"output[{index}] has a shape of {tuple(root.shape)}."
        )
    return sparse_mask(g, root)._v


def unwrap(
    roots: tuple[Any, ...], grads: tuple[Any, ...], wanted: tuple[Any, ...] | None
) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...] | None]:
    """Returns the arguments of a backward with values in place of sparse tensors."""
    new = [
        _gradient(root, g, i)
        if isinstance(root, SparseTensor)
        else to_dense(g)
        if isinstance(g, SparseTensor)
        else g
        for i, (root, g) in enumerate(zip(roots, grads, strict=False))
    ]
    grads = (*new, *grads[len(new) :])
    inputs = None if wanted is None else tuple(map(_values, wanted))
    return tuple(map(_values, roots)), grads, inputs


def _values(t: Any) -> Any:
    return t._v if isinstance(t, SparseTensor) else t


def rewrap(wanted: tuple[Any, ...], found: Any) -> tuple[Any, ...]:
    """Gives the gradients of sparse inputs their pattern."""
    return tuple(
        make(w._pattern, g) if isinstance(w, SparseTensor) and g is not None else g
        for w, g in zip(wanted, found, strict=True)
    )


def _sum(a: Tensor, b: Tensor) -> Tensor:
    """Adds two gradients, of which at least one is sparse."""
    total: Tensor = add(a, b)
    return total


def _copy(t: Any) -> Tensor:
    return make(t._pattern, t._v.clone())


def _cast(t: Any, dtype: Any) -> Tensor:
    return make(t._pattern, t._v.to(dtype))


def install() -> None:
    """Tells the engine how to add, copy and convert sparse gradients, and registers the rest."""
    _C._set_sparse_ops(_sum, _copy, _cast)
    registered.update(
        unwrap=unwrap,
        rewrap=rewrap,
        by_values=by_values,
        handlers=HANDLERS,
        kind=SparseTensor,
        embedding_rows=embedding_rows,
        embedding_bag_rows=embedding_bag_rows,
    )
