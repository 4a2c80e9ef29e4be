# SPDX-License-Identifier: BSD-3-Clause
"""Says why a node's backward returned nan: which gradient met which derivative.

Anomaly mode calls ``explain`` when it has found nan. Everything is computed by NumPy, because the
ops of cograd could be watched, batched or recorded here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["explain"]

Saved = dict[str, Any]  # name of a slot -> its values; the slots "result" are a list


class Row(NamedTuple):
    """The derivative of an elementwise op with respect to one of its inputs."""

    name: str
    derivative: Callable[[Saved], Any]
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
        return Row(name, lambda s: d(s.get("self", 1.0), s.get(other, 1.0)), point, instead)

    point = (_of("self"), _of(other))
    return row(first), row(second)


_POW = "where(m, x, 1) ** p"


def _power(name: str) -> tuple[Row, ...]:
    return _binary(
        name,
        lambda x, p: p * np.power(x, p - 1.0),
        lambda x, p: np.power(x, p) * np.log(x),
        _POW,
        "exponent",
    )


def _root_of_power(x: Any) -> Any:
    """The derivative at 0 and below: what does not depend on the exponent, which is no tensor."""
    return np.where(x == 0, np.inf, np.where(np.asarray(x).real < 0, np.nan, 1.0))


def _at_whole_numbers(x: Any) -> Any:
    return np.where((x <= 0) & (x == np.floor(x)), np.inf, 1.0)


_erf = np.vectorize(math.erf, otypes=[float])
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
    "LogitBackward0": _unary("logit", lambda x: 1 / (x * (1 - x)), "0.5"),
    "AcosBackward0": _unary("acos", lambda x: -1 / np.sqrt(1 - x * x), "0"),
    "AsinBackward0": _unary("asin", lambda x: 1 / np.sqrt(1 - x * x), "0"),
    "AcoshBackward0": _unary("acosh", lambda x: 1 / np.sqrt(x * x - 1), "2"),
    "AtanhBackward0": _unary("atanh", lambda x: 1 / (1 - x * x), "0"),
    "SpecialEntrBackward0": _unary(
        "entr", lambda x: -np.log(x) - 1, instead="special.entr(where(m, x, 1))"
    ),
    "ErfinvBackward0": _inverse(
        "erfinv", lambda r: 0.5 * math.sqrt(math.pi) * np.exp(r * r), _erf, "0"
    ),
    "SpecialNdtriBackward0": _inverse(
        "ndtri",
        lambda r: math.sqrt(2 * math.pi) * np.exp(0.5 * r * r),
        lambda r: 0.5 * (1 + _erf(r / math.sqrt(2))),
        instead="special.ndtri(where(m, x, 0.5))",
    ),
    "PowBackward0": _unary("pow", _root_of_power, instead=_POW),
    "LgammaBackward0": _unary("lgamma", _at_whole_numbers),
    "DigammaBackward0": _unary("digamma", _at_whole_numbers),
    "PowBackward1": _power("pow"),
    "PowBackward2": _power("pow"),
    "DivBackward0": _binary(
        "div", lambda x, y: 1 / y, lambda x, y: -x / (y * y), "x / where(m, y, 1)"
    ),
    "FmodBackward0": _binary(
        "fmod", lambda x, y: x * 0 + 1, lambda x, y: -np.trunc(x / y), "fmod(x, where(m, y, 1))"
    ),
    "RemainderBackward0": _binary(
        "remainder", lambda x, y: x * 0 + 1, lambda x, y: -np.floor(x / y), "x % where(m, y, 1)"
    ),
    "AddcdivBackward0": (
        Row("addcdiv", lambda s: 1.0, (), ""),
        Row(
            "addcdiv",
            lambda s: 1 / s["tensor2"],
            (_of("tensor1"), _of("tensor2")),
            "addcdiv(x, y, where(m, z, 1))",
        ),
        Row(
            "addcdiv",
            lambda s: -s.get("tensor1", 1.0) / s["tensor2"] ** 2,
            (_of("tensor1"), _of("tensor2")),
            "addcdiv(x, y, where(m, z, 1))",
        ),
    ),
    "MulBackward0": _binary("mul", lambda x, y: y, lambda x, y: x, "x * where(m, y, 1)"),
    "XlogyBackward0": _binary(
        "xlogy", lambda x, y: np.log(y), lambda x, y: x / y, "xlogy(x, where(m, y, 1))"
    ),
    "Xlog1pyBackward0": _binary(
        "xlog1py", lambda x, y: np.log1p(y), lambda x, y: x / (1 + y), "xlog1py(x, where(m, y, 0))"
    ),
    "Atan2Backward0": _binary(
        "atan2",
        lambda y, x: x / (x * x + y * y),
        lambda y, x: -y / (x * x + y * y),
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


def explain(name: str, grads: Sequence[Any], saved: Sequence[tuple[str, Any]], output: int) -> str:
    """Returns sentences that follow torch's, with a space before them; "" if nothing is known.

    Args:
        name: the node's name.
        grads: the gradients that came in; None where there was none.
        saved: names and values of the node's saved tensors.
        output: which of the node's gradients is not finite.
    """
    try:
        with np.errstate(all="ignore"):
            text = _explain(name, [_array(g) for g in grads], _slots(saved), output)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return ""  # batched tensors, or shapes that no rule expects
    return f" {text}" if text else ""


def _explain(name: str, grads: list[Any], s: Saved, output: int) -> str:
    for g in grads:
        if g is not None and np.isnan(g).any():
            return f"A gradient that came in has nan already, {_at(np.isnan(g))}."
    rows = _ELEMENTWISE.get(name, ())
    if output < len(rows):
        text = _elementwise(rows[output], grads[0], s)
        if text:
            return text
    text = _general(grads, s)
    if name in _WHOLE and (not text or ("saved" in text and "`self`" not in text)):
        text = _WHOLE[name](s) or text
    return text


def _array(tensor: Any) -> Any:
    if tensor is None:
        return None
    try:
        return tensor.detach().resolve_conj().resolve_neg().numpy()
    except TypeError:  # NumPy has no bfloat16
        return np.array(tensor.tolist())


def _slots(saved: Sequence[tuple[str, Any]]) -> Saved:
    slots: Saved = {}
    results = [_array(value) for name, value in saved if name == "result"]
    for name, value in saved:
        if name != "result":
            slots[name] = _array(value)
    if results:
        slots["result"] = results[0]
        slots["results"] = results
    return slots


def _elementwise(row: Row, grad: Any, s: Saved) -> str:
    try:
        derivative = np.asarray(row.derivative(s))
    except KeyError:  # a hook packed it, such as a checkpoint's
        return f"The values are with a pack hook. {_advice(row)}"
    shape = np.broadcast_shapes(np.shape(grad), derivative.shape)
    g, d = np.broadcast_to(grad, shape), np.broadcast_to(derivative, shape)
    product = g * d
    bad = np.isnan(product) if np.isnan(product).any() else np.isinf(product)
    if not bad.any():
        return ""
    at = np.unravel_index(int(np.argmax(bad)), shape)
    here, slope = g[at], d[at]
    inputs = [x(s) for x in row.point]
    values = [np.broadcast_to(x, shape)[at] for x in inputs if x is not None]
    point = _number(values[0]) if len(values) == 1 else f"({', '.join(map(_number, values))})"
    if any(np.isnan(v) for v in values):
        return (
            f"Gradient {_number(here)} came in, but the input of {row.name} or its result is nan "
            f"there: detect_anomaly(forward=True) names the op that made it. {_advice(row)}"
        )
    text = f"Gradient {_number(here)} came in and the derivative of {row.name} at input"
    if np.isnan(slope):
        return f"{text} {point} is nan: the function has none there. {_advice(row)}"
    shown = _number(slope)
    if np.isinf(slope) and len(values) < len(inputs):
        shown = "±inf"  # the other operand is a scalar, whose sign is not known
    text += f" {point} is {shown} ({_number(here)} * {shown})."
    if np.isinf(here):
        return f"{text} An earlier node made the infinity: detect_anomaly(inf=True) names it."
    return f"{text} {_advice(row)}"


def _advice(row: Row) -> str:
    return f"If a `where` masks it, mask the input too: {row.instead}."


def _number(value: Any) -> str:
    return f"{value + 0:.6g}"  # without the sign of a zero


def _at(bad: Any) -> str:
    index = np.unravel_index(int(np.argmax(bad)), bad.shape)
    return f"at index [{', '.join(str(int(i)) for i in index)}]"


def _general(grads: list[Any], s: Saved) -> str:
    """What can be said of any node."""
    for slot, value in s.items():
        if slot != "results" and value.dtype.kind in "fc" and np.isnan(value).any():
            return (
                f"Its saved tensor `{slot}` has nan {_at(np.isnan(value))}: "
                "detect_anomaly(forward=True) names the op that made it."
            )
    for g in grads:
        if g is not None and np.isinf(g).any():
            return (
                f"The gradient that came in is infinite {_at(np.isinf(g))}: "
                "detect_anomaly(inf=True) names the node that made it."
            )
    for slot, value in s.items():
        if slot != "results" and value.dtype.kind in "fc" and np.isinf(value).any():
            return f"Its saved tensor `{slot}` is infinite {_at(np.isinf(value))}."
    return ""


# --- ops that look at several elements ---------------------------------------------------------


_ONE_ELEMENT = (
    "The variance divides by n - correction, which is 0 for one element: pass correction=0, or "
    "leave out dims of size 1."
)


def _deviation(s: Saved) -> str:
    result = s.get("result")
    if result is None:  # var keeps its input only
        return _ONE_ELEMENT
    if np.isnan(result).any():
        return _ONE_ELEMENT
    return _zero_result(result, "std", "all elements are equal", "(x.var() + eps).sqrt()")


def _zero_result(result: Any, name: str, why: str, instead: str) -> str:
    if not (result == 0).any():
        return ""
    return (
        f"The derivative of {name} does not exist where the result is 0 ({why}), "
        f"{_at(result == 0)}: use {instead}."
    )


def _norm(s: Saved) -> str:
    return _zero_result(
        s["result"], "norm", "the vector is zero", "(x * x).sum().add(eps).sqrt(), or mask x"
    )


def _distance(s: Saved) -> str:
    return "The derivative of a distance does not exist where two points coincide: mask them."


def _equal_values(values: Any, kind: str, instead: str) -> str:
    if values.shape[-1] == 0:
        return ""
    rows = values.reshape(-1, values.shape[-1])
    scale = np.abs(rows).max(axis=-1, keepdims=True, initial=0) * np.finfo(rows.dtype).eps
    for row, near in zip(rows, scale):
        gaps = np.abs(row[:, None] - row[None, :]) + np.where(np.eye(len(row)), np.inf, 0)
        if (gaps <= near).any():
            i, j = sorted(int(k) for k in np.unravel_index(int(np.argmin(gaps)), gaps.shape))
            a, b = _number(row[i]), _number(row[j])
            return (
                f"The {kind} {i} and {j} are equal ({a} and {b}), and the derivative of their "
                f"vectors divides by the difference. {instead}"
            )
    return ""


def _eigen(s: Saved) -> str:
    return _equal_values(
        s["result"],
        "eigenvalues",
        "Use functions of the values or of the whole matrix only, or add a small diagonal that "
        "separates them.",
    )


def _svd(s: Saved) -> str:
    values = min(s["results"], key=lambda r: r.ndim)  # the vectors have one dim more
    if (values == 0).any():
        return (
            f"A singular value is 0, {_at(values == 0)}, and the derivative of its vectors divides "
            "by it. Use svdvals(), or add a small matrix of full rank."
        )
    return _equal_values(values, "singular values", "Use svdvals() where the vectors do not count.")


def _singular(s: Saved) -> str:
    return (
        "The matrix is singular, or nearly, and the derivative contains its inverse: add "
        "eps * eye(n)."
    )


def _all_masked(s: Saved) -> str:
    result = s["result"]
    if not np.isnan(result).any():
        return ""
    return (
        f"The result is nan already, {_at(np.isnan(result))}: every element of that row was -inf "
        "(a mask that leaves nothing). Give such rows one finite element, or 0 after softmax by "
        "where() on both sides."
    )


def _constant_rows(s: Saved) -> str:
    return (
        "The variance that the layer divides by is 0 with eps=0, or the input is not finite: pass "
        "a positive eps."
    )


_WHOLE: dict[str, Callable[[Saved], str]] = {
    "StdBackward0": _deviation,
    "StdMeanBackward0": _deviation,
    "VarBackward0": _deviation,
    "VarMeanBackward0": _deviation,
    "LinalgVectorNormBackward0": _norm,
    "CdistBackward0": _distance,
    "LinalgEighBackward0": _eigen,
    "LinalgEigBackward0": _eigen,
    "LinalgSvdBackward0": _svd,
    "LinalgDetBackward0": _singular,
    "LinalgSlogdetBackward0": _singular,
    "LinalgInvExBackward0": _singular,
    "LinalgSolveExBackward0": _singular,
    "LinalgCholeskyExBackward0": _singular,
    "LinalgQrBackward0": _singular,
    "LinalgPinvBackward0": _singular,
    "SoftmaxBackward0": _all_masked,
    "LogSoftmaxBackward0": _all_masked,
    "LogsumexpBackward0": _all_masked,
    "NativeLayerNormBackward0": _constant_rows,
    "NativeGroupNormBackward0": _constant_rows,
    "NativeBatchNormBackward0": _constant_rows,
}
