# SPDX-License-Identifier: BSD-3-Clause
"""What programs written for torchrun import; mpiexec starts and ends the ranks here."""

from cograd.distributed.elastic import multiprocessing

__all__ = ["multiprocessing"]
