# SPDX-License-Identifier: BSD-3-Clause
"""Loads any object from trusted archives, replacing torch's classes by cograd's."""

from __future__ import annotations

import io
import pickle
from typing import Any

from cograd import _C, Tensor
from cograd._files import names as _torch_names
from cograd._files.archive import STORAGES, Archive
from cograd._files.unpickler import stored
from cograd._tensor.pickle import _put_state
from cograd.nn.parameter import Parameter
from cograd.storage import TypedStorage

__all__ = ["load_all"]


class _Idle:
    """A no-op for hooks that torch uses to version a state_dict; cograd has only one version."""

    def __call__(self, *args: Any) -> None:
        pass


def _parameter_with_state(data: Tensor, grad: bool, hooks: Any, state: Any) -> Parameter:
    result = Parameter(data, grad)
    _put_state(result, state)
    return result


def _from_type(func: Any, kind: Any, arguments: Any, state: Any) -> Tensor:
    """Rebuilds a tensor of any class, with its attributes."""
    made: Tensor = func(*arguments)
    if type(made) is not kind:
        made = _C._alias_as(kind, made, made.requires_grad)
    _put_state(made, state)
    return made


# Private names in torch's pickles whose objects have another path here.
# Layers are not listed: torch.nn.modules.X is a module here too.
_PLACES = {
    "torch.nn.modules.module._WrappedHook": ("cograd.nn.modules._state", "_LoadedHook"),
    "torch.nn.utils.spectral_norm.SpectralNorm": ("cograd.nn.utils._hooked", "SpectralNorm"),
    "torch.nn.utils.spectral_norm.SpectralNormLoadStateDictPreHook": (__name__, "_Idle"),
    "torch.nn.utils.spectral_norm.SpectralNormStateDictHook": (__name__, "_Idle"),
    "torch.nn.utils.weight_norm.WeightNorm": ("cograd.nn.utils._hooked", "WeightNorm"),
}
# Functions that are called differently for untrusted files.
_FUNCTIONS = {
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch._utils._rebuild_parameter_with_state": _parameter_with_state,
    "torch.device": _torch_names.MAKERS[_C.device],  # the CPU for most kinds
}


class _Everything(pickle.Unpickler):
    """Python's unpickler, for trusted files."""

    def __init__(self, archive: Archive) -> None:
        super().__init__(io.BytesIO(archive.pickle()))
        self._archive = archive

    def find_class(self, module: str, name: str) -> Any:
        path = f"{module}.{name}"
        if path in _FUNCTIONS:
            return _FUNCTIONS[path]
        if path in _torch_names.FUNCTIONS and module.startswith("torch"):
            return _torch_names.FUNCTIONS[path].call
        if module == "torch" and name in STORAGES:
            return _torch_names.StorageType(name)
        if path in _PLACES:
            module, name = _PLACES[path]
        elif module.partition(".")[0] == "torch":
            module = "cograd" + module[5:]
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> TypedStorage:
        return stored(self._archive, pid)


def load_all(archive: Archive) -> Any:
    """Returns the object of an archive, of any kind. Can run code that is in the file."""
    return _Everything(archive).load()
