# SPDX-License-Identifier: BSD-3-Clause
"""Finds, loads and chooses the libraries behind matrix products and convolutions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from types import TracebackType
from typing import TYPE_CHECKING

from cograd import _C

if TYPE_CHECKING:
    from typing_extensions import Self

# Library -> its title, [the distribution that contains it, and its file names].
_EXTRAS = {
    "mkl": ("MKL", "mkl", ("libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.so")),
    "onednn": ("oneDNN", "onednn-cpu-gomp", ("libdnnl.so.3", "libdnnl.so")),
}
OPERATIONS = {
    "matmul": ("own", "openblas", "mkl", "onednn"),
    "convolution": ("own", "onednn"),
}


class Verbose:
    """A block in which torch makes a library print its calls; has no effect here."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


def _candidates(name: str) -> Iterator[str]:
    """Yields existing paths, those of the installed package first, then names for the linker."""
    _, distribution, files = _EXTRAS[name]
    try:
        listed = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        listed = []
    paths = [str(file.locate()) for file in listed if file.name in files]
    paths.sort(key=lambda path: files.index(os.path.basename(path)))
    paths += [os.path.join(sys.prefix, "lib", file) for file in files]
    yield from (os.path.realpath(path) for path in paths if os.path.exists(path))
    yield from files


def load(name: str) -> None:
    """Loads a library unless it is loaded. Raises RuntimeError if it is missing or broken."""
    if _C._is_backend_loaded(name):
        return
    title, _, _ = _EXTRAS[name]
    missing = f"backends: {title} is not installed; install it with: pip install cograd[{name}]"
    for candidate in _candidates(name):
        try:
            return _C._load_backend(name, candidate)
        except RuntimeError as error:
            if os.path.isabs(candidate):
                raise  # the file exists, but is broken
            reason = str(error)
            if "cannot open shared object file" not in reason:
                raise
    raise RuntimeError(missing)


def is_available(name: str) -> bool:
    """Returns whether a library is installed and can be loaded; loads it."""
    if name not in _EXTRAS:
        return True
    try:
        load(name)
    except RuntimeError:
        return False
    return True


def version(name: str) -> str:
    """Returns the library's own version text."""
    if name in _EXTRAS:
        load(name)
    return _C._backend_version(name)


def get_library(operation: str) -> str:
    """Returns the name of the library that computes an operation.

    Args:
        operation: ``"matmul"`` or ``"convolution"``.

    Raises:
        ValueError: ``operation`` is neither.
    """
    return _C._chosen_backend(operation)


def set_library(operation: str, library: str) -> None:
    """Chooses the library that computes an operation, in every thread.

    Args:
        operation: ``"matmul"`` (every product of float and complex matrices and ops based on them)
            or ``"convolution"`` (convolutions and their gradients).
        library: for ``"matmul"`` ``"own"`` (the default; OpenBLAS for complex numbers),
            ``"openblas"``, ``"mkl"`` or ``"onednn"``; for ``"convolution"`` ``"own"`` (the default)
            or ``"onednn"``.

    Raises:
        ValueError: there is no such operation, or the library does not compute it.
        RuntimeError: the library is not installed, or is broken. The choice does not change.
    """
    before = _C._chosen_backend(operation)  # raises for an unknown operation
    if library not in OPERATIONS[operation]:
        known = " or ".join(repr(name) for name in OPERATIONS[operation])
        raise ValueError(
            f"backends: library of {operation!r} is {library!r}, expected {known}; "
            f"it stays {before!r}"
        )
    if library in _EXTRAS:
        load(library)
    _C._choose_backend(operation, library)


@contextmanager
def use(*, matmul: str | None = None, convolution: str | None = None) -> Iterator[None]:
    """Chooses libraries for the duration of a with block, in every thread.

    Args:
        matmul: as for :func:`set_library`; None does not change the choice.
        convolution: the same for convolutions.

    Raises:
        ValueError: the library does not compute the operation.
        RuntimeError: the library is not installed, or is broken.
    """
    before = {operation: get_library(operation) for operation in OPERATIONS}
    try:
        if matmul is not None:
            set_library("matmul", matmul)
        if convolution is not None:
            set_library("convolution", convolution)
        yield
    finally:
        for operation, library in before.items():
            set_library(operation, library)


def show() -> str:
    """Lists the libraries of each operation and the versions of all libraries, a line each."""
    lines = []
    for operation, libraries in OPERATIONS.items():
        chosen = get_library(operation)
        rest = [name for name in libraries if name != chosen and is_available(name)]
        lines.append(f"{operation}: {chosen} (available: {', '.join(rest) or 'nothing else'})")
    names = ("openblas", *_EXTRAS)
    lines += [f"{name}: {version(name)}" for name in names if is_available(name)]
    return "\n".join(lines)
