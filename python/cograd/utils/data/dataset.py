# SPDX-License-Identifier: BSD-3-Clause
"""Datasets: collections of samples, by index or as a stream."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import cograd
from cograd import Tensor

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """A collection of samples by index.

    A subclass defines ``__getitem__`` and, for most samplers, ``__len__``. It may define
    ``__getitems__``, from a list of indices to a list of samples; a ``DataLoader`` then calls it
    once per batch. ``a + b`` is the ``ConcatDataset`` of both.
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co]):
    """A stream of samples. A subclass defines ``__iter__``.

    Every worker of a ``DataLoader`` iterates over its own copy; ``get_worker_info`` distinguishes
    the copies. ``a + b`` is the ``ChainDataset`` of both.
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples along the first dim of tensors: sample ``i`` is the tuple of every ``tensor[i]``.

    The samples are views of the tensors, and gradients flow through them.

    Args:
        tensors: at least one tensor, all with the same first size.

    Raises:
        AssertionError: the tensors differ in their first size.
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].size(0) != t.size(0) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Combines datasets of equal length: samples are tuples, or dicts for keyword arguments.

    Args:
        args: datasets, whose samples are combined into tuples.
        kwargs: datasets by name, whose samples are combined into dicts.

    Raises:
        ValueError: there is no dataset, lengths differ, or both kinds of arguments are given.
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like "
                "input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        parts = list(args or kwargs.values())
        self._length = len(parts[0])
        if any(len(part) != self._length for part in parts):
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """Returns the samples of a list of indices."""
        if isinstance(self.datasets, dict):
            columns = [_samples(dataset, indices) for dataset in self.datasets.values()]
            return [
                dict(zip(self.datasets, row, strict=True)) for row in zip(*columns, strict=True)
            ]
        return list(zip(*(_samples(part, indices) for part in self.datasets), strict=True))

    def __len__(self) -> int:
        return self._length


def _samples(dataset: Any, indices: list[Any]) -> list[Any]:
    many = getattr(dataset, "__getitems__", None)
    if not callable(many):
        return [dataset[index] for index in indices]
    samples = many(indices)
    if len(samples) != len(indices):
        raise ValueError(
            f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(samples)}"
        )
    return list(samples)


class ConcatDataset(Dataset[_T_co]):
    """Concatenates datasets; negative indices count from the end.

    Args:
        datasets: datasets with ``__len__``, at least one.

    Raises:
        AssertionError: there is no dataset, or an ``IterableDataset`` among them.
        ValueError: raised by indexing with a negative index before the first sample.
    """

    datasets: list[Dataset[_T_co]]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Returns the running sum of the lengths."""
        return list(itertools.accumulate(len(part) for part in sequence))

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(part, IterableDataset) for part in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: Any) -> _T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        at = bisect.bisect_right(self.cumulative_sizes, idx)
        before = self.cumulative_sizes[at - 1] if at else 0
        return self.datasets[at][idx - before]

    @property
    def cummulative_sizes(self) -> list[int]:
        """``cumulative_sizes`` under its former, misspelled name."""
        warnings.warn(
            "cummulative_sizes attribute is renamed to cumulative_sizes",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Concatenates streams; the length is the sum of theirs, if they have one.

    Args:
        datasets: an iterable of ``IterableDataset``.

    Raises:
        AssertionError: raised by iterating and by ``len`` for another kind of dataset.
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for part in self.datasets:
            _check_stream(part)
            yield from part  # type: ignore[misc]

    def __len__(self) -> int:
        total = 0
        for part in self.datasets:
            _check_stream(part)
            total += len(part)  # type: ignore[arg-type]
        return total


def _check_stream(part: Any) -> None:
    if not isinstance(part, IterableDataset):
        raise AssertionError("ChainDataset only supports IterableDataset")


class Subset(Dataset[_T_co]):
    """The samples of ``dataset`` at ``indices``, which are not copied.

    Args:
        dataset: the dataset that contains the samples.
        indices: a sequence of indices, in the order of the subset; they may repeat.
    """

    dataset: Dataset[_T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> _T_co:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Returns the samples of a list of indices."""
        many = getattr(self.dataset, "__getitems__", None)
        if callable(many):
            return list(many([self.indices[i] for i in indices]))
        return [self.dataset[self.indices[i]] for i in indices]

    def __len__(self) -> int:
        return len(self.indices)


def _split_sizes(total: int, fractions: Sequence[float]) -> list[int]:
    """Returns sizes by fractions, rounded down; the rest is added one by one from the first."""
    sizes = []
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        sizes.append(math.floor(total * fraction))
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    for i, size in enumerate(sizes):
        if size == 0:
            warnings.warn(
                f"Length of split at index {i} is 0. This might result in an empty dataset.",
                stacklevel=3,
            )
    return sizes


def random_split(
    dataset: Dataset[Any], lengths: Sequence[int | float], generator: Any = None
) -> list[Subset[Any]]:
    """Splits ``dataset`` randomly into parts that do not overlap.

    Args:
        dataset: the dataset to split; each part is a ``Subset`` of it.
        lengths: the size of each part; or fractions that add up to 1: sizes are rounded down, and
            the rest goes to the first parts, one each.
        generator: generator that samples the permutation; the default one if None.

    Raises:
        ValueError: the lengths do not add up to ``len(dataset)``, or a fraction is outside [0, 1].
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _split_sizes(len(dataset), lengths)  # type: ignore[arg-type]
    if sum(lengths) != len(dataset):  # type: ignore[arg-type]
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = cograd.randperm(int(sum(lengths)), generator=generator).tolist()
    ends = itertools.accumulate(int(length) for length in lengths)
    return [
        Subset(dataset, order[end - int(length) : end])
        for end, length in zip(ends, lengths, strict=True)
    ]
