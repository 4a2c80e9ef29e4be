# SPDX-License-Identifier: BSD-3-Clause
"""Lets this package's Python functions record their calls with proxies.

Functions of the core look for overriding arguments in every call. Those in Python would run on
proxies, and fail or record what they consist of. A test in each of them would cost everybody, so
their code is replaced while a proxy exists: it looks for proxies, or else calls the original.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any

import cograd
from cograd import _C
from cograd._base.lazy_names import NAMES as LAZY_NAMES
from cograd.fx._names import is_own

__all__ = ["count", "find"]

_MODULES = ("functional", "nn.functional", "nn.init", "linalg", "_functions.checks")
_LAZY = ("_functions.", "nn.functional.", "linalg.")
_QUERIES = ("is_complex", "is_floating_point", "is_nonzero", "numel")
# Torch has these in C: what the caller left out stays out of the graph.
_BARE = frozenset(
    """
    celu_ channel_shuffle cosine_similarity elu_ gelu hardshrink hardtanh_ leaky_relu_ logsigmoid
    one_hot pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rrelu_ selu_ softplus
    softshrink threshold_
    """.split()
)
_HOOK = "__fx_record__"
_lock = threading.RLock()
_alive = 0
_codes: dict[FunctionType, tuple[CodeType, CodeType]] = {}


def count(proxies: int, record: Callable[..., Any]) -> None:
    """Adds to the number of existing proxies; the first and the last one change the code.

    Args:
        record: called with a function, its args and kwargs if a proxy is among them.
    """
    global _alive
    with _lock:
        before, _alive = _alive, _alive + proxies
        if (before > 0) == (_alive > 0):
            return
        if not _codes:
            _prepare(record)
        for function, codes in _codes.items():
            function.__code__ = codes[_alive > 0]


def find(kind: type, value: Any) -> Any:
    """Returns an instance of ``kind`` in nested lists, tuples and dicts, or None."""
    if isinstance(value, kind):
        return value
    if isinstance(value, (list, tuple)):
        return next((p for p in (find(kind, v) for v in value) if p is not None), None)
    if isinstance(value, dict):
        return find(kind, list(value.values()))
    if isinstance(value, slice):
        return find(kind, (value.start, value.stop, value.step))
    return None


def _prepare(record: Callable[..., Any]) -> None:
    """Compiles the replacements."""
    _C._overrides_possible()
    modules = [vars(import_module(f"cograd.{name}")) for name in _MODULES]
    functions = [value for names in modules for value in names.values()]
    functions += [getattr(cograd, name) for name in _QUERIES]
    rest = {m for m in LAZY_NAMES.values() if m.startswith(_LAZY)}
    for name in sorted(rest):
        functions += vars(import_module(f"cograd.{name}")).values()
    for function in functions:
        if isinstance(function, FunctionType) and is_own(function.__module__):
            public = function.__name__[0] != "_" or function.__name__ == "_assert"
            if public and function not in _codes:
                _codes[function] = (function.__code__, _replacement(function, record))


def _replacement(function: FunctionType, record: Callable[..., Any]) -> CodeType:
    """Returns code with the parameters of ``function`` that calls ``record`` or the original."""
    old = function.__code__
    original = FunctionType(
        old, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    filled = ("cograd.functional", "cograd.nn.functional", "cograd.nn.init")
    name = function.__name__
    bare = name in _BARE or not function.__module__.startswith(filled)

    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "einsum" and len(args) == 2 and isinstance(args[1], (list, tuple)):
            args = (args[0], *args[1])
        if kwargs.get("axes", call) is None:  # an alias that torch's function lacks
            del kwargs["axes"]
        if bare:
            kwargs = {k: v for k, v in kwargs.items() if defaults.get(k, call) is not v}
        recorded = record(function, args, kwargs)
        return original(*args, **kwargs) if recorded is NotImplemented else recorded

    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    hooks = function.__globals__.setdefault(_HOOK, {})
    key = f"{function.__name__}:{old.co_firstlineno}"
    hooks[key] = call
    text = _source([p.replace(annotation=p.empty) for p in parameters], old.co_freevars, key)
    made: dict[str, Any] = {}
    exec(compile(text, old.co_filename, "exec"), made)
    code: CodeType = made["_make"]().__code__
    return code.replace(
        co_name=old.co_name, co_filename=old.co_filename, co_firstlineno=old.co_firstlineno
    )


def _source(parameters: list[inspect.Parameter], free: tuple[str, ...], key: str) -> str:
    """Returns the source of a function that makes the replacement, with its free variables."""
    shown = [p.replace(default=None if p.default is not p.empty else p.empty) for p in parameters]
    by_position, by_name = [], []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            by_position.append(f"*{p.name}")
        elif p.kind is p.VAR_KEYWORD:
            by_name.append(f"**{p.name}")
        elif p.kind is p.KEYWORD_ONLY or p.default is not p.empty:
            by_name.append(f"{p.name!r}: {p.name}")
        else:
            by_position.append(p.name)
    args = f"({', '.join(by_position)}{',' if by_position else ''})"
    cells = [f"    {' = '.join(free)} = None"] if free else []
    uses = [f"        {', '.join(free)}"] if free else []
    return "\n".join(
        [
            "def _make():",
            *cells,
            f"    def replacement{inspect.Signature(shown)}:",
            *uses,
            f"        return {_HOOK}[{key!r}]({args}, {{{', '.join(by_name)}}})",
            "    return replacement",
        ]
    )
