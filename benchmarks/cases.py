# SPDX-License-Identifier: BSD-3-Clause
"""Imports every file of benchmarks, in the order of the table."""

from __future__ import annotations


def load() -> None:
    """Fills the registry of `case`; the order of the imports is that of the table."""
    from . import small, graph, function, library, extension  # noqa: F401, I001
    from . import complex_numbers, fourier, numbers, transforms, kernels, sparse  # noqa: F401
    from . import layers, layers_sequence, optim, data  # noqa: F401
    from . import package, parallel, saved  # noqa: F401
