# SPDX-License-Identifier: BSD-3-Clause
"""Progress of long work is shown on a terminal, after a second, and nowhere else."""

import importlib.util
import io
import subprocess
import sys

import pytest

import cograd as torch
from cograd._base import progress as _progress
from cograd._base.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Lets time pass only when the test says so."""
    now = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    return now


def drive(clock):
    with Progress("work", 8) as progress:
        progress.update(1, "early")
        clock[0] += 2
        progress.update(3, "part")
        clock[0] += 0.1
        progress.update(4, "too soon")


def test_a_line_without_tqdm(clock, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    drive(clock)
    assert sys.stderr.getvalue() == "\r\033[Kwork: 3/8 done, 2 s (part)\r\033[K"


@pytest.mark.skipif(importlib.util.find_spec("tqdm") is None, reason="tqdm is not installed")
def test_a_bar_of_tqdm(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    drive(clock)
    text = sys.stderr.getvalue()
    assert "work" in text and "3/8" in text and "part" in text and "soon" not in text
    assert text.rstrip().endswith("\r") or text.endswith("\r")


@pytest.mark.parametrize("stderr", [io.StringIO(), None])
def test_silence_elsewhere(clock, monkeypatch, stderr):
    monkeypatch.setattr(sys, "stderr", stderr)
    drive(clock)
    assert stderr is None or stderr.getvalue() == ""


def test_gradcheck_shows_how_far_it_is(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(_progress, "_DELAY", 0.0)
    monkeypatch.setattr(_progress, "_INTERVAL", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(torch.sin, (x,))
    text = sys.stderr.getvalue()
    assert "gradcheck: numerical: 2/3 done" in text and "gradcheck: analytical: 1/3" in text
    assert text.endswith("\r\033[K")


def test_nothing_is_imported_for_it():
    code = "import cograd, sys; assert 'tqdm' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
