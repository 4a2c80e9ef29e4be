# SPDX-License-Identifier: BSD-3-Clause
"""torch.jit without TorchScript: decorators return what they decorate, and nothing is scripted.

``trace`` records one run; ``save`` and ``load`` keep what it recorded in cograd's own format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import cograd
from cograd._base import absent as _absent
from cograd._recording import TracerWarning
from cograd._recording import is_recording as is_tracing
from cograd.jit._archive import load, save
from cograd.jit._module import ScriptFunction, ScriptModule, TopLevelTracedModule, TracedModule
from cograd.jit._trace import TracingCheckError, trace, trace_module

__all__ = [
    "Attribute",
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "TopLevelTracedModule",
    "TracedModule",
    "TracerWarning",
    "TracingCheckError",
    "annotate",
    "export",
    "fork",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

_T = TypeVar("_T")

# ---- rows of python/surface/faces.toml, written by make stubs ------------------------------------


def script(obj: _T, optimize: Any = None, **options: Any) -> _T:
    """Returns ``obj``: a module, class or function runs as Python."""
    return obj


def script_method(fn: _T) -> _T:
    """Returns ``fn``."""
    return fn


def script_if_tracing(fn: _T) -> _T:
    """Returns ``fn``."""
    return fn


def export(fn: _T) -> _T:
    """Returns ``fn``."""
    return fn


def interface(obj: _T) -> _T:
    """Returns ``obj``."""
    return obj


def unused(fn: _T) -> _T:
    """Returns ``fn``."""
    return fn


def is_scripting() -> bool:
    """Returns False."""
    return False


def annotate(the_type: Any, the_value: _T) -> _T:
    """Returns ``the_value``."""
    return the_value


def Attribute(value: _T, type: Any) -> _T:
    """Returns ``value``."""
    return value


def _overload(fn: _T) -> _T:
    """Returns ``fn``: a declaration that precedes the definition of the same name."""
    return fn


_script_if_tracing = script_if_tracing
_overload_method = _overload


# ---- end of the rows -----------------------------------------------------------------------------


def ignore(drop: Any = False, **options: Any) -> Any:
    """Returns what it decorates, with or without arguments."""
    return drop if callable(drop) else (lambda fn: fn)


def fork(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls ``func(*args, **kwargs)`` at once and returns a future of its result."""
    future: Any = cograd.Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Any) -> Any:
    """Returns the result of the function that was passed to ``fork``."""
    return future.wait()


def isinstance(obj: Any, target_type: Any) -> bool:
    """Returns whether ``obj`` is a ``target_type``; ignores its parameters (``List[int]``)."""
    from builtins import isinstance as plain
    from typing import get_origin

    types = target_type if plain(target_type, tuple) else (target_type,)
    origins: list[Any] = [get_origin(t) for t in types]
    return any(plain(obj, t if o is None else o) for t, o in zip(types, origins, strict=True))


if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        raise _absent.missing(__name__, name)
