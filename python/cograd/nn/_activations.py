# SPDX-License-Identifier: BSD-3-Clause
"""Activation functions: the core's where it has them, otherwise composed of its ops."""

from __future__ import annotations

import math
import warnings
from typing import Any

import cograd
from cograd import Tensor

from ._core import core_function, core_op, core_or, write_back


def _leaky_relu(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    return cograd.where(input > 0, input, input * negative_slope)


def _elu_like(input: Tensor, alpha: float, scale: float, input_scale: float) -> Tensor:
    low = (input.clamp(max=0) * input_scale).expm1() * (alpha * scale)
    return cograd.where(input > 0, input * scale, low)


def _elu(input: Tensor, alpha: float = 1.0) -> Tensor:
    return _elu_like(input, alpha, 1.0, 1.0)


def _selu(input: Tensor) -> Tensor:
    return _elu_like(input, 1.6732632423543772, 1.0507009873554805, 1.0)


def _celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    return _elu_like(input, alpha, 1.0, 1.0 / alpha)


def _softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    scaled = input * beta
    soft = scaled.clamp(max=threshold).exp().log1p() / beta
    return cograd.where(scaled > threshold, input, soft)


def _silu(input: Tensor) -> Tensor:
    return input * input.sigmoid()


def _mish(input: Tensor) -> Tensor:
    return input * softplus(input).tanh()


def _gelu(input: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "none":
        return input * 0.5 * ((input * math.sqrt(0.5)).erf() + 1)
    if approximate == "tanh":
        inner = math.sqrt(2.0 / math.pi) * (input + 0.044715 * input * input * input)
        return input * 0.5 * (inner.tanh() + 1)
    raise RuntimeError("approximate argument must be either none or tanh.")


def _hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    # clamp lets the gradient through at the limits, hardtanh does not.
    inside = (input > min_val) & (input < max_val)
    return cograd.where(inside, input, input.detach().clamp(min_val, max_val))


def _hardsigmoid(input: Tensor) -> Tensor:
    return (_hardtanh(input, -3.0, 3.0) + 3) / 6


def _hardswish(input: Tensor) -> Tensor:
    middle = input * ((input + 3) / 6)
    high = cograd.where(input >= 3, input, cograd.zeros_like(input))
    return cograd.where((input > -3) & (input < 3), middle, high)


def _threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    return cograd.where(input > threshold, input, cograd.full_like(input, value))


def _logsigmoid(input: Tensor) -> Tensor:
    return input.clamp(max=0) - (-input.abs()).exp().log1p()


def _glu(input: Tensor, dim: int = -1) -> Tensor:
    if input.dim() == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    if input.shape[dim] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim % input.dim()} is size "
            f"{input.shape[dim]}"
        )
    value, gate = input.chunk(2, dim)
    return value * gate.sigmoid()


def _relu(input: Tensor) -> Tensor:
    return cograd.where(input > 0, input, cograd.zeros_like(input))


def _softsign(input: Tensor) -> Tensor:
    """``input / (1 + |input|)``."""
    return input / (input.abs() + 1)


def _tanhshrink(input: Tensor) -> Tensor:
    """``input - tanh(input)``."""
    return input - input.tanh()


def _softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``input`` moved towards zero by ``lambd``, zero within it."""
    return input - input.clamp(-lambd, lambd)


def _hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``input`` where ``|input| > lambd``, zero elsewhere."""
    return cograd.where(input.abs() > lambd, input, cograd.zeros_like(input))


relu_op = core_or("relu", _relu)
leaky_relu_op = core_or("leaky_relu", _leaky_relu)
elu_op = core_or("elu", _elu)
selu_op = core_or("selu", _selu)
celu_op = core_or("celu", _celu)
silu_op = core_or("silu", _silu)
mish_op = core_or("mish", _mish)
hardtanh_op = core_or("hardtanh", _hardtanh)
hardsigmoid_op = core_or("hardsigmoid", _hardsigmoid)
hardswish_op = core_or("hardswish", _hardswish)
threshold_op = core_or("threshold", _threshold)
softmax_op = cograd.softmax
log_softmax_op = cograd.log_softmax

softplus = core_or("softplus", _softplus)
gelu_op = core_or("gelu", _gelu)
_gelu_tanh_op = core_op("gelu_tanh")
logsigmoid = core_or("logsigmoid", _logsigmoid)
glu = core_or("glu", _glu)
prelu = core_function("prelu")
softsign = core_or("softsign", _softsign)
tanhshrink = core_or("tanhshrink", _tanhshrink)
softshrink_op = core_or("softshrink", _softshrink)
hardshrink = core_or("hardshrink", _hardshrink)
tanh = cograd.tanh
sigmoid = cograd.sigmoid


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0), element-wise."""
    return write_back(relu, input) if inplace else relu_op(input)


def relu_(input: Tensor) -> Tensor:
    """In-place ``relu``."""
    return relu(input, True)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``input`` where positive, ``negative_slope * input`` elsewhere."""
    if inplace:
        return write_back(leaky_relu, input, negative_slope)
    return leaky_relu_op(input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where positive, ``alpha * (exp(input) - 1)`` elsewhere."""
    return write_back(elu, input, alpha) if inplace else elu_op(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Scaled ``elu`` with the constants of self-normalising networks."""
    return write_back(selu, input) if inplace else selu_op(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere."""
    return write_back(celu, input, alpha) if inplace else celu_op(input, alpha)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * sigmoid(input)``."""
    return write_back(silu, input) if inplace else silu_op(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * tanh(softplus(input))``."""
    return write_back(mish, input) if inplace else mish_op(input)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """``input * Phi(input)``, Phi the normal distribution function; or its 'tanh' form."""
    if approximate == "none":
        return gelu_op(input)
    if approximate == "tanh" and _gelu_tanh_op is not None:
        return _gelu_tanh_op(input)
    return gelu_op(input, approximate=approximate)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """``input`` limited to [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if inplace:
        return write_back(hardtanh, input, min_val, max_val)
    return hardtanh_op(input, min_val, max_val)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``input`` limited to [0, 6]."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``relu6(input + 3) / 6``."""
    return write_back(hardsigmoid, input) if inplace else hardsigmoid_op(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * relu6(input + 3) / 6``."""
    return write_back(hardswish, input) if inplace else hardswish_op(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``input`` where it is above ``threshold``, ``value`` elsewhere."""
    if inplace:
        return write_back(_public_threshold, input, threshold, value)
    return threshold_op(input, threshold, value)


_public_threshold = threshold


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``input`` moved towards zero by ``lambd``, zero within it."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return softshrink_op(input, lambd)


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
    """exp(input) scaled to sum 1 along ``dim``."""
    if dim is None:
        dim = _implicit_dim("softmax", input.dim(), _stacklevel)
    return softmax_op(input, dim) if dtype is None else softmax_op(input, dim, dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """log(softmax(input)) along ``dim``, without overflow."""
    if dim is None:
        dim = _implicit_dim("log_softmax", input.dim(), _stacklevel)
    if dtype is None:
        return log_softmax_op(input, dim)
    return log_softmax_op(input, dim, dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """``softmax(-input)`` along ``dim``."""
    if dim is None:
        dim = _implicit_dim("softmin", input.dim(), _stacklevel)
    return softmax(-input, dim, dtype=dtype)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of the Gumbel-softmax distribution; ``hard`` gives one-hot values.

    With ``hard`` the gradient is that of the soft sample.
    """
    tiny = cograd.finfo(logits.dtype).tiny
    noise = cograd.empty_like(logits).detach().uniform_(tiny, 1.0)
    gumbels = -(-noise.log()).log()
    soft = softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = cograd.zeros_like(logits).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
