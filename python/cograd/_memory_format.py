# SPDX-License-Identifier: BSD-3-Clause
"""The type of ``memory_format`` arguments: a name, as the core takes it."""

__all__ = ["memory_format"]


class memory_format(str):
    """In which order the dims of a tensor lie in memory."""

    __module__ = "cograd"
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
