# SPDX-License-Identifier: BSD-3-Clause
"""Registers gradients from Python for ops of C++ or C.

`register_autograd("ns::op", ...)` replaces the compiled op by a `ForeignOpDef`: it calls the op
itself if nothing is recorded, and an autograd Function around it if an argument requires grad.
Calls from C++ by name still reach the op without that gradient.
"""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import cograd
from cograd import _C, Tensor, ops
from cograd._base import op_signature
from cograd._base import registered_ops as _op_table

from ._function import OpShape, make_function
from ._rules import Fn, KeptRules

__all__ = ["ForeignOpDef", "adopt"]


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (v for v in value if isinstance(v, Tensor))


def _parameter(argument: dict[str, Any]) -> inspect.Parameter:
    """Returns the parameter for one argument of `_C._describe_op`, whose default is text."""
    text = argument["default"]
    default: Any = inspect.Parameter.empty
    if text is not None:
        try:
            default = ast.literal_eval(text)
        except ValueError:  # a dtype
            default = getattr(cograd, text.rpartition(".")[2])
        if argument["type"].rstrip("?") == "float" and isinstance(default, int):
            default = float(default)
    named = inspect.Parameter.KEYWORD_ONLY
    kind = named if argument["keyword_only"] else inspect.Parameter.POSITIONAL_OR_KEYWORD
    hint = op_signature.schema_type(argument["type"])
    return inspect.Parameter(argument["name"], kind, default=default, annotation=hint)


class ForeignOpDef(KeptRules):
    """A compiled op with the rules registered for it from Python."""

    def __init__(self, qualname: str) -> None:
        self._qualname = qualname
        self._function: Any = None
        self._look_up()

    def _look_up(self) -> None:
        """Looks up the op that is currently registered with this name."""
        qualname = self._qualname
        self._raw: Any = _C._find_op(qualname)
        described = _C._describe_op(qualname)
        arguments = described["args"]
        self._namespace, self._name = described["library"], described["name"]
        self._written = [a["name"] for a in arguments if a["mutated"]]
        self._lists = any(a["type"].rstrip("?") == "Tensor[]" for a in arguments)
        self._keywords = [a["name"] for a in arguments if a["keyword_only"]]
        self._positional = len(arguments) - len(self._keywords)
        self._own_gradient = bool(described["differentiable"])
        self.__signature__ = inspect.signature(self._raw).replace(
            parameters=[_parameter(a) for a in arguments]
        )
        self.__name__ = self._name
        self.__qualname__ = qualname
        self.__doc__ = self._raw.__doc__

    def __repr__(self) -> str:
        return f"<ForeignOpDef({self._qualname})>"

    def __reduce__(self) -> Any:
        return _find, (self._qualname,)

    @property
    def default(self) -> ForeignOpDef:
        """The op itself; overloads are separate ops."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._raw, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the op; see its documentation."""
        if self._function is None or not self._goes_there([*args, *kwargs.values()]):
            return self._raw(*args, **kwargs)
        try:
            bound = self.__signature__.bind(*args, **kwargs)
        except TypeError:
            return self._raw(*args, **kwargs)  # raises with a better message
        bound.apply_defaults()
        return self._function.apply(*bound.arguments.values())

    def _goes_there(self, values: list[Any]) -> bool:
        """Returns whether the rules from Python apply to a call with these arguments."""
        if self._backward_fn is not None or self._jvp_fn is not None:
            return any(t._is_concerned for t in _tensors(values))
        return any(_C._describe_samples(t) is not None for t in _tensors(values))

    def register_autograd(self, backward: Fn, /, *, setup_context: Fn | None = None) -> None:
        """Registers the gradient; see `CustomOpDef.register_autograd`.

        Raises:
            RuntimeError: the op writes its arguments, or has its own gradient.
        """
        self._check_formula()
        self._backward_fn, self._setup_context_fn = backward, setup_context
        self._rebuild()

    def _check_tangent_rule(self) -> None:
        self._check_formula("register_jvp")

    def _check_formula(self, who: str = "register_autograd") -> None:
        if self._written:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self}: it writes "
                f"{', '.join(self._written)}. Please create a functional operator and register an "
                "autograd formula for that."
            )
        if self._own_gradient:
            raise RuntimeError(f"{who}: {self._qualname} has its own gradient, from C++ or C")

    def _reload(self) -> None:
        """Switches to the op that a rebuilt library registered with this name."""
        self._look_up()
        if self._backward_fn is not None or self._jvp_fn is not None:
            try:
                self._check_formula()
            except RuntimeError as e:
                self._backward_fn = self._setup_context_fn = None
                self._jvp_fn = self._jvp_setup_fn = None
                warnings.warn(
                    f"{self._qualname} was reloaded, and the gradient registered for it from "
                    f"Python is dropped: {e}",
                    RuntimeWarning,
                    stacklevel=2,
                )
        self._rebuild()

    def _rebuild(self) -> None:
        """Creates the Function around the op. Keyword-only arguments are its last inputs."""
        shape = OpShape(self._qualname, self._positional, self._keywords, self._lists)
        rules = (self._backward_fn, self._jvp_fn, self._vmap_fn)
        self._function = make_function(shape, self._raw, self) if any(rules) else None

    def register_kernel(self, device_types: Any, fn: Fn | None = None, /) -> Fn:
        """Raises RuntimeError: the op computes in C++ or C."""
        raise RuntimeError(
            f"register_kernel: {self._qualname} is an op of C++ or C, with the kernels that are "
            "registered there"
        )


def adopt(qualname: str) -> ForeignOpDef | None:
    """Returns a definition of a compiled op, registered in `cograd.ops`; None: no such op."""
    try:
        definition = ForeignOpDef(qualname)
    except AttributeError:
        return None
    _op_table.add(definition)
    return definition


def refresh(names: Iterable[str], gone: Iterable[str]) -> None:
    """Updates adopted ops after their library was loaded again; removes the ops in `gone`."""
    for name in names:
        definition = _op_table.python_ops.get(name)
        if isinstance(definition, ForeignOpDef):
            definition._reload()
    for name in gone:
        definition = _op_table.python_ops.get(name)
        if isinstance(definition, ForeignOpDef):
            _op_table.remove(definition)


def _find(qualname: str) -> Any:
    """Returns the op, for pickle: the library must have been loaded."""
    namespace, _, name = qualname.partition("::")
    return getattr(getattr(ops, namespace), name)


_op_table.reloaders.append(refresh)
