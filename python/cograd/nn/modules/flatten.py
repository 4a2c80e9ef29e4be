# SPDX-License-Identifier: BSD-3-Clause
"""Layers that join dims or split one."""

from __future__ import annotations

from collections.abc import Sequence

from cograd import Tensor

from .module import Module

__all__ = [
    "Flatten",
    "Unflatten",
]


class Flatten(Module):
    """Joins the dims ``start_dim`` to ``end_dim`` into one.

    Returns a view where the strides allow it. See ``Tensor.flatten``.

    Args:
        start_dim: the first dim to join; the default, 1, keeps samples apart.
        end_dim: the last dim to join.

    Raises:
        IndexError: a dim does not exist, such as 1 for an input of one dim.
        RuntimeError: ``start_dim`` is after ``end_dim``.

    Shape:
        - input: (*, S1, ..., Sn, *), S1 at ``start_dim`` and Sn at ``end_dim``.
        - output: (*, S1 ... Sn, *).
        - dtypes: any.
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, *) to (N, prod(*)) with the default arguments."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits the dim ``dim`` into the sizes ``unflattened_size``.

    See ``Tensor.unflatten``.

    Args:
        dim: the dim to split, an int.
        unflattened_size: tuple or list of ints; one may be -1, which is computed from the others.

    Raises:
        TypeError: ``dim`` is not an int, or the sizes are not a tuple or list of ints.
        RuntimeError: the product of the sizes is not S.

    Shape:
        - input: (*, S, *), S at ``dim``.
        - output: (*, U1, ..., Un, *), where the product of the U is S.
        - dtypes: any.
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError("invalid argument type for dim parameter")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                "unflattened_size must be a tuple of ints, "
                f"but found type {type(unflattened_size).__name__}"
            )
        for position, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {position}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*, S, *) to (*, U1, ..., Un, *)."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
