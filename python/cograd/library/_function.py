# SPDX-License-Identifier: BSD-3-Clause
"""Creates the autograd Function that runs an op, from the rules registered for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cograd import _pytree
from cograd.autograd import Function

from ._rules import Fn, KeptRules

__all__ = ["OpShape", "make_function"]


class OpShape(NamedTuple):
    """The properties of an op's schema on which its Function depends."""

    qualname: str
    positional: int  # number of arguments that can be passed by position
    keywords: Sequence[str]  # names of keyword-only arguments, the last inputs of the Function
    trees: bool  # True if there are lists of tensors among arguments or results


def _no_formula(name: str) -> Fn:
    """Returns the backward of an op without a formula."""

    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            f"Trying to backward through {name} but no autograd formula was registered. Please use "
            "register_autograd to add one."
        )

    return backward


def _setup(shape: OpShape, functions: list[Fn]) -> Fn:
    """Combines the setup_context functions of the gradient and of the tangent."""
    count, keywords = shape.positional, shape.keywords

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        for function in functions:
            if keywords:
                named = dict(zip(keywords, inputs[count:], strict=True))
                function(ctx, tuple(inputs[:count]), named, output)
            else:
                function(ctx, inputs, output)

    return setup


def _kernel(shape: OpShape, kernel: Fn) -> Fn:
    count, keywords = shape.positional, shape.keywords

    def forward(*args: Any) -> Any:
        return kernel(*args[:count], **dict(zip(keywords, args[count:], strict=True)))

    return forward if keywords else kernel


def _backward(shape: OpShape, backward: Fn) -> Fn:
    def full(ctx: Any, *grads: Any) -> Any:
        result = backward(ctx, *grads)
        result = result if isinstance(result, tuple) else (result,)
        return (*result, *[None] * len(shape.keywords))

    return full if shape.keywords else backward


def _jvp(shape: OpShape, jvp: Fn) -> Fn:
    def positional(ctx: Any, *tangents: Any) -> Any:
        return jvp(ctx, *tangents[: shape.positional])

    return positional if shape.keywords else jvp


def _vmap(shape: OpShape, rule: Fn) -> Fn:
    count, keywords = shape.positional, shape.keywords

    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        leaves: list[Any] = []
        _pytree.flatten(tuple(in_dims[count:]), leaves)
        if any(leaf is not None for leaf in leaves):
            raise NotImplementedError(
                f"{shape.qualname}: vmap over a keyword-only argument is not supported, "
                "because the rule of register_vmap does not receive its dim. Make it an ordinary "
                "argument"
            )
        named = dict(zip(keywords, args[count:], strict=True))
        return rule(info, tuple(in_dims[:count]), *args[:count], **named)

    return vmap


def make_function(shape: OpShape, kernel: Fn, rules: KeptRules) -> Any:
    """Returns the Function; simple ops use the registered functions directly."""
    backward = rules._backward_fn or _no_formula(shape.qualname)
    setups = [f for f in (rules._setup_context_fn, rules._jvp_setup_fn) if f is not None]
    methods: dict[str, Callable[..., Any]] = {
        "setup_context": _setup(shape, setups),
        "backward": _backward(shape, backward),
    }
    if not shape.keywords and len(setups) == 1:
        methods["setup_context"] = setups[0]
    if rules._jvp_fn is not None:
        methods["jvp"] = _jvp(shape, rules._jvp_fn)
    if shape.trees:
        methods = {name: _with_trees(f) for name, f in methods.items()}
    methods["forward"] = _kernel(shape, kernel)
    if rules._vmap_fn is not None:
        methods["vmap"] = _vmap(shape, rules._vmap_fn)
    body: dict[str, Any] = {name: staticmethod(f) for name, f in methods.items()}
    body["pytree"] = shape.trees
    body["_op_name"] = shape.qualname
    body["_has_formula"] = rules._backward_fn is not None
    return type(shape.qualname.replace("::", "_"), (Function,), body)


def _with_trees(function: Fn) -> Fn:
    return lambda ctx, *args: function(_TreeContext(ctx), *args)


class _TreeContext:
    """A context whose ``needs_input_grad`` has the structure of the arguments."""

    def __init__(self, ctx: Any) -> None:
        object.__setattr__(self, "_ctx", ctx)

    @property
    def needs_input_grad(self) -> Any:
        ctx = object.__getattribute__(self, "_ctx")
        return _pytree.unflatten(ctx._in_spec, iter(ctx.needs_input_grad[1:]))

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_ctx"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_ctx"), name, value)
