# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/faces.toml: change those.
"""Names of torch.distributed.tensor for isinstance checks: nothing is sharded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cograd._base import absent as _absent

__all__ = [
    "DTensor",
]


class DTensor:
    """The class of a tensor with parts on several ranks; it has no instances."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise _absent.refused("distributed.tensor.DTensor", "distributed")


if not TYPE_CHECKING:  # type checkers would accept every name
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING, annotations
