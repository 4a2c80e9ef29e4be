# SPDX-License-Identifier: BSD-3-Clause
"""Convolutions, attention, loops over elements, reductions, sorts, random fills, optimizers."""

# mypy: ignore-errors
from __future__ import annotations

from .frame import scaling

# name: input, weight, padding, stride
CONVOLUTIONS = {
    "3x3 64->64 8x56x56": ((8, 64, 56, 56), (64, 64, 3, 3), 1, 1),
    "1x1 256->64 8x56x56": ((8, 256, 56, 56), (64, 256, 1, 1), 0, 1),
    "7x7/2 3->64 8x224x224": ((8, 3, 224, 224), (64, 3, 7, 7), 3, 2),
    "1d k=3 256 8x512": ((8, 256, 512), (256, 256, 3), 1, 1),
}


def multiplications(size, kernel, stride):
    """Returns the number of multiplications of a convolution that keeps the image's size."""
    image = 1
    for length in size[2:]:
        image *= length // stride
    weights = 1
    for length in kernel:
        weights *= length
    return size[0] * image * weights


for _name, (_size, _kernel, _padding, _stride) in CONVOLUTIONS.items():
    _work = multiplications(_size, _kernel, _stride)

    @scaling("convolutions", name=f"conv {_name}", multiplications=_work)
    def conv(torch, size=_size, kernel=_kernel, padding=_padding, stride=_stride):
        x, w = torch.randn(size), torch.randn(kernel)
        f = torch.conv1d if len(size) == 3 else torch.conv2d
        return "f(x, w, None, stride, padding)", vars()


@scaling(
    "convolutions", name="conv 3x3 64->64, backward", multiplications=2 * 8 * 56**2 * 9 * 64**2
)
def conv_backward(torch):
    x = torch.randn(8, 64, 56, 56, requires_grad=True)
    w = torch.randn(64, 64, 3, 3, requires_grad=True)
    y = torch.conv2d(x, w, None, 1, 1)
    g = torch.ones(y.shape)
    return "torch.autograd.grad(y, (x, w), g, retain_graph=True)", vars()


@scaling("attention", name="8 heads, 1024x64", multiplications=2 * 8 * 1024**2 * 64)
def attention(torch):
    q, k, v = (torch.randn(1, 8, 1024, 64) for _ in range(3))
    f = torch.nn.functional.scaled_dot_product_attention
    return "f(q, k, v)", vars()


@scaling("attention", name="8 heads, 1024x64, causal, with backward")
def attention_backward(torch):
    q, k, v = (torch.randn(1, 8, 1024, 64, requires_grad=True) for _ in range(3))
    f = torch.nn.functional.scaled_dot_product_attention
    g = torch.ones(1, 8, 1024, 64)
    return "torch.autograd.grad(f(q, k, v, is_causal=True), (q, k, v), g)", vars()


def over_elements(group, name, statement, n, nbytes):
    """Registers a statement over x, y and out, of n elements each."""

    @scaling(group, name=f"{name}, {n / 1e6:g} million elements", nbytes=nbytes * n)
    def case(torch, n=n):
        shape = (n // 1000, 1000)
        x, y, out = torch.randn(shape), torch.randn(shape), torch.zeros(shape)
        return statement, vars()


over_elements("elementwise", "add", "torch.add(x, y, out=out)", 100_000, 0)
over_elements("elementwise", "add", "torch.add(x, y, out=out)", 16_000_000, 12)
over_elements("elementwise", "exp", "torch.exp(x, out=out)", 100_000, 0)
over_elements("elementwise", "exp", "torch.exp(x, out=out)", 4_000_000, 8)
over_elements("elementwise", "gelu", "torch.nn.functional.gelu(x)", 4_000_000, 8)
over_elements("reductions", "sum", "x.sum()", 16_000_000, 4)
over_elements("reductions", "sum of columns", "x.sum(0)", 4_000_000, 4)
over_elements("reductions", "sum of rows", "x.sum(1)", 4_000_000, 4)
over_elements("reductions", "softmax", "torch.softmax(x, 1)", 4_000_000, 8)
over_elements("sorts", "sort of rows", "x.sort(1)", 1_000_000, 0)
over_elements("sorts", "sort", "x.reshape(-1).sort()", 1_000_000, 0)
over_elements("random fills", "uniform_", "out.uniform_()", 4_000_000, 4)
over_elements("random fills", "normal_", "out.normal_()", 4_000_000, 4)


# A step reads parameter, gradient and state, and writes parameter and state.
for _kind, _options, _words in (("SGD", {"momentum": 0.9}, 5), ("Adam", {}, 7)):

    @scaling("optimizers", name=f"{_kind}, 1e7 parameters", nbytes=4e7 * _words)
    def optimizer(torch, kind=_kind, options=_options):
        p = torch.rand(10_000_000).requires_grad_()
        p.grad = torch.rand(10_000_000)
        step = getattr(torch.optim, kind)([p], lr=1e-6, **options).step
        return "step()", vars()


# n^3 / 6 multiplications for a Cholesky decomposition, n^3 / 3 for one with pivots.
for _n in (512, 2048):

    @scaling("decompositions", name=f"cholesky {_n}", multiplications=_n**3 / 6)
    def cholesky(torch, n=_n):
        x = torch.randn(n, n)
        a = x @ x.t() + n * torch.eye(n)
        return "torch.linalg.cholesky(a)", vars()


@scaling("decompositions", name="solve 1024, one right side", multiplications=1024**3 / 3)
def solve(torch):
    a, b = torch.randn(1024, 1024), torch.randn(1024)
    return "torch.linalg.solve(a, b)", vars()


@scaling("decompositions", name="eigh 256")
def eigh(torch):
    x = torch.randn(256, 256)
    a = x + x.t()
    return "torch.linalg.eigh(a)", vars()
