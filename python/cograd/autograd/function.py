# SPDX-License-Identifier: BSD-3-Clause
"""Custom differentiable operations: ``Function`` and its helpers.

Three styles of subclass are supported: static ``forward(ctx, ...)``, static ``forward(...)`` with
``setup_context``, and the old instance style (``forward(self, ...)``, called as ``F()(x)``).
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cograd import _C
from cograd._base import pytree as _pytree
from cograd._C import Tensor
from cograd.autograd.grad_mode import no_grad

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]

FunctionCtx = _C._FunctionBase
BackwardCFunction = _C._FunctionBase  # base class of every context
FunctionMeta = type(_C._FunctionBase)


class _Helper:
    """Functions that the C++ side calls on its slow paths; shared by all Functions."""

    @staticmethod
    def parameters(cls: Any) -> list[inspect.Parameter]:
        """Returns forward's parameters after ctx (or self)."""
        found: list[inspect.Parameter] | None = cls.__dict__.get("_parameters")
        if found is None:
            names = list(inspect.signature(cls.forward).parameters.values())
            found = names if cls._style == "setup" else names[1:]
            cls._parameters = found
        return found

    @staticmethod
    def bind(
        cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        """Returns all arguments in the order of forward's parameters, and the keyword-only names.

        The static style stops after the last argument that was passed, as in torch.
        """
        signature = inspect.Signature(_Helper.parameters(cls))
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}.forward() {error}") from None
        last = max(
            (i for i, name in enumerate(signature.parameters) if name in bound.arguments),
            default=-1,
        )
        bound.apply_defaults()
        if cls._style == "setup":
            last = len(signature.parameters)
        values: list[Any] = []
        names: list[str] = []
        for i, (name, parameter) in enumerate(signature.parameters.items()):
            if parameter.kind is parameter.VAR_POSITIONAL:
                values.extend(bound.arguments[name])
            elif parameter.kind is parameter.VAR_KEYWORD:
                if bound.arguments[name]:
                    raise TypeError(f"{cls.__name__}: **{name} cannot be passed to apply")
            elif parameter.kind is parameter.KEYWORD_ONLY:
                values.append(bound.arguments[name])
                names.append(name)
            elif i <= last:
                values.append(bound.arguments[name])
        return tuple(values), tuple(names)

    @staticmethod
    def describe_argument(cls: Any, index: int) -> str:
        """Returns 'argument 'weight' (position 2) of Linear.forward (file.py:12)'."""
        parameters = _Helper.parameters(cls)
        name = f"{index}"
        if index < len(parameters):
            name = parameters[index].name
        elif parameters and parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL:
            name = f"{parameters[-1].name}[{index - len(parameters) + 1}]"
        code = getattr(inspect.unwrap(cls.forward), "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        return f"argument '{name}' (position {index + 1}) of {cls.__name__}.forward{where}"


def _parameter_count(cls: Any) -> int:
    """Returns the number of forward's parameters after ctx; -1 if it accepts any number."""
    try:
        parameters = _Helper.parameters(cls)
    except (TypeError, ValueError):
        return -1
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return -1 if any(p.kind in variadic for p in parameters) else len(parameters)


def _style_of(cls: type) -> str:
    """Returns 'static', 'setup' or 'instance', by the definitions of forward and setup_context."""
    for base in cls.__mro__:
        if "setup_context" in base.__dict__ and base is not Function:
            return "setup"
        if base is Function:
            break
    for base in cls.__mro__:
        if "forward" in base.__dict__:
            raw = base.__dict__["forward"]
            if base is Function or isinstance(raw, (staticmethod, classmethod)):
                return "static"
            return "instance"
    return "static"


class Function(_C._FunctionBase):
    """Base of custom differentiable operations.

    Subclass it, write ``forward`` and ``backward``, and call ``apply``. Ops in ``forward`` are not
    recorded; save what ``backward`` needs with ``ctx.save_for_backward`` (tensors) or as attributes
    of ``ctx`` (anything else). ``ctx`` is the graph node: ``y.grad_fn is ctx``.

    Class attributes:
        pytree: lists, dicts and tuples among arguments and results are traversed, and gradients in
            ``backward`` have the same structures.
        generate_vmap_rule: ``forward``, ``backward`` and ``jvp`` consist only of ops, and run once
            under vmap, on batched tensors.
    """

    pytree: bool = False
    generate_vmap_rule: bool = False
    _op_name: str | None = None  # name in messages, for the Function of a registered op
    _has_formula = True  # False if ``backward`` only raises that there is no formula

    _style: str = "static"
    _backward_cls: Any = None
    if TYPE_CHECKING:

        @classmethod
        def apply(cls, *args: Any, **kwargs: Any) -> Any: ...

        # Type checkers let overrides choose the number of parameters only for this signature.
        @staticmethod
        def backward(*args: Any, **kwargs: Any) -> Any: ...

        @staticmethod
        def jvp(*args: Any, **kwargs: Any) -> Any: ...

        @staticmethod
        def vmap(*args: Any, **kwargs: Any) -> Any: ...

        vjp = backward
    else:
        apply = _C._function_apply

        @staticmethod
        def backward(ctx: Any, *grad_outputs: Any) -> Any:
            """Returns the inputs' gradients, one per argument of ``forward`` or None."""
            raise NotImplementedError(
                "You must implement either the backward or vjp method for your custom "
                "autograd.Function to use it with backward mode AD."
            )

        vjp = backward

        @staticmethod
        def jvp(ctx: Any, *grad_inputs: Any) -> Any:
            """Computes the tangents of the outputs from those of ``forward``'s arguments.

            ``grad_inputs`` has one tangent per argument, None if it is not a tensor; with
            ``set_materialize_grads(False)`` also if the tensor has no tangent.
            ``ctx.saved_tensors`` are those of ``save_for_forward``, or else of
            ``save_for_backward``. Defining it is optional: otherwise the tangents are computed
            from ``backward``, which is linear in its gradient.
            """
            raise NotImplementedError(
                "You must implement the jvp function for custom autograd.Function to use it with "
                "forward mode AD."
            )

        @staticmethod
        def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
            """Applies the Function to all samples of a vmap at once.

            ``args`` are those of ``apply``, batched in the dims ``in_dims`` (None: not batched);
            ``info`` has ``batch_size`` and ``randomness``. Returns the output or outputs, and their
            batch dim or dims. Defining it is optional: otherwise samples run one by one.
            """
            raise NotImplementedError(
                "You must implement the vmap function for custom autograd.Function to call it."
            )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._style = _style_of(cls)
        _resolve_vjp(cls)
        if cls._style == "instance":
            ctx_type: type = cls
        else:
            ctx_type = type(
                cls.__name__ + "Backward",
                (_C._FunctionBase,),
                {"_forward_cls": cls, "__module__": cls.__module__},
            )
        cls._backward_cls = ctx_type
        _C._register_function(cls, cls._style, ctx_type, _Helper, _parameter_count(cls))
        if cls.pytree and "apply" not in cls.__dict__:
            cls.apply = classmethod(_apply_tree)  # type: ignore[assignment, method-assign]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if type(self)._style != "instance" and type(self).forward is not Function.forward:
            warnings.warn(
                f"{type(self)} should not be instantiated. Methods on autograd functions are all "
                "static, so you should invoke them on the class itself. Instantiating an "
                "autograd function will raise an error in a future version.",
                DeprecationWarning,
                stacklevel=2,
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs an instance-style Function: ``Linear()(x, w, b)``."""
        if type(self).forward is Function.forward:
            self.forward()  # raises that it must be implemented
        if type(self)._style != "instance":
            raise RuntimeError(
                f"{type(self).__name__}: calling an instance needs the legacy autograd style "
                "(non-static forward method). This one has a static forward: use "
                f"{type(self).__name__}.apply(...)"
            )
        return self._call_instance(*args, **kwargs)

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the results. Must be overridden; see the class docstring for the styles."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Fills ``ctx`` from the inputs and the output if ``forward`` has no ``ctx`` parameter."""
        raise NotImplementedError("setup_context is not implemented.")


_SingleLevelFunction = Function


def _is_setup_context_defined(fn: Any) -> bool:
    """Returns whether ``fn``, a ``setup_context``, is defined by a subclass."""
    return fn is not Function.setup_context


_C._register_function(Function, "static", FunctionCtx, _Helper, -1)


def _resolve_vjp(cls: Any) -> None:
    """Makes ``vjp`` another name of ``backward``; if both are defined, ``backward`` raises."""
    has_backward = cls.backward is not Function.backward
    has_vjp = cls.vjp is not Function.vjp
    if has_backward and has_vjp and cls.backward is not cls.vjp:
        if getattr(cls.backward, "_is_vjp_conflict", False):
            return

        def conflict(ctx: Any, *grad_outputs: Any) -> Any:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. "
                "You should only implement one of them."
            )

        conflict._is_vjp_conflict = True  # type: ignore[attr-defined]
        cls.backward = staticmethod(conflict)
    elif has_vjp and not has_backward:
        cls.backward = staticmethod(cls.vjp) if cls._style != "instance" else cls.vjp


class InplaceFunction(Function):
    """Old base class of Functions with an ``inplace`` option.

    It is a ``Function`` that stores ``inplace`` as an attribute without using it.

    Args:
        inplace: value of the attribute.
    """

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


class NestedIOFunction(Function):
    """Old base class of instance-style Functions over nested lists, tuples and dicts.

    Subclasses define ``forward_extended(*args)`` and ``backward_extended(*grads)``, which receive
    the arguments (the gradients) in the structure of the call (of the results).
    """

    _nested_inputs: Any = None
    _nested_outputs: Any = None

    def forward(self, *leaves: Any) -> Any:  # type: ignore[override]
        """Runs ``forward_extended`` on the arguments in their original nesting."""
        result = self.forward_extended(*_pytree.unflatten(self._nested_inputs, iter(leaves)))
        flat: list[Any] = []
        self._nested_outputs = _pytree.flatten(result, flat)
        return tuple(flat)

    def backward(self, *grads: Any) -> Any:  # type: ignore[override]
        """Runs ``backward_extended`` on the gradients in the nesting of the results."""
        nested = _pytree.unflatten(self._nested_outputs, iter(grads))
        parts = nested if isinstance(nested, tuple) else (nested,)
        result = self.backward_extended(*parts)
        flat: list[Any] = []
        _pytree.flatten(result if isinstance(result, tuple) else (result,), flat)
        return tuple(flat)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the Function on nested arguments; the results keep their nesting."""
        leaves: list[Any] = []
        self._nested_inputs = _pytree.flatten(tuple(args), leaves)
        out = self._call_instance(*leaves, **kwargs)
        return _pytree.unflatten(self._nested_outputs, iter(out))

    def forward_extended(self, *args: Any) -> Any:
        """Computes the results; must be overridden."""
        raise NotImplementedError

    def backward_extended(self, *grads: Any) -> Any:
        """Returns gradients of the arguments, nested like them; must be overridden."""
        raise NotImplementedError


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a ``backward`` that cannot itself be differentiated.

    It does not change the first derivative; a second derivative raises RuntimeError. So does
    forward mode over a backward that reads elements, as ``tolist()`` does.
    """

    @functools.wraps(fn)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        enabled, before = _C.is_grad_enabled(), _C._exchange_once(True)
        try:
            with no_grad():
                outputs = fn(ctx, *grads)
        finally:
            _C._exchange_once(before)
        if not enabled:
            return outputs

        def close(value: Any) -> Any:
            if isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex()):
                return _C._once_differentiable(value, ctx)
            return value

        return tuple(map(close, outputs)) if isinstance(outputs, tuple) else close(outputs)

    return wrapper


# ---- Functions whose arguments and results are trees (``pytree = True``) -------------------------


class _Run:
    """The structures of one call's arguments and results."""

    def __init__(self, in_spec: Any) -> None:
        self.in_spec = in_spec
        self.out_spec: Any = None


def _gradient_leaves(spec: Any, tree: Any, leaves: list[Any], where: str) -> None:
    """Appends the leaves of a gradient tree; None stands for a subtree without gradients."""
    if spec is None:
        leaves.append(tree)
        return
    kind, keys, parts = spec
    if tree is None:
        for part in parts:
            _gradient_leaves(part, None, leaves, where)
        return
    if kind is dict:
        if not isinstance(tree, dict) or set(tree) - set(keys):
            raise RuntimeError(f"{where}: expected a dict of gradients with keys {keys}")
        values = [tree.get(k) for k in keys]
    else:
        if not isinstance(tree, (list, tuple)) or len(tree) != len(parts):
            raise RuntimeError(f"{where}: expected {len(parts)} gradients in a {kind.__name__}")
        values = list(tree)
    for part, value in zip(parts, values, strict=True):
        _gradient_leaves(part, value, leaves, where)


def _out_dims(spec: Any, dims: Any, where: str) -> list[Any]:
    """Returns a dim for each leaf; a dim applies to its whole subtree."""
    if spec is None:
        return [dims]
    kind, keys, parts = spec
    if dims is None or isinstance(dims, int):
        given = [dims] * len(parts)
    elif kind is dict and isinstance(dims, dict) and set(dims) == set(keys):
        given = [dims[k] for k in keys]
    elif kind is not dict and isinstance(dims, (list, tuple)) and len(dims) == len(parts):
        given = list(dims)
    else:
        raise RuntimeError(f"{where} do not have the structure of the output: {dims}")
    return [d for part, g in zip(parts, given, strict=True) for d in _out_dims(part, g, where)]


def _flat_function(cls: Any) -> Any:
    """Returns the Function over leaves that implements ``cls``; created once per class."""
    found = cls.__dict__.get("_flat")
    if found is not None:
        return found

    def forward(ctx: Any, run: _Run, *leaves: Any) -> Any:
        args = _pytree.unflatten(run.in_spec, iter(leaves))
        ctx._in_spec = run.in_spec
        if cls._style == "setup":
            output = cls.forward(*args)
            cls.setup_context(ctx, tuple(args), output)
        else:
            output = cls.forward(ctx, *args)
        out: list[Any] = []
        ctx._out_spec = run.out_spec = _pytree.flatten(output, out)
        return tuple(out)

    def backward(ctx: Any, *grads: Any) -> Any:
        tree = _pytree.unflatten(ctx._out_spec, iter(grads))
        single = not (isinstance(ctx._out_spec, tuple) and ctx._out_spec[0] is tuple)
        result = cls.backward(ctx, tree) if single else cls.backward(ctx, *tree)
        if not isinstance(result, tuple):
            result = (result,)
        parts = ctx._in_spec[2]
        while len(result) > len(parts) and result[-1] is None:
            result = result[:-1]
        leaves: list[Any] = []
        _gradient_leaves(ctx._in_spec, result, leaves, f"{cls.__name__}.backward")
        return (None, *leaves)

    def jvp(ctx: Any, run: None, *tangents: Any) -> Any:
        result = cls.jvp(ctx, *_pytree.unflatten(ctx._in_spec, iter(tangents)))
        leaves: list[Any] = []
        _gradient_leaves(ctx._out_spec, result, leaves, f"{cls.__name__}.jvp")
        return tuple(leaves)

    def vmap(info: Any, in_dims: tuple[Any, ...], run: _Run, *leaves: Any) -> Any:
        args = _pytree.unflatten(run.in_spec, iter(leaves))
        dims = _pytree.unflatten(run.in_spec, iter(in_dims[1:]))
        result = cls.vmap(info, dims, *args)
        if not isinstance(result, tuple) or len(result) != 2:
            raise RuntimeError(
                f"{cls._op_name or cls.__name__}: the vmap rule must return (output, out_dims), a "
                f"tuple of two; got {type(result).__name__}"
            )
        out: list[Any] = []
        run.out_spec = _pytree.flatten(result[0], out)
        where = f"{cls._op_name or cls.__name__}: the out_dims of the vmap rule"
        return tuple(out), tuple(_out_dims(run.out_spec, result[1], where))

    body: dict[str, Any] = {
        "forward": staticmethod(forward),
        "generate_vmap_rule": cls.generate_vmap_rule,
        "_op_name": cls._op_name,
        "_has_formula": cls._has_formula,
    }
    if cls.backward is not Function.backward:
        body["backward"] = staticmethod(backward)
    if cls.jvp is not Function.jvp:
        body["jvp"] = staticmethod(jvp)
    if cls.vmap is not Function.vmap:
        body["vmap"] = staticmethod(vmap)
    flat = type(cls.__name__, (Function,), body)
    cls._flat = flat
    return flat


def _apply_tree(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Implements ``apply`` for a Function with ``pytree = True``."""
    if kwargs:
        args, names = _Helper.bind(cls, args, kwargs)
        if names:
            raise TypeError(f"{cls.__name__}: pytree Functions take no keyword-only arguments")
    leaves: list[Any] = []
    spec = _pytree.flatten(tuple(args), leaves)
    run = _Run(spec)
    out = _flat_function(cls).apply(run, *leaves)
    return _pytree.unflatten(run.out_spec, iter(out))
