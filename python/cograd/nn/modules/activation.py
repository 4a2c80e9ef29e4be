# SPDX-License-Identifier: BSD-3-Clause
"""Activation modules; each wraps the function of the same name in nn.functional."""

from __future__ import annotations

import warnings
from typing import Any

import cograd
from cograd import Tensor

from .. import functional as F
from ..parameter import Parameter
from ._activations import _AlongDim, _InPlace, _inplace_suffix, _Plain
from .module import Module


class Tanh(_Plain):
    """Computes tanh(x) = (exp(x) - exp(-x)) / (exp(x) + exp(-x)) elementwise.

    The function is smooth: its derivative 1 - tanh(x)^2 is defined everywhere on the real line. See
    ``nn.functional.tanh``.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating or complex; integers and bool become the default floating dtype.
    """

    _function = staticmethod(F.tanh)


class Sigmoid(_Plain):
    """Computes 1 / (1 + exp(-x)) elementwise.

    The function is smooth: with y = sigmoid(x), its derivative is y (1 - y). See
    ``nn.functional.sigmoid``.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating or complex; integers and bool become the default floating dtype.
    """

    _function = staticmethod(F.sigmoid)


class LogSigmoid(_Plain):
    """Computes log(1 / (1 + exp(-x))) elementwise, without overflow.

    The function is smooth: its derivative is sigmoid(-x). See ``nn.functional.logsigmoid``.

    Raises:
        NotImplementedError: the input is complex.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating; integers and bool become the default floating dtype.
    """

    _function = staticmethod(F.logsigmoid)


class Softsign(_Plain):
    """Computes x / (1 + |x|) elementwise.

    The derivative 1 / (1 + |x|)^2 is 1 at 0, from both sides. See ``nn.functional.softsign``.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating or complex; integers and bool become the default floating dtype.
    """

    _function = staticmethod(F.softsign)


class Tanhshrink(_Plain):
    """Computes x - tanh(x) elementwise.

    The function is smooth: its derivative is tanh(x)^2. See ``nn.functional.tanhshrink``.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating or complex; integers and bool become the default floating dtype.
    """

    _function = staticmethod(F.tanhshrink)


class ReLU(_InPlace):
    """Computes max(x, 0) elementwise.

    The kink at 0 gets the gradient 0; NaN stays NaN. Nair and Hinton, Rectified Linear Units
    Improve Restricted Boltzmann Machines (2010). See ``nn.functional.relu``.

    Args:
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        NotImplementedError: the input is complex or bool.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating or integer, kept.
    """

    _function = staticmethod(F.relu)


class ReLU6(_InPlace):
    """Computes min(max(x, 0), 6) elementwise.

    The kinks at 0 and 6 get the gradient 0. Krizhevsky, Convolutional Deep Belief Networks on
    CIFAR-10 (2010). See ``nn.functional.relu6``.

    Args:
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        NotImplementedError: the input is complex or bool.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating or integer, kept.
    """

    _function = staticmethod(F.relu6)


class SELU(_InPlace):
    """Computes scale * x where x > 0, scale * alpha * (exp(x) - 1) elsewhere.

    scale is 1.0507009873554805 and alpha 1.6732632423543772: with these, activations of mean 0 and
    variance 1 keep their mean and variance. The kink at 0 gets the gradient of the exponential,
    scale * alpha, about 1.7581. Klambauer et al., Self-Normalizing Neural Networks
    (arXiv:1706.02515). See ``nn.functional.selu``.

    Args:
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        NotImplementedError: the input is complex.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating; integers and bool become the default floating dtype.
    """

    _function = staticmethod(F.selu)


class SiLU(_InPlace):
    """Computes x * sigmoid(x) elementwise; also called swish.

    The function is smooth and defined everywhere on the real line. Elfwing, Uchibe and Doya,
    Sigmoid-Weighted Linear Units for Neural Network Function Approximation in Reinforcement
    Learning (arXiv:1702.03118). See ``nn.functional.silu``.

    Args:
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating or complex; integers and bool become the default floating dtype.
    """

    _function = staticmethod(F.silu)


class Mish(_InPlace):
    """Computes x * tanh(log(1 + exp(x))) elementwise.

    The function is smooth: its derivative at 0 is 0.6. Misra, Mish: A Self Regularized
    Non-Monotonic Activation Function (arXiv:1908.08681). See ``nn.functional.mish``.

    Args:
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        NotImplementedError: the input is complex.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating; integers and bool become the default floating dtype.
    """

    _function = staticmethod(F.mish)


class Hardsigmoid(_InPlace):
    """Computes min(max(x + 3, 0), 6) / 6: a piecewise linear sigmoid.

    The kinks at -3 and 3 get the gradient 0; between them it is 1 / 6. Howard et al., Searching for
    MobileNetV3 (arXiv:1905.02244). See ``nn.functional.hardsigmoid``.

    Args:
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        NotImplementedError: the input is complex.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating; integers and bool become the default floating dtype.
    """

    _function = staticmethod(F.hardsigmoid)


class Hardswish(_InPlace):
    """Computes x * min(max(x + 3, 0), 6) / 6 elementwise.

    The kinks get the gradient of the outer lines: 0 at -3 and 1 at 3. Howard et al.,
    Searching for MobileNetV3 (arXiv:1905.02244). See ``nn.functional.hardswish``.

    Args:
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        NotImplementedError: the input is complex.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating; integers and bool become the default floating dtype.
    """

    _function = staticmethod(F.hardswish)


class LeakyReLU(Module):
    """Computes x where x > 0, negative_slope * x elsewhere.

    The kink at 0 gets the gradient ``negative_slope``. Maas, Hannun and Ng, Rectifier
    Nonlinearities Improve Neural Network Acoustic Models (2013). See ``nn.functional.leaky_relu``.

    Args:
        negative_slope: the factor of x below 0, any number.
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        NotImplementedError: the input is complex.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating; integers and bool become the default floating dtype.
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}{_inplace_suffix(self)}"


class ELU(Module):
    """Computes x where x > 0, alpha * (exp(x) - 1) elsewhere.

    At 0 the gradient is that of the exponential, ``alpha``; the default, 1, has no kink.
    Clevert, Unterthiner and Hochreiter, Fast and Accurate Deep Network Learning by Exponential
    Linear Units (arXiv:1511.07289). See ``nn.functional.elu``.

    Args:
        alpha: minus the limit for x to -inf, any number.
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        NotImplementedError: the input is complex.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating; integers and bool become the default floating dtype.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}{_inplace_suffix(self)}"


class CELU(ELU):
    """Computes x where x > 0, alpha * (exp(x / alpha) - 1) elsewhere.

    The derivative is continuous for every ``alpha``, and 1 at 0. Barron, Continuously
    Differentiable Exponential Linear Units (arXiv:1704.07483). See ``nn.functional.celu``.

    Args:
        alpha: minus the limit for x to -inf, not 0.
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        NotImplementedError: the input is complex.
        RuntimeError: ``alpha`` is 0, when the module is called.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating; integers and bool become the default floating dtype.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        return F.celu(input, self.alpha, self.inplace)


class Hardtanh(Module):
    """Clamps x to [min_val, max_val].

    The kinks at both limits and the values outside of them get the gradient 0. See
    ``nn.functional.hardtanh``.

    Args:
        min_val, max_val: the limits.
        inplace: whether to write the result into the input; raises for a leaf that requires grad.
        min_value, max_value: deprecated names of the limits, which warn.

    Raises:
        AssertionError: ``max_val`` is not larger than ``min_val``.
        NotImplementedError: the input is complex or bool.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating or integer, kept.
    """

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
        if float(self.max_val) <= float(self.min_val):
            raise AssertionError(f"max_val ({max_val}) must be larger than min_val ({min_val})")

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}{_inplace_suffix(self)}"


class Threshold(Module):
    """Computes x where x > threshold, value elsewhere.

    The jump at the threshold and the values below it get the gradient 0. See
    ``nn.functional.threshold``.

    Args:
        threshold: the largest value that is replaced.
        value: the value that replaces it.
        inplace: whether to write the result into the input; raises for a leaf that requires grad.

    Raises:
        NotImplementedError: the input is complex or bool.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating or integer, kept.
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}{_inplace_suffix(self)}"


class GELU(Module):
    """Computes x * Phi(x), where Phi is the CDF of the standard normal distribution.

    With approximate='tanh', Phi(x) is (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2. Both are
    smooth. Hendrycks and Gimpel, Gaussian Error Linear Units (arXiv:1606.08415). See
    ``nn.functional.gelu``.

    Args:
        approximate: 'none' or 'tanh'.

    Raises:
        RuntimeError: ``approximate`` is something else, when the module is called.
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """Computes log(1 + exp(beta x)) / beta, or x itself where beta x > threshold.

    The derivative is sigmoid(beta x), and 1 where the result is x. Dugas et al., Incorporating
    Second-Order Functional Knowledge for Better Option Pricing (2000). See
    ``nn.functional.softplus``.

    Args:
        beta: larger values are nearer to ReLU; 0 gives inf and NaN.
        threshold: the limit of beta x; above it the difference from x is below float32's precision.

    Raises:
        NotImplementedError: the input is complex.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating; integers and bool become the default floating dtype.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Softshrink(Module):
    """Computes x - lambd where x > lambd, x + lambd where x < -lambd, 0 between.

    The kinks at -lambd and lambd get the gradient 0. See ``nn.functional.softshrink``.

    Args:
        lambd: the distance by which values move towards 0, not negative.

    Raises:
        RuntimeError: ``lambd`` is negative, when the module is called.
        NotImplementedError: the input is complex.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating; integers and bool become the default floating dtype.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(Softshrink):
    """Computes x where |x| > lambd, 0 elsewhere.

    The jumps at -lambd and lambd get the gradient 0. See ``nn.functional.hardshrink``.

    Args:
        lambd: half the width of the interval that becomes 0.

    Raises:
        NotImplementedError: the input is complex.

    Shape:
        - input and output: (*), any shape.
        - dtypes: floating; integers and bool become the default floating dtype.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        return F.hardshrink(input, self.lambd)


class PReLU(Module):
    """Computes x where x > 0, weight * x elsewhere, with a learned weight.

    At 0, the gradient of the input is the weight and the gradient of the weight is 0. He et al.,
    Delving Deep into Rectifiers (arXiv:1502.01852). See ``nn.functional.prelu``.

    Args:
        num_parameters: 1, or the number C of channels.
        init: the initial value of the weights.
        device, dtype: those of the parameters; None for the default.

    Raises:
        RuntimeError: the number of channels or the dtype is not that of the weights.
        NotImplementedError: the input is complex.

    Shape:
        - input and output: (*) for one weight, (N, C, *) for C of them, which belong to dim 1.
        - weight: (num_parameters).
        - dtypes: floating, the weight's.
    """

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
        """Maps (*) to (*)."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class GLU(Module):
    """Computes a * sigmoid(b), where a and b are the halves of the input along ``dim``.

    The function is smooth and defined everywhere on the real line. Dauphin et al., Language
    Modeling with Gated Convolutional Networks (arXiv:1612.08083). See ``nn.functional.glu``.

    Args:
        dim: the dim to halve; its size must be even.

    Raises:
        RuntimeError: the size of ``dim`` is odd, or the input has no dims.
        IndexError: ``dim`` does not exist.

    Shape:
        - input: (*, 2 M, *), 2 M at ``dim``.
        - output: (*, M, *).
        - dtypes: floating or complex; integers and bool become the default floating dtype.
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*1, 2N, *2) to (*1, N, *2)."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """Computes exp(x_i) / sum_j exp(x_j) along ``dim``: positive values whose sum is 1.

    The function is smooth for finite values. An element inf, or only elements -inf, make NaN.
    See ``nn.functional.softmax``.

    Args:
        dim: the dim to sum over; None warns and means 0 for inputs of 0, 1 or 3 dims, else 1.

    Raises:
        IndexError: ``dim`` does not exist.
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (*), any shape that has ``dim``.
        - dtypes: floating.
    """

    _function = staticmethod(F.softmax)


class LogSoftmax(_AlongDim):
    """Computes x_i - log(sum_j exp(x_j)) along ``dim``: the logarithms of Softmax.

    The function is smooth for finite values. An element inf, or only elements -inf, make NaN.
    See ``nn.functional.log_softmax``.

    Args:
        dim: the dim to sum over; None warns and means 0 for inputs of 0, 1 or 3 dims, else 1.

    Raises:
        IndexError: ``dim`` does not exist.
        NotImplementedError: the input is not floating.

    Shape:
        - input and output: (*), any shape that has ``dim``.
        - dtypes: floating.
    """

    _function = staticmethod(F.log_softmax)


class Softmin(_AlongDim):
    """Computes exp(-x_i) / sum_j exp(-x_j) along ``dim``: the smallest value gets most.

    The function is smooth for finite values. See ``nn.functional.softmin``.

    Args:
        dim: the dim to sum over; None warns and means 0 for inputs of 0, 1 or 3 dims, else 1.

    Raises:
        IndexError: ``dim`` does not exist.
        NotImplementedError: the input is integer or complex.
        RuntimeError: the input is bool.

    Shape:
        - input and output: (*), any shape that has ``dim``.
        - dtypes: floating.
    """

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
