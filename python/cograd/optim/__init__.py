# SPDX-License-Identifier: BSD-3-Clause
"""Optimizers and learning-rate schedules with torch.optim's names and numbers."""

from __future__ import annotations

from . import lr_scheduler
from .adam import Adam, AdamW
from .adaptive import Adagrad, RMSprop
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
