# SPDX-License-Identifier: BSD-3-Clause
"""A training program as it is written for torch: gloo, DDP, sampler, checkpoint on rank 0.

Usage: torch_program.py CHECKPOINT BACKEND
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.last = nn.Linear(4 * 36, 10)

    def forward(self, x):
        return self.last(F.relu(self.norm(self.conv(x))).flatten(1))


def main(path, backend):
    dist.init_process_group(backend=backend)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
    model = nn.SyncBatchNorm.convert_sync_batchnorm(Net()) if world_size > 1 else Net()
    model = DDP(model.to(device), device_ids=[rank] if device.type == "cuda" else None)
    model.register_comm_hook(dist.group.WORLD, default_hooks.allreduce_hook)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-2)
    g = torch.Generator().manual_seed(1)
    images = torch.rand(64, 1, 8, 8, generator=g)
    labels = (images.mean((1, 2, 3)) * 10).long().clamp(0, 9)
    dataset = TensorDataset(images, labels)
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=16 // world_size, sampler=sampler, num_workers=0)
    start = 0
    if os.path.exists(path):
        state = torch.load(path, map_location=device)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"]
    for epoch in range(start, start + 2):
        model.train()
        sampler.set_epoch(epoch)
        total = torch.zeros(1, device=device)
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        if rank == 0:
            print(f"epoch {epoch} loss {total.item() / world_size / len(loader):.6f}", flush=True)
        optimizer.consolidate_state_dict(to=0)
        if rank == 0:
            torch.save(
                {
                    "epoch": epoch + 1,
                    "model": model.module.state_dict(),
                    "optimizer": optimizer.state_dict(),
                },
                path,
            )
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
