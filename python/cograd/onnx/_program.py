# SPDX-License-Identifier: BSD-3-Clause
"""An exported model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import cograd
from cograd.fx.node import map_aggregate

__all__ = ["ONNXProgram", "package", "tensors_in"]

_LIMIT = 2**31 - 2**20  # what one file of protocol buffers can hold


def package(name: str, purpose: str) -> Any:
    """Imports a package that is installed as an extra."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"{purpose} needs the package {name}: pip install {name}, or cograd[onnx]", name=name
        ) from error


def tensors_in(value: Any) -> list[Any]:
    """Returns the tensors in nested arguments, in order."""
    found: list[Any] = []

    def keep(leaf: Any) -> Any:
        if isinstance(leaf, cograd.Tensor):
            found.append(leaf)
        return leaf

    map_aggregate(value, keep)
    return found


class ONNXProgram:
    """Holds the model that ``export`` returns.

    Attributes:
        model_proto: the model as a message of the package onnx.
    """

    def __init__(self, model_proto: Any, by_name: Sequence[str] = ()) -> None:
        self.model_proto = model_proto
        self._by_name = by_name
        self._session: Any = None

    def save(self, destination: Any, **options: Any) -> None:
        """Writes the model to a path or a file object; tensors above 2 GiB go to a file beside."""
        onnx = package("onnx", "ONNXProgram.save()")
        if hasattr(destination, "write"):
            destination.write(self.model_proto.SerializeToString())
            return
        path = os.fspath(destination)
        if self.model_proto.ByteSize() < _LIMIT:
            onnx.save_model(self.model_proto, path)
            return
        beside = os.path.basename(path) + ".data"
        onnx.save_model(self.model_proto, path, save_as_external_data=True, location=beside)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model by onnxruntime and returns the outputs."""
        runtime = package("onnxruntime", "Running an ONNXProgram")
        if self._session is None:
            data = self.model_proto.SerializeToString()
            self._session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
        names = [value.name for value in self._session.get_inputs()]
        missing = [name for name in self._by_name if name not in kwargs]
        if missing or len(kwargs) != len(self._by_name):
            raise TypeError(
                f"ONNXProgram: got the keyword arguments {list(kwargs)}, expected {self._by_name}"
            )
        values = [*args, *(kwargs[name] for name in self._by_name)]
        given = [t.detach().numpy() for t in tensors_in(values)]
        results = self._session.run(None, dict(zip(names, given, strict=True)))
        return tuple(cograd.from_numpy(array) for array in results)

    def __repr__(self) -> str:
        graph = self.model_proto.graph
        counts = f"{len(graph.node)} nodes, {len(graph.initializer)} initializers"
        return f"ONNXProgram({counts})"
