# SPDX-License-Identifier: BSD-3-Clause
"""The page of the docs that tells how each op runs on a GPU is what the fake driver shows."""

import importlib.util
from pathlib import Path

import fakes
import op_coverage
import pytest

import cograd as torch

why = fakes.why_not()
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(why is not None, reason=str(why))
def test_ops_run_as_the_list_says():
    kept = op_coverage.kept()
    found = op_coverage.statuses()
    other = {
        name: (status, kept.get(name)) for name, status in found.items() if status != kept.get(name)
    }
    assert not other, f"(measured, listed): {other}; tests/cuda/op_coverage.py --update lists them"


def test_every_public_op_is_listed_and_has_calls():
    table = op_coverage.public(torch._C._op_table())
    names = {r["name"] for r in table}
    assert set(op_coverage.kept()) == names and set(op_coverage.kept().values()) == set(
        op_coverage.STATUSES
    )
    without = {
        n for n in names if all(r["samples"].startswith("none:") for r in table if r["name"] == n)
    }
    assert without <= set(op_coverage.CALLS)
    assert sum(s != "fallback" for s in op_coverage.kept().values()) >= 0.8 * len(names)


def test_the_page_is_up_to_date():
    path = ROOT / "tools" / "gpu_ops_page.py"
    if not path.exists():
        pytest.skip("not run from a source checkout")
    spec = importlib.util.spec_from_file_location("gpu_ops_page", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.PAGE.read_text() == tool.page(), "tools/gpu_ops_page.py rewrites it"
