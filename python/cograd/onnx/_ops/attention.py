# SPDX-License-Identifier: BSD-3-Clause
"""Attention."""

from __future__ import annotations

import math
from typing import Any

import cograd
from cograd.onnx._ops._table import op, refuse
from cograd.onnx._writer import Value, Writer


@op("scaled_dot_product_attention")
def attention(
    w: Writer,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    if dropout_p:
        raise refuse("scaled_dot_product_attention() with dropout")
    if enable_gqa and query.dims[-3] != key.dims[-3]:
        raise refuse("scaled_dot_product_attention() with enable_gqa")
    order = list(range(key.rank))
    order[-2:] = order[:-3:-1]
    width = query.dims[-1]
    if scale is None:
        if width is None:
            raise refuse("scaled_dot_product_attention() of heads whose size varies")
        scale = 1 / math.sqrt(width)
    scores = w.emit("MatMul", query, w.emit("Transpose", key, perm=order))
    scores = w.emit("Mul", scores, w.to(scale))
    hidden = w.to(-math.inf)
    if is_causal:
        shape = w.shape([w.size(query, -2), w.size(key, -2)])
        ones = w.emit("Expand", w.const(1, cograd.int32), shape)
        seen = w.cast(w.emit("Trilu", ones, upper=0), cograd.bool, cograd.int32)
        scores = w.emit("Where", seen, scores, hidden)
    if attn_mask is not None:
        if attn_mask.dtype is cograd.bool:
            scores = w.emit("Where", attn_mask, scores, hidden)
        else:
            scores = w.emit("Add", scores, w.to(attn_mask))
    weights = w.emit("Softmax", scores, axis=-1)
    if attn_mask is not None:  # a row that sees nothing is 0
        top = w.emit("ReduceMax", scores, w.const([-1]), keepdims=1)
        weights = w.emit("Where", w.emit("Equal", top, hidden), w.to(0), weights)
    return w.emit("MatMul", weights, value)
