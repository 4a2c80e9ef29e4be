# SPDX-License-Identifier: BSD-3-Clause
"""Complex numbers: creation, promotion, exchange, printing, views of parts, rules of gradients."""

import pickle

import numpy as np
import pytest

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck

C8, C16 = torch.complex64, torch.complex128
Z = [1 + 2j, 3 - 4.5j]


def leaf(*values, dtype=C16):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


# ---- dtypes and promotion -----------------------------------------------------------------------


def test_dtypes():
    assert torch.cfloat is C8 and torch.cdouble is C16
    assert C8.is_complex and not C8.is_floating_point and C8.is_signed
    assert (C8.itemsize, C16.itemsize) == (8, 16)
    assert C16.to_real() is torch.float64 and torch.float64.to_complex() is C16
    assert torch.float32.to_complex() is C8 and torch.int64.to_real() is torch.int64
    assert repr(C8) == "cograd.complex64"
    assert torch.finfo(C8).eps == torch.finfo(torch.float32).eps
    with pytest.raises(RuntimeError, match="no complex dtype"):
        torch.int32.to_complex()
    with pytest.raises(TypeError, match="requires an integer dtype"):
        torch.iinfo(C8)


@pytest.mark.parametrize(
    ("a", "b", "joint"),
    [
        ("complex64", "complex128", "complex128"),
        ("complex64", "float64", "complex128"),
        ("complex64", "float16", "complex64"),
        ("complex64", "bfloat16", "complex64"),
        ("complex64", "int64", "complex64"),
        ("complex128", "bool", "complex128"),
    ],
)
def test_promotion(a, b, joint):
    a, b, joint = (getattr(torch, n) for n in (a, b, joint))
    assert torch.promote_types(a, b) is torch.promote_types(b, a) is joint
    assert torch.can_cast(b, a) and torch.can_cast(a, b) is b.is_complex


def test_numbers_promote_by_kind_not_by_width():
    assert (torch.zeros(2) + 1j).dtype is C8
    assert (torch.zeros(2, dtype=torch.float64) + 1j).dtype is C16
    assert (torch.zeros(2, dtype=torch.int64) * 1j).dtype is C8
    assert (torch.zeros(2, dtype=C8) * 2.5).dtype is C8
    assert torch.result_type(torch.zeros(2), torch.tensor(1j, dtype=C16)) is C8
    assert torch.result_type(torch.zeros(2, dtype=C8), torch.zeros((), dtype=torch.float64)) is C8


# ---- creation and exchange ----------------------------------------------------------------------


def test_creation():
    assert torch.tensor(Z).dtype is C8
    assert torch.tensor([1, 2.5, 1j]).tolist() == [1, 2.5, 1j]
    assert torch.tensor(np.array(Z)).dtype is C16
    assert torch.tensor(Z, dtype=C16).tolist() == Z
    assert torch.full((2,), 1j).dtype is C8
    assert torch.zeros(2, dtype=C8).tolist() == [0, 0]
    assert torch.eye(2, dtype=C8).tolist() == [[1, 0], [0, 1]]
    assert torch.arange(3, dtype=C16).tolist() == [0, 1, 2]
    assert torch.linspace(0, 1, 3, dtype=C8).tolist() == [0, 0.5, 1]
    assert torch.as_tensor(np.array(Z)).tolist() == Z
    assert torch.tensor([True, 1j]).dtype is C8
    with pytest.raises((RuntimeError, TypeError)):
        torch.tensor(Z, dtype=torch.float32)
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
        torch.arange(3j)


def test_elements():
    z = torch.tensor(Z, dtype=C16)
    assert z[0].item() == Z[0] and complex(z[1]) == Z[1] and bool(z[0])
    assert list(z)[1] == Z[1] and z.tolist() == Z
    assert float(torch.tensor(2 + 0j)) == 2.0
    with pytest.raises(RuntimeError, match="complex"):
        float(z[0])
    with pytest.raises(RuntimeError, match="complex"):
        int(z[0])
    z[0] = 5j
    assert z[0].item() == 5j


def test_exchange():
    z = torch.tensor(Z, dtype=C8)
    assert z.numpy().dtype == np.complex64
    z.numpy()[0] = 7
    assert z[0].item() == 7
    assert torch.from_numpy(np.array(Z)).tolist() == Z
    assert torch.from_dlpack(z).data_ptr() == z.data_ptr()
    assert np.from_dlpack(z).tolist() == z.tolist()
    assert pickle.loads(pickle.dumps(z)).tolist() == z.tolist()
    assert memoryview(torch.tensor(Z, dtype=C16)).format == "Zd"
    assert torch.tensor(Z).to(torch.float32).tolist() == [1, 3]
    assert torch.tensor([1.5]).to(C16).tolist() == [1.5]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (Z, "tensor([1.+2.0000j, 3.-4.5000j])"),
        ([1 + 2j], "tensor([1.+2.j])"),
        ([1e-9 + 2j, 1e5 - 4j], "tensor([1.0000e-09+2.j, 1.0000e+05-4.j])"),
        ([complex("nan"), complex("inf")], "tensor([nan+0.j, inf+0.j])"),
        (1 + 2j, "tensor(1.+2.j)"),
        ([100000 + 1j, 2 - 300j], "tensor([1.0000e+05+1.j, 2.0000e+00-300.j])"),
    ],
)
def test_printing(values, text):
    assert repr(torch.tensor(values)) == text


def test_printing_names_the_other_dtype():
    assert repr(torch.tensor([1j], dtype=C16)) == "tensor([0.+1.j], dtype=cograd.complex128)"
    assert "dtype=cograd.complex64" in repr(torch.zeros(0, dtype=C8))


# ---- parts --------------------------------------------------------------------------------------


def test_parts_share_memory():
    z = torch.tensor(Z, dtype=C16)
    z.real[0] = 9
    z.imag = torch.tensor([0.5, 1.5], dtype=torch.float64)
    assert z.tolist() == [9 + 0.5j, 3 + 1.5j]
    pairs = torch.view_as_real(z)
    assert pairs.shape == (2, 2) and pairs.data_ptr() == z.data_ptr()
    pairs[1, 1] = -1
    assert z[1].item() == 3 - 1j
    back = torch.view_as_complex(pairs)
    back.mul_(1j)
    assert z.tolist() == [-0.5 + 9j, 1 + 3j]
    z.real = 4
    assert z.tolist() == [4 + 9j, 4 + 3j]


def test_parts_of_real_tensors():
    x = torch.tensor([1.0, -2.0])
    assert torch.real(x) is x or x.real.data_ptr() == x.data_ptr()
    assert x.conj().tolist() == x.tolist() and torch.isreal(x).all()
    assert torch.angle(x).tolist() == pytest.approx([0, np.pi])
    with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-complex"):
        _ = x.imag
    with pytest.raises((RuntimeError, NotImplementedError), match="view_as_real"):
        torch.view_as_real(x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.zeros(3), "last dimension of size 2"),
        (lambda: torch.zeros(()), "one or more dimensions"),
        (lambda: torch.zeros(3, 2)[:, ::1].t().contiguous().t(), "stride 1"),
        (lambda: torch.zeros(7)[1:].view(3, 2), "divisible by 2"),
        (lambda: torch.zeros(3, 3)[:, :2], "stride divisible by 2"),
        (lambda: torch.zeros(2, dtype=torch.int64), "only supported for|not implemented"),
    ],
)
def test_what_is_no_view_as_complex(make, message):
    with pytest.raises((RuntimeError, NotImplementedError), match=message):
        torch.view_as_complex(make())


def test_views_of_parts_in_the_graph():
    z = leaf(1 + 2j, 3 - 4j)
    c = z * 1
    c.real.mul_(3)
    c.abs().pow(2).sum().backward()
    assert z.grad.tolist() == [18 + 4j, 54 - 8j]
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    pairs = x * 1
    torch.view_as_complex(pairs).mul_(2j)
    assert pairs.tolist() == [[-4, 2]]
    (pairs * torch.tensor([1.0, 10.0], dtype=torch.float64)).sum().backward()
    assert x.grad.tolist() == [[20, -2]]


def test_a_view_of_parts_keeps_up_with_its_base():
    z = leaf(1 + 2j)
    c = z * 1
    part = c.imag
    c.mul_(1j)
    part.sum().backward()
    assert part.tolist() == [1] and z.grad.tolist() == [1]


def test_joining():
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([[3.0], [4.0]])
    assert torch.complex(a, b).tolist() == [[1 + 3j, 2 + 3j], [1 + 4j, 2 + 4j]]
    assert torch.polar(torch.tensor(2.0), torch.tensor(0.0)).item() == 2
    with pytest.raises(RuntimeError, match="Expected object of scalar type Float but got scalar"):
        torch.complex(a, b.double())
    with pytest.raises((RuntimeError, NotImplementedError), match="Half, Float or Double|not impl"):
        torch.complex(a.long(), a.long())


# ---- rules --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda z: z < z,
        lambda z: z.max(),
        lambda z: z.sort(),
        lambda z: torch.relu(z),
        lambda z: z.floor(),
        lambda z: z.softmax(0),
        lambda z: z.argmax(),
        lambda z: torch.clamp(z, 0),
        lambda z: z % 2,
        lambda z: z // 2,
        lambda z: z.median(),
        lambda z: torch.erf(z),
        lambda z: torch.nn.functional.gelu(z),
        lambda z: torch.zeros(2).fill_(1j),
        lambda z: torch.zeros(2).add_(1j),
        lambda z: torch.zeros(2).copy_(z).masked_fill(torch.tensor([True, False]), 1j),
        lambda z: torch.randint(3, (2,), dtype=C8),
        lambda z: torch.add(torch.zeros(2), torch.zeros(2), alpha=1j),
        lambda z: torch.addmm(torch.zeros(1), torch.zeros(1, 1), torch.zeros(1, 1), beta=1j),
    ],
)
def test_what_has_no_meaning_raises(call):
    z = torch.tensor(Z)
    with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
        call(z)
    assert z.tolist() == Z


def test_gradients_are_conjugate_wirtinger():
    z = leaf(3 + 4j)
    z.abs().sum().backward()
    assert z.grad.item() == pytest.approx(0.6 + 0.8j)  # the direction of steepest ascent
    z.grad = None
    (z * z).real.sum().backward()
    assert z.grad.item() == 6 - 8j  # 2 conj(z)


def test_real_inputs_get_real_gradients():
    x = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    z = leaf(1 + 1j)
    (x * z).abs().sum().backward()
    assert x.grad.dtype is torch.float64 and x.grad.item() == pytest.approx(2**0.5)
    assert z.grad.dtype is C16


def test_backward_of_a_complex_scalar_needs_a_gradient():
    z = leaf(1 + 1j)
    with pytest.raises(
        RuntimeError, match="only for real scalar outputs but got cograd.complex128"
    ):
        (z * z).backward()
    (z * z).backward(torch.tensor([1j], dtype=C16))
    assert z.grad.item() == pytest.approx(1j * np.conj(2 + 2j))


def test_zero_has_the_gradient_zero():
    for f in (torch.abs, torch.sgn, torch.angle):
        z = leaf(0j)
        f(z).real.sum().backward()
        assert z.grad.item() == 0


@pytest.mark.parametrize(
    "f",
    [
        lambda z: z * z.conj(),
        lambda z: z.abs(),
        lambda z: z.angle(),
        lambda z: torch.sgn(z),
        lambda z: torch.view_as_real(z.exp()),
        lambda z: z.imag * z.real,
        lambda z: z ** (1 + 1j),
        lambda z: torch.outer(z, z).mm(torch.outer(z, z.conj())),
        lambda z: z.std(),
        lambda z: z.cumprod(0),
        lambda z: torch.acosh(z),
    ],
)
def test_every_derivative(f):
    z = leaf(0.5 + 1j, -1.2 + 0.3j, 0.8 - 0.7j)
    flags = {"check_forward_ad": True, "check_batched_grad": True}
    assert gradcheck(f, (z,), **flags, check_batched_forward_grad=True)
    assert gradcheck(f, (z,), fast_mode=True)
    assert gradgradcheck(f, (z,), check_fwd_over_rev=True)


def test_gradcheck_finds_a_missing_conj():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    with pytest.raises(RuntimeError, match=r"output element \(0,\)\.(real|imag) with respect"):
        gradcheck(Square.apply, (leaf(1 + 2j),))


def test_transforms_of_complex_programs():
    def f(z):
        return (z * z.conj()).real.sum() + (z * z).imag.sum()

    z = torch.tensor([[1 + 2j, -1j], [0.5 + 0j, 2 - 1j]], dtype=C16)
    each = torch.func.vmap(torch.func.grad(f))(z)
    for row, found in zip(z, each, strict=True):
        wanted = torch.func.grad(f)(row)
        assert torch.allclose(found, wanted)
    tangent = torch.ones_like(z[0]) * (1 + 1j)
    _, slope = torch.func.jvp(f, (z[0],), (tangent,))
    g = torch.func.grad(f)(z[0])
    assert slope.item() == pytest.approx((g.conj() * tangent).real.sum().item())


def test_reductions():
    z = torch.tensor([[1 + 1j, 2], [3j, 4 - 2j]], dtype=C16)
    n = z.numpy()
    for dim in (None, 0, 1, (0, 1)):
        np.testing.assert_allclose(z.sum(dim).numpy(), n.sum(axis=dim))
        np.testing.assert_allclose(z.mean(dim).numpy(), n.mean(axis=dim))
    np.testing.assert_allclose(z.prod().item(), n.prod())
    np.testing.assert_allclose(z.prod(0, keepdim=True).numpy(), n.prod(axis=0, keepdims=True))
    np.testing.assert_allclose(z.t().cumprod(1).numpy(), n.T.cumprod(axis=1))
    np.testing.assert_allclose(z.var(correction=0).item(), n.var())
    assert z.any().item() and z.all().item() and z.count_nonzero().item() == 4
    assert torch.zeros(0, dtype=C8).sum().item() == 0
    assert torch.zeros(0, dtype=C8).prod().item() == 1
    assert torch.zeros(2, 0, dtype=C8).prod(1).tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [C8, C16])
@pytest.mark.parametrize("n", [1, 7, 15, 16, 17, 100, 4099])
def test_full_sums(dtype, n):
    z = torch.randn(n, dtype=dtype)
    wanted = z.numpy().astype(np.complex128).sum()
    np.testing.assert_allclose(z.sum().item(), wanted, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(z.mean().item(), wanted / n, rtol=1e-5, atol=1e-4)


def test_random_numbers():
    z = torch.randn(20000, dtype=C16)
    assert z.real.var().item() == pytest.approx(0.5, abs=0.03)
    assert z.imag.var().item() == pytest.approx(0.5, abs=0.03)
    u = torch.rand(1000, dtype=C8)
    for part in (u.real, u.imag):
        assert 0 <= part.min().item() and part.max().item() < 1
    assert torch.rand_like(u).dtype is C8 and torch.randn_like(u).shape == u.shape


@pytest.mark.parametrize("name", "exp log sqrt sin cos tan asin acos atan sinh cosh tanh".split())
def test_edge_values_are_those_of_numpy(name):
    alias = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
    values = [0, 1, -1, 1j, -1j, 0.5 + 0.5j, -2 + 0j, complex(-2, -0.0), 3 - 4j, 1e-8 + 1e-8j]
    z = torch.tensor(values, dtype=C16)
    with np.errstate(all="ignore"):
        wanted = getattr(np, alias.get(name, name))(z.numpy())
    found = getattr(torch, name)(z).numpy()
    fine = np.isfinite(wanted)
    np.testing.assert_allclose(found[fine], wanted[fine], rtol=1e-12, atol=1e-15)


def test_roots_of_large_and_small_numbers():
    z = torch.tensor([1e300 + 1e300j, 1e-300 - 1e-300j, -4, complex(-4, -0.0)], dtype=C16)
    np.testing.assert_allclose(torch.sqrt(z).numpy(), np.sqrt(z.numpy()), rtol=1e-14)
    q = torch.tensor([1e300 + 1e300j], dtype=C16)
    assert (q / q).item() == pytest.approx(1)
    assert torch.abs(q).item() == pytest.approx(2**0.5 * 1e300)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 9), (17, 3)])
@pytest.mark.parametrize("dtype", [C8, C16])
def test_shapes_and_layouts(shape, dtype):
    z, w = torch.randn(*shape, dtype=dtype), torch.randn(*shape, dtype=dtype)
    for a, b in ((z, w), (z.t() if z.dim() == 2 else z, w.t() if w.dim() == 2 else w)):
        for f, g in (
            (torch.mul, np.multiply),
            (torch.add, np.add),
            (torch.div, np.divide),
            (lambda x, y: x.exp() + y.abs(), lambda x, y: np.exp(x) + np.abs(y)),
        ):
            wanted = g(a.numpy(), b.numpy())
            np.testing.assert_allclose(f(a, b).numpy(), wanted, rtol=3e-5, atol=1e-6)
    out = torch.empty(shape, dtype=dtype)
    torch.mul(z, w, out=out)
    np.testing.assert_array_equal(out.numpy(), (z * w).numpy())
    z.mul_(z)
    assert z.shape == torch.Size(shape)


def test_no_part_is_lost_on_the_way_to_a_real_tensor():
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.mul(torch.ones(2), 1j, out=torch.empty(2))
    with pytest.raises(RuntimeError):
        torch.full((2,), 1j, dtype=torch.float32)
    x = torch.zeros(2)
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
        x[0] = 1j
    assert x.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
        ("AdamW", {}),
        ("RMSprop", {"centered": True, "momentum": 0.5}),
        ("Adagrad", {"lr_decay": 0.1}),
        ("SGD", {"momentum": 0.9}),
    ],
)
def test_optimizers_see_the_parts(name, options):
    start = torch.tensor([1 + 2j, -0.5 - 1j], dtype=C16)
    z = start.clone().requires_grad_()
    pairs = torch.view_as_real(start.clone()).clone().requires_grad_()
    ours = getattr(torch.optim, name)([z], lr=0.1, **options)
    theirs = getattr(torch.optim, name)([pairs], lr=0.1, **options)
    for _ in range(4):
        for optimizer, value in ((ours, z), (theirs, torch.view_as_complex(pairs))):
            optimizer.zero_grad()
            ((value * (1 + 0.5j)).exp() * value).abs().sum().backward()
            optimizer.step()
    assert torch.allclose(torch.view_as_real(z.detach()), pairs.detach(), rtol=1e-12, atol=0)
    assert not torch.allclose(z.detach(), start)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.RMSprop, torch.optim.SGD])
def test_recorded_steps_see_the_parts(kind):
    options = {"momentum": 0.5} if kind is torch.optim.SGD else {}

    def steps(start):
        z = start * 1
        optimizer = kind([z], lr=0.1, differentiable=True, **options)
        for _ in range(2):
            (z.grad,) = torch.autograd.grad((z.clone() ** 3).abs().sum(), z, create_graph=True)
            optimizer.step()
        return z

    start = torch.tensor([1 + 1j, -0.5 + 2j], dtype=C16, requires_grad=True)
    assert torch.autograd.gradcheck(steps, start)
    plain = start.detach().clone().requires_grad_()
    optimizer = kind([plain], lr=0.1, **options)
    for _ in range(2):
        optimizer.zero_grad()
        (plain**3).abs().sum().backward()
        optimizer.step()
    torch.testing.assert_close(steps(start).detach(), plain.detach(), rtol=1e-10, atol=1e-12)


def test_modules_take_complex_parameters():
    layer = torch.nn.Linear(3, 2, dtype=C16)
    x = torch.randn(4, 3, dtype=C16)
    wanted = x.numpy() @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
    np.testing.assert_allclose(layer(x).detach().numpy(), wanted)
    layer(x).abs().sum().backward()
    assert layer.weight.grad.dtype is C16
