# SPDX-License-Identifier: BSD-3-Clause
"""Helpers around the engine."""

from __future__ import annotations

from typing import Any

from cograd.utils import dlpack, hooks

__all__ = ["cmake_prefix_path", "cpp_extension", "dlpack", "hooks"]

cmake_prefix_path: str


def __getattr__(name: str) -> Any:
    if name == "cpp_extension":
        from importlib import import_module

        return import_module("cograd.utils.cpp_extension")
    if name == "cmake_prefix_path":
        from cograd.utils.cpp_extension import _paths

        return _paths.cmake_prefix_path()
    raise AttributeError(f"module 'cograd.utils' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
