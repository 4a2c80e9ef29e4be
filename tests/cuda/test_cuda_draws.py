# SPDX-License-Identifier: BSD-3-Clause
"""Draws by rejection, CTC and other ops that have had no kernel before: values are the CPU's."""

import fakes
import pytest

why = None if fakes.REAL else fakes.why_not()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))

START = """
torch.cuda.set_fallback("error")
F = torch.nn.functional
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
def close(found, expected, tol=1e-10):
    assert found.is_cuda and found.dtype == expected.dtype
    torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=tol, atol=tol,
                               equal_nan=True)
"""


def test_draws_by_rejection_use_the_cpus_words():
    fakes.run(
        START
        + """
def drawn(device, f, *args):
    torch.manual_seed(11)
    return [f(*(a.to(device) for a in args)) for _ in range(2)]
for dtype in FLOATS:
    rates = torch.tensor([0.0, 0.3, 2, 9.5, 10.5, 40, 3000, float("inf")], dtype=dtype)
    rates = torch.cat([rates] + [torch.linspace(0.1, 60, 300).to(dtype)])
    counts = torch.tensor([0.0, 1, 5, 40, 200, 1000, 20.5, -3], dtype=dtype).repeat(40)
    chances = torch.tensor([0.5, 0.0, 1.0, 0.1, 0.9, 0.3, 0.7], dtype=dtype).repeat(46)[:320]
    alphas = torch.tensor([0.01, 0.5, 1, 3, 50, 1e4], dtype=dtype).repeat(50)
    for f, args in ((torch.poisson, (rates,)), (torch.binomial, (counts, chances)),
                    (torch._standard_gamma, (alphas,)),
                    (torch._sample_dirichlet, (alphas.reshape(50, 6),)),
                    (torch.poisson, (rates[:0],)), (torch.poisson, (rates[3],)),
                    (torch.poisson, (rates[1:7:2].expand(4, 3),))):
        for a, b in zip(drawn("cuda", f, *args), drawn("cpu", f, *args)):
            # The rounding of logarithms may move a draw; a stream of other words moves all.
            assert a.is_cuda and a.dtype == b.dtype and a.shape == b.shape
            near = torch.isclose(a.cpu().double(), b.double(), rtol=1e-2 if dtype.itemsize == 2
                                 else 1e-5, equal_nan=True)
            assert near.numel() == 0 or near.double().mean().item() > 0.98, (f, dtype)
raises(RuntimeError, "invalid Poisson rate", torch.poisson, -torch.ones(3).cuda())
# Captured, the draws go on.
x = torch.full((50,), 7.0).cuda()
torch.manual_seed(2)
eager = [torch.poisson(x).cpu() for _ in range(3)]
torch.manual_seed(2)
torch.poisson(x)
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = torch.poisson(x)
for want in eager[1:]:
    g.replay()
    assert torch.equal(y.cpu(), want)
"""
    )


def test_gradients_of_samples():
    fakes.run(
        START
        + """
D = torch.distributions
def gradients(device, make, *parameters):
    torch.manual_seed(4)
    parameters = [p.to(device).requires_grad_() for p in parameters]
    y = make(*parameters).rsample((20,))
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype, device=device).reshape(y.shape)
    return [y, *torch.autograd.grad((y * weights).sum(), parameters)]
for dtype in FLOATS[:2]:
    a = torch.tensor([0.05, 0.7, 2, 30, 2e5], dtype=dtype)
    b = torch.tensor([1.5, 0.2, 9, 40, 3], dtype=dtype)
    for make, parameters in ((D.Gamma, (a, b)), (D.Beta, (a, b)), (D.Dirichlet, (a,)),
                             (D.StudentT, (b,)), (D.Chi2, (b,))):
        for x, y in zip(gradients("cuda", make, *parameters),
                        gradients("cpu", make, *parameters)):
            close(x, y, 1e-9 if dtype == torch.float64 else 2e-4)
x = D.VonMises(torch.zeros(3).cuda(), torch.tensor([0.1, 2.0, 50]).cuda()).sample((10,))
assert x.is_cuda and bool((x.abs() <= 3.1416).all())
"""
    )


def test_ctc_loss():
    fakes.run(
        START
        + """
torch.manual_seed(0)
def run(device, logits, targets, inputs, lengths, **options):
    x = logits.to(device).requires_grad_()
    loss = F.ctc_loss(x.log_softmax(-1), targets.to(device), inputs, lengths, **options)
    weights = torch.arange(loss.numel(), dtype=loss.dtype, device=device).reshape(loss.shape) + 1
    first, = torch.autograd.grad((loss * weights).sum(), x)
    return [loss, first]
def both(*args, tol=1e-10, **options):
    for a, b in zip(run("cuda", *args, **options), run("cpu", *args, **options)):
        close(a, b, tol)
lengths = torch.tensor
for dtype, tol in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
    x = torch.randn(12, 4, 6, dtype=dtype)
    padded = torch.tensor([[1, 2, 2, 5], [3, 3, 3, 1], [5, 1, 0, 0], [1, 1, 1, 1]])
    sizes = ([12, 9, 5, 12], [4, 3, 2, 0])
    for reduction in ("none", "mean", "sum"):
        both(x, padded, lengths(sizes[0]), lengths(sizes[1]), tol=tol, reduction=reduction)
    joined = torch.cat([row[:n] for row, n in zip(padded, sizes[1])])
    both(x, joined, lengths(sizes[0]), lengths(sizes[1]), tol=tol, reduction="none")
    both(x, padded, lengths([12, 3, 0, 2]), lengths(sizes[1]), tol=tol, blank=4, reduction="none",
         zero_infinity=True)  # impossible ones
    both(torch.randn(400, 2, 5, dtype=dtype), torch.randint(1, 5, (2, 150)), lengths([400, 390]),
         lengths([150, 149]), tol=tol * 10, reduction="none")  # more states than threads
    both(x[:, :1], padded[:1], lengths([12]), lengths([4]), tol=tol)
half = torch.randn(5, 2, 4).half()
assert F.ctc_loss(half.cuda().float().log_softmax(-1), torch.ones(2, 1).long().cuda(),
                  lengths([5, 5]), lengths([1, 1])).is_cuda
raises(RuntimeError, "targets has the label 9, expected 0 to 5", F.ctc_loss, x.cuda(),
       (padded + 8).cuda(), lengths(sizes[0]), lengths(sizes[1]))
"""
    )


def test_frexp():
    fakes.run(
        START
        + """
inf, nan = float("inf"), float("nan")
for dtype in FLOATS:
    x = torch.tensor([0.0, -0.0, 1, -1.5, 1e-7, 6e4, 0.3, inf, -inf, nan, 5e-8], dtype=dtype)
    for v in (x, x[::2], x[0], x[:0], x.expand(3, 11)):
        for a, b in zip(torch.frexp(v.cuda()), torch.frexp(v)):
            close(a, b)
w = torch.tensor([3.0, 0.4]).cuda().requires_grad_()
torch.frexp(w).mantissa.sum().backward()
assert w.grad.tolist() == [0.25, 2.0]
"""
    )


@pytest.mark.parametrize("part", ["small", pytest.param("all", marks=pytest.mark.nightly)])
def test_unique_rows(part):
    fakes.run(
        START
        + f"""
every = {part == "all"}
"""
        + """
torch.manual_seed(0)
nan = float("nan")
def both(x, **options):
    for f in (torch.unique, torch.unique_consecutive):
        options |= {"return_inverse": True, "return_counts": True}
        for a, b in zip(f(x.cuda(), **options), f(x, **options)):
            assert torch.equal(a.cpu().nan_to_num(9), b.nan_to_num(9)), (x, options)
for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
    x = torch.randint(0, 2, (12, 3)).to(dtype)
    for dim in (0, 1, -1) if every else (0,):
        both(x, dim=dim)
    both(x.t(), dim=1)
    both(x.reshape(3, 4, 3), dim=1)
both(torch.tensor([[1.0, nan], [0.0, 1], [1, nan], [-0.0, 1], [1, -nan]]), dim=0)
both(torch.tensor([3, 1, 3]), dim=0)
both(torch.randint(-2, 2, (600 if every else 40, 2)), dim=0)
both(torch.randint(0, 2, (20, 9)).bool().repeat(2, 1), dim=0)
both(torch.zeros(0, 3), dim=0)
""",
        timeout=300,
    )


def test_fractional_max_pool():
    fakes.run(
        START
        + """
torch.manual_seed(0)
def run(device, f, x, **options):
    x = x.to(device).requires_grad_()
    options = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    y, index = f(x, return_indices=True, **options)
    y.square().sum().backward()
    return y, index, x.grad
for dtype in FLOATS:
    for shape, kernel, size in (((2, 3, 9, 8), 2, (4, 3)), ((1, 7, 7), (3, 2), (2, 5)),
                                ((2, 2, 6, 7, 8), 2, (2, 3, 3)), ((2, 2, 4, 4), 4, (1, 1))):
        dims = len(size)
        f = F.fractional_max_pool2d if dims == 2 else F.fractional_max_pool3d
        x = torch.randint(-9, 9, shape).to(dtype)
        x.view(-1)[3] = float("nan")
        u = torch.rand(shape[0] if x.dim() == dims + 2 else 1, shape[-dims - 1], dims, dtype=dtype)
        options = {"kernel_size": kernel, "output_size": size, "_random_samples": u}
        for a, b in zip(run("cuda", f, x, **options), run("cpu", f, x, **options)):
            close(a, b, 1e-2 if dtype.itemsize == 2 else 1e-6)
"""
    )
