# SPDX-License-Identifier: BSD-3-Clause
"""Names of torch that programs compare with and that nothing here is or has."""

from __future__ import annotations

from typing import Any

from cograd import _absent

__all__ = ["SymBool", "SymFloat", "SymInt", "complex32"]


class _Symbol:
    def __init__(self, *args: Any) -> None:
        raise _absent.refused(type(self).__name__, "fx")


class SymInt(_Symbol):
    """What a size would be an instance of while a graph is captured: nothing is."""


class SymFloat(_Symbol):
    """What a number would be an instance of while a graph is captured: nothing is."""


class SymBool(_Symbol):
    """What a condition would be an instance of while a graph is captured: nothing is."""


class _Complex32:
    """A dtype that no tensor has. Functions that take a dtype refuse it with a TypeError."""

    is_complex = True
    is_floating_point = False
    is_signed = True
    itemsize = 4

    def __repr__(self) -> str:
        return "torch.complex32"


complex32 = _Complex32()
