# SPDX-License-Identifier: BSD-3-Clause
"""Gives placeholders for modules and names that cograd lacks: see docs/torch_compat.md."""

from __future__ import annotations

import importlib
import sys
import typing
from collections.abc import Callable
from importlib.abc import Loader
from types import ModuleType
from typing import Any

from cograd import _C
from cograd._base import absent as _absent

__all__ = ["answering", "aten_op", "has_module", "loader_of"]

# Names that attribute access gives, too: packages use them while they are imported.
_ATTRIBUTES = {
    "": "DeviceObjType Event PyTorchFileReader PyTorchFileWriter ScriptModule "
    "ScriptFunction Stream _guards",
    "_C": "PyTorchFileReader PyTorchFileWriter",
    "cuda": "stream",
    "distributed": "device_mesh",
    "jit": "RecursiveScriptModule CompilationUnit TracerWarning",
    "autograd.profiler": "emit_nvtx emit_itt",
}
_TYPING = ("Any", "Callable", "Dict", "List", "Optional", "Tuple", "Union")


def has_module(path: str) -> bool:
    """Returns whether torch has this module, given as a path below torch."""
    from cograd._as_torch.names import torch_names

    names = torch_names()
    return f"{path}." in names and (f"{path}.." in names or f"{path}.*" in names)


def _path_of(module: str) -> str:
    """Returns the path of a module in the table of names: functorch stands beside torch."""
    return module.removeprefix("cograd").removeprefix("torch").lstrip(".")


def _find(path: str, name: str) -> Any:
    """Returns what the absent module ``path`` has for ``name``: the thing, or a placeholder."""
    from cograd._as_torch.names import torch_names
    from cograd._as_torch.placeholders import placeholder
    from cograd._as_torch.working import find_working

    working, names = find_working(path, name), torch_names()
    if working is not None:
        return working.value
    if f"{path}.{name}=same" in names:  # torch has it in a package above, too
        above = path
        while above:
            above = above.rpartition(".")[0]
            module = sys.modules.get(f"torch.{above}".rstrip("."))
            if module is not None and not isinstance(module, _Absent) and hasattr(module, name):
                return getattr(module, name)
            if f"{above}.{name}".lstrip(".") in names:
                return _find(above, name)
    if name in _TYPING:
        return getattr(typing, name)
    return placeholder(f"{path}.{name}".lstrip("."))


class _Absent(ModuleType):
    """A module of torch that cograd lacks: its names are placeholders."""

    def __getattr__(self, name: str) -> Any:
        path = _path_of(self.__name__)
        if not name.startswith("__"):
            from cograd._as_torch.placeholders import has_name
            from cograd._as_torch.working import find_working

            if has_module(f"{path}.{name}"):  # torch imports many modules with their packages
                return importlib.import_module(f"{self.__name__}.{name}")
            if has_name(f"{path}.{name}") or find_working(path, name) is not None:
                value = _find(path, name)
                setattr(self, name, value)
                return value
        raise _absent.missing(self.__name__, name)

    def __repr__(self) -> str:
        return f"<module {self.__name__!r} (placeholders)>"


class _AbsentLoader(Loader):
    """Loads a module of placeholders."""

    def create_module(self, spec: Any) -> ModuleType:
        return _Absent(spec.name, "A module of torch that cograd lacks; it has placeholders.")

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: names are looked up when they are used."""


def loader_of(path: str) -> Loader | None:
    """Returns the loader of a module that cograd lacks and torch has, or None."""
    return _AbsentLoader() if has_module(path) else None


def _by_attribute(path: str, name: str) -> bool:
    return name in _ATTRIBUTES.get(path, "").split()


def _instead(path: str, name: str, imported: bool) -> Any:
    """Returns what an existing module gives for a name that it lacks; None if nothing."""
    from cograd._as_torch.working import find_working

    working = find_working(path, name)
    if working is not None:
        return working.value
    from cograd._as_torch.placeholders import changes_nothing

    full = f"{path}.{name}".lstrip(".")
    if not imported and not _by_attribute(path, name) and not changes_nothing(full):
        return None
    if has_module(full):
        return importlib.import_module(f"torch.{full}")
    if _known(full) or _by_attribute(path, name):
        return _find(path, name)
    return None


def _known(full: str) -> bool:
    """Returns whether torch has this name in a module that cograd has, too."""
    from cograd._as_torch.names import torch_names

    return full in torch_names() and f"{full}!" in torch_names()


def _explain(module: ModuleType, full: str) -> None:
    """Raises AttributeError with advice if the name is torch's; else returns."""
    from cograd._as_torch.placeholders import advice

    if _known(full):
        name = full.rpartition(".")[2]
        text = f"module {module.__name__!r} has no attribute {name!r}: {advice(full)}"
        raise AttributeError(text, name=name, obj=module) from None


def answering(module: ModuleType, shown: str | None = None) -> None:
    """Lets a module of cograd give placeholders to ``from module import name``.

    Attribute access, and so ``hasattr``, keeps finding only what cograd has; its errors for other
    names of torch say what to use instead.
    """
    names = vars(module)
    own: Callable[[str], Any] = names.get("__getattr__") or _absent.reporter(module.__name__)
    if getattr(own, "answers", False):
        return
    path = _path_of(shown or module.__name__)

    def __getattr__(name: str) -> Any:  # noqa: N807
        try:
            value = own(name)
        except (AttributeError, ImportError) as error:
            if name.startswith("__"):
                raise
            value = _instead(path, name, _absent.by_from(sys._getframe(1)))
            if value is None and isinstance(error, _absent.Unknown):
                _explain(module, f"{path}.{name}".lstrip("."))
            if value is None:
                raise
        if isinstance(value, ModuleType) and value.__name__.startswith("cograd."):
            answering(value)  # a module that cograd imports at its first use
        return value

    __getattr__.answers = True  # type: ignore[attr-defined]
    names["__getattr__"] = __getattr__
    names.setdefault("__path__", [])  # so that submodules which cograd lacks are looked for


def aten_op(name: str) -> Any:
    """Returns what ``torch.ops.aten`` gives for an op of torch: a key for tables of ops."""
    from cograd._as_torch.placeholders import AtenOp, has_name

    return AtenOp(name) if hasattr(_C._ops, name) or has_name(f"ops.aten.{name}") else None
