# SPDX-License-Identifier: BSD-3-Clause
"""Every op on the fake device, whose memory only kernels may touch: the bits of the CPU.

An op that reads or writes memory by itself faults there, so each part runs in a process of its own.
"""

import os
import subprocess
import sys

import pytest
from op_table import OPS, TABLE, arguments, call, is_float, results, samples_of, tree_map

import cograd as torch

PARTS = 8
# Ops that return something of the device itself, or of its memory.
LEFT_OUT = {"empty_like", "new_empty", "new_empty_strided", "_to_device", "cpu"}
RUN = """
import sys
sys.path[:0] = sys.argv[1].split(":")
import test_fake_ops
test_fake_ops.run_part(int(sys.argv[2]), int(sys.argv[3]))
"""


def on(device, tree):
    moved = {}

    def move(t):
        if id(t) not in moved:
            leaf = t.detach().to(device)
            moved[id(t)] = leaf.requires_grad_(t.requires_grad)
        return moved[id(t)]

    return tree_map(move, tree)


def tensors(found):
    return [r for r in results(found) if isinstance(r, torch.Tensor)]


def bits(t):
    t = t.detach().cpu().contiguous()
    return (t.view(torch.int16) if t.dtype is torch.bfloat16 else t).numpy().tobytes()


def outcome(f, *args):
    """Returns the result of a call, or its error."""
    try:
        return f(*args)
    except (RuntimeError, NotImplementedError) as e:
        return type(e), str(e)


def gradients(f, args, kwargs, device):
    """Returns the bits of the gradients of the sum of all results."""
    args, kwargs = on(device, (args, kwargs))
    leaves = []

    def need(t):
        if is_float(t) and not t.requires_grad:
            t.requires_grad_()
        if t.requires_grad:
            leaves.append(t)
        return t

    tree_map(need, (args, kwargs))
    outs = [r for r in tensors(call(f, args, kwargs)) if is_float(r) and r.requires_grad]
    if not outs or not leaves:
        return []
    sums = [(torch.view_as_real(o) if o.is_complex() else o).sum() for o in outs]
    got = torch.autograd.grad(sums, leaves, allow_unused=True)
    return [None if g is None else bits(g) for g in got]


def check(record, sample):
    f = OPS.function(record)
    torch.manual_seed(1)
    wanted = call(f, *arguments(record, sample))
    args, kwargs = on("fake", arguments(record, sample))
    if any(a["name"] == "device" for a in record["args"]) and record["kind"] != "cast":
        kwargs["device"] = "fake"
    torch.manual_seed(1)
    found = call(f, args, kwargs)
    if isinstance(wanted, (bool, int, float)):
        assert found == wanted
        return
    for w, g in zip(tensors(wanted), tensors(found), strict=True):
        assert g.device.type == "fake", "a result is on the CPU"
        assert (g.shape, g.dtype, g.stride()) == (w.shape, w.dtype, w.stride())
        assert bits(g) == bits(w), "other bits"
    if record["differentiable"] and record["kind"] != "random":
        args, kwargs = arguments(record, sample)
        found = outcome(gradients, f, args, kwargs, "fake")
        assert found == outcome(gradients, f, args, kwargs, "cpu"), f"other gradients: {found}"


def run_part(part, parts):
    """Checks every `parts`-th record; names each before it starts, in case it ends the process."""
    for record in TABLE[part::parts]:
        if record["name"] in LEFT_OUT:
            continue
        for sample in samples_of(record):
            print(f"at {record['name']}({sample})", flush=True)
            try:
                check(record, sample)
            except Exception as e:
                print(f"failed {record['name']}({sample}): {type(e).__name__}: {e}", flush=True)


@pytest.mark.parametrize("part", range(PARTS))
def test_ops_have_the_cpus_bits(part):
    here = os.path.dirname(__file__)
    paths = f"{here}:{os.path.dirname(here)}"
    done = subprocess.run(
        [sys.executable, "-c", RUN, paths, str(part), str(PARTS)],
        env=os.environ | {"COGRAD_FAKE_DEVICE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    lines = done.stdout.splitlines()
    failed = [line for line in lines if line.startswith("failed ")]
    assert done.returncode == 0, f"ended {lines[-1:]} {done.stderr[-2000:]}"
    assert not failed, "\n".join(failed)
