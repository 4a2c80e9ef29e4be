# SPDX-License-Identifier: BSD-3-Clause
"""CyclicLR and CosineAnnealingWarmRestarts."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Sequence
from typing import Any

from ._lr_base import LRScheduler, per_group, set_option
from .optimizer import Optimizer


class CyclicLR(LRScheduler):
    """Cycles the rate up from ``base_lr`` to ``max_lr`` and down again.

    Smith, Cyclical Learning Rates for Training Neural Networks (arXiv:1506.01186).

    Args:
        optimizer: the optimizer whose groups' 'lr' is set.
        base_lr: the lowest rate, for all groups, or one for each.
        max_lr: the highest rate, before scaling.
        step_size_up: number of steps on the way up.
        step_size_down: number of steps on the way down; None means ``step_size_up``.
        mode: 'triangular', 'triangular2' (halves the height in each cycle) or 'exp_range' (scales
            it by gamma^step).
        gamma: the base for 'exp_range'.
        scale_fn: a function to use instead of the mode's.
        scale_mode: whether it receives the number of the cycle ('cycle') or step ('iterations').
        cycle_momentum: whether the momentum, or Adam's first beta, moves in the opposite direction.
        base_momentum: the lowest momentum.
        max_momentum: the highest momentum.
        last_epoch: -1 for a new schedule.

    Raises:
        ValueError: the mode is unknown, or ``cycle_momentum`` is set and the optimizer has no
            momentum.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
                raise ValueError(
                    "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
                )
            self.use_beta1 = "betas" in optimizer.defaults
            self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
        if last_epoch == -1:
            for i, group in enumerate(optimizer.param_groups):
                set_option(group, "lr", base_lrs[i])
                if cycle_momentum:
                    self._set_momentum(group, self.max_momentums[i])
                    group["max_momentum"] = self.max_momentums[i]
                    group["base_momentum"] = self.base_momentums[i]
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _set_momentum(self, group: dict[str, Any], value: Any) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value

    def scale_fn(self, x: float) -> float:
        """Returns the factor of a cycle's height."""
        if self._scale_fn_custom is not None:
            return float(self._scale_fn_custom(x))
        if self.mode == "triangular2":
            return 1 / float(2.0 ** (x - 1))
        return float(self.gamma**x) if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Any]:
        """Returns the learning rates at ``self.last_epoch``; also sets the momenta."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        part = 1.0 + self.last_epoch / self.total_size - cycle
        if part <= self.step_ratio:
            height = part / self.step_ratio
        else:
            height = (part - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            pairs = zip(self.base_momentums, self.max_momentums)
            for group, (least, most) in zip(self.optimizer.param_groups, pairs, strict=True):
                self._set_momentum(group, most - (most - least) * height * scale)
        return [
            least + (most - least) * height * scale
            for least, most in zip(self.base_lrs, self.max_lrs)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Returns all attributes but the optimizer; ``scale_fn`` only if it has state."""
        state = super().state_dict()
        fn = state.pop("_scale_fn_custom")  # torch adds it at the end
        plain = fn is None or isinstance(fn, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else fn.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what ``state_dict()`` returned; the function stays this object's own."""
        fn, saved = self._scale_fn_custom, state_dict["_scale_fn_custom"]
        super().load_state_dict({**state_dict, "_scale_fn_custom": fn})
        if saved is not None and fn is not None:
            fn.__dict__.update(saved)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Decays by half a cosine in ``T_0`` epochs, then restarts, ``T_mult`` times longer.

    lr = eta_min + (initial_lr - eta_min) (1 + cos(pi T_cur / T_i)) / 2, where T_cur counts from the
    last restart and T_i is the length of this cosine. ``step(epoch)`` accepts fractional epochs.

    Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts (arXiv:1608.03983).

    Args:
        optimizer: the optimizer whose groups' 'lr' is set.
        T_0: number of epochs of the first cosine, a positive int.
        T_mult: the factor of the length at each restart, a positive int.
        eta_min: the lowest rate.
        last_epoch: -1 for a new schedule, else the epoch to resume from; groups then need
            'initial_lr'.

    Raises:
        TypeError: ``optimizer`` is not an Optimizer.
        KeyError: a group has no 'initial_lr' when resuming.
        ValueError: ``T_0`` or ``T_mult`` is not a positive int, or ``eta_min`` is not a number.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Returns the learning rates at ``self.T_cur`` of this cosine."""
        self._warn_outside_step()
        part = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * part / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Moves to the next epoch, or to any given one, which may be fractional."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur = self.T_cur % self.T_i
                self.T_i = self.T_i * self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        else:
            self._place(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            lrs = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._set_lrs(lrs)

    def _place(self, epoch: float) -> None:
        """Finds the cosine that contains an epoch."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            before = self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i, self.T_cur = self.T_0 * self.T_mult**n, epoch - before
