# SPDX-License-Identifier: BSD-3-Clause
"""Completes the docstrings of optimizers and of their forms for lists."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

# Options that mean the same in several optimizers; a docstring that has its own text keeps it.
_OPTIONS = {
    "params": "tensors, (name, tensor) pairs, or dicts with 'params' and options of the group.",
    "lr": "the learning rate, a number or a tensor of one element.",
    "betas": "decay rates of the running means of the gradient and of its square.",
    "eps": "added to the denominator.",
    "weight_decay": "``weight_decay`` times the parameter is added to the gradient.",
    "decoupled_weight_decay": "whether lr * weight_decay times the parameter is subtracted from it "
    "instead.",
    "foreach": "None and True update all parameters in one call, False applies the formula to "
    "each.",
    "maximize": "whether to maximize instead of minimize.",
    "capturable": "whether steps of parameters on a GPU, which counts them, can be captured in a "
    "CUDA graph.",
    "differentiable": "whether autograd records the steps.",
    "fused": "as ``foreach``; with True, parameters that are not floating raise.",
}
_ENTRY = re.compile(r"^    (\w[\w, ]*): ", re.M)
_OF_MODES = {
    True: "``fused`` is set together with ``differentiable`` or ``foreach``.",
}


def _entries(section: str) -> dict[str, str]:
    """Returns the lines of a section by the names that they begin with."""
    starts = [match.start() for match in _ENTRY.finditer(section)]
    texts = [section[i:j].rstrip() for i, j in zip(starts, [*starts[1:], len(section)])]
    return {text.split(":")[0].strip(): text for text in texts}


def _entry(name: str, text: str) -> str:
    return textwrap.fill(f"{name}: {text}", 100, initial_indent="    ", subsequent_indent=" " * 8)


def _complete(
    doc: str, entries: Iterable[tuple[str, str]], raises: Iterable[tuple[str, str]]
) -> str:
    """Adds entries to the sections Args and Raises of a docstring, whose own entries win."""
    rest, _, errors = doc.partition("\n\nRaises:\n")
    head, _, args = rest.partition("\n\nArgs:\n")
    own, own_raises = _entries(args), _entries(errors)
    lines = [own.get(name) or _entry(name, text) for name, text in entries]
    if not own_raises:
        own_raises = {name: _entry(name, text) for name, text in raises}
    return "\n".join([head, "", "Args:", *lines, "", "Raises:", *own_raises.values()])


def complete_class(kind: type, options: Iterable[str]) -> None:
    """Adds the options that several optimizers have to a class's docstring."""
    if kind.__doc__ is None:  # under -OO
        return
    names = ["params", *options]
    raises = [("ValueError", "an option is out of range.")]
    modes = _OF_MODES.get("fused" in names)
    raises += [("RuntimeError", modes)] if modes else []
    entries = [(name, _OPTIONS.get(name, "")) for name in names]
    kind.__doc__ = _complete(inspect.cleandoc(kind.__doc__), entries, raises)


def complete_function(
    function: Any, kind: type, columns: Iterable[str], parts: Mapping[str, tuple[str, ...]]
) -> None:
    """Adds the sections Args and Raises to the docstring of a form for lists."""
    if function.__doc__ is None:
        return
    names = list(inspect.signature(function).parameters)
    lists = [name for name in names[2:] if name in set(columns)]
    ignored = [name for name in names if name.startswith("has_")]
    known = {*names[:2], *lists, *ignored, "grad_scale", "found_inf", *chain(*parts.values())}
    rest = [name for name in names if name not in known]
    modes = "modes exclude each other, or "
    entries = [
        (names[0], "the tensors to update in place."),
        (names[1], "one gradient for each parameter."),
        (", ".join(lists), "the state of each parameter, written in place."),
        ("grad_scale", "the divisor of the gradients."),
        ("found_inf", "if it is not 0, the step is skipped."),
        (", ".join(ignored), "accepted and ignored."),
        (", ".join(rest), f"as in {kind.__name__}."),
        *((", ".join(p), f"the items of {kind.__name__}'s ``{o}``.") for o, p in parts.items()),
    ]
    kept = [e for e in entries if e[0] and (e[0] in names or ", " in e[0])]
    raises = [
        ("ValueError", "the lists have different lengths."),
        (
            "RuntimeError",
            modes
            + "a leaf requires grad while grad mode is on and the step is not differentiable.",
        ),
    ]
    function.__doc__ = _complete(inspect.cleandoc(function.__doc__), kept, raises)
