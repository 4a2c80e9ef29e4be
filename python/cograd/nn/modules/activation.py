# SPDX-License-Identifier: BSD-3-Clause
"""Activation modules; each wraps the function of the same name in nn.functional."""

from __future__ import annotations

import warnings
from typing import Any

import cograd
from cograd import Tensor

from .. import functional as F
from ..parameter import Parameter
from .module import Module


class _Plain(Module):
    """An activation without options."""

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        output: Tensor = self._function(input)
        return output


class Tanh(_Plain):
    """tanh(x)."""

    _function = staticmethod(F.tanh)


class Sigmoid(_Plain):
    """1 / (1 + exp(-x))."""

    _function = staticmethod(F.sigmoid)


class LogSigmoid(_Plain):
    """log(sigmoid(x))."""

    _function = staticmethod(F.logsigmoid)


class Softsign(_Plain):
    """x / (1 + |x|)."""

    _function = staticmethod(F.softsign)


class Tanhshrink(_Plain):
    """x - tanh(x)."""

    _function = staticmethod(F.tanhshrink)


class _InPlace(Module):
    """An activation whose only option is ``inplace``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        output: Tensor = self._function(input, self.inplace)
        return output

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """max(x, 0)."""

    _function = staticmethod(F.relu)


class ReLU6(_InPlace):
    """min(max(x, 0), 6)."""

    _function = staticmethod(F.relu6)


class SELU(_InPlace):
    """Scaled exponential linear unit."""

    _function = staticmethod(F.selu)


class SiLU(_InPlace):
    """x * sigmoid(x)."""

    _function = staticmethod(F.silu)


class Mish(_InPlace):
    """x * tanh(softplus(x))."""

    _function = staticmethod(F.mish)


class Hardsigmoid(_InPlace):
    """relu6(x + 3) / 6."""

    _function = staticmethod(F.hardsigmoid)


class Hardswish(_InPlace):
    """x * relu6(x + 3) / 6."""

    _function = staticmethod(F.hardswish)


def _inplace_suffix(module: Any) -> str:
    return ", inplace=True" if module.inplace else ""


class LeakyReLU(Module):
    """x where positive, negative_slope * x elsewhere."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}{_inplace_suffix(self)}"


class ELU(Module):
    """x where positive, alpha * (exp(x) - 1) elsewhere."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}{_inplace_suffix(self)}"


class CELU(ELU):
    """x where positive, alpha * (exp(x / alpha) - 1) elsewhere."""

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        return F.celu(input, self.alpha, self.inplace)


class Hardtanh(Module):
    """x limited to [min_val, max_val]."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for old, new, value in (
            ("min_value", "min_val", min_value),
            ("max_value", "max_val", max_value),
        ):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{old}` is deprecated and rename to `{new}`",
                    FutureWarning,
                    stacklevel=2,
                )
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({max_val}) must be larger than min_val ({min_val})")

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}{_inplace_suffix(self)}"


class Threshold(Module):
    """x where it is above threshold, value elsewhere."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}{_inplace_suffix(self)}"


class GELU(Module):
    """x * Phi(x), Phi the normal distribution function; approximate: 'none' or 'tanh'."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + exp(beta x)) / beta; x itself above threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Softshrink(Module):
    """x moved towards zero by lambd."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(Softshrink):
    """x where |x| > lambd, zero elsewhere."""

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        return F.hardshrink(input, self.lambd)


class PReLU(Module):
    """x where positive, weight * x elsewhere; one weight, or one per channel (dim 1)."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(cograd.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fills the weights with ``init``."""
        with cograd.no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class GLU(Module):
    """a * sigmoid(b), where a and b are the halves of the input along dim."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """(*1, 2N, *2) to (*1, N, *2)."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class _AlongDim(Module):
    """A function of the softmax family."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """(*) to (*)."""
        output: Tensor = self._function(input, self.dim, 5)
        return output

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """exp(x) scaled to sum 1 along dim."""

    _function = staticmethod(F.softmax)


class LogSoftmax(_AlongDim):
    """log(softmax(x)) along dim."""

    _function = staticmethod(F.log_softmax)


class Softmin(_AlongDim):
    """softmax(-x) along dim."""

    _function = staticmethod(F.softmin)


__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]
