# SPDX-License-Identifier: BSD-3-Clause
"""Groups tensors by dtype, as optimizers outside of cograd need for ``_foreach_*``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cograd import Tensor, device, dtype

__all__: list[str] = []

Lists = list[list[Any]]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Returns the devices on which ``_foreach_*`` is faster than a loop: none."""
    return []


def _get_fused_kernels_supported_devices() -> list[str]:
    """Returns the devices on which optimizers support ``fused=True``."""
    return ["cpu"]


def _device_has_foreach_support(device: device) -> bool:
    return device.type == "cpu"


def _has_foreach_support(tensors: Sequence[Tensor | None], device: device) -> bool:
    """Returns whether all tensors are plain tensors on a device that has ``_foreach_*``."""
    plain = all(x is None or type(x) is Tensor for x in tensors)
    return plain and _device_has_foreach_support(device)


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[device, dtype], tuple[Lists, list[int]]]:
    """Divides the lists by device and dtype of the first list's tensors.

    Returns for each (device, dtype) the parts of all lists, and their indices if ``with_indices``
    is set. The lists may also contain None and numbers. An empty list stays empty.

    Raises:
        RuntimeError: the lists differ in length.
    """
    first = tensorlistlist[0]
    for other in tensorlistlist:
        if other and len(other) != len(first):
            raise RuntimeError(
                f"_group_tensors_by_device_and_dtype(): got lists of {len(first)} and {len(other)} "
                "elements, expected lists of one length, or empty ones"
            )
    groups: dict[tuple[device, dtype], tuple[Lists, list[int]]] = {}
    for i, x in enumerate(first):
        lists, indices = groups.setdefault((x.device, x.dtype), ([[] for _ in tensorlistlist], []))
        for part, whole in zip(lists, tensorlistlist, strict=True):
            part.extend(whole[i : i + 1])
        if with_indices:
            indices.append(i)
    return groups
