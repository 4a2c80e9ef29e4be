# SPDX-License-Identifier: BSD-3-Clause
"""Samplers: the indices of a dataset in the order in which they are visited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

import cograd

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

_T_co = TypeVar("_T_co", covariant=True)


class Sampler(Generic[_T_co]):
    """Yields indices, or lists of them. A subclass defines ``__iter__`` and maybe ``__len__``.

    Each iteration is an epoch; a ``DataLoader`` accepts one as ``sampler``, or as
    ``batch_sampler`` if it yields lists.
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """Yields the indices 0, 1, ..., ``len(data_source) - 1``.

    Args:
        data_source: anything with a length.
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


def _check_flag(name: str, value: Any, kind: type[Exception]) -> None:
    if not isinstance(value, bool):
        raise kind(f"{name} should be a boolean value, but got {name}={value}")


def _check_positive(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


class RandomSampler(Sampler[int]):
    """Yields indices in random order, or sampled with replacement.

    Without replacement each index is yielded once before any is yielded twice.

    Args:
        data_source: anything with a length.
        replacement: sample each index from all of them.
        num_samples: number of indices to sample; ``len(data_source)`` if None.
        generator: source of the samples; if None, a new one, seeded from the default one.

    Raises:
        TypeError: ``replacement`` is not a bool.
        ValueError: ``num_samples`` is not a positive int.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        _check_flag("replacement", replacement, TypeError)
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        _check_positive("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """The number of sampled indices; the length of the data unless it was given."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        generator = self.generator
        if generator is None:
            seed = int(cograd.empty((), dtype=cograd.int64).random_().item())
            generator = cograd.Generator()
            generator.manual_seed(seed)
        if self.replacement:
            for _ in range(self.num_samples // 32):
                yield from _integers(n, 32, generator)
            yield from _integers(n, self.num_samples % 32, generator)
            return
        for _ in range(self.num_samples // n):
            yield from cograd.randperm(n, generator=generator).tolist()
        yield from cograd.randperm(n, generator=generator).tolist()[: self.num_samples % n]

    def __len__(self) -> int:
        return self.num_samples


def _integers(high: int, count: int, generator: Any) -> list[int]:
    drawn = cograd.randint(high, (count,), dtype=cograd.int64, generator=generator)
    values: list[int] = drawn.tolist()
    return values


class SubsetRandomSampler(Sampler[int]):
    """Yields the given indices, each once, in random order.

    Args:
        indices: a sequence of indices.
        generator: generator that samples the order; the default one if None.
    """

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in cograd.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Samples ``num_samples`` indices of 0, ..., ``len(weights) - 1`` with these weights.

    Args:
        weights: non-negative numbers, in one dim; they need not sum to 1.
        num_samples: number of indices to sample.
        replacement: whether an index may repeat; without it there must be at least as many positive
            weights.
        generator: source of the samples; the default one if None.

    Raises:
        ValueError: the weights do not have one dim, or other arguments have the wrong type.
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Any = None,
    ) -> None:
        _check_positive("num_samples", num_samples)
        _check_flag("replacement", replacement, ValueError)
        row = cograd.as_tensor(weights, dtype=cograd.float64)
        if row.dim() != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(row.shape)}"
            )
        self.weights = row
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = cograd.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Yields lists of ``batch_size`` indices of another sampler.

    Args:
        sampler: an iterable of indices; ``len`` needs one with a length.
        batch_size: length of a list, a positive int.
        drop_last: drop a last list that is shorter.

    Raises:
        ValueError: arguments have the wrong type.
    """

    def __init__(
        self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool
    ) -> None:
        _check_positive("batch_size", batch_size)
        _check_flag("drop_last", drop_last, ValueError)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        least = self.batch_size if self.drop_last else 1
        while len(batch := list(islice(indices, self.batch_size))) >= least:
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
