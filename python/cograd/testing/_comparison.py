# SPDX-License-Identifier: BSD-3-Clause
"""assert_close: comparison of tensors, numbers and containers of them within tolerances."""

from __future__ import annotations

import cmath
import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import cograd
from cograd import Tensor

__all__ = ["assert_allclose", "assert_close", "default_tolerances"]

# dtype: (rtol, atol); every other dtype is compared exactly.
_TOLERANCES = {
    cograd.float16: (1e-3, 1e-5),
    cograd.bfloat16: (1.6e-2, 1e-5),
    cograd.float32: (1.3e-6, 1e-5),
    cograd.float64: (1e-7, 1e-7),
    cograd.complex64: (1.3e-6, 1e-5),
    cograd.complex128: (1e-7, 1e-7),
}


def default_tolerances(*inputs: Any) -> tuple[float, float]:
    """Returns the loosest (rtol, atol) of the dtypes of the inputs (tensors or dtypes)."""
    dtypes = [value.dtype if isinstance(value, Tensor) else value for value in inputs]
    pairs = [_TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in dtypes]
    return max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)


@dataclass
class _Options:
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool
    allow_subclasses: bool
    msg: str | Callable[[str], str] | None

    def tolerances(self, *dtypes: Any) -> tuple[float, float]:
        if self.rtol is None or self.atol is None:
            return default_tolerances(*dtypes)
        return self.rtol, self.atol

    def fail(
        self, text: str, path: tuple[Any, ...], kind: type[Exception] = AssertionError
    ) -> NoReturn:
        __tracebackhide__ = True  # pytest shows the line of the test
        if isinstance(self.msg, str):
            raise kind(self.msg)
        if path:
            text += f"\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in path)}"
        raise kind(self.msg(text) if self.msg is not None else text)


def _differences(
    absolute: Any, relative: Any, at: Any, at_relative: Any, rtol: float, atol: float
) -> str:
    """Returns the two lines with the differences; exact comparisons omit the limits."""
    exact = rtol == 0 and atol == 0
    lines = []
    for name, value, index, limit in (
        ("absolute", absolute, at, atol),
        ("relative", relative, at_relative, rtol),
    ):
        if index is None:
            line = f"{name.title()} difference: {value}"
        else:
            line = f"Greatest {name} difference: {value} at index {index}"
        lines.append(line if exact else f"{line} (up to {limit} allowed)")
    return "\n".join(lines)


def _scalar_text(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    absolute = abs(actual - expected)
    relative = math.inf if expected == 0 else absolute / abs(expected)
    word = "equal" if rtol == 0 and atol == 0 else "close"
    return f"Scalars are not {word}!\n\nExpected {expected} but got {actual}.\n" + _differences(
        absolute, relative, None, None, rtol, atol
    )


def _unravel(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    out: list[int] = []
    for size in reversed(shape):
        index, rest = divmod(index, size)
        out.append(rest)
    return tuple(reversed(out))


def _greatest(values: Tensor, matches: Tensor) -> tuple[Any, tuple[int, ...]]:
    """Returns the greatest value outside ``matches`` and its index; NaN counts as greatest."""
    values = values.masked_fill(matches, 0)
    flat = values.reshape(-1)
    if flat.dtype.is_floating_point and bool((flat != flat).any()):
        position = int((flat != flat).to(cograd.int64).argmax())
    else:
        position = int(flat.argmax())
    return flat[position].item(), _unravel(position, tuple(values.shape))


def _tensor_text(
    actual: Tensor, expected: Tensor, matches: Tensor, rtol: float, atol: float
) -> str:
    total = matches.numel()
    wrong = total - int(matches.sum())
    if not (actual.dtype.is_floating_point or actual.dtype.is_complex):
        actual, expected = actual.to(cograd.int64), expected.to(cograd.int64)
    absolute = (actual - expected).abs()
    relative = absolute / expected.abs()
    word = "equal" if rtol == 0 and atol == 0 else "close"
    top, at = _greatest(absolute, matches)
    top_relative, at_relative = _greatest(relative, matches)
    return (
        f"Tensor-likes are not {word}!\n\n"
        f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})\n"
        + _differences(top, top_relative, at, at_relative, rtol, atol)
    )


def _attribute(options: _Options, path: Any, name: str, actual: Any, expected: Any) -> None:
    __tracebackhide__ = True
    if actual != expected:
        text = f"The values for attribute '{name}' do not match: {actual} != {expected}."
        options.fail(text, path)


def _compare_sparse(actual: Any, expected: Any, options: _Options, path: tuple[Any, ...]) -> None:
    """Compares layouts, then positions and values, of coalesced tensors."""
    __tracebackhide__ = True
    _attribute(options, path, "layout", actual.layout, expected.layout)
    _attribute(options, path, "shape", actual.shape, expected.shape)
    a, b = (x.coalesce() if x.layout == cograd.sparse_coo else x for x in (actual, expected))
    _attribute(options, path, "number of specified values", a._nnz(), b._nnz())
    for left, right in zip(a._pattern.parts, b._pattern.parts):
        _compare_tensors(left, right, replace(options, check_dtype=False), path)
    _compare_tensors(a._v, b._v, options, path)


def _compare_tensors(
    actual: Tensor, expected: Tensor, options: _Options, path: tuple[Any, ...]
) -> None:
    __tracebackhide__ = True
    actual, expected = actual.detach(), expected.detach()
    if cograd.strided not in (actual.layout, expected.layout) or (
        options.check_layout and actual.layout != expected.layout
    ):
        return _compare_sparse(actual, expected, options, path)
    actual, expected = actual.to_dense(), expected.to_dense()
    _attribute(options, path, "shape", actual.shape, expected.shape)
    if options.check_device:
        _attribute(options, path, "device", actual.device, expected.device)
    if options.check_dtype:
        _attribute(options, path, "dtype", actual.dtype, expected.dtype)
    if options.check_stride:
        _attribute(options, path, "stride()", actual.stride(), expected.stride())
    rtol, atol = options.tolerances(actual, expected)
    if actual.dtype != expected.dtype:
        common = cograd.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(common), expected.to(common)
    if actual.numel() == 0:
        return
    if rtol == 0 and atol == 0 and not options.equal_nan:
        matches = actual == expected
    elif actual.dtype.is_floating_point or actual.dtype.is_complex:
        matches = cograd.isclose(
            actual, expected, rtol=rtol, atol=atol, equal_nan=options.equal_nan
        )
    else:
        a, b = actual.to(cograd.float64), expected.to(cograd.float64)
        matches = cograd.isclose(a, b, rtol=rtol, atol=atol)
    if bool(matches.all()):
        return
    if actual.dim() == 0:
        options.fail(_scalar_text(actual.item(), expected.item(), rtol, atol), path)
    options.fail(_tensor_text(actual, expected, matches, rtol, atol), path)


def _number(value: Any) -> Any:
    """Returns ``value`` as a Python number, or None if it is not a number."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.number, numpy.bool_)):
        return value.item()
    return value if isinstance(value, (bool, int, float, complex)) else None


def _compare_numbers(actual: Any, expected: Any, options: _Options, path: tuple[Any, ...]) -> None:
    __tracebackhide__ = True
    if isinstance(actual, bool) and isinstance(expected, bool):
        if actual is not expected:
            options.fail(f"Booleans mismatch: {actual} is not {expected}", path)
        return
    if options.check_dtype and type(actual) is not type(expected):
        options.fail(f"The (d)types do not match: {type(actual)} != {type(expected)}.", path)
    kinds = {
        complex: cograd.complex128,
        float: cograd.float64,
        int: cograd.int64,
        bool: cograd.bool,
    }
    rtol, atol = options.tolerances(kinds[type(actual)], kinds[type(expected)])
    if actual == expected:
        return
    if options.equal_nan and actual != actual and expected != expected:
        return
    finite = cmath.isfinite(actual) and cmath.isfinite(expected)
    if finite and abs(actual - expected) <= atol + rtol * abs(expected):
        return
    options.fail(_scalar_text(actual, expected, rtol, atol), path)


def _compare_sequences(actual: Any, expected: Any, options: _Options, path: Any) -> None:
    __tracebackhide__ = True
    if len(actual) != len(expected):
        options.fail(
            f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", path
        )
    for i, (a, b) in enumerate(zip(actual, expected)):
        _compare(a, b, options, (*path, i))


def _compare_mappings(actual: Any, expected: Any, options: _Options, path: Any) -> None:
    __tracebackhide__ = True
    missing = [key for key in expected if key not in actual]
    extra = [key for key in actual if key not in expected]
    if missing or extra:
        options.fail(
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {sorted(missing, key=str)}\n"
            f"Additional keys in the actual mapping: {sorted(extra, key=str)}",
            path,
        )
    for key in actual:
        _compare(actual[key], expected[key], options, (*path, key))


def _as_tensor(value: Any) -> Tensor | None:
    if isinstance(value, Tensor):
        return value
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return cograd.as_tensor(value)
    return None


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _compare(actual: Any, expected: Any, options: _Options, path: tuple[Any, ...]) -> None:
    __tracebackhide__ = True
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        _compare_mappings(actual, expected, options, path)
        return
    if _is_sequence(actual) and _is_sequence(expected):
        _compare_sequences(actual, expected, options, path)
        return
    if actual is None or expected is None:
        if actual is not expected:
            options.fail(f"None mismatch: {actual} is not {expected}", path)
        return
    a, b = _number(actual), _number(expected)
    if a is not None and b is not None:
        _compare_numbers(a, b, options, path)
        return
    x, y = _as_tensor(actual), _as_tensor(expected)
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if (
        x is None
        or y is None
        or not related
        or (not options.allow_subclasses and type(actual) is not type(expected))
    ):
        options.fail(
            f"No comparison pair was able to handle inputs of type {type(actual)} and "
            f"{type(expected)}.",
            path,
            TypeError,
        )
    _compare_tensors(x, y, options, path)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Checks |actual - expected| <= atol + rtol * |expected| everywhere.

    Args:
        actual, expected: tensors, NumPy arrays, numbers, None, or sequences or mappings of them.
        rtol, atol: both or none; the defaults depend on the dtypes and are zero for integers.
        equal_nan: whether NaN equals NaN.
        check_device, check_dtype, check_layout, check_stride: also compare these. Sparse tensors
            of one layout are compared by positions and values.
        msg: replaces the message, or is called with it and returns another.

    Raises:
        AssertionError: the values differ.
        TypeError: they cannot be compared.
        ValueError: only one of ``rtol`` and ``atol`` is given.
    """
    __tracebackhide__ = True
    if (rtol is None) != (atol is None):
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{'rtol' if rtol is None else 'atol'}."
        )
    options = _Options(
        rtol,
        atol,
        equal_nan,
        check_device,
        check_dtype,
        check_layout,
        check_stride,
        allow_subclasses,
        msg,
    )
    _compare(actual, expected, options, ())


# The tolerances of assert_allclose, which are looser than those of assert_close.
_FORMER_TOLERANCES = {
    cograd.float16: (1e-3, 1e-3),
    cograd.float32: (1e-4, 1e-5),
    cograd.float64: (1e-5, 1e-8),
}


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Checks that two tensors are close; deprecated, like torch's: use ``assert_close``.

    Values that are no tensors are converted, and dtypes may differ. By default (rtol, atol) are
    (1e-4, 1e-5) for float32 and (1e-5, 1e-8) for float64.

    Raises:
        AssertionError: the values are not close.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a "
        "future release. Please use `torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if not isinstance(actual, Tensor):
        actual = cograd.tensor(actual)
    if not isinstance(expected, Tensor):
        expected = cograd.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        pairs = [_FORMER_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (actual, expected)]
        rtol, atol = max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_dtype=False,
        msg=msg or None,
    )
