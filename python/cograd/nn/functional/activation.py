# SPDX-License-Identifier: BSD-3-Clause
"""Activation functions: the core's ops where they exist, otherwise composed of ops."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import cograd
from cograd import Tensor

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]

logsigmoid = cograd.logsigmoid
hardshrink = cograd.hardshrink
prelu = cograd.prelu
sigmoid = cograd.sigmoid
softplus = cograd.softplus
softsign = cograd.softsign
tanh = cograd.tanh
tanhshrink = cograd.tanhshrink


def _write_back(op: Callable[..., Tensor], input: Tensor, *args: Any) -> Tensor:
    """Runs ``op`` in place: by the method of this name with ``_`` if there is one, else by a copy.

    Before the copy, ``op`` gets a clone if a graph is recorded, because it may save its input.
    """
    method = getattr(input, op.__name__ + "_", None)
    if method is not None:
        return method(*args)  # type: ignore[no-any-return]
    source = input.clone() if cograd.is_grad_enabled() and input.requires_grad else input
    return input.copy_(op(source, *args))


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Returns max(input, 0), elementwise."""
    return _write_back(relu, input) if inplace else cograd.relu(input)


def relu_(input: Tensor) -> Tensor:
    """Applies ``relu`` in place."""
    return relu(input, True)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Returns ``input`` where positive, ``negative_slope * input`` elsewhere."""
    if inplace:
        return _write_back(leaky_relu, input, negative_slope)
    return cograd.leaky_relu(input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Returns ``input`` where positive, ``alpha * (exp(input) - 1)`` elsewhere."""
    return _write_back(elu, input, alpha) if inplace else cograd.elu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Returns ``1.0507 * elu(input, 1.6733)``, which keeps the variance of activations near 1."""
    return _write_back(selu, input) if inplace else cograd.selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Returns ``input`` where positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere."""
    if alpha == 0:
        raise RuntimeError("celu(): alpha divides the input, so it cannot be 0")
    return _write_back(celu, input, alpha) if inplace else cograd.celu(input, alpha)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Returns ``input * sigmoid(input)``."""
    return _write_back(silu, input) if inplace else cograd.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Returns ``input * tanh(softplus(input))``."""
    return _write_back(mish, input) if inplace else cograd.mish(input)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Returns ``input * Phi(input)``, Phi being the normal CDF, or its 'tanh' approximation."""
    return cograd._C._nn.gelu(input, approximate=approximate)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Clamps ``input`` to [min_val, max_val]."""
    if float(min_val) > float(max_val):  # NumPy scalars would compare with every item of a list
        raise ValueError("min_val cannot be greater than max_val")
    if inplace:
        return hardtanh_(input, min_val, max_val)
    _check_unsigned_limits(input, min_val)
    return cograd.hardtanh(input, min_val, max_val)


def _check_unsigned_limits(input: Tensor, min_val: float) -> None:
    if input.dtype == cograd.uint8 and float(min_val) < 0:
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Clamps ``input`` to [0, 6]."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Returns ``relu6(input + 3) / 6``."""
    return _write_back(hardsigmoid, input) if inplace else cograd.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Returns ``input * relu6(input + 3) / 6``."""
    return _write_back(hardswish, input) if inplace else cograd.hardswish(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Returns ``input`` where it is above ``threshold``, ``value`` elsewhere."""
    if inplace:
        return _write_back(_public_threshold, input, threshold, value)
    return cograd.threshold(input, threshold, value)


_public_threshold = threshold


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Multiplies the first half of ``input`` along ``dim`` by the sigmoid of the second half."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    if input.size(dim) % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim % input.dim()} is size "
            f"{input.shape[dim]}"
        )
    value, gate = input.chunk(2, dim)
    return value * gate.sigmoid()


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Moves ``input`` towards zero by ``lambd``; values within ``lambd`` of zero become zero.

    Raises RuntimeError if ``lambd`` is negative, NaN or out of the dtype's range.
    """
    if not 0 <= lambd <= 65504:  # every dtype holds 65504: finfo() takes longer than the op
        _check_lambda(lambd, input.dtype)
    return cograd.softshrink(input, lambd)


def _check_lambda(lambd: float, given: cograd.dtype) -> None:
    dtype = given if given.is_floating_point else cograd.get_default_dtype()
    limit = cograd.finfo(dtype).max
    if not 0 <= lambd <= limit:
        raise RuntimeError(
            f"softshrink(): lambda must be in range [0, {limit:g}] for input dtype {dtype}, "
            f"but found {lambd}"
        )


def _implicit_dim(name: str, ndim: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. "
        "Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Returns exp(input), scaled to the sum 1 along ``dim``."""
    if dim is None:
        dim = _implicit_dim("softmax", input.dim(), _stacklevel)
    return cograd.softmax(input, dim) if dtype is None else cograd.softmax(input, dim, dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Returns log(softmax(input)) along ``dim``, without overflow."""
    if dim is None:
        dim = _implicit_dim("log_softmax", input.dim(), _stacklevel)
    if dtype is None:
        return cograd.log_softmax(input, dim)
    return cograd.log_softmax(input, dim, dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Returns ``softmax(-input)`` along ``dim``."""
    if dim is None:
        dim = _implicit_dim("softmin", input.dim(), _stacklevel)
    return softmax(-input, dim, dtype=dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Samples from the Gumbel-softmax distribution; with ``hard`` the values are one-hot.

    With ``hard``, the gradient is that of the soft sample. ``eps`` has no effect, as in torch.
    """
    noise = cograd.empty_like(logits, memory_format=cograd.contiguous_format).detach()
    gumbels = -noise.exponential_().log()
    soft = softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = cograd.zeros_like(logits).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Applies ``celu`` in place."""
    return celu(input, alpha, True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Applies ``elu`` in place."""
    return elu(input, alpha, True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Applies ``hardtanh`` in place; if ``min_val`` exceeds ``max_val``, all become ``max_val``."""
    _check_unsigned_limits(input, min_val)
    return _write_back(cograd.hardtanh, input, min_val, max_val)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Applies ``leaky_relu`` in place."""
    return leaky_relu(input, negative_slope, True)


def selu_(input: Tensor) -> Tensor:
    """Applies ``selu`` in place."""
    return selu(input, True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """Applies ``threshold`` in place."""
    return _public_threshold(input, threshold, value, True)


def _slopes(input: Tensor, lower: float, upper: float) -> Tensor:
    """Returns the factors of ``rrelu``: random where ``input`` is not positive, else 1."""
    falls = input <= 0
    if cograd.get_rng() != "torch" or input.is_meta:
        return cograd.where(falls, cograd.empty_like(input).uniform_(lower, upper), 1.0)
    # torch samples doubles, between bounds in the dtype of its computation, only where x <= 0.
    wide = cograd.promote_types(input.dtype, cograd.float32)
    low, high = cograd.tensor([lower, upper], dtype=wide, device="cpu").tolist()
    drawn = cograd.rand(int(falls.sum()), dtype=cograd.float64, device="cpu") * (high - low) + low
    factor = cograd.ones(input.shape, dtype=wide, device=input.device)
    factor[falls] = drawn.to(factor.device, wide)
    return factor


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Applies ``leaky_relu`` with a slope sampled from U(lower, upper) for each element.

    Outside of training the slope is the mean of ``lower`` and ``upper``.
    """
    if float(lower) > float(upper):
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    factor = _slopes(input.detach(), lower, upper)
    if inplace:
        return input.mul_(factor)
    return (cograd._C._ops._kinked_input(input) * factor).to(input.dtype)


def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """Applies ``rrelu`` in place."""
    return rrelu(input, lower, upper, training, True)
