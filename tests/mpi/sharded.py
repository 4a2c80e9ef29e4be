# SPDX-License-Identifier: BSD-3-Clause
"""Checks of ZeroRedundancyOptimizer, SyncBatchNorm and DistributedSampler."""

import copy
import sys

import checks
from data_parallel import close, data, loss_of, mine, net, raises, same_everywhere

import cograd as torch
import cograd.distributed as dist
from cograd import nn
from cograd.distributed.algorithms import Join
from cograd.distributed.optim import ZeroRedundancyOptimizer
from cograd.nn.parallel import DistributedDataParallel as DDP  # noqa: N817
from cograd.utils.data import DataLoader, DistributedSampler


def check_zero_follows_one_optimizer():
    x, y = data()
    for views in (False, True):
        for kind, options in (
            (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
            (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        ):
            model, ref = DDP(net(), gradient_as_bucket_view=views), net()
            own = ZeroRedundancyOptimizer(
                model.parameters(), kind, parameters_as_bucket_view=views, **options
            )
            whole = kind(ref.parameters(), **options)
            schedule = torch.optim.lr_scheduler.StepLR(own, 2)
            beside = torch.optim.lr_scheduler.StepLR(whole, 2)
            for _ in range(4):
                own.zero_grad()
                loss_of(model, mine(x), mine(y)).backward()
                own.step()
                whole.zero_grad()
                loss_of(ref, x, y).backward()
                whole.step()
                schedule.step()
                beside.step()
                for a, b in zip(model.parameters(), ref.parameters(), strict=True):
                    close(a, b)
            same_everywhere(model.parameters())
            assert own.param_groups[0]["lr"] == whole.param_groups[0]["lr"]
            held = sum(len(own.optim.state[p]) > 0 for p in model.parameters())
            counts = [None] * dist.get_world_size()
            dist.all_gather_object(counts, held)
            assert sum(counts) == 6 and max(counts) < 6


def check_zero_state():
    x, y = data()
    model = DDP(net())
    decay = [p for p in model.parameters() if p.dim() > 1]
    other = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": other}]
    own = ZeroRedundancyOptimizer(groups, torch.optim.AdamW, lr=0.01)
    for _ in range(2):
        own.zero_grad()
        loss_of(model, mine(x), mine(y)).backward()
        own.step()
    raises(RuntimeError, "consolidated", own.state_dict)
    own.consolidate_state_dict(to=1)
    everything = [own.state_dict() if dist.get_rank() == 1 else None]
    dist.broadcast_object_list(everything, src=1)
    state = everything[0]
    assert list(state["state"]) == list(range(6))
    assert [g["params"] for g in state["param_groups"]] == [[0, 1, 2], [3, 4, 5]]
    twin = copy.deepcopy(model.module)
    by_dim = [[p for p in twin.parameters() if (p.dim() > 1) == many] for many in (True, False)]
    plain = torch.optim.AdamW(
        [{"params": by_dim[0], "weight_decay": 0.1}, {"params": by_dim[1]}], lr=0.5
    )
    plain.load_state_dict(state)  # one rank goes on where several were
    again = ZeroRedundancyOptimizer(groups, torch.optim.AdamW, lr=0.5)
    again.load_state_dict(plain.state_dict())
    assert again.param_groups[0]["lr"] == 0.01 and again.optim.param_groups[1]["lr"] == 0.01
    again.zero_grad()
    loss_of(model, mine(x), mine(y)).backward()
    again.step()
    loss_of(twin, x, y).backward()
    plain.step()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        close(a, b)
    late = nn.Parameter(torch.ones(3))
    again.add_param_group({"params": [late], "lr": 1.0})
    late.grad = torch.ones(3)
    again.step()
    same_everywhere([late])
    assert late[0] < 0.5
    raises(
        NotImplementedError,
        "overlap",
        ZeroRedundancyOptimizer,
        model.parameters(),
        torch.optim.SGD,
        overlap_with_ddp=True,
        lr=0.1,
    )


def check_zero_joins():
    rank, world = dist.get_rank(), dist.get_world_size()
    model = DDP(nn.Linear(3, 2))
    with torch.no_grad():
        start = [p.fill_(1.0).clone() for p in model.parameters()]
    own = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.5)
    with Join([model, own]):
        for _ in range(1 + rank):
            own.zero_grad()
            model(torch.ones(1, 3)).sum().backward()
            own.step()
    same_everywhere(model.parameters())
    steps = sum((world - k) / world for k in range(world))
    for p, first in zip(model.parameters(), start, strict=True):
        close(p.detach(), first - 0.5 * steps)


def batch(dtype=torch.float64, shape=(5, 3, 4), uneven=True):
    """Returns the values of all ranks and the number of rows of each rank."""
    g = torch.Generator().manual_seed(11)
    world = dist.get_world_size()
    sizes = [shape[0] + (r if uneven else 0) for r in range(world)]
    return torch.randn(sum(sizes), *shape[1:], generator=g, dtype=dtype) * 3 + 100, sizes


def check_sync_batch_norm():
    rank = dist.get_rank()
    for dtype, shape, options in (
        (torch.float64, (5, 3, 4), {}),
        (torch.float32, (4, 3, 2, 2), {"momentum": None}),
        (torch.float64, (6, 3), {"affine": False}),
        (torch.float64, (5, 3, 4), {"track_running_stats": False}),
    ):
        x, sizes = batch(dtype, shape)
        plain = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[x.dim()]
        whole = plain(3, dtype=dtype, **options)
        if whole.affine:
            with torch.no_grad():
                whole.weight.copy_(torch.tensor([0.5, 2.0, -1.0]))
        layer = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(whole))
        assert isinstance(layer, nn.SyncBatchNorm)
        for _ in range(2):
            x = x.detach().requires_grad_()
            part = x.detach().split(sizes)[rank].clone().requires_grad_()
            weights = torch.cos(torch.arange(x.numel(), dtype=dtype)).view(x.shape)
            out, want = layer(part), whole(x)
            close(out, want.split(sizes)[rank], rtol=1e-4, atol=1e-5)
            (out * weights.split(sizes)[rank]).sum().backward()
            (want * weights).sum().backward()
            close(part.grad, x.grad.split(sizes)[rank], rtol=1e-3, atol=1e-5)
        for name, value in layer.named_buffers():
            close(value, dict(whole.named_buffers())[name], rtol=1e-5, atol=1e-6)
        for name, p in layer.named_parameters():
            dist.all_reduce(p.grad)
            close(p.grad, dict(whole.named_parameters())[name].grad, rtol=1e-4, atol=1e-4)
        if layer.track_running_stats:
            close(layer.eval()(part), whole.eval()(x).split(sizes)[rank], rtol=1e-4, atol=1e-5)


def check_sync_batch_norm_twice():
    """Second derivatives go through the sums over the ranks."""
    rank = dist.get_rank()
    x, sizes = batch(shape=(2, 3), uneven=False)
    x.requires_grad_()
    part = x.detach().split(sizes)[rank].clone().requires_grad_()
    whole = nn.BatchNorm1d(3, dtype=torch.float64)
    layer = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(whole))
    weights = torch.cos(torch.arange(x.numel(), dtype=torch.float64)).view(x.shape)
    (g,) = torch.autograd.grad(
        (layer(part) ** 3 * weights.split(sizes)[rank]).sum(), part, create_graph=True
    )
    (want,) = torch.autograd.grad((whole(x) ** 3 * weights).sum(), x, create_graph=True)
    close(g, want.split(sizes)[rank])
    (gg,) = torch.autograd.grad((g**2).sum(), part)
    (wanted,) = torch.autograd.grad((want**2).sum(), x)
    close(gg, wanted.split(sizes)[rank], rtol=1e-6, atol=1e-8)


def check_sync_batch_norm_edges():
    rank = dist.get_rank()
    layer = nn.SyncBatchNorm(3)
    part = torch.randn(4 if rank == 0 else 0, 3, requires_grad=True)  # ranks without rows
    layer(part).sum().backward()
    same_everywhere([layer.running_mean, layer.running_var])
    assert part.grad.shape == part.shape
    low = nn.SyncBatchNorm(3)
    out = low(torch.randn(4, 3, dtype=torch.bfloat16, requires_grad=True))
    assert out.dtype == torch.bfloat16
    out.sum().backward()
    raises(ValueError, "more than 1 value", layer, torch.ones(0, 3))
    alone = nn.SyncBatchNorm(2, process_group=dist.new_subgroups(1)[0])
    y = torch.randn(4, 2)
    close(alone(y), nn.BatchNorm1d(2)(y))
    plain = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 1)
    )
    model = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(plain))
    for _ in range(3):
        model.zero_grad()
        model(torch.randn(3, 1, 4, 4)).sum().backward()
        same_everywhere([p.grad for p in model.parameters()])


def check_sampler():
    dataset = list(range(23))
    sampler = DistributedSampler(dataset, seed=4)
    assert (sampler.rank, sampler.num_replicas) == (dist.get_rank(), dist.get_world_size())
    loader = DataLoader(dataset, 4, sampler=sampler, num_workers=1, persistent_workers=True)
    epochs = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        own = torch.cat(list(loader))
        found = [None] * dist.get_world_size()
        dist.all_gather_object(found, own.tolist())
        assert {i for part in found for i in part} == set(dataset)
        assert len({len(part) for part in found}) == 1
        epochs.append(own.tolist())
    assert epochs[0] != epochs[1]


if __name__ == "__main__":
    checks.run(globals(), sys.argv[1:])
