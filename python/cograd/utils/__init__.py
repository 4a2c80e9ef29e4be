# SPDX-License-Identifier: BSD-3-Clause
"""Utilities around the engine; the submodules are imported at first access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cograd._base import absent as _absent

if TYPE_CHECKING:
    from cograd.utils import (
        _pytree,  # noqa: F401
        benchmark,
        checkpoint,
        collect_env,
        cpp_extension,
        data,
        dlpack,
        hooks,
        model_zoo,
        tensorboard,
        weak,
    )

__all__ = [
    "benchmark",
    "checkpoint",
    "cmake_prefix_path",
    "collect_env",
    "cpp_extension",
    "data",
    "dlpack",
    "hooks",
    "model_zoo",
    "set_module",
    "tensorboard",
    "weak",
]

cmake_prefix_path: str


def set_module(obj: object, mod: str) -> None:
    """Sets the module that ``obj`` says it is from."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name == "cmake_prefix_path":
            from cograd.utils.cpp_extension import _paths

            return _paths.cmake_prefix_path()
        if name in __all__ or name in ("_contextlib", "_pytree"):
            return import_module(f"cograd.utils.{name}")
        raise _absent.missing(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if not TYPE_CHECKING:
    del TYPE_CHECKING, Any, annotations
