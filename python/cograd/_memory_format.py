# SPDX-License-Identifier: BSD-3-Clause
"""The types of ``memory_format`` and ``layout`` arguments: names, as the core takes them."""

from cograd import _C

__all__ = ["layout", "memory_format"]


class memory_format(str):
    """In which order the dims of a tensor lie in memory."""

    __module__ = "cograd"
    __slots__ = ()

    def __str__(self) -> str:
        return f"{_C._public_name()}.{self.rpartition('.')[2]}"

    __repr__ = __str__


class layout(str):
    """How a tensor keeps its elements; ``strided`` is the only one."""

    __module__ = "cograd"
    __slots__ = ()

    def __str__(self) -> str:
        return f"{_C._public_name()}.{self.rpartition('.')[2]}"

    __repr__ = __str__
