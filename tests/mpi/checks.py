# SPDX-License-Identifier: BSD-3-Clause
"""Runs the functions `check_*` of a program on every rank, each in turn.

A failing check is printed with its rank; the ranks then leave together with code 1. A check ends
with a barrier, so that none disturbs the next.
"""

import sys
import time
import traceback
from datetime import timedelta

import cograd as torch
import cograd.distributed as dist


def run(names, only=(), timeout=30):
    """Calls the checks in `names` (a module's globals) on all ranks; `only`: names of some."""
    dist.init_process_group("mpi", timeout=timedelta(seconds=timeout))
    failed = 0
    for name, check in list(names.items()):
        if not name.startswith("check_") or (only and name not in only):
            continue
        torch.manual_seed(7)
        began = time.monotonic()
        try:
            check()
            torch.set_grad_enabled(True)
        except BaseException:
            failed = 1
            print(f"{name} failed on rank {dist.get_rank()}", file=sys.stderr)
            traceback.print_exc()
            sys.stderr.flush()
            raise SystemExit(1) from None  # the others are told, see cograd.distributed
        dist.barrier()
        if dist.get_rank() == 0:
            print(f"{name} {time.monotonic() - began:.2f} s", flush=True)
    dist.destroy_process_group()
    sys.exit(failed)
