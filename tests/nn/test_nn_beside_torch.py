# SPDX-License-Identifier: BSD-3-Clause
"""Modules agree with torch's: with an installed torch, else with recorded values."""

import re
from functools import cache
from pathlib import Path

import nn_rows
import numpy as np
import pytest
import reference
from test_nn_sequence_beside_torch import CASES

import cograd

RECORDS = Path(__file__).parents[1] / "nn_rows.npz"
# Containers and base classes, which compute nothing themselves; and CrossMapLRN2d, whose gradient
# in torch is not that of its values (see tests/ops/test_conv.py).
WITHOUT_VALUES = {
    "CrossMapLRN2d",
    "Module",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "RNNBase",
    "RNNCellBase",
    "SyncBatchNorm",  # torch supports it only on GPUs; another test compares it with BatchNorm
}


@cache
def recorded():
    found = {}
    with np.load(RECORDS) as f:
        for i, name in enumerate(f["names"]):
            row, _, what = str(name).partition(" # ")
            found.setdefault(row, {})[what] = f[f"a{i}"]
    return found


def expected(row):
    if reference.is_installed():
        import torch

        return nn_rows.evaluate(torch, row)
    return recorded()[row]


def test_every_module_is_compared():
    named = {name for row in nn_rows.ROWS for name in re.findall(r"nn\.(\w+)", row)}
    named |= {type(make(cograd)).__name__ for make, _, _ in CASES.values()}
    modules = {
        name
        for name in dir(cograd.nn)
        if isinstance(getattr(cograd.nn, name), type)
        and issubclass(getattr(cograd.nn, name), cograd.nn.Module)
    }
    assert modules - named == WITHOUT_VALUES
    rows = recorded()
    for row in nn_rows.ROWS:
        assert {"result 0", "repr"} <= rows[row].keys()


@pytest.mark.parametrize("row", nn_rows.ROWS)
def test_same_as_torch(row):
    want, got = expected(row), nn_rows.evaluate(cograd, row)
    tolerance = 1e-7 if "Hardsigmoid" in row else 1e-9  # torch's 1 / 6 has single precision
    assert list(got) == list(want)
    for name, value in want.items():
        if name == "repr":
            assert str(got[name]) == str(value)
            continue
        assert got[name].dtype == value.dtype, name
        np.testing.assert_allclose(got[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.skipif(
    not reference.is_installed(), reason="needs torch, whose modules read the state"
)
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
