# SPDX-License-Identifier: BSD-3-Clause
"""Every module of the rows and every op of the table with an ONNX counterpart, by onnxruntime."""

import re
from pathlib import Path

import nn_rows
import pytest
from onnx_runs import Call, compare, tensors_in
from op_table import OPS, TABLE, arguments, samples_of, tree_map

import cograd as torch
from cograd.onnx.errors import SymbolicValueError, UnsupportedOperatorError

# Modules that have no counterpart.
ABSENT = re.compile(r"nn\.FractionalMaxPool|nn\.AdaptiveMaxPool1d\(3, return|label_smoothing")


def narrow(value):
    """Returns a tensor in float32, which the runtime has every op for."""
    if isinstance(value, torch.Tensor) and value.dtype == torch.float64:
        return value.detach().float()
    return value.detach() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("row", nn_rows.ROWS)
@pytest.mark.filterwarnings("ignore")
def test_modules(row):
    rng, names = nn_rows.makers(torch, row)
    constructor, inputs = (part.strip() for part in row.split("|"))
    module = eval(constructor, dict(names)).float().eval()
    args = tuple(narrow(a) for a in eval(f"[{inputs}]", dict(names)))
    if "Lazy" in constructor:
        module(*args)
    nn_rows.set_state(torch, module, rng)
    if ABSENT.search(row):
        with pytest.raises((SymbolicValueError, UnsupportedOperatorError)):
            torch.onnx.export(module, args)
        return
    compare(torch.onnx.export(module, args), module, args)


INTERNAL = {"_rnn", "_rnn_layer"}  # their samples return None, which no module does
RECORDS = [r for r in TABLE if r["kind"] != "random" and r["name"] not in INTERNAL]


def exported(record):
    """Compares the samples of an op; returns how many were converted."""
    count = 0
    try:
        function = OPS.function(record)
    except AttributeError:
        return 0
    for sample in samples_of(record):
        try:
            args, kwargs = tree_map(narrow, tuple(map(_list, arguments(record, sample))))
            wanted = tensors_in(function(*args, **kwargs))
        except Exception:  # the sample is for float64 alone
            continue
        given = tensors_in((args, kwargs))
        kinds = {t.dtype for t in (*wanted, *given)}
        if not wanted or any(k.is_complex or k is torch.bfloat16 for k in kinds):
            continue
        turns = []

        def call(*tensors, args=args, kwargs=kwargs, turns=turns):
            rest = iter(tensors)
            turns.append(1)
            now = tree_map(
                lambda v: next(rest) if isinstance(v, torch.Tensor) else v, (args, kwargs)
            )
            return function(*now[0], **now[1])

        try:
            program = torch.onnx.export(Call(call), tuple(given))
        except (SymbolicValueError, UnsupportedOperatorError) as error:
            assert record["name"] in str(error) or "(" in str(error)
            continue
        compare(program, Call(call), tuple(given))
        count += 1
    return count


def _list(value):
    return list(value) if isinstance(value, tuple) else dict(value)


@pytest.mark.filterwarnings("ignore")
def test_ops():
    counts = {record["name"]: exported(record) for record in RECORDS}
    assert sum(count > 0 for count in counts.values()) >= 275
    assert sum(counts.values()) >= 600


def test_page_lists_the_table():
    from cograd.onnx import _ops

    page = (Path(__file__).parents[2] / "docs" / "onnx.md").read_text()
    listed = re.findall(r"`(\w+)`", page.partition("<!-- ops -->")[2].partition("<!-- end -->")[0])
    assert sorted(listed) == sorted(name for name in _ops.OPS if not name.startswith("_"))
