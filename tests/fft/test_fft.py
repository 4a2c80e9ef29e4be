# SPDX-License-Identifier: BSD-3-Clause
"""cograd.fft: values compared with NumPy, arguments, derivatives of all orders, batching."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

import cograd as torch
from cograd.autograd import forward_ad, gradcheck, gradgradcheck
from cograd.func import grad, jacfwd, jacrev, jvp, vmap

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
REAL_INPUT = {"rfft", "ihfft"}
REAL_RESULT = {"irfft", "hfft"}
NORMS = [None, "backward", "forward", "ortho"]
TOLERANCE = {np.dtype("f4"): 1e-5, np.dtype("c8"): 1e-5}


def base(name):
    return name.rstrip("2n")


def sample(shape, *, is_complex, dtype="f8", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if is_complex:
        x = x + 1j * rng.standard_normal(shape)
        dtype = {"f4": "c8", "f8": "c16"}[dtype]
    return x.astype(dtype)


def close(got, want, dtype=None):
    want = np.asarray(want)
    assert got.shape == want.shape
    got = got.detach().numpy()
    if dtype is not None:
        assert got.dtype == dtype
    atol = TOLERANCE.get(got.dtype, 1e-11) * max(1.0, float(abs(want).max(initial=0)))
    np.testing.assert_allclose(got, want, rtol=0, atol=atol)


def numpy_nd(name, x, s, axes, norm):
    """Computes hfftn and ihfftn, which NumPy lacks, by the last dim and then the others."""
    if name == "hfft":
        swapped = {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)
        return np.fft.irfftn(np.conj(x), s, axes, swapped)
    if name == "ihfft":
        swapped = {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)
        return np.conj(np.fft.rfftn(x, s, axes, swapped))
    return getattr(np.fft, name + "n")(x, s, axes, norm)


# ---- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_one_dim_transforms_are_numpys(name, dtype):
    kinds = [False] if name in REAL_INPUT else [True, False]
    for is_complex, shape in itertools.product(kinds, [(6,), (5,), (3, 4), (2, 5, 3)]):
        x = sample(shape, is_complex=is_complex, dtype=dtype)
        wide = "f4" if dtype == "f4" else "f8"
        result = wide if name in REAL_RESULT else {"f4": "c8", "f8": "c16"}[dtype]
        for n, norm, dim in itertools.product((None, 1, 3, 4, 7, 8), NORMS, range(-len(shape), 0)):
            if n is None and name in REAL_RESULT and shape[dim] == 1:
                continue
            want = getattr(np.fft, name)(x.astype("c16" if is_complex else "f8"), n, dim, norm)
            for d in (dim, dim + len(shape)):
                got = getattr(torch.fft, name)(torch.from_numpy(x), n=n, dim=d, norm=norm)
                close(got, want, result)


@pytest.mark.parametrize("name", [f + k for f in ONE for k in "2n"])
def test_transforms_over_several_dims_are_numpys(name):
    f = getattr(torch.fft, name)
    for shape in [(4, 5), (3, 5, 4), (2, 3, 4, 3)]:
        x = sample(shape, is_complex=base(name) not in REAL_INPUT)
        axes = [(-2, -1), (0, 1), (-1, 0)] + ([(0, 2, 1), (1,)] if name[-1] == "n" else [])
        for dims, norm in itertools.product(axes, NORMS):
            if max(dims) >= len(shape):
                continue
            close(f(torch.from_numpy(x), dim=dims, norm=norm),
                  numpy_nd(base(name), x, None, dims, norm))  # fmt: skip
            s = [3, 6, 5][: len(dims)]
            close(f(torch.from_numpy(x), s=s, dim=dims, norm=norm),
                  numpy_nd(base(name), x, s, dims, norm))  # fmt: skip


def test_default_dims():
    x = sample((3, 4, 5), is_complex=True)
    t = torch.from_numpy(x)
    close(torch.fft.fftn(t), np.fft.fftn(x))
    close(torch.fft.fft2(t), np.fft.fft2(x))
    close(torch.fft.fftn(t, s=(3,)), np.fft.fft(x, 3))
    close(torch.fft.fftn(t, s=3), np.fft.fft(x, 3))
    close(torch.fft.fftn(t, dim=0), np.fft.fft(x, axis=0))
    close(torch.fft.irfftn(t), np.fft.irfftn(x))


def test_minus_one_in_s_keeps_the_size():
    x = sample((4, 5), is_complex=True)
    t = torch.from_numpy(x)
    close(torch.fft.fft2(t, s=(-1, 3)), np.fft.fft2(x, s=(4, 3)))
    close(torch.fft.fftn(t, s=(2, -1)), np.fft.fft2(x, s=(2, 5)))
    close(torch.fft.rfft2(t.real, s=(2, -1)), np.fft.rfft2(x.real, s=(2, 5)))
    assert torch.fft.irfft2(t, s=(4, -1)).shape == (4, 8)
    assert torch.fft.irfft2(t, s=(-1, 7)).shape == (4, 7)


def test_no_dims_is_a_complex_copy():
    x = torch.randn(3, 2)
    for y in (torch.fft.fftn(x, dim=()), torch.fft.ifftn(x, s=())):
        assert y.dtype == torch.complex64
        assert torch.equal(y.real, x)
    z = torch.complex(x, x)
    assert torch.fft.fftn(z, dim=()).data_ptr() != z.data_ptr()
    assert torch.fft.fftn(torch.tensor(2.0)).shape == ()


@pytest.mark.parametrize("name", ONE)
def test_layouts_of_the_input(name):
    x = sample((4, 6), is_complex=name not in REAL_INPUT)
    t = torch.from_numpy(x)
    f, g = getattr(torch.fft, name), getattr(np.fft, name)
    close(f(t.t()), g(x.T))
    close(f(t[::2, ::3]), g(x[::2, ::3]))
    close(f(t[:1].expand(3, 6)), np.broadcast_to(g(x[:1]), (3, *g(x[:1]).shape[1:])))
    close(f(t.flip(1)), g(x[:, ::-1]))
    assert f(t, dim=0).is_contiguous()


def test_every_integer_dtype_is_promoted():
    for dtype in (torch.int8, torch.uint8, torch.int64, torch.bool):
        x = torch.tensor([1, 0, 1], dtype=dtype)
        assert torch.fft.fft(x).dtype == torch.complex64
        close(torch.fft.rfft(x), np.fft.rfft([1, 0, 1]))
        close(torch.fft.irfft(x), np.fft.irfft([1, 0, 1]), "f4")
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.fft.fft(torch.arange(3)).dtype == torch.complex128
        assert torch.fft.hfft(torch.arange(3)).dtype == torch.float64
        assert torch.fft.fftfreq(3).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_an_empty_batch():
    assert torch.fft.fft(torch.empty(0, 5)).shape == (0, 5)
    assert torch.fft.irfft(torch.empty(2, 0, 4)).shape == (2, 0, 6)
    assert torch.fft.rfftn(torch.empty(0, 4, 5), dim=(1, 2)).shape == (0, 4, 3)


def test_imaginary_parts_of_the_first_and_middle_bin_are_ignored():
    x = torch.from_numpy(sample((2, 4), is_complex=True))
    changed = x.clone()
    changed[:, 0] += 3j
    changed[:, 3] -= 2j
    close(torch.fft.irfft(changed), torch.fft.irfft(x).numpy())
    changed = x.clone()
    changed[:, 3] -= 2j
    assert not torch.allclose(torch.fft.irfft(changed, 7), torch.fft.irfft(x, 7))


def test_many_elements_run_in_threads_and_agree():
    x = sample((64, 1024), is_complex=True)
    close(torch.fft.fft(torch.from_numpy(x)), np.fft.fft(x))
    close(torch.fft.irfftn(torch.from_numpy(x)), np.fft.irfftn(x))


def test_import_is_lazy():
    code = (
        "import sys, cograd; print([m for m in sys.modules if m.startswith('cograd') and "
        "any(w in m for w in ('fft', 'signal', '_windows', '_spectral'))])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"


# ---- frequencies and shifts ----------------------------------------------------------------------


@pytest.mark.parametrize("n", range(1, 8))
def test_frequencies(n):
    for d in (1.0, 0.25, 3):
        close(torch.fft.fftfreq(n, d, dtype=torch.float64), np.fft.fftfreq(n, d))
        close(torch.fft.rfftfreq(n, d, dtype=torch.float64), np.fft.rfftfreq(n, d))
        close(torch.fft.fftfreq(n, d), np.fft.fftfreq(n, d), "f4")


def test_frequencies_into_out_and_with_gradient():
    out = torch.empty(0, dtype=torch.float64)
    assert torch.fft.fftfreq(4, out=out) is out
    assert out.tolist() == [0.0, 0.25, -0.5, -0.25]
    assert torch.fft.rfftfreq(4, requires_grad=True).requires_grad
    assert torch.fft.fftfreq(0).shape == (0,)
    assert torch.fft.rfftfreq(0).tolist() != [1.0]
    with pytest.raises(RuntimeError, match="does not match dtype of out"):
        torch.fft.fftfreq(4, out=out, dtype=torch.float32)
    for f in (torch.fft.fftfreq, torch.fft.rfftfreq):
        with pytest.raises(RuntimeError, match="requires a floating point or complex dtype"):
            f(4, dtype=torch.int64)
        with pytest.raises(TypeError, match="must be int, not float"):
            f(4.5)
        with pytest.raises(RuntimeError, match="negative dimension"):
            f(-3)


def test_shifts():
    for shape in [(5,), (6,), (3, 4), (2, 3, 5)]:
        x = np.arange(np.prod(shape)).reshape(shape)
        for dim in (None, 0, -1, (0,), (-1, 0)):
            close(torch.fft.fftshift(torch.from_numpy(x), dim), np.fft.fftshift(x, dim))
            close(torch.fft.ifftshift(torch.from_numpy(x), dim), np.fft.ifftshift(x, dim))
    with pytest.raises(IndexError):
        torch.fft.fftshift(torch.ones(2, 3), 2)


# ---- wrong arguments -----------------------------------------------------------------------------

X = torch.ones(4, 5)
C = torch.complex(X, X)
Z = torch.tensor(1.0)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "kind", "text"),
    [
        ("fft", (X.half(),), {}, RuntimeError, "Unsupported dtype float16"),
        ("rfft", (X.bfloat16(),), {}, RuntimeError, "Unsupported dtype bfloat16"),
        ("irfftn", (X.half(),), {}, RuntimeError, "Unsupported dtype float16"),
        ("fft", (X, 0), {}, RuntimeError, r"Invalid number of data points \(0\)"),
        ("fft", (X, -1), {}, RuntimeError, r"Invalid number of data points \(-1\)"),
        ("irfft", (X[:, :1],), {}, RuntimeError, r"Invalid number of data points \(0\)"),
        ("irfftn", (C, (4, 0)), {}, RuntimeError, r"Invalid number of data points \(0\)"),
        ("hfftn", (C, (0, 4)), {}, RuntimeError, r"Invalid number of data points \(0\)"),
        ("fft2", (X, (2, -3)), {}, RuntimeError, r"Invalid number of data points \(-3\)"),
        ("fft", (X[:0],), {"dim": 0}, RuntimeError, r"Invalid number of data points \(0\)"),
        ("fft", (X,), {"dim": 2}, IndexError, r"range of \[-2, 1\], but got 2"),
        ("fft", (Z,), {}, IndexError, "specified as -1 but tensor has no dimensions"),
        ("fft2", (X[0],), {}, IndexError, r"range of \[-1, 0\], but got -2"),
        ("fft", (X,), {"norm": "bad"}, RuntimeError, 'Invalid normalization mode: "bad"'),
        ("rfftn", (X,), {"norm": "bad"}, RuntimeError, 'Invalid normalization mode: "bad"'),
        ("fft", (X,), {"norm": 3}, TypeError, "argument 'norm' must be str, not int"),
        ("fft", (X, 2.5), {}, TypeError, "argument 'n' must be int, not float"),
        ("fft2", (X, (2, 2.5)), {}, TypeError, "argument 's' must be int, not float"),
        ("fft", ([1, 2],), {}, TypeError, "argument 'input' .* must be Tensor, not list"),
        ("rfft", (C,), {}, RuntimeError, "rfft expects a real input tensor, but got complex64"),
        ("ihfftn", (C,), {}, RuntimeError, "ihfftn expects a real-valued input tensor"),
        ("fft2", (X,), {"dim": (0, 0)}, RuntimeError, "FFT dims must be unique"),
        ("irfftn", (X,), {"dim": (1, -1)}, RuntimeError, "FFT dims must be unique"),
        ("fft2", (X, (2,)), {}, RuntimeError, "dim and shape arguments must have the same length"),
        ("fftn", (X, (1, 2, 3)), {}, RuntimeError, "3 values but input tensor only has 2 dim"),
        ("rfftn", (Z,), {}, RuntimeError, "rfftn must transform at least one axis"),
        ("irfftn", (C,), {"dim": ()}, RuntimeError, "irfftn must transform at least one axis"),
        ("fft", (X,), {"out": torch.empty(0)}, RuntimeError, "fft expects a complex output"),
        ("irfft", (X,), {"out": C.clone()}, RuntimeError, "irfft expects a floating point output"),
        ("rfft2", (X,), {"out": torch.empty(0)}, RuntimeError, "expects a complex output"),
        ("fft", (X,), {"out": 3}, TypeError, "argument 'out' must be Tensor, not int"),
    ],
)
def test_wrong_arguments(name, args, kwargs, kind, text):
    with pytest.raises(kind, match=text):
        getattr(torch.fft, name)(*args, **kwargs)


@pytest.mark.parametrize("name", [f + k for f in ONE for k in ("", "2", "n")])
def test_out(name):
    x = torch.from_numpy(sample((3, 4), is_complex=base(name) not in REAL_INPUT))
    f = getattr(torch.fft, name)
    want = f(x)
    out = torch.empty(0, dtype=want.dtype)
    assert f(x, out=out) is out
    assert torch.equal(torch.view_as_real(out) if out.is_complex() else out,
                       torch.view_as_real(want) if want.is_complex() else want)  # fmt: skip
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        f(x.clone().requires_grad_(), out=out)


# ---- derivatives ---------------------------------------------------------------------------------


def as_real(f, is_complex):
    """Returns f as a function of real and imaginary parts that returns such parts."""

    def over_parts(*parts):
        y = f(torch.complex(*parts) if is_complex else parts[0])
        return torch.view_as_real(y) if y.is_complex() else y

    return over_parts


def parts_of(shape, count, seed=0):
    rng = np.random.default_rng(seed)
    return tuple(
        torch.from_numpy(rng.standard_normal(shape)).requires_grad_() for _ in range(count)
    )


CASES = [
    (name, {"n": n, "norm": norm}, (2, 4))
    for name, (n, norm) in itertools.product(
        ONE, [(None, None), (3, "ortho"), (6, "forward"), (7, None)]
    )
] + [
    (name + kind, {"s": s, "dim": dim, "norm": norm}, (2, 3, 4))
    for name, (kind, s, dim, norm) in itertools.product(
        ONE,
        [("2", None, (0, 2), None), ("n", (3, -1, 5), None, "ortho"), ("n", None, (2, 0), None)],
    )
]


@pytest.mark.parametrize(("name", "options", "shape"), CASES)
def test_gradients(name, options, shape):
    """Reverse and forward mode, batched and not, agree with central differences."""
    kinds = [False] if base(name) in REAL_INPUT else [True, False]
    for is_complex in kinds:
        f = as_real(lambda x: getattr(torch.fft, name)(x, **options), is_complex)
        parts = parts_of(shape, 1 + is_complex)
        assert gradcheck(f, parts, check_forward_ad=True, check_batched_grad=True,
                         check_batched_forward_grad=True)  # fmt: skip


@pytest.mark.parametrize("name", [*ONE, "fftn", "rfftn", "irfftn", "hfftn", "ihfftn"])
def test_second_derivatives(name):
    is_complex = base(name) not in REAL_INPUT
    f = as_real(getattr(torch.fft, name), is_complex)
    parts = parts_of((2, 4), 1 + is_complex)
    assert gradgradcheck(lambda *p: f(*p) ** 3, parts, check_fwd_over_rev=True)
    x = torch.from_numpy(sample((2, 4), is_complex=is_complex)).requires_grad_()
    assert gradcheck(getattr(torch.fft, name), (x,), check_forward_ad=True)
    assert gradgradcheck(getattr(torch.fft, name), (x,))


def test_gradient_of_a_real_input_is_real():
    x = torch.randn(4, requires_grad=True)
    torch.fft.fft(x).abs().sum().backward()
    assert x.grad.dtype == torch.float32
    z = torch.complex(torch.randn(4), torch.randn(4)).requires_grad_()
    torch.fft.irfft(z).sum().backward()
    assert z.grad.dtype == torch.complex64
    assert z.grad.imag.abs().max() == 0


def test_a_known_gradient():
    """d/dconj(z) of the power is the transform's adjoint of twice the spectrum: 2 n z."""
    z = torch.from_numpy(sample((5,), is_complex=True)).requires_grad_()
    spectrum = torch.fft.fft(z)
    (spectrum * spectrum.conj()).real.sum().backward()
    close(z.grad, 10 * z.detach().numpy())
    x = torch.from_numpy(sample((6,), is_complex=False)).requires_grad_()
    half = torch.fft.rfft(x)  # interior bins count only once here: not 2 n x
    weights = torch.tensor([1.0, 2.0, 2.0, 1.0], dtype=torch.float64)
    (weights * (half * half.conj()).real).sum().backward()
    close(x.grad, 12 * x.detach().numpy())


def test_gradients_to_any_order_need_no_rule_of_their_own():
    x = torch.from_numpy(sample((4,), is_complex=False)).requires_grad_()
    y = torch.fft.irfft(torch.fft.rfft(x)) ** 4
    for order in range(1, 5):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        want = {1: 4 * x**3, 2: 12 * x**2, 3: 24 * x, 4: 24 + 0 * x}[order]
        close(y, want.detach().numpy())


def test_recording_follows_the_modes():
    x = torch.randn(4, requires_grad=True)
    y = torch.fft.rfft(x)
    assert y.requires_grad
    assert "FftR2C" in type(y.grad_fn).__name__
    with torch.no_grad():
        assert not torch.fft.rfft(x).requires_grad
    with torch.inference_mode():
        assert torch.fft.rfft(x).is_inference()
    assert not torch.fft.rfft(x.detach()).requires_grad


def test_gradients_of_strided_and_expanded_inputs():
    for shape, view in [
        ((4, 3), lambda x: x.t()),
        ((1, 4), lambda x: x.expand(3, 4)),
        ((6, 4), lambda x: x[::2]),
    ]:
        for f in (torch.fft.fft, torch.fft.rfft, torch.fft.irfft):
            assert gradcheck(as_real(lambda x, f=f, v=view: f(v(x)), False), parts_of(shape, 1))


def test_tangents():
    x, t = sample((5,), is_complex=True), sample((5,), is_complex=True, seed=1)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.from_numpy(x), torch.from_numpy(t))
        close(forward_ad.unpack_dual(torch.fft.ifft(dual)).tangent, np.fft.ifft(t))
        close(forward_ad.unpack_dual(torch.fft.hfft(dual, 7)).tangent, np.fft.hfft(t, 7))
    _, tangent = jvp(torch.fft.rfft2, (torch.ones(3, 4),), (torch.arange(12.0).view(3, 4),))
    close(tangent, np.fft.rfft2(np.arange(12.0).reshape(3, 4)))


# ---- vmap and func -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*ONE, "fft2", "rfftn", "irfft2", "hfftn", "ihfft2"])
@pytest.mark.parametrize("in_dim", [0, 1, 2, -1])
def test_vmap(name, in_dim):
    x = torch.from_numpy(sample((3, 4, 5), is_complex=base(name) not in REAL_INPUT))
    f = getattr(torch.fft, name)
    for options in [{}, {"dim": 0} if name in ONE else {"dim": (0, 1)}]:
        want = torch.stack([f(sample, **options) for sample in x.unbind(in_dim)])
        for out_dim in (0, -1):
            got = vmap(lambda t, o=options: f(t, **o), in_dims=in_dim, out_dims=out_dim)(x)
            close(got.movedim(out_dim, 0), want.numpy())


def test_vmap_inside_of_vmap_and_beside_constants():
    x = torch.from_numpy(sample((2, 3, 4), is_complex=False))
    y = torch.from_numpy(sample((4,), is_complex=False))
    got = vmap(vmap(lambda a: torch.fft.rfft(a) * torch.fft.rfft(y)))(x)
    close(got, np.fft.rfft(x.numpy()) * np.fft.rfft(y.numpy()))


def test_transforms_of_functions():
    x = torch.from_numpy(sample((4,), is_complex=False))

    def power(x):
        spectrum = torch.fft.rfft(x)
        return (spectrum * spectrum.conj()).real.sum()

    numeric = torch.autograd.functional.jacobian(lambda v: grad(power)(v), x)
    close(jacfwd(grad(power))(x), numeric.numpy())
    close(jacrev(grad(power))(x), numeric.numpy())
    batch = torch.from_numpy(sample((3, 4), is_complex=False))
    close(vmap(grad(power))(batch), torch.stack([grad(power)(b) for b in batch]).numpy())
    smooth = lambda v: torch.fft.irfft(torch.fft.rfft(v) * 0.5)
    close(jacfwd(smooth)(x), 0.5 * np.eye(4))
    close(jacrev(smooth)(x), 0.5 * np.eye(4))


# ---- subclasses ----------------------------------------------------------------------------------


class Sub(torch.Tensor):
    pass


class Wrapper:
    @classmethod
    def __cograd_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__


def test_subclasses_are_kept_and_wrappers_asked():
    x = torch.ones(4).as_subclass(Sub)
    assert type(torch.fft.rfft(x)) is Sub
    assert type(torch.fft.fftshift(x)) is Sub
    assert torch.fft.irfft2(Wrapper()) == "irfft2"
    assert type(torch.fft.fft(torch.nn.Parameter(torch.ones(3)))) is torch.Tensor
