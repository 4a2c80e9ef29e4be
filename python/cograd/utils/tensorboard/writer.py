# SPDX-License-Identifier: BSD-3-Clause
"""SummaryWriter: event files for TensorBoard, with torch's methods.

The package tensorboard is an extra, ``pip install cograd[tensorboard]``; TensorFlow is not needed.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

import cograd
from cograd import Tensor
from cograd.utils.tensorboard import _events, _media, _projector

__all__ = ["FileWriter", "SummaryWriter"]


def _plain(value: Any) -> Any:
    """Converts a tensor, or a nested list of them, to a NumPy array."""
    if isinstance(value, Tensor):
        value = value.detach().resolve_conj().resolve_neg()
        if value.dtype == cograd.bfloat16:
            value = value.float()
        return value.numpy()
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
        return np.stack([_plain(v) for v in value])
    return np.asarray(value)


def _one(method: str, tag: str, value: Any) -> float:
    """Returns a number, also from a tensor or an array of one element."""
    array = _plain(value)
    if array.size != 1 or array.dtype.kind not in "fiub":
        raise TypeError(
            f"SummaryWriter.{method}(): {tag!r} must be a number or a tensor of one element, got "
            f"{array.dtype} of shape {list(array.shape)}"
        )
    return float(array.reshape(()))


def _step(value: Any) -> int:
    """Returns the number of a step."""
    try:
        return int(value)
    except (TypeError, ValueError):
        raise TypeError(f"SummaryWriter: global_step must be a number, got {value!r}") from None


def _mapping(method: str, name: str, value: Any) -> Mapping[str, Any]:
    """Returns the argument if it is a dict, or the like."""
    if not isinstance(value, Mapping):
        raise TypeError(
            f"SummaryWriter.{method}(): {name} must be a dict, got {type(value).__name__}"
        )
    return value


class FileWriter:
    """Writes messages to one event file, on a thread of the package tensorboard.

    Args:
        log_dir: the directory of the file.
        max_queue: how many messages may wait for the disk.
        flush_secs: after how many seconds they are written.
        filename_suffix: the end of the file's name.

    Raises:
        ImportError: the package tensorboard is not installed.
    """

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise ImportError(
                "utils.tensorboard needs the package tensorboard, which is not installed: "
                "pip install 'cograd[tensorboard]'"
            ) from error
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """Returns the directory of the file."""
        return str(self.event_writer.get_logdir())

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Writes an ``Event`` message."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = _step(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Writes a ``Summary`` message."""
        from tensorboard.compat.proto.event_pb2 import Event

        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Writes what waits to the disk."""
        self.event_writer.flush()

    def close(self) -> None:
        """Writes what waits and closes the file."""
        self.event_writer.close()


class SummaryWriter:
    """Writes scalars, histograms, pictures and more, which TensorBoard shows.

    The methods may be called from several threads. Tensors among the arguments may require grad.

    Args:
        log_dir: the directory; default: ``runs/`` with the time and the host's name.
        comment: the end of the default ``log_dir``.
        purge_step: TensorBoard forgets what an earlier run wrote from this step on.
        max_queue, flush_secs, filename_suffix: as for FileWriter.

    Raises:
        ImportError: the package tensorboard is not installed.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self.purge_step = purge_step
        self._options = (max_queue, flush_secs, filename_suffix)
        self._lock = threading.RLock()
        self._writers: dict[str, FileWriter] = {}
        self._charts: dict[str, dict[str, Sequence[Any]]] = {}
        self._get_file_writer()

    def _get_file_writer(self, folder: str | None = None) -> FileWriter:
        """Returns the writer of a directory, opened now or earlier; again after close()."""
        where = self.log_dir if folder is None else folder
        with self._lock:
            writer = self._writers.get(where)
            if writer is None:
                writer = self._writers[where] = FileWriter(where, *self._options)
                if folder is None and self.purge_step is not None:
                    self._purge(writer, self.purge_step)
                    self.purge_step = None
            return writer

    @staticmethod
    def _purge(writer: FileWriter, step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        writer.add_event(Event(step=step, file_version="brain.Event:2"))
        writer.add_event(Event(step=step, session_log=SessionLog(status=SessionLog.START)))

    @property
    def file_writer(self) -> FileWriter:
        """The writer of ``log_dir``."""
        return self._get_file_writer()

    def get_logdir(self) -> str:
        """Returns the directory of the files."""
        return self.log_dir

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Writes hyperparameters and what they led to, in a directory of their own."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        values = {k: v.item() if hasattr(v, "item") else v for k, v in hparam_dict.items()}
        messages = _events.hparams(values, metric_dict, hparam_domain_discrete)
        numbers = {k: _one("add_hparams", k, v) for k, v in metric_dict.items()}
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        writer = FileWriter(folder, *self._options)
        try:
            for message in messages:
                writer.add_summary(message, global_step)
            for name, value in numbers.items():
                writer.add_summary(_events.number(name, value, False, False), global_step)
        finally:
            writer.close()

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Writes a number."""
        value = _one("add_scalar", tag, scalar_value)
        summary = _events.number(tag, value, new_style, double_precision)
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Writes several numbers that one chart shows, each in a directory of its own."""
        walltime = time.time() if walltime is None else walltime
        numbers = _mapping("add_scalars", "tag_scalar_dict", tag_scalar_dict)
        values = {k: _one("add_scalars", k, v) for k, v in numbers.items()}
        for name, value in values.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{name}")
            summary = _events.number(main_tag, value, False, False)
            self._get_file_writer(folder).add_summary(summary, global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Writes a tensor's values."""
        self._add(_events.tensor(tag, _plain(tensor)), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Writes how values are distributed; leaves out nan and infinities, with a warning.

        Args:
            tag, values, global_step, walltime: what to write.
            bins: "tensorflow", or the argument ``bins`` of ``numpy.histogram``.
            max_bins: joins neighbouring bins if there are more.
        """
        self._add(_events.histogram(tag, _plain(values), bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: Any,
        max: Any,
        num: Any,
        sum: Any,
        sum_squares: Any,
        bucket_limits: Sequence[float],
        bucket_counts: Sequence[float],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Writes a histogram that was counted elsewhere."""
        limits, counts = _plain(bucket_limits).tolist(), _plain(bucket_counts).tolist()
        if len(limits) != len(counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        low, high, n, total, squares = (
            _one("add_histogram_raw", tag, v) for v in (min, max, num, sum, sum_squares)
        )
        histo = _events.raw_histogram(tag, low, high, n, total, squares, limits, counts)
        self._add(histo, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Writes a picture: uint8, or floats from 0 to 1."""
        self._picture("add_image", tag, img_tensor, global_step, walltime, dataformats)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Writes the pictures of a batch, side by side."""
        self._picture("add_images", tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Sequence[str] | str | None = None,
    ) -> None:
        """Writes a picture with boxes ``[x1, y1, x2, y2]``; needs pillow."""
        boxes = _plain(box_tensor)
        if boxes.ndim != 2 or boxes.shape[1] != 4:
            raise ValueError(
                f"add_image_with_boxes(): box_tensor must have shape [n, 4], got {boxes.shape}"
            )
        names = [labels] if isinstance(labels, str) else labels
        if names is not None and len(names) != len(boxes):
            names = None  # as in torch
        where = "SummaryWriter.add_image_with_boxes()"
        pixels = _media.as_pixels(where, _media.as_rows(where, _plain(img_tensor), dataformats))
        self._pixels(tag, _media.draw_boxes(pixels, boxes, names, rescale), global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Writes a figure of matplotlib, or a list of them side by side."""
        if isinstance(figure, list):
            batch = np.stack([_media.figure_pixels(f, close) for f in figure])
            self.add_images(tag, batch, global_step, walltime, dataformats="NHWC")
        else:
            self._pixels(tag, _media.figure_pixels(figure, close), global_step, walltime)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: Any = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Writes films ``[n, time, channels, height, width]``, side by side; needs pillow."""
        films = _plain(vid_tensor)
        if films.ndim != 5 or 0 in films.shape:
            raise ValueError(
                "SummaryWriter.add_video(): expected a tensor [n, time, channels, height, width] "
                f"that is not empty, got {list(films.shape)}"
            )
        where = "SummaryWriter.add_video()"
        frames = [
            _media.as_pixels(where, _media.as_rows(where, films[:, t], "NCHW"))[..., :3]
            for t in range(films.shape[1])
        ]
        height, width, channels = frames[0].shape
        data = _media.gif(frames, fps)
        self._add(_events.picture(tag, height, width, channels, data), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Writes a sound of one channel: samples from -1 to 1."""
        samples = _plain(snd_tensor).reshape(-1)
        data = _media.wav(samples, sample_rate)
        self._add(_events.sound(tag, sample_rate, samples.size, data), global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Writes text, which is shown as Markdown."""
        self._add(_events.text(tag, str(text_string)), global_step, walltime)

    def add_onnx_graph(self, prototxt: Any) -> None:
        """Raises, because cograd does not read ONNX files."""
        raise NotImplementedError("SummaryWriter.add_onnx_graph(): cograd does not read ONNX files")

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """Writes nothing and warns: graphs have a page of their own, ``autograd.graph.draw``."""
        warnings.warn(
            "SummaryWriter.add_graph(): nothing is written; autograd.graph.draw(model(x), "
            "'graph.html') writes the graph as a page, onnx.export and jit.trace write the model",
            stacklevel=2,
        )

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Writes vectors ``[n, length]`` for the projector, with labels and pictures.

        Args:
            mat: the vectors.
            metadata: a label of each vector; with ``metadata_header``, a list of labels of each.
            label_img: a square picture of each vector, ``[n, channels, size, size]``.
            global_step, tag: which embedding it is.
            metadata_header: the names of the labels' columns.
        """
        pictures = None if label_img is None else _plain(label_img)
        with self._lock:
            _projector.write(
                self.log_dir, _plain(mat), metadata, pictures, global_step, tag, metadata_header
            )

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Writes a precision-recall curve of labels (0 or 1) and predictions from 0 to 1."""
        weight = None if weights is None else _plain(weights).reshape(-1)
        rows = _events.count_curve(_plain(labels), _plain(predictions), num_thresholds, weight)
        self._add(_events.curve(tag, num_thresholds, *rows), global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Writes a precision-recall curve that was counted elsewhere."""
        counts = (true_positive_counts, false_positive_counts, true_negative_counts)
        rows = map(_plain, (*counts, false_negative_counts, precision, recall))
        self._add(_events.curve(tag, num_thresholds, *rows), global_step, walltime)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Shows several scalars in one chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Shows three scalars as a line between two limits."""
        if len(tags) != 3:
            raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Writes which scalars the charts of the tab "custom scalars" show."""
        _mapping("add_custom_scalars", "layout", layout)
        self._add(_events.layout(layout), None, None)

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Mapping[str, Any] | None = None,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Writes a mesh or a point cloud: vertices ``[batch, n, 3]``, with colors and faces."""
        arrays = [None if a is None else _plain(a) for a in (vertices, colors, faces)]
        for name, array in zip(("vertices", "colors", "faces"), arrays):
            if array is not None and (array.ndim != 3 or array.shape[-1] != 3):
                raise ValueError(
                    f"SummaryWriter.add_mesh(): {name} must have shape [batch, n, 3], got "
                    f"{list(array.shape)}"
                )
        for summary in _events.mesh(tag, arrays[0], arrays[1], arrays[2], config_dict):
            self._add(summary, global_step, walltime)

    def flush(self) -> None:
        """Writes what waits to the disk."""
        with self._lock:
            for writer in self._writers.values():
                writer.flush()

    def close(self) -> None:
        """Writes what waits and closes the files; a later ``add_`` opens new ones."""
        with self._lock:
            writers, self._writers = self._writers, {}
        for writer in writers.values():
            writer.flush()
            writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _add(self, summary: Any, step: Any, walltime: float | None) -> None:
        self._get_file_writer().add_summary(summary, step, walltime)

    def _picture(
        self, method: str, tag: str, picture: Any, step: Any, walltime: Any, formats: str
    ) -> None:
        where = f"SummaryWriter.{method}()"
        rows = _media.as_rows(where, _plain(picture), formats)
        self._pixels(tag, _media.as_pixels(where, rows), step, walltime)

    def _pixels(self, tag: str, pixels: Any, step: Any, walltime: Any) -> None:
        height, width, channels = pixels.shape
        data = _media.png(pixels)
        self._add(_events.picture(tag, height, width, channels, data), step, walltime)
