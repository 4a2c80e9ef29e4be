# SPDX-License-Identifier: BSD-3-Clause
"""The files that TensorBoard's projector reads: vectors, labels, pictures, and a list of them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from cograd.utils.tensorboard import _media

__all__ = ["write"]


def write(
    log_dir: str,
    vectors: Any,
    metadata: Sequence[Any] | None,
    pictures: Any,
    global_step: Any,
    tag: str,
    metadata_header: Sequence[str] | None,
) -> None:
    """Writes the files of one embedding; raises before the first of them."""
    if vectors.ndim != 2:
        raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
    labels = None if metadata is None else _labels(metadata, metadata_header, len(vectors))
    sprite = None if pictures is None else _sprite(pictures, len(vectors))
    # The projector's directories, and a file that lists all of them.
    step = str(0 if global_step is None else global_step).zfill(5)
    parts = re.sub(r"[^\w./-]", "_", f"{step}/{tag}").split("/")
    parts = [part for part in parts if part.strip(".")]  # none leaves the directory
    place, folder = "/".join(parts), os.path.join(log_dir, *parts)
    os.makedirs(folder, exist_ok=True)
    text = "".join("\t".join(f"{x:.9g}" for x in row) + "\n" for row in vectors.tolist())
    entry = [f"tensor_name: {_quoted(f'{tag}:{step}')}"]
    entry.append(f"tensor_path: {_quoted(f'{place}/tensors.tsv')}")
    _write(os.path.join(folder, "tensors.tsv"), text.encode())
    if labels is not None:
        _write(os.path.join(folder, "metadata.tsv"), labels.encode())
        entry.append(f"metadata_path: {_quoted(f'{place}/metadata.tsv')}")
    if sprite is not None:
        data, size = sprite
        _write(os.path.join(folder, "sprite.png"), data)
        entry.append(
            f"sprite {{\n    image_path: {_quoted(f'{place}/sprite.png')}\n"
            f"    single_image_dim: {size}\n    single_image_dim: {size}\n  }}"
        )
    lines = "\n  ".join(entry)
    with open(os.path.join(log_dir, "projector_config.pbtxt"), "a", encoding="utf-8") as f:
        f.write(f"embeddings {{\n  {lines}\n}}\n")


def _quoted(text: str) -> str:
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as f:
        f.write(data)


def _labels(metadata: Sequence[Any], header: Sequence[str] | None, n: int) -> str:
    if len(metadata) != n:
        raise AssertionError("#labels should equal with #data points")

    def cell(value: Any) -> str:
        return re.sub(r"[\t\r\n]", " ", str(value))

    if not header:
        return "".join(f"{cell(label)}\n" for label in metadata)
    for row in metadata:
        if isinstance(row, str) or len(row) != len(header):
            raise AssertionError("len of header must be equal to the number of columns in metadata")
    return "".join("\t".join(map(cell, row)) + "\n" for row in [header, *metadata])


def _sprite(pictures: Any, n: int) -> tuple[bytes, int]:
    """Places square pictures [n, channels, size, size] in a square grid."""
    if len(pictures) != n:
        raise AssertionError("#images should equal with #data points")
    if pictures.ndim != 4 or pictures.shape[2] != pictures.shape[3]:
        raise AssertionError("Image should be square, see tensorflow/tensorboard#670")
    where = "SummaryWriter.add_embedding()"
    side = int(np.ceil(np.sqrt(n)))
    full = np.zeros((side * side, *pictures.shape[1:]), pictures.dtype)
    full[:n] = pictures
    rows = _media.as_pixels(where, _media.as_rows(where, full, "NCHW"))
    return _media.png(rows), int(pictures.shape[2])
