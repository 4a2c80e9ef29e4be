# SPDX-License-Identifier: BSD-3-Clause
"""Paths of cograd's headers and libraries, and of the cache of built extensions."""

from __future__ import annotations

import functools
import os
import stat
import sys

from cograd import _C

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BINARIES = os.path.dirname(os.path.abspath(_C.__file__))
ROOT_VARIABLE = "COGRAD_EXTENSIONS_DIR"


def _no_device(device_type: str) -> None:
    if device_type != "cpu":
        raise NotImplementedError(
            f"device_type={device_type!r}: extensions run on the CPU; expected 'cpu'"
        )


@functools.lru_cache(maxsize=1)
def include_dir() -> str:
    """Returns the directory that contains `cograd/extension.h`.

    That is the installed package's `include`, or `csrc/include` of a source checkout.

    Raises:
        FileNotFoundError: neither exists.
    """
    checkout = os.path.join(os.path.dirname(os.path.dirname(_PACKAGE)), "csrc", "include")
    candidates = [os.path.join(_BINARIES, "include"), os.path.join(_PACKAGE, "include"), checkout]
    for path in candidates:
        if os.path.isdir(os.path.join(path, "cograd")):
            return path
    raise FileNotFoundError(f"cograd's headers are in none of {candidates}; reinstall cograd")


def torch_compat_dir() -> str:
    """Returns the directory whose `torch/extension.h` maps torch's C++ names to cograd's."""
    return os.path.join(include_dir(), "cograd", "torch_compat")


def library_dir() -> str:
    """Returns the directory that contains `libcograd.so`."""
    return os.path.join(_BINARIES, "lib")


def include_paths(
    device_type: str = "cpu", torch_include_dirs: bool = True, *, with_torch_compat: bool = False
) -> list[str]:
    """Returns the directories to pass to a compiler with `-I`.

    Args:
        device_type: must be "cpu".
        torch_include_dirs: False omits cograd's own directory.
        with_torch_compat: adds the directory of `torch/extension.h` and similar headers.

    Raises:
        NotImplementedError: `device_type` is not "cpu".
    """
    _no_device(device_type)
    if not torch_include_dirs:
        return []
    paths = [include_dir()]
    if with_torch_compat:
        paths.append(torch_compat_dir())
    return paths


def library_paths(
    device_type: str = "cpu",
    torch_include_dirs: bool = True,
    cross_target_platform: str | None = None,
) -> list[str]:
    """Returns the directories to pass to a linker with `-L`.

    Args:
        device_type: must be "cpu".
        torch_include_dirs: False omits cograd's own directory.
        cross_target_platform: must be None, cograd has no binaries for another platform.

    Raises:
        NotImplementedError: `device_type` is not "cpu", or `cross_target_platform` is given.
    """
    _no_device(device_type)
    if cross_target_platform is not None:
        raise NotImplementedError(
            "cross_target_platform: cograd ships this platform's library only"
        )
    return [library_dir()] if torch_include_dirs else []


def cmake_prefix_path() -> str:
    """Returns the directory to add to CMAKE_PREFIX_PATH for `find_package(cograd)`."""
    for base in (_BINARIES, _PACKAGE):
        path = os.path.join(base, "share", "cmake")
        if os.path.isdir(path):
            return path
    return os.path.join(_BINARIES, "share", "cmake")


def get_default_build_root() -> str:
    """Returns the directory used if COGRAD_EXTENSIONS_DIR is not set: one per user.

    That is ``cograd_extensions`` in XDG_CACHE_HOME, else in ``.cache`` of the home directory.
    Without either it is a temporary directory that no other user can write to.
    """
    cache = os.environ.get("XDG_CACHE_HOME")
    if not cache or not os.path.isabs(cache):
        home = os.path.expanduser("~")
        if os.path.isabs(home) and home != "/":
            cache = os.path.join(home, ".cache")
        else:
            return _shared_root()
    return os.path.join(cache, "cograd_extensions")


def _shared_root() -> str:
    """Returns a directory in the shared temporary directory that only this user can write to."""
    import tempfile

    path = os.path.join(tempfile.gettempdir(), f"cograd_extensions-{os.geteuid()}")
    try:
        os.mkdir(path, 0o700)
    except OSError:
        pass  # it exists, or cannot be created
    return path if _is_private(path) else _root_of_process(path)


def _is_private(path: str) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return own and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@functools.cache
def _root_of_process(refused: str) -> str:
    """Creates a directory that is removed at the end of the process."""
    import atexit
    import shutil
    import tempfile
    import warnings

    folder = tempfile.mkdtemp(prefix="cograd_extensions-")
    maker = os.getpid()

    def remove() -> None:
        if os.getpid() == maker:  # a forked child leaves it to its parent
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    warnings.warn(
        f"cograd: {refused} is not a directory that only you can write to, so extensions are built "
        f"for this process only; set {ROOT_VARIABLE} to a directory of your own",
        RuntimeWarning,
        stacklevel=2,
    )
    return folder


def build_root() -> str:
    """Returns the directory of all cached extensions: COGRAD_EXTENSIONS_DIR, or the default."""
    path = os.environ.get(ROOT_VARIABLE)
    return os.path.abspath(os.path.expanduser(path)) if path else get_default_build_root()


def python_tag() -> str:
    """Returns the Python ABI that a module with Python's API depends on, such as `cpython-311`."""
    return f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
