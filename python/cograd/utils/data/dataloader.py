# SPDX-License-Identifier: BSD-3-Clause
"""DataLoader: batches of a dataset, made in this process or in workers."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, Generic, TypeVar

import cograd
from cograd.utils.data import _parallel
from cograd.utils.data._utils.collate import default_collate, default_convert
from cograd.utils.data._utils.fetch import make_fetcher
from cograd.utils.data._utils.pin_memory import pin_memory
from cograd.utils.data._utils.worker import get_worker_info
from cograd.utils.data.dataset import Dataset, IterableDataset
from cograd.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)


class _Forever(Sampler[Any]):
    """Yields None without end: the indices of an iterable dataset."""

    def __iter__(self) -> Iterator[Any]:
        return repeat(None)


_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader(Generic[_T_co]):
    """Iterates over batches of ``dataset``, any number of times.

    Args:
        batch_size: samples per batch; None: single samples, not collated.
        shuffle: visit the samples in random order.
        sampler: indices in the order of visits; instead of ``shuffle``.
        batch_sampler: lists of indices; instead of ``batch_size``, ``shuffle``, ``sampler`` and
            ``drop_last``.
        num_workers: number of processes that make batches; 0: this process makes them.
        collate_fn: converts a list of samples to a batch; ``default_collate`` if None.
        pin_memory: whether batches go to pinned memory, from which GPUs copy faster, and with
            ``non_blocking=True`` while the program goes on; without a GPU it has no effect and
            warns.
        drop_last: drop a last batch that is shorter.
        timeout: seconds to wait for a batch of the workers; 0: no limit.
        worker_init_fn: called with the worker's number in each worker after seeding.
        multiprocessing_context: how workers start: a context, or the name of a start method.
        generator: generator that samples the order and the seeds of the workers.
        prefetch_factor: number of batches that each worker prepares in advance; 2 if None.
        persistent_workers: keep the workers from one iteration to the next.
        in_order: False: return batches in the order in which the workers finish them.

    Raises:
        ValueError, TypeError: arguments contradict each other, or have the wrong type.
    """

    dataset: Dataset[_T_co]
    _initialized = False

    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_worker_options(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            _check_stream_options(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, "
                    "sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None:
            sampler = self._default_sampler(bool(shuffle))
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self._counted_length: int | None = None
        self._iterator: _BaseDataLoaderIter | None = None
        self._initialized = True
        self.check_worker_number_rationality()

    def _default_sampler(self, shuffle: bool) -> Sampler[Any]:
        if self._iterable:
            return _Forever()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)  # type: ignore[arg-type]
        return SequentialSampler(self.dataset)  # type: ignore[arg-type]

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in _FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """The start method of workers; None: the default of ``multiprocessing``."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if self.num_workers <= 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading "
                    f"(num_workers > 0), but got num_workers={self.num_workers}"
                )
            context = _context_of(context)
        self._context = context

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> Iterator[Any]:
        if self.persistent_workers and self.num_workers > 0:
            if self._iterator is None:
                self._iterator = self._get_iterator()
            else:
                self._iterator._reset()
            return self._iterator
        return self._get_iterator()

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        length = self._counted_length = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warns if there are more workers than processors."""
        if not self.num_workers:
            return
        try:
            most: int | None = len(os.sched_getaffinity(0))
        except (AttributeError, OSError):
            most = os.cpu_count()
        if most is not None and self.num_workers > most:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our "
                f"suggested max number of worker in current system is {most}, which is smaller "
                "than what this DataLoader is going to create. Please be aware that excessive "
                "worker creation might get DataLoader running slow or even freeze, lower the "
                "worker number to avoid potential slowness/freeze if necessary.",
                stacklevel=3,
            )


def _check_worker_options(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            "multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. "
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_stream_options(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    refused = {"sampler": sampler, "batch_sampler": batch_sampler}
    found = {"shuffle": shuffle} if shuffle not in (None, False) else {}
    found |= {name: value for name, value in refused.items() if value is not None}
    for name, value in found.items():
        raise ValueError(
            f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
            f"{name}={value}"
        )


def _context_of(context: Any) -> Any:
    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(
                "multiprocessing_context option should specify a valid start method in "
                f"{methods!r}, but got multiprocessing_context={context!r}"
            )
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={context}"
        )
    return context


class _BaseDataLoaderIter:
    """One iteration over a loader."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._sampler_iter = iter(loader._index_sampler)
        seed = cograd.empty((), dtype=cograd.int64).random_(generator=loader.generator)
        self._base_seed = int(seed.item())
        self._yielded = 0
        self._length = loader._counted_length  # length of an iterable dataset, which may yield more
        self._pins = bool(loader.pin_memory) and cograd.cuda.is_available()
        if loader.pin_memory and not self._pins:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device "
                "pinned memory won't be used.",
                stacklevel=4,
            )

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def _reset(self) -> None:
        self._sampler_iter = iter(self._loader._index_sampler)
        self._yielded = 0

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next_data()
        if self._pins:
            data = pin_memory(data)
        self._yielded += 1
        if self._length is not None and self._yielded > self._length:
            self._warn_of_length(self._length)
        return data

    def _warn_of_length(self, length: int) -> None:
        text = (
            f"Length of IterableDataset {self._loader.dataset} was reported to be {length} (when "
            f"accessing len(dataloader)), but {self._yielded} samples have been fetched. "
        )
        if self._loader.num_workers > 0:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker: see get_worker_info."
            )
        warnings.warn(text, stacklevel=3)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Makes batches in this process."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        if loader.timeout != 0:
            raise AssertionError("a DataLoader without workers requires timeout == 0")
        self._fetch = make_fetcher(
            loader._iterable,
            loader.dataset,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
        ).fetch

    def _next_data(self) -> Any:
        return self._fetch(next(self._sampler_iter))


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Gets batches from workers."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._run = _parallel.Run(loader, self._base_seed)
        super()._reset()
        self._run.begin(self._sampler_iter)

    def _reset(self) -> None:
        super()._reset()
        self._run.begin(self._sampler_iter)

    def _next_data(self) -> Any:
        return self._run.next()
