# SPDX-License-Identifier: BSD-3-Clause
"""Fetches the batch of given indices, in this process or in a worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import cograd
from cograd import Tensor
from cograd.utils.data._utils.collate import default_collate
from cograd.utils.data.dataset import Subset, TensorDataset

Gather = Callable[[Sequence[Any]], Any]


def _gather_of(dataset: Any) -> Gather | None:
    """Returns a function that collects a batch by one gather per tensor, if that is equivalent.

    It is not if a subclass overrides the methods that return samples.
    """
    kind = type(dataset)
    if isinstance(dataset, Subset):
        own = kind.__getitem__ is Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__
        inner = _gather_of(dataset.dataset) if own else None
        if inner is None:
            return None
        return lambda batch: inner([dataset.indices[i] for i in batch])
    if not isinstance(dataset, TensorDataset) or kind.__getitem__ is not TensorDataset.__getitem__:
        return None
    plain = all(type(t) is Tensor and t.dim() > 0 for t in dataset.tensors)
    if not plain or not dataset.tensors or hasattr(dataset, "__getitems__"):
        return None

    def gather(batch: Sequence[Any]) -> Any:
        if bool in map(type, batch):
            return None  # a mask, not an index
        index = cograd.tensor(batch)
        if index.dtype is not cograd.int64 or any(t.requires_grad for t in dataset.tensors):
            return None
        return [t.index_select(0, index) for t in dataset.tensors]

    return gather


class MapFetcher:
    """Fetches samples by index."""

    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool
    ) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self._gather = None
        if auto_collation and collate_fn is default_collate:
            self._gather = _gather_of(dataset)

    def fetch(self, index: Any) -> Any:
        """Returns the batch of a list of indices, or the sample of one index."""
        if not self.auto_collation:
            return self.collate_fn(self.dataset[index])
        if self._gather is not None and type(index) is list:
            try:
                batch = self._gather(index)
            except Exception:  # fetching the samples one by one raises a better error
                batch = None
            if batch is not None:
                return batch
        many = getattr(self.dataset, "__getitems__", None)
        if many:
            return self.collate_fn(many(index))
        return self.collate_fn([self.dataset[i] for i in index])


class IterableFetcher:
    """Fetches samples from a stream; an index only determines how many."""

    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool
    ) -> None:
        self.samples = iter(dataset)
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.ended = False

    def fetch(self, index: Any) -> Any:
        """Returns the next batch. Raises StopIteration if there is none."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.samples))
        data = list(islice(self.samples, len(index)))
        self.ended = len(data) < len(index)
        if not data or (self.drop_last and self.ended):
            raise StopIteration
        return self.collate_fn(data)


def make_fetcher(
    iterable: bool, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool
) -> MapFetcher | IterableFetcher:
    """Returns the fetcher for a kind of dataset."""
    kind = IterableFetcher if iterable else MapFetcher
    return kind(dataset, auto_collation, collate_fn, drop_last)
