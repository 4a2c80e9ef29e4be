# SPDX-License-Identifier: BSD-3-Clause
"""Groups gradients into buckets that are sent together, and allocates the buckets' memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import cograd
from cograd import Tensor

__all__ = ["Bucket", "assign"]

ALONE = 4 << 20  # bytes: a gradient of this size is sent alone, as copying would cost more


def assign(
    parameters: Sequence[Tensor], order: Iterable[int], caps: Sequence[int]
) -> list[list[int]]:
    """Returns the parameters' indices, divided into buckets of one dtype and device each.

    Args:
        order: the order in which gradients arrive.
        caps: sizes in bytes at which a bucket is closed: of the first bucket, the second, ...; the
            last one applies to all further buckets. A gradient of ``ALONE`` bytes or more gets a
            bucket alone.

    Returns:
        buckets in the order in which they become complete.
    """
    done: list[list[int]] = []
    open_: dict[tuple[cograd.dtype, cograd.device], tuple[list[int], int]] = {}
    for index in order:
        parameter = parameters[index]
        if parameter.numel() * parameter.element_size() >= ALONE:
            done.append([index])
            continue
        key = parameter.dtype, parameter.device
        members, size = open_.get(key, ([], 0))
        members.append(index)
        size += parameter.numel() * parameter.element_size()
        if size >= caps[min(len(done), len(caps) - 1)]:
            open_.pop(key, None)
            done.append(members)
        else:
            open_[key] = (members, size)
    return done + [members for members, _ in open_.values()]


def _dense(tensor: Tensor) -> bool:
    """Returns whether the elements fill their memory without gaps or overlap, in any dim order."""
    dims = sorted((s, n) for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n != 1)
    return all(n > 0 for _, n in dims) and (
        not dims or (dims[0][0] == 1 and all(s * n == t for (s, n), (t, _) in pairwise(dims)))
    )


class Bucket:
    """The gradients of some parameters in one flat tensor; ``views`` have the parameters' shapes.

    A bucket of one parameter needs no copy: the gradient passed to ``carry`` is the flat tensor.
    """

    __slots__ = (
        "alone",
        "buffer",
        "members",
        "nbytes",
        "numel",
        "offsets",
        "pending",
        "views",
        "work",
    )

    def __init__(self, parameters: Sequence[Tensor], members: list[int]) -> None:
        chosen = [parameters[index] for index in members]
        self.members = members
        self.offsets: list[int] = []
        self.numel = 0
        for parameter in chosen:
            self.offsets.append(self.numel)
            self.numel += parameter.numel()
        self.nbytes = self.numel * chosen[0].element_size()
        self.alone = len(members) == 1 and _dense(chosen[0])
        self.views: list[Tensor] = []
        self.buffer: Tensor | None = None
        if not self.alone:
            first = chosen[0]
            self.buffer = cograd.zeros(self.numel, dtype=first.dtype, device=first.device)
            for start, parameter in zip(self.offsets, chosen, strict=True):
                self.views.append(_shaped(self.buffer, start, parameter))
        self.pending = len(members)
        self.work: Any = None

    def carry(self, gradient: Tensor) -> None:
        """Stores the gradient of the bucket's only parameter."""
        self.views = [gradient]
        self.buffer = gradient.as_strided((self.numel,), (1,))

    def release(self) -> None:
        """Drops the references to the gradient and the communication."""
        self.work = None
        if self.alone:
            self.views, self.buffer = [], None


def _shaped(buffer: Tensor, start: int, parameter: Tensor) -> Tensor:
    flat = buffer[start : start + parameter.numel()]
    if parameter.is_contiguous() or not _dense(parameter):
        return flat.view(parameter.shape)
    return flat.as_strided(parameter.shape, parameter.stride())
