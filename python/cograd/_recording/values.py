# SPDX-License-Identifier: BSD-3-Clause
"""The tensors and sizes of a running recording: they say where they come from."""

from __future__ import annotations

import contextlib
import operator
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import cograd
from cograd import _C
from cograd._base.traces import refuse_gradients, set_recorder
from cograd._base.traces import thread as _thread

__all__ = [
    "Traced",
    "TracedInt",
    "TracerWarning",
    "active",
    "is_recording",
    "paused",
    "place",
    "set_active",
    "warn",
]

_PACKAGE = os.path.dirname(cograd.__file__) + os.sep
_NOTE = (
    "Converting a tensor to a Python {} might cause the trace to be incorrect. We can't record the "
    "data flow of Python values, so this value will be treated as a constant in the future. This "
    "means that the trace might not generalize to other inputs!"
)


class TracerWarning(Warning):
    """A trace depends on the values of its example inputs."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Exists for programs that call torch's: the package's own lines never warn."""


def active() -> Any:
    """Returns the recorder that runs on this thread, or None."""
    return _thread.recorder


def set_active(recorder: Any) -> Any:
    """Sets the recorder of this thread and returns the one before."""
    return set_recorder(recorder)


def is_recording() -> bool:
    """Returns whether this thread records."""
    return _thread.recorder is not None


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Records nothing in a with block."""
    before = set_active(None)
    try:
        yield
    finally:
        set_active(before)


def place() -> tuple[str, int]:
    """Returns file and line of the innermost frame outside of this package."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def warn(message: str) -> None:
    """Warns with the line of the program that is traced."""
    if _thread.recorder is not None:
        _thread.recorder.made.warned = True
    file, line = place()
    warnings.warn_explicit(message, TracerWarning, file, line)


def _leaving(name: str, what: str, computes: bool = False) -> Any:
    """Returns a method that leaves the trace: it warns and runs the plain one.

    Args:
        computes: whether functions of this package use the method to compute outside of ops.
    """
    plain = getattr(cograd.Tensor, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _thread.recorder is None:
            return plain(self, *args, **kwargs)
        if not _thread.recorder.is_constant(self):
            if computes:
                _refuse_inside(sys._getframe(1))
            warn(_NOTE.format(what))
        with paused(), _C.DisableTorchFunction():
            return plain(self, *args, **kwargs)

    return method


def _refuse_inside(frame: Any) -> None:
    """Raises where a function of this package computes by NumPy or Python."""
    if frame.f_code.co_filename.startswith(_PACKAGE):
        raise RuntimeError(
            f"trace: {frame.f_code.co_name}() computes outside of ops, which cannot be recorded"
        )


def _note_number(how: str, value: Any) -> None:
    recorder = _thread.recorder
    if recorder is None or sys._getframe(2).f_code.co_filename.startswith(_PACKAGE):
        return
    if not (isinstance(value, cograd.Tensor) and recorder.is_constant(value)):
        recorder.became_number(how)


class Traced(cograd.Tensor):
    """A tensor whose sizes and elements are noticed when a program reads them."""

    __torch_function__ = __cograd_function__ = _C._disabled_torch_function_impl

    item = _leaving("item", "number")
    tolist = _leaving("tolist", "list", computes=True)
    numpy = _leaving("numpy", "NumPy array", computes=True)
    __array__ = _leaving("__array__", "NumPy array", computes=True)
    __dlpack__ = _leaving("__dlpack__", "DLPack capsule", computes=True)
    __bool__ = _leaving("__bool__", "boolean")
    __int__ = _leaving("__int__", "integer")
    __index__ = _leaving("__index__", "index")
    __float__ = _leaving("__float__", "float")
    __complex__ = _leaving("__complex__", "complex number", computes=True)
    __contains__ = _leaving("__contains__", "boolean")
    is_nonzero = _leaving("is_nonzero", "boolean")

    @property
    def shape(self) -> Any:
        """The sizes, as numbers that a recording recognizes."""
        return self.size()

    def size(self, dim: int | None = None) -> Any:
        """Returns the size of a dim, or all of them."""
        recorder, plain = _thread.recorder, cograd.Tensor.size(self)
        if dim is not None:
            value = cograd.Tensor.size(self, dim)
            return value if recorder is None else recorder.size(self, dim % len(plain), value)
        if recorder is None:
            return plain
        return cograd.Size(recorder.size(self, i, n) for i, n in enumerate(plain))

    def numel(self) -> Any:
        """Returns the number of elements."""
        count: Any = 1
        for size in self.size():
            count = size * count
        return count

    nelement = numel

    @property  # type: ignore[misc]
    def data(self) -> Any:
        """The tensor without history."""
        return self.detach()

    def __len__(self) -> int:
        _note_number("len()", self)
        return cograd.Tensor.__len__(self)

    def __iter__(self) -> Any:
        _note_number("Iterating over a tensor", self)
        return iter(self.unbind(0)) if self.ndim else cograd.Tensor.__iter__(self)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Raises while recording: gradients cannot be recorded."""
        if requires_grad:
            refuse_gradients("requires_grad_()")
        return cograd.Tensor.requires_grad_(self, requires_grad)

    def __repr__(self, **kwargs: Any) -> str:
        with paused(), _C.DisableTorchFunction():
            return repr(self.as_subclass(cograd.Tensor))


def _compared(name: str) -> Any:
    compare: Callable[[Any, Any], bool] = getattr(int, name)

    def method(self: Any, other: Any) -> bool:
        if _thread.recorder is not None:
            caller = sys._getframe(1)
            if not caller.f_code.co_filename.startswith(_PACKAGE):
                _thread.recorder.compared(self, caller.f_code.co_filename, caller.f_lineno)
        return compare(self, other)

    return method


def _arithmetic(name: str, op: Any, swapped: bool = False) -> Any:
    compute: Callable[[Any, Any], Any] = getattr(int, name)

    def method(self: Any, other: Any) -> Any:
        value = compute(self, other)
        if value is NotImplemented or _thread.recorder is None:
            return value
        source = (op, other, self) if swapped else (op, self, other)
        return TracedInt.of(value, source)

    return method


class TracedInt(int):
    """A size with the tensor and dim, or the formula, that it came from."""

    source: Any

    @classmethod
    def of(cls, value: int, source: Any) -> TracedInt:
        """Returns a number that ``source`` computes: (tensor, dim) or (operator, a, b)."""
        self = cls(value)
        self.source = source
        return self

    def __reduce__(self) -> Any:
        return int, (int.__int__(self),)

    def __int__(self) -> int:
        _note_number("int()", self)
        return int.__int__(self)

    def __float__(self) -> float:
        _note_number("float()", self)
        return int.__float__(self)

    def __neg__(self) -> Any:
        return 0 - self

    __hash__ = int.__hash__
    for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
        locals()[_name] = _compared(_name)
    for _name in ("add", "sub", "mul", "floordiv", "mod"):
        locals()[f"__{_name}__"] = _arithmetic(f"__{_name}__", getattr(operator, _name))
        locals()[f"__r{_name}__"] = _arithmetic(f"__r{_name}__", getattr(operator, _name), True)
    del _name
