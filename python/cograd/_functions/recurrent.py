# SPDX-License-Identifier: BSD-3-Clause
"""Recurrent networks as functions: lstm, gru, rnn_tanh, rnn_relu and their cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cograd import _C
from cograd._C import Tensor

__all__ = [
    "gru",
    "gru_cell",
    "lstm",
    "lstm_cell",
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
]

TANH, RELU, LSTM, GRU = range(4)


def _states(mode: int, hx: Any) -> tuple[Tensor, Tensor | None]:
    if mode != LSTM:
        return hx, None
    if len(hx) != 2:
        raise RuntimeError(f"lstm expects two hidden states, got {len(hx)}")
    return hx[0], hx[1]


def run(
    mode: int,
    input: Tensor,
    batch_sizes: Tensor | None,
    hx: Any,
    params: Sequence[Tensor],
    options: tuple[Any, ...],
) -> tuple[Tensor, ...]:
    """Runs the layers over ``input``.

    options: has_biases, num_layers, dropout, train, bidirectional, batch_first.
    """
    h, c = _states(mode, hx)
    weights = list(params)
    if mode == LSTM and _C._autocast_enabled(input.is_cuda) and _projected(weights, options):
        return _with_wide_cells(input, batch_sizes, (h, c), weights, options)
    if batch_sizes is not None:  # those of a packed sequence are on the CPU
        batch_sizes = batch_sizes.to(input.device)
    values: tuple[Any, ...] = (input, h, weights, mode, *options, batch_sizes, c)
    out, h_n, c_n = _C._ops._rnn(*values)
    return (out, h_n, c_n) if mode == LSTM else (out, h_n)


def _projected(weights: list[Tensor], options: tuple[Any, ...]) -> bool:
    has_biases, num_layers, _, _, bidirectional, _ = options
    parts = int(num_layers) * (2 if bidirectional else 1)
    return len(weights) == (5 if has_biases else 3) * parts


def _with_wide_cells(
    input: Tensor,
    batch_sizes: Tensor | None,
    hx: tuple[Tensor, Any],
    weights: list[Tensor],
    options: tuple[Any, ...],
) -> tuple[Tensor, ...]:
    """Runs a projected LSTM under autocast, which casts all but the cell states, as in torch."""
    import cograd

    low = _C._autocast_dtype(input.is_cuda)

    def cast(x: Tensor) -> Tensor:
        return x if x.dtype == cograd.float64 else x.to(low)

    with cograd.autocast(input.device.type, enabled=False):
        state = (cast(hx[0]), hx[1])
        return run(LSTM, cast(input), batch_sizes, state, [cast(w) for w in weights], options)


def _layers(name: str, mode: int) -> Any:
    state = "(h_0, c_0)" if mode == LSTM else "h_0"

    def function(input: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        names = ["hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional"]
        packed = "batch_sizes" in kwargs or (
            len(args) > 1 and not isinstance(args[1], (list, tuple))
        )
        names = ["batch_sizes", *names] if packed else [*names, "batch_first"]
        if len(args) > len(names):
            raise TypeError(f"{name}() takes {len(names) + 1} arguments, got {len(args) + 1}")
        given = {**dict(zip(names, args)), **kwargs}
        if set(given) != set(names) or len(given) != len(args) + len(kwargs):
            raise TypeError(f"{name}() expected the arguments input, {', '.join(names)}")
        sizes = given.pop("batch_sizes", None)
        given.setdefault("batch_first", False)
        hx, params = given.pop("hx"), given.pop("params")
        order = ("has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")
        return run(mode, input, sizes, hx, params, tuple(given[key] for key in order))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Layers of recurrent cells; the outputs and the last states.

    ``{name}(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
    batch_first)`` for input (L, N, I), or ``{name}(data, batch_sizes, hx, params, has_biases,
    num_layers, dropout, train, bidirectional)`` for the parts of a PackedSequence. ``hx`` is
    {state}, each (layers * directions, N, size). ``params``: for each layer and direction w_ih,
    w_hh and, with biases, b_ih, b_hh.
    """
    return function


def _lstm_step(
    x: Tensor,
    h: Tensor,
    c: Any,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Computes the new h from the new c and returns both: the graph has that edge, as in torch."""
    gates = _C._nn.linear(x, w_ih, b_ih) + _C._nn.linear(h, w_hh, b_hh)
    o, cell = _C._ops._lstm_cell(gates, c)
    return o * cell.tanh(), cell


def _cell(name: str, mode: int) -> Any:
    def function(
        input: Tensor,
        hx: Any,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Any:
        if mode == LSTM and not isinstance(hx, (tuple, list)):
            raise TypeError(
                f"{name}(): argument 'hx' (position 2) must be tuple of Tensors, not "
                f"{type(hx).__name__}"
            )
        h: Any
        h, c = _states(mode, hx)
        if input.dim() == 0 or input.shape[-1] != w_ih.shape[1]:
            raise RuntimeError(
                f"{name}: input has inconsistent input_size: got {tuple(input.shape)}, expected "
                f"(..., {w_ih.shape[1]})"
            )
        vector = input.dim() == 1
        x: Any = input
        if vector:
            for state in (h, c):
                if state is not None and state.dim() != 1:
                    raise RuntimeError(
                        f"{name}: input has one dim, so each state must have one, too, but got a "
                        f"state of shape {tuple(state.shape)}"
                    )
            x, h, c = (t if t is None else t.unsqueeze(0) for t in (x, h, c))
        if h.shape[0] != x.shape[0]:
            raise RuntimeError(
                f"{name}: Input batch size {x.shape[0]} doesn't match hidden0 batch size "
                f"{h.shape[0]}"
            )
        if mode == LSTM:
            h_n, c_n = _lstm_step(x, h, c, w_ih, w_hh, b_ih, b_hh)
        else:
            _, h_n, c_n = _C._ops._rnn_layer(x, h, w_ih, w_hh, mode, False, None, c, b_ih, b_hh)
        if vector:
            h_n, c_n = h_n.squeeze(0), c_n.squeeze(0)
        return (h_n, c_n) if mode == LSTM else h_n

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        "One step: input (N, I) or (I), hx (N, H) or (H)"
        + (", a pair of them;" if mode == LSTM else ";")
        + " the new state, likewise."
    )
    return function


rnn_tanh, rnn_relu = _layers("rnn_tanh", TANH), _layers("rnn_relu", RELU)
lstm, gru = _layers("lstm", LSTM), _layers("gru", GRU)
rnn_tanh_cell, rnn_relu_cell = _cell("rnn_tanh_cell", TANH), _cell("rnn_relu_cell", RELU)
lstm_cell, gru_cell = _cell("lstm_cell", LSTM), _cell("gru_cell", GRU)
