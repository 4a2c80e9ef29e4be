# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/faces.toml: change those.
"""vmap under the path that older programs import."""

from __future__ import annotations

from cograd._transforms.vmap import _vmap, vmap

__all__ = [
    "_vmap",
    "vmap",
]
