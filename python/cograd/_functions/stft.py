# SPDX-License-Identifier: BSD-3-Clause
"""Short-time Fourier transforms: spectra of windowed frames of a signal, and the inverse."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import cograd
from cograd import _C, Tensor
from cograd import fft as _fft
from cograd.overrides import wrap_torch_function

__all__ = ["istft", "stft"]

_pad = _C._nn.pad
_SMALLEST_ENVELOPE = 1e-11  # smaller sums of squared windows cannot be divided by


def _describe(op: str, input: Tensor, window: Tensor | None, **options: Any) -> str:
    """Formats the call for messages: "stft(cograd.FloatTensor[20], n_fft=8, ...)"."""
    parts = [f"{input.type()}{list(input.shape)}"]
    for name, value in options.items():
        parts.append(f"{name}={int(value) if isinstance(value, bool) else value}")
        if name == "win_length":
            shown = "None" if window is None else f"{window.type()}{{{list(window.shape)}}}"
            parts.append(f"window={shown}")
    return f"{op}({', '.join(parts)})"


def _lengths(n_fft: Any, hop_length: Any, win_length: Any) -> tuple[int, int, int]:
    n = operator.index(n_fft)
    hop = n >> 2 if hop_length is None else operator.index(hop_length)
    return n, hop, n if win_length is None else operator.index(win_length)


def _centered(window: Tensor, n_fft: int) -> Tensor:
    """Pads ``window`` with zeros on both sides to length n_fft."""
    missing = n_fft - window.shape[0]
    return _pad(window, [missing // 2, missing - missing // 2]) if missing else window


def _check_onesided(onesided: Any, is_complex: bool) -> None:
    if onesided and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")


def _wants_complex(input: Tensor, window: Tensor | None, return_complex: bool | None) -> bool:
    if return_complex is None:
        return_complex = input.is_complex() or (window is not None and window.is_complex())
        if not return_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will "
                "further require that return_complex=True in a future release."
            )
    if not return_complex:
        warnings.warn(
            "stft with return_complex=False is deprecated. Note: you can still call view_as_real "
            "on the complex output to recover the old return format.",
            stacklevel=4,
        )
    return return_complex


@wrap_torch_function(lambda *args, **kwargs: args[:1] or (kwargs.get("input"),))
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Computes the spectra of frames of a signal: (batch?, bins, frames), complex.

    Args:
        input: signals (length,) or (batch, length), real or complex.
        n_fft: number of points of each spectrum.
        hop_length: distance between frames; default ``n_fft // 4``.
        win_length: length of the window, which is centered in n_fft points; default n_fft.
        window: factor of each frame; default ones.
        center: whether to pad the signal on both sides so that frame t is centered at
            t * hop_length.
        pad_mode: kind of padding: "reflect", "replicate", "circular" or "constant".
        normalized: whether to divide by the square root of n_fft.
        onesided: whether to return only bins 0 to n_fft / 2; default True unless the signal or the
            window is complex.
        return_complex: required for real signals; False (deprecated) returns (..., 2) real parts.
        align_to_window: with ``center=False``, whether the frames are counted by the window, not by
            n_fft.

    Raises:
        RuntimeError: the lengths do not fit each other.
    """
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    n_fft, hop, width = _lengths(n_fft, hop_length, win_length)
    what = _describe(
        "stft", input, window, n_fft=n_fft, hop_length=hop, win_length=width,
        normalized=normalized, onesided=onesided, return_complex=return_complex,
        align_to_window=align_to_window,
    )  # fmt: skip
    if window is None:
        warnings.warn(
            "stft(): A window was not provided. A rectangular window will be applied, which is "
            "known to cause spectral leakage. To suppress this warning, pass a window, for example "
            "window=hann_window(win_length) or window=ones(win_length).",
            stacklevel=3,
        )
    complex_result = _wants_complex(input, window, return_complex)
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(f"{what} : expected a tensor of floating point or complex values")
    if input.dim() not in (1, 2):
        raise RuntimeError(f"{what} : expected a 1D or 2D tensor")
    length = input.shape[-1] + (2 * (n_fft // 2) if center else 0)
    if not 0 < n_fft <= length:
        raise RuntimeError(f"{what} : expected 0 < n_fft <= {length}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"{what} : expected hop_length > 0, but got hop_length={hop}")
    if not 0 < width <= n_fft:
        raise RuntimeError(f"{what} : expected 0 < win_length <= n_fft, but got win_length={width}")
    if window is not None and window.shape != (width,):
        raise RuntimeError(
            f"{what} : expected a 1D window tensor of size equal to win_length={width}, but got "
            f"window with size {list(window.shape)}"
        )
    signal = input if input.dim() == 2 else input.unsqueeze(0)
    if center:
        signal = _pad(signal.unsqueeze(0), [n_fft // 2] * 2, pad_mode).squeeze(0)
    elif align_to_window:
        left = (n_fft - width) // 2
        signal = _pad(signal, [left, n_fft - width - left])
    frames = signal.unfold(-1, n_fft, hop)
    if window is None and width < n_fft:
        window = cograd.ones(width, dtype=cograd.float32, device=input.device).to(input.dtype)
    if window is not None:
        frames = frames * _centered(window, n_fft)
    _check_onesided(onesided, frames.is_complex())
    half = onesided is not False and not frames.is_complex()
    norm = "ortho" if normalized else "backward"
    spectra = (_fft.rfft if half else _fft.fft)(frames, norm=norm).transpose(-1, -2)
    if input.dim() == 1:
        spectra = spectra.squeeze(0)
    return spectra if complex_result else cograd.view_as_real(spectra)


def _overlap_add(frames: Tensor, hop: int) -> Tensor:
    """Sums ``frames`` (batch, count, size), ``hop`` apart: (batch, (count - 1) * hop + size).

    Splits frames into blocks of ``hop`` columns. Padding each row of blocks by as many blocks as a
    frame has, and reading each row one block earlier than the last, shifts row k by k blocks.
    """
    batch, count, size = frames.shape
    blocks = -(-size // hop)
    length = (count - 1) * hop + size
    x = _pad(frames, [0, blocks * hop - size]).reshape(batch, count, blocks, hop).transpose(1, 2)
    x = _pad(x, [0, 0, 0, blocks]).reshape(batch, blocks * (count + blocks) * hop)
    x = x.narrow(1, 0, blocks * (count + blocks - 1) * hop)
    return x.reshape(batch, blocks, (count + blocks - 1) * hop).sum(1).narrow(1, 0, length)


def _check_spectra(
    what: str, input: Tensor, n_fft: int, hop: int, width: int, half: bool, window: Tensor | None
) -> None:
    if input.numel() == 0:
        raise RuntimeError(f"{what} : input tensor cannot be empty.")
    bins = input.shape[-2]
    if half and bins != n_fft // 2 + 1:
        raise RuntimeError(
            f"{what} : expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match n_fft / 2 + 1 when onesided=True, but got {bins}"
        )
    if not half and bins != n_fft:
        raise RuntimeError(
            f"{what} : expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match n_fft when onesided=False, but got {bins}"
        )
    if not 0 < hop <= width:
        raise RuntimeError(f"{what} : expected 0 < hop_length <= win_length")
    if not 0 < width <= n_fft:
        raise RuntimeError(f"{what} : expected 0 < win_length <= n_fft")
    if window is not None and window.shape != (width,):
        raise RuntimeError(
            f"{what} : Invalid window shape. window has to be 1D and length of `win_length`"
        )


def _frames_of(spectra: Tensor, n_fft: int, norm: str, half: bool, return_complex: bool) -> Tensor:
    if return_complex:
        return _fft.ifft(spectra, norm=norm)
    if not half:
        spectra = spectra.narrow(-1, 0, n_fft // 2 + 1)
    return _fft.irfft(spectra, n_fft, norm=norm)


@wrap_torch_function(lambda *args, **kwargs: args[:1] or (kwargs.get("input"),))
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Inverts ``stft``: returns the signal whose spectra are nearest to ``input``.

    Args:
        input: spectra (batch?, bins, frames), complex.
        length: length of the result; by default what the frames cover, without the padding of
            ``center``.
        return_complex: whether the result is complex; otherwise imaginary parts are dropped.

    The other arguments are those of ``stft``. Multiplies the frames with ``window`` again, adds
    them where they overlap, and divides by the sum of the squares of the windows.

    Raises:
        RuntimeError: the lengths do not fit each other, or a sum of squares is zero somewhere.
    """
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    n_fft, hop, width = _lengths(n_fft, hop_length, win_length)
    what = _describe(
        "istft", input, window, n_fft=n_fft, hop_length=hop, win_length=width, center=center,
        normalized=normalized, onesided=onesided, length=length, return_complex=return_complex,
    )  # fmt: skip
    if window is None:
        warnings.warn(
            "istft(): A window was not provided. A rectangular window will be applied. Please "
            "provide the same window used by stft to make the inversion lossless. To suppress this "
            "warning, pass a window, for example window=ones(win_length).",
            stacklevel=3,
        )
    if input.dim() not in (2, 3):
        raise RuntimeError(f"{what} : expected a tensor with 2 or 3 dimensions, got {input.dim()}")
    half = input.shape[-2] != n_fft if onesided is None else onesided
    _check_spectra(what, input, n_fft, hop, width, half, window)
    if return_complex:
        _check_onesided(half, is_complex=True)
    elif window is not None and window.is_complex():
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    if window is None:
        window = cograd.ones(width, dtype=input.real.dtype, device=input.device)
    window = _centered(window, n_fft)
    spectra = (input if input.dim() == 3 else input.unsqueeze(0)).transpose(-1, -2)
    norm = "ortho" if normalized else "backward"
    frames = _frames_of(spectra, n_fft, norm, half, return_complex)
    signal = _overlap_add(frames * window, hop)
    envelope = _overlap_add((window * window).expand(1, frames.shape[1], n_fft), hop)
    signal = _trimmed(what, signal, envelope, n_fft if center else 0, length)
    return signal if input.dim() == 3 else signal.squeeze(0)


def _trimmed(
    what: str, signal: Tensor, envelope: Tensor, padding: int, length: int | None
) -> Tensor:
    """Returns ``signal / envelope`` without the padding of ``center``, ``length`` samples long."""
    covered = signal.shape[1]
    start = padding // 2
    end = covered - start if length is None else start + operator.index(length)
    kept = min(end, covered) - start
    if kept <= 0:
        raise RuntimeError(f"{what} : expected at least one sample in the result, got {kept}")
    envelope = envelope.narrow(1, start, kept)
    lowest = None if envelope.is_meta else envelope.detach().abs().min().item()
    if lowest is not None and not lowest >= _SMALLEST_ENVELOPE:
        raise RuntimeError(f"{what} window overlap add min: {lowest}")
    result = signal.narrow(1, start, kept) / envelope
    if end <= covered:
        return result
    warnings.warn(
        "istft(): The length of signal is shorter than the length parameter. Result is being "
        "padded with zeros in the tail. Please check your center and hop_length settings",
        stacklevel=5,
    )
    return _pad(result, [0, end - covered])
