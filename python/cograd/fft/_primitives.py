# SPDX-License-Identifier: BSD-3-Clause
"""The three transforms on which all others are based, as Functions.

Each is linear, and its adjoint is one of the three with the opposite ``norm``, so derivatives of
every order follow. Dims are negative, so that a batch dim in front does not shift them.
"""

from __future__ import annotations

import functools
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import cograd
from cograd import Tensor, from_numpy
from cograd._base.dtypes import dtype_name
from cograd.autograd import Function

Dims = tuple[int, ...]

# The factors of a transform and its inverse multiply to 1/n. The adjoint has the opposite
# direction, but the factor of the transform itself.
ADJOINT_NORM = {"backward": "forward", "forward": "backward", "ortho": "ortho"}

_NAME_OF_PARTS = {"float32": "complex64", "float64": "complex128"}
_WORTH_THREADS = 1 << 15  # number of elements


@functools.cache
def _library() -> Any:
    """Returns SciPy's transforms if it is installed, else NumPy's."""
    return import_module("scipy.fft" if find_spec("scipy") else "numpy.fft")


def _run(
    name: str, x: Tensor, dims: Dims, dtype: str, n: int | None = None, **options: Any
) -> Tensor:
    """Runs ``name`` of the library; ``n`` is the size of the result's last dim, by default x's."""
    if x.is_meta:
        last = x.shape[dims[-1]] if n is None else n
        shape = [*x.shape]
        shape[dims[-1]] = last // 2 + 1 if name == "rfft" else last
        return x.new_empty(shape, dtype=getattr(cograd, dtype))
    library = _library()
    if len(dims) == 1:  # takes half the time for few elements
        options.update(n=n, axis=dims[0])
    else:
        s = None if n is None else [*(x.shape[d] for d in dims[:-1]), n]
        options.update(s=s, axes=dims)
        name += "n"
    if library.__name__ == "scipy.fft" and x.numel() >= _WORTH_THREADS:
        options["workers"] = cograd.get_num_threads()
    result = getattr(library, name)(x.detach().cpu().numpy(), **options)
    # NumPy before 2.0 computes in double precision; results may have the memory order of the input.
    return from_numpy(result.astype(dtype, order="C", copy=False)).to(x.device)


def _bin_weights(like: Tensor, dim: int, n: int, interior: float) -> Tensor:
    """Returns 1 for the bins that occur once in the full spectrum (0, n/2), else ``interior``."""
    bins = n // 2 + 1
    values = [1.0] + [interior] * (bins - 1)
    if n % 2 == 0:
        values[-1] = 1.0
    dtype = cograd.float32 if like.dtype in (cograd.float32, cograd.complex64) else cograd.float64
    return cograd.tensor(values, dtype=dtype, device=like.device).reshape([bins] + [1] * (-dim - 1))


class _Transform(Function):
    """Base of the three transforms: saves the options and moves the batch dim of a vmap."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, *ctx.options = inputs
        ctx.real = not x.is_complex()
        ctx.size = x.shape[inputs[1][-1]]

    @classmethod
    def _batched(
        cls, in_dims: tuple[int | None, ...], x: Tensor, options: Any
    ) -> tuple[Tensor, int]:
        (dim, *_) = in_dims
        assert dim is not None
        return cls.apply(x.movedim(dim, 0), *options), 0


class FftC2C(_Transform):
    """Complex (or real) to complex transform over ``dims``."""

    @staticmethod
    def forward(x: Tensor, dims: Dims, forward: bool, norm: str) -> Tensor:
        dtype = _NAME_OF_PARTS.get(dtype_name(x.dtype), dtype_name(x.dtype))
        return _run("fft" if forward else "ifft", x, dims, dtype, norm=norm)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        dims, forward, norm = ctx.options
        result = FftC2C.apply(g, dims, not forward, ADJOINT_NORM[norm])
        return result.real if ctx.real else result, None, None, None

    @staticmethod
    def jvp(ctx: Any, t: Tensor, *_: Any) -> Tensor:
        return FftC2C.apply(t, *ctx.options)  # type: ignore[no-any-return]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, *options: Any) -> Any:
        return FftC2C._batched(in_dims, x, options)


class FftR2C(_Transform):
    """Real to complex transform over ``dims``; only bins 0 to n/2 of the last dim."""

    @staticmethod
    def forward(x: Tensor, dims: Dims, norm: str) -> Tensor:
        return _run("rfft", x, dims, _NAME_OF_PARTS[dtype_name(x.dtype)], norm=norm)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        dims, norm = ctx.options
        weights = _bin_weights(g, dims[-1], ctx.size, 0.5)  # C2R counts interior bins twice
        return FftC2R.apply(g * weights, dims, ADJOINT_NORM[norm], ctx.size), None, None

    @staticmethod
    def jvp(ctx: Any, t: Tensor, *_: Any) -> Tensor:
        return FftR2C.apply(t, *ctx.options)  # type: ignore[no-any-return]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, *options: Any) -> Any:
        return FftR2C._batched(in_dims, x, options)


class FftC2R(_Transform):
    """Inverse complex to real transform over ``dims``; bins 0 to n/2 of the last become n values.

    The imaginary parts of bins 0 and n/2 are ignored.
    """

    @staticmethod
    def forward(x: Tensor, dims: Dims, norm: str, n: int) -> Tensor:
        dtype = "float32" if x.dtype == cograd.complex64 else "float64"
        return _run("irfft", x, dims, dtype, n, norm=norm)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        dims, norm, n = ctx.options
        result = FftR2C.apply(g, dims, ADJOINT_NORM[norm])
        return result * _bin_weights(g, dims[-1], n, 2.0), None, None, None

    @staticmethod
    def jvp(ctx: Any, t: Tensor, *_: Any) -> Tensor:
        return FftC2R.apply(t, *ctx.options)  # type: ignore[no-any-return]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, *options: Any) -> Any:
        return FftC2R._batched(in_dims, x, options)
