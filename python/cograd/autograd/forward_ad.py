# SPDX-License-Identifier: BSD-3-Clause
"""Forward mode: values that carry a tangent, and the levels at which they do.

Within a level, ``make_dual(x, t)`` is x with the tangent t; whatever is computed from it has the
tangent that the chain rule gives, which ``unpack_dual`` takes out. One evaluation of f gives a
product of its Jacobian with one vector. Levels nest: a tangent may itself have tangents.
"""

from __future__ import annotations

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


if not TYPE_CHECKING:  # which would take it for an answer to every name

    def __getattr__(name: str) -> Any:
        if name == "_current_level":
            return _C._dual_level()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class UnpackedDualTensor(NamedTuple):
    """What ``unpack_dual`` gives: a named tuple of a tensor's value and tangent at one level.

    ``primal`` is the value, without the tangent; ``tangent`` is None where there is none.
    """

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Opens a level on this thread and returns its number, the depth of nesting.

    Unlike torch, levels nest: tangents of the outer ones flow through what is done inside.
    """
    return _C._enter_dual_level()


def exit_dual_level(*, level: int | None = None) -> None:
    """Closes the innermost level; tensors lose their tangents at it.

    Raises:
        RuntimeError: ``level`` is another one, or none is open.
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
    """Opens a level within the block, or within each call of the decorated function.

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
    """A view of ``tensor`` with a tangent at a level, by default the innermost one.

    ``tangent`` has the size of ``tensor``. It is not copied if its strides and dtype are the same:
    writing the dual tensor in place writes the tangent, too.

    Raises:
        ValueError: one of the two is not of a floating-point or complex dtype.
        RuntimeError: no level is open, the sizes differ, or ``tensor`` has a tangent there already.
    """
    level = _level(level, "create")
    for name, t in (("primal", tensor), ("tangent", tangent)):
        if not (t.is_floating_point() or t.is_complex()):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {t.dtype}")
    return _C._make_dual(tensor, tangent, level)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of ``tensor`` without its tangent at a level, and that tangent or None.

    An output that does not depend on dual tensors, or has no derivative, has no tangent. Outside
    of any level no tensor has one.
    """
    level = _C._dual_level() if level is None else level
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*_C._unpack_dual(tensor, level))


class _set_fwd_grad_enabled(_Mode):  # noqa: N801: torch's name
    """Whether tangents are seen within the block."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def clone(self) -> _set_fwd_grad_enabled:
        return type(self)(self.mode)

    __enter__ = _C._enter_forward_mode
    __exit__ = _C._exit_forward_mode


def _is_fwd_grad_enabled() -> bool:
    return _C._is_forward_mode()
