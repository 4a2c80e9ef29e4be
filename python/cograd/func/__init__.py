# SPDX-License-Identifier: BSD-3-Clause
"""Functions of functions: derivatives and batches that nest in any order."""

from cograd.func.vmap import vmap

__all__ = ["vmap"]
