# SPDX-License-Identifier: BSD-3-Clause
"""For each op of the table, pack hooks see final values of saved tensors, and its formulas accept
equal values in any strides.
"""

import numpy as np
import pytest
from op_checks import constants_of, strided_copies
from op_items import each_sample
from op_table import (
    F8,
    OPS,
    TABLE,
    arguments,
    assert_same,
    call,
    is_float,
    plain,
    results,
    samples_of,
    tensors_in,
)

import cograd as torch
from cograd.autograd.graph import saved_tensors_hooks


def cases(keep=lambda record: True):
    return [
        pytest.param(r, s, id=f"{r['name']}({s})")
        for r in TABLE
        if r["differentiable"] and keep(r)
        for s in samples_of(r)
    ]


def fill_free_memory():
    """Fills the memory that small tensors get next, so that earlier values are not found."""
    for size in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128):
        hold = [torch.full((size,), 7e77, dtype=F8) for _ in range(16)]
        del hold


def shown_to_pack(run):
    """Returns the result of run(), and pairs of each saved tensor and its values at packing."""
    shown = []

    def pack(t):
        t = t.detach()
        shown.append((t, plain(t).copy()))
        return t

    fill_free_memory()
    with saved_tensors_hooks(pack, lambda t: t):
        result = run()
    return result, shown


def assert_final(run, label):
    result, shown = shown_to_pack(run)
    for i, (t, before) in enumerate(shown):
        assert np.array_equal(plain(t), before, equal_nan=is_float(t)), (
            f"{label}: saved tensor {i} of shape {tuple(t.shape)} is written after it was saved"
        )
    return result


def with_leaves(record, sample):
    """Returns (args, kwargs) whose float tensors require grad, and these tensors."""
    args, kwargs = arguments(record, sample)
    constants = constants_of(record, args)
    for t in tensors_in((args, kwargs)):
        if is_float(t) and id(t) not in constants:
            t.requires_grad_()
    return args, kwargs, [t for t in tensors_in((args, kwargs)) if t.requires_grad]


@each_sample(cases())
def test_what_is_saved_is_final(record, sample):
    args, kwargs, _ = with_leaves(record, sample)
    assert_final(lambda: call(OPS.function(record), args, kwargs), f"{record['name']}({sample})")


@each_sample(cases(lambda r: r["inplace"]))
def test_what_is_saved_in_place_is_final(record, sample):
    args, kwargs, _ = with_leaves(record, sample)
    first = args[0] if args else None
    if not isinstance(first, torch.Tensor) or first.dtype is not F8:
        pytest.skip("no target")
    want = call(OPS.function(record), args, kwargs)
    if want.shape != first.shape or want.dtype is not first.dtype:
        pytest.skip("the result is no target")
    target = first.clone()
    assert_final(
        lambda: call(OPS.inplace(record), (target, *args[1:]), kwargs),
        f"{record['name']}_({sample})",
    )


def gradients(record, sample, create_graph):
    """Returns the gradients for all float arguments, of results weighted with different numbers."""
    args, kwargs, leaves = with_leaves(record, sample)
    got = [r for r in results(call(OPS.function(record), args, kwargs)) if r.requires_grad]
    weights = [
        torch.linspace(1, 2, max(r.numel(), 1), dtype=r.dtype)[: r.numel()].reshape(r.shape)
        for r in got
    ]
    if not got or not leaves:
        return []
    found = torch.autograd.grad(got, leaves, weights, create_graph=create_graph, allow_unused=True)
    return [g.detach() for g in found if g is not None]


def in_layout(t, layout):
    """Returns equal values in another memory layout; t itself if it has no such form."""
    return (
        t.detach().contiguous()
        if layout == "contiguous"
        else dict(strided_copies(t)).get(layout, t)
    )


@each_sample(cases())
def test_saved_values_may_come_back_in_other_strides(record, sample):
    for create_graph in (False, True):
        want = gradients(record, sample, create_graph)
        for layout in ("contiguous", "spaced", "transposed"):
            with saved_tensors_hooks(lambda t, to=layout: in_layout(t, to), lambda t: t):
                got = gradients(record, sample, create_graph)
            label = f"{record['name']}({sample}) {layout}, create_graph={create_graph}"
            assert_same(got, want, label, rtol=1e-9)
