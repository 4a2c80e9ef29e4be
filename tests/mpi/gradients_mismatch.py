# SPDX-License-Identifier: BSD-3-Clause
"""Rank 1 does not use the result of a communication, so its backward leaves the adjoint out."""

import sys
from datetime import timedelta

import cograd as torch
import cograd.distributed as dist
from cograd.distributed.nn import functional as F

# The error names a line of this file.


dist.init_process_group("mpi", timeout=timedelta(seconds=10))
x = torch.ones(3, requires_grad=True)
z = x * 2
y = F.all_reduce(z)
try:
    if dist.get_rank() == 0:
        y.sum().backward()
    else:
        z.sum().backward()
        dist.all_reduce(torch.ones(1))
except dist.DistBackendError as error:
    print(f"rank {dist.get_rank()} saw a mismatch: {error}", flush=True)
    sys.exit(1)
