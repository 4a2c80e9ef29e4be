# SPDX-License-Identifier: BSD-3-Clause
"""Moves the storages of a file to the device they were on, or where ``map_location`` says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cograd
from cograd._C import UntypedStorage

__all__ = ["LocationError", "Place", "restore", "restorer"]

Place = Callable[[UntypedStorage, str], UntypedStorage]


class LocationError(Exception):
    """Wraps an error that is not the file's: a GPU that is missing, or of ``map_location``."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _gpu(location: str) -> str:
    """Returns the location of a GPU if there is such a GPU.

    Raises:
        RuntimeError: there is none, in torch's words.
    """
    cuda = cograd.cuda
    if not cuda.is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is "
            "False. If you are running on a CPU-only machine, please use torch.load with "
            "map_location=torch.device('cpu') to map your storages to the CPU."
        )
    index = cograd.device(location).index
    if index is not None and index >= cuda.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but "
            f"torch.cuda.device_count() is {cuda.device_count()}. Please use torch.load with "
            "map_location to map your storages to an existing device."
        )
    return location


def restore(storage: UntypedStorage, location: str) -> UntypedStorage:
    """Returns a storage, which was read to the CPU, at its location.

    Locations of devices that cograd does not have are the CPU.

    Raises:
        RuntimeError: the location is a GPU that does not exist.
    """
    if location.startswith("cuda"):
        return storage.cuda(_gpu(location))
    return storage.to(location) if location == "fake" else storage


def restorer(map_location: Any) -> Place:
    """Returns the function that moves each storage of a file.

    Args:
        map_location: None, a device, its name, a dict of locations, or a function of the storage
            and its location that returns a storage, or None for the default.

    Raises:
        LocationError: by the function, where a GPU is missing or ``map_location`` raises.
    """

    def place(storage: UntypedStorage, location: str) -> UntypedStorage:
        if map_location is None:
            return restore(storage, location)
        if isinstance(map_location, dict):
            return restore(storage, str(map_location.get(location, location)))
        if isinstance(map_location, (str, cograd.device)):
            return restore(storage, str(map_location))
        made = map_location(storage, location)
        if made is None:
            return restore(storage, location)
        return made.untyped()  # type: ignore[no-any-return]

    def safe(storage: UntypedStorage, location: str) -> UntypedStorage:
        try:
            return place(storage, location)
        except Exception as error:
            raise LocationError(error) from error

    return safe
