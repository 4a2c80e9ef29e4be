# SPDX-License-Identifier: BSD-3-Clause
"""Measures float32 kernels on large tensors and matrix products: arithmetic and memory."""

# mypy: ignore-errors
from __future__ import annotations

from .case import bench, group

SIZES = {"1e5": (100, 1000), "4e6": (4000, 1000)}
for size in SIZES:
    group(f"kernels-{size}", f"float32 kernels, {size} elements", geomean=1.3, each=1.0)
group("matmul", "Matrix products, float32", each=1.0)


def kernel(name: str, statement: str) -> None:
    """Registers a statement over the matrices x, y, out, p (positive), indices and a mask."""
    for size, shape in SIZES.items():

        @bench(f"kernels-{size}", name=name)
        def case(torch, shape=shape):
            torch.manual_seed(0)
            x, y = torch.randn(shape), torch.randn(shape)
            p = torch.rand(shape) + 0.1
            out = torch.empty(shape)
            mask = x > 0
            rows = torch.randint(0, shape[0], (shape[0],))
            index = torch.randint(0, shape[1], shape)
            table = torch.randn(5000, shape[1])
            picks = torch.randint(0, 5000, (shape[0],))
            weight, bias = torch.ones(shape[1]), torch.zeros(shape[1])
            layer_norm = torch.nn.functional.layer_norm
            norm_shape = (shape[1],)
            return statement, vars()


kernel("add", "x + y")
kernel("add, out=", "torch.add(x, y, out=out)")
kernel("add in place", "out.add_(y)")
kernel("mul", "x * y")
kernel("mul by scalar", "x * 2.0")
kernel("add a row", "x + weight")
kernel("div", "x / p")
kernel("sqrt", "p.sqrt()")
kernel("exp", "x.exp()")
kernel("log", "p.log()")
kernel("tanh", "x.tanh()")
kernel("sin", "x.sin()")
kernel("sigmoid", "x.sigmoid()")
kernel("erf", "x.erf()")
kernel("relu", "x.relu()")
kernel("gelu", "torch.nn.functional.gelu(x)")
kernel("pow 2.5", "p ** 2.5")
kernel("compare", "x > y")
kernel("where", "torch.where(mask, x, y)")
kernel("sum", "x.sum()")
kernel("sum of columns", "x.sum(0)")
kernel("sum of rows", "x.sum(1)")
kernel("mean", "x.mean()")
kernel("var of rows", "x.var(1)")
kernel("max", "x.max()")
kernel("argmax of rows", "x.argmax(1)")
kernel("softmax", "torch.softmax(x, 1)")
kernel("log_softmax", "torch.log_softmax(x, 1)")
kernel("layer_norm", "layer_norm(x, norm_shape, weight, bias)")
kernel("clone", "x.clone()")
kernel("copy_", "out.copy_(y)")
kernel("transpose copy", "x.t().contiguous()")
kernel("cat", "torch.cat((x, y))")
kernel("cumsum", "x.cumsum(1)")
kernel("sort", "x.sort(1)")
kernel("topk 10", "x.topk(10, 1)")
kernel("index_select", "table.index_select(0, picks)")
kernel("embedding", "torch.nn.functional.embedding(picks, table)")
kernel("gather", "x.gather(1, index)")
kernel("index_add", "out.index_add(0, rows, x)")
kernel("masked_fill", "x.masked_fill(mask, 0.0)")
kernel("masked_select", "x[mask]")
kernel("zeros", "torch.zeros_like(x)")
kernel("rand", "out.uniform_()")
kernel("randn", "out.normal_()")
kernel("to float64", "x.double()")
kernel("to bfloat16", "x.bfloat16()")


@bench("matmul", name="mm", n=(64, 128, 256, 512, 1024, 2048))
def mm(torch, n):
    x, y = torch.randn(n, n), torch.randn(n, n)
    return "x @ y", vars()


@bench("matmul", name="mm 64x128 by 128x32", dtype=("float32", "float64"), target=1.5)
def mm_small(torch, dtype):
    x, y = (torch.randn(*s, dtype=getattr(torch, dtype)) for s in ((64, 128), (128, 32)))
    return "x @ y", vars()


@bench("matmul", name="linear of a sample, 128 -> 128")
def linear_one(torch):
    x, w, b = torch.randn(1, 128), torch.randn(128, 128), torch.randn(128)
    linear = torch.nn.functional.linear
    return "linear(x, w, b)", vars()


@bench("matmul", name="mm with a transpose", n=(64, 1024))
def mm_t(torch, n):
    x, y = torch.randn(n, n), torch.randn(n, n)
    return "x.t() @ y", vars()


@bench("matmul", name="bmm 64 of", n=(32, 128))
def bmm(torch, n):
    x, y = torch.randn(64, n, n), torch.randn(64, n, n)
    return "x @ y", vars()


@bench("matmul", name="mv", n=(1024,))
def mv(torch, n):
    x, y = torch.randn(n, n), torch.randn(n)
    return "x @ y", vars()


@bench("matmul", name="addmm", n=(256,))
def addmm(torch, n):
    x, y, b = torch.randn(n, n), torch.randn(n, n), torch.randn(n)
    return "torch.addmm(b, x, y)", vars()


group("kernels-float64", "float64 kernels", each=0.9)
FUNCTIONS = ("exp", "log", "tanh", "sqrt", "sin", "sigmoid", "erf")


@bench("kernels-float64", function=FUNCTIONS, n=(100_000, 4_000_000))
def unary(torch, function, n):
    torch.manual_seed(0)
    f, p = getattr(torch, function), torch.rand(n, dtype=torch.float64) + 0.1
    return "f(p)", vars()


@bench("kernels-float64", name="gelu", n=(100_000, 4_000_000))
def gelu_double(torch, n):
    torch.manual_seed(0)
    f, x = torch.nn.functional.gelu, torch.randn(n, dtype=torch.float64)
    return "f(x)", vars()


group("sort", "Sorts of short vectors", each=0.9)


@bench("sort", dtype=("float32", "float64", "int64"), n=(100, 1000, 4000))
def sort(torch, dtype, n):
    torch.manual_seed(0)
    x = (torch.randn(n) * 1000).to(getattr(torch, dtype))
    return "x.sort()", vars()
