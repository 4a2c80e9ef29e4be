# SPDX-License-Identifier: BSD-3-Clause
"""Which gradients travel together, and the memory that they travel in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import cograd
from cograd import Tensor

__all__ = ["Bucket", "assign"]


def assign(
    parameters: Sequence[Tensor], order: Iterable[int], caps: Sequence[int]
) -> list[list[int]]:
    """The parameters' indices, cut into buckets of one dtype each.

    Args:
        order: in which the gradients come.
        caps: bytes after which a bucket is closed: of the first, the second, ...; the last holds
            for all further ones.

    Returns:
        buckets in the order in which they are complete.
    """
    done: list[list[int]] = []
    open_: dict[cograd.dtype, tuple[list[int], int]] = {}
    for index in order:
        parameter = parameters[index]
        members, size = open_.get(parameter.dtype, ([], 0))
        members.append(index)
        size += parameter.numel() * parameter.element_size()
        if size >= caps[min(len(done), len(caps) - 1)]:
            open_.pop(parameter.dtype, None)
            done.append(members)
        else:
            open_[parameter.dtype] = (members, size)
    return done + [members for members, _ in open_.values()]


def _dense(tensor: Tensor) -> bool:
    """Whether the elements fill their memory without holes or overlap, in any order of dims."""
    dims = sorted((s, n) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n != 1)
    return all(n > 0 for _, n in dims) and (
        not dims or (dims[0][0] == 1 and all(s * n == t for (s, n), (t, _) in pairwise(dims)))
    )


class Bucket:
    """Some parameters' gradients in one flat tensor; ``views`` are shaped as the parameters."""

    __slots__ = ("buffer", "members", "offsets", "pending", "result", "started", "views", "work")

    def __init__(self, parameters: Sequence[Tensor], members: list[int]) -> None:
        chosen = [parameters[index] for index in members]
        self.members = members
        self.offsets: list[int] = []
        end = 0
        for parameter in chosen:
            self.offsets.append(end)
            end += parameter.numel()
        self.buffer = cograd.zeros(end, dtype=chosen[0].dtype)
        self.views: list[Tensor] = []
        for start, parameter in zip(self.offsets, chosen, strict=True):
            flat = self.buffer[start : start + parameter.numel()]
            if parameter.is_contiguous() or not _dense(parameter):
                self.views.append(flat.view(parameter.shape))
            else:
                self.views.append(flat.as_strided(parameter.shape, parameter.stride()))
        self.pending = len(members)
        self.started = False
        self.work: Any = None
        self.result: Tensor | None = None
