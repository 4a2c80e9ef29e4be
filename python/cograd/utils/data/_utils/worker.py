# SPDX-License-Identifier: BSD-3-Clause
"""The main loop of a ``DataLoader`` worker, its WorkerInfo and its exceptions."""

from __future__ import annotations

import random
import socket
import traceback
from dataclasses import dataclass
from typing import Any

import cograd
from cograd.utils.data import _channel
from cograd.utils.data._utils.fetch import make_fetcher

__all__ = ["WorkerInfo", "get_worker_info"]


@dataclass(frozen=True)
class WorkerInfo:
    """The position of this process among the workers of a loader.

    Attributes:
        id: 0, ..., ``num_workers - 1``.
        num_workers: number of workers.
        seed: seed of cograd, ``random`` and NumPy in this worker.
        dataset: the worker's copy.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Returns the ``WorkerInfo`` of this process; None if it is not a worker.

    It has ``id``, ``num_workers``, ``seed`` and ``dataset``, the worker's copy; an
    ``IterableDataset`` needs them to split the data among the workers.
    """
    return _worker_info


class _Verbatim(str):
    """A string whose repr is itself, because KeyError shows the repr of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class WorkerException:
    """An exception to be sent to the parent: its type, and its traceback as text."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind: type[BaseException] = type(error)
        self.text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.where = where

    def reraise(self) -> None:
        """Raises the same type with the worker's traceback as its message."""
        text = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        kind: Any = self.kind
        if issubclass(kind, StopIteration | StopAsyncIteration | GeneratorExit):
            raise RuntimeError(text)  # it would end the caller's loop as if all data had been read
        if kind is KeyError:
            text = _Verbatim(text)
        try:
            error = kind(message=text) if getattr(kind, "message", None) else kind(text)
        except Exception:
            raise RuntimeError(text) from None
        raise error


@dataclass(frozen=True)
class StreamEnd:
    """Sent when a worker's copy of an iterable dataset has no more samples."""

    worker_id: int


@dataclass(frozen=True)
class Resume:
    """Starts a new epoch of persistent workers; sent back when the worker is ready."""

    epoch: int


@dataclass(frozen=True)
class WorkerOptions:
    """The settings that the parent passes to a new worker."""

    id: int
    num_workers: int
    base_seed: int
    torch_stream: bool
    iterable: bool
    dataset: Any
    auto_collation: bool
    collate_fn: Any
    drop_last: bool
    init_fn: Any

    @property
    def where(self) -> str:
        """The name of this worker in messages."""
        return f"in DataLoader worker process {self.id}"


def import_numpy() -> Any:
    """Returns NumPy, whose global random stream a dataset may use, or None."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _seed_numpy(base_seed: int, worker_id: int) -> None:
    np = import_numpy()
    if np is None:
        return
    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32 & 0xFFFFFFFF, 0]
    np.random.seed(np.random.SeedSequence(words).generate_state(4))


def _set_up(options: WorkerOptions) -> None:
    global _worker_info
    cograd.set_num_threads(1)
    cograd.set_rng("torch" if options.torch_stream else "philox")
    seed = options.base_seed + options.id
    random.seed(seed)
    cograd.manual_seed(seed)
    _seed_numpy(options.base_seed, options.id)
    _worker_info = WorkerInfo(options.id, options.num_workers, seed, options.dataset)


def _send(connection: socket.socket, epoch: int, index: int, data: Any, where: str) -> None:
    """Sends a result, or the reason why it cannot be sent."""
    try:
        _channel.send(connection, (epoch, index, data))
    except OSError:
        raise
    except Exception as error:  # a dataset's samples may not be picklable
        _channel.send(connection, (epoch, index, _sendable(error, where)))


def _sendable(error: Exception, where: str) -> WorkerException:
    """Returns the exception in a form that can be pickled: types of a local scope cannot."""
    wrapped = WorkerException(error, where)
    try:
        _channel.encode(wrapped)
    except Exception:
        wrapped.kind = RuntimeError
    return wrapped


class _Work:
    """The loop of a worker: receives indices, sends batches."""

    def __init__(self, options: WorkerOptions, connection: socket.socket) -> None:
        self.options = options
        self.connection = connection
        self.fetcher: Any = None
        self.failure: WorkerException | None = None
        self.ended = False

    def start(self, initialise: bool) -> None:
        """Prepares an epoch; an error is sent instead of the first batch."""
        o = self.options
        self.ended, self.failure = False, None
        try:
            if initialise and o.init_fn is not None:
                o.init_fn(o.id)
            self.fetcher = make_fetcher(
                o.iterable, o.dataset, o.auto_collation, o.collate_fn, o.drop_last
            )
        except Exception as error:
            self.failure = _sendable(error, o.where)

    def result(self, index: Any) -> Any:
        """Returns the batch, the exception, or the end of the stream."""
        if self.failure is not None:
            failure, self.failure = self.failure, None
            return failure
        try:
            return self.fetcher.fetch(index)
        except StopIteration as error:
            if not self.options.iterable:
                return _sendable(error, self.options.where)
            self.ended = True
            return StreamEnd(self.options.id)
        except Exception as error:
            return _sendable(error, self.options.where)

    def run(self) -> None:
        """Processes messages until the parent closes its socket."""
        self.start(True)
        while True:
            message = _channel.receive(self.connection)
            if isinstance(message, Resume):
                self.start(False)
                _channel.send(self.connection, message)
                continue
            epoch, number, index = message
            if self.ended:
                continue
            result = self.result(index)
            _send(self.connection, epoch, number, result, self.options.where)
            del result


def worker_loop(options: WorkerOptions, connection: socket.socket) -> None:
    """Runs a worker until the parent closes its socket."""
    try:
        _set_up(options)
        _Work(options, connection).run()
    except (EOFError, ConnectionError, KeyboardInterrupt):
        pass  # the parent is gone or was interrupted
    finally:
        connection.close()
