# SPDX-License-Identifier: BSD-3-Clause
"""The named tuple types of results: ``return_types.max`` is the type of ``max(x, dim)``."""

from typing import Any

from cograd import _C
from cograd._return_types import make as _make

_FIELDS = {"histogram": "hist, bin_edges", "histogramdd": "hist, bin_edges",
           "linalg_lstsq": "solution, residuals, rank, singular_values"}  # fmt: skip
for _row in _C._op_table():
    if _row["returns"] and not _row["returns"].startswith("out,"):  # torch has no such types
        _FIELDS[_row["name"]] = _row["returns"]

all_return_types: list[Any] = [_make(name, fields) for name, fields in sorted(_FIELDS.items())]
globals().update({kind.__name__: kind for kind in all_return_types})
__all__ = ["all_return_types", *sorted(_FIELDS)]
