# SPDX-License-Identifier: BSD-3-Clause
"""Traces of 66 functions and modules: code, graph, table and values are torch's."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RECORD = HERE.parent / "recorded" / "fx_traces.json"

# torch names some functions by the private modules in which its C++ has them.
HOMES = {
    r"torch\._C\._linalg\.linalg_": "torch.linalg.",
    r"torch\._C\._nn\.gelu": "torch.nn.functional.gelu",
}


def public(value):
    """Returns a recorded text with the names under which programs know the functions."""
    if isinstance(value, str):
        for private, name in HOMES.items():
            value = re.sub(private, name, value)
    return value


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    file = tmp_path_factory.mktemp("fx") / "shown.json"
    command = [sys.executable, "-m", "cograd", "run", str(HERE / "fx_cases.py"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text())


RECORDED = json.loads(RECORD.read_text())


def test_every_case_is_recorded(shown):
    assert shown.keys() == RECORDED.keys() and len(shown) > 60


@pytest.mark.parametrize("name", RECORDED)
def test_trace(shown, name):
    want, got = RECORDED[name], shown[name]
    assert got.keys() == want.keys()
    for part in want.keys() - {"value"}:
        assert got[part] == public(want[part]), part
    if "value" in want:
        close(got["value"], want["value"])


def close(got, want):
    """Compares nested numbers; torch rounds differently in the last places."""
    if isinstance(want, list):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            close(one, other)
    elif isinstance(want, dict):
        assert got.keys() == want.keys()
        for key in want:
            close(got[key], want[key])
    elif isinstance(want, float) and want == want:
        assert got == pytest.approx(want, rel=2e-3, abs=1e-5)
    else:
        assert got == want or (got != got and want != want)
