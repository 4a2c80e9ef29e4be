# SPDX-License-Identifier: BSD-3-Clause
"""LRScheduler: the base class of learning-rate schedules."""

from __future__ import annotations

import warnings
from typing import Any

from .optimizer import Optimizer


class LRScheduler:
    """Base class: ``get_lr`` gives the learning rate of every group at ``self.last_epoch``.

    Args:
        optimizer: whose groups' 'lr' is set.
        last_epoch: -1 for a new schedule; to resume, the groups must have 'initial_lr'.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    "param 'initial_lr' is not specified in "
                    f"param_groups[{i}] when resuming an optimizer"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._is_initial = True
        self._step_count = 0
        self._watch_steps()
        self.step()
        self._is_initial = False

    def _watch_steps(self) -> None:
        """Notes on the optimizer that ``step`` was called, for the warning about call order."""
        if not hasattr(self.optimizer, "_steps_seen"):
            self.optimizer._steps_seen = 0  # type: ignore[attr-defined]

            def count(optimizer: Any, args: Any, kwargs: Any) -> None:
                optimizer._steps_seen += 1

            self.optimizer.register_step_post_hook(count)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what ``state_dict()`` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The learning rates that the last ``step`` set."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The learning rates at ``self.last_epoch``; subclasses define it."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Moves to the next epoch and sets the learning rates."""
        if self._step_count == 1 and self.optimizer._steps_seen == 0:  # type: ignore[attr-defined]
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should "
                "call them in the opposite order: `optimizer.step()` before "
                "`lr_scheduler.step()`. Failure to do this will result in skipping the first "
                "value of the learning rate schedule.",
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            lrs = self.get_lr()
        else:
            self.last_epoch = epoch
            closed = getattr(self, "_get_closed_form_lr", None)
            lrs = self.get_lr() if closed is None else closed()
        for group, lr in zip(self.optimizer.param_groups, lrs):
            group["lr"] = lr
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _current(self) -> list[Any]:
        return [group["lr"] for group in self.optimizer.param_groups]
