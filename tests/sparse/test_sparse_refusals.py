# SPDX-License-Identifier: BSD-3-Clause
"""Nothing reads a sparse tensor as if it were dense: it is computed right, or the op is named."""

import copy
import io
import pickle

import numpy as np
import pytest

import cograd as torch
from cograd import nn

DENSE = torch.arange(6.0).reshape(2, 3)


def sparse(grad=False):
    at = torch.tensor([[0, 1, 1], [2, 0, 2]])
    s = torch.sparse_coo_tensor(at, torch.tensor([3.0, 4.0, 5.0]), (2, 3), is_coalesced=True)
    return s.requires_grad_() if grad else s


def value_of(r):
    return r.to_dense() if isinstance(r, torch.Tensor) else r


def outcome(call):
    """Returns the dense value of a call, or None if it raises."""
    try:
        r = call()
    except Exception:
        return None
    if isinstance(r, (tuple, list)):
        return [value_of(x) for x in r]
    return value_of(r)


def same(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape == b.shape and torch.allclose(
            a.to(torch.float64), b.to(torch.float64), equal_nan=True
        )
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return True


# These depend on the layout, on chance or on the object.
OTHER = set(
    """new_empty empty_like rand_like randn_like randint_like bernoulli bernoulli_ normal_ uniform_
    random_ exponential_ geometric_ cauchy_ log_normal_ dropout feature_dropout alpha_dropout
    feature_alpha_dropout rrelu rrelu_ rand randn empty dense_dim sparse_dim to_sparse
    new_zeros relu6 resize_ resize empty_permuted native_dropout""".split()
)
ARGUMENTS = ((), (2,), (0, 1), (DENSE,), ("sparse",), (0, torch.tensor([1, 0])), (DENSE.t(),))


LAYOUTS = {
    "coo": sparse,
    "bsr": lambda: sparse().to_sparse_bsr((2, 1)),
    "batch": lambda: sparse().to_dense()[None].to_sparse_csr(),
}
in_layouts = pytest.mark.parametrize("layout", LAYOUTS)


def filled(args, sparsely, layout):
    x = LAYOUTS[layout]()
    x = x if sparsely else x.to_dense()
    return tuple(x if a == "sparse" and isinstance(a, str) else a for a in args)


@pytest.mark.filterwarnings("ignore")
@in_layouts
@pytest.mark.parametrize("off", [False, True])
def test_every_method_agrees_with_dense_or_raises(off, layout):
    """Also where overrides by types are off, so that the core itself must refuse."""
    computed, wrong = set(), []
    for name in dir(torch.Tensor):
        if name.startswith("__") or name in OTHER or not callable(getattr(torch.Tensor, name)):
            continue
        for args in ARGUMENTS:
            for dense_self in (False, True):
                if dense_self and "sparse" not in [a for a in args if isinstance(a, str)]:
                    continue

                def call(sparsely, name=name, args=args, dense_self=dense_self):
                    x = DENSE.clone() if dense_self else filled(("sparse",), sparsely, layout)[0]
                    return getattr(x, name)(*filled(args, sparsely, layout))

                if off:
                    with torch._C.DisableTorchFunctionSubclass():
                        got = outcome(lambda: call(True))
                else:
                    got = outcome(lambda: call(True))
                if got is None:
                    continue
                computed.add(name)
                want = outcome(lambda: call(False))
                if want is not None and not same(got, want):
                    wrong.append((name, args, got, want))
    # softmax and values() say nothing about elements that are not stored.
    allowed = {"values", "indices", "data_ptr", "storage_offset", "numel", "nbytes"}
    assert not [w for w in wrong if w[0] not in allowed]
    assert len(computed) > 100 or off


@pytest.mark.filterwarnings("ignore")
@in_layouts
@pytest.mark.parametrize("off", [False, True])
def test_every_function_agrees_with_dense_or_raises(off, layout):
    wrong, computed = [], set()
    for module in (torch, nn.functional, torch.linalg, torch.special):
        for name in dir(module):
            f = getattr(module, name, None)
            skip = name.startswith("__") or name in OTHER or not hasattr(torch._C._ops, name)
            if skip or not callable(f) or isinstance(f, type):
                continue
            for args in (("sparse", *rest) for rest in (*ARGUMENTS, (DENSE, DENSE))):

                def call(sparsely, f=f, args=args):
                    return f(*filled(args, sparsely, layout))

                if off:
                    with torch._C.DisableTorchFunctionSubclass():
                        got = outcome(lambda: call(True))
                else:
                    got = outcome(lambda: call(True))
                if got is None:
                    continue
                computed.add(name)
                want = outcome(lambda: call(False))
                if want is not None and not same(got, want):
                    wrong.append((name, args, got, want))
    assert not wrong
    assert "matmul" in computed or off


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (r"exp\(\): not supported for sparse tensors", lambda s: s.exp()),
        (r"einsum\(\): not supp.*to_dense\(\)", lambda s: torch.einsum("ij,jk->ik", s, DENSE.t())),
        (r"conv1d\(\): not supported", lambda s: nn.functional.conv1d(s, DENSE)),
        (r"view\(\): not supported", lambda s: s.view(6)),
        (r"to_sparse_bsr", lambda s: torch.ones(2).to_sparse_bsr((1, 1))),
        (r"indexing\(\): not supp.*index_select", lambda s: s[:, 0]),
        (r"__setitem__\(\)", lambda s: s.__setitem__(0, 1.0)),
        (
            r"mm\(\): not supported for sparse tensors with out=",
            lambda s: torch.mm(s, DENSE.t(), out=DENSE),
        ),
    ],
)
def test_errors_name_the_op_and_the_remedy(text, call):
    with pytest.raises(NotImplementedError, match=text):
        call(sparse())


@pytest.mark.filterwarnings("ignore:To copy construct")
def test_memory_is_not_given_away():
    s = sparse()
    for call in (
        s.data_ptr, s.storage, s.untyped_storage, s.__dlpack__, s.tolist, s.item, s.share_memory_,
        lambda: memoryview(s), lambda: torch.from_dlpack(s), lambda: torch.tensor(s),
        lambda: DENSE.clone().set_(s),
    ):  # fmt: skip
        with pytest.raises((NotImplementedError, BufferError, TypeError)):
            call()
    with pytest.raises(TypeError, match="can't convert .*sparse_coo layout tensor to numpy"):
        np.asarray(s)
    dense = DENSE.clone()
    with pytest.raises((NotImplementedError, RuntimeError)):
        dense.data = s


def test_functions_do_not_lose_gradients():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, s, x):
            ctx.save_for_backward(s)
            return s @ x

        @staticmethod
        def backward(ctx, g):
            (s,) = ctx.saved_tensors
            return None, s.t() @ g

    class Sparse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.to_sparse()

        @staticmethod
        def backward(ctx, g):
            return g

    x = torch.ones(3, 2, requires_grad=True)
    Double.apply(sparse(), x).sum().backward()
    assert torch.equal(x.grad, sparse().to_dense().t() @ torch.ones(2, 2))
    with pytest.raises(NotImplementedError, match="does not pass gradients to a sparse tensor"):
        Double.apply(sparse(True), x)
    with pytest.raises(NotImplementedError, match="Sparse.forward returned a sparse tensor"):
        Sparse.apply(x)


def test_transforms_refuse_sparse_arguments():
    for f in (torch.func.grad(lambda s: s.sum()), torch.vmap(lambda s: s.sum())):
        with pytest.raises(NotImplementedError, match="sparse tensor"):
            f(sparse())
    with pytest.raises(NotImplementedError, match="sparse tensor"):
        torch.func.jvp(lambda s: s.sum(), (sparse(),), (sparse(),))


def test_indices_are_checked():
    for at, size in (([[5]], (3,)), ([[-1]], (3,)), ([[0], [3]], (1, 3))):
        with pytest.raises(RuntimeError, match="index"):
            torch.sparse_coo_tensor(torch.tensor(at), [1.0], size)
    for start, col in (
        ([0, 2], [0, 7]),
        ([0, 3], [0, 1]),
        ([1, 2], [0, 1]),
        ([0, 2, 1, 2], [0, 0]),
    ):
        with pytest.raises(RuntimeError, match="ascend|index"):
            torch.sparse_csr_tensor(start, col, [1.0, 2.0], (len(start) - 1, 2))
    s = torch.sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 4.0], (3,), is_coalesced=True)
    assert s.is_coalesced() and s.values().tolist() == [1, 2, 4]  # what the program claims
    assert (s * s).to_dense().tolist() == [4, 25, 0]  # functions look


def test_written_indices_raise_and_are_used():
    c = sparse().to_sparse_csr()
    x, y = torch.ones(3, 2), torch.ones(2, 2)
    assert torch.equal(c @ x, torch.tensor([[3.0, 3.0], [9.0, 9.0]]))
    c.col_indices()[0] = 1 << 40
    with pytest.raises(IndexError, match="out of range"):
        c @ x
    with pytest.raises((IndexError, RuntimeError)):
        c.to_dense()
    c.col_indices()[0] = 0
    assert c.to_dense()[0, 0] == 3 and torch.equal(y @ c, y @ c.to_dense())
    c.crow_indices()[1] = 3
    assert torch.equal(c @ x, c.to_dense() @ x)
    c.crow_indices()[1] = 9
    with pytest.raises(IndexError, match="out of range"):
        c @ x


def test_engine_level_ops_raise():
    with pytest.raises(NotImplementedError, match=r"_csr\(\): not supp.*to_dense"):
        torch._C._ops._csr(sparse(), DENSE, torch.tensor([0]), torch.tensor([0]))
    p = torch.ones(2, 3, requires_grad=True)
    with torch._C.DisableTorchFunctionSubclass(), pytest.raises(NotImplementedError, match="add"):
        torch.add(p, sparse())


def test_copies_and_files(tmp_path):
    for s in (sparse(), sparse(True), sparse().to_sparse_csr(), sparse().to_sparse_csc()):
        copies = [pickle.loads(pickle.dumps(s)), copy.deepcopy(s), copy.copy(s), s.clone()]
        for kind in ("torch", "safetensors"):
            held = {"a": [s], "b": 1}
            torch.save(held, tmp_path / "file", format=kind)
            copies.append(torch.load(tmp_path / "file")["a"][0])
        for c in copies:
            torch.testing.assert_close(c, s)
            assert c.layout == s.layout and repr(c).partition("grad")[0] in repr(s)
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(sparse(True) * 2)


def test_broken_files_raise(tmp_path):
    s = sparse()
    s._indices()[0, 0] = 7
    torch.save(s, tmp_path / "file", format="torch")
    with pytest.raises(Exception, match="size is inconsistent with indices"):
        torch.load(tmp_path / "file")


def test_modules_keep_sparse_buffers():
    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("adjacency", sparse())
            self.linear = nn.Linear(3, 2)

        def forward(self, x):
            return self.adjacency @ self.linear(x)

    net = Graph().double()
    assert net.adjacency.dtype == torch.float64
    file = io.BytesIO()
    torch.save(net.state_dict(), file, format="torch")
    file.seek(0)
    other = Graph().double()
    other.adjacency.zero_()
    other.load_state_dict(torch.load(file))
    x = torch.randn(3, 3, dtype=torch.float64)
    assert torch.equal(net(x), other(x))
    assert torch.equal(copy.deepcopy(net)(x), net(x))


def test_printing():
    assert repr(sparse(True)) == (
        "tensor(indices=tensor([[0, 1, 1],\n                       [2, 0, 2]]),\n"
        "       values=tensor([3., 4., 5.]),\n"
        f"       size=(2, 3), nnz=3, layout={torch.sparse_coo}, requires_grad=True)"
    )
    shown = repr((sparse(True) * 2).to_sparse_csr())
    assert "crow_indices=tensor([0, 1, 3])" in shown and "grad_fn=<MulBackward0>" in shown
    assert "values=tensor([], size=(0, 2))" in repr(torch.zeros(3, 2).to_sparse(1))
    assert f"{sparse()}" == repr(sparse())


def test_import_stays_lazy():
    import subprocess
    import sys

    code = "import cograd, sys; cograd.ones(2).sum(); print('cograd.sparse' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
