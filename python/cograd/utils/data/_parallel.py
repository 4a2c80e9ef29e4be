# SPDX-License-Identifier: BSD-3-Clause
"""Distributes indices to workers, and returns their batches in order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from cograd import multiprocessing
from cograd import random as cograd_random
from cograd.utils.data._utils.worker import (
    Resume,
    StreamEnd,
    WorkerException,
    WorkerOptions,
    import_numpy,
)
from cograd.utils.data._workers import Team


class Run:
    """The workers of a loader and the pending batches; reused over epochs by persistent workers."""

    def __init__(self, loader: Any, base_seed: int) -> None:
        n = loader.num_workers
        self._timeout = float(loader.timeout)
        self._in_order = bool(loader.in_order)
        self._persistent = bool(loader.persistent_workers)
        self._most = max(1, loader.prefetch_factor) * n
        options = [
            WorkerOptions(
                id=i,
                num_workers=n,
                base_seed=base_seed,
                torch_stream=cograd_random.get_rng() == "torch",
                iterable=loader._iterable,
                dataset=loader.dataset,
                auto_collation=loader._auto_collation,
                collate_fn=loader.collate_fn,
                drop_last=loader.drop_last,
                init_fn=loader.worker_init_fn,
            )
            for i in range(n)
        ]
        import_numpy()  # import here, otherwise every forked worker spends time on it
        self._epoch = 0
        self._team = Team(loader.multiprocessing_context or multiprocessing, options)
        self._n = n

    def __del__(self) -> None:
        team = getattr(self, "_team", None)
        if team is not None:
            team.stop()

    def begin(self, indices: Iterator[Any]) -> None:
        """Starts an epoch; discards what is left of the last one."""
        self._epoch += 1
        self._indices: Iterator[Any] | None = indices
        self._sent = 0  # number of batches that were assigned so far
        self._next = 0  # number of the next batch to return, in order
        self._pending: dict[int, int] = {}  # batch number -> worker
        self._results: dict[int, Any] = {}
        self._active = [True] * self._n
        self._turn = itertools.cycle(range(self._n))
        self._over = False
        if self._epoch > 1:
            self._resume()
        self._fill()

    def _resume(self) -> None:
        waiting = set(range(self._n))
        for worker in range(self._n):
            self._team.send(worker, Resume(self._epoch))
        while waiting:
            worker, message = self._receive()
            if isinstance(message, Resume) and message.epoch == self._epoch:
                waiting.discard(worker)

    def _receive(self) -> tuple[int, Any]:
        got = self._team.receive(self._timeout)
        if got is None:
            raise RuntimeError(f"DataLoader timed out after {self._timeout:g} seconds")
        return got

    def _choose(self) -> int | None:
        """Returns the worker of the next batch: in turn, or the one with the least work."""
        active = [w for w in range(self._n) if self._active[w]]
        if not active:
            return None
        if self._in_order:
            return next(w for w in self._turn if self._active[w])
        load = list(self._pending.values())
        return min(active, key=load.count)

    def _fill(self) -> None:
        """Assigns indices until the workers have as many pending batches as allowed."""
        while self._indices is not None and len(self._pending) + len(self._results) < self._most:
            worker = self._choose()
            if worker is None:
                return
            try:
                index = next(self._indices)
            except StopIteration:
                self._indices = None
                return
            number = self._sent
            self._sent += 1
            self._pending[number] = worker
            self._team.send(worker, (self._epoch, number, index))

    def _take(self) -> None:
        """Receives one message."""
        worker, message = self._receive()
        if isinstance(message, Resume) or message[0] != self._epoch:
            return
        _, number, data = message
        del self._pending[number]
        if not isinstance(data, StreamEnd):
            self._results[number] = data
            return
        self._active[worker] = False
        self._pending = {k: w for k, w in self._pending.items() if w != worker}
        self._fill()

    def _number(self) -> int | None:
        """Returns the number of a batch that can be returned now, or None."""
        if not self._in_order:
            return next(iter(self._results), None)
        while self._next < self._sent and self._next not in self._pending:
            if self._next in self._results:
                return self._next
            self._next += 1  # its worker had no more samples
        return None

    def next(self) -> Any:
        """Returns the next batch.

        Raises:
            StopIteration: there are no more.
            RuntimeError: a worker died, or timed out.
        """
        if self._over:
            raise StopIteration
        while (number := self._number()) is None:
            if not self._pending:
                self._end()
                raise StopIteration
            self._take()
        data = self._results.pop(number)
        self._fill()
        if isinstance(data, WorkerException):
            data.reraise()
        return data

    def _end(self) -> None:
        self._over = True
        if not self._persistent:
            self._team.stop()
