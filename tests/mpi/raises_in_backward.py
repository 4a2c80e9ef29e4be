# SPDX-License-Identifier: BSD-3-Clause
"""One rank raises while the others wait for its gradients."""

import sys

import cograd as torch
import cograd.distributed as dist
from cograd.nn.parallel import DistributedDataParallel


class Ill(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        if dist.get_rank() == 1:
            raise ValueError("this rank is ill")
        return g


def ill_hook(grad):
    if dist.get_rank() == 1:
        raise ValueError("this rank is ill")


dist.init_process_group("mpi")
layers = [torch.nn.Linear(9, 9) for _ in range(3)]
model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.0001)
if sys.argv[1] == "in a hook":
    layers[1].weight.register_hook(ill_hook)
x = torch.ones(2, 9, requires_grad=True)
for step in range(3):
    out = model(x)
    (out if sys.argv[1] == "in a hook" or step == 0 else Ill.apply(out)).sum().backward()
