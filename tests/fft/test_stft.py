# SPDX-License-Identifier: BSD-3-Clause
"""stft and istft: values frame by frame, round trips, arguments, derivatives, batching."""

import itertools

import numpy as np
import pytest

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck
from cograd.func import jvp, vmap


def signal(*shape, is_complex=False, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return torch.from_numpy(x + 1j * rng.standard_normal(shape) if is_complex else x)


def hann(n):
    return torch.hann_window(n, dtype=torch.float64)


def close(got, want):
    want = np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=0, atol=1e-11)


def reference(x, n_fft, hop, window, center, normalized, onesided, mode="reflect"):
    """Computes the definition for a 1-d array, one frame at a time."""
    left = (n_fft - len(window)) // 2
    full = np.zeros(n_fft, dtype=window.dtype)
    full[left : left + len(window)] = window
    if center:
        x = np.pad(x, n_fft // 2, mode)
    frames = [x[i : i + n_fft] * full for i in range(0, len(x) - n_fft + 1, hop)]
    spectra = np.stack([np.fft.fft(f) for f in frames], 1)
    if onesided:
        spectra = spectra[: n_fft // 2 + 1]
    return spectra / np.sqrt(n_fft) if normalized else spectra


# ---- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize(("n_fft", "hop", "width"), [(8, 2, 8), (8, 3, 6), (7, 2, 7), (9, 4, 6)])
def test_frames_of_the_definition(n_fft, hop, width, is_complex):
    x = signal(25, is_complex=is_complex)
    window = hann(width)
    for center, normalized, onesided in itertools.product((True, False), repeat=3):
        if is_complex and onesided:
            continue
        got = torch.stft(
            x, n_fft, hop, width, window, center, "reflect", normalized, onesided, True
        )
        close(got, reference(x.numpy(), n_fft, hop, window.numpy(), center, normalized, onesided))


def test_defaults():
    x = signal(30)
    window = hann(8)
    got = torch.stft(x, 8, window=window, return_complex=True)
    close(got, reference(x.numpy(), 8, 2, window.numpy(), True, False, True))
    assert torch.equal(x.stft(8, window=window, return_complex=True).real, got.real)
    z = torch.complex(x, x)
    assert torch.stft(z, 8, window=window).shape == (8, 16)  # complex: all bins, complex result


def test_batches_and_padding_modes():
    x = signal(3, 20)
    modes = {"reflect": "reflect", "constant": "constant", "replicate": "edge", "circular": "wrap"}
    for mode, numpys in modes.items():
        got = torch.stft(x, 6, 2, window=hann(6), pad_mode=mode, return_complex=True)
        for row, want in zip(got, x.numpy(), strict=True):
            close(row, reference(want, 6, 2, hann(6).numpy(), True, False, True, numpys))
    assert torch.stft(x[:0], 6, 2, window=hann(6), return_complex=True).shape == (0, 4, 11)


def test_complex_windows_need_all_bins():
    window = torch.complex(hann(8), 0.5 * hann(8))
    x = signal(20)
    got = torch.stft(x, 8, window=window)
    close(got, reference(x.numpy(), 8, 2, window.numpy(), True, False, False))
    with pytest.raises(RuntimeError, match="Cannot have onesided output"):
        torch.stft(x, 8, window=window, onesided=True)


def test_frames_aligned_to_the_window():
    x = signal(20)
    window = hann(6)
    for n_fft in (8, 9):
        got = torch.stft(x, n_fft, 2, 6, window, center=False, align_to_window=True,
                         return_complex=True)  # fmt: skip
        left = (n_fft - 6) // 2
        padded = np.pad(x.numpy(), (left, n_fft - 6 - left))
        close(got, reference(padded, n_fft, 2, window.numpy(), False, False, True))
        assert got.shape[1] == 1 + (20 - 6) // 2
    with pytest.raises(RuntimeError, match="align_to_window should only be set when center"):
        torch.stft(x, 8, window=hann(8), align_to_window=True, return_complex=True)


def test_no_window_is_ones_and_warns():
    x = signal(20)
    with pytest.warns(UserWarning, match="window was not provided"):
        got = torch.stft(x, 8, win_length=6, return_complex=True)
    ones = torch.ones(6, dtype=torch.float64)
    close(got, torch.stft(x, 8, win_length=6, window=ones, return_complex=True).numpy())
    with pytest.warns(UserWarning, match="window was not provided"):
        back = torch.istft(got, 8, win_length=6)
    close(back, x.numpy())


def test_real_parts_on_request():
    x = signal(20)
    with pytest.warns(UserWarning, match="return_complex=False is deprecated"):
        parts = torch.stft(x, 8, window=hann(8), return_complex=False)
    want = torch.stft(x, 8, window=hann(8), return_complex=True)
    close(parts, torch.view_as_real(want).numpy())
    with pytest.raises(RuntimeError, match="requires the return_complex parameter be given"):
        torch.stft(x, 8, window=hann(8))


def test_dtypes():
    x, w = signal(20), hann(8)
    assert torch.stft(x.float(), 8, window=w.float(), return_complex=True).dtype == torch.complex64
    assert torch.stft(x.float(), 8, window=w, return_complex=True).dtype == torch.complex128
    with pytest.raises(RuntimeError, match="expected a tensor of floating point or complex values"):
        torch.stft(torch.arange(20), 8, window=w, return_complex=True)
    with pytest.raises(RuntimeError, match="Unsupported dtype float16"):
        torch.stft(x.half(), 8, window=w.half(), center=False, return_complex=True)


# ---- and back ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_fft", "hop", "width"), [(8, 2, 8), (8, 3, 6), (7, 2, 7), (9, 1, 5)])
@pytest.mark.parametrize("is_complex", [False, True])
def test_round_trip(n_fft, hop, width, is_complex):
    x = signal(2, 24, is_complex=is_complex)
    for normalized, onesided in itertools.product((True, False), repeat=2):
        if is_complex and onesided:
            continue
        options = {"window": hann(width), "normalized": normalized, "onesided": onesided}
        spectra = torch.stft(x, n_fft, hop, width, return_complex=True, **options)
        back = {"return_complex": is_complex, "length": 24}
        close(torch.istft(spectra, n_fft, hop, width, **options, **back), x.numpy())
        close(spectra[0].istft(n_fft, hop, width, **options, **back), x[0].numpy())


def test_length_cuts_and_fills():
    x = signal(20)
    spectra = torch.stft(x, 8, window=hann(8), return_complex=True)
    close(torch.istft(spectra, 8, window=hann(8)), x.numpy())
    close(torch.istft(spectra, 8, window=hann(8), length=15), x[:15].numpy())
    with pytest.warns(UserWarning, match="shorter than the length parameter"):
        longer = torch.istft(spectra, 8, window=torch.ones(8, dtype=torch.float64), length=30)
    assert longer.shape == (30,)
    assert longer[24:].abs().max() == 0
    for length in (0, -3):
        with pytest.raises(RuntimeError, match="at least one sample"):
            torch.istft(spectra, 8, window=hann(8), length=length)


def test_modified_spectra_are_fitted():
    """The result is the nearest signal in the windowed frames: their residual is orthogonal."""
    spectra = signal(5, 9, is_complex=True)
    window = hann(8) + 0.1
    x = torch.istft(spectra, 8, 2, window=window, center=False).requires_grad_()
    again = torch.stft(x, 8, 2, window=window, center=False, return_complex=True, onesided=False)
    frames = torch.fft.irfft(spectra.t(), 8).t()
    residual = torch.fft.ifft(again, dim=0).real - frames
    (gradient,) = torch.autograd.grad((residual**2).sum(), x)
    close(gradient, np.zeros(x.shape))


def test_windows_that_leave_gaps_are_refused():
    spectra = torch.stft(signal(20), 8, window=hann(8), return_complex=True)
    for options in [{"center": False}, {"hop_length": 8}]:
        with pytest.raises(RuntimeError, match="window overlap add min: 0"):
            torch.istft(spectra, 8, window=hann(8), **options)
    with pytest.raises(RuntimeError, match="window overlap add min: nan"):
        torch.istft(spectra, 8, window=hann(8) * torch.nan)


# ---- wrong arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "args", "options", "text"),
    [
        ((2, 3, 20), (8,), {}, r"FloatTensor\[2, 3, 20\], n_fft=8.*expected a 1D or 2D tensor"),
        ((), (8,), {}, "expected a 1D or 2D tensor"),
        ((20,), (0,), {}, "expected 0 < n_fft"),
        ((20,), (-1,), {"center": False}, "expected 0 < n_fft <= 20, but got n_fft=-1"),
        ((20,), (30,), {"center": False}, "expected 0 < n_fft <= 20, but got n_fft=30"),
        ((20,), (60, 2, 8), {}, "Padding size should be less"),
        ((20,), (8, 0), {}, "expected hop_length > 0, but got hop_length=0"),
        ((20,), (3,), {}, "expected hop_length > 0, but got hop_length=0"),
        ((20,), (8, 2, 9), {}, "expected 0 < win_length <= n_fft, but got win_length=9"),
        ((20,), (8, 2, 6), {}, r"window tensor of size equal to win_length=6.*size \[8\]"),
    ],
)
def test_wrong_arguments_of_stft(shape, args, options, text):
    with pytest.raises(RuntimeError, match=text):
        torch.stft(torch.ones(shape), *args, window=torch.ones(8), return_complex=True, **options)


@pytest.mark.parametrize(
    ("change", "args", "options", "text"),
    [
        (lambda s: s.real, (8,), {}, "istft requires a complex-valued input"),
        (lambda s: s[None, None], (8,), {}, "expected a tensor with 2 or 3 dimensions, got 4"),
        (lambda s: s[0], (8,), {}, "expected a tensor with 2 or 3 dimensions, got 1"),
        (lambda s: s[:, :0], (8,), {}, "input tensor cannot be empty"),
        (lambda s: s, (8,), {"onesided": False}, "match n_fft when onesided=False, but got 5"),
        (lambda s: s, (10,), {}, r"match n_fft / 2 \+ 1 when onesided=True, but got 5"),
        (lambda s: s, (8, 0), {}, "expected 0 < hop_length <= win_length"),
        (lambda s: s, (8, 9), {}, "expected 0 < hop_length <= win_length"),
        (lambda s: s, (8, 2, 9), {}, "expected 0 < win_length <= n_fft"),
        (lambda s: s, (8, 2, 6), {}, "Invalid window shape"),
        (lambda s: s, (8,), {"return_complex": True}, "Cannot have onesided output"),
        (lambda s: s, (8,), {"window": torch.complex(hann(8), hann(8))}, "Complex windows are inc"),
    ],
)
def test_wrong_arguments_of_istft(change, args, options, text):
    spectra = torch.stft(signal(20), 8, window=hann(8), return_complex=True)
    with pytest.raises(RuntimeError, match=text):
        torch.istft(change(spectra), *args, **{"window": hann(8), **options})


# ---- derivatives and batching --------------------------------------------------------------------


def real_stft(x, w, **options):
    return torch.view_as_real(torch.stft(x, 6, 2, window=w, return_complex=True, **options))


@pytest.mark.parametrize(
    "options",
    [{}, {"center": False}, {"normalized": True, "onesided": False}, {"pad_mode": "circular"}],
)
def test_gradients_of_stft(options):
    x, w = signal(12).requires_grad_(), (hann(6) + 0.1).requires_grad_()
    f = lambda x, w: real_stft(x, w, **options)
    assert gradcheck(f, (x, w), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(lambda x, w: f(x, w) ** 2, (x, w))


@pytest.mark.parametrize("options", [{}, {"center": False}, {"normalized": True}, {"length": 9}])
def test_gradients_of_istft(options):
    re, im = signal(4, 5).requires_grad_(), signal(4, 5, seed=1).requires_grad_()
    w = (hann(6) + 0.5).requires_grad_()

    def f(re, im, w):
        return torch.istft(torch.complex(re, im), 6, 2, window=w, **options)

    assert gradcheck(f, (re, im, w), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(f, (re, im, w))


def test_gradient_through_the_round_trip_is_the_identity():
    x = signal(16).requires_grad_()
    spectra = torch.stft(x, 8, window=hann(8), return_complex=True)
    y = torch.istft(spectra, 8, window=hann(8))
    (g,) = torch.autograd.grad(y, x, signal(16, seed=2))
    close(g, signal(16, seed=2).numpy())


def test_an_unknown_padding_mode():
    with pytest.raises(NotImplementedError, match="padding mode foo"):
        torch.stft(signal(20), 8, window=hann(8), pad_mode="foo", return_complex=True)


def test_vmap_and_jvp():
    x, w = signal(3, 16), hann(8)
    f = lambda v: torch.stft(v, 8, window=w, return_complex=True)
    close(vmap(f)(x), f(x).numpy())
    close(vmap(f, in_dims=1)(x.t().contiguous()), f(x).numpy())
    g = lambda s: torch.istft(s, 8, window=w)
    close(vmap(g)(f(x)), x.numpy())
    _, tangent = jvp(f, (x[0],), (x[1],))
    close(tangent, f(x[1]).numpy())


def test_subclasses_are_kept():
    class Sub(torch.Tensor):
        pass

    spectra = torch.stft(signal(20).as_subclass(Sub), 8, window=hann(8), return_complex=True)
    assert type(spectra) is Sub
    assert type(torch.istft(spectra, 8, window=hann(8))) is Sub
