# SPDX-License-Identifier: BSD-3-Clause
"""Recurrent layers: RNN, LSTM and GRU, and cells that compute one step of each."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

import cograd
from cograd import Tensor
from cograd._functions import recurrent as _recurrent

from .. import init
from .._sequences import PackedSequence
from ..parameter import Parameter
from .module import Module

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_MODES = {
    "RNN_TANH": _recurrent.TANH,
    "RNN_RELU": _recurrent.RELU,
    "LSTM": _recurrent.LSTM,
    "GRU": _recurrent.GRU,
}
_GATES = (1, 1, 4, 3)


def _shuffled(state: Tensor, order: Tensor | None) -> Tensor:
    return state if order is None else state.index_select(1, order)


class RNNBase(Module):
    """Base class of RNN, LSTM and GRU: holds the parameters, checks inputs and runs the layers.

    Args:
        mode: 'RNN_TANH', 'RNN_RELU', 'LSTM' or 'GRU'.
        input_size: I, features of the input.
        hidden_size: H, features of the state.
        num_layers: number of layers; each reads the outputs of the previous one.
        bias: whether there are ``bias_ih`` and ``bias_hh``.
        batch_first: whether inputs and outputs are (N, L, features) rather than (L, N, features).
        dropout: probability of zeroing outputs of all layers but the last, in training.
        bidirectional: whether each layer has a second direction, from the last step to the first.
        proj_size: for LSTM, the size to which the outputs are projected; 0 means no projection.
        device, dtype: those of the parameters; None for the default.

    Raises:
        ValueError: the input does not have 2 or 3 dims or has another dtype, ``dropout`` is not in
            [0, 1], or a size is not positive.
        RuntimeError: the features or the shape of the state do not fit, or L is 0.

    Shape:
        - input: (L, N, I), or another form that RNN accepts; output: (L, N, D H).
        - weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0: as in RNN, with 4 H rows for an LSTM
          and 3 H for a GRU; weight_hr_l0: (proj_size, H), if ``proj_size`` is not 0.
    """

    mode: str
    input_size: int
    hidden_size: int

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_arguments(dropout)
        if mode not in _MODES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        gates = _GATES[_MODES[mode]] * hidden_size
        width = proj_size or hidden_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else width * (2 if bidirectional else 1)
            for suffix in ("", "_reverse") if bidirectional else ("",):
                shapes = {"weight_ih": (gates, inputs), "weight_hh": (gates, width)}
                if bias:
                    shapes.update({"bias_ih": (gates,), "bias_hh": (gates,)})  # type: ignore[dict-item]
                if proj_size > 0:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = []
                for name, shape in shapes.items():
                    names.append(f"{name}_l{layer}{suffix}")
                    value = cograd.empty(shape, device=device, dtype=dtype)
                    setattr(self, names[-1], Parameter(value))
                self._all_weights.append(names)
        self.reset_parameters()

    def _check_arguments(self, dropout: Any) -> None:
        if (
            not isinstance(dropout, numbers.Number)
            or not 0 <= dropout <= 1  # type: ignore[operator]
            or isinstance(dropout, bool)
        ):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if dropout > 0 and self.num_layers == 1:  # type: ignore[operator]
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={self.num_layers}",
                stacklevel=4,
            )
        if not isinstance(self.hidden_size, int):
            raise TypeError(
                f"hidden_size should be of type int, got: {type(self.hidden_size).__name__}"
            )
        if self.hidden_size <= 0:
            raise ValueError("hidden_size must be greater than zero")
        if self.num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if self.proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")

    def reset_parameters(self) -> None:
        """Samples all weights from U(-k, k), k = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Does nothing: the weights need not share one block of memory."""

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Tensor]:
        """Returns the list that was assigned, until a weight is replaced, else the parameters."""
        given = self.__dict__.get("_given_weights")
        if given is not None:
            weights, then = given
            if all(a is b for a, b in zip(self._named_weights(), then, strict=True)):
                return weights  # type: ignore[no-any-return]
            del self.__dict__["_given_weights"]
        params = self._parameters
        found = [params.get(name) for name in self._flat_weights_names]
        if any(weight is None for weight in found):  # attributes replace parameters
            return [getattr(self, name) for name in self._flat_weights_names]
        return found  # type: ignore[return-value]

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Tensor]) -> None:
        self.__dict__["_given_weights"] = weights, self._named_weights()

    def _named_weights(self) -> list[Any]:
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """Returns the parameters in one list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raises if the layer does not accept the input's dtype, dims or features."""
        dtype = self._flat_weights[0].dtype
        if input.dtype != dtype:
            raise ValueError(f"input must have the type {dtype}, got type {input.dtype}")
        expected = 3 if batch_sizes is None else 2
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. "
                f"Expected {self.input_size}, got {input.shape[-1]}"
            )
        if batch_sizes is None and input.shape[int(self.batch_first)] == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """Returns (layers * directions, N, size of the output)."""
        return (self._count(), self._batch(input, batch_sizes), self.proj_size or self.hidden_size)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """Returns (layers * directions, N, hidden_size)."""
        return (self._count(), self._batch(input, batch_sizes), self.hidden_size)

    def _count(self) -> int:
        return self.num_layers * (2 if self.bidirectional else 1)

    def _batch(self, input: Tensor, batch_sizes: Tensor | None) -> int:
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.shape[0] if self.batch_first else input.shape[1]

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raises if ``hx`` does not have the expected shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises if the input or the state does not fit the layer."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Returns the state with its samples reordered."""
        return _shuffled(hx, permutation)

    def _check_rank(self, input: Tensor, hx: Any) -> bool:
        """Returns whether the input is a batch; raises unless the state is one as well."""
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{self._get_name()}: Expected input to be 2D or 3D, got {input.dim()}D instead"
            )
        batched = input.dim() == 3
        if hx is not None and hx.dim() != input.dim():
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx should also be {input.dim()}-D but got {hx.dim()}-D tensor"
            )
        return batched

    def _zero_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        size = self.get_expected_hidden_size(input, batch_sizes)
        return cograd.zeros(size, dtype=input.dtype, device=input.device)

    def _each_state(self, hx: Any, function: Any) -> Any:
        return function(hx)

    def _call(self, input: Tensor, batch_sizes: Tensor | None, hx: Any) -> tuple[Tensor, Any]:
        self.check_forward_args(input, hx, batch_sizes)
        options = (
            bool(self.bias),
            self.num_layers,
            self.dropout,
            self.training,
            bool(self.bidirectional),
            bool(self.batch_first) and batch_sizes is None,
        )
        result = _recurrent.run(
            _MODES[self.mode], input, batch_sizes, hx, self._flat_weights, options
        )
        return result[0], result[1] if len(result) == 2 else result[1:]

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Returns the outputs and the last states.

        The input is (L, N, I), batch first (N, L, I), without batch (L, I), or a PackedSequence;
        ``hx`` is (layers * directions, N, H), without N for an input without batch; zeros by
        default. The outputs are (L, N, directions * H), in the form of the input; the states have
        the shape of ``hx``.
        """
        if isinstance(input, PackedSequence):
            data, sizes, order, back = input
            hx = self._zero_state(data, sizes) if hx is None else self.permute_hidden(hx, order)
            out, state = self._call(data, sizes, hx)
            return PackedSequence(out, sizes, order, back), self.permute_hidden(state, back)
        batched = self._check_rank(input, hx)
        if not batched:
            dim = 0 if self.batch_first else 1
            input = input.unsqueeze(dim)
            if hx is not None:
                hx = self._each_state(hx, lambda h: h.unsqueeze(1))
        if hx is None:
            hx = self._zero_state(input, None)
        out, state = self._call(input, None, hx)
        if not batched:
            return out.squeeze(dim), self._each_state(state, lambda h: h.squeeze(1))
        return out, state

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            text += f", bidirectional={self.bidirectional}"
        return text


def _refuse_projection(kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """Computes h_t = tanh(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh), or with relu, step by step.

    All weights are initialised from U(-k, k), k = 1 / sqrt(H). In evaluation there is no dropout.
    The kink of relu gets the gradient 0.

    Elman, Finding Structure in Time (1990).

    Args:
        input_size: I, features of the input.
        hidden_size: H, features of the state.
        num_layers: number of layers (1); each reads the outputs of the previous one.
        nonlinearity: 'tanh' (the default) or 'relu'; by keyword or as the fourth argument.
        bias: whether there are ``bias_ih`` and ``bias_hh`` (True).
        batch_first: whether inputs and outputs are (N, L, features), not (L, N, features) (False).
        dropout: probability of zeroing outputs of all layers but the last, in training (0).
        bidirectional: whether each layer also runs from the last step to the first (False).
        device, dtype: those of the parameters; None for the default.
        args, kwargs: the arguments above, in this order.

    Raises:
        ValueError: the input does not have 2 or 3 dims or has another dtype, ``dropout`` is not in
            [0, 1], a size is not positive, ``nonlinearity`` is unknown, or ``proj_size`` is given.
        RuntimeError: the features or the shape of the state do not fit, or L is 0.

    Shape:
        - input: (L, N, I), with ``batch_first`` (N, L, I), without batch (L, I), or a
          PackedSequence.
        - hx and the returned state: (D num_layers, N, H), without batch (D num_layers, H); hx is
          zeros by default.
        - output: (L, N, D H), in the form of the input, where D is 2 if ``bidirectional``, else 1.
        - weight_ih_l0: (H, I), of later layers (H, D H); weight_hh_l0: (H, H); bias_ih_l0,
          bias_hh_l0: (H); layer k has the suffix ``_lk``, its second direction ``_lk_reverse``.
        - dtypes: floating, that of the weights.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_projection(kwargs)
        if len(args) > 3:
            self.__dict__["nonlinearity"] = args[3]
            args = args[:3] + args[4:]
        else:
            self.__dict__["nonlinearity"] = kwargs.pop("nonlinearity", "tanh")
        kind = self.__dict__["nonlinearity"]
        if kind not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{kind}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_" + kind.upper(), *args, **kwargs)
        self.nonlinearity = kind


class LSTM(RNNBase):
    """Long short-term memory: gates decide what a cell keeps; the state is (h, c).

    i, f, o = sigmoid(...), g = tanh(...), c_t = f c_{t-1} + i g, h_t = o tanh(c_t), where each gate
    has the argument W_ih x_t + b_ih + W_hh h_{t-1} + b_hh; with ``proj_size``, h_t is
    W_hr (o tanh(c_t)). The rows of the weights are in the order i, f, g, o. All weights are
    initialised from U(-k, k), k = 1 / sqrt(H). In evaluation there is no dropout.

    Hochreiter and Schmidhuber, Long Short-Term Memory (1997); projections: Sak, Senior and Beaufays
    (arXiv:1402.1128).

    Args:
        input_size: I, features of the input.
        hidden_size: H, features of the state.
        num_layers: number of layers (1); each reads the outputs of the previous one.
        bias: whether there are ``bias_ih`` and ``bias_hh`` (True).
        batch_first: whether inputs and outputs are (N, L, features), not (L, N, features) (False).
        dropout: probability of zeroing outputs of all layers but the last, in training (0).
        bidirectional: whether each layer also runs from the last step to the first (False).
        proj_size: P, the size to which h is projected, smaller than H (0: no projection, and P
            below is H).
        device, dtype: those of the parameters; None for the default.
        args, kwargs: the arguments above, in this order.

    Raises:
        ValueError: the input does not have 2 or 3 dims or has another dtype, ``dropout`` is not in
            [0, 1], a size is not positive, or ``proj_size`` is not smaller than H.
        RuntimeError: the features or the shape of the state do not fit, or L is 0.

    Shape:
        - input: (L, N, I), with ``batch_first`` (N, L, I), without batch (L, I), or a
          PackedSequence.
        - hx and the returned state: a pair, h (D num_layers, N, P) and c (D num_layers, N, H), both
          without N if there is no batch; hx is zeros by default.
        - output: (L, N, D P), in the form of the input, where D is 2 if ``bidirectional``, else 1.
        - weight_ih_l0: (4 H, I), of later layers (4 H, D P); weight_hh_l0: (4 H, P); bias_ih_l0,
          bias_hh_l0: (4 H); weight_hr_l0: (P, H) with ``proj_size``; layer k has the suffix
          ``_lk``, its second direction ``_lk_reverse``.
        - dtypes: floating, that of the weights.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises if the input or the pair of states does not fit the layer."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(
            hidden[0],
            self.get_expected_hidden_size(input, batch_sizes),
            "Expected hidden[0] size {}, got {}",
        )
        self.check_hidden_size(
            hidden[1],
            self.get_expected_cell_size(input, batch_sizes),
            "Expected hidden[1] size {}, got {}",
        )

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Returns the pair of states with its samples reordered."""
        return _shuffled(hx[0], permutation), _shuffled(hx[1], permutation)

    def _check_rank(self, input: Tensor, hx: Any) -> bool:
        batched = super()._check_rank(input, None)
        if hx is not None and (hx[0].dim() != input.dim() or hx[1].dim() != input.dim()):
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {input.dim()}-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )
        return batched

    def _zero_state(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        options: dict[str, Any] = {"dtype": input.dtype, "device": input.device}
        return (
            cograd.zeros(self.get_expected_hidden_size(input, batch_sizes), **options),
            cograd.zeros(self.get_expected_cell_size(input, batch_sizes), **options),
        )

    def _each_state(self, hx: Any, function: Any) -> Any:
        return function(hx[0]), function(hx[1])


class GRU(RNNBase):
    """Gated recurrent units: gate r decides what a step sees, gate z what it keeps.

    r, z = sigmoid(W_i x_t + b_i + W_h h_{t-1} + b_h), n = tanh(W_in x_t + b_in + r (W_hn h_{t-1} +
    b_hn)), h_t = (1 - z) n + z h_{t-1}. The rows of the weights are in the order r, z, n. All
    weights are initialised from U(-k, k), k = 1 / sqrt(H). In evaluation there is no dropout.

    Cho et al., Learning Phrase Representations using RNN Encoder-Decoder (arXiv:1406.1078).

    Args:
        input_size: I, features of the input.
        hidden_size: H, features of the state.
        num_layers: number of layers (1); each reads the outputs of the previous one.
        bias: whether there are ``bias_ih`` and ``bias_hh`` (True).
        batch_first: whether inputs and outputs are (N, L, features), not (L, N, features) (False).
        dropout: probability of zeroing outputs of all layers but the last, in training (0).
        bidirectional: whether each layer also runs from the last step to the first (False).
        device, dtype: those of the parameters; None for the default.
        args, kwargs: the arguments above, in this order.

    Raises:
        ValueError: the input does not have 2 or 3 dims or has another dtype, ``dropout`` is not in
            [0, 1], a size is not positive, or ``proj_size`` is given.
        RuntimeError: the features or the shape of the state do not fit, or L is 0.

    Shape:
        - input: (L, N, I), with ``batch_first`` (N, L, I), without batch (L, I), or a
          PackedSequence.
        - hx and the returned state: (D num_layers, N, H), without batch (D num_layers, H); hx is
          zeros by default.
        - output: (L, N, D H), in the form of the input, where D is 2 if ``bidirectional``, else 1.
        - weight_ih_l0: (3 H, I), of later layers (3 H, D H); weight_hh_l0: (3 H, H); bias_ih_l0,
          bias_hh_l0: (3 H); layer k has the suffix ``_lk``, its second direction ``_lk_reverse``.
        - dtypes: floating, that of the weights.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


def _check_rank_of(cell: str, value: Tensor, name: str) -> None:
    if value.dim() not in (1, 2):
        raise ValueError(f"{cell}: Expected {name} to be 1D or 2D, got {value.dim()}D instead")


def _zeros_for(cell: Any, input: Tensor) -> Tensor:
    shape = (*input.shape[:-1], cell.hidden_size)
    return cograd.zeros(shape, dtype=input.dtype, device=input.device)


def _weights_of(cell: Any) -> tuple[Any, ...]:
    return cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh


class RNNCellBase(Module):
    """Base class of the cells: holds ``weight_ih``, ``weight_hh`` and, with ``bias``, two biases.

    All weights are initialised from U(-k, k), k = 1 / sqrt(H).

    Args:
        input_size: I, features of the input.
        hidden_size: H, features of the state.
        bias: whether there are ``bias_ih`` and ``bias_hh``.
        num_chunks: G, the number of gates, so that the weights have G H rows: 1, 4 or 3.
        device, dtype: those of the parameters; None for the default.

    Shape:
        - weight_ih: (G H, I); weight_hh: (G H, H); bias_ih, bias_hh: (G H).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(cograd.empty((rows, input_size), **options))
        self.weight_hh = Parameter(cograd.empty((rows, hidden_size), **options))
        for name in ("bias_ih", "bias_hh"):
            value = Parameter(cograd.empty(rows, **options)) if bias else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Samples all weights from U(-k, k), k = 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        """Returns the arguments as ``repr`` shows them."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text


class RNNCell(RNNCellBase):
    """One step of RNN: h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu instead of tanh.

    All weights are initialised from U(-k, k), k = 1 / sqrt(H).

    Args:
        input_size: I, features of the input.
        hidden_size: H, features of the state.
        bias: whether there are ``bias_ih`` and ``bias_hh``.
        nonlinearity: 'tanh' or 'relu'.
        device, dtype: those of the parameters; None for the default.

    Raises:
        ValueError: the input or the state does not have 1 or 2 dims.
        RuntimeError: the features do not fit, or ``nonlinearity`` is unknown, when the module is
            called.

    Shape:
        - input: (N, I) or (I).
        - hx and output: (N, H) or (H); hx is zeros by default.
        - weight_ih: (H, I); weight_hh: (H, H); bias_ih, bias_hh: (H).
        - dtypes: floating, that of the weights.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Maps (N, I), (N, H) to (N, H)."""
        _check_rank_of("RNNCell", input, "input")
        if hx is not None:
            _check_rank_of("RNNCell", hx, "hidden")
        steps = {"tanh": _recurrent.rnn_tanh_cell, "relu": _recurrent.rnn_relu_cell}
        if self.nonlinearity not in steps:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        hx = _zeros_for(self, input) if hx is None else hx
        return steps[self.nonlinearity](input, hx, *_weights_of(self))  # type: ignore[no-any-return]


class LSTMCell(RNNCellBase):
    """One step of LSTM: maps an input and the states (h, c) to the new pair of states.

    i, f, o = sigmoid(...), g = tanh(...), c' = f c + i g, h' = o tanh(c'), where each gate has the
    argument W_ih x + b_ih + W_hh h + b_hh. All weights are initialised from U(-k, k),
    k = 1 / sqrt(H).

    Args:
        input_size: I, features of the input.
        hidden_size: H, features of the state.
        bias: whether there are ``bias_ih`` and ``bias_hh``.
        device, dtype: those of the parameters; None for the default.

    Raises:
        ValueError: the input or a state does not have 1 or 2 dims.
        RuntimeError: the features do not fit.

    Shape:
        - input: (N, I) or (I).
        - hx and output: pairs of (N, H) or (H); hx is zeros by default.
        - weight_ih: (4 H, I); weight_hh: (4 H, H); bias_ih, bias_hh: (4 H).
        - dtypes: floating, that of the weights.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Maps (N, I), ((N, H), (N, H)) to ((N, H), (N, H))."""
        _check_rank_of("LSTMCell", input, "input")
        if hx is None:
            hx = (_zeros_for(self, input), _zeros_for(self, input))
        for i, state in enumerate(hx):
            _check_rank_of("LSTMCell", state, f"hx[{i}]")
        return _recurrent.lstm_cell(input, hx, *_weights_of(self))  # type: ignore[no-any-return]


class GRUCell(RNNCellBase):
    """One step of GRU: maps an input and a state to the new state.

    r, z = sigmoid(...), n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h' = (1 - z) n + z h. All
    weights are initialised from U(-k, k), k = 1 / sqrt(H).

    Args:
        input_size: I, features of the input.
        hidden_size: H, features of the state.
        bias: whether there are ``bias_ih`` and ``bias_hh``.
        device, dtype: those of the parameters; None for the default.

    Raises:
        ValueError: the input or the state does not have 1 or 2 dims.
        RuntimeError: the features do not fit.

    Shape:
        - input: (N, I) or (I).
        - hx and output: (N, H) or (H); hx is zeros by default.
        - weight_ih: (3 H, I); weight_hh: (3 H, H); bias_ih, bias_hh: (3 H).
        - dtypes: floating, that of the weights.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Maps (N, I), (N, H) to (N, H)."""
        _check_rank_of("GRUCell", input, "input")
        if hx is not None:
            _check_rank_of("GRUCell", hx, "hidden")
        hx = _zeros_for(self, input) if hx is None else hx
        return _recurrent.gru_cell(input, hx, *_weights_of(self))  # type: ignore[no-any-return]
