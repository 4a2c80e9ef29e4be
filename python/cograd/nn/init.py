# SPDX-License-Identifier: BSD-3-Clause
"""Initialises tensors in place; every function returns its argument."""

from __future__ import annotations

import functools
import math
import warnings
from typing import TYPE_CHECKING, Any

import cograd
from cograd import Tensor
from cograd._base import absent as _absent

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]


def _fill(tensor: Tensor, method: str, *args: Any, generator: Any = None) -> Tensor:
    with cograd.no_grad():
        options = {} if generator is None else {"generator": generator}
        getattr(tensor, method)(*args, **options)
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fills the tensor with samples from U(a, b)."""
    return _fill(tensor, "uniform_", a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fills the tensor with samples from N(mean, std^2)."""
    return _fill(tensor, "normal_", mean, std, generator=generator)


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Any = None) -> Tensor:
    return uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Any = None) -> Tensor:
    return normal_(tensor, mean, std, generator)


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    return _fill(tensor, "fill_", val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    return _fill(tensor, "zero_")


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def _reject_normal(
    tensor: Tensor, mean: float, std: float, a: float, b: float, options: dict[str, Any]
) -> Tensor:
    """Samples normal numbers again until they are within [a, b]."""
    low, high = (tensor.new_tensor(limit).item() for limit in (a, b))
    result = cograd.empty_like(tensor).normal_(mean, std, **options)
    while bool((outside := (result < low) | (result > high)).any()):
        fresh = cograd.empty_like(result).normal_(mean, std, **options)
        result = cograd.where(outside, fresh, result)
    return result


def _reject_uniform(
    tensor: Tensor, mean: float, std: float, a: float, b: float, options: dict[str, Any]
) -> Tensor:
    """Samples uniform numbers in [a, b], again until a second one is below the density."""
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    result = cograd.empty_like(tensor)
    pending = cograd.ones_like(tensor, dtype=cograd.bool)
    while bool(pending.any()):
        fresh = cograd.empty_like(tensor).uniform_(a, b, **options)
        density = fresh.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        result = cograd.where(pending, fresh, result)
        pending &= cograd.empty_like(tensor).uniform_(**options).log_().gt(density)
    return result


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Fills the tensor with samples from N(mean, std^2) truncated to [a, b].

    Inverts the distribution function; under ``set_rng("torch")`` uses rejection, as torch does.
    """
    mean, std, a, b = float(mean), float(std), float(a), float(b)
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )
    low, high = _normal_cdf((a - mean) / std), _normal_cdf((b - mean) / std)
    if cograd.get_rng() == "torch":
        with cograd.no_grad():
            draw = _reject_normal if high - low > 0.3 else _reject_uniform
            return tensor.copy_(draw(tensor, mean, std, a, b, {"generator": generator}))
    with cograd.no_grad():
        _fill(tensor, "uniform_", 2 * low - 1, 2 * high - 1, generator=generator)
        tensor.copy_(tensor.erfinv().mul(std * math.sqrt(2.0)).add(mean).clamp(a, b))
    return tensor


def _no_grad_trunc_normal_(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any = None
) -> Tensor:
    return trunc_normal_(tensor, mean, std, a, b, generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills the tensor with ``val``."""
    return _fill(tensor, "fill_", val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills the tensor with 1."""
    return _fill(tensor, "fill_", 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills the tensor with 0."""
    return _fill(tensor, "zero_")


def eye_(tensor: Tensor) -> Tensor:
    """Fills a 2-dim tensor with the identity matrix."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with cograd.no_grad():
        tensor.copy_(cograd.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fills a 3- to 5-dim convolution kernel so that it passes its input channels through."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.shape[0] // groups
    channels = min(per_group, tensor.shape[1])
    middle = tuple(size // 2 for size in tensor.shape[2:])
    with cograd.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(channels):
                index = (group * per_group + channel, channel, *middle)
                tensor[index] = 1
    return tensor


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Returns the scale factor of weights for ``nonlinearity``; ``param`` is its negative slope."""
    if nonlinearity in (
        "linear",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "sigmoid",
    ):
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "selu":
        return 3.0 / 4
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fills the tensor from U(-a, a), a = gain * sqrt(6 / (fan_in + fan_out))."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = gain * math.sqrt(6.0 / float(fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fills the tensor from N(0, std^2), std = gain * sqrt(2 / (fan_in + fan_out))."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def _is_empty(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fills the tensor from U(-b, b), b = gain * sqrt(3 / fan)."""
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fills the tensor from N(0, std^2), std = gain / sqrt(fan)."""
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fills the tensor with a (semi-)orthogonal matrix; the dims after the first are flattened.

    Raises:
        NotImplementedError: this build has no ``linalg.qr``.
    """
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    qr = getattr(getattr(cograd, "linalg", None), "qr", None)
    if qr is None:
        raise NotImplementedError("orthogonal_ needs cograd.linalg.qr, which this build lacks")
    rows, cols = tensor.shape[0], tensor.numel() // tensor.shape[0]
    flat = normal_(tensor.new_empty((rows, cols)), 0, 1, generator)
    with cograd.no_grad():
        q, r = qr(flat.t() if rows < cols else flat)
        q = q * r.diagonal().sign()
        tensor.copy_((q.t() if rows < cols else q).reshape(tensor.shape) * gain)
    return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fills a 2-dim tensor from N(0, std^2) and zeroes the fraction ``sparsity`` of each column."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    options = {} if generator is None else {"generator": generator}
    with cograd.no_grad():
        normal_(tensor, 0, std, generator)
        for col in range(cols):
            tensor[cograd.randperm(rows, **options)[:zeros], col] = 0
    return tensor


def _renamed(function: Any) -> Any:
    """Returns ``function`` under its old name, without the underscore; calling it warns."""
    new = function.__name__
    old = new[:-1]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)  # type: ignore[no-any-return]

    call.__name__ = call.__qualname__ = old
    call.__doc__ = f"Calls ``{new}`` under its deprecated name, which warns."
    return call


constant = _renamed(constant_)
dirac = _renamed(dirac_)
eye = _renamed(eye_)
kaiming_normal = _renamed(kaiming_normal_)
kaiming_uniform = _renamed(kaiming_uniform_)
normal = _renamed(normal_)
orthogonal = _renamed(orthogonal_)
sparse = _renamed(sparse_)
uniform = _renamed(uniform_)
xavier_normal = _renamed(xavier_normal_)
xavier_uniform = _renamed(xavier_uniform_)

if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
