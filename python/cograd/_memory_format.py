# SPDX-License-Identifier: BSD-3-Clause
"""The types of ``memory_format`` and ``layout`` arguments: names, as the core takes them."""

from cograd import _C

__all__ = ["layout", "memory_format"]


class _Named(str):
    __slots__ = ()

    def __str__(self) -> str:
        return f"{_C._public_name()}.{self.rpartition('.')[2]}"

    __repr__ = __str__

    def __reduce__(self) -> str:
        """The name in the namespace: copies and pickles give the same object."""
        return self.rpartition(".")[2]


class memory_format(_Named):
    """In which order the dims of a tensor lie in memory."""

    __module__ = "cograd"
    __slots__ = ()


class layout(_Named):
    """How a tensor keeps its elements; ``strided`` is the only one."""

    __module__ = "cograd"
    __slots__ = ()
