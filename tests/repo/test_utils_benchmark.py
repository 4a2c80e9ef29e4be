# SPDX-License-Identifier: BSD-3-Clause
"""utils.benchmark.Timer and utils.collect_env."""

import subprocess
import sys

import pytest

import cograd as torch
from cograd.utils import benchmark, collect_env


class Clock:
    """Seconds that advance by 1 each time they are read."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        self.now += 1
        return self.now


def test_timeit():
    counts = []
    t = benchmark.Timer("counts.append(1)", globals={"counts": counts}, timer=Clock())
    m = t.timeit(200)
    assert len(counts) == 202 and m.number_per_run == 200 and m.raw_times == [1]
    assert m.median == m.mean == m.times[0] == 1 / 200 and m.iqr == 0
    assert "1 measurement, 200 runs" in repr(m) and "5.00 ms" in repr(m)


def test_autoranges():
    seen = []
    t = benchmark.Timer("x + 1", "x = torch.ones(4)", label="add", sub_label="4", description="d")
    m = t.blocked_autorange(lambda n, s: seen.append((n, s)), min_run_time=0.05)
    assert sum(m.raw_times) >= 0.05 and [s for _, s in seen] == m.raw_times
    assert len(m.times) > 1 and 0 < m.median < 1e-3 and m.iqr >= 0
    assert "add: 4\nd\nsetup: x = torch.ones(4)\n  Median:" in repr(m)
    assert t.adaptive_autorange(threshold=10).median > 0
    slow = benchmark.Timer("time.sleep(0.02)", "import time").blocked_autorange(min_run_time=0.01)
    assert slow.number_per_run == 1


def test_quartiles():
    spec = benchmark.TaskSpec("x")
    m = benchmark.Measurement(2, [2.0, 4.0, 6.0, 8.0, 10.0], spec)
    assert m.times == [1, 2, 3, 4, 5] and m.median == 3 and m.iqr == 2


def test_threads():
    before = torch.get_num_threads()
    seen = []
    code = "seen.append(torch.get_num_threads())"
    benchmark.Timer(code, globals={"seen": seen}, num_threads=3).timeit(4)
    assert set(seen) == {3} and torch.get_num_threads() == before
    with pytest.raises(ZeroDivisionError):
        benchmark.Timer("1 / 0", num_threads=3).timeit(4)
    assert torch.get_num_threads() == before


def test_global_setup_and_units():
    assert benchmark.Timer("f()", global_setup="def f(): pass").timeit(3).number_per_run == 3
    assert benchmark.select_unit(2) == ("s", 1) and benchmark.select_unit(3e-9)[0] == "ns"


def test_collect_env(monkeypatch):
    monkeypatch.setenv("COGRAD_NUM_THREADS", "7")
    info = collect_env.get_env_info()
    assert info.cograd_version == torch.__version__ and info.variables["COGRAD_NUM_THREADS"] == "7"
    text = subprocess.check_output(
        [sys.executable, "-m", "cograd.utils.collect_env"], text=True, timeout=60
    )
    assert f"cograd: {torch.__version__}" in text and "7 threads" in text
