# SPDX-License-Identifier: BSD-3-Clause
"""Pictures, films and sounds as bytes. PNG and WAV need no further package."""

from __future__ import annotations

import io
import math
import struct
import wave
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["as_pixels", "as_rows", "draw_boxes", "figure_pixels", "gif", "png", "wav"]


def as_pixels(what: str, picture: Any) -> Any:
    """Returns uint8 numbers: floats are multiplied by 255, all are clipped; nan becomes 0."""
    if picture.dtype == np.uint8:
        return picture
    if picture.dtype.kind not in "fbiu":
        raise TypeError(f"{what}: a picture of dtype {picture.dtype}, expected floats or integers")
    scale = 255.0 if picture.dtype.kind in "fb" else 1.0
    return np.clip(np.nan_to_num(picture * scale), 0, 255).astype(np.uint8)


def as_rows(what: str, picture: Any, formats: str) -> Any:
    """Returns an array [height, width, 3 or 4]: one channel is repeated, a batch becomes a grid."""
    letters = formats.upper()
    if sorted(letters) not in (sorted("HW"), sorted("CHW"), sorted("NCHW")):
        raise ValueError(
            f"{what}: dataformats must be a permutation of HW, CHW or NCHW, got {formats!r}"
        )
    if picture.ndim != len(letters):
        raise ValueError(
            f"{what}: dataformats {formats!r} has {len(letters)} dims, the picture of shape "
            f"{list(picture.shape)} has {picture.ndim}"
        )
    order = [letters.index(c) for c in "NHWC" if c in letters]
    rows = picture.transpose(order)
    if "C" not in letters:
        rows = rows[..., None]
    if "N" in letters:
        rows = _grid(rows)
    if 0 in rows.shape:
        raise ValueError(f"{what}: the picture of shape {list(picture.shape)} has no pixels")
    if rows.shape[-1] == 1:
        rows = np.repeat(rows, 3, axis=-1)
    if rows.shape[-1] not in (3, 4):
        raise ValueError(f"{what}: expected 1, 3 or 4 channels, got {rows.shape[-1]}")
    return rows


def _grid(batch: Any) -> Any:
    """Places the pictures of a batch [n, height, width, channels] in rows."""
    n, height, width, channels = batch.shape
    columns = max(1, math.ceil(math.sqrt(n)))
    lines = math.ceil(n / columns)
    grid = np.zeros((lines * height, columns * width, channels), batch.dtype)
    for k in range(n):
        y, x = divmod(k, columns)
        grid[y * height : (y + 1) * height, x * width : (x + 1) * width] = batch[k]
    return grid


def png(pixels: Any) -> bytes:
    """Returns uint8 pixels [height, width, 3 or 4] as a file."""
    height, width, channels = pixels.shape
    lines = pixels.reshape(height, width * channels)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), lines], axis=1).tobytes()  # no filter

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 6, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _pillow(what: str) -> Any:
    try:
        import PIL.Image
        import PIL.ImageDraw
    except ImportError as error:
        raise ImportError(f"{what} needs pillow, which is not installed: pip install pillow") from (
            error
        )
    return PIL


def draw_boxes(pixels: Any, boxes: Any, labels: Sequence[str] | None, scale: float) -> Any:
    """Resizes, then draws red boxes [x1, y1, x2, y2] with labels."""
    pillow = _pillow("SummaryWriter.add_image_with_boxes()")
    picture = pillow.Image.fromarray(pixels).convert("RGB")
    size = (max(1, int(picture.width * scale)), max(1, int(picture.height * scale)))
    picture = picture.resize(size)
    pen = pillow.ImageDraw.Draw(picture)
    for k, (x1, y1, x2, y2) in enumerate((boxes * scale).tolist()):
        pen.rectangle((min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)), outline="red", width=2)
        if labels is not None:
            pen.text((x1 + 3, y1 + 3), str(labels[k]), fill="red")
    return np.asarray(picture)


def gif(frames: Any, rate: float) -> bytes:
    """Returns uint8 frames [time, height, width, 3] as an animated file."""
    pillow = _pillow("SummaryWriter.add_video()")
    pictures = [pillow.Image.fromarray(f) for f in frames]
    out = io.BytesIO()
    pictures[0].save(
        out,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=round(1000 / rate),
        loop=0,
    )
    return out.getvalue()


def wav(sound: Any, rate: int) -> bytes:
    """Returns samples from -1 to 1 as a file with 16 bits a sample."""
    samples = np.clip(np.nan_to_num(sound), -1, 1) * 32767.0
    out = io.BytesIO()
    with wave.open(out, "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(rate)
        f.writeframes(samples.astype("<i2").tobytes())
    return out.getvalue()


def figure_pixels(figure: Any, close: bool) -> Any:
    """Returns what a figure of matplotlib shows, [height, width, 3]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if not hasattr(figure, "set_canvas"):
        raise TypeError(
            "SummaryWriter.add_figure(): figure must be a matplotlib Figure or a list of them, got "
            f"{type(figure).__name__}"
        )
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.array(canvas.buffer_rgba())[..., :3]
    if close:
        from matplotlib import pyplot

        pyplot.close(figure)
    return pixels
