# SPDX-License-Identifier: BSD-3-Clause
"""torch.hub without downloads: models from a local directory, and files that exist locally."""

from __future__ import annotations

import builtins
import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from cograd import _absent

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # the hash in a file's name: resnet18-5c106cde.pth

_dir: str | None = None


def get_dir() -> str:
    """Returns the hub's directory: ``set_dir``'s, or ``$TORCH_HOME/hub``, or one in the cache."""
    return os.path.join(_get_torch_home(), "hub") if _dir is None else _dir


def _get_torch_home() -> str:
    """Returns ``$TORCH_HOME``, or a directory in the cache."""
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Sets the directory that ``get_dir`` returns."""
    global _dir
    _dir = os.path.expanduser(os.fspath(d))


class _Faketqdm:
    """Replaces ``tqdm`` where it is not installed: a counter that shows nothing."""

    def __init__(self, total: Any = None, disable: bool = False, **options: Any) -> None:
        self.total = total
        self.disable = disable
        self.n = 0

    def update(self, n: int = 1) -> None:
        """Adds ``n`` to the counter."""
        self.n += n

    def set_description(self, *args: Any, **options: Any) -> None:
        """Does nothing."""

    def write(self, s: str) -> None:
        """Writes a line to standard error."""
        sys.stderr.write(f"{s}\n")

    def close(self) -> None:
        """Does nothing."""

    def __enter__(self) -> _Faketqdm:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _hubconf(function: str, folder: str, source: str) -> ModuleType:
    """Imports ``hubconf.py`` of a directory."""
    if source != "local":
        text = f"hub.{function}(source={source!r}): a folder is read with source='local'"
        raise _absent.refused(text, "hub")
    path = Path(folder).resolve() / "hubconf.py"
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def _entry(module: ModuleType, name: str) -> Any:
    entry = getattr(module, name, None)
    if not callable(entry):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return entry


def list(github: str, *args: Any, source: str = "github", **_ignored: Any) -> builtins.list[str]:
    """Returns the names of the models in the ``hubconf.py`` of a directory.

    Raises:
        NotImplementedError: ``source`` is not "local": hub does not download.
    """
    members = vars(_hubconf("list", github, source)).items()
    return [name for name, value in members if callable(value) and not name.startswith("_")]


def help(github: str, model: str, *args: Any, source: str = "github", **_ignored: Any) -> Any:
    """Returns the docstring of a model in a directory's ``hubconf.py``; raises as :func:`list`."""
    return _entry(_hubconf("help", github, source), model).__doc__


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls ``model`` of the ``hubconf.py`` in the directory ``repo_or_dir``; this runs its code.

    Raises:
        NotImplementedError: ``source`` is not "local": hub does not download.
        RuntimeError: there is no such model.
    """
    return _entry(_hubconf("load", repo_or_dir, source), model)(*args, **kwargs)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Raises NotImplementedError: hub does not download."""
    raise _absent.refused(f"hub.download_url_to_file({url!r})", "hub")


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> dict[str, Any]:
    """Loads the file that ``url`` names from ``model_dir``, ``get_dir()/checkpoints`` by default.

    Raises:
        NotImplementedError: the file does not exist; the message says where to put it.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(path):
        raise _absent.refused(f"hub.load_state_dict_from_url(): {path!r} is not there", "hub")
    from cograd.serialization import load

    state: dict[str, Any] = load(path, map_location=map_location, weights_only=weights_only)
    return state


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "tqdm":  # imported only when accessed
            try:
                from tqdm import tqdm
            except ImportError:
                return _Faketqdm
            return tqdm
        raise _absent.missing(__name__, name)
