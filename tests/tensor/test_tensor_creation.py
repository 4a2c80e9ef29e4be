# SPDX-License-Identifier: BSD-3-Clause
"""Creating tensors: from data, by shape, by range, like another tensor, legacy constructors."""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

import cograd as torch

ALL = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]
FLOATS = ALL[6:]


# ---------------------------------------------------------------- tensor()


@pytest.mark.parametrize(
    "data,dtype,shape",
    [
        (3, torch.int64, ()),
        (3.0, torch.float32, ()),
        (True, torch.bool, ()),
        ([], torch.float32, (0,)),
        ([[], []], torch.float32, (2, 0)),
        ([[[]]], torch.float32, (1, 1, 0)),
        ([1, 2], torch.int64, (2,)),
        ((1, 2), torch.int64, (2,)),
        ([1, 2.0], torch.float32, (2,)),
        ([True, False], torch.bool, (2,)),
        ([True, 2], torch.int64, (2,)),
        ([True, 2.5], torch.float32, (2,)),
        ([[1, 2], (3, 4)], torch.int64, (2, 2)),
        ([[1], [2.0]], torch.float32, (2, 1)),
        (range(3), torch.int64, (3,)),
        (np.float64(1), torch.float64, ()),
        (np.int32(1), torch.int32, ()),
        (np.bool_(True), torch.bool, ()),
        ([np.float64(1), np.float64(2)], torch.float64, (2,)),
        (np.arange(6, dtype=np.int16).reshape(2, 3), torch.int16, (2, 3)),
        (np.float32(2.5), torch.float32, ()),
        (np.zeros((0, 3)), torch.float64, (0, 3)),
    ],
)
def test_tensor_infers_dtype_and_shape(data, dtype, shape):
    t = torch.tensor(data)
    assert t.dtype is dtype
    assert t.shape == shape
    assert t.is_leaf and not t.requires_grad and t.is_contiguous()
    assert t.tolist() == np.array(data).tolist()


@pytest.mark.parametrize("dtype", ALL)
def test_tensor_with_dtype(dtype):
    t = torch.tensor([[0, 1], [1, 0]], dtype=dtype)
    assert t.dtype is dtype and t.tolist() == [[0, 1], [1, 0]]
    t = torch.tensor([True, False], dtype=dtype)
    assert t.tolist() == [1, 0]


def test_tensor_python_types_as_dtype():
    assert torch.tensor(1, dtype=float).dtype is torch.float64
    assert torch.tensor(1.0, dtype=int).dtype is torch.int64
    assert torch.tensor(1, dtype=bool).dtype is torch.bool


def test_tensor_copies_numpy():
    a = np.arange(3.0)
    t = torch.tensor(a)
    a[0] = 7
    assert t.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12)[::3],
        np.asfortranarray(np.ones((2, 3), np.float32)),
        np.arange(4, dtype=">f8"),
    ],
    ids=["transposed", "strided", "fortran", "big-endian"],
)
def test_tensor_from_odd_numpy_layouts(array):
    if array.dtype.byteorder == ">":
        with pytest.raises((TypeError, ValueError)):
            torch.tensor(array)
    else:
        assert torch.tensor(np.ascontiguousarray(array)).tolist() == array.tolist()
        assert torch.tensor(array).tolist() == array.tolist()


def test_tensor_of_tensors():
    assert torch.tensor([torch.tensor(1.0), 2]).tolist() == [1.0, 2.0]
    assert torch.tensor([torch.tensor(1), torch.tensor([2])]).tolist() == [1, 2]
    with pytest.raises(ValueError, match="only one element tensors can be converted"):
        torch.tensor([torch.ones(2), torch.ones(3)])


def test_tensor_from_tensor_copies_and_warns():
    src = torch.ones(2)
    with pytest.warns(UserWarning, match="copy construct from a tensor"):
        t = torch.tensor(src)
    t[0] = 5
    assert src.tolist() == [1, 1]


def test_tensor_requires_grad():
    t = torch.tensor([1.0, 2.0], requires_grad=True)
    assert t.requires_grad and t.is_leaf and t.grad is None and t.grad_fn is None
    for data, kwargs in [(1, {}), ([True], {}), ([1.0], {"dtype": torch.int32})]:
        with pytest.raises(RuntimeError, match="floating point"):
            torch.tensor(data, requires_grad=True, **kwargs)


@pytest.mark.parametrize(
    "data,error,match",
    [
        ([[1, 2], [3]], ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"),
        ([1, [2]], TypeError, None),
        ([[1], 2], (TypeError, ValueError), None),
        ("a", TypeError, "str"),
        (["a"], (TypeError, ValueError), "str"),
        (None, RuntimeError, "NoneType"),
        ([None], RuntimeError, "NoneType"),
        ({1: 2}, RuntimeError, "dict"),
        (object(), RuntimeError, "object"),
        (2**64, (ValueError, RuntimeError, OverflowError), None),
        (np.array(["a"]), TypeError, None),
        (np.array([object()]), TypeError, "object"),
    ],
)
def test_tensor_bad_data(data, error, match):
    with pytest.raises(error, match=match):
        torch.tensor(data)


def test_tensor_bad_arguments():
    with pytest.raises(TypeError):
        torch.tensor()
    with pytest.raises(TypeError):
        torch.tensor(1, 2)
    with pytest.raises(TypeError, match="dtype"):
        torch.tensor(1, dtype="float32")
    with pytest.raises(TypeError):
        torch.tensor(1, no_such_argument=1)


def test_tensor_value_out_of_range():
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.tensor([2**31], dtype=torch.int32)
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.tensor([300], dtype=torch.uint8)
    assert torch.tensor([-1], dtype=torch.uint8).tolist() == [255]
    assert torch.tensor([1.9, -1.9], dtype=torch.int64).tolist() == [1, -1]
    assert torch.tensor(2**62).item() == 2**62
    assert torch.tensor(-(2**63)).item() == -(2**63)


def test_self_containing_list_does_not_crash():
    loop = []
    loop.append(loop)
    with pytest.raises((ValueError, RecursionError, RuntimeError, TypeError)):
        torch.tensor(loop)


# ---------------------------------------------------------------- as_tensor, scalar_tensor


def test_as_tensor_keeps_identity_and_memory():
    t = torch.ones(2)
    assert torch.as_tensor(t) is t
    assert torch.as_tensor(t, dtype=torch.float32) is t
    assert torch.as_tensor(t, dtype=torch.float64).dtype is torch.float64
    a = np.ones(2)
    s = torch.as_tensor(a)
    a[0] = 9
    assert s.tolist() == [9, 1]
    assert torch.as_tensor(a, dtype=torch.float32).dtype is torch.float32
    assert torch.as_tensor([1, 2]).dtype is torch.int64
    assert torch.as_tensor(2.5, device="cpu").item() == 2.5


def test_as_tensor_keeps_history():
    w = torch.ones(2, requires_grad=True)
    y = w * 2
    assert torch.as_tensor(y) is y
    torch.as_tensor(y, dtype=torch.float64).sum().backward()
    assert w.grad.tolist() == [2, 2]


def test_scalar_tensor():
    assert torch.scalar_tensor(2).dtype is torch.float32
    assert torch.scalar_tensor(2, dtype=torch.int64).item() == 2
    assert torch.scalar_tensor(1e39, dtype=torch.bfloat16).item() == float("inf")
    for narrow in torch.float32, torch.complex64:
        with pytest.raises(RuntimeError, match="s 1e\\+39 cannot be converted"):
            torch.scalar_tensor(1e39, dtype=narrow)


# ---------------------------------------------------------------- empty, zeros, ones, full


@pytest.mark.parametrize("name", ["empty", "zeros", "ones", "rand", "randn"])
def test_shape_arguments(name):
    f = getattr(torch, name)
    assert f(2, 3).shape == (2, 3)
    assert f((2, 3)).shape == (2, 3)
    assert f([2, 3]).shape == (2, 3)
    assert f(torch.Size([2, 3])).shape == (2, 3)
    assert f(size=(2, 3)).shape == (2, 3)
    assert f(()).shape == ()
    assert f(0).shape == (0,)
    assert f(3, 0, 2).shape == (3, 0, 2)
    assert f(np.int64(2), 3).shape == (2, 3)
    assert f(torch.tensor(2), 3).shape == (2, 3)
    assert f(2, dtype=torch.float64, device="cpu", requires_grad=True).requires_grad
    assert f(2, device=torch.device("cpu")).device == torch.device("cpu")
    with pytest.raises(TypeError):
        f(2.0)
    with pytest.raises(TypeError):
        f((2, 1.5))
    with pytest.raises(TypeError):
        f("2")
    with pytest.raises(RuntimeError, match="negative"):
        f(2, -3)


@pytest.mark.parametrize("dtype", ALL)
def test_zeros_ones_full_values(dtype):
    assert torch.zeros(2, 2, dtype=dtype).tolist() == [[0, 0], [0, 0]]
    assert torch.ones(3, dtype=dtype).tolist() == [1, 1, 1]
    assert torch.full((2,), 1, dtype=dtype).tolist() == [1, 1]
    assert torch.empty(3, dtype=dtype).dtype is dtype
    like = torch.zeros(2, 3, dtype=dtype)
    for f in (torch.zeros_like, torch.ones_like, torch.empty_like):
        assert f(like).dtype is dtype and f(like).shape == (2, 3)
        assert f(like, dtype=torch.float64).dtype is torch.float64
    assert torch.full_like(like, 1).tolist() == [[1] * 3] * 2
    assert torch.ones_like(like).tolist() == [[1] * 3] * 2


def test_full_infers_dtype():
    assert torch.full((2,), 3).dtype is torch.int64
    assert torch.full((2,), True).dtype is torch.bool
    assert torch.full((2,), 3.0).dtype is torch.float32
    assert torch.full((), 2.5, dtype=torch.float64, device="cpu", requires_grad=True).requires_grad
    assert torch.full((2,), torch.tensor(3.5)).tolist() == [3.5, 3.5]
    assert torch.full((2, 0), 1.0).shape == (2, 0)
    assert torch.full(size=(1,), fill_value=math.inf).item() == math.inf
    with pytest.raises(TypeError):
        torch.full(2, 3)
    with pytest.raises(TypeError):
        torch.full((2,))


def test_integer_factories_cannot_require_grad():
    for f in (torch.zeros, torch.ones, torch.empty):
        with pytest.raises(RuntimeError, match="floating point"):
            f(2, dtype=torch.int64, requires_grad=True)


def test_impossible_sizes():
    with pytest.raises(RuntimeError):
        torch.zeros(2**62, 2**62)
    with pytest.raises(RuntimeError):
        torch.empty(2**55)
    assert torch.empty(2**40, 0).numel() == 0


def test_out_of_factories():
    buf = torch.empty(2)
    assert torch.zeros(2, out=buf) is buf and buf.tolist() == [0, 0]
    assert torch.ones((2,), out=buf) is buf and buf.tolist() == [1, 1]
    assert torch.arange(2, out=buf) is buf and buf.tolist() == [0, 1]
    assert torch.full((2,), 4.0, out=buf) is buf and buf.tolist() == [4, 4]


def test_like_keeps_dense_layout():
    t = torch.ones(2, 3).t()
    assert torch.empty_like(t).stride() == (1, 3)
    assert torch.zeros_like(t).stride() == (1, 3)
    assert torch.empty_like(t, memory_format=torch.contiguous_format).stride() == (2, 1)
    assert torch.ones_like(torch.ones(4, 6)[:, ::2]).stride() == (3, 1)
    assert torch.empty_like(torch.ones(3, 1).expand(3, 4)).is_contiguous()
    assert torch.rand_like(t).shape == (3, 2)
    assert torch.randn_like(t, dtype=torch.float64).dtype is torch.float64


def test_like_drops_grad():
    w = torch.ones(2, requires_grad=True)
    assert not torch.zeros_like(w).requires_grad
    assert torch.zeros_like(w, requires_grad=True).is_leaf
    with pytest.raises(TypeError):
        torch.zeros_like([1])


def test_full_like_casts():
    assert torch.full_like(torch.ones(2, dtype=torch.int32), 2.7).tolist() == [2, 2]
    assert torch.full_like(torch.ones(2), 2, dtype=torch.int64).dtype is torch.int64


def test_new_forms():
    t = torch.ones(2, dtype=torch.int32)
    assert t.new_tensor([1.5]).tolist() == [1]
    assert t.new_tensor([1.5], dtype=torch.float64).tolist() == [1.5]
    assert t.new_full((2,), 2).dtype is torch.int32
    assert t.new_full((2,), 2.5, dtype=torch.float32).tolist() == [2.5, 2.5]
    assert t.new_zeros(2, 3).shape == (2, 3)
    assert t.new_zeros((2, 3)).tolist() == [[0] * 3] * 2
    assert t.new_ones((2,)).tolist() == [1, 1]
    assert t.new_empty(2, dtype=torch.float64).dtype is torch.float64
    assert torch.ones(1).new_zeros(2, requires_grad=True).requires_grad
    assert torch.ones(2).new_empty((0, 2)).shape == (0, 2)


def test_empty_strided():
    t = torch.empty_strided((2, 3), (1, 2), dtype=torch.float64)
    assert t.stride() == (1, 2) and t.shape == (2, 3) and t.dtype is torch.float64
    t.copy_(torch.arange(6).reshape(2, 3))
    assert t.tolist() == [[0, 1, 2], [3, 4, 5]]


# ---------------------------------------------------------------- ranges


@pytest.mark.parametrize(
    "args,want,dtype",
    [
        ((5,), [0, 1, 2, 3, 4], torch.int64),
        ((3.0,), [0.0, 1.0, 2.0], torch.float32),
        ((1, 5, 2), [1, 3], torch.int64),
        ((5, 1, -2), [5, 3], torch.int64),
        ((1, 1), [], torch.int64),
        ((0,), [], torch.int64),
        ((-2, 2), [-2, -1, 0, 1], torch.int64),
        ((0, 2.5), [0.0, 1.0, 2.0], torch.float32),
        ((0, 1, 0.25), [0.0, 0.25, 0.5, 0.75], torch.float32),
        ((1.0, 0.0, -0.5), [1.0, 0.5], torch.float32),
    ],
)
def test_arange(args, want, dtype):
    t = torch.arange(*args)
    assert t.tolist() == want and t.dtype is dtype


def test_arange_keywords():
    assert torch.arange(start=1, end=4).tolist() == [1, 2, 3]
    assert torch.arange(end=4).tolist() == [0, 1, 2, 3]
    assert torch.arange(1, 8, step=3).tolist() == [1, 4, 7]
    assert torch.arange(3, dtype=torch.float64).dtype is torch.float64
    assert torch.arange(3, dtype=torch.uint8).tolist() == [0, 1, 2]
    assert torch.arange(torch.tensor(3)).tolist() == [0, 1, 2]
    assert torch.arange(3.0, requires_grad=True).requires_grad
    assert torch.arange(0, 1, 0.1).shape == (10,)
    assert torch.arange(2**40, 2**40 + 2).tolist() == [2**40, 2**40 + 1]
    np.testing.assert_allclose(
        torch.arange(0, 1000, 0.1, dtype=torch.float64).numpy(), np.arange(0, 1000, 0.1), rtol=1e-14
    )


@pytest.mark.parametrize(
    "args",
    [(1, 5, -1), (5, 1), (1, 5, 0), (math.nan,), (math.inf,), (0, -math.inf, -1)],
)
def test_arange_errors(args):
    with pytest.raises(RuntimeError):
        torch.arange(*args)


@pytest.mark.parametrize("dtype", FLOATS[2:])
@pytest.mark.parametrize(
    "a,b,n", [(0, 1, 5), (-3, 7, 11), (2, 2, 3), (1, -1, 4), (0, 1, 1), (0, 1, 0)]
)
def test_linspace(a, b, n, dtype):
    t = torch.linspace(a, b, n, dtype=dtype)
    assert t.dtype is dtype
    np.testing.assert_allclose(t.numpy(), np.linspace(a, b, n), rtol=1e-6, atol=1e-6)
    if n > 1:
        assert t[0].item() == a and t[-1].item() == b


def test_linspace_forms():
    assert torch.linspace(0, 1, steps=3).dtype is torch.float32
    assert torch.linspace(start=-1, end=1, steps=3, dtype=torch.float64).tolist() == [-1, 0, 1]
    assert torch.linspace(0, 10, 5, dtype=torch.int64).tolist() == [0, 2, 5, 7, 10]
    assert torch.linspace(0, 10, 4, dtype=torch.int32).tolist() == [0, 3, 6, 10]
    assert torch.linspace(-math.pi, math.pi, 2000, device="cpu").shape == (2000,)
    assert torch.linspace(0, 1, 2, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.linspace(0, 1, -1)
    with pytest.raises(TypeError):
        torch.linspace(0, 1)


def test_linspace_is_symmetric():
    t = torch.linspace(-1, 1, 101, dtype=torch.float64)
    assert torch.allclose(t, -t.flip(0), rtol=0, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_linspace_rounds_once(dtype):
    """Each value is the rounded start + step * i, computed from the nearer end, as in torch."""
    one = {torch.float32: np.float32, torch.float64: np.float64}[dtype]
    rng = np.random.default_rng(5)
    for n in (2, 3, 8, 29, 60, 501, 40_000):
        start, end = (one(v) for v in rng.normal(size=2) * 100)
        step = Fraction(float((end - start) / one(n - 1)))
        got = torch.linspace(float(start), float(end), n, dtype=dtype).tolist()
        for i in {0, 1, n // 2 - 1, n // 2, n - 2, n - 1, *rng.integers(0, n, 60).tolist()}:
            below = Fraction(float(start)) + step * i
            exact = below if i < n // 2 else Fraction(float(end)) - step * (n - 1 - i)
            near = float(exact)  # float32: a correctly rounded double, rounded again
            assert got[i] == float(one(near)), (n, i)
    assert torch.linspace(0, 1, 12).double().sum().item() == 5.999999970197678  # as in torch


@pytest.mark.parametrize(
    "dtype, values",
    [
        (torch.float16, [0.3388671875, 0.572265625, 1.466796875]),
        (torch.bfloat16, [0.33984375, 0.57421875, 1.46875]),
    ],
)
def test_linspace_of_halves(dtype, values):
    """Halves round the product, then the sum; recorded from torch."""
    assert torch.linspace(0.3, 1.7, 37, dtype=dtype)[[1, 7, 30]].tolist() == values


def test_linspace_wider_than_its_dtype():
    """The step overflows, which gives NaN in torch."""
    got = torch.linspace(-3e38, 3e38, 5).tolist()
    assert got == pytest.approx([-3e38, -1.5e38, 0, 1.5e38, 3e38], rel=1e-6)


def test_logspace():
    np.testing.assert_allclose(torch.logspace(0, 3, 4).numpy(), [1, 10, 100, 1000], rtol=1e-5)
    assert torch.logspace(0, 3, 4, base=2).tolist() == [1, 2, 4, 8]
    np.testing.assert_allclose(
        torch.logspace(-2, 2, 9, base=3.0, dtype=torch.float64).numpy(),
        np.logspace(-2, 2, 9, base=3.0),
        rtol=1e-13,
    )
    assert torch.logspace(0, 1, 1).tolist() == [1]
    assert torch.logspace(0, 1, 0).shape == (0,)


def test_eye():
    for n, m in [(3, None), (2, 3), (3, 2), (0, None), (2, 0)]:
        got = torch.eye(n) if m is None else torch.eye(n, m)
        assert got.tolist() == np.eye(n, m).tolist()
    assert torch.eye(2, dtype=torch.bool).tolist() == [[True, False], [False, True]]
    assert torch.eye(2, dtype=torch.float64, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="-1"):
        torch.eye(-1)


@pytest.mark.parametrize("k", [-5, -2, -1, 0, 1, 2, 5])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (2, 3, 3), (0, 3), (3, 0)])
def test_tril_triu(shape, k):
    x = np.arange(1.0, 1 + math.prod(shape)).reshape(shape)
    for name in ("tril", "triu"):
        want = getattr(np, name)(x, k)
        t = torch.tensor(x)
        np.testing.assert_array_equal(getattr(torch, name)(t, k).numpy(), want)
        np.testing.assert_array_equal(getattr(t, name)(diagonal=k).numpy(), want)
        s = t.transpose(-1, -2).contiguous().transpose(-1, -2)
        np.testing.assert_array_equal(getattr(torch, name)(s, k).numpy(), want)
        assert getattr(t, name + "_")(k) is t
        np.testing.assert_array_equal(t.numpy(), want)


def test_tril_needs_matrix():
    with pytest.raises(RuntimeError, match="at least 2 dim"):
        torch.tril(torch.ones(2))
    with pytest.raises(RuntimeError, match="at least 2 dim"):
        torch.triu(torch.ones(()))


@pytest.mark.parametrize("k", [-4, -1, 0, 1, 4])
@pytest.mark.parametrize("n,m", [(3, 3), (2, 4), (4, 2), (0, 2)])
def test_tril_triu_indices(n, m, k):
    lo, up = torch.tril_indices(n, m, k), torch.triu_indices(n, m, k)
    assert lo.tolist() == [i.tolist() for i in np.tril_indices(n, k, m)]
    assert up.tolist() == [i.tolist() for i in np.triu_indices(n, k, m)]
    assert lo.dtype is torch.int64 and lo.shape[0] == 2
    assert torch.tril_indices(2, 2, dtype=torch.int32).dtype is torch.int32


# ---------------------------------------------------------------- meshgrid


def test_meshgrid():
    a, b, c = torch.arange(2), torch.arange(3), torch.arange(4)
    for indexing in ("ij", "xy"):
        for args in [(a,), (a, b), (a, b, c)]:
            got = torch.meshgrid(*args, indexing=indexing)
            want = np.meshgrid(*[x.numpy() for x in args], indexing=indexing)
            assert isinstance(got, tuple)
            for g, w in zip(got, want, strict=True):
                np.testing.assert_array_equal(g.numpy(), w)
    assert torch.meshgrid([a, b], indexing="ij")[0].shape == (2, 3)
    assert torch.meshgrid(torch.tensor(1), a, indexing="ij")[0].tolist() == [[1, 1]]


def test_meshgrid_errors():
    with pytest.raises(RuntimeError, match="indexing"):
        torch.meshgrid(torch.arange(2), indexing="zz")
    with pytest.raises(RuntimeError):
        torch.meshgrid(torch.ones(2, 2), indexing="ij")
    with pytest.raises(RuntimeError, match="dtype"):
        torch.meshgrid(torch.arange(2), torch.arange(2.0), indexing="ij")


def test_meshgrid_differentiable():
    x = torch.ones(2, requires_grad=True)
    g, _ = torch.meshgrid(x, torch.ones(3), indexing="ij")
    g.sum().backward()
    assert x.grad.tolist() == [3, 3]


# ---------------------------------------------------------------- legacy constructors


def test_legacy_constructor():
    assert torch.Tensor(2, 3).shape == (2, 3)
    assert torch.Tensor(3).shape == (3,)
    assert torch.Tensor().shape == (0,)
    assert torch.Tensor([2, 3]).tolist() == [2.0, 3.0]
    assert torch.Tensor((2, 3)).tolist() == [2.0, 3.0]
    assert torch.Tensor([[1, 2]]).shape == (1, 2)
    assert torch.Tensor(torch.Size([2, 3])).shape == (2, 3)
    assert torch.Tensor(2, 3).dtype is torch.float32
    assert torch.Tensor(np.arange(3)).tolist() == [0, 1, 2]
    with pytest.raises(TypeError):
        torch.Tensor(2.5)


def test_legacy_constructor_of_tensor_shares():
    t = torch.ones(2)
    u = torch.Tensor(t)
    u[0] = 4
    assert t.tolist() == [4, 1]


def test_typed_legacy_constructors():
    assert torch.FloatTensor([1, 2]).dtype is torch.float32
    assert torch.LongTensor([1, 2]).tolist() == [1, 2]
    assert torch.DoubleTensor(2, 3).shape == (2, 3)
    assert torch.BoolTensor([1, 0]).tolist() == [True, False]


def test_typed_tensors_of_the_gpu_are_a_kind_of_their_own():
    t = torch.FloatTensor([1])
    assert isinstance(t, torch.FloatTensor) and not isinstance(t, torch.cuda.FloatTensor)
    assert repr(torch.cuda.ByteTensor) == "<class 'cograd.cuda.ByteTensor'>"
    for name in ("torch.cuda", "torch.cuda.FloatTensors", "cuda.FloatTensor", "torch.x.LongTensor"):
        with pytest.raises(ValueError, match="invalid type"):
            t.type(name)
    assert t.type("torch.LongTensor").dtype is torch.int64
    if not torch.cuda.is_available():  # converts the dtype only if there is a GPU to go to
        for kind in (torch.cuda.DoubleTensor, "torch.cuda.DoubleTensor"):
            with pytest.raises(RuntimeError, match="no cuda device"):
                t.type(kind)
        with pytest.raises(RuntimeError, match="no cuda device"):
            torch.cuda.FloatTensor(2)


def test_size_type():
    s = torch.ones(2, 3).shape
    assert isinstance(s, torch.Size) and isinstance(s, tuple)
    assert s == (2, 3) and s != (3, 2) and hash(s) == hash((2, 3))
    assert s.numel() == 6 and torch.Size([]).numel() == 1
    assert isinstance(s[1:], torch.Size) and s[-1] == 3 and len(s) == 2
    assert isinstance(s + (4,), torch.Size) and s + (4,) == (2, 3, 4)
    assert repr(s).endswith("Size([2, 3])")
    n, m = s
    assert (n, m) == (2, 3)
    assert list(s) == [2, 3] and 3 in s and s.index(3) == 1 and s.count(2) == 1


# ---------------------------------------------------------------- devices


def test_device_object():
    d = torch.device("cpu")
    assert d.type == "cpu" and d.index is None
    assert str(d) == "cpu" and repr(d) == "device(type='cpu')"
    assert d == torch.device("cpu") and hash(d) == hash(torch.device("cpu"))
    assert torch.device(d) == d
    assert torch.device("cpu", 0).index == 0 and torch.device("cpu:0") == torch.device("cpu", 0)
    assert torch.device("cpu:0") != d
    assert str(torch.device("cpu:0")) == "cpu:0"
    assert d != "cpu"
    assert torch.ones(1).device == d
    assert torch.ones(1, device="cpu").device.type == "cpu"


@pytest.mark.parametrize("text", ["foo", "", "cpu:", "cpu:-1", "cpu:x", "cpu:0:0"])
def test_bad_device_strings(text):
    with pytest.raises(RuntimeError):
        torch.device(text)


@pytest.mark.parametrize(
    "call",
    [
        lambda d: torch.device(d),
        lambda d: torch.device(d, 0),
        lambda d: torch.ones(1).to(d),
        lambda d: torch.ones(1).new_zeros(2, device=d),
        lambda d: torch.zeros(2, device=d),
        lambda d: torch.Generator(d),
    ],
)
def test_a_device_string_with_half_a_surrogate_pair(call):
    with pytest.raises(RuntimeError, match=r"device.*error unpacking string as utf-8"):
        call("\ud800")


@pytest.mark.parametrize("index", [0, 1])
def test_device_of_an_index(index):
    with pytest.raises(RuntimeError, match=f"got the index {index} of an accelerator.*no GPU"):
        torch.device(index)


def test_what_is_no_index_of_a_device():
    with pytest.raises(RuntimeError, match="index must not be negative, got -1"):
        torch.device(-1)
    with pytest.raises(TypeError, match="got a bool"):
        torch.device(True)


def test_device_arguments():
    with pytest.raises(TypeError):
        torch.device(1.5)
    with pytest.raises(RuntimeError):
        torch.zeros(1, device="foo")


def test_to_cpu_is_identity():
    t = torch.ones(2)
    assert t.cpu() is t
    assert t.to("cpu") is t
    assert t.to(torch.device("cpu"), torch.float32) is t
    assert t.to("cpu", torch.float64).dtype is torch.float64
    assert t.to(t) is t
    assert t.to("cpu", copy=True) is not t
    assert t.to(dtype=torch.float64).dtype is torch.float64
    assert (
        t.to(device="cpu", dtype=torch.float16, non_blocking=True, copy=False).dtype
        is torch.float16
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.zeros(2, device="cuda"),
        lambda: torch.tensor([1.0], device="cuda"),
        lambda: torch.ones(2).to("cuda"),
        lambda: torch.ones(2).cuda(),
        lambda: torch.arange(3, device=torch.device("cuda", 0)),
    ],
)
def test_cuda_is_a_clean_error(call):
    with pytest.raises((RuntimeError, AssertionError), match="(?i)cuda"):
        call()


def test_cuda_is_not_available():
    assert torch.cuda.is_available() is False


@pytest.mark.parametrize(
    "args, type, index, text",
    [
        (("cuda",), "cuda", None, "device(type='cuda')"),
        (("cuda:1",), "cuda", 1, "device(type='cuda', index=1)"),
        (("cuda", 0), "cuda", 0, "device(type='cuda', index=0)"),
        (("meta",), "meta", None, "device(type='meta')"),
        (("mps:0",), "mps", 0, "device(type='mps', index=0)"),
        (("cpu",), "cpu", None, "device(type='cpu')"),
    ],
)
def test_devices_that_are_not_here_are_objects(args, type, index, text):
    device = torch.device(*args)
    assert (device.type, device.index, repr(device)) == (type, index, text)
    assert torch.device(str(device)) == device and hash(torch.device(str(device))) == hash(device)
    assert pickle.loads(pickle.dumps(device)) == device == copy.deepcopy(device)
    assert (device == torch.device("cpu")) is (type == "cpu")


@pytest.mark.parametrize("text", ["cuda:", "cuda:-1", "cuda:x", "cuda:01", "cuda:1:2", "cuda:1000"])
def test_malformed_devices(text):
    with pytest.raises(RuntimeError, match="Invalid device string"):
        torch.device(text)


def test_unknown_devices():
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda.* at start.*: tpu9"):
        torch.device("tpu9")


@pytest.mark.parametrize("kind", ["cuda", "cuda:1", "mps"])
@pytest.mark.parametrize(
    "call",
    [
        lambda d: torch.zeros(2, device=d),
        lambda d: torch.tensor([1.0], device=d),
        lambda d: torch.as_tensor([1.0], device=d),
        lambda d: torch.asarray([1.0], device=d),
        lambda d: torch.randn(2, device=d),
        lambda d: torch.empty_like(torch.ones(2), device=d),
        lambda d: torch.ones(2).to(d),
        lambda d: torch.ones(2).to(device=d),
        lambda d: torch.ones(2).new_zeros(2, device=d),
        lambda d: torch.nn.Linear(2, 2).to(d),
        lambda d: torch.nn.Linear(2, 2).to_empty(device=d),
        lambda d: torch.Generator(device=d),
    ],
)
def test_use_of_a_device_that_is_not_here_says_so(call, kind):
    text = f"device '{kind}' is not available: .*, so there is no {kind.split(':')[0]} device"
    for device in (kind, torch.device(kind)):
        with pytest.raises(RuntimeError, match=text):
            call(device)


def test_modules_and_devices():
    layer = torch.nn.Linear(2, 3)
    weight = layer.weight
    with pytest.raises(RuntimeError, match="(?i)cuda"):
        layer.cuda()
    assert torch.nn.ReLU().cuda() is not None  # nothing to move
    model = torch.nn.Sequential(layer, torch.nn.ReLU())
    before = weight.data_ptr()
    assert model.to_empty(device="cpu") is model
    assert layer.weight is weight and weight.shape == (3, 2) and weight.data_ptr() != before
    before = weight.data_ptr()
    model.to_empty(device=torch.device("cpu"), recurse=False)
    assert weight.data_ptr() == before
