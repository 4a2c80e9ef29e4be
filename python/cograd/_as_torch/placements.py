# SPDX-License-Identifier: BSD-3-Clause
"""Placements of torch.distributed.tensor as values: packages list them in tables on import."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard", "_StridedShard"]


class Placement:
    """How a tensor would lie on the ranks of a mesh; nothing in cograd is placed by it."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Returns whether parts along ``dim``, or along any dim, are on different ranks."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Returns whether each rank has all of the tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Returns whether the ranks have terms that ``reduce_op``, or any, would reduce."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Parts along ``dim`` on different ranks."""

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True, repr=False)
class _StridedShard(Placement):
    """Parts along ``dim``, split in another order than that of the mesh."""

    dim: int
    split_factor: int

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """All of the tensor on each rank."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, repr=False)
class Partial(Placement):
    """Terms on the ranks, to be reduced."""

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
