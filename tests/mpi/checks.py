# SPDX-License-Identifier: BSD-3-Clause
"""Runs the functions `check_*` of a program on every rank, each in turn.

A failing check is printed with its rank; the ranks then leave together with code 1. A check ends
with a barrier, so that none disturbs the next.
"""

import contextlib
import sys
import time
import traceback
from datetime import timedelta

import cograd as torch
import cograd.distributed as dist


@contextlib.contextmanager
def raises(kind, text):
    """Fails unless the body raises an error of this type whose message has the text."""
    try:
        yield
    except kind as error:
        assert text in str(error), f"{text!r} is not in {error}"
        return
    raise AssertionError(f"no {kind.__name__} with {text!r}")


def run(names, only=(), timeout=30, backend="mpi"):
    """Calls the checks in `names` (the globals of a module) on all ranks; `only` selects some."""
    dist.init_process_group(backend, timeout=timedelta(seconds=timeout))
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
