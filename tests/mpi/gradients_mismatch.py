# SPDX-License-Identifier: BSD-3-Clause
"""Rank 1 does not use one of two results, so its backward leaves that adjoint out.

The adjoint of the other one looks the same: without debug mode, MPI would match the two.
"""

import sys
from datetime import timedelta

import cograd as torch
import cograd.distributed as dist
from cograd.distributed.nn import functional as F

dist.init_process_group("mpi", timeout=timedelta(seconds=10))
x = torch.ones(3, requires_grad=True)
first = F.all_reduce(x)
second = F.all_reduce(x * 2)
try:
    ((first + second) if dist.get_rank() == 0 else first).sum().backward()
except dist.DistBackendError as error:
    print(f"rank {dist.get_rank()} saw a mismatch: {error}", flush=True)
    sys.exit(1)
