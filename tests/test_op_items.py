# SPDX-License-Identifier: BSD-3-Clause
"""The items of op_items.py: a planted failure is reported with its op, sample and dtype, beside all
others, and --sample runs it alone."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from op_items import Selection

TESTS = Path(__file__).resolve().parent

PLANTED = '''
from op_checks import check_forward, forward_dtypes
from op_items import each_sample
from op_table import Ops, TABLE, samples_of
import cograd as torch


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
    assert re.search(r"^1 failed, 1 passed", whole, re.M), whole
    head = re.search(r"(\d+) of (\d+) samples failed", whole)
    again = re.findall(r"again: python -m pytest '(\S+)' --sample '(add:\d+:float32)'", whole)
    assert head and len(again) == int(head[1]) < int(head[2]) and len(again) >= 2, whole
    assert "float64" not in "".join(sample for _, sample in again)
    assert all(item.endswith("::test_forward[add]") for item, _ in again)
    assert "\nadd(T(3), 2.5) in cograd.float32\n" in whole

    alone = run(tmp_path, "--sample", again[-1][1])
    assert re.search(r"^1 failed, 1 deselected", alone, re.M), alone
    assert "samples failed" not in alone and "def test_forward(record" in alone, alone
    right = run(tmp_path, "--sample", again[-1][1].replace("float32", "float64"))
    assert re.search(r"^1 passed, 1 deselected", right, re.M), right


@pytest.mark.parametrize("text", ["add", "add:1", "add:1:float32", "::float32", ":1"])
def test_parts_of_a_selection(text):
    class Case:
        op, index, dtype = "add", 1, "float32"

    class Other:
        op, index, dtype = "sub", 2, "float64"

    chosen = Selection(*text.split(":"))
    assert chosen.has(Case) and not chosen.has(Other)
