# SPDX-License-Identifier: BSD-3-Clause
"""Measures products of a sparse matrix with a million elements, and embeddings."""

# mypy: ignore-errors
from __future__ import annotations

from .case import bench, group

group("sparse", "Sparse tensors (float32)")

ROWS, ENTRIES = 100_000, 1_000_000


def matrix(torch, requires_grad=False):
    """Returns a matrix in compressed rows; about ten elements in each row, anywhere."""
    torch.manual_seed(0)
    row = torch.randint(0, ROWS, (ENTRIES,)).sort().values
    start = torch.zeros(ROWS + 1, dtype=torch.int64)
    start[1:] = torch.bincount(row, minlength=ROWS).cumsum(0)
    col = torch.randint(0, ROWS, (ENTRIES,))
    values = torch.randn(ENTRIES)
    return torch.sparse_csr_tensor(start, col, values, (ROWS, ROWS), requires_grad=requires_grad)


@bench("sparse", name="CSR @ dense", columns=(1, 16))
def product(torch, columns):
    a, x = matrix(torch), torch.randn(ROWS, columns)
    return "a @ x", vars()


@bench("sparse", name="gradient of dense", columns=(1, 16), rounds=3)
def dense_gradient(torch, columns):
    a, x = matrix(torch), torch.randn(ROWS, columns, requires_grad=True)
    y = a @ x
    g = torch.ones_like(y)
    return "torch.autograd.grad(y, x, g, retain_graph=True)", vars()


@bench("sparse", name="coalesce 1e6")
def coalesce(torch):
    a = matrix(torch).to_sparse()
    s = torch.sparse_coo_tensor(a._indices(), a._values(), a.shape)
    return "s.coalesce()", vars()


@bench("sparse", name="embedding step")
def embedding(torch):
    table = torch.nn.Embedding(100_000, 32, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    index = torch.randint(0, 100_000, (256,))

    def step():
        optimizer.zero_grad()
        table(index).sum().backward()
        optimizer.step()

    return "step()", vars()
