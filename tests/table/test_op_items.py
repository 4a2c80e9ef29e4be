# SPDX-License-Identifier: BSD-3-Clause
"""The items of op_items.py: a planted failure is reported with its op, sample and dtype, beside all
others, and --sample runs it alone; second proofs are left out."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from op_items import Case, Selection, each_cell, each_sample
from op_table import TABLE, samples_of

import cograd as torch

TESTS = Path(__file__).resolve().parents[1]

PLANTED = '''
from op_checks import check_forward, forward_dtypes
from op_items import each_sample
from op_table import Ops, TABLE, samples_of
import cograd as torch
import pytest


@pytest.mark.nightly
def test_second_proof():
    assert False


class Wrong(Ops):
    """add is off by one in float32 from the second sample on; cumsum is right."""

    def function(self, record):
        right = super().function(record)
        if record["name"] != "add":
            return right

        def add(a, b, **kwargs):
            got = right(a, b, **kwargs)
            return got + (got.dtype is torch.float32 and tuple(got.shape) != (3, 4))

        return add


CASES = [(r, s) for r in TABLE if r["name"] in ("add", "cumsum") for s in samples_of(r)]


@each_sample(CASES, dtypes=forward_dtypes)
def test_forward(record, sample, dtype):
    check_forward(record, sample, Wrong(), [dtype])
'''


def run(folder, *options):
    file = folder / "test_planted.py"
    file.write_text(PLANTED)
    paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "conftest"]
        + ["-c", os.devnull, f"--rootdir={folder}", *options, str(file)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
        timeout=120,
    )
    return done.stdout + done.stderr


def test_all_failures_of_an_item_are_named_and_run_again(tmp_path):
    whole = run(tmp_path)
    assert re.search(r"^1 failed, 1 passed, 1 deselected", whole, re.M), whole
    head = re.search(r"(\d+) of (\d+) failed", whole)
    # Where CI is set, pytest repeats a failure's whole text in its summary.
    text = whole.partition("short test summary info")[0]
    again = re.findall(r"again: python -m pytest '(\S+)' --sample '(add:\d+:float32)'", text)
    assert head and len(again) == int(head[1]) < int(head[2]) and len(again) >= 2, whole
    assert "float64" not in "".join(sample for _, sample in again)
    assert all(item.endswith("::test_forward[add]") for item, _ in again)
    assert "\nadd(T(3), 2.5) in cograd.float32\n" in whole

    alone = run(tmp_path, "--sample", again[-1][1])
    assert re.search(r"^1 failed, 2 deselected", alone, re.M), alone
    assert "again:" not in alone and "def test_forward(record" in alone, alone
    right = run(tmp_path, "--sample", again[-1][1].replace("float32", "float64"))
    assert re.search(r"^1 passed, 2 deselected", right, re.M), right


@pytest.mark.parametrize("text", ["add", "add:1", "add:1:float32", "::float32", ":1"])
def test_parts_of_a_selection(text):
    (add, *_), (sub, *_) = ([r for r in TABLE if r["name"] == n] for n in ("add", "sub"))
    sample = [samples_of(r)[1] for r in (add, sub)]
    one = Case({"record": add, "sample": sample[0], "dtype": torch.float32})
    other = Case({"record": sub, "sample": samples_of(sub)[0], "dtype": torch.float64})
    assert str(one) == "add:1:float32"
    assert Selection(text).has(one) and not Selection(text).has(other)
    assert Selection().has(other)


def test_all_cells_of_a_table_run():
    seen = []

    @each_cell("dtype", [torch.int32, torch.int64])
    @each_cell("a,b", [(1, 2), (3, 4), (5, 5)])
    def table(a, b, dtype, extra):
        seen.append((a, b))
        if b == 2:
            pytest.skip("no such cell")
        assert (a != b and extra) or dtype is torch.int64

    assert list(inspect.signature(table).parameters) == ["extra"]
    with pytest.raises(pytest.fail.Exception) as failure:
        table(extra=True)
    assert len(seen) == 6
    text = str(failure.value)
    assert text.startswith("1 of 6 failed") and "int32-5-5\n" in text and "int64-5-5" not in text
    assert "--sample 'int32-5-5'" in text and "assert ((5 != 5)" in text
    with pytest.raises(pytest.skip.Exception, match="no such cell"):
        each_cell("b", [2])(lambda b: pytest.skip("no such cell"))()


def test_a_check_that_says_nothing_of_any_sample_fails():
    cases = [(r, s) for r in TABLE if r["name"] == "add" for s in samples_of(r)]

    @each_sample(cases)
    def item(record, sample):
        return False

    (param,) = item.pytestmark[0].args[1]
    with pytest.raises(pytest.fail.Exception, match="no sample exercises the check"):
        item(*param.values)
