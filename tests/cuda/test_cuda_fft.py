# SPDX-License-Identifier: BSD-3-Clause
"""Fourier transforms on a GPU by cuFFT: on the fake driver, by a fake that computes plain sums."""

import fakes
import pytest

needs_fake = pytest.mark.skipif(fakes.why_not() is not None, reason=str(fakes.why_not()))
why = None if fakes.REAL else fakes.why_not()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))

START = """
fft = torch.fft
torch.cuda.set_fallback("error")
if "fake" in globals():
    cufft = ctypes.CDLL(os.environ["COGRAD_CUFFT"])
    cufft.fake_cufft_work_bytes.restype = ctypes.c_int64
plans = torch.backends.cuda.cufft_plan_cache
torch.manual_seed(1)

def runs():
    return fake.fake_cuda_launches(b"cufftXtExec")

def same(f, x, **options):
    there = x.cuda() if x.is_contiguous() else torch.as_strided(
        x.as_strided((x.untyped_storage().nbytes() // x.itemsize,), (1,), 0).cuda(), x.shape,
        x.stride(), x.storage_offset())
    before = there.clone()
    found, expected = f(there, **options), f(x, **options)
    assert found.is_cuda and found.dtype == expected.dtype, (found.device, found.dtype)
    wide = expected.dtype in (torch.float64, torch.complex128)
    tolerance = 1e-12 if wide else 1e-5
    torch.testing.assert_close(found.cpu(), expected, rtol=tolerance,
                               atol=tolerance * max(1.0, x.numel() ** 0.5))
    assert torch.equal(there.cpu(), before.cpu()), "the input was written"
"""

VALUES = {
    "complex": """
for dtype in (torch.complex64, torch.complex128):
    for shape in ((1,), (7,), (8,), (3, 8), (2, 3, 5), (4, 1, 6)):
        x = torch.randn(shape, dtype=dtype)
        for dim in range(len(shape)):
            for norm in ("backward", "ortho", "forward"):
                same(fft.fft, x, dim=dim, norm=norm)
                same(fft.ifft, x, dim=dim, norm=norm)
        same(fft.fftn, x)
        same(fft.ifftn, x, norm="ortho")
    same(fft.fft, x, n=9)
    same(fft.fft, x, n=4, dim=0)
""",
    "real": """
for dtype in (torch.float32, torch.float64):
    for shape in ((1,), (2,), (7,), (8,), (3, 8), (2, 3, 5), (4, 1, 6)):
        x = torch.randn(shape, dtype=dtype)
        for dim in range(len(shape)):
            for norm in ("backward", "ortho"):
                same(fft.rfft, x, dim=dim, norm=norm)
                same(fft.fft, x, dim=dim, norm=norm)
                same(fft.ihfft, x, dim=dim, norm=norm)
        same(fft.rfftn, x)
        same(fft.fftn, x, norm="ortho")
        same(fft.rfftn, x, dim=tuple(range(len(shape)))[::-1])
        same(fft.fftn, x, dim=tuple(range(len(shape)))[::-1])
x = torch.randn(2, 3, 4, 5, 3, dtype=torch.float64)
same(fft.fftn, x, dim=(1, 3))
same(fft.fftn, x, dim=(4, 0, 2))
""",
    "to real": """
for dtype in (torch.complex64, torch.complex128):
    for shape in ((2,), (5,), (3, 5), (2, 3, 4)):
        x = torch.randn(shape, dtype=dtype)  # the imaginary parts of bins 0 and n/2 do not count
        for dim in range(len(shape)):
            for n in (1, 2, 7, 8):
                for norm in ("backward", "ortho"):
                    same(fft.irfft, x, dim=dim, n=n, norm=norm)
                    same(fft.hfft, x, dim=dim, n=n, norm=norm)
        same(fft.irfftn, x)
        same(fft.irfftn, x, dim=tuple(range(len(shape)))[::-1], norm="ortho")
""",
    "strides": """
for dtype in (torch.complex64, torch.complex128, torch.float32, torch.float64):
    x = torch.randn(6, 10, 12, dtype=dtype)
    f, n = (fft.rfft, fft.rfftn) if dtype.is_floating_point else (fft.fft, fft.fftn)
    views = (x.T, x.transpose(0, 1), x[::2, 1::3], x[:, :, 1:], x[:, :, 3::2], x[1, :, 5],
             x[:, 2:3].expand(6, 4, 12), x[:1].expand(3, 10, 12).movedim(0, 2), x.flip(1))
    for v in views:
        for dim in range(v.dim()):
            same(f, v, dim=dim)
        same(n, v)
        same(fft.fft, v, dim=0)
        same(fft.fftn, v)
        same(fft.irfft, v.to(torch.complex128), dim=-1)
""",
    "many dims": """
x = torch.randn(2, 3, 2, 2, 3, 2, dtype=torch.complex128)
same(fft.fftn, x)
same(fft.fftn, x, dim=(0, 2, 4, 5))
same(fft.ifftn, x.permute(3, 1, 5, 0, 2, 4), dim=(1, 2, 3, 4), norm="ortho")
same(fft.fftn, x.real.contiguous())
same(fft.rfftn, x.real.contiguous())
same(fft.irfftn, x)
same(fft.fft, torch.randn(20, 4, 30, dtype=torch.complex128), dim=1)  # by dense copies
same(fft.fft, torch.randn(2, 4, 30, dtype=torch.complex128), dim=1)  # by two runs
deep = torch.randn(*[2] * 14, dtype=torch.float64).permute(*range(13, -1, -1))
same(fft.fft, deep, dim=3)
""",
    "no elements": """
x = torch.randn(0, 4, dtype=torch.complex64)
same(fft.fft, x)
same(fft.rfft, x.real.clone())
same(fft.irfft, x)
same(fft.fft2, torch.randn(3, 4, 0, 5)[:, :, :, :].movedim(2, 0), dim=(1, 3))
raises(RuntimeError, "Invalid number of data points (0)", fft.fft, x.cuda(), dim=0)
""",
    "transforms": """
x = torch.randn(3, 64)
w = torch.hann_window(16)
def spectrum(x):
    return torch.stft(x, 16, 4, window=w.to(x.device), return_complex=True)
same(spectrum, x)
same(lambda s: torch.istft(s, 16, 4, window=w.to(s.device)), spectrum(x))
same(lambda x: fft.fftshift(fft.fft2(x)), x)
same(torch.vmap(lambda row: fft.rfft(row).abs()), x)
""",
    "gradients": """
def gradients(device, f, x):
    x = x.to(device).requires_grad_()
    y = f(x)
    weights = torch.arange(y.numel(), dtype=torch.float64, device=device).reshape(y.shape).cos()
    (g,) = torch.autograd.grad(((y * y.conj()).real * weights).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad((g * g.conj()).real.sum(), x)
    return y.detach().cpu(), g.detach().cpu(), h.cpu()
real, complex = torch.randn(4, 6, dtype=torch.float64), torch.randn(4, 5, dtype=torch.complex128)
cases = [(fft.rfft, real), (fft.rfft2, real), (fft.fft2, real), (fft.fft, complex),
         (fft.ifft2, complex), (fft.irfft, complex), (fft.irfft2, complex), (fft.hfft, complex)]
for f, x in cases:
    for a, b in zip(gradients("cuda", f, x), gradients("cpu", f, x)):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
y, t = torch.func.jvp(fft.rfft, (real.cuda(),), (real.cuda().cos(),))
torch.testing.assert_close(t.cpu(), fft.rfft(real.cos()), rtol=1e-10, atol=1e-10)
""",
}


@pytest.mark.parametrize("case", VALUES)
def test_values_are_the_cpus(case):
    fakes.run(START + VALUES[case])


@needs_fake
def test_plans_take_up_to_three_dims_and_all_lines():
    fakes.run(
        START
        + """
def count(f, *args, **options):
    before = runs()
    f(*args, **options)
    return runs() - before
x = torch.randn(2, 3, 4, 5, dtype=torch.complex64, device="cuda")
assert count(fft.fft, x) == 1 and count(fft.fft, x, dim=0) == 1
assert count(fft.fftn, x, dim=(1, 2, 3)) == 1 and count(fft.fftn, x, dim=(0, 1)) == 1
assert count(fft.fftn, x) == 2
assert count(fft.fft, x, dim=1) == 2 and count(fft.fft, x, dim=2) == 5  # runs of a plan
assert count(fft.fft, torch.zeros(9, 2, 9, dtype=torch.complex64, device="cuda"), dim=1) == 1
assert count(fft.fft, x[:, :1, :1, :1]) == 0
copies = fake.fake_cuda_launches(b"loop")
fft.fftn(x, dim=(1, 2, 3))
assert fake.fake_cuda_launches(b"loop") == copies  # neither copied nor multiplied
"""
    )


@needs_fake
def test_plans_are_kept():
    fakes.run(
        START
        + """
x = torch.randn(4, 8, dtype=torch.complex64, device="cuda")
assert plans.size == 0 and plans.max_size == 4096
made = fake.fake_cuda_calls(b"cufftXtMakePlanMany")
for _ in range(3):
    fft.fft(x)
    fft.ifft(x + 1)  # the same plan in the other direction
assert plans.size == 1 and fake.fake_cuda_calls(b"cufftXtMakePlanMany") == made + 1
fft.fft(x, dim=0); fft.fft(x.to(torch.complex128)); fft.rfft(x.real); fft.fft(x[:3])
assert plans.size == 5 == cufft.fake_cufft_plans()
plans.max_size = 2
assert plans.size == 2 == cufft.fake_cufft_plans() and plans.max_size == 2
fft.rfft(x.real)  # now the last used one
fft.fft(x[:2])    # frees that of x[:3]
made = fake.fake_cuda_calls(b"cufftXtMakePlanMany")
fft.rfft(x.real)
assert fake.fake_cuda_calls(b"cufftXtMakePlanMany") == made
fft.fft(x[:3])
assert fake.fake_cuda_calls(b"cufftXtMakePlanMany") == made + 1 and plans.size == 2
plans.max_size = 0
expected = fft.fft(x.cpu())
torch.testing.assert_close(fft.fft(x).cpu(), expected)
assert plans.size == 0 == cufft.fake_cufft_plans()
plans.max_size = 5
fft.fft(x)
plans.clear()
assert plans.size == 0 == cufft.fake_cufft_plans() and plans.max_size == 5
raises(RuntimeError, "read-only", setattr, plans, "size", 3)
raises(RuntimeError, "at least 0, but got -1", setattr, plans, "max_size", -1)
raises(TypeError, "expected an int, but got float", setattr, plans, "max_size", 1.5)
# Each GPU has its own.
far = x.to("cuda:1")
fft.fft(far); fft.fft(far, dim=0); fft.fft(x)
assert plans.size == 1 and plans["cuda:1"].size == 2 == plans[1].size == plans[far.device].size
assert plans[torch.device("cuda")].size == 1
plans[1].max_size = 1
assert plans[1].size == 1 and plans[0].max_size == 5
torch.cuda.set_device(1)
assert plans.max_size == 1
raises(RuntimeError, "0 <= device index < 2, but got index 2", lambda: plans[2])
raises(ValueError, "expected a cuda device, but got: cpu", lambda: plans["cpu"])
""",
        FAKE_CUDA_DEVICES=2,
    )


def test_the_cache_of_plans_is_empty_without_a_gpu():
    program = """
import cograd as torch
plans = torch.backends.cuda.cufft_plan_cache
assert plans.size == 0 == plans.max_size
plans.max_size = 3
plans.clear()
assert plans.max_size == 0
raises(RuntimeError, "0 <= device index < 0", lambda: plans[0])
raises(TypeError, "a cuda device or its index, but got: NoneType", lambda: plans[None])
"""
    fakes.run(program, COGRAD_CUDA_DRIVER="none", CUDA_VISIBLE_DEVICES="")


@needs_fake
def test_memory_comes_from_the_allocator():
    fakes.run(
        START
        + """
x = torch.randn(64, 36, dtype=torch.complex64, device="cuda")
fft.fft(x)
torch.cuda.synchronize()
before = torch.cuda.memory_allocated()
torch.cuda.reset_peak_memory_stats()
y = fft.fft(x)
work = cufft.fake_cufft_work_bytes()
assert work > x.nbytes and torch.cuda.max_memory_allocated() >= before + y.nbytes + work
del y
assert torch.cuda.memory_allocated() == before
"""
    )


@needs_fake
def test_transforms_run_on_the_current_stream():
    fakes.run(
        START
        + """
x = torch.randn(4, 8, dtype=torch.complex64).cuda()
fft.fft(x)
torch.cuda.synchronize()
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    y = fft.fft(x)
torch.cuda.current_stream().synchronize()
assert not side.query()
side.synchronize()
torch.testing.assert_close(y.cpu(), fft.fft(x.cpu()))
z = fft.fft(x)  # the same plan on the other stream
torch.testing.assert_close(z.cpu(), y.cpu())
"""
    )


@needs_fake
def test_errors_name_the_transform_and_the_status():
    fakes.run(
        START
        + """
x = torch.randn(4, 8, dtype=torch.complex64).cuda()
for symbol, what in ((b"cufftCreate", "make a plan"), (b"cufftSetAutoAllocation", "make a plan"),
                     (b"cufftXtMakePlanMany", "make a plan"), (b"cufftSetStream", "set the stream"),
                     (b"cufftSetWorkArea", "set the work area"),
                     (b"cufftXtExec", "start the kernels")):
    plans.clear()
    twice = symbol == b"cufftXtMakePlanMany"  # it is tried again with what the cache gave back
    fails(symbol, 5, RuntimeError, f"fft_c2c(): cuFFT could not {what} for 4 transforms of 8 "
          "points in float32: CUFFT_INTERNAL_ERROR (5): the library or the driver failed", fft.fft,
          x, calls=2 if twice else 1)
    assert plans.size == cufft.fake_cufft_plans()
    torch.testing.assert_close(fft.fft(x).cpu(), fft.fft(x.cpu()))
fft.fftn(x.real)
fake.fake_cuda_fail(b"cufftXtExec", 2, 6)
raises(RuntimeError, "for 5 transforms of 4 points in float32: CUFFT_EXEC_FAILED (6)", fft.rfft2,
       x.real)
fails(b"cufftXtExec", 99, RuntimeError, "fft_r2c(): cuFFT could not start the kernels for 4 "
      "transforms of 8 points in float32: status 99", fft.rfft, x.real)
big = torch.zeros(1 << 21, dtype=torch.complex64, device="cuda")  # too long for the fake
raises(RuntimeError, "1 transforms of 2097152 points in float32: CUFFT_INVALID_SIZE (8)", fft.fft,
       big)
# A plan that finds no memory is made again after the cache is freed.
plans.clear()
del big
reserved = torch.cuda.memory_reserved()
fake.fake_cuda_fail(b"cufftXtMakePlanMany", 1, 2)
fft.fft(x)
assert torch.cuda.memory_reserved() < reserved
fails(b"cufftXtExec", 2, torch.cuda.OutOfMemoryError, "CUFFT_ALLOC_FAILED (2)", fft.fft, x)
"""
    )


@needs_fake
def test_without_the_library_transforms_run_on_the_cpu():
    fakes.run(
        """
import warnings
torch.cuda.set_fallback("warn")
x = torch.randn(4, 8, dtype=torch.complex64)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(2):
        y = torch.fft.fft(x.cuda())
        assert y.is_cuda and torch.equal(y.cpu(), torch.fft.fft(x))
texts = [str(w.message) for w in seen]
assert len(texts) == 1 and "it ran on the CPU" in texts[0], texts
assert "cuFFT is missing (not found: pip install 'cograd[cuda-full]'" in texts[0], texts
torch.cuda.set_fallback("error")
raises(NotImplementedError, "cuFFT is missing (not found", torch.fft.rfft, x.real.cuda())
libraries = {name: (path, missing) for name, path, _, missing in _C._cuda_libraries()}
assert libraries["cuFFT"][0] == "" and "cograd[cuda-full]" in libraries["cuFFT"][1]
assert torch.backends.cuda.cufft_plan_cache.size == 0
""",
        COGRAD_CUFFT="none",
    )


@needs_fake
@pytest.mark.parametrize("broken", ["lacks functions", "cannot be loaded"])
def test_a_library_that_does_not_work_is_named(broken, tmp_path):
    path, why = fakes.folder() / "nvrtc.so", "{} lacks the function cufftCreate of cuFFT)"
    if broken == "cannot be loaded":
        path, why = tmp_path / "libcufft.so.12", "it could not be loaded: {}: "
        path.write_text("no library")
    fakes.run(
        f"""
torch.cuda.set_fallback("error")
raises(NotImplementedError, "cuFFT is missing ({why.format(path)}", torch.fft.fft,
       torch.zeros(4, device="cuda"))
""",
        COGRAD_CUFFT=path,
    )


@needs_fake
def test_the_library_is_found():
    fakes.run(
        """
libraries = {name: (path, missing) for name, path, _, missing in _C._cuda_libraries()}
assert libraries["cuFFT"] == (os.environ["COGRAD_CUFFT"], "")
"""
    )
