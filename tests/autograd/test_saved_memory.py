# SPDX-License-Identifier: BSD-3-Clause
"""The list of saved tensors, and the budget that moves them to disk."""

import gc

import pytest
from conftest import leaf

import cograd as torch
from cograd.autograd import Function
from cograd.autograd.graph import saved_memory, saved_tensor_budget

pytestmark = [
    pytest.mark.beyond_torch,
    pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled"),
]


@pytest.fixture(autouse=True)
def nothing_left():
    gc.collect()
    yield
    gc.collect()


def nodes(records):
    return sorted(f"{r.node}.{r.slot}" for r in records)


# --- saved_memory ------------------------------------------------------------------------------


def test_lists_what_graphs_keep():
    assert saved_memory() == []
    x = torch.ones(100, requires_grad=True)
    w = torch.ones(100, requires_grad=True)
    y = x * w
    z = y.exp()
    memory = saved_memory()
    assert nodes(memory) == ["ExpBackward0.result", "MulBackward0.other", "MulBackward0.self"]
    assert memory.total_bytes == 3 * 400
    record = next(r for r in memory if r.node == "ExpBackward0")
    assert (record.shape, record.dtype, record.bytes) == ((100,), torch.float32, 400)
    z.sum().backward()
    assert saved_memory() == []


def test_shared_memory_is_counted_once():
    x = torch.ones(1000, requires_grad=True)
    y = x * x
    memory = saved_memory()
    assert len(memory) == 2
    assert memory.total_bytes == 4000
    assert [r.shared for r in memory] == [False, True]
    a, b = torch.ones(10, 100, requires_grad=True), torch.ones(100)
    del y
    z = a.t() * b[:10]
    assert saved_memory().total_bytes <= 4000 + 400
    assert z.requires_grad


def test_functions_hooks_and_lines():
    class Keep(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x * 2)
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return g

    x = torch.ones(10, requires_grad=True)
    with torch.autograd.detect_anomaly():
        y = Keep.apply(x)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        z = x.exp()
    memory = saved_memory()
    assert sum(r.node == "KeepBackward" for r in memory) == 2
    assert all("test_saved_memory.py:" in r.made_at for r in memory if r.node == "KeepBackward")
    assert [r.packed for r in memory if r.node == "ExpBackward0"] == [True]
    assert memory.total_bytes == 3 * 40
    assert "KeepBackward" in str(memory) and "120 bytes" in str(memory)
    assert y.requires_grad and z.requires_grad


# --- the budget --------------------------------------------------------------------------------


def network(x, w):
    y = x
    for i in range(6):
        y = torch.tanh(y @ w) * y.t().contiguous().t() + torch.softmax(y, 1)
        y = y[:, : y.shape[1]].exp().log() + i
    return (y * y).mean()


def run(budget=None, **options):
    torch.manual_seed(0)
    x = torch.randn(50, 50, requires_grad=True)
    w = torch.randn(50, 50, requires_grad=True)
    if budget is None:
        network(x, w).backward()
        return x.grad, w.grad, None
    with saved_tensor_budget(budget, **options) as _, saved_budget_probe() as probe:
        loss = network(x, w)
    loss.backward()
    return x.grad, w.grad, probe


class saved_budget_probe:
    def __enter__(self):
        return self

    def __exit__(self, *exc):
        memory = saved_memory()
        self.resident, self.spilled = memory.total_bytes, memory.spilled_bytes


@pytest.mark.parametrize("budget", [0, 10_000, "64KiB", "1 MB"])
def test_gradients_are_bit_identical(budget, tmp_path):
    plain = run()
    capped = run(budget, directory=str(tmp_path))
    for a, b in zip(plain[:2], capped[:2], strict=True):
        assert bool((a == b).all())


def test_the_cap_holds_and_the_rest_is_on_disk():
    _, _, probe = run(30_000)
    leaves = 2 * 50 * 50 * 4  # the inputs' own memory cannot be freed
    assert probe.resident <= 30_000 + leaves
    assert probe.spilled > 0
    _, _, probe = run("1GiB")
    assert probe.spilled == 0


def test_the_oldest_go_first():
    x = torch.ones(1000, requires_grad=True)
    budget = saved_tensor_budget(10_000)
    with budget:
        a = (x * 1).exp()
        b = a.exp()
        c = b.exp()
        d = c.exp()
    spilled = [r for r in saved_memory() if r.spilled]
    assert len(spilled) == 2
    last = max(r.sequence_nr for r in spilled)
    assert all(r.sequence_nr > last for r in saved_memory() if not r.spilled and r.packed)
    assert budget.spilled_bytes == 8000
    assert budget.resident_bytes == 8000
    d.sum().backward()
    del a, b, c, d
    assert budget.resident_bytes == 0


def test_space_on_disk_is_used_again():
    x = torch.ones(3000, requires_grad=True)
    budget = saved_tensor_budget(0)
    for _ in range(5):
        with budget:
            y = (x * 1).exp().exp()
        y.sum().backward()
        end = budget._file._end
    assert end <= 3 * 16384


def test_retained_graph_and_second_order():
    x = leaf([[0.5, 0.25], [1.0, 2.0]])
    y = (x * 1).exp() @ x
    expected = torch.autograd.grad(y.sum(), x, create_graph=True)[0]
    expected2 = torch.autograd.grad((expected**2).sum(), x)[0]
    with saved_tensor_budget(0):
        y = (x * 1).exp() @ x
        for _ in range(3):
            (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            (g2,) = torch.autograd.grad((g**2).sum(), x, retain_graph=True)
    assert bool((g == expected).all()) and bool((g2 == expected2).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_every_dtype(dtype):
    x = torch.ones(40, dtype=dtype, requires_grad=True)
    with saved_tensor_budget(0):
        y = (x * 2).exp()
    y.sum().backward()
    assert bool((x.grad == 2 * y.detach()).all())


def test_writes_in_place_are_still_errors():
    x = torch.ones(100, requires_grad=True)
    y = x * 2
    with saved_tensor_budget("1MB"):
        z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_a_full_disk_is_an_error_and_harms_nothing(monkeypatch):
    import errno
    import os

    import cograd.autograd._memory as memory

    x = torch.ones(5000, requires_grad=True)
    real = os.pwrite
    room = [30_000]

    def pwrite(fd, data, offset):
        if len(data) > room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room[0] -= len(data)
        return real(fd, data, offset)

    monkeypatch.setattr(memory.os, "pwrite", pwrite)
    with saved_tensor_budget(0):
        y = (x * 1).exp()
        with pytest.raises(
            RuntimeError, match="could not spill 20000 bytes to disk .No space left"
        ):
            y.exp()
    y.sum().backward()
    assert bool((x.grad == y.detach()).all())


@pytest.mark.parametrize("bad", ["two", "5 parsecs", "-1MB", -5])
def test_sizes_that_make_no_sense(bad):
    with pytest.raises(ValueError, match="saved_tensor_budget"):
        saved_tensor_budget(bad)


def test_ways_to_spill():
    with pytest.raises(NotImplementedError, match="checkpoint"):
        saved_tensor_budget("1GiB", spill="recompute")
    with pytest.raises(ValueError, match='must be "disk"'):
        saved_tensor_budget("1GiB", spill="cloud")


_PAGES = 1 << 16


class Weighted(Function):
    """Returns a saved tensor unchanged as the gradient."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0], None


def test_spilled_values_outlive_their_entry():
    x = torch.ones(_PAGES, requires_grad=True)
    budget = saved_tensor_budget(0)

    def step(v):
        with budget:
            s = Weighted.apply(x, torch.full((_PAGES,), v)).sum()
        return torch.autograd.grad(s, x)[0]

    first = step(3.0)
    gc.collect()
    second = step(77.0)
    assert first[_PAGES // 2].item() == 3 and second[_PAGES // 2].item() == 77


def test_double_backward_of_spilled_values():
    x = torch.ones(_PAGES, requires_grad=True)
    budget = saved_tensor_budget(0)

    def penalty(scale):
        with budget:
            h = x * scale
            y = (h * h * h).sum()
        return torch.autograd.grad(y, x, create_graph=True)[0]

    first = penalty(2.0)
    gc.collect()
    penalty(5.0)
    second = torch.autograd.grad(first.sum(), x)[0]
    assert second[_PAGES // 2].item() == 6 * 8


def test_a_written_tensor_does_not_stop_other_saves():
    x = torch.rand(1000, requires_grad=True)
    with saved_tensor_budget(8000):
        h = x * 2
        q = h * h
        h.add_(1)
        for _ in range(4):
            (x * 2).exp().sum().backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        q.sum().backward()


@pytest.mark.parametrize("name", ["sigmoid_", "exp_", "tanh_", "relu_", "sqrt_"])
@pytest.mark.parametrize("budget", [0, "1GiB"])
def test_inplace_ops_that_save_their_result_under_a_budget(name, budget):
    x = torch.tensor([0.25, 1.0], requires_grad=True)
    y = x * 2
    getattr(y, name)()
    y.sum().backward()
    want = x.grad
    x.grad = None
    with saved_tensor_budget(budget):
        y = x * 2
        getattr(y, name)()
    y.sum().backward()
    assert torch.equal(x.grad, want)
