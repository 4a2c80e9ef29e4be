# SPDX-License-Identifier: BSD-3-Clause
"""SparseAdam, which is not offered."""

from __future__ import annotations

from typing import Any

from .optimizer import Optimizer

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Not offered: it is for gradients of a sparse layout, and every tensor here is dense.

    Args:
        params, args, kwargs: those of torch; none is looked at.

    Raises:
        NotImplementedError: always. Adam takes the same parameters.
    """

    def __init__(self, params: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "SparseAdam takes gradients of a sparse layout, and cograd has dense tensors only: "
            "nn.Embedding's gradient is dense too. Use Adam."
        )
