# SPDX-License-Identifier: BSD-3-Clause
"""SciPy's sparse matrices in and out, without copies."""

import numpy as np
import pytest

import cograd as torch

sp = pytest.importorskip("scipy.sparse")


def shares(tensor, array):
    return np.shares_memory(tensor.detach().numpy(), array)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_compressed_matrices_share_memory(kind, index):
    m = sp.random(5, 4, density=0.4, format=kind, random_state=0)
    m.indices, m.indptr = m.indices.astype(index), m.indptr.astype(index)
    t = torch.sparse.from_scipy(m)
    assert t.layout == getattr(torch, f"sparse_{kind}")
    start, other = t._pattern.parts
    assert shares(start, m.indptr) and shares(other, m.indices) and shares(t.values(), m.data)
    np.testing.assert_array_equal(t.to_dense().numpy(), m.toarray())
    back = t.to_scipy()
    assert back.format == kind and shares(t.values(), back.data) and shares(other, back.indices)
    assert shares(start, back.indptr)
    np.testing.assert_array_equal(back.toarray(), m.toarray())
    m.data[0] = 77
    assert t.to_dense().max() == 77 and back.max() == 77
    x = np.random.default_rng(0).standard_normal((4, 3))
    np.testing.assert_allclose((t @ torch.from_numpy(x)).numpy(), m @ x)


@pytest.mark.parametrize("create", [sp.bsr_matrix, sp.bsr_array])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_blocked_matrices_share_memory(create, index):
    m = create(sp.random(6, 9, density=0.3, random_state=0), blocksize=(2, 3))
    m.indices, m.indptr = m.indices.astype(index), m.indptr.astype(index)
    t = torch.sparse.from_scipy(m)
    assert t.layout == torch.sparse_bsr and t.values().shape == m.data.shape
    assert shares(t.values(), m.data) and shares(t.col_indices(), m.indices)
    np.testing.assert_array_equal(t.to_dense().numpy(), m.toarray())
    back = t.to_scipy()
    assert back.format == "bsr" and back.blocksize == (2, 3) and shares(t.values(), back.data)
    assert shares(t.col_indices(), back.indices) and shares(t.crow_indices(), back.indptr)
    np.testing.assert_array_equal(back.toarray(), m.toarray())
    x = np.random.default_rng(0).standard_normal((9, 3))
    np.testing.assert_allclose((t @ torch.from_numpy(x)).numpy(), m @ x)


def test_coordinates_and_other_formats():
    m = sp.random(5, 4, density=0.4, format="coo", random_state=0)
    t = torch.sparse.from_scipy(m, requires_grad=True)
    assert t.requires_grad and t.layout == torch.sparse_coo and shares(t._values(), m.data)
    back = t.detach().to_scipy()
    assert back.format == "coo" and shares(t._values(), back.data)
    np.testing.assert_array_equal(back.toarray(), m.toarray())
    for kind in ("lil", "dok", "bsr", "dia"):
        t = torch.sparse.from_scipy(m.asformat(kind))
        np.testing.assert_array_equal(t.to_dense().numpy(), m.toarray())
    array = sp.coo_array(m)
    np.testing.assert_array_equal(torch.sparse.from_scipy(array).to_dense().numpy(), m.toarray())


def test_refusals():
    with pytest.raises(TypeError, match="expected a sparse matrix of SciPy, got ndarray"):
        torch.sparse.from_scipy(np.eye(2))
    with pytest.raises(RuntimeError, match="requires grad"):
        torch.eye(2).to_sparse_csr().requires_grad_().to_scipy()
    with pytest.raises(NotImplementedError, match="to_scipy"):
        torch.ones(2, 2, 2).to_sparse().to_scipy()
    m = sp.eye(3, format="csr")
    m.data.flags.writeable = False
    t = torch.sparse.from_scipy(m)  # copies what must not be written
    t.values()[0] = 5
    assert m[0, 0] == 1
