# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers: seeds, generator state, thread independence and distributions."""

import math

import numpy as np
import pytest

import cograd as torch

F8 = torch.float64
N = 20000

SAMPLERS = {
    "rand": lambda g: torch.rand(1000, generator=g),
    "randn": lambda g: torch.randn(1000, generator=g),
    "rand64": lambda g: torch.rand(1000, dtype=F8, generator=g),
    "randn64": lambda g: torch.randn(1000, dtype=F8, generator=g),
    "randint": lambda g: torch.randint(0, 100, (1000,), generator=g),
    "randperm": lambda g: torch.randperm(1000, generator=g),
    "uniform_": lambda g: torch.empty(1000).uniform_(-1, 1, generator=g),
    "normal_": lambda g: torch.empty(1000).normal_(1, 2, generator=g),
    "normal": lambda g: torch.normal(0.0, 1.0, (1000,), generator=g),
    "bernoulli_": lambda g: torch.empty(1000).bernoulli_(0.3, generator=g),
    "bernoulli": lambda g: torch.bernoulli(torch.full((1000,), 0.3), generator=g),
    "random_": lambda g: torch.empty(1000, dtype=torch.int64).random_(0, 50, generator=g),
    "exponential_": lambda g: torch.empty(1000).exponential_(2.0, generator=g),
    "multinomial": lambda g: torch.multinomial(torch.ones(10), 1000, replacement=True, generator=g),
}


def ks_distance(sample, cdf):
    """Returns the largest distance between the sample's distribution function and `cdf`."""
    x = np.sort(sample.double().reshape(-1).numpy())
    n = len(x)
    f = np.array([cdf(v) for v in x])
    return max(np.abs(f - np.arange(n) / n).max(), np.abs(f - np.arange(1, n + 1) / n).max())


def normal_cdf(v):
    return 0.5 * (1 + math.erf(v / math.sqrt(2)))


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(1234)


@pytest.fixture
def threads():
    n = torch.get_num_threads()
    yield
    torch.set_num_threads(n)


# ---------------------------------------------------------------- seeds and state


@pytest.mark.parametrize("name", SAMPLERS)
def test_manual_seed_repeats(name):
    f = SAMPLERS[name]
    torch.manual_seed(7)
    a, b = f(None), f(None)
    torch.manual_seed(7)
    assert torch.equal(f(None), a) and torch.equal(f(None), b)
    assert not torch.equal(a, b), "the stream moves on"
    torch.manual_seed(8)
    assert not torch.equal(f(None), a)


@pytest.mark.parametrize("name", SAMPLERS)
def test_own_generator(name):
    f = SAMPLERS[name]
    g = torch.Generator()
    g.manual_seed(7)
    before = torch.get_rng_state()
    a = f(g)
    assert torch.equal(before, torch.get_rng_state()), "the default generator is not touched"
    assert torch.equal(f(torch.Generator().manual_seed(7)), a)
    torch.manual_seed(7)
    assert torch.equal(f(None), a), "a generator and the default one give the same stream"


@pytest.mark.parametrize("name", SAMPLERS)
def test_state_round_trip(name):
    f = SAMPLERS[name]
    torch.rand(3)
    state = torch.get_rng_state()
    a, b = f(None), f(None)
    torch.set_rng_state(state)
    assert torch.equal(f(None), a) and torch.equal(f(None), b)
    g = torch.Generator().manual_seed(3)
    f(g)
    state = g.get_state()
    c = f(g)
    h = torch.Generator()
    h.set_state(state)
    assert torch.equal(f(h), c)


def test_state_is_a_byte_tensor():
    state = torch.get_rng_state()
    assert state.dtype is torch.uint8 and state.ndim == 1
    copy = state.clone()
    torch.rand(10)
    assert torch.equal(state, copy), "a state that was taken does not change"
    with pytest.raises((TypeError, RuntimeError)):
        torch.set_rng_state(torch.zeros(3))
    with pytest.raises((TypeError, RuntimeError)):
        torch.set_rng_state("state")
    with pytest.raises(RuntimeError):
        torch.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_generator_attributes():
    g = torch.Generator()
    assert g.manual_seed(5) is g and g.initial_seed() == 5
    assert g.device == torch.device("cpu")
    assert isinstance(g.seed(), int) and g.initial_seed() != 5
    assert isinstance(torch.default_generator, torch.Generator)
    assert torch.manual_seed(9) is torch.default_generator and torch.initial_seed() == 9
    assert torch.Generator(device="cpu").manual_seed(1).initial_seed() == 1
    assert isinstance(torch.seed(), int)


def test_seed_arguments():
    for seed in (0, 2**63 - 1, -1, 2**40):
        torch.manual_seed(seed)
        torch.rand(1)
    with pytest.raises((ValueError, RuntimeError, OverflowError)):
        torch.manual_seed(2**65)
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        torch.manual_seed("seed")


def test_nearby_seeds_are_unrelated():
    rows = []
    for seed in range(64):
        torch.manual_seed(seed)
        rows.append(torch.rand(64, dtype=F8))
    m = torch.stack(rows).numpy()
    corr = np.corrcoef(m) - np.eye(64)
    assert np.abs(corr).max() < 0.65
    assert abs(m[:, 0].mean() - 0.5) < 0.15


def test_fork_rng():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        torch.rand(5)
    a = torch.rand(3)
    torch.manual_seed(1234)
    assert torch.equal(torch.rand(3), a)


@pytest.mark.parametrize(
    "name", ["rand", "randn", "randint", "randperm", "uniform_", "normal_", "bernoulli_"]
)
def test_same_numbers_for_every_thread_count(name, threads):
    big = {
        "rand": lambda: torch.rand(300000),
        "randn": lambda: torch.randn(300000),
        "randint": lambda: torch.randint(0, 1000, (300000,)),
        "randperm": lambda: torch.randperm(100000),
        "uniform_": lambda: torch.empty(300, 1000, dtype=F8).uniform_(),
        "normal_": lambda: torch.empty(300, 1000, dtype=F8).normal_(),
        "bernoulli_": lambda: torch.empty(300000).bernoulli_(0.5),
    }[name]
    results = []
    for n in (1, 2, 4):
        torch.set_num_threads(n)
        torch.manual_seed(42)
        results.append((big(), torch.rand(3)))
    for r, after in results[1:]:
        assert torch.equal(r, results[0][0]) and torch.equal(after, results[0][1])


def test_layout_does_not_change_the_stream():
    torch.manual_seed(0)
    a = torch.rand(6, 4)
    torch.manual_seed(0)
    b = torch.empty(24).uniform_().reshape(6, 4)
    assert torch.equal(a, b)


# ---------------------------------------------------------------- distributions


@pytest.mark.parametrize("dtype", [torch.float32, F8])
def test_rand_is_uniform(dtype):
    x = torch.rand(N, dtype=dtype)
    assert 0 <= x.min().item() and x.max().item() < 1
    assert ks_distance(x, lambda v: v) < 1.95 / math.sqrt(N)
    assert abs(np.corrcoef(x[:-1].numpy(), x[1:].numpy())[0, 1]) < 4 / math.sqrt(N)


@pytest.mark.parametrize("dtype", [torch.float32, F8])
def test_randn_is_normal(dtype):
    x = torch.randn(N, dtype=dtype)
    assert ks_distance(x, normal_cdf) < 1.95 / math.sqrt(N)
    y = x.double().numpy()
    assert abs((y**3).mean()) < 0.1 and abs((y**4).mean() - 3) < 0.25
    assert abs(np.corrcoef(y[:-1], y[1:])[0, 1]) < 4 / math.sqrt(N)
    assert np.isfinite(y).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_small_floats(dtype):
    u = torch.rand(N, dtype=dtype).double()
    assert 0 <= u.min().item() and u.max().item() < 1 and abs(u.mean().item() - 0.5) < 0.02
    n = torch.randn(N, dtype=dtype).double()
    assert abs(n.mean().item()) < 0.03 and abs(n.std().item() - 1) < 0.03


def test_uniform_range():
    x = torch.empty(N, dtype=F8).uniform_(-3, 5)
    assert ks_distance(x, lambda v: (v + 3) / 8) < 1.95 / math.sqrt(N)
    assert torch.empty(3).uniform_(2, 2).tolist() == [2, 2, 2]
    assert torch.empty(0).uniform_().shape == (0,)


def test_normal_parameters():
    x = torch.empty(N, dtype=F8).normal_(3, 0.5)
    assert ks_distance((x - 3) / 0.5, normal_cdf) < 1.95 / math.sqrt(N)
    y = torch.normal(torch.tensor([0.0, 100.0]).repeat(N // 2, 1), 1.0)
    assert abs(y[:, 1].mean().item() - 100) < 0.1 and abs(y[:, 0].mean().item()) < 0.1
    z = torch.normal(0.0, torch.tensor([1.0, 10.0]).repeat(N // 2, 1))
    assert abs(z[:, 1].std().item() - 10) < 0.5
    assert torch.normal(torch.zeros(2, 3), torch.ones(3)).shape == (2, 3)
    assert torch.normal(0.0, 1.0, size=(2, 3)).shape == (2, 3)


def test_exponential_and_bernoulli():
    x = torch.empty(N, dtype=F8).exponential_(2.0)
    assert ks_distance(x, lambda v: 1 - math.exp(-2 * v)) < 1.95 / math.sqrt(N)
    b = torch.bernoulli(torch.full((N,), 0.3))
    assert set(b.unique().tolist()) == {0, 1} and abs(b.mean().item() - 0.3) < 0.02
    assert torch.bernoulli(torch.tensor([0.0, 1.0])).tolist() == [0, 1]
    for p in (0.0, 1.0):
        assert torch.empty(5).bernoulli_(p).tolist() == [p] * 5


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float32])
def test_randint_covers_its_range(dtype):
    x = torch.randint(3, 13, (N,), dtype=dtype)
    assert x.dtype is dtype and set(x.tolist()) == set(range(3, 13))
    counts = np.bincount(x.long().numpy() - 3)
    expected = N / 10
    assert ((counts - expected) ** 2 / expected).sum() < 35, "chi-square with 9 degrees of freedom"


def test_randint_forms():
    assert torch.randint(5, (2, 3)).shape == (2, 3)
    assert torch.randint(high=5, size=(2,)).dtype is torch.int64
    assert torch.randint(-5, 0, (100,)).max().item() < 0
    assert torch.randint(-(2**62), 2**62, (50,)).abs().max().item() > 2**55
    assert torch.randint_like(torch.zeros(4), 2, 3).tolist() == [2, 2, 2, 2]
    assert torch.randint_like(torch.zeros(4, dtype=torch.int64), 1).tolist() == [0] * 4
    for args in [(5, 5, (2,)), (5, 3, (2,)), (0, (2,))]:
        with pytest.raises(RuntimeError, match="'from' to be less than 'to'"):
            torch.randint(*args)
    with pytest.raises(RuntimeError):
        torch.randint(300, (2,), dtype=torch.uint8)
    with pytest.raises(TypeError):
        torch.randint(5)


def test_randperm():
    for n in (0, 1, 2, 17, 1000, 30000):
        p = torch.randperm(n)
        assert p.dtype is torch.int64 and torch.equal(p.sort()[0], torch.arange(n))
    assert torch.randperm(5, dtype=torch.int32).dtype is torch.int32
    first = np.bincount([torch.randperm(5)[0].item() for _ in range(2000)], minlength=5)
    assert ((first - 400) ** 2 / 400).sum() < 25
    with pytest.raises(RuntimeError):
        torch.randperm(-1)


def test_multinomial():
    p = torch.tensor([0.0, 1.0, 3.0])
    x = torch.multinomial(p, N, replacement=True)
    assert (x == 0).sum().item() == 0 and abs((x == 2).double().mean().item() - 0.75) < 0.02
    assert sorted(torch.multinomial(torch.ones(4), 4).tolist()) == [0, 1, 2, 3]
    assert torch.multinomial(torch.ones(2, 3), 2).shape == (2, 2)
    with pytest.raises(RuntimeError):
        torch.multinomial(torch.ones(3), 4)


def test_like_forms():
    t = torch.zeros(2, 3, dtype=F8)
    for f in (torch.rand_like, torch.randn_like):
        r = f(t)
        assert r.shape == (2, 3) and r.dtype is F8
        assert f(t, dtype=torch.float32).dtype is torch.float32
        assert f(t, requires_grad=True).requires_grad


def test_bad_arguments():
    for call in (
        lambda: torch.empty(2).uniform_(2, 1),
        lambda: torch.empty(2).normal_(0, -1),
        lambda: torch.normal(0.0, -1.0, (2, 3)),
        lambda: torch.empty(2).bernoulli_(1.5),
        lambda: torch.empty(2).exponential_(-1.0),
        lambda: torch.bernoulli(torch.tensor([1.5])),
        lambda: torch.rand(2, dtype=torch.int64),
        lambda: torch.randn(2, dtype=torch.int64),
        lambda: torch.rand(-1),
    ):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(TypeError):
        torch.rand(2, generator=5)


def test_random_bits_are_all_used():
    x = torch.rand(N, dtype=F8) * 2.0**24
    assert (x != x.floor()).double().mean().item() > 0.99, "float64 has more than 24 random bits"
    y = torch.rand(N) * 2.0**24
    assert torch.equal(y, y.floor()), "float32 has 24"
    assert np.unique(torch.rand(N).numpy()).size > N - 30
