# SPDX-License-Identifier: BSD-3-Clause
"""Resizing of images and sampling at positions."""

from __future__ import annotations

from typing import Any

import cograd
from cograd.onnx._ops._table import op, refuse
from cograd.onnx._writer import Value, Writer


@op("_interpolate")
def interpolate(
    w: Writer,
    input: Value,
    size: Any,
    mode: str,
    align_corners: bool = False,
    antialias: bool = False,
    scale_h: float = 0.0,
    scale_w: float = 0.0,
    scale_d: float = 0.0,
) -> Any:
    dims = len(size)
    scales = [scale_d, scale_h, scale_w][3 - dims :]
    own = input.dims[-dims:]
    if mode.startswith("nearest"):
        return _nearest(w, input, size, scales, mode == "nearest-exact")
    fixed = None not in own and all(isinstance(n, int) for n in size)
    if fixed:
        return _by_matrices(w, input, size, mode, align_corners, antialias, scales)
    if antialias or mode not in ("linear", "cubic"):
        raise refuse(f"interpolate() in mode {mode!r}, with antialias, of a size that varies")
    options: dict[str, Any] = {
        "mode": mode,
        "cubic_coeff_a": -0.75,
        "coordinate_transformation_mode": "align_corners" if align_corners else "half_pixel",
    }
    if all(scales) and not align_corners:
        factors = w.const([1.0, 1.0, *scales], cograd.float32)
        return w.emit("Resize", input, None, factors, **options)
    wanted = _wanted(w, input, size, scales)
    shape = w.shape([*w.sizes(input)[:2], *wanted])
    return w.emit("Resize", input, None, None, shape, **options)


def _wanted(w: Writer, x: Value, size: Any, scales: Any) -> list[Any]:
    """Returns the sizes of the result; those by a scale are computed from the input's."""
    found: list[Any] = []
    for i, (n, scale) in enumerate(zip(size, scales, strict=True)):
        dim = x.rank - len(size) + i
        if scale and x.dims[dim] is None:
            wide = w.cast(w.size(x, dim), cograd.float64)
            product = w.emit("Floor", w.emit("Mul", wide, w.const(scale, cograd.float64)))
            found.append(Value(w.cast(product, cograd.int64, cograd.float64), cograd.int64, [1]))
        else:
            found.append(n)
    return found


def _nearest(w: Writer, x: Value, size: Any, scales: Any, exact: bool) -> Any:
    # The runtime's Resize rounds positions differently at the edges between elements.
    found: Any = x
    for i, (n, scale) in enumerate(zip(_wanted(w, x, size, scales), scales, strict=True)):
        dim = x.rank - len(size) + i
        own = w.shape([w.size(x, dim)])
        out = w.number(n)
        at = w.emit("Cast", w.emit("Range", w.const(0), out, w.const(1)), to=1)
        if scale:
            step = w.const(1 / scale, cograd.float32)
        else:
            step = w.emit("Div", w.emit("Cast", own, to=1), w.emit("Cast", out, to=1))
        if exact:
            at = w.emit("Add", at, w.const(0.5, cograd.float32))
        at = w.emit("Cast", w.emit("Floor", w.emit("Mul", at, step)), to=7)
        at = w.emit("Min", at, w.emit("Sub", own, w.const([1])))
        found = w.emit("Gather", found, at, axis=dim)
    return found


def _by_matrices(
    w: Writer, x: Value, size: Any, mode: str, align: bool, antialias: bool, scales: Any
) -> Any:
    """Resizes one dim after another by a product with weights, which the op itself computes."""
    found: Any = x.name
    wide = w.dtype if w.dtype is cograd.float64 else cograd.float32
    for i, n in enumerate(size):
        dim = x.rank - len(size) + i
        own = x.dims[dim]
        assert own is not None
        with cograd.no_grad():
            rows = cograd._C._ops._interpolate(
                cograd.eye(own, dtype=wide)[None],
                [n],
                mode,
                align,
                antialias,
                0.0,
                float(scales[i]),
                0.0,
            )[0]
        if own == n and cograd.equal(rows, cograd.eye(n, dtype=wide)):
            continue
        weights = w.const(rows.to(w.dtype), None)
        order = list(range(x.rank))
        order[dim], order[-1] = order[-1], order[dim]
        if dim == x.rank - 1:
            found = w.emit("MatMul", found, weights)
        else:
            turned = w.emit("MatMul", w.emit("Transpose", found, perm=order), weights)
            found = w.emit("Transpose", turned, perm=order)
    return w.emit("Identity", found) if found == x.name else found
