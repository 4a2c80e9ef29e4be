# SPDX-License-Identifier: BSD-3-Clause
"""GradScaler: multiplies a loss so that float16 gradients do not vanish."""

from __future__ import annotations

import warnings
from typing import Any

import cograd
from cograd import Tensor
from cograd.amp.autocast_mode import is_autocast_available

__all__ = ["GradScaler"]


class GradScaler:
    """Scales losses and detects gradients that overflow (Micikevicius et al. 2018).

    Call ``scale(loss).backward()``, ``step(optimizer)``, ``update()``: the step is skipped if a
    gradient is infinite or NaN; then the scale is multiplied by ``backoff_factor``, and after
    ``growth_interval`` successful steps by ``growth_factor``.

    Args:
        device: "cuda" or "cpu"; for a device that does not exist the scaler is disabled, with a
            warning.
        enabled: False makes ``scale`` and ``step`` do nothing special.

    Raises:
        ValueError: ``growth_factor`` does not exceed 1, or ``backoff_factor`` is not below 1.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = str(device)
        if enabled and not is_autocast_available(self._device):
            warnings.warn(
                f"GradScaler is enabled, but {self._device} is not available.  Disabling.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        if enabled:
            if growth_factor <= 1.0:
                raise ValueError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise ValueError("The backoff factor must be < 1.0.")
        self._scale = float(init_scale)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        # id of an optimizer -> found: whether an infinity was found, None before unscale_; stepped.
        self._seen: dict[int, dict[str, Any]] = {}

    def scale(self, outputs: Any) -> Any:
        """Multiplies a tensor, or a list, tuple or dict of tensors, by the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, dict):
            return {key: self.scale(value) for key, value in outputs.items()}
        if isinstance(outputs, (list, tuple)):
            items = [self.scale(value) for value in outputs]
            return type(outputs)(items)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _of(self, optimizer: Any) -> dict[str, Any]:
        return self._seen.setdefault(id(optimizer), {"found": None, "stepped": False})

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of the optimizer's parameters by the scale, for clipping.

        Raises:
            RuntimeError: called twice since ``update``, or after ``step``.
        """
        if not self._enabled:
            return
        state = self._of(optimizer)
        if state["found"] is not None:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stepped"]:
            raise RuntimeError("unscale_() is being called after step().")
        flags: dict[cograd.device, list[Tensor]] = {}
        with cograd.no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    if p.grad.dtype == cograd.float16 and not _allows_half(optimizer):
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    p.grad.mul_(1.0 / self._scale)
                    flags.setdefault(p.grad.device, []).append(cograd.isfinite(p.grad).all())
            # One wait for each device.
            state["found"] = not all(bool(cograd.stack(f).all()) for f in flags.values())

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls ``optimizer.step`` on unscaled gradients, unless one is not finite.

        Raises:
            RuntimeError: a closure is passed, or ``step`` is called twice since ``update``.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        state = self._of(optimizer)
        if state["stepped"]:
            raise RuntimeError("step() has already been called since the last update().")
        if state["found"] is None:
            self.unscale_(optimizer)
        result = None if state["found"] else optimizer.step(*args, **kwargs)
        state["stepped"] = True
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Sets the scale for the next iteration.

        Raises:
            AssertionError: no step was seen since the last update.
        """
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        else:
            found = [s["found"] for s in self._seen.values() if s["found"] is not None]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            if any(found):
                self._scale *= self._backoff_factor
                self._growth_tracker = 0
            else:
                self._growth_tracker += 1
                if self._growth_tracker == self._growth_interval:
                    self._scale *= self._growth_factor
                    self._growth_tracker = 0
        self._seen.clear()

    def get_scale(self) -> float:
        """Returns the scale, 1.0 if disabled."""
        return self._scale if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Returns whether the scaler is enabled."""
        return self._enabled

    def get_growth_factor(self) -> float:
        """Returns the factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Returns the factor by which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets the factor by which the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Returns the number of successful steps before the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets the number of successful steps before the scale grows."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """Returns scale, factors and the number of successful steps; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the result of ``state_dict``."""
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]


def _allows_half(optimizer: Any) -> bool:
    """Returns whether the optimizer supports scaled float16 gradients; as in torch, few do."""
    return bool(getattr(optimizer, "_step_supports_amp_scaling", False))
