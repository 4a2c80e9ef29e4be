# SPDX-License-Identifier: BSD-3-Clause
"""Installs cograd as torch: an import hook that resolves ``torch.x`` to the module ``cograd.x``."""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import cograd
from cograd import _C
from cograd._as_torch import missing as _missing
from cograd._base import absent as _absent
from cograd._base import registered_ops as _op_table

__all__ = ["VERSION", "children_environment", "install_as_torch", "show_as_torch"]

VERSION = "2.13.0+cograd"  # the torch release whose names and behaviour cograd has
_FOLDER = str(Path(__file__).parent / "path")  # the module torch and its metadata


class _AliasLoader(Loader):
    """Loads the existing module ``real`` under its torch name."""

    def __init__(self, real: ModuleType) -> None:
        self._real = real
        self._spec = real.__spec__

    def create_module(self, spec: Any) -> ModuleType:
        return self._real

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # importlib has set the alias's spec

    def _ask(self, what: str) -> Any:
        ask = getattr(getattr(self._spec, "loader", None), what, None)
        return None if ask is None or self._spec is None else ask(self._spec.name)

    def get_code(self, fullname: str) -> Any:
        """Returns the code that ``python -m`` runs; None for modules of the binary."""
        return self._ask("get_code")

    def get_source(self, fullname: str) -> Any:
        """Returns the source text, or None."""
        return self._ask("get_source")

    def is_package(self, fullname: str) -> bool:
        """Returns whether the module can have submodules."""
        return hasattr(self._real, "__path__")


class _AliasFinder(MetaPathFinder):
    """Finds ``torch`` and its submodules; it is first in ``sys.meta_path``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        top, _, rest = fullname.partition(".")
        if top == "functorch":  # torch's wheel has this package, too
            name, rest = f"cograd._as_torch.{fullname}", fullname
        elif top == "torch":
            name = f"cograd.{rest}".rstrip(".")
        else:
            return None
        try:
            real = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name and not name.startswith(f"{error.name}."):
                raise
            loader = _missing.loader_of(rest)
            if loader is not None:
                return importlib.machinery.ModuleSpec(fullname, loader, is_package=True)
            reason = _absent.explain(*_split(rest))
            if reason is None:
                return None
            text = f"No module named {fullname!r}: {reason}"
            raise ModuleNotFoundError(text, name=fullname) from None
        package = hasattr(real, "__path__") or top == "functorch"
        _missing.answering(real, fullname)
        origin = getattr(real.__spec__, "origin", None)
        return importlib.machinery.ModuleSpec(
            fullname, _AliasLoader(real), origin=origin, is_package=package
        )


def _split(path: str) -> tuple[str, str]:
    module, _, name = path.rpartition(".")
    return module, name


def children_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns ``environment`` with the directory of the ``torch`` alias first in PYTHONPATH."""
    before = environment.get("PYTHONPATH", "").split(os.pathsep)
    kept = [entry for entry in before if entry and entry != _FOLDER]
    return {**environment, "PYTHONPATH": os.pathsep.join([_FOLDER, *kept])}


def install_as_torch() -> None:
    """Makes ``import torch`` import cograd, in this process and in the Python processes it starts.

    ``torch.nn.functional`` is the same module as ``cograd.nn.functional``, and so on.
    ``__version__`` is that of the torch release whose behaviour cograd has; dtypes, sizes and types
    print as torch's; random numbers are those that torch samples for a seed (``set_rng("torch")``,
    which restarts the default generator). Children inherit it by PYTHONPATH. A second call does
    nothing.

    Raises:
        RuntimeError: torch itself is already loaded.
    """
    loaded = sys.modules.get("torch")
    if loaded is cograd:
        return
    if loaded is not None:
        raise RuntimeError(
            "install_as_torch(): torch is already loaded, from "
            f"{getattr(loaded, '__file__', None)!r}; call this before anything imports it"
        )
    sys.meta_path.insert(0, _AliasFinder())
    sys.modules["torch"] = cograd
    for name in [n for n in sys.modules if n.startswith("cograd.")]:
        sys.modules.setdefault("torch." + name.removeprefix("cograd."), sys.modules[name])
        _missing.answering(sys.modules[name])
    _missing.answering(cograd)
    _op_table.stand_ins["aten"] = _missing.aten_op
    os.environ.update(children_environment(os.environ))
    if _FOLDER not in sys.path:  # multiprocessing's spawn copies sys.path to its processes
        sys.path.insert(min(1, len(sys.path)), _FOLDER)
    show_as_torch()
    cograd.set_rng("torch")


def show_as_torch() -> None:
    """Makes versions and names print as torch's do."""
    from cograd._as_torch.symbols import dtype_names, script_classes
    from cograd._base.memory_format import layout, memory_format
    from cograd._tensor.pickle import pickle_without_module
    from cograd.torch_version import TorchVersion

    vars(cograd).update(__version__=TorchVersion(VERSION), __name__="torch", torch=cograd)
    vars(cograd).update(dtype_names)  # programs compare dtypes with these
    _C._set_public_name("torch")
    for name in ("_log_api_usage_once", "_get_tracing_state"):  # packages call these on torch._C
        setattr(_C, name, lambda *args: None)
    vars(_C).update(_TensorMeta=type(_C.Tensor), **script_classes)  # for annotations
    _C._are_functorch_transforms_active = lambda: _C._vmap_depth() > 0  # type: ignore[attr-defined]
    for kind in (_C.Tensor, _C.Size, _C.dtype, _C.device, layout, memory_format):
        kind.__module__ = "torch"
    pickle_without_module()  # so that plain cograd reads these pickles too
