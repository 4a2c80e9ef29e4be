# SPDX-License-Identifier: BSD-3-Clause
"""Expressions over sparse tensors, which run with cograd and with torch.

With torch installed, ``python tests/sparse/programs.py`` records what torch computes.
"""

import json
import pathlib
import sys
import warnings

RECORDED = pathlib.Path(__file__).parent.parent / "recorded" / "sparse.json"

# Makes the tensors of one kind: indices, shape, dense dims. s is in `layout`; x, y and b are dense.
KINDS = {
    "matrix": ([[0, 1, 1], [2, 0, 2]], (2, 3), ()),
    "repeated": ([[1, 0, 1, 0, 1], [2, 1, 2, 0, 0]], (2, 3), ()),
    "empty": ([[], []], (2, 3), ()),
    "no_rows": ([[], []], (0, 3), ()),
    "single": ([[0], [0]], (1, 1), ()),
    "vector": ([[3, 1, 3]], (4,), ()),
    "hybrid": ([[0, 2, 0]], (3, 2), (2,)),
    "hybrid_matrix": ([[1, 0, 1], [2, 1, 2]], (2, 3, 2), (2,)),
    "cube": ([[0, 1, 1, 0], [2, 0, 2, 2], [1, 1, 0, 1]], (2, 3, 2), ()),
}
DTYPES = ("float32", "float64", "int64", "bool")

# Expressions that have a gradient with respect to the values, and to the dense operands in them.
DIFFERENTIABLE = """
s.to_dense()
s.coalesce()
s.coalesce().values()
s.clone()
s * 2
2 * s
s / 4
-s
s + s
s + s * 3
s - s
s * s
x + s
x - s
torch.add(x, s, alpha=2)
torch.sub(s, s, alpha=0.5)
s * x
x * s
s * w
s.t()
s.transpose(0, 1)
s.to_sparse_csr()
s.coalesce().to_sparse_csr().to_sparse()
s.sum()
torch.sparse.sum(s)
torch.sparse.sum(s, 0)
torch.sparse.sum(s, -1)
torch.sparse.sum(s, (0, 1))
torch.sparse.softmax(s, 0)
torch.sparse.softmax(s, 1)
torch.sparse.log_softmax(s, 0)
torch.sparse.log_softmax(s, 1)
s.index_select(0, torch.tensor([0, 0]))
s.index_select(1, torch.tensor([1, 0, 1]))
torch.cat([s, s])
torch.cat([s, s], 1)
torch.stack([s, s])
s.unsqueeze(0)
s[0]
x.sparse_mask(s.coalesce())
s @ y
torch.mm(s, y)
torch.sparse.mm(s, y)
torch.matmul(s, v)
s.mv(v)
torch.sparse.mm(s, s.t())
u @ s
torch.mm(u, s)
torch.addmm(b, s, y)
torch.sparse.addmm(b, s, y, beta=0.5, alpha=2.0)
torch.nn.functional.linear(x, s)
c @ y
c.to_dense()
c.to_sparse()
c.values()
c * 2
c * x
c + c
x + c
c.mv(v)
u @ c
torch.addmm(b, c, y)
torch.sparse.sum(c * 1.5)
abs(s)
s.sin()
s.sqrt()
s.relu()
s.tanh()
s ** 2
torch.sparse.spdiags(x, torch.tensor([0, -1]), (3, 3))
x.to_sparse()
x.to_sparse(1)
""".split("\n")[1:-1]

# Expressions without a gradient, or that raise.
OTHERS = """
s.layout
c.layout
s.is_sparse
c.is_sparse_csr
s.sparse_dim()
s.dense_dim()
s._nnz()
s.is_coalesced()
s.coalesce().is_coalesced()
(s + s).is_coalesced()
s.coalesce().indices()
s._indices()
s.indices()
s.values()
c.crow_indices()
c.col_indices()
c.indices()
s.crow_indices()
x.indices()
x.values()
x.crow_indices()
x.sparse_dim()
x.dense_dim()
x.to_sparse(9)
x.to_sparse(0)
s.to_sparse().layout
s.requires_grad
s.dtype
s.float().dtype
s.to(torch.float16).dtype
s.shape
len(s)
s.numel()
s.is_contiguous()
s.zero_()._nnz()
s.mul_(2)
s.add_(s)
s.isnan()
s.any()
s + 1
s.add_(x)
s / x
s.view(-1)
s.reshape(-1)
s.exp()
s.max()
s.fill_(1)
s.numpy()
s == s
torch.where(x > 0, s, s)
torch.einsum("ij,jk->ik", s, y)
s @ x
torch.zeros_like(s)._nnz()
torch.zeros_like(s).shape
torch.sparse_coo_tensor(s._indices(), s._values()[:-1], s.shape)
torch.sparse_coo_tensor(s._indices(), s._values(), (7,) * 5)
torch.sparse_coo_tensor((2, 3))
torch.sparse_coo_tensor([[0, 1], [2, 0]], [1.0, 2.0])
torch.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4, 5])
""".split("\n")[1:-1]


def _shown(torch, r):
    """Returns a result as JSON."""
    if isinstance(r, torch.Tensor):
        name = str(r.layout).rpartition(".")[2]
        dense = r.detach().to_dense()
        return {
            "layout": name,
            "dtype": str(r.dtype).rpartition(".")[2],
            "shape": list(r.shape),
            "values": dense.to(torch.float64).tolist(),
        }
    return str(r).rpartition(".")[2]


def _tensors(torch, kind, dtype, grad):
    indices, shape, dense = KINDS[kind]
    at = torch.tensor(indices, dtype=torch.int64).reshape(len(indices), -1)
    count = at.shape[1]
    n = count
    for size in dense:
        n *= size
    values = ((torch.arange(n) % 5).reshape(count, *dense) + 1).to(dtype)

    def filled(*sizes):
        total = 1
        for size in sizes:
            total *= size
        return (torch.arange(total) % 7 - 2).reshape(sizes).to(dtype)

    rows, cols = shape[0], shape[-1] if len(shape) > 1 else 1
    named = {
        "values": values,
        "x": filled(*shape),
        "w": filled(*shape[1:]),
        "y": filled(cols, 2),
        "u": filled(2, rows),
        "b": filled(rows, 2),
        "v": filled(cols),
    }
    if grad:
        for t in named.values():
            t.requires_grad_()
    s = torch.sparse_coo_tensor(at, named["values"], shape)
    names = {"torch": torch, "s": s, **named}
    if len(shape) == 2 and not dense:
        names["c"] = s.coalesce().to_sparse_csr()
    return names, named


def run(torch, kind, dtype, text, grad):
    """Returns the result of an expression and its gradients, or the name of the error."""
    dtype = getattr(torch, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            names, leaves = _tensors(torch, kind, dtype, grad)
            result = eval(text, names)
            out = {"result": _shown(torch, result)}
            if grad and isinstance(result, torch.Tensor) and result.requires_grad:
                dense = result.to_dense()
                seed = (torch.arange(dense.numel()) % 3 + 1).reshape(dense.shape).to(dense.dtype)
                inputs = {k: t for k, t in leaves.items() if k in text or k == "values"}
                found = torch.autograd.grad(dense, list(inputs.values()), seed, allow_unused=True)
                out["gradients"] = {
                    k: None if g is None else g.to_dense().tolist()
                    for k, g in zip(inputs, found, strict=True)
                }
            return out
        except Exception as error:
            return {"error": type(error).__name__}


def cases():
    """Yields kind, dtype, expression and whether gradients are compared."""
    for kind in KINDS:
        for text in DIFFERENTIABLE:
            for dtype in DTYPES:
                yield kind, dtype, text, dtype == "float64"
        for text in OTHERS:
            yield kind, "float32", text, False


if __name__ == "__main__":
    sys.modules.pop("cograd", None)
    import torch

    found = {}
    for kind, dtype, text, grad in cases():
        found.setdefault(kind, {}).setdefault(text, {})[dtype] = run(torch, kind, dtype, text, grad)
    lines = []
    for kind, rows in found.items():
        body = ",\n".join(f"{json.dumps(t)}: {json.dumps(row)}" for t, row in rows.items())
        lines.append(f"{json.dumps(kind)}: {{\n{body}\n}}")
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
