# SPDX-License-Identifier: BSD-3-Clause
"""Library, and functions that register rules for an op by its name."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from cograd import _op_table

from ._custom_op import CustomOpDef
from ._foreign import ForeignOpDef, adopt
from ._schema import parse

__all__ = [
    "Library",
    "define",
    "impl",
    "register_autograd",
    "register_fake",
    "register_jvp",
    "register_kernel",
    "register_vmap",
]

Fn = Callable[..., Any]
_KINDS = ("DEF", "FRAGMENT", "IMPL")
_owners: dict[str, weakref.ref[Library]] = {}  # namespace -> the Library(ns, "DEF") that owns it


def _resolve(op: Any) -> CustomOpDef | ForeignOpDef:
    """Returns the definition of an op, passed as itself or by name.

    Raises:
        ValueError: there is no such op.
        TypeError: ``op`` is neither an op nor a name.
    """
    if isinstance(op, (CustomOpDef, ForeignOpDef)):
        return op
    module = getattr(op, "__module__", None) or ""
    if module.startswith("cograd.ops.") and not isinstance(op, str):  # a compiled op
        op = f"{module.removeprefix('cograd.ops.')}::{op.__name__}"
    if isinstance(op, str):
        name = op.removesuffix(".default")
        if name not in _op_table.python_ops and (definition := adopt(name)) is not None:
            return definition
        return _op_table.find(name)  # type: ignore[no-any-return]
    raise TypeError(f"expected an op or its name, got {type(op).__name__}")


def register_autograd(
    op: Any, backward: Fn, /, *, setup_context: Fn | None = None, lib: Any = None
) -> None:
    """Registers the gradient of an op; see ``CustomOpDef.register_autograd``.

    Args:
        op: an op of ``custom_op``, or its name, "namespace::name".
        backward: ``backward(ctx, *grads)`` returns one gradient for each positional argument.
        setup_context: ``setup_context(ctx, inputs, output)`` saves what ``backward`` needs.
        lib: accepted and ignored.

    Raises:
        ValueError: there is no such op.
        RuntimeError: the op writes its arguments.
    """
    _resolve(op).register_autograd(backward, setup_context=setup_context)


def register_kernel(
    op: Any,
    device_types: str | Sequence[str] | None,
    func: Fn | None = None,
    /,
    *,
    lib: Any = None,
) -> Fn:
    """Registers a kernel of an op for some devices; usable as a decorator.

    Args:
        op: an op, or its name.
        device_types: "cpu" and the like, several of them, or None: all devices.
        func: the function, of the op's arguments.
        lib: accepted and ignored.

    Raises:
        ValueError: there is no such op.
    """
    return _resolve(op).register_kernel(device_types, func)


def register_fake(op: Any, func: Fn | None = None, /, *, lib: Any = None) -> Fn:
    """Stores a function that returns outputs of the right shape, with which ``opcheck`` compares.

    Usable as a decorator; see ``CustomOpDef.register_fake``.

    Args:
        op: an op, or its name.
        func: a function of the op's arguments that computes nothing.
        lib: accepted and ignored.

    Raises:
        ValueError: there is no such op.
    """
    definition = _resolve(op)
    return definition.register_fake if func is None else definition.register_fake(func)


def impl_abstract(op: Any, func: Fn | None = None, /, *, lib: Any = None) -> Fn:
    """Calls ``register_fake``, whose old name this is; warns with FutureWarning."""
    warnings.warn(
        "library.impl_abstract is the old name of library.register_fake",
        FutureWarning,
        stacklevel=2,
    )
    return register_fake(op, func, lib=lib)


def register_vmap(op: Any, func: Fn | None = None, /, *, lib: Any = None) -> Fn:
    """Registers an op's batching rule; usable as a decorator.

    Args:
        op: an op, or its name.
        func: ``func(info, in_dims, *args)`` returns (outputs, their batch dims); ``info`` has
            ``batch_size`` and ``randomness``.
        lib: accepted and ignored.

    Raises:
        ValueError: there is no such op.
    """
    return _resolve(op).register_vmap(func)


def register_jvp(
    op: Any, func: Fn | None = None, /, *, setup_context: Fn | None = None, lib: Any = None
) -> Fn:
    """Registers the tangents of an op's outputs, for forward mode; usable as a decorator.

    Args:
        op: an op, or its name.
        func: ``func(ctx, *tangents)`` returns one tangent for each output.
        setup_context: ``setup_context(ctx, inputs, output)`` saves what ``func`` needs.
        lib: accepted and ignored.

    Raises:
        ValueError: there is no such op.
        RuntimeError: the op writes its arguments.
    """
    return _resolve(op).register_jvp(func, setup_context=setup_context)


def _remove(ops: list[CustomOpDef]) -> None:
    for op in ops:
        _op_table.remove(op)
    ops.clear()


class Library:
    """Defines ops by schema and registers their kernels. The ops are removed with the Library.

    Args:
        ns: the namespace.
        kind: "DEF" (owns the namespace), "FRAGMENT" or "IMPL" (no ``define``).
        dispatch_key: default dispatch key of ``impl``.

    Raises:
        ValueError: ``kind`` is unknown.
        RuntimeError: the namespace has an owner already.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in _KINDS:
            raise ValueError(f"Unsupported kind: {kind}, expected one of {_KINDS}")
        if not ns.isidentifier():
            raise ValueError(f"Library: the namespace must be an identifier, got {ns!r}")
        if kind == "DEF":
            owner = _owners.get(ns)
            if owner is not None and owner() is not None:
                raise RuntimeError(
                    f'Library("{ns}", "DEF"): only a single Library can own the namespace {ns}; '
                    'use the kind "FRAGMENT" to add to it'
                )
            _owners[ns] = weakref.ref(self)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._ops: list[CustomOpDef] = []
        self._finalizer = weakref.finalize(self, _remove, self._ops)

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Defines an op, "name(Tensor x, float a=1.0) -> Tensor", and returns its name.

        Raises:
            ValueError: the schema cannot be parsed.
            RuntimeError: the op exists already, or the kind of this Library is "IMPL".
        """
        if self.kind == "IMPL":
            raise RuntimeError(f"{self}: a Library of the kind IMPL cannot define ops")
        parsed = parse(schema)
        name = parsed.name.removeprefix(f"{self.ns}::")
        qualname = "::".join(_op_table.split(f"{self.ns}::{name}"))
        if qualname in _op_table.python_ops:
            raise RuntimeError(f"{self}: the op {qualname} is defined already")
        op = CustomOpDef(self.ns, name, parsed, tags=tags)
        self._ops.append(op)
        _op_table.add(op)
        return name

    def impl(
        self, op_name: Any, fn: Fn, dispatch_key: str = "", *, allow_override: bool = True
    ) -> None:
        """Registers a kernel of an op.

        Args:
            op_name: "name", "namespace::name" or the op.
            dispatch_key: "CPU" or "CompositeExplicitAutograd" (a kernel, not recorded),
                "CompositeImplicitAutograd" (composed of differentiable ops), "Autograd" (called if
                an argument requires grad) or "Meta" (returns outputs of the right shape).

        Raises:
            RuntimeError: the op or the dispatch key does not exist.
        """
        op = op_name if isinstance(op_name, CustomOpDef) else self._find(str(op_name))
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        if key in ("CompositeImplicitAutograd", "CompositeExplicitAutograd"):
            op._composite = key == "CompositeImplicitAutograd"
            op.register_kernel(None, fn)
        elif key in ("Autograd", "AutogradCPU"):
            op._autograd_impl = fn
            op._rebuild()
        elif key == "Meta":
            op.register_fake(fn)
        elif key.isalpha() and key.isupper():  # CPU, and devices that cograd does not have
            op._composite = op._composite and key != "CPU"
            op.register_kernel(key.lower(), fn)
        else:
            raise RuntimeError(f"{self}.impl({op._qualname}): unknown dispatch key {key!r}")

    def _find(self, name: str) -> CustomOpDef:
        qualname = name if "::" in name else f"{self.ns}::{name}"
        try:
            op = _op_table.find(qualname.removesuffix(".default"))
        except ValueError as error:
            raise RuntimeError(f"{self}.impl: {error}") from None
        if isinstance(op, ForeignOpDef):
            raise RuntimeError(f"{self}.impl: {qualname} is an op of C++ or C, with kernels there")
        return op  # type: ignore[no-any-return]

    def _destroy(self) -> None:
        """Removes the ops that were defined here."""
        _remove(self._ops)
        if _owners.get(self.ns) is not None and _owners[self.ns]() is self:
            del _owners[self.ns]


_kept: dict[str, Library] = {}  # libraries of ops that were defined without a Library


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> None:
    """Defines an op by its schema; ``impl`` registers its kernels.

    Args:
        qualname: "namespace::name".
        schema: the schema without the name, "(Tensor x, float a=1.0) -> Tensor".
        lib: the ``Library`` that owns the op; None: the op is never removed.
        tags: stored without change.

    Raises:
        ValueError: the name or the schema cannot be parsed.
        RuntimeError: the op exists already.
    """
    namespace, name = _op_table.split(qualname)
    if lib is None:
        lib = _kept.setdefault(namespace, Library(namespace, "FRAGMENT"))
    lib.define(name + schema, tags=tags)


def impl(
    qualname: str, types: str | Sequence[str], func: Fn | None = None, *, lib: Any = None
) -> Any:
    """Registers a kernel for devices or dispatch keys; usable as a decorator.

    Args:
        qualname: "namespace::name".
        types: "cpu", "default" (all devices), or a dispatch key of ``Library.impl``; or several.
        func: the function, of the op's arguments.
        lib: the ``Library`` that owns the registration.

    Raises:
        RuntimeError: the op or the dispatch key does not exist.
    """
    namespace, name = _op_table.split(qualname)
    library = lib or _kept.setdefault(namespace, Library(namespace, "FRAGMENT"))

    def register(func: Fn) -> Fn:
        for kind in [types] if isinstance(types, str) else types:
            if kind == "default":
                key = "CompositeExplicitAutograd"
            else:
                key = kind.upper() if kind.islower() else kind
            library.impl(name, func, key)
        return func

    return register if func is None else register(func)
