# SPDX-License-Identifier: BSD-3-Clause
"""LRScheduler: the base class of learning-rate schedules."""

from __future__ import annotations

import functools
import warnings
import weakref
from typing import Any

from cograd import Tensor

from ._options import number
from .optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available."
)
# Programs match the end of torch's messages, which is this link.
_SEE = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def _watch_steps(optimizer: Any) -> None:
    """Makes the optimizer record calls of ``step``, for warnings about the call order."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    function = getattr(optimizer.step, "__func__", None)
    if function is None:  # a function was assigned to this optimizer
        function = _without_self(optimizer.step)
    reference = weakref.ref(optimizer)  # avoids a cycle: a dropped optimizer is freed

    @functools.wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        watched: Any = reference()
        watched._opt_called = True
        return function(watched, *args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step


def _without_self(step: Any) -> Any:
    return lambda self, *args, **kwargs: step(*args, **kwargs)


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """Returns one value for each group: those of a sequence, or the same value for all."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        value = [value] * groups
    elif len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {groups}."
        )
    return [_copied(item) for item in value]


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def values_of(optimizer: Optimizer, key: str) -> list[Any]:
    """Returns the value of an option in every group; tensors are copied."""
    return [_copied(group[key]) for group in optimizer.param_groups]


def set_option(group: dict[str, Any], key: str, value: Any) -> None:
    """Sets an option of a group; a tensor is written in place."""
    if isinstance(group[key], Tensor):
        group[key].fill_(number(value))
    else:
        group[key] = value


class LRScheduler:
    """Base class: ``get_lr`` returns the learning rate of every group at ``self.last_epoch``.

    Call ``step()`` after each epoch's optimizer steps; it sets 'lr' of every group. The
    constructor makes the first step. Subclasses define ``get_lr``.

    Args:
        optimizer: the optimizer whose groups' 'lr' is set.
        last_epoch: -1 for a new schedule, else the epoch to resume from; groups then need
            'initial_lr'.

    Raises:
        TypeError: ``optimizer`` is not an Optimizer.
        KeyError: a group has no 'initial_lr' when resuming.
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    "param 'initial_lr' is not specified in "
                    f"param_groups[{i}] when resuming an optimizer"
                )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _watch_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Returns a dict of all attributes but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what ``state_dict()`` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """Returns the learning rates that the last ``step`` set."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Returns the learning rates at ``self.last_epoch``; subclasses define it."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Moves to the next epoch and sets the learning rates."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        """Sets the learning rates of an epoch; None means the next one."""
        self._get_lr_called_within_step = True
        try:
            lrs = self._next_lrs(epoch)
        finally:
            self._get_lr_called_within_step = False
        self._set_lrs(lrs)

    def _set_lrs(self, lrs: list[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, lrs, strict=True):
            set_option(group, "lr", lr)
        self._last_lr = values_of(self.optimizer, "lr")

    def _next_lrs(self, epoch: int | None) -> list[Any]:
        if epoch is None:
            self.last_epoch += 1
            return self.get_lr()
        self.last_epoch = epoch
        closed = getattr(self, "_get_closed_form_lr", None)
        return self.get_lr() if closed is None else closed()

    def _warn_outside_step(self) -> None:
        """Warns if ``get_lr`` is called outside of ``step``, where its result is not valid."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                stacklevel=3,
            )

    def _check_order(self) -> None:
        """Warns if the optimizer's ``step`` was replaced or has not been called yet."""
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                f"`lr_scheduler.step()`. {_SEE}",
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should "
                "call them in the opposite order: `optimizer.step()` before "
                "`lr_scheduler.step()`. Failure to do this will result in skipping the first "
                f"value of the learning rate schedule. {_SEE}",
                stacklevel=3,
            )

    def _current(self) -> list[Any]:
        return values_of(self.optimizer, "lr")
