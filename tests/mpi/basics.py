# SPDX-License-Identifier: BSD-3-Clause
"""Checks of collectives."""

import sys

import checks

import cograd as torch
import cograd.distributed as dist


def check_all_reduce():
    n, r = dist.get_world_size(), dist.get_rank()
    x = torch.full((3,), r + 1.0)
    assert dist.all_reduce(x) is None
    assert x.tolist() == [n * (n + 1) / 2] * 3
    work = dist.all_reduce(x, dist.ReduceOp.MAX, async_op=True)
    assert work.wait() and work.is_completed()


checks.run(globals(), sys.argv[1:])
