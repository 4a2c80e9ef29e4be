# SPDX-License-Identifier: BSD-3-Clause
"""Measures data loading per epoch, and random numbers from torch's streams."""

from __future__ import annotations

import warnings
from typing import Any

from .case import bench, group

group("data", "Loading data, items; random numbers of torch's streams")

ITEMS = 64 * 200


def loader_of(torch: Any, dataset: Any, workers: int) -> Any:
    """Creates a loader whose workers have started."""
    warnings.simplefilter("ignore")
    loader = torch.utils.data.DataLoader(
        dataset, 64, shuffle=True, num_workers=workers, persistent_workers=workers > 0
    )
    for _ in loader:
        pass
    return loader


@bench("data", per=ITEMS, target=3)
def tensor_dataset(torch):
    """Loads batches of 64 images, 28 x 28, and labels in the process itself."""
    images, labels = torch.rand(ITEMS, 784), torch.randint(0, 10, (ITEMS,))
    loader = loader_of(torch, torch.utils.data.TensorDataset(images, labels), 0)
    return "for batch in loader: pass", vars()


@bench("data", per=ITEMS, target=1.2)
def tensor_dataset_2_workers(torch):
    """Loads the same by two persistent workers."""
    images, labels = torch.rand(ITEMS, 784), torch.randint(0, 10, (ITEMS,))
    loader = loader_of(torch, torch.utils.data.TensorDataset(images, labels), 2)
    return "for batch in loader: pass", vars()


@bench("data", per=ITEMS, workers=(0, 2))
def samples_in_python(torch, workers):
    """Loads a dataset that overrides __getitem__; its samples are stacked."""

    class Samples(torch.utils.data.Dataset):
        def __init__(self):
            self.images = torch.rand(ITEMS, 784)

        def __len__(self):
            return ITEMS

        def __getitem__(self, index):
            return self.images[index] * 2, index

    loader = loader_of(torch, Samples(), workers)
    return "for batch in loader: pass", vars()


@bench("data")
def queue_of_tensors(torch):
    """Sends a tensor through a pipe to the process itself, by shared memory."""
    import importlib

    processes = importlib.import_module(f"{torch.__name__}.multiprocessing")
    a, b = processes.Pipe()
    x = torch.rand(1000)
    x.share_memory_()
    return "a.send(x); b.recv()", vars()


@bench("data", draw=("rand", "randn", "randperm", "bernoulli_"))
def torch_stream(torch, draw):
    """Draws 10^6 numbers from MT19937."""
    choose = getattr(torch, "set_rng", None)
    if choose is not None:
        choose("torch")
    g = torch.Generator().manual_seed(0)
    if choose is not None:
        choose("philox")
    n = 1_000_000
    x = torch.empty(n)
    if draw == "bernoulli_":
        return "x.bernoulli_(0.3, generator=g)", vars()
    function = getattr(torch, draw)
    return "function(n, generator=g)", vars()
