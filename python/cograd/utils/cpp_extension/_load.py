# SPDX-License-Identifier: BSD-3-Clause
"""Loads a built extension into the process and returns its functions."""

from __future__ import annotations

import os
import re
import sys
import types
from collections.abc import Iterable
from typing import Any

from cograd import _C
from cograd._base import registered_ops as _op_table
from cograd.utils.cpp_extension import _not_found
from cograd.utils.cpp_extension._job import abi_version

_MARK = re.compile(rb"COGRAD_ABI:(\d+)\.(\d+);")
_modules: dict[str, types.ModuleType] = {}  # path -> the module loaded from it
_versions: dict[str, int] = {}  # name -> number of Python modules created
_current: dict[str, str] = {}  # owner -> the path whose registrations are valid now
_opened: set[str] = set()  # loaded paths, whose initialisers cannot run again
loaded_libraries: set[str] = set()
_loaded: dict[str, tuple[int, int, int]] = {}  # path -> the file that load_library loaded
_names: dict[str, list[str]] = {}  # owner -> names of its ops


def check_abi(path: str, data: bytes | None = None) -> None:
    """Checks that a file was built for an ABI that this cograd supports.

    Args:
        path: the shared object.
        data: its content, if the caller has read it.

    Raises:
        ImportError: it needs another major version, or a newer minor one.
        OSError: the file cannot be read.
    """
    if data is None:
        with open(path, "rb") as file:
            data = file.read()
    marks = {(int(a), int(b)) for a, b in _MARK.findall(data)}
    if not marks:
        return
    ours = abi_version()
    for mark in (min(marks), max(marks)):
        if mark[0] != ours[0] or mark[1] > ours[1]:
            from cograd import __version__

            advice = "rebuild it with this cograd"
            if mark > ours:
                advice += ", or install the newer cograd it was built with"
            raise ImportError(
                f"{path}: built for cograd's ABI {mark[0]}.{mark[1]}, but this cograd "
                f"({__version__}) has ABI {ours[0]}.{ours[1]}; {advice}",
                path=path,
            )


def register(path: str, owner: str, data: bytes | None = None) -> list[str]:
    """Loads a shared object and returns the ops it registered, as "namespace::name".

    Args:
        path: the shared object.
        owner: identifies the loader; earlier registrations of the same owner are replaced.
        data: its content, if the caller has read it.

    Raises:
        ImportError: wrong ABI, unresolved symbols, or a name that another owner registered.
    """
    check_abi(path, data)
    if _current.get(owner) == path:
        return _names[owner]
    fresh = path
    if path in _opened:
        fresh = _copy(path)  # runs the registration again, which was replaced since
    _opened.add(path)
    try:
        names = [str(n) for n in _C._load_library(fresh, owner)]
    except ImportError as e:
        more = _not_found.needed_library(path, str(e))
        if not more:
            raise
        raise ImportError(f"{e}{more}", path=path) from None
    gone = set(_names.get(owner, ())) - set(names)
    _current[owner], _names[owner] = path, names
    _op_table.changed(names, gone)
    return names


def _copy(path: str) -> str:
    """Copies the library to a path that the dynamic linker has not loaded yet."""
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="cograd_extensions-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return shutil.copy2(path, folder)


def ops_module(name: str, path: str, names: Iterable[str]) -> types.ModuleType:
    """Returns a module whose attributes are the ops in `names`."""
    module = types.ModuleType(name, f"Ops of {path}, built by cograd.utils.cpp_extension.")
    module.__file__ = path
    for qualified in names:
        namespace, _, op = qualified.rpartition("::")
        function = _C._find_op(qualified)
        if not hasattr(module, op) or namespace == name:
            setattr(module, op, function)
    return module


def load_ops(name: str, path: str, data: bytes | None = None) -> types.ModuleType:
    """Loads an extension without Python code as a module.

    Raises:
        ImportError: as for `register`, or nothing was registered.
    """
    owner = f"extension:{name}"
    if _current.get(owner) == path and path in _modules:
        return _modules[path]
    names = register(path, owner, data)
    if not names:
        raise ImportError(
            f"{path} registered no op: list functions in `functions`, write a COGRAD_LIBRARY "
            "block, or pass is_python_module=False to load it for its side effects",
            name=name,
            path=path,
        )
    module = ops_module(name, path, names)
    _modules[path] = module
    return module


def load_python(name: str, path: str, registers: bool, data: bytes | None = None) -> Any:
    """Imports a module with a Python entry point, outside of sys.modules.

    Raises:
        ImportError: wrong ABI, unresolved symbols, or no entry point.
    """
    from importlib.machinery import ExtensionFileLoader
    from importlib.util import module_from_spec, spec_from_file_location

    if path in _modules:
        return _modules[path]
    if registers:
        register(path, f"extension:{name}", data)
    else:
        check_abi(path, data)
    # pybind11 returns the old module for a full name that it knows, so use a new one; the part
    # after the dot names the entry point.
    count = _versions[name] = _versions.get(name, 0) + 1
    full = name if count == 1 else f"{name}_v{count - 1}.{name}"
    loader = ExtensionFileLoader(full, path)
    spec = spec_from_file_location(full, path, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    module.__name__ = name
    _modules[path] = module
    return module


def load_library(path: str | os.PathLike[str], package: str | None = None) -> None:
    """Loads a shared object; the ops it registers become attributes of `cograd.ops`.

    Loading the same file again does nothing; a file that was rebuilt since replaces its ops.

    Args:
        path: the shared object, built by `cograd.utils.cpp_extension`, CMake or by hand.
        package: `__name__` of the package that contains it; a relative path is then looked for in
            the directories of this package, which may be several in an editable install.

    Raises:
        ImportError: the file does not exist or has another ABI, symbols are unresolved, or an op of
            that name exists.
    """
    name = os.fspath(path)
    places = [name]
    if package is not None and not os.path.isabs(name):
        places = [os.path.join(folder, name) for folder in _folders(package)]
    places = [os.path.realpath(place) for place in places]
    full = next((place for place in places if os.path.isfile(place)), "")
    if not full:
        raise ImportError(_not_found.library(name, places), path=places[0] if places else name)
    status = os.stat(full)
    stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
    if _loaded.get(full) == stamp:
        return
    register(_copy(full) if full in _loaded else full, f"file:{full}")
    _loaded[full] = stamp
    loaded_libraries.add(full if package is not None else name)


def _folders(package: str) -> list[str]:
    """Returns the directories of an imported package.

    Raises:
        ImportError: it is not imported, or not a package.
    """
    module = sys.modules.get(package)
    folders = [*getattr(module, "__path__", ())]
    if not folders:
        what = "is not a package" if module is not None else "is not imported"
        raise ImportError(
            f"cograd.ops.load_library: package={package!r} {what}; pass __name__ from its "
            "__init__.py",
            name=package,
        )
    return folders
