# SPDX-License-Identifier: BSD-3-Clause
"""Creates modules without initialisation, and sets the memory format of convolutions."""

from __future__ import annotations

import inspect
from typing import Any

import cograd

from ..modules.module import Module

__all__ = [
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "skip_init",
]


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns ``module_cls(*args, **kwargs)`` with uninitialised parameters.

    Raises:
        RuntimeError: ``module_cls`` is not a Module class, or has no parameter ``device``.
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    # On the meta device, initialisation costs nothing and draws no random numbers.
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)


def _convert(module: Any, memory_format: Any, kinds: tuple[str, ...]) -> Any:
    for part in module.modules():
        weight = part._parameters.get("weight")
        named = any(kind.__name__ in kinds for kind in type(part).__mro__)
        if named and weight is not None:
            with cograd.no_grad():
                weight.data = weight.detach().clone().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Converts the weights of all 2-d convolutions in ``module`` to ``memory_format``."""
    return _convert(module, memory_format, ("Conv2d", "ConvTranspose2d"))


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Converts the weights of all 3-d convolutions in ``module`` to ``memory_format``."""
    return _convert(module, memory_format, ("Conv3d", "ConvTranspose3d"))
