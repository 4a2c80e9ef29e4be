# SPDX-License-Identifier: BSD-3-Clause
"""Forward mode: dual tensors, which carry a tangent at a dual level.

Inside a dual level, ``make_dual(x, t)`` returns x with the tangent t; tensors computed from it
carry the tangent that the chain rule yields, which ``unpack_dual`` returns. One evaluation of f
computes a product of its Jacobian with one vector. Levels nest: a tangent may have tangents.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from cograd import _C
from cograd._C import Tensor
from cograd.autograd.grad_mode import _Mode

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        if name == "_current_level":
            return _C._dual_level()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class UnpackedDualTensor(NamedTuple):
    """The result of ``unpack_dual``: a tensor's value and tangent at one dual level.

    ``primal`` is the value without the tangent; ``tangent`` is None if there is none.
    """

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Opens a dual level on this thread and returns its number, the depth of nesting.

    Unlike in torch, levels nest: tangents of the outer levels propagate through ops inside.
    """
    return _C._enter_dual_level()


def exit_dual_level(*, level: int | None = None) -> None:
    """Closes the innermost dual level; tensors lose their tangents at it.

    Raises:
        RuntimeError: ``level`` is not the innermost, or none is open.
    """
    last = _C._dual_level()
    level = last if level is None else level
    if level != last or level < 0:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is "
            f"not supported. (level {level}, the last one is {last})"
        )
    _C._exit_dual_level(level)


class dual_level(_Mode):  # noqa: N801: torch's name
    """Opens a dual level for the block, or for each call of the decorated function.

    Example::

        with dual_level() as level:
            y = f(make_dual(x, t))
            value, tangent = unpack_dual(y)
    """

    if TYPE_CHECKING:

        def __enter__(self) -> int: ...  # type: ignore[override]

    else:
        __enter__ = _C._enter_dual_block
    __exit__ = _C._exit_dual_block


def _level(level: int | None, what: str) -> int:
    level = _C._dual_level() if level is None else level
    if level < 0:
        raise RuntimeError(
            f"Trying to {what} a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    return level


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Returns a view of ``tensor`` with a tangent at a dual level, by default the innermost one.

    ``tangent`` has the size of ``tensor``. It is not copied if its strides and dtype are the same:
    in-place writes to the dual tensor then also write the tangent.

    Raises:
        ValueError: one of the two does not have a floating-point or complex dtype.
        RuntimeError: no level is open, the sizes differ, or ``tensor`` has a tangent there already.
    """
    if traces := sys.modules.get("cograd._base.traces"):  # no trace runs before it is loaded
        traces.refuse_gradients("forward_ad.make_dual")
    return _C._make_dual(tensor, tangent, _level(level, "create"))


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Returns the value of ``tensor`` without its tangent at a dual level, and the tangent or None.

    An output that does not depend on dual tensors, or has no derivative, has no tangent. Outside
    of all levels no tensor has one.
    """
    level = _C._dual_level() if level is None else level
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*_C._unpack_dual(tensor, level))


class _set_fwd_grad_enabled(_Mode):  # noqa: N801: torch's name
    """Enables or disables tangents for the block."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def clone(self) -> _set_fwd_grad_enabled:
        return type(self)(self.mode)

    __enter__ = _C._enter_forward_mode
    __exit__ = _C._exit_forward_mode


def _is_fwd_grad_enabled() -> bool:
    return _C._is_forward_mode()
