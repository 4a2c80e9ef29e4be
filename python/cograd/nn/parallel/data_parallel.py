# SPDX-License-Identifier: BSD-3-Clause
"""Data parallelism over the GPUs of one process."""

from __future__ import annotations

from typing import Any

import cograd
from cograd import _C

from ..modules.module import Module
from ..utils.stateless import functional_call
from .scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


def _device(given: Any) -> cograd.device:
    """Returns a device that exists; an int is the number of a GPU."""
    device = cograd.device(given) if isinstance(given, (int, str)) else given
    try:
        _C._check_device(device)
    except RuntimeError as error:
        raise RuntimeError(f"DataParallel: cannot use the device {given!r}: {error}") from None
    return device


class DataParallel(Module):
    """Divides each batch among GPUs; the keys of its state_dict have the prefix ``module.``.

    The first GPU calls ``module``, each other one a copy of its parameters and buffers, whose
    gradients flow back; writes to the copies' buffers are lost. On the CPU, whose kernels use all
    cores already, calls are forwarded to ``module``.

    Args:
        module: the module to call. Its parameters must be on the first device.
        device_ids: the GPUs; None means all, if the module is on a GPU. Only the CPU: forwards.
        output_device: where the results are joined, the first device by default.
        dim: the dim that is divided.

    Raises:
        RuntimeError: a device does not exist, or the parameters are on another one.

    Shape:
        - input and output: those of ``module``; the batch is dim ``dim``.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        first = next(module.parameters(), None)
        if device_ids is None:
            here = first is not None and first.is_cuda
            device_ids = range(cograd.cuda.device_count()) if here else ()
        devices = [_device(device) for device in device_ids]
        output = None if output_device is None else _device(output_device)
        self.module = module
        self.device_ids: list[Any] = [d.index or 0 for d in devices if d.type != "cpu"]
        if self.device_ids and len(self.device_ids) < len(devices):
            raise RuntimeError(f"DataParallel: device_ids names the CPU beside GPUs: {devices}")
        self.output_device = output if output is not None or not devices else devices[0]
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Returns the outputs of the module for the parts of the batch, joined."""
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        devices = [cograd.device("cuda", index) for index in self.device_ids]
        state = dict([*self.module.named_parameters(), *self.module.named_buffers()])
        for name, tensor in state.items():
            if tensor.device != devices[0]:
                raise RuntimeError(
                    "module must have its parameters and buffers on device "
                    f"{devices[0]} (device_ids[0]) but found one of them on device: "
                    f"{tensor.device} ('{name}'); call module.to('{devices[0]}')"
                )
        args, named = scatter_kwargs(inputs, kwargs, devices, self.dim)
        if len(args) < 2:
            return self.module(*(args[0] if args else ()), **(named[0] if named else {}))
        outputs = [self.module(*args[0], **named[0])]
        for device, more, options in zip(devices[1:], args[1:], named[1:]):
            copies = {name: tensor.to(device) for name, tensor in state.items()}
            with cograd.cuda.device(device):
                outputs.append(functional_call(self.module, copies, more, options))
        return gather(outputs, self.output_device, self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Calls ``module`` with ``inputs``, a value or a tuple of values, as ``DataParallel`` does."""
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*args, **(module_kwargs or {}))
