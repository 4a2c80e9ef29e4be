# SPDX-License-Identifier: BSD-3-Clause
"""Creates the named tuple classes that ops with several results return."""

from __future__ import annotations

import functools
from collections import namedtuple
from typing import Any

import cograd


@functools.cache
def make(op: str, fields: str) -> Any:
    """Returns a named tuple class for the results of ``op``; ``fields`` is "values, indices"."""
    names = [name.strip() for name in fields.split(",")]
    made = namedtuple(op, names, module="cograd.return_types")  # type: ignore[misc]
    plain = made.__new__

    def new(cls: Any, *values: Any, **named: Any) -> Any:
        # torch's classes accept one sequence; torch's pickles pass a dict after it.
        if values and isinstance(values[0], (list, tuple)):
            values, named = tuple(values[0]), {}
        return plain(cls, *values, **named)

    made.__new__ = new  # type: ignore[assignment, method-assign]
    made.__repr__ = _repr  # type: ignore[method-assign]
    made.__reduce__ = _reduce  # type: ignore[method-assign]
    made._spec = (op, fields)  # type: ignore[attr-defined]
    made.n_fields = made.n_sequence_fields = len(names)  # type: ignore[attr-defined]
    made.n_unnamed_fields = 0  # type: ignore[attr-defined]
    return made


def _repr(self: Any) -> str:
    lines = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    # Under the alias, the package has torch's name, as tensors' dtypes do.
    return f"{cograd.__name__}.return_types.{type(self).__name__}(\n{lines})"


def _reduce(self: Any) -> Any:
    return _rebuild, (*self._spec, tuple(self))


def _rebuild(op: str, fields: str, values: tuple[Any, ...]) -> Any:
    return make(op, fields)(*values)
