# SPDX-License-Identifier: BSD-3-Clause
"""The argument of a communication hook of DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Sequence

from cograd import Tensor

__all__ = ["GradBucket"]


class GradBucket:
    """Gradients of some parameters in one flat tensor, which a hook averages over the ranks.

    Args:
        index: 0 for the bucket that is ready first.
        last: whether it is the last bucket.
        buffer: the gradients of this rank, (n,).
        parameters: the parameters, in the order of their gradients in ``buffer``.
        offsets: the position of each parameter's gradient in ``buffer``.
    """

    def __init__(
        self,
        index: int,
        last: bool,
        buffer: Tensor,
        parameters: Sequence[Tensor],
        offsets: Sequence[int],
    ) -> None:
        self._index = index
        self._last = last
        self._buffer = buffer
        self._parameters = parameters
        self._offsets = offsets

    def index(self) -> int:
        """Returns the bucket's number, 0 for the one that is ready first."""
        return self._index

    def is_last(self) -> bool:
        """Returns whether this is the last bucket of the iteration."""
        return self._last

    def buffer(self) -> Tensor:
        """Returns the gradients as a flat tensor."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replaces the flat tensor by one with the same number of elements."""
        if buffer.numel() != self._buffer.numel():
            raise ValueError(
                f"GradBucket.set_buffer(): expected {self._buffer.numel()} elements, "
                f"got {buffer.numel()}"
            )
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """Returns the gradient of each parameter, as views into the flat tensor."""
        return [
            self._buffer[start : start + parameter.numel()].view(parameter.shape)
            for start, parameter in zip(self._offsets, self._parameters, strict=True)
        ]

    def parameters(self) -> list[Tensor]:
        """Returns the parameters."""
        return list(self._parameters)
