# SPDX-License-Identifier: BSD-3-Clause
"""Products of matrices."""

from __future__ import annotations

from typing import Any

import cograd
from cograd.onnx._ops._table import OPS, op, scaled
from cograd.onnx._ops.shape import broadcast_shape
from cograd.onnx._writer import Value, Writer


@op("matmul", "mm", "bmm", "mv", "__matmul__")
def matmul(w: Writer, input: Value, other: Value) -> Any:
    return w.emit("MatMul", w.to(input), w.to(other))


@op("dot", "inner", "vdot")
def dot(w: Writer, input: Value, other: Value) -> Any:
    if input.rank < 2 and other.rank < 2 and input.rank and other.rank:
        return w.emit("MatMul", w.to(input), w.to(other))
    if not input.rank or not other.rank:
        return w.emit("Mul", w.to(input), w.to(other))
    letters = "abcdefghijklmnopq"
    left = letters[: input.rank - 1]
    right = letters[8 : 8 + other.rank - 1]
    return w.emit("Einsum", w.to(input), w.to(other), equation=f"{left}z,{right}z->{left}{right}")


@op("outer", "ger")
def outer(w: Writer, input: Value, vec2: Value) -> Any:
    column = w.emit("Unsqueeze", w.to(input), w.const([1]))
    return w.emit("Mul", column, w.to(vec2))


@op("linear")
def linear(w: Writer, input: Value, weight: Value, bias: Any = None) -> Any:
    if weight.rank == 1:
        found = w.emit("MatMul", w.to(input), w.to(weight))
    elif input.rank == 2 and bias is not None and bias.rank == 1:
        return w.emit("Gemm", w.to(input), w.to(weight), w.to(bias), transB=1)
    else:
        found = w.emit("MatMul", w.to(input), w.emit("Transpose", w.to(weight), perm=[1, 0]))
    return found if bias is None else w.emit("Add", found, w.to(bias))


@op("addmm", "baddbmm", "addmv", "addbmm", "addr")
def addmm(w: Writer, input: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = scaled(w, w.emit("MatMul", w.to(a), w.to(b)), alpha)
    return product if beta == 0 else w.emit("Add", scaled(w, w.to(input), beta), product)


del OPS["addbmm"], OPS["addr"]


@op("einsum")
def einsum(w: Writer, equation: str, *operands: Any) -> Any:
    values = (
        operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    )
    text = equation.replace(" ", "")
    if "->" not in text:  # ONNX's implicit output is not torch's for capitals
        inputs = text.replace("...", "")
        letters = sorted({c for c in inputs if c != "," and inputs.count(c) == 1})
        text += "->" + ("..." if "..." in text else "") + "".join(letters)
    if any(c.isupper() for c in text):
        upper = sorted({c for c in text if c.isupper()})
        free = iter(c for c in "zyxwvutsrqponmlkjihgfedcba" if c not in text)
        text = text.translate({ord(c): next(free) for c in upper})
    return w.emit("Einsum", *(w.to(x) for x in values), equation=text)


@op("bilinear")
def bilinear(w: Writer, input1: Value, input2: Value, weight: Value, bias: Any = None) -> Any:
    found = w.emit("Einsum", input1, weight, input2, equation="...i,oij,...j->...o")
    return found if bias is None else w.emit("Add", found, bias)


@op("cosine_similarity")
def cosine_similarity(w: Writer, x1: Value, x2: Value, dim: int = 1, eps: float = 1e-8) -> Any:
    axis = w.const([dim])
    shape = broadcast_shape(w, [x1, x2])
    dims: list[Any] = [None] * max(x1.rank, x2.rank)
    x1, x2 = (Value(w.emit("Expand", w.to(x), shape), w.dtype, dims) for x in (x1, x2))

    def unit(x: Value) -> str:
        squares = w.emit("ReduceSum", w.emit("Mul", x, x), axis, keepdims=1)
        length = w.emit("Max", w.emit("Sqrt", squares), w.to(eps))
        return str(w.emit("Div", x, length))

    return w.emit("ReduceSum", w.emit("Mul", unit(x1), unit(x2)), axis, keepdims=0)


@op("pairwise_distance")
def pairwise_distance(
    w: Writer, x1: Value, x2: Value, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    from cograd.onnx._ops.reduce import norm

    apart = w.emit("Add", w.emit("Sub", x1, x2), w.to(eps))
    dims: list[Any] = [None] * max(x1.rank, x2.rank)
    return norm(w, Value(apart, cograd.promote_types(x1.dtype, x2.dtype), dims), p, -1, keepdim)
