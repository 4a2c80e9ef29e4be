# SPDX-License-Identifier: BSD-3-Clause
"""SummaryWriter: event files for TensorBoard, written by tensorboardX."""

from cograd.utils.tensorboard.writer import SummaryWriter

__all__ = ["SummaryWriter"]
