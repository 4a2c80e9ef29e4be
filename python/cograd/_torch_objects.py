# SPDX-License-Identifier: BSD-3-Clause
"""Whole objects from archives that are trusted: torch's classes in them are cograd's."""

from __future__ import annotations

import io
import pickle
from typing import Any

import cograd
from cograd import Tensor
from cograd import _torch_unpickler as restricted
from cograd._torch_files import STORAGES, Archive

__all__ = ["load_all"]


class _Idle:
    """A hook that keeps the version of a state_dict, of which there is one here."""

    def __call__(self, *args: Any) -> None:
        pass


# Names that pickles of torch have for what is elsewhere here, and is no public name of either.
# The layers are not among them: torch.nn.modules.X is a module here too.
_PLACES = {
    "torch.nn.modules.module._WrappedHook": ("cograd.nn.modules._state", "_LoadedHook"),
    "torch.nn.utils.spectral_norm.SpectralNorm": ("cograd.nn.utils._hooked", "SpectralNorm"),
    "torch.nn.utils.spectral_norm.SpectralNormLoadStateDictPreHook": (__name__, "_Idle"),
    "torch.nn.utils.spectral_norm.SpectralNormStateDictHook": (__name__, "_Idle"),
    "torch.nn.utils.weight_norm.WeightNorm": ("cograd.nn.utils._hooked", "WeightNorm"),
}


class _Everything(pickle.Unpickler):
    """Python's own, for files that are trusted."""

    def __init__(self, archive: Archive) -> None:
        super().__init__(io.BytesIO(archive.pickle()))
        self._archive = archive

    def find_class(self, module: str, name: str) -> Any:
        path = f"{module}.{name}"
        if path in restricted._CALLED and module.startswith("torch"):
            return restricted._CALLED[path]
        if (module == "torch" and name in STORAGES) or path in restricted._VALUES:
            found = restricted._global(module, name)
            kinds = {restricted._TENSOR: Tensor, restricted._PARAMETER: cograd.nn.Parameter}
            return kinds.get(found, found)
        if path in _PLACES:
            module, name = _PLACES[path]
        elif module.partition(".")[0] == "torch":
            module = "cograd" + module[5:]
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        reader = restricted.Unpickler(self._archive)
        reader._stack = [pid]
        reader._persistent()
        return reader._pop()


def load_all(archive: Archive) -> Any:
    """The object of an archive, whatever it is: may run code that is in the file."""
    return _Everything(archive).load()
