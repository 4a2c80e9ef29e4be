# SPDX-License-Identifier: BSD-3-Clause
"""Data parallelism over devices; as there is only one, calls are forwarded."""

from __future__ import annotations

from typing import Any

import cograd

from ..modules.module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Calls ``module``, whose state_dict keys have the prefix ``module.``.

    Kernels use all cores already, so nothing is copied or divided.

    Args:
        module: the module to call.
        device_ids, output_device: may name only the CPU.
        dim: stored without effect.

    Raises:
        RuntimeError: a device is not the CPU.

    Shape:
        - input and output: those of ``module``.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        for device in [*(device_ids or ()), *([] if output_device is None else [output_device])]:
            if cograd.device(device).type != "cpu":
                raise RuntimeError(f"DataParallel: expected no device but the CPU, got {device!r}")
        self.module = module
        self.device_ids: list[Any] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Returns the output of the module."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Calls ``module`` with ``inputs``, a value or a tuple of values."""
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*args, **(module_kwargs or {}))
