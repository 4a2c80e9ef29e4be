# SPDX-License-Identifier: BSD-3-Clause
"""Views as new tensors: contiguous copies, with gradients, of what the view of that name shows."""

from __future__ import annotations

from collections.abc import Sequence

import cograd
from cograd._C import Tensor

__all__ = [
    "alias_copy",
    "as_strided_copy",
    "detach_copy",
    "diagonal_copy",
    "expand_copy",
    "narrow_copy",
    "permute_copy",
    "select_copy",
    "slice_copy",
    "split_copy",
    "split_with_sizes_copy",
    "squeeze_copy",
    "t_copy",
    "transpose_copy",
    "unbind_copy",
    "unfold_copy",
    "unsqueeze_copy",
    "view_as_complex_copy",
    "view_as_real_copy",
    "view_copy",
]


def _copied(view: Tensor, out: Tensor | None) -> Tensor:
    if out is None:
        return view.clone(memory_format=cograd.contiguous_format)
    out.resize_(view.shape)
    return out.copy_(view)


def _all_copied(views: Sequence[Tensor], out: Sequence[Tensor] | None) -> tuple[Tensor, ...]:
    if out is not None and len(out) != len(views):
        raise RuntimeError(
            f"out must have a tensor for each of the {len(views)} results, got {len(out)}"
        )
    places = [None] * len(views) if out is None else out
    return tuple(map(_copied, views, places))


def slice_copy(
    input: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Returns a copy of the elements start, start + step, ... before end along ``dim``."""
    if not -input.dim() <= dim < input.dim():
        raise IndexError(
            f"slice_copy(): dim must be in [{-input.dim()}, {input.dim() - 1}], got {dim}"
        )
    index = (*[slice(None)] * (dim % input.dim()), slice(start, end, step))
    return _copied(input[index], out)


def view_copy(
    input: Tensor, size: Sequence[int] | cograd.dtype, *, out: Tensor | None = None
) -> Tensor:
    """Returns a copy of ``view`` by a shape or a dtype; any strides will do for a shape."""
    view = input.view(size) if isinstance(size, cograd.dtype) else input.reshape(size)
    return _copied(view, out)


def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Returns a copy of all of ``input``."""
    return _copied(input, out)


def as_strided_copy(
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Returns a copy of ``as_strided``."""
    return _copied(input.as_strided(size, stride, storage_offset), out)


def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Returns a copy of ``detach``."""
    return _copied(input.detach(), out)


def diagonal_copy(
    input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1, *, out: Tensor | None = None
) -> Tensor:
    """Returns a copy of ``diagonal``."""
    return _copied(input.diagonal(offset, dim1, dim2), out)


def expand_copy(
    input: Tensor, size: Sequence[int], *, implicit: bool = False, out: Tensor | None = None
) -> Tensor:
    """Returns a copy of ``expand``."""
    return _copied(input.expand(size), out)


def narrow_copy(
    input: Tensor, dim: int, start: int, length: int, *, out: Tensor | None = None
) -> Tensor:
    """Returns a copy of ``narrow``."""
    return _copied(input.narrow(dim, start, length), out)


def permute_copy(input: Tensor, dims: Sequence[int], *, out: Tensor | None = None) -> Tensor:
    """Returns a copy of ``permute``."""
    return _copied(input.permute(dims), out)


def select_copy(input: Tensor, dim: int, index: int, *, out: Tensor | None = None) -> Tensor:
    """Returns a copy of ``select``."""
    return _copied(input.select(dim, index), out)


def squeeze_copy(
    input: Tensor, dim: int | Sequence[int] | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Returns a copy of ``squeeze``."""
    return _copied(input.squeeze() if dim is None else input.squeeze(dim), out)


def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Returns a copy of ``t``."""
    return _copied(input.t(), out)


def transpose_copy(input: Tensor, dim0: int, dim1: int, *, out: Tensor | None = None) -> Tensor:
    """Returns a copy of ``transpose``."""
    return _copied(input.transpose(dim0, dim1), out)


def unfold_copy(
    input: Tensor, dimension: int, size: int, step: int, *, out: Tensor | None = None
) -> Tensor:
    """Returns a copy of ``unfold``."""
    return _copied(input.unfold(dimension, size, step), out)


def unsqueeze_copy(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """Returns a copy of ``unsqueeze``."""
    return _copied(input.unsqueeze(dim), out)


def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Returns a copy of ``view_as_complex``."""
    return _copied(cograd.view_as_complex(input), out)


def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Returns a copy of ``view_as_real``."""
    return _copied(cograd.view_as_real(input), out)


def split_copy(
    input: Tensor, split_size: int, dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Returns copies of what ``split`` returns."""
    return _all_copied(input.split(split_size, dim), out)


def split_with_sizes_copy(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Returns copies of what ``split`` returns."""
    return _all_copied(input.split(list(split_sizes), dim), out)


def unbind_copy(
    input: Tensor, dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Returns copies of what ``unbind`` returns."""
    return _all_copied(input.unbind(dim), out)
