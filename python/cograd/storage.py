# SPDX-License-Identifier: BSD-3-Clause
"""The memory behind tensors: ``UntypedStorage`` in bytes, ``TypedStorage`` in elements."""

from typing import TYPE_CHECKING

from cograd._base import absent as _absent
from cograd._C import UntypedStorage
from cograd._tensor.storage import TypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]

if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING
