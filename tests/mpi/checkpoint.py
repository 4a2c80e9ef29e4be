# SPDX-License-Identifier: BSD-3-Clause
"""Checks of distributed.checkpoint; the folder is the first argument."""

import os
import sys
from pathlib import Path

import checks

import cograd as torch
import cograd.distributed as dist
import cograd.distributed.checkpoint as dcp
from cograd import nn
from cograd.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

FOLDER = Path(sys.argv[1])


def expect(error, text, f):
    try:
        f()
    except error as caught:
        assert text in str(caught), caught
    else:
        raise AssertionError(f"no {error.__name__}")


def rows(count, rank, size=11):
    return size * rank // count, size * (rank + 1) // count


def whole(dtype=torch.float32):
    return torch.arange(33).reshape(11, 3).to(dtype)


def part(fill):
    """Returns the rows of `whole()` that this rank has, or zeros."""
    first, last = rows(dist.get_world_size(), dist.get_rank())
    values = whole()[first:last].clone()
    return dcp.Shard(values if fill else torch.zeros_like(values), (first, 0), (11, 3))


def state(fill):
    """Returns a state with every kind of value; it does not depend on the number of ranks."""
    make = (lambda t: t) if fill else torch.zeros_like
    return {
        "rows": part(fill),
        "model": {
            "weight": make(whole(torch.float64)),
            "half": make(whole().to(torch.bfloat16).T),
            "z": make(whole(torch.float64)[:2] * (1 + 2j)),
            "count": make(torch.tensor(7)),
            "none": torch.empty(0, 3),
            "flags": make(torch.tensor([True, False])),
        },
        "groups": [{"lr": 0.25 if fill else None, "betas": (0.9, 0.5) if fill else ()}],
        "step": 12 if fill else 0,
        "name": "a" if fill else "",
        "inf": float("inf") if fill else 0.0,
    }


def check_saved_and_loaded():
    folder = FOLDER / "plain"
    if "load" not in sys.argv[2:]:
        index = dcp.save(state(True), checkpoint_id=folder)
        assert index["world_size"] == dist.get_world_size()
    got = state(False)
    dcp.load(got, checkpoint_id=folder)
    want = state(True)
    assert torch.equal(got["rows"].tensor, want["rows"].tensor)
    for key, value in want["model"].items():
        assert torch.equal(got["model"][key], value), key
    assert got["groups"] == [{"lr": 0.25, "betas": (0.9, 0.5)}]
    assert (got["step"], got["name"], got["inf"]) == (12, "a", float("inf"))
    all_rows = {"rows": torch.zeros(11, 3)}
    dcp.load(all_rows, checkpoint_id=folder)
    assert torch.equal(all_rows["rows"], whole())


def check_work_is_shared():
    folder = FOLDER / "shared"
    n = dist.get_world_size()
    tensors = {str(k): torch.full((5000,), float(k)) for k in range(8)}
    tensors["large"] = torch.arange(200_000.0)
    dcp.save(tensors, checkpoint_id=folder)
    sizes = [p.stat().st_size for p in folder.glob("shard-*")]
    assert len(sizes) == n and max(sizes) < 1.1 * 960_000 / n + 2000, sizes
    got = {"large": torch.zeros(200_000), "3": torch.zeros(5000)}
    dcp.load(got, checkpoint_id=folder)
    assert torch.equal(got["large"], torch.arange(200_000.0)) and got["3"][5] == 3
    dcp.save({"3": tensors["3"]}, checkpoint_id=folder)  # the files before are removed
    assert len(os.listdir(folder)) == 2


def check_ranks_with_keys_of_their_own():
    folder, n, r = FOLDER / "own", dist.get_world_size(), dist.get_rank()
    dcp.save({f"of {r}": torch.tensor(r), "rank": r}, checkpoint_id=folder)
    got = {f"of {(r + 1) % n}": torch.tensor(-1), "rank": -1}
    dcp.load(got, checkpoint_id=folder)
    assert got[f"of {(r + 1) % n}"].item() == (r + 1) % n
    assert got["rank"] == 0
    alone = {"x": torch.ones(2)}
    dcp.save(alone, checkpoint_id=FOLDER / f"alone {r}", no_dist=True)
    alone["x"].zero_()
    dcp.load(alone, checkpoint_id=FOLDER / f"alone {r}", no_dist=True)
    assert alone["x"].tolist() == [1.0, 1.0]


def check_errors_on_all_ranks():
    folder, last = FOLDER / "errors", dist.get_rank() == dist.get_world_size() - 1
    dcp.save({"x": torch.ones(2), "a": {"b": 1}}, checkpoint_id=folder)
    before = sorted(os.listdir(folder))
    dist.barrier()
    kind = TypeError if last else dcp.CheckpointException
    bad = {"x": torch.zeros(2), "bad": object() if last else 1}
    expect(kind, "object", lambda: dcp.save(bad, checkpoint_id=folder))
    ours = {"x": torch.zeros(3 if last and dist.get_world_size() > 1 else 2)}
    if dist.get_world_size() > 1:
        expect(dcp.CheckpointException, "[3]", lambda: dcp.save(ours, checkpoint_id=folder))
    writer = dcp.FileSystemWriter(folder, overwrite=False)
    expect(dcp.CheckpointException, "already", lambda: dcp.save({}, storage_writer=writer))
    assert sorted(os.listdir(folder)) == before
    for wrong, text in (
        ({"y": torch.ones(2)}, "no 'y'"),
        ({"x": torch.ones(3)}, "shape [3]"),
        ({"x": 3}, "no value at 'x'"),
        ({"x": torch.ones(2, dtype=torch.complex64)}, "complex64"),
    ):
        expect(dcp.CheckpointException, text, lambda w=wrong: dcp.load(w, checkpoint_id=folder))
    expect(
        dcp.CheckpointException,
        "no checkpoint",
        lambda: dcp.load({}, checkpoint_id=FOLDER / "nowhere"),
    )
    expect(
        ValueError, "one name", lambda: dcp.save({"a.b": 1, "a": {"b": 2}}, checkpoint_id=folder)
    )
    got = {"x": torch.zeros(2)}
    dcp.load(got, storage_reader=dcp.FileSystemReader(folder))
    assert got["x"].tolist() == [1.0, 1.0]
    dist.barrier()
    if dist.get_rank() == 0:
        (shard,) = (folder / name for name in before if name.startswith("shard"))
        shard.write_bytes(shard.read_bytes()[:-3])
    dist.barrier()
    expect(dcp.CheckpointException, "cut off", lambda: dcp.load(got, checkpoint_id=folder))


def check_objects_with_state():
    folder = FOLDER / "objects"
    model = nn.Linear(2, 2)
    dcp.save({"model": model, "epoch": 3}, checkpoint_id=folder)
    other = nn.Linear(2, 2)
    state = {"model": other, "epoch": 0}
    dcp.load(state, checkpoint_id=folder)
    assert torch.equal(other.weight, model.weight) and state["epoch"] == 3
    assert state["model"] is other
    expect(TypeError, "dict", lambda: dcp.save([1], checkpoint_id=folder))


def train(model, optimizer, steps):
    for step in range(steps):
        optimizer.zero_grad()
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
        (model(x) ** 2).sum().backward()
        optimizer.step()


def fresh(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    return model, zero(model) if "zero" in sys.argv[2:] else torch.optim.Adam(model.parameters())


def zero(model):
    from cograd.distributed.optim import ZeroRedundancyOptimizer

    return ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-3)


def check_training_goes_on():
    """Two steps after a checkpoint are the same, whichever ranks wrote it."""
    folder = FOLDER / "training"
    if "load" not in sys.argv[2:]:
        model, optimizer = fresh(1)
        train(model, optimizer, 3)
        saved = {
            "model": get_model_state_dict(model),
            "optim": get_optimizer_state_dict(model, optimizer),
        }
        dcp.save(saved, checkpoint_id=folder)
    want, optimizer = fresh(1)
    train(want, optimizer, 3)
    train(want, optimizer, 2)
    model, optimizer = fresh(2)
    before = [p.detach().clone() for p in model.parameters()]
    again = {
        "model": get_model_state_dict(model),
        "optim": get_optimizer_state_dict(model, optimizer),
    }
    for p, value in zip(model.parameters(), before, strict=True):
        assert torch.equal(p, value)
    dcp.load(again, checkpoint_id=folder)
    set_model_state_dict(model, again["model"])
    set_optimizer_state_dict(model, optimizer, again["optim"])
    train(model, optimizer, 2)
    for name, p in want.named_parameters():
        assert torch.equal(model.get_parameter(name), p), name


checks.run(globals(), [a for a in sys.argv[2:] if a.startswith("check_")])
