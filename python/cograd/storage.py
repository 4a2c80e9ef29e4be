# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/faces.toml: change those.
"""The memory behind tensors: ``UntypedStorage`` in bytes, ``TypedStorage`` in elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cograd._base import absent as _absent
from cograd._C import UntypedStorage
from cograd._tensor.storage import TypedStorage

__all__ = [
    "TypedStorage",
    "UntypedStorage",
]

if not TYPE_CHECKING:  # type checkers would accept every name
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING, annotations
