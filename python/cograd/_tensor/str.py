# SPDX-License-Identifier: BSD-3-Clause
"""Formats tensors in torch's format. Reads tensors only through tolist, shape and slicing."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import cograd
from cograd import _C

__all__ = ["get_printoptions", "printoptions", "set_printoptions", "tensor_str"]


@dataclass
class PrintOptions:
    """Options of printing; see ``set_printoptions``."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_options = PrintOptions()

_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how tensors are printed.

    Args:
        precision: digits after the point, 4.
        threshold: number of elements above which a tensor is summarised, 1000.
        edgeitems: elements shown at each end of a summarised dim, 3.
        linewidth: characters in a line, 80.
        profile: 'default', 'short' or 'full', applied before the other arguments.
        sci_mode: whether to use scientific notation; None decides by the values.
    """
    global _options
    if profile is not None and profile.lower() in _PROFILES:
        chosen = _PROFILES[profile.lower()]
        _options = replace(chosen, sci_mode=_options.sci_mode)
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    _options = replace(_options, sci_mode=sci_mode, **changes)


def get_printoptions() -> dict[str, Any]:
    """Returns the current options as a dict."""
    return dict(vars(_options))


@contextlib.contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Calls ``set_printoptions(**kwargs)`` for the duration of a with block."""
    global _options
    saved = _options
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        _options = saved


class _Formatter:
    """Formats the values of one tensor to a common width."""

    def __init__(self, values: list[Any], floating: bool) -> None:
        self.floating = floating
        self.int_mode = True
        self.sci_mode = False
        self.width = 1
        if not floating:
            self.width = max([1, *(len(str(value)) for value in values)])
            return
        finite = [value for value in values if value != 0 and math.isfinite(value)]
        if not finite:
            return
        self._choose_mode(finite)
        self.width = max(self.width, *(len(self._text(value)) for value in finite))

    def _choose_mode(self, finite: list[float]) -> None:
        sizes = [abs(value) for value in finite]
        low, high = min(sizes), max(sizes)
        self.int_mode = all(value == math.floor(value) for value in finite)
        if _options.sci_mode is None:
            self.sci_mode = high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4
        else:
            self.sci_mode = _options.sci_mode

    def _text(self, value: Any) -> str:
        if not self.floating:
            return str(value)
        if self.sci_mode:
            return f"{value:.{_options.precision}e}"
        if self.int_mode:
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return f"{value:.{_options.precision}f}"

    def __call__(self, value: Any) -> str:
        return self._text(value).rjust(self.width)


class _ComplexFormatter:
    """Formats real and imaginary parts, each to a common width and form."""

    def __init__(self, values: list[complex]) -> None:
        self.real = _Formatter([value.real for value in values], True)
        self.imag = _Formatter([value.imag for value in values], True)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value: complex) -> str:
        imag = self.imag(value.imag).lstrip()
        sign = "" if imag.startswith("-") else "+"
        return f"{self.real(value.real)}{sign}{imag}j"


def _vector(values: list[Any], summarize: bool, indent: int, form: Callable[[Any], str]) -> str:
    """Formats a 1-dim list in brackets, with the same number of elements in each line."""
    width = form.width + 2  # type: ignore[attr-defined]
    per_line = max(1, (_options.linewidth - indent) // width)
    edge = _options.edgeitems
    if summarize and not edge:
        texts = ["..."]
    elif summarize and len(values) > 2 * edge:
        texts = [*map(form, values[:edge]), " ...", *map(form, values[-edge:])]
    else:
        texts = [form(value) for value in values]
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _nested(values: Any, dims: int, summarize: bool, indent: int, form: Any) -> str:
    """Formats the nested lists of a tensor with ``dims`` dims."""
    if dims == 0:
        return str(form(values))
    if dims == 1:
        return _vector(values, summarize, indent, form)
    edge = _options.edgeitems

    def inner(rows: list[Any]) -> list[str]:
        return [_nested(row, dims - 1, summarize, indent + 1, form) for row in rows]

    if summarize and len(values) > 2 * edge:
        slices = [*inner(values[:edge]), "...", *inner(values[len(values) - edge :])]
    else:
        slices = inner(values)
    return "[" + ("," + "\n" * (dims - 1) + " " * (indent + 1)).join(slices) + "]"


def _edges(tensor: Any) -> Any:
    """Cuts each dim of ``tensor`` to the printed elements, plus one if elements are omitted.

    The extra element keeps a cut dim longer than twice ``edgeitems``.
    """
    edge = _options.edgeitems
    for dim in range(tensor.dim()):
        size = tensor.shape[dim]
        if size > 2 * edge + 1:
            ends = [tensor.narrow(dim, 0, edge + 1), tensor.narrow(dim, size - edge, edge)]
            tensor = cograd.cat(ends, dim)
    return tensor


def _flat(values: Any, dims: int, summarize: bool) -> list[Any]:
    """Returns the printed elements of nested lists, without the extra ones that ``_edges`` kept."""
    if dims == 0:
        return [values]
    edge = _options.edgeitems
    if summarize and len(values) > 2 * edge:
        values = values[:edge] + values[len(values) - edge :]
    if dims == 1:
        return list(values)
    return [item for row in values for item in _flat(row, dims - 1, summarize)]


def _contents(tensor: Any, indent: int) -> str:
    summarize = tensor.numel() > _options.threshold
    with cograd.no_grad():
        data = tensor.detach()
        values = (_edges(data) if summarize else data).tolist()
    dims = tensor.dim()
    shown = _flat(values, dims, summarize)
    form: _Formatter | _ComplexFormatter
    if tensor.dtype.is_complex:
        form = _ComplexFormatter(shown)
    else:
        form = _Formatter(shown, tensor.dtype.is_floating_point)
    return _nested(values, dims, summarize, indent, form)


def _grad_fn_name(tensor: Any) -> str | None:
    try:
        node = tensor.grad_fn
    except RuntimeError:  # a view whose history is invalid
        return "Invalid"
    if node is None:
        return None
    name = type(node).__name__
    if hasattr(node, "name") and callable(node.name):
        name = node.name().rsplit("::", 1)[-1]
    return name


def _with_suffixes(text: str, suffixes: list[str], indent: int, linewidth: int) -> str:
    """Appends the suffixes to ``text``, on a new line where the line gets too long."""
    parts = [text]
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > linewidth:
            parts.append(",\n" + " " * indent + suffix)
            length = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            length += len(suffix) + 2
    return "".join(parts) + ")"


def tensor_str(tensor: Any) -> str:
    """Formats ``tensor``: values, then size, dtype, device, grad_fn where they matter."""
    samples = _C._describe_samples(tensor)
    if samples is not None:  # a batched tensor, inside a vmap
        level, dim, whole = samples
        value = tensor_str(whole).replace("\n", "\n    ")
        return f"BatchedTensor(lvl={level}, bdim={dim}, value=\n    {value}\n)"
    kind = type(tensor)
    plain = kind is cograd.Tensor or kind.__name__ in ("Tensor", "Parameter")
    prefix = "tensor(" if plain else f"{kind.__name__}("
    indent = len(prefix)
    suffixes = []
    if tensor.device.type != "cpu":
        suffixes.append(f"device='{tensor.device}'")
    dtype = tensor.dtype
    default = cograd.get_default_dtype()
    if tensor.is_meta:
        suffixes.append(f"size={tuple(tensor.shape)}")
        if dtype != default:
            suffixes.append(f"dtype={dtype}")
        text = "..."
    elif tensor.numel() == 0:
        if tensor.dim() != 1:
            suffixes.append(f"size={tuple(tensor.shape)}")
        if dtype != default:
            suffixes.append(f"dtype={dtype}")
        text = "[]"
    else:
        if not _options.edgeitems:
            suffixes.append(f"size={tuple(tensor.shape)}")
        if dtype not in (default, default.to_complex(), cograd.int64, cograd.bool):
            suffixes.append(f"dtype={dtype}")
        text = _contents(tensor if tensor.is_cpu else tensor.detach().cpu(), indent)
    name = _grad_fn_name(tensor)
    if name is not None:
        suffixes.append(f"grad_fn=<{name}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    tangent = _C._tangent_to_show(tensor)
    if tangent is not None:
        suffixes.append(f"tangent={tensor_str(tangent)}")
    return _with_suffixes(prefix + text, suffixes, indent, _options.linewidth)
