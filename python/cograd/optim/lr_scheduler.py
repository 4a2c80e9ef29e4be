# SPDX-License-Identifier: BSD-3-Clause
"""Learning-rate schedules."""

from __future__ import annotations

import math
import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cograd._base import absent as _absent

from ._lr_base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from ._lr_base import LRScheduler
from ._lr_combined import ChainedScheduler, SequentialLR
from ._lr_cycles import CosineAnnealingWarmRestarts, CyclicLR
from ._lr_plateau import ReduceLROnPlateau
from ._one_cycle import OneCycleLR
from .optimizer import Optimizer

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


class _ByFunction(LRScheduler):
    """Base class of the schedules that call a user's function."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        if not isinstance(lr_lambda, (list, tuple)):
            lr_lambda = [lr_lambda] * groups  # type: ignore[list-item]
        elif len(lr_lambda) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
        self.lr_lambdas = list(lr_lambda)
        for fn in self.lr_lambdas:
            if not callable(fn):
                raise TypeError(f"lr_lambda should be a function, but got {type(fn).__name__}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Returns all attributes but the optimizer; lambdas only if they are objects with state."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [
            None if isinstance(fn, types.FunctionType) else fn.__dict__.copy()
            for fn in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what ``state_dict()`` returned; functions stay this object's own."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for fn, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if saved is not None:
                fn.__dict__.update(saved)


class LambdaLR(_ByFunction):
    """Sets lr = initial_lr * lr_lambda(epoch).

    Args:
        optimizer: the optimizer whose groups' 'lr' is set.
        lr_lambda: maps an epoch to a factor, or a list with one such function for each group.
        last_epoch: -1 for a new schedule, else the epoch to resume from; groups then need
            'initial_lr'.

    Raises:
        TypeError: ``lr_lambda`` is not a function.
        KeyError: a group has no 'initial_lr' when resuming.
        ValueError: the list's length is not the number of groups.
    """

    def get_lr(self) -> list[Any]:
        """Returns the learning rates at ``self.last_epoch``."""
        self._warn_outside_step()
        return [
            base * fn(self.last_epoch)
            for fn, base in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]


class MultiplicativeLR(_ByFunction):
    """Multiplies lr by lr_lambda(epoch) in every epoch from 1 on.

    Args:
        optimizer: the optimizer whose groups' 'lr' is set.
        lr_lambda: maps an epoch to a factor, or a list with one such function for each group.
        last_epoch: -1 for a new schedule, else the epoch to resume from; groups then need
            'initial_lr'.

    Raises:
        TypeError: ``lr_lambda`` is not a function.
        KeyError: a group has no 'initial_lr' when resuming.
        ValueError: the list's length is not the number of groups.
    """

    def get_lr(self) -> list[Any]:
        """Returns the learning rates at ``self.last_epoch``."""
        self._warn_outside_step()
        if self._is_initial:
            return self._current()
        return [
            lr * fn(self.last_epoch)
            for fn, lr in zip(self.lr_lambdas, self._current(), strict=True)
        ]


class StepLR(LRScheduler):
    """Sets lr = initial_lr * gamma^floor(epoch / step_size).

    Each step multiplies the current rate, so that changes by other schedules persist.

    Args:
        optimizer: the optimizer whose groups' 'lr' is set.
        step_size: number of epochs between two steps.
        gamma: the factor of the rate.
        last_epoch: -1 for a new schedule, else the epoch to resume from; groups then need
            'initial_lr'.

    Raises:
        TypeError: ``optimizer`` is not an Optimizer.
        KeyError: a group has no 'initial_lr' when resuming.
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Returns the learning rates at ``self.last_epoch``."""
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._current()
        return [lr * self.gamma for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self.gamma ** (self.last_epoch // self.step_size)
        return [base * factor for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiplies lr by ``gamma`` at each of the epochs ``milestones``.

    A milestone that is listed twice counts twice.

    Args:
        optimizer: the optimizer whose groups' 'lr' is set.
        milestones: the epochs.
        gamma: the factor of the rate.
        last_epoch: -1 for a new schedule, else the epoch to resume from; groups then need
            'initial_lr'.

    Raises:
        TypeError: ``optimizer`` is not an Optimizer.
        KeyError: a group has no 'initial_lr' when resuming.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Sequence[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Returns the learning rates at ``self.last_epoch``."""
        self._warn_outside_step()
        factor = self.gamma ** self.milestones.get(self.last_epoch, 0)
        return [lr * factor for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Sets lr = initial_lr * factor before epoch ``total_iters``, initial_lr from there on.

    Args:
        optimizer: the optimizer whose groups' 'lr' is set.
        factor: in [0, 1]; 0 cannot be undone: it raises ZeroDivisionError at ``total_iters``.
        total_iters: the epoch from which the factor no longer applies.
        last_epoch: -1 for a new schedule, else the epoch to resume from; groups then need
            'initial_lr'.

    Raises:
        TypeError: ``optimizer`` is not an Optimizer.
        KeyError: a group has no 'initial_lr' when resuming.
        ValueError: ``factor`` is not in [0, 1].
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Returns the learning rates at ``self.last_epoch``."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._current()]
        if self.last_epoch != self.total_iters:
            return self._current()
        return [lr * (1.0 / self.factor) for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Sets lr = initial_lr * f, where f goes linearly from ``start_factor`` to ``end_factor``.

    f = start_factor + (end_factor - start_factor) min(epoch, total_iters) / total_iters.

    Args:
        optimizer: the optimizer whose groups' 'lr' is set.
        start_factor: the factor at epoch 0, in (0, 1].
        end_factor: the factor from ``total_iters`` on, in [0, 1].
        total_iters: number of epochs of the change.
        last_epoch: -1 for a new schedule, else the epoch to resume from; groups then need
            'initial_lr'.

    Raises:
        TypeError: ``optimizer`` is not an Optimizer.
        KeyError: a group has no 'initial_lr' when resuming.
        ValueError: a factor is out of its range.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Returns the learning rates at ``self.last_epoch``."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._current()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        slope = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * slope
        return [lr * (1.0 + slope / before) for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * done
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Sets lr = initial_lr * gamma^epoch.

    Args:
        optimizer: the optimizer whose groups' 'lr' is set.
        gamma: the factor of the rate in each epoch.
        last_epoch: -1 for a new schedule, else the epoch to resume from; groups then need
            'initial_lr'.

    Raises:
        TypeError: ``optimizer`` is not an Optimizer.
        KeyError: a group has no 'initial_lr' when resuming.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Returns the learning rates at ``self.last_epoch``."""
        self._warn_outside_step()
        if self._is_initial or self.last_epoch == 0:
            return self._current()
        return [lr * self.gamma for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Sets lr = initial_lr * (1 - epoch / total_iters)^power, 0 from ``total_iters`` on.

    Args:
        optimizer: the optimizer whose groups' 'lr' is set.
        total_iters: number of epochs of the decay.
        power: exponent of the polynomial; 1 is a line.
        last_epoch: -1 for a new schedule, else the epoch to resume from; groups then need
            'initial_lr'.

    Raises:
        TypeError: ``optimizer`` is not an Optimizer.
        KeyError: a group has no 'initial_lr' when resuming.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Returns the learning rates at ``self.last_epoch``."""
        self._warn_outside_step()
        if self._is_initial or self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return self._current()
        left = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return [lr * (left / before) ** self.power for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (1.0 - done) ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Sets lr = eta_min + (initial_lr - eta_min) (1 + cos(pi epoch / T_max)) / 2.

    The rate falls by half a cosine in ``T_max`` epochs, then rises in as many. Loshchilov and
    Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts (arXiv:1608.03983), without
    restarts.

    Args:
        optimizer: the optimizer whose groups' 'lr' is set.
        T_max: number of epochs of half a cosine.
        eta_min: the lowest rate.
        last_epoch: -1 for a new schedule, else the epoch to resume from; groups then need
            'initial_lr'.

    Raises:
        TypeError: ``optimizer`` is not an Optimizer.
        KeyError: a group has no 'initial_lr' when resuming.
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Returns the learning rates at ``self.last_epoch``."""
        self._warn_outside_step()
        if self._is_initial or self.last_epoch == 0:
            return self._current()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                lr + (base - self.eta_min) * rise
                for base, lr in zip(self.base_lrs, self._current(), strict=True)
            ]
        ratio = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / (
            1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        )
        return [ratio * (lr - self.eta_min) + self.eta_min for lr in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        part = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]


_LRScheduler = LRScheduler  # its name before torch 2.0

if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
