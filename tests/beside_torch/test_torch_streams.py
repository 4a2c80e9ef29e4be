# SPDX-License-Identifier: BSD-3-Clause
"""set_rng("torch"): the random numbers and generator states of torch 2.13 on a CPU."""

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch_streams
from reference import needed

import cograd as torch
from cograd.utils.checkpoint import checkpoint

RECORDED = json.loads((Path(__file__).parents[1] / "torch_streams.json").read_text())
NAMES = [*torch_streams.EXACT, *torch_streams.CLOSE]


@pytest.fixture(autouse=True)
def torch_stream():
    torch.set_rng("torch")
    yield
    torch.set_rng("philox")


def assert_near(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a == pytest.approx(b, rel=1e-6, abs=0)


@pytest.mark.parametrize("name", NAMES)
def test_recorded(name):
    got, want = torch_streams.record(torch, name), RECORDED[name]
    assert_near(got["values"], want["values"])
    assert got["digest"] == want["digest"]


@pytest.mark.parametrize("name", NAMES)
def test_beside_torch(name):
    reference = needed()
    (got, end), (want, other_end) = (torch_streams.draw(t, name) for t in (torch, reference))
    assert end == other_end
    if name in torch_streams.EXACT:
        assert got == want
    else:
        assert_near(got, want)


# ---------------------------------------------------------------- both streams


@pytest.mark.parametrize("rng", ["philox", "torch"])
def test_generators_and_states(rng):
    torch.set_rng(rng)
    assert torch.get_rng() == rng
    g = torch.Generator()
    assert g.initial_seed() == 67280421310721
    assert g.manual_seed(11) is g and g.initial_seed() == 11
    state = g.get_state()
    assert state.dtype is torch.uint8 and state.numel() == {"philox": 16, "torch": 5056}[rng]
    first = torch.randn(3, generator=g), torch.rand(5, generator=g)
    for other in (g.clone_state(), copy.deepcopy(g), pickle.loads(pickle.dumps(g))):
        assert torch.equal(
            torch.randn(7, generator=other), torch.randn(7, generator=g.clone_state())
        )
    g.set_state(state)
    assert torch.equal(torch.randn(3, generator=g), first[0])
    assert torch.equal(torch.rand(5, generator=g), first[1])
    assert g.seed() == g.initial_seed()


@pytest.mark.parametrize("rng", ["philox", "torch"])
def test_fork_rng_and_checkpoint(rng):
    torch.set_rng(rng)
    torch.manual_seed(5)
    torch.randn(3)  # leaves the second number of a pair
    with torch.random.fork_rng():
        inside = torch.randn(4)
        torch.manual_seed(9)
    assert torch.equal(torch.randn(4), inside)
    x = torch.ones(50, requires_grad=True)
    y = checkpoint(lambda v: torch.dropout(v, 0.5, True), x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_a_seed_starts_again_with_the_other_stream():
    torch.manual_seed(3)
    a = torch.rand(4)
    torch.set_rng("philox")
    assert torch.initial_seed() == 3
    b = torch.rand(4)
    assert not torch.equal(a, b)
    torch.set_rng("torch")
    assert torch.initial_seed() == 3 and torch.equal(torch.rand(4), a)
    torch.set_rng("torch")  # no change: the stream continues
    assert not torch.equal(torch.rand(4), a)


def test_a_state_brings_its_stream():
    own = torch.Generator().manual_seed(1)
    torch.set_rng("philox")
    g = torch.Generator().manual_seed(1)
    before = torch.rand(3, generator=own.clone_state())
    g.set_state(own.get_state())
    assert torch.equal(torch.rand(3, generator=g), before)


def test_wrong_states_are_refused():
    g = torch.Generator().manual_seed(2)
    state = g.get_state()
    for at, value in ((8, 0), (12, 0), (17, 9), (30, 1)):
        wrong = state.clone()
        wrong[at] = value
        with pytest.raises(RuntimeError, match="state"):
            g.set_state(wrong)
    with pytest.raises(RuntimeError, match="wrong size"):
        g.set_state(state[:100].contiguous())
    assert torch.equal(g.get_state(), state)
    with pytest.raises(ValueError, match="expected 'philox' or 'torch', got 'mt'"):
        torch.set_rng("mt")


def test_threads_do_not_change_the_numbers():
    n = torch.get_num_threads()
    try:
        drawn = []
        for threads in (1, 4):
            torch.set_num_threads(threads)
            torch.manual_seed(0)
            drawn.append((torch.randn(100_003), torch.rand(100_003), torch.randperm(1000)))
        assert all(torch.equal(a, b) for a, b in zip(*drawn, strict=True))
    finally:
        torch.set_num_threads(n)


def test_draws_from_threads_at_once():
    """The generator is locked while it generates; its holder never waits for the interpreter."""
    code = """
import threading, cograd
cograd.set_rng("torch")
def work():
    for _ in range(20):
        cograd.randn(60_000); cograd.rand(60_000); cograd.randperm(3000)
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print("done")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.stdout == "done\n", run.stderr


def test_vmap_draws():
    torch.manual_seed(4)
    want = torch.stack([torch.rand(3) for _ in range(4)])
    torch.manual_seed(4)
    got = torch.vmap(lambda x: x + torch.rand(3), randomness="different")(torch.zeros(4, 3))
    assert torch.equal(got, want)


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_fork_while_a_thread_draws():
    """In the child, no thread that does not exist holds the default generator's lock."""
    code = """
import os, threading, cograd
cograd.set_rng("torch")
stop = False
def work():
    while not stop: cograd.randn(300_000)
thread = threading.Thread(target=work); thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        cograd.manual_seed(1); cograd.rand(3)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop = True; thread.join()
print("done")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.stdout == "done\n", run.stderr


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_long_normal_fills_are_groups(dtype):
    """However a fill is divided, its groups of 16 are those of a shorter fill."""
    for n in (1024, 1040, 5000, 5007):
        torch.manual_seed(3)
        x = torch.randn(n, dtype=dtype)
        torch.manual_seed(3)
        short = torch.randn(1024, dtype=dtype)
        assert torch.equal(x[:992], short[:992])
        assert abs(x.double().mean().item()) < 0.2 and abs(x.double().std().item() - 1) < 0.1
