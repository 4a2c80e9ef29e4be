# SPDX-License-Identifier: BSD-3-Clause
"""Linear, Bilinear and Identity."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module

__all__ = [
    "Bilinear",
    "Identity",
    "LazyLinear",
    "Linear",
]


class Identity(Module):
    """Returns its input; accepts and ignores any arguments.

    Args:
        args, kwargs: ignored.

    Shape:
        - input and output: (*), any shape and dtype; the very same tensor.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*) to (*)."""
        return input


class Linear(Module):
    """Computes x A^T + b, with ``weight`` A and ``bias`` b.

    See ``nn.functional.linear``.

    Args:
        in_features: size of the last dim of the input.
        out_features: size of the last dim of the output.
        bias: whether b is added.
        device, dtype: those of the parameters; None for the default.

    Raises:
        RuntimeError: the last dim is not ``in_features``, or the dtype is not the weight's.

    Shape:
        - input: (*, in_features).
        - output: (*, out_features).
        - weight: (out_features, in_features), initialised from U(-k, k), k = 1 / sqrt(in_features).
        - bias: (out_features), initialised in the same way; None if ``bias`` is False.
        - dtypes: floating or complex, the weight's.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        options = {"device": device, "dtype": dtype}
        self.weight = Parameter(cograd.empty((out_features, in_features), **options))
        if bias:
            self.bias = Parameter(cograd.empty(out_features, **options))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Samples new weights and biases."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Maps (*, in_features) to (*, out_features)."""
        try:  # a dict lookup takes a fifth of the time of Module.__getattr__
            params = self._parameters
            weight, bias = params["weight"], params["bias"]
        except (KeyError, AttributeError):  # attributes shadow parameters, or self is no Module
            weight, bias = self.weight, self.bias
        return F.linear(input, weight, bias)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """The output projection of MultiheadAttention, under the name that torch prints.

    In all other respects it is Linear.

    Args:
        in_features: size of the last dim of the input.
        out_features: size of the last dim of the output.
        bias: whether a bias is added.
        device, dtype: those of the parameters; None for the default.

    Shape:
        - input: (*, in_features).
        - output: (*, out_features).
        - weight: (out_features, in_features); bias: (out_features).
    """


class Bilinear(Module):
    """Computes y_k = x1^T A_k x2 + b_k, with ``weight`` A and ``bias`` b.

    See ``nn.functional.bilinear``.

    Args:
        in1_features: size of the last dim of x1, positive.
        in2_features: size of the last dim of x2.
        out_features: size of the last dim of the output.
        bias: whether b is added.
        device, dtype: those of the parameters; None for the default.

    Raises:
        ValueError: ``in1_features`` is not positive.
        RuntimeError: sizes do not fit, or a dtype is not the weight's.

    Shape:
        - input1: (*, in1_features); input2: (*, in2_features), with the same leading dims.
        - output: (*, out_features).
        - weight: (out_features, in1_features, in2_features), initialised from U(-k, k), k = 1 /
          sqrt(in1_features).
        - bias: (out_features), initialised in the same way; None if ``bias`` is False.
        - dtypes: floating or complex, the weight's.
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        options = {"device": device, "dtype": dtype}
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(cograd.empty(shape, **options))
        if bias:
            self.bias = Parameter(cograd.empty(out_features, **options))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Samples new weights and biases from U(-k, k), k = 1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Maps (*, in1_features), (*, in2_features) to (*, out_features)."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """Linear whose ``in_features`` is inferred from its first input.

    The first call turns it into a Linear.

    Args:
        out_features: size of the last dim of the output.
        bias: whether b is added.
        device, dtype: those of the parameters; None for the default.

    Raises:
        RuntimeError: the shape of a parameter is accessed before the first call.

    Shape:
        - input: (*, in_features); output: (*, out_features).
        - weight: (out_features, in_features); bias: (out_features); they have no shape before the
          first call.
    """

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False, device, dtype)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)
        self._wait()

    def reset_parameters(self) -> None:
        """Samples new weights and biases if they have a shape."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Creates the parameters for an input (*, in_features)."""
        if self.has_uninitialized_params():
            with cograd.no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
