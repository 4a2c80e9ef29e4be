# SPDX-License-Identifier: BSD-3-Clause
"""Reductions, scans, softmax, norms, losses and pooling on the fake driver, beside the CPU.

The shapes choose each of a kernel's forms: lines in registers, long ones, columns, packs, pieces.
"""

import fakes
import pytest

why = None if fakes.REAL else fakes.why_not()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))

CHECK = """
import math
import cograd.nn.functional as F
torch.cuda.set_fallback("error")
torch.manual_seed(0)

def flat(v):
    return [t for u in v for t in flat(u)] if isinstance(v, (tuple, list)) else [v]

def same(f, *args, tol=2e-5):
    want, got = flat(f(*args)), flat(f(*[a.cuda() for a in args]))
    for w, g in zip(want, got, strict=True):
        assert g.is_cuda and g.dtype == w.dtype and g.shape == w.shape, (g.dtype, w.dtype)
        torch.testing.assert_close(g.cpu(), w, rtol=tol, atol=tol, equal_nan=True)

def with_gradients(f):
    def g(*args):
        args = [a.detach().requires_grad_(a.is_floating_point()) for a in args]
        y = f(*args)
        w = torch.arange(y.numel()).remainder(7).sub(3).to(y.dtype).reshape(y.shape).to(y.device)
        y.backward(w)
        return [y.detach()] + [a.grad for a in args if a.grad is not None]
    return g
"""


def run(program):
    fakes.run(CHECK + program, timeout=400)


def test_reductions():
    run(
        """
shapes = (7,), (3, 5), (4, 33), (40, 12), (3, 8200), (8200, 3), (2, 3, 4, 5), (1100, 8), (300000,)
for shape in shapes:
    x = torch.randn(shape)
    for dim in [None, *range(len(shape))] if len(shape) < 4 else [(0, 2), (1, 3), 2]:
        same(lambda x: (x.sum(dim), x.var(dim), x.amax(dim if dim is not None else ())), x)
        if not isinstance(dim, tuple):
            same(lambda x: x.argmin(dim), x)
x = torch.randn(6, 40, 70)
crops = lambda x: x[:, ::2, 1:], lambda x: x[:, :1].expand(6, 40, 70)
for view in (lambda x: x.transpose(0, 2), *crops):
    for dim in (0, 1, 2, (0, 1), (0, 2), None):
        same(lambda x: view(x).sum(dim), x)
for dtype in (torch.int8, torch.bool, torch.bfloat16, torch.float64):
    x = torch.randn(37, 130).mul(3).to(dtype)
    same(lambda x: (x.sum(), x.sum(0), x.any(), x.amin(1)), x, tol=1e-2)
same(lambda x: x.sum(0), torch.full((3, 5), 2**62))  # wraps
nan, inf = math.nan, math.inf
for values in ([1, nan, 3], [inf, -inf], [-inf, -inf], [inf, 1000.0, 0], [1e30, -1e30, 3]):
    x = torch.tensor(values)
    same(lambda x: (x.sum(), x.mean(), x.var(), x.amax(), x.argmax()), x)
x = torch.arange(5000.0).remainder(97)
x[[100, 4000, 4500]] = torch.tensor([500.0, nan, nan])
same(lambda x: (x.argmax(), x.max(), x[:3000].argmax(), x[:0].sum(), x[:0].prod()), x)
same(lambda x: torch.linalg.vector_norm(x, 3, 0), torch.randn(9, 4))
x = torch.randn(8200, 3).cuda()
assert torch.equal(x.sum(0).cpu(), x.sum(0).cpu())
"""
    )


def test_logsumexp_with_an_infinite_term():
    fakes.run(
        CHECK
        + """
x = torch.full((5000,), 1000.0)
x[7] = math.inf
assert x.cuda().logsumexp(0).item() == math.inf
"""
    )


def test_scans():
    run(
        """
shapes = ((5,), 0), ((3, 40), 1), ((2, 2000), 1), ((40, 3), 0), ((1, 20000), 1), ((1100, 2), 0)
for shape, dim in shapes:
    x = torch.randn(shape)
    same(lambda x: (x.cumsum(dim), x.cumprod(dim), x.cummax(dim), x.logcumsumexp(dim)), x)
    same(lambda x: x.cumsum(dim), x.mul(9).to(torch.int8))
x = torch.ones(9000)
x[50], x[100:] = 0, 1e30  # the product of a later piece overflows, but 0 comes before it
same(lambda x: x.cumprod(0), x)
x = torch.tensor([1.0, math.nan, 3, math.nan, 2])
same(lambda x: (x.cummax(0), x.cummin(0), x.cumsum(0)), x)
"""
    )


def test_softmax_and_layer_norm():
    run(
        """
for shape in ((3, 5), (7, 64), (2, 1000), (2, 5000), (1, 33001), (40, 7, 3)):
    x = torch.randn(shape)
    same(with_gradients(lambda x: x.softmax(1)), x)
    same(with_gradients(lambda x: x.log_softmax(1)), x)
for values in ([1, math.nan], [math.inf, 1], [-math.inf, -math.inf], [-math.inf, 1]):
    x = torch.zeros(40000)
    x[:2] = torch.tensor(values)
    same(lambda x: (x[:2].softmax(0), x.softmax(0), x[:2].log_softmax(0)), x)
for n in (5, 64, 1000, 9000, 33000):
    args = torch.randn(3, n), torch.randn(n), torch.randn(n)
    same(with_gradients(lambda x, w, b: F.layer_norm(x, (n,), w, b)), *args)
"""
    )


def test_losses():
    run(
        """
for shape in ((5, 7), (300, 10), (2, 3, 4, 40)):
    c = shape[1]
    target = torch.randint(0, c, shape[:1] + shape[2:])
    target.view(-1)[1] = -100
    for options in ({}, {"reduction": "sum"}, {"reduction": "none", "label_smoothing": 0.2}):
        w = torch.rand(c).add(0.1)
        f = lambda x: F.cross_entropy(x, target.to(x.device), w.to(x.device), **options)
        same(with_gradients(f), torch.randn(shape))
raises(IndexError, "Target 9 is out of bounds for 4 classes", F.cross_entropy,
       torch.randn(3, 4).cuda(), torch.tensor([1, 9, 2]).cuda())
"""
    )


def test_group_norms():
    run(
        """
for shape in ((4, 6, 5, 3), (2, 4, 8, 8), (300, 5), (2, 3, 40, 70)):
    c = shape[1]
    args = torch.randn(shape), torch.randn(c), torch.randn(c)
    norm = lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)
    same(with_gradients(norm), *args, tol=5e-5)
    if len(shape) == 4:
        norm = lambda x, w, b: F.group_norm(x, c // 2 if c % 2 == 0 else 1, w, b)
        same(with_gradients(norm), *args, tol=5e-5)
"""
    )


def test_pooling():
    run(
        """
x = torch.randn(2, 3, 13, 11)
forms = (2, 2, 0, 1, False), (3, 2, 1, 1, True), (3, 1, 1, 2, False)
for k, s, p, d, up in (*forms, ((3, 2), (2, 1), (1, 0), 1, False)):
    same(with_gradients(lambda x: F.max_pool2d(x, k, s, p, d, ceil_mode=up)), x)
    same(lambda x: F.max_pool2d(x, k, s, p, d, ceil_mode=up, return_indices=True), x)
same(with_gradients(lambda x: F.adaptive_max_pool2d(x, (5, 4))), x)
same(with_gradients(lambda x: F.avg_pool2d(x, 3, 2, 1)), x)
same(with_gradients(lambda x: F.adaptive_avg_pool2d(x, (4, 5))), x)
for mode in ("nearest", "bilinear", "bicubic"):
    same(with_gradients(lambda x: F.interpolate(x, size=(13, 7), mode=mode)), x)
same(with_gradients(lambda x: x.round().amax(-1)), x)
"""
    )
