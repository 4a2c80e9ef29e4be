# SPDX-License-Identifier: BSD-3-Clause
"""Module finders: old names of cograd's modules, and packages that are told about cograd."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["watch_old_names", "when_loaded"]


class _OldNames:
    """Comes last in ``sys.meta_path``, so it is asked only for modules that nothing else has."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith("cograd."):
            return None
        from cograd._base.moved import MOVED

        return ModuleSpec(name, self) if name in MOVED else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        from cograd._base.moved import MOVED

        new = MOVED[spec.name]
        module = ModuleType(spec.name, f"The old name of {new}.")
        vars(module)["__getattr__"] = lambda name: getattr(import_module(new), name)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the module is complete."""


def watch_old_names() -> None:
    """Makes the old names importable; a second call, as of a reload, does nothing."""
    own = (__name__, _OldNames.__name__)
    if not any((type(f).__module__, type(f).__name__) == own for f in sys.meta_path):
        sys.meta_path.append(_OldNames())


class _Waiting:
    """Comes first in ``sys.meta_path`` until a package is imported, and then removes itself."""

    def __init__(self, package: str, then: Callable[[], None]) -> None:
        self.package = package
        self.then = then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.package:
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return spec
        run = spec.loader.exec_module

        def run_and_tell(module: Any) -> None:
            run(module)
            self.then()

        spec.loader.exec_module = run_and_tell  # type: ignore[method-assign]
        return spec


def when_loaded(package: str, then: Callable[[], None]) -> None:
    """Calls ``then`` now if a package is loaded, otherwise when the program imports it."""
    if package in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Waiting(package, then))
