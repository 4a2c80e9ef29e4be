# SPDX-License-Identifier: BSD-3-Clause
"""Whole objects from archives that are trusted: torch's classes in them are cograd's."""

from __future__ import annotations

import io
import pickle
from typing import Any

from cograd import _C, Tensor, _torch_names
from cograd._tensor.pickle import _put_state
from cograd._torch_files import STORAGES, Archive
from cograd._torch_unpickler import stored
from cograd.nn.parameter import Parameter
from cograd.storage import TypedStorage

__all__ = ["load_all"]


class _Idle:
    """A hook that keeps the version of a state_dict, of which there is one here."""

    def __call__(self, *args: Any) -> None:
        pass


def _parameter_with_state(data: Tensor, grad: bool, hooks: Any, state: Any) -> Parameter:
    result = Parameter(data, grad)
    _put_state(result, state)
    return result


def _from_type(func: Any, kind: Any, arguments: Any, state: Any) -> Tensor:
    """A tensor of any class, with its attributes."""
    made: Tensor = func(*arguments)
    if type(made) is not kind:
        made = _C._alias_as(kind, made, made.requires_grad)
    _put_state(made, state)
    return made


# Names that pickles of torch have for what is elsewhere here, and is no public name of either.
# The layers are not among them: torch.nn.modules.X is a module here too.
_PLACES = {
    "torch.nn.modules.module._WrappedHook": ("cograd.nn.modules._state", "_LoadedHook"),
    "torch.nn.utils.spectral_norm.SpectralNorm": ("cograd.nn.utils._hooked", "SpectralNorm"),
    "torch.nn.utils.spectral_norm.SpectralNormLoadStateDictPreHook": (__name__, "_Idle"),
    "torch.nn.utils.spectral_norm.SpectralNormStateDictHook": (__name__, "_Idle"),
    "torch.nn.utils.weight_norm.WeightNorm": ("cograd.nn.utils._hooked", "WeightNorm"),
}
# Functions of torch that are called otherwise than in files that are not trusted.
_FUNCTIONS = {
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch._utils._rebuild_parameter_with_state": _parameter_with_state,
    "torch.device": _torch_names.MAKERS[_C.device],  # all are the CPU
}


class _Everything(pickle.Unpickler):
    """Python's own, for files that are trusted."""

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
    """The object of an archive, whatever it is: may run code that is in the file."""
    return _Everything(archive).load()
