# SPDX-License-Identifier: BSD-3-Clause
"""Functions over the counting ops of the core whose arguments the op table cannot express."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cograd import _C
from cograd._C import Tensor
from cograd._return_types import make

__all__ = ["histogram"]


_Histogram = make("histogram", "hist, bin_edges")


def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Counts of ``input`` (any shape, floating) in bins, and the edges of the bins.

    ``bins`` is their number, equal between the two ends of ``range`` (default: those of the data),
    or a 1-d tensor of ascending edges of input's dtype; the last bin is closed. ``weight`` (input's
    shape and dtype) counts for each element; ``density`` divides so that the integral over the bins
    is 1. Returns ``hist`` (bins,) and ``bin_edges`` (bins + 1,) of input's dtype. Raises
    RuntimeError for a range that is not finite or not ascending.
    """
    if isinstance(bins, Tensor):
        if range is not None:
            raise TypeError("histogram(): range is not allowed when bins is a tensor of edges")
        edges = bins
        hist = _C._ops._histogram_edges(input, edges, weight)
    else:
        low, high = (None, None) if range is None else (float(range[0]), float(range[1]))
        hist, edges = _C._ops._histogram_uniform(input, bins, low, high, weight)
    if density:
        hist = hist / (hist.sum() * (edges[1:] - edges[:-1]))
    return _Histogram(hist, edges)


def _method(
    self: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """See :func:`cograd.histogram`."""
    return histogram(self, bins, range=range, weight=weight, density=density)


Tensor.histogram = _method  # type: ignore[method-assign]
