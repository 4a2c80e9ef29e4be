# SPDX-License-Identifier: BSD-3-Clause
"""The ops behind cograd.fft: bits on any number of threads, layouts, lengths, other devices."""

import hashlib
import itertools
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck
from cograd.func import jacfwd, jacrev, vmap

OPS = torch._C._ops
# Of all kinds: short and long, powers of two and their multiples, prime, with small and with large
# prime factors, and long enough to be matrices: 1024 complex points or 2048 real ones.
LENGTHS = [1, 2, 3, 8, 15, 16, 32, 48, 64, 97, 128, 134, 192, 320, 331, 720, 976, 1000, 1024, 1031]
LENGTHS += [1125, 1200, 2048, 2062, 3000, 4099, 4800]


def sample(*shape, is_complex=True, dtype="f8", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if is_complex:
        x = x + 1j * rng.standard_normal(shape)
        dtype = {"f4": "c8", "f8": "c16"}[dtype]
    return torch.from_numpy(x.astype(dtype))


def bits(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(np.ascontiguousarray(t.detach().numpy()).tobytes())
    return h.hexdigest()


def transforms(x, dim=-1):
    """Returns what the three ops make of complex ``x`` along ``dim``."""
    n = 2 * (x.shape[dim] - 1)
    real = x.real.contiguous()
    found = [torch.fft.fft(x, dim=dim), torch.fft.ifft(x, dim=dim), torch.fft.rfft(real, dim=dim)]
    found += [torch.fft.fft(real, dim=dim), torch.fft.irfft(x, n + 1, dim=dim)]
    return found + ([torch.fft.irfft(x, n, dim=dim)] if n else [])


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((1 << 17,), 0),
        ((10007,), 0),
        ((3 * 5 * 7 * 11 * 13,), 0),
        ((1000, 64), 1),
        ((64, 1000), 0),
        ((70, 3, 130), 1),
        ((5, 2048), 1),
        ((2048, 37), 0),
        ((33, 1031), 1),
    ],
)
def test_bits_on_any_number_of_threads(threads, shape, dim, dtype):
    x = sample(*shape, dtype=dtype)
    found = []
    for count in (1, 2, 3, 7):
        threads(count)
        found.append(bits(*transforms(x, dim)))
    assert len(set(found)) == 1


def test_bits_of_several_dims_on_any_number_of_threads(threads):
    x = sample(40, 50, 60, dtype="f4")
    found = []
    for count in (1, 2, 3, 7):
        threads(count)
        y = [
            torch.fft.fftn(x),
            torch.fft.irfft2(x),
            torch.fft.rfftn(x.real),
            torch.fft.fftn(x.real),
        ]
        found.append(bits(*y))
    assert len(set(found)) == 1


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_line_has_the_same_bits_alone_in_a_batch_and_strided(n, dtype):
    x = sample(37, n, dtype=dtype)
    whole = transforms(x)
    for i in (0, 5, 36):
        alone = transforms(x[i].clone())
        assert bits(*alone) == bits(*(w[i] for w in whole))
    assert bits(*(w.t() for w in transforms(x.t().contiguous(), 0))) == bits(*whole)
    assert bits(*transforms(x.t(), 0)) == bits(*(w.t() for w in whole))
    apart = torch.zeros(37, 2 * n, 2, dtype=x.dtype)[:, ::2, 1]
    apart.copy_(x)
    assert bits(*transforms(apart)) == bits(*whole)


LEVELS = """
import sys
sys.path.insert(0, sys.argv[1])
from test_fft_ops import LENGTHS, bits, sample, transforms
print(bits(*(y for n in LENGTHS for t in ("f4", "f8") for y in transforms(sample(9, n, dtype=t)))))
"""


def test_isa_levels_have_the_same_bits():
    found = set()
    for level in ("", "v3", "base"):
        command = [sys.executable, "-c", LEVELS, os.path.dirname(__file__)]
        env = os.environ | {"COGRAD_ISA": level} if level else os.environ
        done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
        found.add(done.stdout)
    assert len(found) == 1


@pytest.mark.parametrize(
    "n", [*LENGTHS, 4096, 8191, 10007, 30030, 32768, 65537, 100_000, 131072, 262_146]
)
@pytest.mark.parametrize(("dtype", "limit"), [("f4", 2e-6), ("f8", 4e-15)])
def test_lengths_agree_with_numpy(n, dtype, limit):
    x = sample(n, dtype=dtype)
    wide = x.numpy().astype("c16")
    want = [np.fft.fft(wide), np.fft.ifft(wide), np.fft.rfft(wide.real), np.fft.fft(wide.real)]
    want += [np.fft.irfft(wide, k) for k in (2 * n - 1, 2 * n - 2) if k]
    for found, expected in zip(transforms(x), want, strict=True):
        error = np.linalg.norm(found.numpy() - expected)
        assert error <= limit * np.linalg.norm(expected)


def test_the_plans_of_many_lengths_are_replaced():
    first = [torch.fft.fft(sample(n)) for n in range(1, 150)]
    again = [torch.fft.fft(sample(n)) for n in range(1, 150)]
    assert bits(*first) == bits(*again)


def test_a_forked_child_transforms(threads):
    x = sample(300, 300, dtype="f4")
    threads(2)
    want = bits(torch.fft.fft2(x))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, bits(torch.fft.fft2(x)).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(read, 100).decode() == want
    os.close(read)
    os.close(write)


def test_interrupts_during_transforms(threads):
    """The exception is raised when the running transform has ended, and the pool goes on."""
    x = sample(64, 4096, dtype="f4")
    threads(4)
    want = bits(torch.fft.fft2(x))
    for _ in range(3):
        timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            while True:
                torch.fft.fft2(x)
        timer.join()
        assert bits(torch.fft.fft2(x)) == want


# ---- layouts and outputs -------------------------------------------------------------------------


def test_expanded_and_empty_inputs():
    x = sample(4, dtype="f8")
    assert torch.equal(torch.fft.fft(x.expand(40, 4)).real, torch.fft.fft(x).real.expand(40, 4))
    ones = torch.ones(1, dtype=torch.complex128).expand(6)
    assert torch.fft.fft(ones).tolist() == [6, 0, 0, 0, 0, 0]
    for n, complex_input in itertools.product((6, 16, 48), (True, False)):
        flat = sample(n, 40, is_complex=complex_input)[:1].expand(n, 40)
        assert bits(torch.fft.fft(flat, dim=0)) == bits(torch.fft.fft(flat.clone(), dim=0))
    for shape, dim in [((0, 5), [1]), ((3, 0, 4), [0, 2])]:
        assert OPS._fft_c2c(torch.empty(shape, dtype=torch.complex64), dim, 0, True).numel() == 0
        assert OPS._fft_r2c(torch.empty(shape), dim, 0, False).shape == shape
    assert OPS._fft_c2r(torch.empty(0, 3, dtype=torch.complex64), [1], 2, 5).shape == (0, 5)


def test_out_is_written_also_in_place():
    x = sample(5, 2048, dtype="f4")
    want = torch.fft.fft(x)
    out = torch.empty(2048, 5, dtype=torch.complex64).t()
    assert torch.fft.fft(x, out=out) is out and bits(out) == bits(want)
    wide = torch.empty(0, dtype=torch.complex128)
    torch.fft.fft(x, out=wide)
    assert wide.shape == x.shape and torch.equal(wide.real, want.real.double())
    torch.fft.fft(x, out=x)
    assert bits(x) == bits(want)


def test_both_sides_of_a_real_spectrum():
    x = sample(4, 5, 6, 7, is_complex=False)
    for dims in ((3,), (1, 2), (2, 1), (0, 3, 2), (3, 2, 1, 0)):
        got = OPS._fft_r2c(x, dims, 0, False).numpy()
        np.testing.assert_allclose(got, np.fft.fftn(x.numpy(), axes=dims), atol=1e-11)
        half = OPS._fft_r2c(x, dims, 0, True)
        assert half.shape[dims[-1]] == x.shape[dims[-1]] // 2 + 1


# ---- wrong arguments -----------------------------------------------------------------------------

C = torch.ones(3, 4, dtype=torch.complex64)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: OPS._fft_c2c(C, [1], 3, True), RuntimeError, "expected norm .* got 3"),
        (lambda: OPS._fft_c2c(C, [1, -1], 0, True), RuntimeError, "dims must be unique"),
        (lambda: OPS._fft_c2c(C, [2], 0, True), IndexError, "out of range"),
        (lambda: OPS._fft_c2c(C[:0], [0], 0, True), RuntimeError, r"data points \(0\)"),
        (lambda: OPS._fft_c2c(C.real, [1], 0, True), NotImplementedError, "expected a complex one"),
        (lambda: OPS._fft_r2c(C, [1], 0, True), NotImplementedError, "for dtype complex64"),
        (lambda: OPS._fft_r2c(C.real.half(), [1], 0, True), NotImplementedError, "dtype float16"),
        (lambda: OPS._fft_r2c(C.real, [], 0, True), RuntimeError, "at least one axis"),
        (lambda: OPS._fft_c2r(C, [], 0, 6), RuntimeError, "at least one axis"),
        (lambda: OPS._fft_c2r(C, [1], 0, 0), RuntimeError, r"data points \(0\)"),
        (lambda: OPS._fft_c2r(C, [1], 0, 8), RuntimeError, "expected 5 bins in dim 1 .* got 4"),
        (lambda: OPS._fft_c2r(C.real, [1], 0, 6), NotImplementedError, "expected a complex one"),
    ],
)  # fmt: skip
def test_wrong_arguments_of_ops(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


# ---- derivatives ---------------------------------------------------------------------------------

CALLS = [
    (lambda x: OPS._fft_c2c(x, [1], 0, True), True),
    (lambda x: OPS._fft_c2c(x, [-1, 0], 1, False), True),
    (lambda x: OPS._fft_c2c(x, [], 2, False), True),
    (lambda x: OPS._fft_r2c(x, [1], 0, True), False),
    (lambda x: OPS._fft_r2c(x, [0], 1, True), False),
    (lambda x: OPS._fft_r2c(x, [1, 0], 2, True), False),
    (lambda x: OPS._fft_r2c(x, [1, 0], 2, False), False),
    (lambda x: OPS._fft_c2r(x, [1], 0, 6), True),
    (lambda x: OPS._fft_c2r(x, [0, 1], 1, 7), True),
]


@pytest.mark.parametrize(("call", "is_complex"), CALLS)
def test_derivatives_of_ops(call, is_complex):
    x = sample(3, 4, is_complex=is_complex).requires_grad_()
    assert gradcheck(call, (x,), check_forward_ad=True, check_batched_grad=True,
                     check_batched_forward_grad=True)  # fmt: skip
    assert gradgradcheck(call, (x,), check_fwd_over_rev=True)
    batch = torch.stack([x.detach(), 2 * x.detach() + 1])
    one_by_one = torch.stack([call(b) for b in batch])
    for dim in (0, 1, 2):
        got = vmap(call, in_dims=dim)(batch.movedim(0, dim))
        assert torch.equal(torch.view_as_real(got + 0j), torch.view_as_real(one_by_one + 0j))


def test_vmap_of_jacobians():
    def power(x):
        y = torch.fft.irfft(torch.fft.rfft(x, norm="ortho") ** 2, n=5)
        return y * torch.fft.fft2(torch.outer(x, x)).abs().sum()

    batch = sample(3, 5, is_complex=False)
    want = torch.stack([jacrev(power)(x) for x in batch])
    assert torch.allclose(vmap(jacrev(power))(batch), want)
    assert torch.allclose(vmap(jacfwd(power))(batch), want)
    second = torch.stack([jacfwd(jacrev(power))(x) for x in batch])
    assert torch.allclose(vmap(jacrev(jacrev(power)))(batch), second)


# ---- other devices -------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "is_complex"), CALLS)
def test_meta(call, is_complex):
    x = sample(3, 4, is_complex=is_complex)
    want, got = call(x), call(x.to("meta"))
    assert got.is_meta and got.stride() == want.stride()
    assert (got.shape, got.dtype) == (want.shape, want.dtype)


def test_the_fake_device_has_kernels():
    code = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import cograd as torch
from test_fft_ops import CALLS, bits, sample
for call, is_complex in CALLS:
    x = sample(3, 4, is_complex=is_complex).requires_grad_()
    y = x.detach().to("fake").requires_grad_()
    a, b = call(x), call(y)
    a.abs().square().sum().backward()
    b.abs().square().sum().backward()
    assert b.device.type == y.grad.device.type == "fake"
    assert bits(a, x.grad) == bits(b.cpu(), y.grad.cpu())
print("done")
"""
    env = os.environ | {"COGRAD_FAKE_DEVICE": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=env, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr


def test_no_other_library_transforms():
    code = (
        "import sys, cograd; x = cograd.randn(4, 6); cograd.fft.irfft2(cograd.fft.rfft2(x)); "
        "cograd.stft(x, 4, return_complex=True); "
        "print([m for m in ('scipy', 'numpy.fft._pocketfft') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"


def test_inference_and_no_grad():
    x = sample(4, is_complex=False).requires_grad_()
    with torch.no_grad():
        assert not torch.fft.fft(x).requires_grad
    with torch.inference_mode():
        assert torch.fft.rfft(x).is_inference()
    for name, norm in itertools.product(("fft", "rfft"), (None, "ortho")):
        assert getattr(torch.fft, name)(x, norm=norm).requires_grad
