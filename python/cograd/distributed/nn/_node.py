# SPDX-License-Identifier: BSD-3-Clause
"""Communications in the autograd graph: nodes, the token that ties them, and their order.

Every rank creates a node if grad mode is on, whether or not its input requires grad, because all
ranks must take part in the adjoint. A tensor without elements, the token, requires grad (and has
tangents) for this purpose. The functions of cograd.func are an exception: they differentiate only
with respect to their own inputs, and their results must not require grad because of the token.
"""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from typing import Any

import cograd
from cograd import _C, Tensor
from cograd.autograd import forward_ad
from cograd.autograd.function import Function
from cograd.distributed import DebugLevel, DistBackendError, get_debug_level
from cograd.distributed._mpi.watch import call_site, origin

from ._maps import Exchange, Map

__all__ = ["communicate", "depends_on", "ordered", "unrecorded"]

_here = threading.local()


def fresh_token(levels: int | None = None) -> Tensor:
    """Returns a tensor without elements that has every kind of derivative enabled here."""
    if levels is None:
        levels = _C._dual_level() + 1 if forward_ad._is_fwd_grad_enabled() else 0
    token = cograd.empty(0)
    if cograd.is_grad_enabled() and not _C._within_function():
        token.requires_grad_()
    for level in range(levels):
        token = forward_ad.make_dual(token, fresh_token(level), level=level)
    return token


class _Sent:
    """Warns if the token of a send is lost, and with it the gradient that should come back."""

    def __init__(self, to: tuple[int, ...], place: str) -> None:
        self.to, self.place, self.done = to, place, False

    def __del__(self) -> None:
        if self.done or sys is None or sys.is_finalizing():
            return
        warnings.warn(
            f"send to rank {', '.join(map(str, self.to))} at {self.place}: its token was lost "
            "before backward, so the gradient does not come back from there, and the receiver's "
            "backward sends one that nobody awaits. Tie the token to what backward is called on, "
            "by depends_on(loss, token) or within ordered(), or send under no_grad where no "
            "gradient is wanted.",
            RuntimeWarning,
            stacklevel=2,
        )


_numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def _next_number(group: Any) -> int:
    """Counts a group's collectives; all members get the same number."""
    number = _numbers[group] = _numbers.get(group, 0) + 1
    return number


class _Call:
    """One communication of this rank, stored in its node."""

    def __init__(self, map: Map, recorded: bool = False) -> None:
        """Stores a call; ``recorded`` is False for derivatives of another communication."""
        self.map = map.numbered() if isinstance(map, Exchange) else map
        self.recorded = recorded
        self.number = 0 if isinstance(map, Exchange) else _next_number(map.group)
        self.place = call_site()
        self.done = False  # whether its backward has run


class _BackwardOf:
    """Marks errors and board entries inside the block as belonging to a backward."""

    def __init__(self, call: _Call) -> None:
        call.done = not cograd.is_grad_enabled()  # a recorded backward can run again
        self.text = f"the backward of {type(call.map).__name__}, {call.place}"
        self.what = ""
        if get_debug_level() is not DebugLevel.OFF:  # adjoints of different calls may look the same
            self.what = f" in the backward of {type(call.map).__name__} {call.number}"

    def __enter__(self) -> None:
        self.before = getattr(origin, "text", "")
        if not self.before:  # keep the outermost of nested backwards
            origin.text, origin.what = f" ({self.text})", self.what

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self.before:
            origin.text = origin.what = ""
        if isinstance(error, DistBackendError) and not self.before:
            raise DistBackendError(
                f"{error}\nThis was {self.text}. All ranks must run backward through the same "
                "communications: where a rank's loss does not use a result that another one's "
                "does, tie it by ordered() or depends_on() of cograd.distributed.nn."
            ) from error


class _Communication(Function):
    """Runs a map on this rank's tensors; a map without results here returns a token.

    An additional output without elements represents the node itself.
    """

    @staticmethod
    def forward(ctx: Any, token: Tensor, call: _Call, *tensors: Tensor) -> Any:
        ctx.call = call
        ctx.likes = [(tuple(t.shape), t.dtype, t.device) for t in tensors]
        ctx.sent = None
        itself = cograd.empty(0)
        ctx.save_for_backward(itself)
        results = call.map.run(tensors)
        if results:
            return (*results, itself)
        if call.recorded and any(ctx.needs_input_grad[2:]) and isinstance(call.map, Exchange):
            ctx.sent = _Sent(call.map.to, call.place)
        return cograd.empty(0), itself

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        tie = grads[-1]  # ties derivatives of derivatives to the gradient of `itself`
        call: _Call = ctx.call
        if ctx.sent is not None:
            ctx.sent.done = True
        is_token = isinstance(call.map, Exchange) and not call.map.source
        given = call.map.pull(() if is_token else grads[:-1], ctx.likes)
        (itself,) = ctx.saved_tensors
        if cograd.is_grad_enabled() and itself.requires_grad:
            # Ranks with a linear loss take part in the higher derivatives of the other ranks.
            given = (depends_on(given[0], itself, tie), *given[1:])
        with _BackwardOf(call):
            results = communicate(call.map.adjoint(), given)
        pulled = call.map.pulled(results)
        if isinstance(call.map, Exchange) and not call.map.to and results[0].requires_grad:
            # The adjoint only sends, so its own backward must be reached through the templates.
            pulled = tuple(
                depends_on(cograd.zeros(shape, dtype=dtype, device=at), results[0])
                if needed
                else None
                for (shape, dtype, at), needed in zip(
                    ctx.likes, ctx.needs_input_grad[2:], strict=True
                )
            )
        return (None, None, *pulled)

    @staticmethod
    def jvp(ctx: Any, token: Tensor, _: None, *tangents: Tensor) -> Any:
        (itself,) = ctx.saved_tensors
        if any(ctx.needs_input_grad[2:]):  # the tangents' backward also runs the values'
            tangents = (_DependsOn.apply(tangents[0], itself), *tangents[1:])
        return _apply(token, _Call(ctx.call.map), tangents)

    @staticmethod
    def vmap(info: Any, in_dims: Any, token: Tensor, call: _Call, *tensors: Tensor) -> Any:
        size, at = info.batch_size, call.map.sample_dim
        moved = tuple(
            t.unsqueeze(at).expand(*t.shape[:at], size, *t.shape[at:])
            if dim is None
            else t.movedim(dim, at)
            for t, dim in zip(tensors, in_dims[2:], strict=True)
        )
        results = _apply(token, call, moved)
        is_token = isinstance(call.map, Exchange) and not call.map.source
        dim = None if is_token else call.map.result_dim
        return results, ((dim,) * (len(results) - 1) + (None,))


# One class for each map, so that nodes and messages name the communication.
_NODES: dict[type[Map], Any] = {
    kind: type(kind.__name__, (_Communication,), {"__doc__": kind.__doc__, "__module__": __name__})
    for kind in Map.__subclasses__()
}


def _apply(token: Tensor, call: _Call, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return _NODES[type(call.map)].apply(token, call, *tensors)  # type: ignore[no-any-return]


def communicate(map: Map, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Runs ``map``, records it, and within ``ordered`` ties it to the previous one."""
    if not any(t.is_floating_point() or t.is_complex() for t in tensors):
        return _apply(cograd.empty(0), _Call(map), tensors)[:-1]
    recorded = cograd.is_grad_enabled() and not getattr(origin, "text", "")
    call, chain = _Call(map, recorded), getattr(_here, "chain", None)
    token = fresh_token()
    if chain is None:
        return _apply(token, call, tensors)[:-1]
    results = _apply(chain._tied(token), call, tensors)[:-1]
    chain._extend(results[0], call)
    return results


def unrecorded(map: Map, tensor: Tensor) -> Tensor:
    """Runs a map on one detached tensor, without derivatives."""
    return _apply(cograd.empty(0), _Call(map), (tensor,))[0]


class _Token(Function):
    """Returns a tensor without elements that depends on another tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return cograd.empty(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Any:
        return _Token.apply(tangent)

    @staticmethod
    def vmap(info: Any, in_dims: Any, tensor: Tensor) -> Any:
        return _Token.apply(tensor), None


class _DependsOn(Function):
    """Returns the first tensor, with edges to the others."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, *others: Tensor) -> Tensor:
        ctx.others = [(tuple(t.shape), t.dtype, t.device) for t in others]
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        if not (cograd.is_grad_enabled() and grad.requires_grad):
            return (grad, *[None] * len(ctx.others))
        # A derivative of the others' gradients must reach where this gradient came from.
        tied = (
            _DependsOn.apply(cograd.zeros(shape, dtype=dtype, device=at), grad) if needed else None
            for (shape, dtype, at), needed in zip(ctx.others, ctx.needs_input_grad[1:], strict=True)
        )
        return (grad, *tied)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *others: Tensor) -> Any:
        return _DependsOn.apply(tangent, *others)

    @staticmethod
    def vmap(info: Any, in_dims: Any, tensor: Tensor, *others: Tensor) -> Any:
        return _DependsOn.apply(tensor, *others), in_dims[0]


def depends_on(tensor: Tensor, *others: Tensor) -> Tensor:
    """Returns ``tensor`` so that its backward also runs that of ``others``, with zero gradients.

    Use it for what backward would not reach otherwise: the token of a ``send``, or the result of a
    communication that another rank's loss uses and this rank's loss does not.

    Args:
        tensor: a tensor of a floating-point or complex dtype.
        others: tensors of any shape; tokens are tensors without elements.

    Returns:
        A view of ``tensor``.
    """
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise TypeError(
            "depends_on(): tensor must be of a floating-point or complex dtype to have a "
            f"gradient, got {tensor.dtype}"
        )
    for token in others:
        _is_tied(token)
    return _DependsOn.apply(tensor, *others)  # type: ignore[no-any-return]


def _is_tied(token: Tensor) -> None:
    """Marks the message sent with this token as not lost."""
    sent = getattr(token.grad_fn, "sent", None)
    if isinstance(sent, _Sent):
        sent.done = True


class ordered:
    """Ties each differentiable communication inside the block to the previous one.

    Backward from any of them then runs all earlier ones, on every rank in reverse order, whether or
    not this rank uses their results. ``join`` ties them to a loss; a rank without a loss calls
    ``backward``. The chain belongs to this thread and holds the graph while the block object lives:
    open a new one for each step.

    Example::

        with ordered() as chain:
            send(stage(x), 1)
            loss = chain.join(regulariser)
        loss.backward()
    """

    def __init__(self) -> None:
        self._last: tuple[Tensor, _Call] | None = None
        self._before: Any = None

    def __enter__(self) -> ordered:
        self._before = getattr(_here, "chain", None)
        _here.chain = self
        return self

    def __exit__(self, *exc: object) -> None:
        _here.chain = self._before

    def _tied(self, token: Tensor) -> Tensor:
        return token if self.token is None else _DependsOn.apply(token, self.token)

    def _extend(self, result: Tensor, call: _Call) -> None:
        if result.requires_grad:
            _is_tied(result)
            self._last = (_Token.apply(result), call)

    @property
    def token(self) -> Tensor | None:
        """Returns a token for all communications so far; None if no backward is left to run."""
        return None if self._last is None or self._last[1].done else self._last[0]

    def join(self, tensor: Tensor) -> Tensor:
        """Returns ``tensor`` so that its backward also runs that of all communications so far."""
        return tensor if self.token is None else depends_on(tensor, self.token)

    def backward(self, *, retain_graph: bool | None = None, create_graph: bool = False) -> None:
        """Runs the backward of all communications so far, on a rank without a loss."""
        if self.token is not None:
            self.token.sum().backward(retain_graph=retain_graph, create_graph=create_graph)
