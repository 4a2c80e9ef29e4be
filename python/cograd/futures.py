# SPDX-License-Identifier: BSD-3-Clause
"""Results that become available later; communication hooks return them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import cograd
from cograd import _C
from cograd._base import absent as _absent

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


def _gpus(devices: Iterable[Any]) -> list[Any]:
    """Returns the GPUs among the devices, each of which must exist."""
    found = []
    for given in devices:
        try:
            device = cograd.device(given)
            _C._check_device(device)
        except RuntimeError as error:
            raise ValueError(
                f"Future: devices names {given!r}, which cannot be used: {error}"
            ) from None
        if device.type != "cpu":
            found.append(device)
    return found


class Future(Generic[T]):
    """A value that is set once, by ``set_result`` or by the call that returned this future.

    Args:
        devices: the GPUs whose tensors the value may hold. Work of the thread that sets the value
            is finished there before work that ``wait`` or a callback starts. The CPU is allowed.

    Raises:
        ValueError: a device does not exist.
    """

    def __init__(self, *, devices: list[Any] | None = None) -> None:
        self._devices = _gpus(devices or ())
        self._events: list[Any] = []  # when the GPUs finish the work before the value was set
        self._lock = threading.Condition()
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []
        self._waiter: Callable[[], Any] | None = None  # produces the value when called

    def done(self) -> bool:
        """Returns whether the future has a value or an error."""
        return self._done

    def wait(self) -> T:
        """Waits for the value and returns it; raises the error if there is one."""
        if not self._done and self._waiter is not None:
            self._waiter()
        with self._lock:
            while not self._done:
                self._lock.wait()
        self._order_work()
        return self.value()

    def value(self) -> T:
        """Returns the value. Raises RuntimeError if the future is not done."""
        if not self._done:
            raise RuntimeError("Future.value: the future is not done; call wait()")
        if self._error is not None:
            raise self._error
        return cast(T, self._value)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """Returns a future of the result of ``callback(self)``, called once this one is done."""
        child: Future[S] = Future(devices=list(self._devices))

        def run(parent: Future[T]) -> None:
            try:
                child.set_result(callback(parent))
            except BaseException as error:
                child.set_exception(error)

        child._waiter = self._settle
        self.add_done_callback(run)
        return child

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Calls ``callback(self)`` once this future is done, or at once if it is."""
        with self._lock:
            if not self._done:
                self._callbacks.append(callback)
                return
        self._order_work()
        callback(self)

    def set_result(self, result: T) -> None:
        """Sets the value. Raises RuntimeError if the future is done already."""
        self._set(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Sets the error that ``wait`` and ``value`` raise."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result!r} is of type {type(result)}, not an Exception.")
        self._set(None, result)

    def _set(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self._done:
                raise RuntimeError("Future: the result was set before")
            for device in self._devices:
                event = cograd.cuda.Event()
                event.record(cograd.cuda.current_stream(device))
                self._events.append(event)
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._waiter = None
            self._lock.notify_all()
        for callback in callbacks:
            callback(self)

    def _order_work(self) -> None:
        """Makes the current streams of this thread wait for the work before the value was set."""
        for device, event in zip(self._devices, self._events, strict=True):
            cograd.cuda.current_stream(device).wait_event(event)

    def _settle(self) -> None:
        """Waits for the value or the error, without raising the error."""
        try:
            self.wait()
        except BaseException:
            if not self._done:
                raise


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """Returns a future that is done when all are; its value is the list itself."""
    out: Future[list[Future[Any]]] = Future()
    left, lock = [len(futures)], threading.Lock()

    def count(_: Future[Any]) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            out.set_result(futures)

    def settle() -> None:
        for future in futures:
            future._settle()

    out._waiter = settle
    if not futures:
        out.set_result(futures)
    for future in futures:
        future.add_done_callback(count)
    return out


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """Returns the values of all futures; raises the first error after all are done."""
    return [future.wait() for future in collect_all(futures).wait()]


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING, annotations
