# SPDX-License-Identifier: BSD-3-Clause
"""The model of data-parallel steps in benchmarks/scaling."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks" / "scaling").is_dir(), reason="not run from a source checkout"
)
MIB = 1 << 20


@pytest.fixture
def model(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    for name in [n for n in sys.modules if n.startswith("benchmarks.scaling")]:
        monkeypatch.delitem(sys.modules, name)
    import benchmarks.scaling.model

    return benchmarks.scaling.model


def test_sums(model):
    net = model.Network(alpha=1e-3, beta=1e-9, gamma=0.0)
    assert model.sum_time(8e6, 1, net) == 0
    assert model.sum_time(8e6, 2, net) == pytest.approx(2e-3 + 8e-3)
    assert model.sum_time(8e6, 4, net) == pytest.approx(4e-3 + 12e-3)
    ring = model.Network(alpha=1e-3, beta=1e-9, gamma=0.0, algorithm="ring")
    assert model.sum_time(8e6, 4, ring) == pytest.approx(6e-3 + 12e-3)


def test_fit_finds_what_the_times_were_made_of(model):
    net = model.Network(alpha=5e-6, beta=1 / 7e9, gamma=0.0)
    times = [(n, model.sum_time(n, 4, net)) for n in (1 << 10, 1 << 16, 1 << 20, 1 << 26)]
    found = model.fit(times, 4)
    assert found.alpha == pytest.approx(5e-6, rel=1e-6)
    assert found.beta == pytest.approx(1 / 7e9, rel=1e-6)


def test_buckets(model):
    gradients = [(1.0, MIB // 2), (2.0, MIB), (3.0, 10 * MIB), (4.0, 30 * MIB), (5.0, 7)]
    assert model.buckets(gradients, 25 * MIB) == [
        (2.0, 3 * MIB // 2),
        (3.0, 10 * MIB),
        (4.0, 30 * MIB),
        (5.0, 7),
    ]


def test_steps(model):
    """Computed by hand: buckets at 0.1 s (takes 0.3 s) and 0.2 s, backward of 0.5 s."""
    profile = model.Profile(0.2, 0.5, 0.1, [(0.1, 2 * MIB), (0.2, 2 * MIB)])
    free = model.Network(alpha=0.0, beta=0.3 / (2 * MIB), gamma=0.0, busy=0.0)
    step = model.predict(profile, 2, free, cap=MIB)
    assert step.communication == pytest.approx(0.6)
    assert step.exposed == pytest.approx(0.2)
    assert step.hidden == pytest.approx(2 / 3)
    assert step.seconds == pytest.approx(0.8 + 0.2)
    own = model.Network(alpha=0.0, beta=0.3 / (2 * MIB), gamma=0.0, busy=1.0)
    assert model.predict(profile, 2, own, cap=MIB).seconds == pytest.approx(0.8 + 0.6)
    assert model.predict(profile, 1, own).seconds == pytest.approx(0.8)
    assert model.predict(profile.scaled(4), 2, free, cap=MIB).hidden == pytest.approx(1.0)


def test_many_ranks(model):
    profile = model.Profile(
        0.03, 0.06, 0.01, [(0.01 * k, 8 * MIB) for k in range(1, 7)], jitter=0.01
    )
    for network in model.NETWORKS.values():
        seconds = [model.predict(profile, 2**k, network).seconds for k in range(3, 13)]
        assert seconds == sorted(seconds)
        assert seconds[0] > profile.total
