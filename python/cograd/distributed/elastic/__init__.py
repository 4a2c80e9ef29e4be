# SPDX-License-Identifier: BSD-3-Clause
"""Modules that programs written for torchrun import; here mpiexec starts and ends the ranks."""

from cograd.distributed.elastic import multiprocessing

__all__ = ["multiprocessing"]
