# SPDX-License-Identifier: BSD-3-Clause
"""The types of ``memory_format`` and ``layout`` arguments: strings, as the core expects them."""

from typing import Any

from cograd import _C

__all__ = ["layout", "memory_format", "registered"]

# cograd.sparse registers functions here when it is imported, for the packages that it imports
# itself. The dict is empty as long as no program has used a sparse tensor.
registered: dict[str, Any] = {}


class _Named(str):
    __slots__ = ()

    def __str__(self) -> str:
        return f"{_C._public_name()}.{self.rpartition('.')[2]}"

    __repr__ = __str__

    def __reduce__(self) -> str:
        """Returns the name in the namespace, so that copies and pickles yield the same object."""
        return self.rpartition(".")[2]


class memory_format(_Named):
    """The order of a tensor's dims in memory."""

    __module__ = "cograd"
    __slots__ = ()


class layout(_Named):
    """How a tensor stores its elements; dense (``strided``) or sparse."""

    __module__ = "cograd"
    __slots__ = ()
