# SPDX-License-Identifier: BSD-3-Clause
"""Helpers for tests: assert_close, make_tensor, and check, which audits an operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cograd._base import absent as _absent

from ._comparison import assert_allclose, assert_close
from ._creation import make_tensor

if TYPE_CHECKING:
    from ._check import CheckError, CheckReport, CheckResult, check

__all__ = [
    "CheckError",
    "CheckReport",
    "CheckResult",
    "assert_allclose",
    "assert_close",
    "check",
    "make_tensor",
]

_LAZY = {
    "check": "_check",
    "CheckError": "_check",
    "CheckReport": "_check",
    "CheckResult": "_check",
}


if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise _absent.missing(__name__, name)
        from importlib import import_module

        value = getattr(import_module(f"cograd.testing.{_LAZY[name]}"), name)
        globals()[name] = value
        return value


if not TYPE_CHECKING:
    del TYPE_CHECKING, Any, annotations
