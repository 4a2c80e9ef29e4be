# SPDX-License-Identifier: BSD-3-Clause
"""Contains ``errors``."""

from cograd.distributed.elastic.multiprocessing import errors

__all__ = ["errors"]
