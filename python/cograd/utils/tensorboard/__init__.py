# SPDX-License-Identifier: BSD-3-Clause
"""SummaryWriter: event files for TensorBoard, written by the package tensorboard alone."""

from cograd.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
