# SPDX-License-Identifier: BSD-3-Clause
"""Functions whose argument forms the op table cannot express: index lists, pairs of dims, edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cograd import _C
from cograd._base.return_types import make
from cograd._C import Size, Tensor

__all__ = [
    "broadcast_shapes",
    "chain_matmul",
    "einsum",
    "histogram",
    "meshgrid",
    "resize_as_",
    "tensordot",
    "zero_",
]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """Returns the shape to which tensors of ``shapes`` broadcast (each a sequence, or one int).

    Raises RuntimeError for sizes that do not broadcast or are negative.
    """
    result: list[int] = []
    for shape in shapes:
        sizes = [shape] if isinstance(shape, int) else list(shape)
        if any(n < 0 for n in sizes):
            raise RuntimeError(f"broadcast_shapes(): sizes must not be negative, got {sizes}")
        result = [1] * (len(sizes) - len(result)) + result
        for i in range(-len(sizes), 0):
            if sizes[i] == 1:
                continue
            if result[i] not in (1, sizes[i]):
                raise RuntimeError(
                    f"broadcast_shapes(): shape {tuple(sizes)} does not broadcast with the shapes "
                    f"before it, {tuple(result)}: {sizes[i]} and {result[i]} at dimension {i}"
                )
            result[i] = sizes[i]
    return Size(result)


def _term(subscripts: Sequence[Any]) -> str:
    """Returns the letters of one index list of ints in [0, 52) and Ellipsis."""
    text = ""
    for s in subscripts:
        if s is Ellipsis:
            text += "..."
        elif isinstance(s, int) and 0 <= s < len(_LETTERS):
            text += _LETTERS[s]
        else:
            raise ValueError(
                "einsum(): subscript in subscript list is not within the valid range [0, 52), got "
                f"{s!r}"
            )
    return text


def einsum(*args: Any) -> Tensor:
    """Sums products over named indices.

    Either ``einsum("ij,jk->ik", a, b)`` (the operands also as one list) or
    ``einsum(a, [0, 1], b, [1, 2], [0, 2])``, where the index lists hold ints in [0, 52) or ``...``
    and the last one, for the result, may be omitted. All operands must have one dtype. Raises
    ValueError without an operand, RuntimeError for subscripts that do not fit the shapes.
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    if isinstance(args[0], Tensor):
        equation = ",".join(_term(s) for s in args[1::2])
        if len(args) % 2:
            inputs, output = args[1:-1:2], args[-1]
            equation = ",".join(_term(s) for s in inputs) + "->" + _term(output)
        args = (equation, *args[: len(args) - len(args) % 2 : 2])
    result: Tensor = _C._ops.einsum(*args)
    return result


def tensordot(
    a: Tensor,
    b: Tensor,
    dims: int | Tensor | Sequence[int] | Sequence[Sequence[int]] = 2,
    out: Tensor | None = None,
    *,
    axes: int | Sequence[int] | Sequence[Sequence[int]] | None = None,
) -> Tensor:
    """Contracts ``a`` and ``b`` over ``dims``, or ``axes`` as NumPy calls them.

    An int n contracts the last n dims of ``a`` with the first n of ``b``; a pair of dim lists (or
    of ints) names them. The result has the remaining dims of ``a``, then those of ``b``; it is
    written to ``out`` if given. Raises RuntimeError for dims of different length or size.
    """
    if axes is not None:
        dims = axes
    pair = dims.tolist() if isinstance(dims, Tensor) and dims.numel() > 1 else dims
    if isinstance(pair, Tensor):
        pair = int(pair.item())
    if isinstance(pair, int):
        if pair < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={pair}")
        result: Tensor = _C._ops.tensordot(a, b, pair)
    else:
        left, right = ([d] if isinstance(d, int) else list(d) for d in pair)
        result = _C._ops._tensordot(a, b, left, right)
    if out is None:
        return result
    return _C._ops.mul(result, 1, out=out)  # resizes out


def meshgrid(
    *tensors: Tensor | Sequence[Tensor], indexing: str | None = None
) -> tuple[Tensor, ...]:
    """Returns grids of the coordinates in 1-d (or 0-d) tensors, passed one by one or as a list.

    ``indexing`` is 'ij' (the default: dim i belongs to the i-th tensor) or 'xy', which swaps the
    first two dims. The results are views of the tensors.
    """
    return _C._ops.meshgrid(*tensors, indexing=indexing)


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """Multiplies matrices in the order that needs the fewest multiplications."""
    from cograd.linalg import multi_dot

    return multi_dot(matrices, out=out)


_Histogram = make("histogram", "hist, bin_edges")


def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Counts the elements of ``input`` (any shape, floating) in bins; also returns the edges.

    ``bins`` is the number of equal bins between the two ends of ``range`` (by default those of the
    data), or a 1-d tensor of ascending edges of input's dtype; the last bin is closed. ``weight``
    (input's shape and dtype) is the weight of each element; ``density`` normalizes the integral
    over the bins to 1. Returns ``hist`` (bins,) and ``bin_edges`` (bins + 1,) of input's dtype.
    Raises RuntimeError for a range that is not finite or not ascending.
    """
    if isinstance(bins, Tensor):
        if range is not None:
            raise TypeError("histogram(): range is not allowed when bins is a tensor of edges")
        edges = bins
        hist = _C._ops._histogram_edges(input, edges, weight)
    else:
        low, high = (None, None) if range is None else (float(range[0]), float(range[1]))
        hist, edges = _C._ops._histogram_uniform(input, bins, low, high, weight)
    if density:
        hist = hist / (hist.sum() * (edges[1:] - edges[:-1]))
    return _Histogram(hist, edges)


def _histogram(
    self: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Calls :func:`cograd.histogram`."""
    return histogram(self, bins, range=range, weight=weight, density=density)


Tensor.histogram = _histogram  # type: ignore[method-assign]


def zero_(input: Tensor) -> Tensor:
    """Sets every element of ``input`` to 0, in place."""
    return input.zero_()


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Resizes ``input`` to the shape of ``the_template``, in place; new elements are undefined."""
    return input.resize_as_(the_template, memory_format=memory_format)


if not TYPE_CHECKING:
    _TOP = frozenset(
        "atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist istft "
        "lu norm pca_lowrank split stft svd_lowrank unique unique_consecutive unravel_index".split()
    )

    def __getattr__(name: str) -> Any:
        if name in _TOP:  # torch.functional has these; here they are elsewhere
            import cograd

            return getattr(cograd, name)
        if name == "__path__":  # the root's `import *` asks for it, and needs no advice
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        from cograd._base import absent

        raise absent.missing(__name__, name)
