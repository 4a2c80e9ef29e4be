# SPDX-License-Identifier: BSD-3-Clause
"""Every op on the meta device: the shape, dtype and strides of the CPU's results, without data."""

from op_items import each_sample
from op_table import OPS, TABLE, arguments, call, results, samples_of, tree_map

import cograd as torch

CASES = [(r, s) for r in TABLE for s in samples_of(r) if r["name"] != "cpu"]
# Ops whose results have shapes that depend on values, and those that return a bool, raise and
# say so. All others compute.
BY_VALUES = set(
    "_index index_put masked_select nonzero argwhere nonzero_static where _one_hot bincount histc "
    "repeat_interleave unique unique_consecutive equal allclose".split()
)


def on_meta(tree):
    """Returns the arguments with their tensors on the meta device; one tensor stays one."""
    moved = {}

    def move(t):
        if id(t) not in moved:
            leaf = t.detach()
            there = torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device="meta")
            moved[id(t)] = there.requires_grad_(t.requires_grad)
        return moved[id(t)]

    return tree_map(move, tree)


def forms(value):
    return [
        (tuple(r.shape), r.dtype, r.stride()) if isinstance(r, torch.Tensor) else type(r)
        for r in results(value)
    ]


@each_sample(CASES)
def test_results_have_the_cpus_form(record, sample):
    f = OPS.function(record)
    args, kwargs = arguments(record, sample)
    meta_args, meta_kwargs = on_meta((args, kwargs))
    wanted = forms(call(f, args, kwargs))
    if any(a["name"] == "device" for a in record["args"]) and record["kind"] != "cast":
        meta_kwargs["device"] = "meta"
    try:
        found = call(f, meta_args, meta_kwargs)
    except NotImplementedError as e:
        assert "meta" in str(e), str(e)
        assert record["name"] in BY_VALUES, record["name"]
        return None
    assert forms(found) == wanted
    if not isinstance(found, bool):
        assert all(r.is_meta for r in results(found)), record["name"]
    return None
