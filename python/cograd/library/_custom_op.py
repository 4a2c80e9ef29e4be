# SPDX-License-Identifier: BSD-3-Clause
"""custom_op: registers a Python function as a named op with kernels and a gradient."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cograd import _op_table

from . import _call
from ._function import OpShape, make_function
from ._rules import Fn, KeptRules
from ._schema import Schema, infer, parse

__all__ = ["CustomOpDef", "custom_op"]


def _devices(device_types: str | Sequence[str] | None) -> list[str | None]:
    if device_types is None:
        return [None]
    return [device_types] if isinstance(device_types, str) else list(device_types)


class CustomOpDef(KeptRules):
    """An op registered from Python: call it, or register more rules for it.

    Each op is the only instance of its own subclass, whose ``__call__`` is generated from the
    schema: calls bind their arguments like those of any Python function.
    """

    _forbids_aliases = True  # testing.check: outputs may not even be views of arguments
    __call__: Fn

    def __new__(cls, *args: Any, **kwargs: Any) -> CustomOpDef:
        return object.__new__(type("CustomOpDef", (cls,), {"__module__": cls.__module__}))

    def __init__(
        self, namespace: str, name: str, schema: Schema, fn: Fn | None = None, tags: Any = None
    ) -> None:
        self._namespace, self._name = namespace, name
        self._qualname = f"{namespace}::{name}"
        self._schema_object = Schema(self._qualname, schema.arguments, schema.returns)
        self._schema = str(self._schema_object).removeprefix(self._qualname)
        self._mutated_names = tuple(a.name for a in schema.arguments if a.mutated)
        self._tags = tags
        self._kernels: dict[str | None, Fn] = {} if fn is None else {None: fn}
        self._disabled: set[str] = set()
        self._autograd_impl: Fn | None = None
        self._composite = False
        self.__signature__ = schema.signature()
        self.__name__ = name
        self.__qualname__ = self._qualname
        self.__doc__ = getattr(fn, "__doc__", None)
        self._rebuild()

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __reduce__(self) -> Any:
        return _op_table.find, (self._qualname,)

    @property
    def default(self) -> CustomOpDef:
        """The op itself: there are no overloads."""
        return self

    @property
    def tags(self) -> Any:
        """The value that was passed as ``tags``."""
        return self._tags

    # ------------------------------------------------------------------ the call

    def _kernel(self) -> Fn | None:
        """Returns the function that computes on the CPU, or None."""
        if "cpu" in self._kernels and "cpu" not in self._disabled:
            return self._kernels["cpu"]
        return self._kernels.get(None)

    def _rebuild(self) -> None:
        """Generates the call again from the registered rules."""
        cls: Any = type(self)
        kernel = self._kernel()
        if kernel is None:
            known = ", ".join(sorted(str(k) for k in self._kernels)) or "none"
            cls.__call__ = _call.missing_kernel(self._schema_object, known)
        elif self._composite:
            rule = None if self._vmap_fn is None else self._make_function(kernel).apply
            cls.__call__ = _call.composite(self._schema_object, kernel, rule)
        else:
            cls.__call__ = _call.make(self._schema_object, kernel, self._make_apply(kernel))

    def _make_apply(self, kernel: Fn) -> Fn:
        """Returns the function for calls whose arguments concern autograd or a transform."""
        impl = self._autograd_impl
        if self._schema_object.is_mutable:  # called only under vmap, for each sample
            return self._make_function(self).apply  # type: ignore[no-any-return]
        if impl is None or self._vmap_fn is None:
            return impl or self._make_function(kernel).apply
        by_rule, checks = self._make_function(kernel).apply, _call.Checks(self._schema_object)
        return lambda *args: (by_rule if checks.samples(args) else impl)(*args)

    def _make_function(self, kernel: Fn) -> Any:
        arguments = self._schema_object.arguments
        keywords = [a.name for a in arguments if a.keyword_only]
        lists = any(a.is_tensor_list for a in arguments)
        trees = lists or "Tensor[]" in self._schema_object.returns
        shape = OpShape(self._qualname, len(arguments) - len(keywords), keywords, trees)
        return make_function(shape, kernel, self)

    # ------------------------------------------------------------------ registrations

    def register_autograd(self, backward: Fn, /, *, setup_context: Fn | None = None) -> None:
        """Registers the gradient.

        Args:
            backward: ``backward(ctx, *grads)`` returns one gradient for each positional argument:
                None if it is not a tensor, a list for a list of tensors.
            setup_context: ``setup_context(ctx, inputs, output)`` saves what backward needs; for ops
                with keyword-only arguments ``(ctx, inputs, keyword_only_inputs, output)``.

        Raises:
            RuntimeError: the op writes its arguments.
        """
        if self._schema_object.is_mutable:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema "
                f"{self._schema_object}. Please create a functional operator and register an "
                "autograd formula for that."
            )
        for argument in self._schema_object.arguments:
            if argument.keyword_only and argument.type.startswith("Tensor"):
                raise NotImplementedError(
                    f"register_autograd with kwarg-only Tensor args: {self._qualname} has the "
                    f"argument '{argument.name}'. Please make it an ordinary argument."
                )
        self._backward_fn, self._setup_context_fn = backward, setup_context
        self._rebuild()

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Fn | None = None, /
    ) -> Fn:
        """Registers a kernel for some devices, None: for all; usable as a decorator."""

        def register(fn: Fn) -> Fn:
            for device in _devices(device_types):
                self._kernels[device] = fn
            self._rebuild()
            return fn

        return register if fn is None else register(fn)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Disables (or enables) the kernel of a device in a with block."""
        before = set(self._disabled)
        (self._disabled.discard if enabled else self._disabled.add)(device_type)
        self._rebuild()
        try:
            yield
        finally:
            self._disabled = before
            self._rebuild()

    def _check_tangent_rule(self) -> None:
        if self._schema_object.is_mutable:
            raise RuntimeError(
                f"register_jvp: {self} writes its arguments: {self._schema_object}. Please create "
                "a functional operator and register a rule for that."
            )


def custom_op(
    name: str,
    fn: Fn | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Registers a Python function as the op ``name``; usable as a decorator.

    The function runs without recording. It must not return an argument or anything that shares
    memory with one. An op of the same name is replaced.

    Args:
        name: "namespace::name".
        fn: the function, with annotations (see ``infer_schema``) unless ``schema`` is given.
        mutates_args: names of the tensors it writes; their versions are incremented.
        device_types: the devices of the kernel; None means all.
        schema: "(Tensor x, float a=1.0) -> Tensor", instead of annotations.
        tags: stored without change.

    Returns:
        the CustomOpDef, or a decorator that creates it.

    Raises:
        ValueError: the name or the signature is not valid for an op.
    """
    namespace, opname = _op_table.split(name)

    def register(fn: Fn) -> CustomOpDef:
        found = infer(fn, mutates_args) if schema is None else parse(schema)
        op = CustomOpDef(namespace, opname, found, tags=tags)
        op.__doc__ = fn.__doc__
        op.__module__ = fn.__module__
        op.register_kernel(device_types, fn)
        _op_table.add(op)
        return op

    return register if fn is None else register(fn)
