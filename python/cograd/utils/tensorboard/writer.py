# SPDX-License-Identifier: BSD-3-Clause
"""SummaryWriter: event files for TensorBoard, written by tensorboardX.

tensorboardX is an extra, ``pip install cograd[tensorboard]``: it writes the files without torch.
"""

from __future__ import annotations

import warnings
from typing import Any

import cograd
from cograd import Tensor

__all__ = ["SummaryWriter"]


def _plain(value: Any) -> Any:
    """Converts tensors in a value to NumPy arrays, as the writer requires."""
    if isinstance(value, Tensor):
        value = value.detach()
        if value.dtype == cograd.bfloat16:
            value = value.float()
        return value.numpy()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_plain(item) for item in value])
    return value


def _writer_class() -> Any:
    try:
        from tensorboardX import SummaryWriter as Writer
    except ImportError as error:
        raise ImportError(
            "utils.tensorboard needs tensorboardX, which is not installed: "
            "pip install 'cograd[tensorboard]'. It writes the files that tensorboard shows; "
            "tensorboard alone writes scalars only"
        ) from error
    return Writer


class SummaryWriter:
    """Writes scalars, histograms, images and text as events.

    Args:
        log_dir: the directory; default: ``runs/`` and the time.
        comment, purge_step, max_queue, flush_secs, filename_suffix: as in tensorboardX.

    Has every ``add_*`` method of tensorboardX's writer; tensors among the arguments are converted
    to arrays.

    Raises:
        ImportError: tensorboardX is not installed.
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
        folder = None if log_dir is None else str(log_dir)
        self._writer = _writer_class()(
            folder, comment, purge_step, max_queue, flush_secs, filename_suffix
        )

    @property
    def log_dir(self) -> str:
        """The directory of the files."""
        return str(self._writer.logdir)

    def get_logdir(self) -> str:
        """Returns the directory of the files."""
        return self.log_dir

    def add_graph(self, model: Any, *args: Any, **kwargs: Any) -> None:
        """Writes nothing and warns, because cograd does not trace."""
        warnings.warn(
            "SummaryWriter.add_graph(): nothing is written, there is no tracing; "
            "autograd.graph.draw shows the graph",
            stacklevel=2,
        )

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.__dict__["_writer"], name)
        if not name.startswith("add_"):
            return value

        def add(*args: Any, **kwargs: Any) -> Any:
            return value(*map(_plain, args), **_plain(kwargs))

        return add

    def flush(self) -> None:
        """Writes queued events."""
        self._writer.flush()

    def close(self) -> None:
        """Writes queued events and closes the files."""
        self._writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
