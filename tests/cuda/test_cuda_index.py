# SPDX-License-Identifier: BSD-3-Clause
"""Indexing, sorting, masks and random numbers on CUDA, for sizes that fill several blocks.

test_cuda_ops.py runs every op on small samples. Here results have the CPU's bits, also where
indices repeat: terms are added in the order of the index.
"""

import fakes
import pytest

why = None if fakes.REAL else fakes.why_not()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))

CHECK = """
import sys
sys.setrecursionlimit(10000)
torch.cuda.set_fallback("error")
torch.manual_seed(3)

def array(t):
    return t.contiguous().view(torch.uint8).reshape(-1) if t.numel() else t

def check(f, *args):
    wanted, found = f(*args), f(*[a.cuda() if isinstance(a, torch.Tensor) else a for a in args])
    wanted, found = [r if isinstance(r, (tuple, list)) else [r] for r in (wanted, found)]
    for w, g in zip(wanted, found, strict=True):
        assert g.is_cuda and (w.shape, w.dtype) == (g.shape, g.dtype)
        assert torch.equal(array(w), array(g.cpu())), (w, g)

def grad_of(f, x, *args):
    x = x.detach().requires_grad_()
    y = f(x, *args)
    w = (torch.arange(y.numel(), device=y.device) % 7).to(y.dtype).reshape(y.shape) + 0.125
    return torch.autograd.grad((y * w).sum(), x)[0]
"""


def test_rows_by_index_and_their_gradients():
    fakes.run(
        CHECK
        + """
x = torch.randn(40, 12)
i = torch.randint(0, 40, (300,))
for f in (lambda x, i: x[i], lambda x, i: x.index_select(0, i), torch.nn.functional.embedding):
    args = (i, x) if f is torch.nn.functional.embedding else (x, i)
    check(f, *args)
emb = torch.nn.functional.embedding
check(lambda x, i: grad_of(lambda w: emb(i, w), x), x, i)
check(lambda x, i: grad_of(lambda w: emb(i, w, 3, None, 2.0, True), x), x, i)
check(lambda x, i: grad_of(lambda x: x[i], x), x, i)
check(lambda x, i: grad_of(lambda x: x[:, i % 12], x), x, i)
check(lambda x, i: x[i[:40], i[40:80] % 12], x, i)
check(lambda x, i: x[-i[:40] - 1 if False else i[:40] - 40, :5], x, i)
check(lambda x, i: x.half()[i, 1:], x, i)
check(lambda x, i: x[i.reshape(3, 100)], x, i)
"""
    )


def test_writes_of_repeated_indices():
    fakes.run(
        CHECK
        + """
x, v = torch.randn(40, 12), torch.randn(300, 12)
i = torch.randint(0, 40, (300,))
def put(x, i, v, accumulate=False):
    x = x.clone()
    return x.index_put_((i,), v, accumulate)
for dtype in (torch.float32, torch.float64, torch.int64, torch.int8, torch.bool, torch.bfloat16):
    a, b = (x * 9).to(dtype), (v * 9).to(dtype)
    check(put, a, i, b)
    check(put, a, i, b, True)
    check(lambda x, i, v: x.index_copy(0, i, v), a, i, b)
    wide = i[:, None].expand(300, 12)
    check(lambda x, i, v: x.scatter(0, i, v), a, wide, b)
    check(lambda x, i, v: x.scatter_add(0, i, v), a, wide, b)
    full = torch.randint(0, 40, (300, 12))
    check(lambda x, i, v: x.scatter(0, i, v), a, full, b)
    for op in ("sum", "prod", "mean", "amax", "amin"):
        if dtype is torch.bool and op == "mean":
            continue
        for own in (True, False):
            check(lambda x, i, v: x.scatter_reduce(0, i, v, op, include_self=own), a, full, b)
    if dtype is not torch.bool:
        check(lambda x, i, v: x.index_add(0, i, v), a, i, b)
check(lambda x, i, v: x.index_fill(1, i[:5] % 12, 2.5), x, i, v)
check(lambda x, i, v: x.put(i, v[:, 0]), x, i, v)
check(lambda x, i, v: x.put(i, v[:, 0], True), x, i, v)
check(lambda x, i, v: x.take(i), x, i, v)
check(lambda x, i: x.gather(1, i.reshape(25, 12) % 12), x, i)
check(lambda x, i: grad_of(lambda x: x.gather(1, i.reshape(25, 12) % 12), x), x, i)
check(torch.nn.functional.one_hot, i)
"""
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int16", "bool"])
def test_sorts_are_stable_in_rows_of_every_length(dtype):
    fakes.run(
        CHECK
        + f"dtype = torch.{dtype}\n"
        + """
for n in (1, 2, 33, 2049, 4500):
    x = (torch.randn(2, n) * 5).round().to(dtype)
    if dtype.is_floating_point and n > 2:
        x[0, 1], x[1, 0], x[0, 2] = float("nan"), -0.0, float("inf")
    check(lambda x: torch.sort(x, -1, stable=True), x)
    check(lambda x: torch.sort(x, -1, True, stable=True), x)
    k = min(n, 7)
    check(lambda x: torch.topk(x, k), x)
    check(lambda x: torch.topk(x, k, largest=False), x)
    check(lambda x: torch.kthvalue(x, k), x)
    if dtype is not torch.bool:
        check(lambda x: torch.median(x, -1), x)
        if dtype.is_floating_point:
            check(lambda x: torch.nanmedian(x, -1), x)
y = (torch.randn(20, 4, 3) * 5).round().to(dtype)
check(lambda y: torch.sort(y, 0, stable=True), y)
check(lambda y: torch.argsort(y, 1, stable=True), y)
check(lambda y: torch.topk(y, 3, dim=0), y)
check(lambda y: torch.unique(y, return_inverse=True, return_counts=True), y)
check(lambda y: torch.unique_consecutive(y, return_inverse=True, return_counts=True), y)
""",
        timeout=300,
    )


def test_masks():
    fakes.run(
        CHECK
        + """
for dtype in (torch.float32, torch.int8, torch.complex128, torch.float16):
    x = (torch.randn(70, 90) * 2).round().to(dtype)
    m = torch.rand(70, 90) < 0.3
    check(lambda x, m: x[m], x, m)
    check(torch.nonzero, x)
    check(lambda x, m: x.masked_fill(m, 3), x, m)
    check(lambda x, m: x.masked_fill(m[:1], 3), x, m)
    check(lambda x, m: x.T.masked_fill(m.T, 3), x, m)
    check(lambda x, m: x.masked_scatter(m, x.flip(0).contiguous()), x, m)
check(lambda m: torch.count_nonzero(m), m) if False else None
check(lambda x: x[x > 9], x.float())
"""
    )


def test_random_numbers_have_the_cpus_bits():
    fakes.run(
        CHECK
        + """
def drawn(f, device):
    torch.manual_seed(7)
    return [f(device).cpu() for _ in range(2)]
def same(f, close=0):
    for w, g in zip(drawn(f, "cpu"), drawn(f, "cuda"), strict=True):
        if close:
            assert torch.allclose(w.double(), g.double(), close, close), (w, g)
        else:
            assert torch.equal(w, g), (w, g)
for n in (1, 63, 64, 65, 5000):
    for t in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        same(lambda d: torch.empty(n, dtype=t, device=d).uniform_(-1, 3))
        close = {torch.float32: 2e-6, torch.float64: 1e-14, torch.float16: 2e-3}.get(t, 2e-2)
        same(lambda d: torch.empty(n, dtype=t, device=d).normal_(1, 2), close)
        same(lambda d: torch.empty(n, dtype=t, device=d).exponential_(2), close)
    for t in (torch.int64, torch.int32, torch.uint8, torch.float32):
        same(lambda d: torch.randint(0, 100, (n,), dtype=t, device=d))
    same(lambda d: torch.randint(-(2**62), 2**62, (n,), device=d))
    same(lambda d: torch.randperm(n, device=d))
    for t in (torch.float32, torch.bool, torch.int64):
        same(lambda d: torch.empty(n, dtype=t, device=d).bernoulli_(0.3))
    same(lambda d: torch.bernoulli(torch.linspace(0, 1, n, device=d)))
p = torch.rand(5, 700)
same(lambda d: torch.multinomial(p.to(d), 40, True))
same(lambda d: torch.multinomial(p.to(d), 40))
"""
    )


def test_searches_and_histograms():
    fakes.run(
        CHECK
        + """
x = torch.randn(3000)
edges = torch.linspace(-2, 2, 30)
check(lambda e, x: torch.searchsorted(e, x), edges, x)
check(lambda e, x: torch.bucketize(x, e, right=True, out_int32=True), edges, x)
check(lambda x: torch.histc(x, 40, -2, 2), x)
i = torch.randint(0, 50, (3000,))
check(torch.bincount, i)
check(lambda i, x: torch.bincount(i, x, 60), i, x)
check(lambda i: torch.isin(i, i[:20]), i)
check(lambda x: torch.quantile(x.reshape(30, 100), 0.3, -1), x)
check(lambda i: torch.mode(i.reshape(30, 100), -1), i)
"""
    )


def test_joins_and_ranges():
    fakes.run(
        CHECK
        + """
x = torch.randn(30, 17)
check(lambda x: torch.cat([x, x[:, :3], x], 1), x)
check(lambda x: torch.cat([x, x[:3]]), x)
check(lambda x: grad_of(lambda x: x.as_strided((20, 9), (5, 2)), x), x)
check(lambda x: torch.stack([x.half(), x.half()], 2), x)
for k in (-40, -3, 0, 5, 40):
    check(lambda x: torch.tril(x, k), x)
    check(lambda x: torch.triu(x.to(torch.int8), k), x)
def on(f):
    for w, g in zip(f("cpu"), f("cuda"), strict=True):
        assert g.is_cuda and torch.equal(w, g.cpu()), (w, g)
for t in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8):
    on(lambda d: [torch.arange(3, 90, 2, dtype=t, device=d)])
    if t.is_floating_point:
        on(lambda d: [torch.linspace(-1, 3, 700, dtype=t, device=d),
                      torch.arange(0, 7, 0.1, dtype=t, device=d)])
on(lambda d: [torch.tril_indices(9, 7, 2, device=d), torch.triu_indices(9, 7, -3, device=d)])
check(lambda x: torch.repeat_interleave(x, torch.arange(30, device=x.device), 0), x)
"""
    )


def test_an_index_out_of_bounds_is_raised_at_the_next_wait():
    fakes.run(
        CHECK
        + """
x = torch.arange(5.0, device="cuda")
y = x[torch.tensor([1, 7], device="cuda")]
raises(IndexError, "index 7 is out of bounds for dimension with size 5", y.cpu)
assert y.cpu()[0] == 1
z = x.gather(0, torch.tensor([-1, 2], device="cuda"))
raises(RuntimeError, "gather()", torch.cuda.synchronize)
torch.cuda.synchronize()
"""
    )
