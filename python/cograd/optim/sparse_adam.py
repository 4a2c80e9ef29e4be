# SPDX-License-Identifier: BSD-3-Clause
"""SparseAdam, which is not supported."""

from __future__ import annotations

from typing import Any

from .optimizer import Optimizer

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Not supported: it is for gradients of a sparse layout, and every tensor of cograd is dense.

    Args:
        params, args, kwargs: those of torch; all are ignored.

    Raises:
        NotImplementedError: always. Adam accepts the same parameters.
    """

    def __init__(self, params: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "SparseAdam takes gradients of a sparse layout, and cograd has dense tensors only: "
            "nn.Embedding's gradient is dense too. Use Adam."
        )
