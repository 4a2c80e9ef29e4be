# SPDX-License-Identifier: BSD-3-Clause
"""Padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cograd import Tensor


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Tensor:
    """Adds (or, if negative, cuts) elements at the ends of the last dims.

    ``pad`` is (last dim left, last dim right, second last left, ...).
    """
    if mode != "constant":
        raise NotImplementedError(f"pad: mode '{mode}' is not supported, only 'constant'")
    if len(pad) % 2 or len(pad) > 2 * input.dim():
        raise RuntimeError(
            f"pad: expected an even number of values, at most {2 * input.dim()}, got {len(pad)}"
        )
    shape = list(input.shape)
    target, source = [slice(None)] * input.dim(), [slice(None)] * input.dim()
    for pair in range(len(pad) // 2):
        dim = input.dim() - 1 - pair
        left, right = pad[2 * pair], pad[2 * pair + 1]
        size = shape[dim] + left + right
        if size < 0:
            raise RuntimeError(
                f"pad: dimension {dim} of size {shape[dim]} with padding ({left}, {right}) would "
                "have negative size"
            )
        source[dim] = slice(max(-left, 0), shape[dim] - max(-right, 0))
        target[dim] = slice(max(left, 0), size - max(right, 0))
        shape[dim] = size
    out = input.new_full(shape, 0 if value is None else value)
    out[tuple(target)] = input[tuple(source)]
    return out
