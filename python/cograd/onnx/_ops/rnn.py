# SPDX-License-Identifier: BSD-3-Clause
"""Recurrent layers."""

from __future__ import annotations

from typing import Any

from cograd.onnx._ops._table import op, refuse
from cograd.onnx._writer import Value, Writer

# The op of each mode, and the gates of torch's weights in the order of ONNX's.
_MODES = {
    0: ("RNN", [0]),
    1: ("RNN", [0]),
    2: ("LSTM", [0, 3, 1, 2]),
    3: ("GRU", [1, 0, 2]),
}


@op("_rnn")
def rnn(
    w: Writer,
    input: Value,
    hx: Value,
    params: Any,
    mode: int,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    batch_sizes: Any = None,
    cx: Any = None,
) -> Any:
    if batch_sizes is not None:
        raise refuse("a recurrent layer over a packed sequence")
    if dropout and train:
        raise refuse("the dropout of a recurrent layer in training")
    directions = 2 if bidirectional else 1
    each = len(params) // (num_layers * directions)
    if each != (4 if has_biases else 2):
        raise refuse("proj_size of an LSTM")
    x: Any = w.emit("Transpose", input, perm=[1, 0, 2]) if batch_first else input.name
    states: list[list[str]] = [[], []]
    for layer in range(num_layers):
        first = layer * directions
        weights = [params[(first + d) * each : (first + d + 1) * each] for d in range(directions)]
        limits = w.const([first]), w.const([first + directions]), w.const([0])
        initial = [w.emit("Slice", s, *limits) for s in (hx, cx) if s is not None]
        made = _layer(w, x, mode, weights, initial, directions, has_biases)
        for kept, state in zip(states, made[1:], strict=False):
            kept.append(state)
        # (L, directions, N, H) to (L, N, directions * H)
        turned = w.emit("Transpose", made[0], perm=[0, 2, 1, 3])
        x = w.emit("Reshape", turned, w.const([0, 0, -1]))
    if batch_first:
        x = w.emit("Transpose", x, perm=[1, 0, 2])
    last = [w.emit("Concat", *parts, axis=0) if parts else None for parts in states]
    return [x, *last]


def _layer(
    w: Writer, x: str, mode: int, weights: Any, initial: Any, directions: int, has_biases: bool
) -> Any:
    onnx, gates = _MODES[mode]
    hidden = w.static(w.size(weights[0][1], 1), "the hidden size")
    rows = w.const([g * hidden + i for g in gates for i in range(hidden)])

    def ordered(tensors: Any) -> Any:
        parts = [w.emit("Unsqueeze", w.emit("Gather", t, rows), w.const([0])) for t in tensors]
        return parts[0] if len(parts) == 1 else w.emit("Concat", *parts, axis=0)

    biases = None
    if has_biases:
        both = (ordered([p[i] for p in weights]) for i in (2, 3))
        biases = w.emit("Concat", *both, axis=1)
    options: dict[str, Any] = {"hidden_size": hidden}
    options["direction"] = "forward" if directions == 1 else "bidirectional"
    if onnx == "RNN":
        options["activations"] = [("Tanh", "Relu")[mode]] * directions
    if onnx == "GRU":
        options["linear_before_reset"] = 1
    return w.emit(
        onnx,
        x,
        ordered([p[0] for p in weights]),
        ordered([p[1] for p in weights]),
        biases,
        None,
        *initial,
        outputs=3 if onnx == "LSTM" else 2,
        **options,
    )


@op("_lstm_cell")
def lstm_cell(w: Writer, gates: Value, cx: Value) -> Any:
    i, f, g, o = w.emit("Split", gates, outputs=4, axis=1, num_outputs=4)
    kept = w.emit("Mul", w.emit("Sigmoid", f), cx)
    new = w.emit("Mul", w.emit("Sigmoid", i), w.emit("Tanh", g))
    return [w.emit("Sigmoid", o), w.emit("Add", kept, new)]


@op("_rnn_layer")
def rnn_layer(
    w: Writer,
    input: Value,
    hx: Value,
    w_ih: Value,
    w_hh: Value,
    mode: int,
    reverse: bool = False,
    batch_sizes: Any = None,
    cx: Any = None,
    b_ih: Any = None,
    b_hh: Any = None,
    w_hr: Any = None,
) -> Any:
    if batch_sizes is not None or w_hr is not None or reverse or mode == 2:
        raise refuse("a recurrent layer in this form")
    weights = [[w_ih, w_hh, *(b for b in (b_ih, b_hh) if b is not None)]]
    one = w.const([0])
    steps = w.reshape(input, [-1, w.size(hx, 0), w.size(input, 1)])
    initial = [w.emit("Unsqueeze", hx, one)]
    out, last = _layer(w, steps, mode, weights, initial, 1, b_ih is not None)
    hidden = w.size(hx, 1)
    return [w.reshape(out, [-1, hidden]), w.emit("Squeeze", last, one), None]
