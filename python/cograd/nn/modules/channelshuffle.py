# SPDX-License-Identifier: BSD-3-Clause
"""The layer that shuffles channels."""

from __future__ import annotations

from cograd import Tensor

from .. import functional as F
from .module import Module

__all__ = [
    "ChannelShuffle",
]


class ChannelShuffle(Module):
    """Reorders the channels: takes one channel of each of ``groups`` groups in turn.

    Channel i of group g becomes channel i * groups + g. Zhang et al., ShuffleNet
    (arXiv:1707.01083). See ``nn.functional.channel_shuffle``.

    Args:
        groups: number of groups, which must divide C.

    Raises:
        RuntimeError: there are fewer than 3 dims, or ``groups`` does not divide the channels.

    Shape:
        - input and output: (N, C, *), at least 3 dims.
        - dtypes: any.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Maps (N, C, *) to the same shape."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return f"groups={self.groups}"
