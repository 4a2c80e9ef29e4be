# SPDX-License-Identifier: BSD-3-Clause
"""Every op on the fake device, whose memory only kernels may touch: the bits of the CPU.

An op that reads or writes memory by itself faults there, so each part runs in a process of its own.
The ops run once by the kernels of the device, and once by the fallback: on copies on the host.
The first sample of each op runs in all ways; in the nightly tests every sample does.
tests/cuda/test_cuda_ops.py runs the same checks on CUDA.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from op_table import OPS, TABLE, arguments, call, is_float, results, samples_of, tree_map

import cograd as torch

PARTS = 8
DEVICE = "fake"
# Ops that return something of the device itself, or of its memory.
LEFT_OUT = {"empty_like", "new_empty", "new_empty_strided", "_to_device", "cpu"}
# Vectors with any sign or phase: tests/cuda/test_cuda_linalg.py checks what does not depend on it.
LEFT_OUT_ON_CUDA = {"linalg_eigh"}
RUN = """
import sys
sys.path[:0] = sys.argv[1].split(":")
import test_fake_ops
test_fake_ops.run_part(int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
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


def array(t):
    t = t.detach().cpu().contiguous()
    return (t.view(torch.int16) if t.dtype is torch.bfloat16 else t).numpy()


# CUDA's functions and sums round in other places than the CPU's.
TOLERANCES = {"float64": 1e-11, "complex128": 1e-11, "float32": 2e-5, "complex64": 2e-5}


def same(a, b, exact):
    if a is None or b is None:
        return a is b
    if DEVICE == "cuda":
        if a.dtype == np.float16:
            return np.allclose(a.astype(float), b.astype(float), 4e-3, 4e-3, equal_nan=True)
        tolerance = TOLERANCES.get(a.dtype.name, 0)
        return a.shape == b.shape and np.allclose(a, b, tolerance, tolerance, equal_nan=True)
    return a.tobytes() == b.tobytes() if exact else np.allclose(a, b, 1e-13, 1e-15, equal_nan=True)


def strides(t):
    """Returns the strides that matter: a copy may change those of dims of one element."""
    return [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] if t.numel() else []


def outcome(f, *args):
    """Returns the result of a call, or its error."""
    try:
        return f(*args)
    except (RuntimeError, NotImplementedError, ValueError) as e:
        return type(e), str(e)


def leaves_of(args, kwargs):
    """Makes the floating tensors require grad, and returns these."""
    leaves = []

    def need(t):
        if is_float(t) and not t.requires_grad:
            t.requires_grad_()
        if t.requires_grad:
            leaves.append(t)
        return t

    tree_map(need, (args, kwargs))
    return leaves


def sum_of(found):
    outs = [r for r in tensors(found) if is_float(r) and r.requires_grad]
    return [(torch.view_as_real(o) if o.is_complex() else o).sum() for o in outs]


def all_arrays(found):
    return [None if t is None else array(t) for t in found]


def gradients(f, args, kwargs):
    """Returns the gradients of the sum of all results."""
    leaves = leaves_of(args, kwargs)
    sums = sum_of(call(f, args, kwargs))
    if not sums or not leaves:
        return []
    return all_arrays(torch.autograd.grad(sums, leaves, allow_unused=True))


def second_derivatives(f, args, kwargs):
    leaves = leaves_of(args, kwargs)
    sums = sum_of(call(f, args, kwargs))
    if not sums or not leaves:
        return []
    first = torch.autograd.grad(sums, leaves, allow_unused=True, create_graph=True)
    sums = sum_of([g.cos() for g in first if g is not None])
    return all_arrays(torch.autograd.grad(sums, leaves, allow_unused=True)) if sums else []


def tangents(f, args, kwargs):
    """Returns the results and their tangents, for a tangent in each argument."""
    with torch.autograd.forward_ad.dual_level():

        def dual(t):
            return torch.autograd.forward_ad.make_dual(t, t.cos()) if is_float(t) else t

        found = tensors(call(f, *tree_map(dual, (args, kwargs))))
        pairs = [torch.autograd.forward_ad.unpack_dual(r) for r in found]
    return all_arrays([p.primal for p in pairs] + [p.tangent for p in pairs])


def batch(f, args, kwargs):
    """Returns the results for two samples in the first argument."""
    if not args or not isinstance(args[0], torch.Tensor):
        return []
    two = torch.stack([args[0], args[0].flip(0) if args[0].dim() else args[0]])
    found = torch.vmap(lambda x: call(f, (x, *args[1:]), kwargs), randomness="same")(two)
    return all_arrays(tensors(found))


def in_place(f, args, kwargs):
    """Returns the tensor that the in-place form writes, and of the gradients."""
    leaves = leaves_of(args, kwargs)
    target = args[0].clone()
    call(f, (target, *args[1:]), kwargs)
    sums = sum_of(target)
    grads = torch.autograd.grad(sums, leaves, allow_unused=True) if sums else []
    return all_arrays([target, *grads])


def into_out(f, args, kwargs):
    with torch.no_grad():
        found = call(f, args, kwargs)
        out = tree_map(torch.empty_like, tuple(found) if isinstance(found, tuple) else found)
        call(f, args, kwargs | {"out": out})
    return all_arrays(tensors(out))


def ways_of(record):
    """Yields a name, a check and the function of each way to call the op."""
    f = OPS.function(record)
    if record["kind"] == "random":
        return
    if record["differentiable"]:
        yield "gradients", gradients, f
        yield "second derivatives", second_derivatives, f
        yield "tangents", tangents, f
    yield "vmap", batch, f
    if record["inplace"]:
        yield "in place", in_place, lambda x, *a, **k: getattr(x, record["name"] + "_")(*a, **k)
    if record["out"] and record["function"]:
        yield "out=", into_out, f


def check(record, sample):
    f = OPS.function(record)
    torch.manual_seed(1)
    wanted = call(f, *arguments(record, sample))
    args, kwargs = on(DEVICE, arguments(record, sample))
    if any(a["name"] == "device" for a in record["args"]) and record["kind"] != "cast":
        kwargs["device"] = DEVICE
    torch.manual_seed(1)
    found = call(f, args, kwargs)
    if isinstance(wanted, (bool, int, float)):
        assert found == wanted
        return
    for w, g in zip(tensors(wanted), tensors(found), strict=True):
        assert g.device.type == DEVICE, "a result is on the CPU"
        assert (g.shape, g.dtype, strides(g)) == (w.shape, w.dtype, strides(w))
        assert same(array(g), array(w), True), "other bits"


def check_ways(record, sample, names, mode):
    for name, way, f in ways_of(record):
        if names and name not in names:
            continue
        wanted = outcome(way, f, *arguments(record, sample))
        found = outcome(way, f, *on(DEVICE, arguments(record, sample)))
        if isinstance(wanted, tuple) or isinstance(found, tuple):  # a text may name the device
            assert wanted[:1] == found[:1], f"{name}: {found[:2]}, on the CPU {wanted[:2]}"
            continue
        # The copies of the fallback are nodes, so the engine adds gradients in another order.
        exact = mode == "kernels" or way in (batch, in_place, into_out)
        for w, g in zip(wanted, found, strict=True):
            assert same(w, g, exact), f"{name}: other than on the CPU: {g}, {w}"


def run_part(part, parts, mode, everything=""):
    """Checks every `parts`-th record; names each before it starts, in case it ends the process."""
    global DEVICE
    DEVICE = "cuda" if mode == "cuda" else "fake"
    if mode != "kernels":
        torch._C._set_fallback("silent")
        torch._C._force_fallback(mode == "fallback")
    for record in TABLE[part::parts]:
        if record["name"] in LEFT_OUT | (LEFT_OUT_ON_CUDA if mode == "cuda" else set()):
            continue
        for i, sample in enumerate(samples_of(record)):
            print(f"at {record['name']}({sample})", flush=True)
            try:
                if i == 0 or everything or mode == "kernels":
                    check(record, sample)
                    check_ways(record, sample, () if i == 0 or everything else ("gradients",), mode)
            except Exception as e:
                print(f"failed {record['name']}({sample}): {type(e).__name__}: {e}", flush=True)
    print("fell back " + " ".join(torch._C._fallbacks()))


def run_parts(part, *options, variables=None):
    """Runs a part in a process of its own; returns the ops that fell back to the CPU."""
    here = os.path.dirname(__file__)
    paths = f"{here}:{os.path.dirname(here)}"
    done = subprocess.run(
        [sys.executable, "-c", RUN, paths, str(part), str(PARTS), *options],
        env=variables or os.environ | {"COGRAD_FAKE_DEVICE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    lines = done.stdout.splitlines()
    failed = [line for line in lines if line.startswith("failed ")]
    assert done.returncode == 0, f"ended {lines[-1:]} {done.stderr[-2000:]}"
    assert not failed, "\n".join(failed)
    return set(lines[-1].split()[2:])


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("mode", ["kernels", "fallback"])
def test_ops_have_the_cpus_bits(mode, part):
    run_parts(part, mode)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("mode", ["kernels", "fallback"])
def test_every_sample_has_the_cpus_bits(mode, part):
    run_parts(part, mode, "everything")
