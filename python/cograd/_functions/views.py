# SPDX-License-Identifier: BSD-3-Clause
"""Views and detached tensors under their function names."""

from __future__ import annotations

from collections.abc import Sequence

from cograd._C import Tensor

__all__ = [
    "adjoint",
    "as_strided_",
    "detach",
    "detach_",
    "resolve_conj",
    "resolve_neg",
    "slice_inverse",
]


def adjoint(input: Tensor) -> Tensor:
    """Returns the conjugate transpose of matrices (*, m, n); a view for real ones."""
    result: Tensor = input.adjoint()
    return result


def resolve_conj(input: Tensor) -> Tensor:
    """Returns the input itself: ``conj()`` computes its result eagerly."""
    return input


def resolve_neg(input: Tensor) -> Tensor:
    """Returns the input itself."""
    return input


def detach(input: Tensor) -> Tensor:
    """Returns a view of ``input`` without its history."""
    return input.detach()


def detach_(input: Tensor) -> Tensor:
    """Detaches ``input`` from its history, in place."""
    return input.detach_()


def as_strided_(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Changes the sizes and strides of ``input`` in place, over the same memory."""
    return input.as_strided_(size, stride, storage_offset)


def slice_inverse(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """Returns ``src`` as a view, given that ``input`` is ``src.slice(dim, start, end, step)``."""
    return input.as_strided(src.shape, src.stride(), src.storage_offset())
