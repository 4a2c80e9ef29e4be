# SPDX-License-Identifier: BSD-3-Clause
"""Checks of optimizers' options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import cograd
from cograd import Tensor

Check: TypeAlias = Callable[[Any], None]
# Options that say how a step is computed, which all optimizers have got over time.
MODES = ("foreach", "maximize", "capturable", "differentiable", "fused", "decoupled_weight_decay")


class _Required:
    """Marks an option that every parameter group must set."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def number(value: Any) -> Any:
    """Converts a hyper-parameter to a plain number; most may be tensors of one element."""
    return value.item() if isinstance(value, Tensor) else value


def plain(group: dict[str, Any]) -> dict[str, Any]:
    """Returns a group whose options are plain numbers."""
    group = {key: number(value) for key, value in group.items()}
    if "betas" in group:
        group["betas"] = tuple(number(beta) for beta in group["betas"])
    return group


def within(test: Callable[[Any], Any], message: str) -> Check:
    """Returns a check that raises ValueError, with the value in the message, if a test fails."""

    def check(value: Any) -> None:
        if not test(value):
            raise ValueError(message.format(value))

    return check


def not_negative(name: str) -> Check:
    """Returns a check that raises ValueError if an option, which messages call so, is negative."""
    return within(lambda value: value >= 0.0, f"Invalid {name} value: {{}}")


def rate(message: str = "Invalid learning rate: {}") -> Check:
    """Returns a check that raises ValueError if a learning rate is negative."""
    sign = within(lambda lr: number(lr) >= 0.0, message)

    def check(lr: Any) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        sign(lr)

    return check


def check_betas(betas: Sequence[Any]) -> None:
    """Raises ValueError if a beta is not in [0, 1)."""
    for i, beta in enumerate(betas):
        if isinstance(beta, Tensor) and beta.numel() != 1:
            raise ValueError(f"Tensor betas[{i}] must be 1-element")
        if not 0.0 <= number(beta) < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def check_modes(options: Mapping[str, Any]) -> None:
    """Raises RuntimeError for modes that exclude each other or are not supported."""
    fused = options.get("fused")
    if fused and options.get("differentiable"):
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and options.get("foreach"):
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def on_gpu(param: Tensor, group: Mapping[str, Any]) -> bool:
    """Returns whether a parameter's steps must read nothing on the CPU that changes."""
    return bool(group.get("capturable")) and param.is_cuda


def new_counter(
    value: float = 0.0, fused: bool | None = None, device: cograd.device | None = None
) -> Tensor:
    """Creates a 0-dim counter such as 'step': float32, or float64 if that is the default dtype."""
    double = cograd.get_default_dtype() == cograd.float64 and not fused
    dtype = cograd.float64 if double else cograd.float32
    return cograd.tensor(value, dtype=dtype, device=device)
