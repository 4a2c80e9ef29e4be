# SPDX-License-Identifier: BSD-3-Clause
"""Provides datasets, samplers, and the loader that makes batches of their samples."""

from typing import TYPE_CHECKING

from cograd._base import absent as _absent
from cograd.utils.data._utils.collate import default_collate, default_convert
from cograd.utils.data._utils.worker import get_worker_info
from cograd.utils.data.dataloader import DataLoader
from cograd.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from cograd.utils.data.distributed import DistributedSampler
from cograd.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING
