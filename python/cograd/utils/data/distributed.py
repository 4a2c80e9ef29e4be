# SPDX-License-Identifier: BSD-3-Clause
"""The sampler that assigns every process of a run its own part of a dataset."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import cograd
from cograd.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Yields every ``num_replicas``-th index from ``rank`` on, so each process has its own part.

    All processes yield the same number of indices. Call ``set_epoch`` before each epoch: the order
    depends only on ``seed`` and the epoch, so that all processes agree on it.

    Args:
        dataset: anything with a length.
        num_replicas: number of processes; None: that of the default process group.
        rank: number of this process; None: its rank in that group.
        shuffle: permute the indices by ``seed`` and the epoch.
        seed: the same in all processes.
        drop_last: drop the tail if the indices do not divide evenly; otherwise some are repeated.

    Raises:
        ValueError: the rank is out of range, or None without a process group.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            if not cograd.distributed.is_initialized():
                raise ValueError(
                    "Default process group has not been initialized: give num_replicas and rank"
                )
            if num_replicas is None:
                num_replicas = cograd.distributed.get_world_size()
            if rank is None:
                rank = cograd.distributed.get_rank()
        if rank >= num_replicas or rank < 0:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        n = len(dataset)
        if drop_last and n % num_replicas != 0:
            self.num_samples = math.ceil((n - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        indices = list(range(n))
        if self.shuffle:
            generator = cograd.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = cograd.randperm(n, generator=generator).tolist()
        if not self.drop_last and n > 0:
            indices = (indices * math.ceil(self.total_size / n))[: self.total_size]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, which determines the permutation; without it all epochs have the same."""
        self.epoch = epoch
