# SPDX-License-Identifier: BSD-3-Clause
"""Checks of DistributedDataParallel."""

import copy
import pickle
import sys
import warnings
import weakref

import checks

import cograd as torch
import cograd.distributed as dist
from cograd import nn
from cograd.distributed.algorithms import Join, ddp_comm_hooks
from cograd.nn.parallel import DistributedDataParallel as DDP  # noqa: N817
from cograd.nn.parallel import _buckets
from cograd.utils.checkpoint import checkpoint

close = torch.testing.assert_close


def raises(kind, text, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        assert text in str(error), (text, str(error))
        return str(error)
    raise AssertionError(f"{kind.__name__} was not raised")


def net(hidden=300):
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, hidden), nn.Tanh(), nn.Linear(hidden, 3)
    )


def data(n=8, seed=5):
    g = torch.Generator().manual_seed(seed)
    n *= dist.get_world_size()
    return torch.randn(n, 5, generator=g), torch.randn(n, 3, generator=g)


def mine(x):
    return x[dist.get_rank() :: dist.get_world_size()]


def loss_of(model, x, y):
    return (model(x) - y).pow(2).mean()


def same_everywhere(tensors):
    flat = torch.cat([t.detach().reshape(-1) for t in tensors])
    parts = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, flat)
    assert all(torch.equal(part, flat) for part in parts)


def follows_one_rank(model, make=net, steps=3, zero=True):
    """Compares training with that of a copy on one rank, which gets the whole batch."""
    ref = make()
    x, y = data()
    own = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    whole = torch.optim.SGD(ref.parameters(), 0.1, momentum=0.9)
    for step in range(steps):
        own.zero_grad(set_to_none=zero and step != 1)
        loss_of(model, mine(x), mine(y)).backward()
        whole.zero_grad()
        loss_of(ref, x, y).backward()
        for a, b in zip(model.module.parameters(), ref.parameters(), strict=True):
            close(a.grad, b.grad)
            assert a.grad is not None
        own.step()
        whole.step()
        for a, b in zip(model.module.parameters(), ref.parameters(), strict=True):
            close(a, b)
    same_everywhere(model.parameters())


def check_options():
    for options in (
        {},
        {"gradient_as_bucket_view": True},
        {"find_unused_parameters": True},
        {"static_graph": True},
        {"gradient_as_bucket_view": True, "find_unused_parameters": True},
        {"gradient_as_bucket_view": True, "static_graph": True},
        {"bucket_cap_mb": 0.0001},
        {"bucket_cap_mb_list": [1, 2]},
        {"process_group": dist.new_group()},
    ):
        model = DDP(net(), **options)
        follows_one_rank(model)
        if options.get("gradient_as_bucket_view"):
            buffers = {b.buffer.untyped_storage().data_ptr() for b in model.reducer.buckets}
            grads = {p.grad.untyped_storage().data_ptr() for p in model.parameters()}
            assert grads <= buffers
    logged = DDP(net(), bucket_cap_mb=0.0001)
    follows_one_rank(logged, steps=2)
    found = logged._get_ddp_logging_data()
    assert found["has_rebuilt_buckets"] and found["iteration"] == 2
    order = [i for bucket in logged.reducer.buckets for i in bucket.members]
    assert sorted(order) == list(range(6)) and order[0] in (4, 5) and order[-1] in (0, 1)


def check_gradients_alone():
    """Large gradients are sent without a bucket; here, those of more than 100 bytes."""
    kept, _buckets.ALONE = _buckets.ALONE, 100
    try:
        for options in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True}):
            model = DDP(net(), **options)
            follows_one_rank(model)
            assert [b.alone for b in model.reducer.buckets].count(True) == 4
        for check in (
            check_accumulation, check_backward_twice, check_unused, check_odd_parameters,
            check_join, check_identical,
        ):  # fmt: skip
            check()
        model = DDP(net())
        model.register_comm_hook(None, ddp_comm_hooks.default_hooks.bf16_compress_hook)
        loss_of(model, *map(mine, data())).backward()
        same_everywhere([p.grad for p in model.parameters()])
        assert all(b.buffer is None for b in model.reducer.buckets if b.alone)
    finally:
        _buckets.ALONE = kept


def check_construction():
    rank = dist.get_rank()
    torch.manual_seed(rank)
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    module[1].running_mean.fill_(rank)
    model = DDP(module)
    same_everywhere([*model.parameters(), module[1].running_mean])
    assert module[1].running_mean[0] == 0
    kept = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    kept[1].running_mean.fill_(rank)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        DDP(kept, broadcast_buffers=False)
    assert kept[1].running_mean[0] == rank
    assert list(model.state_dict()) == ["module." + k for k in module.state_dict()]
    raises(RuntimeError, "already", DDP, model)
    raises(RuntimeError, "part 'a'", DDP, nn.ModuleDict({"a": model}))
    raises(RuntimeError, "not needed", DDP, nn.Sequential(nn.ReLU()))
    raises(RuntimeError, "uninitialized", DDP, nn.LazyLinear(3))
    raises(ValueError, "device_ids", DDP, nn.Linear(1, 1), device_ids=[0])
    raises(RuntimeError, "same model across all ranks", DDP, nn.Linear(1 + rank, 1))
    raises(
        RuntimeError,
        "params",
        DDP,
        nn.Sequential(*[nn.Linear(1, 1)] if rank else [nn.Linear(1, 1, bias=False)]),
    )
    part = nn.ModuleDict({"own": nn.Linear(2, 2, bias=False), "all": nn.Linear(2, 2, bias=False)})
    part.forward = lambda x: part["own"](x) + part["all"](x)
    DDP._set_params_and_buffers_to_ignore_for_model(part, ["own.weight"])
    partly = DDP(part)
    partly._set_static_graph()
    partly(torch.full((1, 2), 1.0 + rank)).sum().backward()
    same_everywhere([part["all"].weight, part["all"].weight.grad])
    assert part["own"].weight.grad[0, 0] == 1 + rank
    reducer = weakref.ref(DDP(nn.Linear(3, 2)).reducer)
    assert reducer() is None  # and its hooks with it
    again = pickle.loads(pickle.dumps(model))
    x = torch.randn(4, 3)
    again(x).sum().backward()
    same_everywhere([p.grad for p in again.parameters()])
    twin = copy.deepcopy(module)
    prefixed = model.state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(prefixed, "module.")
    twin.load_state_dict(prefixed)


def check_accumulation():
    x, y = data()
    half = len(mine(x)) // 2
    for views in (False, True):
        model, ref = DDP(net(), gradient_as_bucket_view=views), net()
        for _ in range(2):
            for p in [*model.parameters(), *ref.parameters()]:
                p.grad = None
            with model.no_sync():
                loss_of(model, mine(x)[:half], mine(y)[:half]).backward()
            local = model.module[0].weight.grad.clone()
            loss_of(model, mine(x)[half:], mine(y)[half:]).backward()
            (2 * loss_of(ref, x, y)).backward()
            for a, b in zip(model.parameters(), ref.parameters(), strict=True):
                close(a.grad, b.grad)
            assert not torch.equal(local, model.module[0].weight.grad)
        loss_of(model, mine(x), mine(y)).backward()  # adds to averages
        loss_of(ref, x, y).backward()
        for a, b in zip(model.parameters(), ref.parameters(), strict=True):
            close(a.grad, b.grad)


def check_backward_twice():
    x, y = data()
    for views in (False, True):
        model, ref = DDP(net(), gradient_as_bucket_view=views), net()
        for _ in range(2):
            mean, whole = loss_of(model, mine(x), mine(y)), loss_of(ref, x, y)
            for again in (True, False):
                mean.backward(retain_graph=again)
                whole.backward(retain_graph=again)
            for a, b in zip(model.parameters(), ref.parameters(), strict=True):
                close(a.grad, b.grad)
        # two forwards, one backward
        for p in [*model.parameters(), *ref.parameters()]:
            p.grad = None
        (
            loss_of(model, mine(x), mine(y)) + loss_of(model, mine(y) @ torch.ones(3, 5), mine(y))
        ).backward()
        (loss_of(ref, x, y) + loss_of(ref, y @ torch.ones(3, 5), y)).backward()
        for a, b in zip(model.parameters(), ref.parameters(), strict=True):
            close(a.grad, b.grad, rtol=1e-4, atol=1e-5)
        model.module(x).sum().backward()  # past the wrapper nothing is sent
        ref(x).sum().backward()
        close(model.module[4].bias.grad, ref[4].bias.grad)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, use=(True, True)):
        y = self.c(x)
        for layer, wanted in zip((self.a, self.b), use, strict=True):
            y = y + layer(x) if wanted else y
        return {"y": [y]}


def check_unused():
    rank, x = dist.get_rank(), torch.ones(2, 4)
    for views in (False, True):
        model = DDP(Branches(), find_unused_parameters=True, gradient_as_bucket_view=views)
        for _ in range(2):
            model.zero_grad()
            model(x, (rank == 0, False))["y"][0].sum().backward()
            close(model.module.a.weight.grad, torch.full((4, 4), 2.0 / dist.get_world_size()))
            close(model.module.c.weight.grad, torch.full((4, 4), 2.0))
            assert model.module.b.weight.grad is None
        model.module.b.weight.grad = kept = torch.full((4, 4), 3.0)
        model.zero_grad(set_to_none=False)
        kept.fill_(3.0)
        model(x, (True, False))["y"][0].sum().backward()
        close(model.module.b.weight.grad, torch.full((4, 4), 3.0))
        model.zero_grad()
        out = model(x)["y"][0]
        (out * 0 + model.module.c(x).detach()).sum().backward()
    static = DDP(Branches(), static_graph=True)
    for _ in range(3):
        static.zero_grad()
        static(x, (True, False))["y"][0].sum().backward()
        close(static.module.a.weight.grad, torch.full((4, 4), 2.0))
        assert static.module.b.weight.grad is None
    model = DDP(Branches())
    model(x, (True, False))["y"][0].sum().backward()
    text = raises(RuntimeError, "Expected to have finished reduction", model, x)
    assert "b.weight, b.bias" in text and "a.weight" not in text

    class Two(nn.Module):  # an output that the loss does not use
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.a(x), self.b(x)

    model = DDP(Two(), find_unused_parameters=True)
    for _ in range(2):
        model(x)[0].sum().backward()
        same_everywhere([model.module.a.weight.grad])
        assert model.module.b.weight.grad is None


def check_odd_parameters():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(2)
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            self.b.weight = self.a.weight
            self.frozen = nn.Linear(4, 4).requires_grad_(False)
            self.conv = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
            self.wide = nn.Parameter(torch.ones(4, dtype=torch.float64))
            self.empty = nn.Parameter(torch.ones(0))

        def forward(self, x):
            y = self.b(torch.tanh(self.a(x))) + self.frozen(x) + self.empty.sum()
            z = self.conv(x.repeat(1, 12).view(-1, 3, 4, 4)).mean((1, 2, 3))[:, None]
            return y * self.wide.to(y.dtype) + z

    for views in (False, True):
        model, ref = DDP(Tied(), gradient_as_bucket_view=views), Tied()
        x, _ = data()
        x = x[:, :4].contiguous()
        for _ in range(2):
            model.zero_grad()
            ref.zero_grad()
            model(mine(x)).pow(2).mean().backward()
            ref(x).pow(2).mean().backward()
            for (name, a), b in zip(model.module.named_parameters(), ref.parameters(), strict=True):
                if a.requires_grad:
                    close(a.grad, b.grad, rtol=1e-4, atol=1e-5, msg=name)
                    assert a.grad.stride() == a.stride() or a.numel() == 0
                else:
                    assert a.grad is None

    class Checked(nn.Module):
        def __init__(self, reentrant):
            super().__init__()
            self.inner, self.reentrant = net(8), reentrant

        def forward(self, x):
            x = x * torch.ones(5, requires_grad=True)
            once = checkpoint(self.inner, x, use_reentrant=self.reentrant)
            if self.reentrant:
                once = once + checkpoint(self.inner, 2 * x, use_reentrant=True)
            return once

    x, y = data()
    for reentrant in (False, True):
        model, ref = DDP(Checked(reentrant), static_graph=reentrant), Checked(reentrant)
        for _ in range(3):
            model.zero_grad()
            ref.zero_grad()
            loss_of(model, mine(x), mine(y)).backward()
            loss_of(ref, x, y).backward()
            for a, b in zip(model.parameters(), ref.parameters(), strict=True):
                close(a.grad, b.grad)


def check_derivatives_by_inputs():
    """Gradients with respect to inputs send nothing; only gradients of parameters are sent."""
    x = torch.rand(4, 5, dtype=torch.float64) + dist.get_rank()

    def loss(module, create_graph):
        point = x.clone().requires_grad_()
        (g,) = torch.autograd.grad(module(point).square().sum(), point, create_graph=create_graph)
        return module(x + g).square().mean() + g.square().mean()

    for options in ({}, {"find_unused_parameters": True}, {"static_graph": True}):
        for create_graph in (False, True):
            module = net(9)
            model = DDP(module, **options)
            module.double()  # buckets follow
            for _ in range(3):
                model.zero_grad()
                loss(model, create_graph).backward()
            alone = net(9).double()
            loss(alone, create_graph).backward()
            for ours, own in zip(module.parameters(), alone.parameters(), strict=True):
                dist.all_reduce(own.grad, dist.ReduceOp.AVG)
                close(ours.grad, own.grad, rtol=1e-12, atol=1e-12)


def check_buffers():
    rank = dist.get_rank()
    model = DDP(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(rank))
    model(x).sum().backward()
    model(x).sum().backward()
    found = [torch.empty(2) for _ in range(dist.get_world_size())]
    dist.all_gather(found, model.module[1].running_mean)
    assert not torch.equal(found[0], found[-1])  # each rank's own batch moved them
    model.eval()(x)
    same_everywhere([model.module[1].running_mean, model.module[1].num_batches_tracked.float()])


def check_hooks():
    hooks = ddp_comm_hooks
    for hook, tolerance in (
        (hooks.default_hooks.allreduce_hook, 1e-6),
        (hooks.default_hooks.fp16_compress_hook, 2e-3),
        (hooks.default_hooks.bf16_compress_hook, 2e-2),
        (hooks.default_hooks.bf16_compress_wrapper(hooks.default_hooks.allreduce_hook), 2e-2),
    ):
        for views in (False, True):
            model, ref = DDP(net(), gradient_as_bucket_view=views), net()
            model.register_comm_hook(None, hook)
            x, y = data()
            for _ in range(2):
                model.zero_grad()
                ref.zero_grad()
                loss_of(model, mine(x), mine(y)).backward()
                loss_of(ref, x, y).backward()
                for a, b in zip(model.parameters(), ref.parameters(), strict=True):
                    close(a.grad, b.grad, rtol=tolerance, atol=tolerance)
            same_everywhere([p.grad for p in model.parameters()])
    raises(RuntimeError, "only be called once", model.register_comm_hook, None, hook)
    raises(TypeError, "callable", DDP(net()).register_comm_hook, None, 3)
    seen = []

    def own(state, bucket: dist.GradBucket):
        assert state == "state"
        assert [g.shape for g in bucket.gradients()] == [p.shape for p in bucket.parameters()]
        seen.append((bucket.index(), bucket.is_last(), bucket.buffer().numel()))
        future = torch.futures.Future()
        future.set_result(torch.full_like(bucket.buffer(), bucket.index()))
        return future

    model = DDP(net(), bucket_cap_mb=0.0001)
    model.register_comm_hook("state", own)
    loss_of(model, *map(mine, data())).backward()
    assert [i for i, _, _ in seen] == list(range(len(seen))) and len(seen) > 2
    assert [last for _, last, _ in seen] == [False] * (len(seen) - 1) + [True]
    assert sum(n for _, _, n in seen) == sum(p.numel() for p in model.parameters())
    assert {p.grad.unique().numel() for p in model.parameters()} == {1}
    losses = []
    for compressed in (False, True):
        model = DDP(net())
        if compressed:
            state = hooks.powerSGD_hook.PowerSGDState(None, 2, start_powerSGD_iter=2)
            model.register_comm_hook(state, hooks.powerSGD_hook.powerSGD_hook)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        for _ in range(40):
            optimizer.zero_grad()
            loss = loss_of(model, *map(mine, data()))
            loss.backward()
            optimizer.step()
        same_everywhere(model.parameters())
        dist.all_reduce(loss.detach_())
        losses.append(loss.item() / dist.get_world_size())
    batched = DDP(net())
    own_state = hooks.powerSGD_hook.PowerSGDState(None, 4, start_powerSGD_iter=2)
    batched.register_comm_hook(own_state, hooks.powerSGD_hook.batched_powerSGD_hook)
    for _ in range(4):
        batched.zero_grad()
        loss_of(batched, *map(mine, data())).backward()
    same_everywhere([p.grad for p in batched.parameters()])
    close(batched.module[4].bias.grad, net_gradients()[-1], rtol=0.5, atol=0.1)
    named = DDP(net())
    hooks.register_ddp_comm_hook(hooks.DDPCommHookType.BF16_COMPRESS, named)
    loss_of(named, *map(mine, data())).backward()
    close([p.grad for p in named.parameters()], net_gradients(), rtol=2e-2, atol=2e-2)
    rate, before, after = state.compression_stats()
    assert rate > 1.3 and before > after > 0
    assert losses[1] < 1.1 * losses[0], losses


def net_gradients():
    ref = net()
    loss_of(ref, *data()).backward()
    return [p.grad for p in ref.parameters()]


def check_join():
    rank, world = dist.get_rank(), dist.get_world_size()
    for divide_by_all in (True, False):
        for options in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}):
            model = DDP(nn.Sequential(nn.Linear(2, 1, bias=False), nn.BatchNorm1d(1)), **options)
            torch.manual_seed(0)
            seen = []
            with model.join(divide_by_initial_world_size=divide_by_all):
                for _ in range(2 + rank):
                    model.zero_grad()
                    model.module[0](torch.ones(3, 2)).detach()
                    (model(torch.randn(3, 2)) * 0 + model.module[0].weight.sum()).sum().backward()
                    seen.append(model.module[0].weight.grad[0, 0].item())
                    with torch.no_grad():
                        model.module[0].weight -= 0.1 * model.module[0].weight.grad
            for step, got in enumerate(seen):
                present = sum(2 + r > step for r in range(world))
                assert abs(got - (3 * present / world if divide_by_all else 3)) < 1e-5, seen
            same_everywhere([model.module[0].weight, model.module[1].running_var])
    model = DDP(nn.Linear(2, 1))

    def uneven():
        with Join([model], throw_on_early_termination=True):
            for _ in range(1 + rank):
                model(torch.ones(1, 2)).sum().backward()

    raises(RuntimeError, "exhausted", uneven)
    raises(ValueError, "at least one", Join, [])


def check_join_leaves_unused_parameters_alone():
    """A rank without inputs gets gradients only for parameters that some rank used."""
    rank = dist.get_rank()
    for options in ({"find_unused_parameters": True}, {"static_graph": True}):
        module = nn.ModuleDict({"used": nn.Linear(2, 1), "unused": nn.Linear(2, 1)})
        module.forward = lambda x, part=module["used"]: part(x)
        model = DDP(module, **options)
        with model.join():
            for _ in range(2 + rank):
                model.zero_grad()
                model(torch.ones(1, 2)).sum().backward()
        assert module["unused"].weight.grad is None, options
        assert (module["used"].weight.grad == 1 / dist.get_world_size()).all()


def check_identical():
    """Two runs have the same results to the bit, and so have all ranks."""
    runs = []
    for _ in range(2):
        model = DDP(net(700), bucket_cap_mb=0.002)
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        for step in range(4):
            optimizer.zero_grad()
            loss_of(model, *map(mine, data(seed=step))).backward()
            optimizer.step()
        runs.append([p.detach().clone() for p in model.parameters()])
        same_everywhere(model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


if __name__ == "__main__":
    checks.run(globals(), sys.argv[1:])
