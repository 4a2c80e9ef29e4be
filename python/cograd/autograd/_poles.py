# SPDX-License-Identifier: BSD-3-Clause
"""Says why a node's backward returned nan: which gradient met which derivative.

Anomaly mode calls ``explain`` when it has found nan. It computes the node's gradient again and says
only what is true of the element that is bad there. The rest is computed by NumPy, because the ops
of cograd could be watched, batched or recorded here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cograd import _C

__all__ = ["explain"]

Saved = dict[str, Any]  # name of a slot -> its values; the slots "result" are a list


class Row(NamedTuple):
    """The derivative of an elementwise op with respect to one of its inputs."""

    name: str
    derivative: Callable[[Saved], Any]  # None or TypeError: an operand is a number that no slot has
    point: tuple[Callable[[Saved], Any], ...]  # the inputs, which need not be saved themselves
    instead: str  # how a masked program is written


def _of(slot: str) -> Callable[[Saved], Any]:
    return lambda s: s.get(slot)


def _unary(
    name: str, derivative: Callable[[Any], Any], safe: str = "1", instead: str = ""
) -> tuple[Row, ...]:
    text = instead or _masked(name, safe)
    return (Row(name, lambda s: derivative(s["self"]), (_of("self"),), text),)


def _inverse(
    name: str,
    derivative: Callable[[Any], Any],
    point: Callable[[Any], Any],
    safe: str = "1",
    instead: str = "",
) -> tuple[Row, ...]:
    """Returns the row of an op that keeps its result only."""
    text = instead or _masked(name, safe)
    return (Row(name, lambda s: derivative(s["result"]), (lambda s: point(s["result"]),), text),)


def _masked(name: str, safe: str) -> str:
    return f"where(m, x, {safe}).{name}()"


def _binary(
    name: str,
    first: Callable[[Any, Any], Any],
    second: Callable[[Any, Any], Any],
    instead: str,
    other: str = "other",
) -> tuple[Row, ...]:
    def row(d: Callable[[Any, Any], Any]) -> Row:  # a scalar operand is in no slot
        return Row(name, lambda s: d(s.get("self"), s.get(other)), point, instead)

    point = (_of("self"), _of(other))
    return row(first), row(second)


_POW = "where(m, x, 1) ** p"


def _power(name: str) -> tuple[Row, ...]:
    return _binary(
        name,
        lambda x, p: np.where(p == 0, 0.0, p * np.power(x, p - 1.0)),
        lambda x, p: np.where(
            (x == 0) & (np.real(p) > 0), 0.0, np.power(x, p) * np.where(p == 0, 1, np.log(x))
        ),
        _POW,
        "exponent",
    )


def _square_sum(x: Any, y: Any) -> Any:
    square = x * x + y * y
    return np.where(square == 0, np.inf, square)


_erf = np.vectorize(math.erf, otypes=[float])  # these see the elements in question only
_erfc = np.vectorize(math.erfc, otypes=[float])
_LN2, _LN10 = math.log(2), math.log(10)
_HYPOT = "hypot(where(m, x, 1), y)"

# Node name -> the row of each input.
_ELEMENTWISE: dict[str, tuple[Row, ...]] = {
    "SqrtBackward0": _inverse("sqrt", lambda r: 0.5 / r, lambda r: r * r),
    "RsqrtBackward0": _inverse("rsqrt", lambda r: -0.5 * r**3, lambda r: 1 / (r * r)),
    "ReciprocalBackward0": _inverse("reciprocal", lambda r: -r * r, lambda r: 1 / r),
    "LogBackward0": _unary("log", lambda x: 1 / x),
    "Log2Backward0": _unary("log2", lambda x: 1 / (x * _LN2)),
    "Log10Backward0": _unary("log10", lambda x: 1 / (x * _LN10)),
    "Log1pBackward0": _unary("log1p", lambda x: 1 / (1 + x), "0"),
    "LogitBackward0": _unary(
        "logit", lambda x: np.where((x < 0) | (x > 1), np.nan, 1 / (x * (1 - x))), "0.5"
    ),
    "AcosBackward0": _unary("acos", lambda x: -1 / np.sqrt(1 - x * x), "0"),
    "AsinBackward0": _unary("asin", lambda x: 1 / np.sqrt(1 - x * x), "0"),
    "AcoshBackward0": _unary("acosh", lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)), "2"),
    "AtanhBackward0": _unary("atanh", lambda x: 1 / (1 - x * x), "0"),
    "SpecialEntrBackward0": _unary(
        "entr", lambda x: -np.log(x) - 1, instead="special.entr(where(m, x, 1))"
    ),
    "ErfinvBackward0": _inverse(
        "erfinv", lambda r: 0.5 * math.sqrt(math.pi) * np.exp(r * r), lambda r: _erf(r), "0"
    ),
    "SpecialNdtriBackward0": _inverse(
        "ndtri",
        lambda r: math.sqrt(2 * math.pi) * np.exp(0.5 * r * r),
        lambda r: 0.5 * _erfc(-r / math.sqrt(2)),
        instead="special.ndtri(where(m, x, 0.5))",
    ),
    "PowBackward0": _unary("pow", lambda x: None, instead=_POW),
    "LgammaBackward0": _unary("lgamma", lambda x: None),
    "DigammaBackward0": _unary("digamma", lambda x: None),
    "PowBackward1": _power("pow"),
    "PowBackward2": _power("pow"),
    "DivBackward0": _binary(
        "div", lambda x, y: 1 / y, lambda x, y: -(1 / y) * (x / y), "x / where(m, y, 1)"
    ),
    "FmodBackward0": _binary(
        "fmod", lambda x, y: 1.0, lambda x, y: -np.trunc(x / y), "fmod(x, where(m, y, 1))"
    ),
    "RemainderBackward0": _binary(
        "remainder", lambda x, y: 1.0, lambda x, y: -np.floor_divide(x, y), "x % where(m, y, 1)"
    ),
    "AddcdivBackward0": (
        Row("addcdiv", lambda s: 1.0, (), ""),
        Row(
            "addcdiv",
            lambda s: None,  # `value` is in no slot
            (_of("tensor1"), _of("tensor2")),
            "addcdiv(x, y, where(m, z, 1))",
        ),
        Row(
            "addcdiv",
            lambda s: None,
            (_of("tensor1"), _of("tensor2")),
            "addcdiv(x, y, where(m, z, 1))",
        ),
    ),
    "MulBackward0": _binary("mul", lambda x, y: y, lambda x, y: x, "x * where(m, y, 1)"),
    "XlogyBackward0": _binary(
        "xlogy",
        lambda x, y: np.where((x == 0) & (y <= 0), 0.0, np.log(y)),
        lambda x, y: x / y,
        "xlogy(x, where(m, y, 1))",
    ),
    "Xlog1pyBackward0": _binary(
        "xlog1py",
        lambda x, y: np.where((x == 0) & (y <= -1), 0.0, np.log1p(y)),
        lambda x, y: x / (1 + y),
        "xlog1py(x, where(m, y, 0))",
    ),
    "Atan2Backward0": _binary(
        "atan2",
        lambda y, x: x / _square_sum(x, y),
        lambda y, x: -y / _square_sum(x, y),
        "atan2(y, where(m, x, 1))",
    ),
    "HypotBackward0": _binary(
        "hypot", lambda x, y: x / np.hypot(x, y), lambda x, y: y / np.hypot(x, y), _HYPOT
    ),
    "LogaddexpBackward0": _binary(
        "logaddexp",
        lambda x, y: np.exp(x - np.logaddexp(x, y)),
        lambda x, y: np.exp(y - np.logaddexp(x, y)),
        "logaddexp(where(m, x, 0), y)",
    ),
}


class Failure(NamedTuple):
    """A gradient that is not finite, and where: computed again from what came in."""

    output: int
    gradient: Any
    at: tuple[int, ...]  # the first bad element
    again: Callable[[list[Any]], Any]  # the node's gradient for other gradients that come in

    @property
    def value(self) -> Any:
        return self.gradient[self.at]


def explain(
    name: str,
    grads: Sequence[Any],
    saved: Sequence[tuple[str, Any]],
    output: int,
    again: Callable[[list[Any]], Any] | None,
    inf: bool,
) -> str:
    """Returns sentences that follow torch's, with a space before them; "" if nothing is known.

    Args:
        name: the node's name.
        grads: the gradients that came in; None where there was none.
        saved: names and values of the node's saved tensors.
        output: which of the node's gradients is not finite.
        again: returns that gradient for a list of gradients; None for a node of user code.
        inf: whether infinities are searched for, too.
    """
    try:
        with np.errstate(all="ignore"):
            slots, values = _slots(saved), [_array(g) for g in grads]
            if again is None:
                text = _general(values, slots, ())
            else:
                text = _explain(name, grads, values, slots, output, again, inf)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return ""  # batched tensors, or shapes that no rule expects
    return f" {text}" if text else ""


def _explain(
    name: str,
    grads: Sequence[Any],
    values: list[Any],
    s: Saved,
    output: int,
    again: Callable[[list[Any]], Any],
    inf: bool,
) -> str:
    gradient = _array(again(list(grads)))
    bad = ~np.isfinite(gradient) if inf else np.isnan(gradient)
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
    failure = Failure(output, gradient, at, again)
    rows = _ELEMENTWISE.get(name, ())
    if output < len(rows):
        return _elementwise(rows[output], failure, grads[0], values[0], s)
    finite = all(g is None or np.isfinite(g).all() for g in values)
    text = _WHOLE[name](s, failure, values) if finite and name in _WHOLE else ""
    return text or _general(values, s, at)


def _array(tensor: Any) -> Any:
    if tensor is None:
        return None
    plain = tensor.detach().resolve_conj().resolve_neg().cpu()
    try:
        return plain.numpy()
    except TypeError:  # NumPy has no bfloat16, which is the upper half of a float32
        if plain.dtype != _C.bfloat16:
            raise
        high = plain.view(_C.int16).numpy().view(np.uint16).astype(np.uint32)
        return np.left_shift(high, 16, out=high).view(np.float32)


def _slots(saved: Sequence[tuple[str, Any]]) -> Saved:
    slots: Saved = {}
    results = [_array(value) for name, value in saved if name == "result"]
    for name, value in saved:
        if not name:
            slots.setdefault("", []).append(_array(value))
        elif name != "result":
            slots[name] = _array(value)
    if results:
        slots["result"] = results[0]
        slots["results"] = results
    return slots


def _contributors(shape: tuple[int, ...], at: tuple[int, ...], to: tuple[int, ...]) -> Any:
    """Returns the part of a tensor of shape `to` whose sum over broadcast dims is element `at`."""
    lead = len(to) - len(shape)
    inner = (slice(i, i + 1) if n == m else slice(None) for i, n, m in zip(at, shape, to[lead:]))
    return (*(slice(None),) * lead, *inner)


def _wide(value: Any) -> Any:
    return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)


def _elementwise(row: Row, failure: Failure, given: Any, grad: Any, s: Saved) -> str:
    part = _contributors(failure.gradient.shape, failure.at, grad.shape)
    g = grad[part]
    near = {
        slot: _wide(np.broadcast_to(value, grad.shape)[part])
        for slot, value in s.items()
        if slot != "results"
    }
    if np.isnan(g).any():
        first = np.zeros(grad.shape, dtype=bool)
        first[part] = np.isnan(g)
        return f"A gradient that came in has nan already, {_at(first)}."
    slope = _slope(row, failure, given, near, g.shape)
    if slope is None:
        return ""
    product = g * slope.astype(failure.gradient.dtype)
    is_bad = np.isnan if np.isnan(failure.value) else np.isinf
    bad = is_bad(product)
    if not bad.any():
        bad = np.isinf(product)  # infinities of both signs were added
        if not bad.any() or g.size == 1:
            return ""
    return _sentence(row, np.unravel_index(int(np.argmax(bad)), g.shape), g, slope, near)


def _slope(row: Row, failure: Failure, given: Any, near: Saved, shape: Any) -> Any:
    """Returns the derivative; the node computes it if it depends on a number that is not saved."""
    try:
        slope = row.derivative(near)
    except TypeError:
        slope = None
    if slope is not None:
        return np.broadcast_to(np.asarray(slope), shape)
    if math.prod(shape) != 1 or failure.gradient.dtype.kind == "c":
        return None
    own = _array(failure.again([given.new_ones(given.shape)]))[failure.at]
    values = [x(near) for x in row.point]
    if np.isinf(own) and not any(v is not None and (v == 0).all() for v in values):
        return None  # it overflows
    return np.full(shape, own, dtype=np.float64)


def _sentence(row: Row, at: Any, g: Any, slope: Any, near: Saved) -> str:
    here, d = g[at], slope[at]
    values = [value[at] for x in row.point if (value := x(near)) is not None]
    if not values:
        return ""
    point = _number(values[0]) if len(values) == 1 else f"({', '.join(map(_number, values))})"
    if any(np.isnan(v) for v in values):
        return (
            f"Gradient {_number(here)} came in, but the input of {row.name} or its result is nan "
            f"there: detect_anomaly(forward=True) names the op that made it. {_advice(row)}"
        )
    text = f"Gradient {_number(here)} came in and the derivative of {row.name} at input {point} is"
    if np.isnan(d):
        return f"{text} nan: the function has none there. {_advice(row)}"
    computed = d.astype(g.dtype)  # may overflow or be 0
    text += f" {_number(d)} ({_number(here)} * {_number(computed)})."
    if np.isinf(here):
        return f"{text} An earlier node made the infinity: detect_anomaly(inf=True) names it."
    return f"{text} {_advice(row)}" if np.isinf(computed) else text


def _advice(row: Row) -> str:
    return f"If a `where` masks it, mask the input too: {row.instead}."


def _number(value: Any) -> str:
    return f"{value + 0:.6g}"  # without the sign of a zero


def _at(bad: Any) -> str:
    index = np.unravel_index(int(np.argmax(bad)), bad.shape)
    return f"at index [{', '.join(str(int(i)) for i in index)}]"


def _first(bad: Any, at: tuple[int, ...]) -> str:
    """Names the element that is bad in the gradient if it is bad here, too, else the first one."""
    if len(at) == bad.ndim and all(i < n for i, n in zip(at, bad.shape)) and bad[at]:
        return f"at index [{', '.join(map(str, at))}]"
    return _at(bad)


def _floats(s: Saved) -> list[tuple[str, Any]]:
    """Pairs of "saved tensor `name`" and its values; a custom Function's slots have no names."""
    return [
        (f"saved tensor `{slot}`" if slot else "saved tensor", value)
        for slot, values in s.items()
        if slot != "results"
        for value in (values if isinstance(values, list) else [values])
        if value.dtype.kind in "fc"
    ]


def _general(grads: list[Any], s: Saved, at: tuple[int, ...]) -> str:
    """Returns a sentence that holds for any node, or ""."""
    for g in grads:
        if g is not None and np.isnan(g).any():
            return f"A gradient that came in has nan already, {_first(np.isnan(g), at)}."
    for name, value in _floats(s):
        if np.isnan(value).any():
            return (
                f"Its {name} has nan {_first(np.isnan(value), at)}: "
                "detect_anomaly(forward=True) names the op that made it."
            )
    for g in grads:
        if g is not None and np.isinf(g).any():
            return (
                f"The gradient that came in is infinite {_first(np.isinf(g), at)}: "
                "detect_anomaly(inf=True) names the node that made it."
            )
    for name, value in _floats(s):
        if np.isinf(value).any():
            return f"Its {name} is infinite {_first(np.isinf(value), at)}."
    return ""


# --- ops that look at several elements: their incoming gradients are finite ---------------------


def _one_element(s: Saved, failure: Failure, grads: list[Any]) -> str:
    x, g = s["self"], next(g for g in grads if g is not None)
    if x.size != g.size or not np.isnan(failure.value) or not np.isfinite(x).all():
        return ""
    return (
        "The variance divides by n - correction, which is 0 for one element: pass correction=0, or "
        "leave out dims of size 1."
    )


def _equal_values(row: Any, kind: str, instead: str) -> str:
    gaps = np.abs(row[:, None] - row[None, :]) + np.where(np.eye(len(row)), np.inf, 0)
    if not (gaps == 0).any():
        return ""
    i, j = sorted(int(k) for k in np.unravel_index(int(np.argmin(gaps)), gaps.shape))
    return (
        f"The {kind} {i} and {j} are equal ({_number(row[i])} and {_number(row[j])}), and the "
        f"derivative of their vectors divides by the difference. {instead}"
    )


def _values_of(s: Saved, failure: Failure) -> Any:
    """Returns the matrix's eigenvalues or singular values; None if they are not finite."""
    values = min(s["results"], key=lambda r: r.ndim)[failure.at[:-2]]  # vectors have one dim more
    return values if np.isfinite(values).all() else None


def _eigen(s: Saved, failure: Failure, grads: list[Any]) -> str:
    values = _values_of(s, failure)
    if values is None or grads[1] is None:
        return ""
    return _equal_values(
        values,
        "eigenvalues",
        "Use functions of the values or of the whole matrix only, or add a small diagonal that "
        "separates them.",
    )


def _svd(s: Saved, failure: Failure, grads: list[Any]) -> str:
    values = _values_of(s, failure)
    if values is None or (grads[0] is None and grads[2] is None):
        return ""
    if (values == 0).any():
        return (
            f"A singular value is 0, {_at(values == 0)}, and the derivative of its vectors divides "
            "by it. Use svdvals(), or add a small matrix of full rank."
        )
    return _equal_values(values, "singular values", "Use svdvals() where the vectors do not count.")


def _singular(s: Saved, failure: Failure, grads: list[Any]) -> str:
    matrix = next(s[slot] for slot in ("A", "inverse", "result") if slot in s)
    if matrix.ndim > 2:
        if matrix.shape[:-2] != failure.gradient.shape[:-2]:
            return ""
        matrix = matrix[failure.at[:-2]]
    if not np.isfinite(matrix).all():
        return ""
    values = np.linalg.svd(_wide(matrix), compute_uv=False)
    if values[-1] > values[0] * len(values) * np.finfo(matrix.dtype).eps:
        return ""
    return (
        "The matrix is singular, or nearly, and the derivative contains its inverse: add "
        "eps * eye(n)."
    )


def _all_masked(s: Saved, failure: Failure, grads: list[Any]) -> str:
    if not np.isneginf(s["self"][failure.at]) or not np.isneginf(s["result"]).any():
        return ""
    return (
        "Every element of that row was -inf (a mask that leaves nothing). Give such rows one "
        "finite element, or 0 by where() on both sides."
    )


def _constant_rows(s: Saved, failure: Failure, grads: list[Any]) -> str:
    x = s["self"]
    if not np.isfinite(x).all() or not np.isnan(failure.value):
        return ""
    if not any(
        np.isinf(value).any() for slot, value in s.items() if slot not in ("self", "weight")
    ):
        return ""
    return "The variance that the layer divides by is 0, with eps=0: pass a positive eps."


_WHOLE: dict[str, Callable[[Saved, Failure, list[Any]], str]] = {
    "StdBackward0": _one_element,
    "StdMeanBackward0": _one_element,
    "VarBackward0": _one_element,
    "VarMeanBackward0": _one_element,
    "LinalgEighBackward0": _eigen,
    "LinalgEigBackward0": _eigen,
    "LinalgSvdBackward0": _svd,
    "LinalgDetBackward0": _singular,
    "LinalgSlogdetBackward0": _singular,
    "LinalgInvExBackward0": _singular,
    "LinalgSolveExBackward0": _singular,
    "LinalgCholeskyExBackward0": _singular,
    "LinalgQrBackward0": _singular,
    "LogsumexpBackward0": _all_masked,
    "NativeLayerNormBackward0": _constant_rows,
    "NativeGroupNormBackward0": _constant_rows,
    "NativeBatchNormBackward0": _constant_rows,
}
