# SPDX-License-Identifier: BSD-3-Clause
"""Runs a function once and records its calls as an fx graph, for jit.trace and onnx.export."""

from cograd._recording.buffers import kept_buffers
from cograd._recording.compare import check_same, check_values, rerun
from cograd._recording.recorder import Recording, record
from cograd._recording.sizes import check_sizes
from cograd._recording.values import TracerWarning, is_recording

__all__ = [
    "Recording",
    "TracerWarning",
    "check_same",
    "check_sizes",
    "check_values",
    "is_recording",
    "kept_buffers",
    "record",
    "rerun",
]
