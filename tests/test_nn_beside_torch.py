# SPDX-License-Identifier: BSD-3-Clause
"""Modules give what torch's give: of torch itself where it is installed, else recorded."""

import importlib.util
from functools import cache
from pathlib import Path

import nn_rows
import numpy as np
import pytest

import cograd

RECORDS = Path(__file__).with_name("nn_rows.npz")
HAS_TORCH = importlib.util.find_spec("torch") is not None


@cache
def recorded():
    found = {}
    with np.load(RECORDS) as f:
        for i, name in enumerate(f["names"]):
            row, _, what = str(name).partition(" # ")
            found.setdefault(row, {})[what] = f[f"a{i}"]
    return found


def expected(row):
    if HAS_TORCH:
        import torch

        return nn_rows.evaluate(torch, row)
    if row not in recorded():
        pytest.skip("torch is not installed, and the row has no recorded values")
    return recorded()[row]


@pytest.mark.parametrize("row", nn_rows.ROWS)
def test_same_as_torch(row):
    want, got = expected(row), nn_rows.evaluate(cograd, row)
    assert list(got) == list(want)
    for name, value in want.items():
        if name == "repr":
            assert str(got[name]) == str(value)
            continue
        assert got[name].dtype == value.dtype, name
        np.testing.assert_allclose(got[name], value, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.skipif(not HAS_TORCH, reason="needs torch, whose modules read the state")
@pytest.mark.parametrize("row", nn_rows.ROWS)
def test_state_dicts_are_exchanged(row):
    import torch

    constructor = row.split("|")[0]
    if "Lazy" in constructor:
        pytest.skip("has no state before it is used")
    ours = eval(constructor, nn_rows.makers(cograd, row)[1])
    theirs = eval(constructor, nn_rows.makers(torch, row)[1])
    theirs.load_state_dict({k: torch.from_numpy(v.numpy()) for k, v in ours.state_dict().items()})
    ours.load_state_dict({k: cograd.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
