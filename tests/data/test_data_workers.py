# SPDX-License-Identifier: BSD-3-Clause
"""DataLoader with workers: results, order, and every way in which a worker or the parent ends."""

import faulthandler
import gc
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from shm import segments

import cograd as torch
from cograd.utils import data

METHODS = ["fork", "spawn", "forkserver"]
# For what does not pickle: from 3.14 on, Python's default is the fork server.
FORK = {"multiprocessing_context": "fork"}
pytestmark = pytest.mark.filterwarnings(
    "ignore:This DataLoader will create", "ignore:.*use of fork.*:DeprecationWarning"
)


def children():
    """Returns the process ids of this process's children, without multiprocessing's own helpers.

    A worker of the fork server is the server's child; multiprocessing knows it.
    """
    found = {process.pid for process in multiprocessing.active_children()}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            helper = re.search("resource_tracker|forkserver", (path.parent / "cmdline").read_text())
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z" and not helper:
            found.add(int(path.parent.name))
    return found


@pytest.fixture(autouse=True)
def nothing_stays():
    """Checks that a test leaves no process, descriptor or segment."""
    gc.collect()
    before = children(), len(os.listdir("/proc/self/fd")), segments()
    yield
    gc.collect()
    end = time.monotonic() + 10
    while not children() <= before[0] and time.monotonic() < end:
        time.sleep(0.05)  # a helper that has just been started has no command line yet
    assert children() <= before[0]
    assert len(os.listdir("/proc/self/fd")) <= before[1] + 3  # of multiprocessing's helpers
    assert segments() <= before[2]


class Squares(data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return torch.full((3,), i * i), i


class Stream(data.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = data.get_worker_info()
        return iter(range(info.id, self.n, info.num_workers))


class Info(data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        info = data.get_worker_info()
        return info.id, info.num_workers, info.seed, torch.get_num_threads(), info.dataset is self


class Bad(data.Dataset):
    def __init__(self, kind, at=5):
        self.kind, self.at = kind, at

    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == self.at:
            raise self.kind("broken sample")
        return i


class Kill(data.Dataset):
    def __init__(self, how):
        self.how = how

    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 5:
            if self.how == "exit":
                os._exit(3)
            faulthandler.disable()
            os.kill(os.getpid(), self.how)
        return torch.zeros(1000)


class Slow(data.Dataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 100

    def __getitem__(self, i):
        time.sleep(self.seconds)
        return i


class TwoArguments(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


def two_arguments(text):
    return TwoArguments(text, 1)


def local_error(text):
    class Local(Exception):
        pass

    return Local(text)


# ---------------------------------------------------------------- results


@pytest.mark.parametrize("method", METHODS)
def test_the_same_batches_as_without(method):
    for dataset in (Squares(), data.TensorDataset(torch.arange(40.0).reshape(20, 2))):
        want = list(data.DataLoader(dataset, 3))
        got = list(data.DataLoader(dataset, 3, num_workers=2, multiprocessing_context=method))
        assert len(got) == len(want) == 7
        for a, b in zip(got, want, strict=True):
            assert all(torch.equal(u, v) for u, v in zip(a, b, strict=True))
            assert all(u.is_shared() and not v.is_shared() for u, v in zip(a, b, strict=True))


@pytest.mark.parametrize("prefetch", [1, 2, 7])
@pytest.mark.parametrize("workers", [1, 3])
def test_order_and_epochs(workers, prefetch):
    loader = data.DataLoader(
        Squares(), 3, num_workers=workers, prefetch_factor=prefetch, persistent_workers=True
    )
    seen = set()
    for _ in range(3):
        assert torch.cat([i for _, i in loader]).tolist() == list(range(20))
        seen |= children()
    assert len(loader) == 7
    next(iter(loader))  # an epoch that is not finished
    assert torch.cat([i for _, i in loader]).tolist() == list(range(20))
    assert len({p for p in seen if p in children()}) == workers


def test_without_order():
    later = multiprocessing.get_context("fork").Event()

    class Uneven(data.Dataset):
        def __len__(self):
            return 20

        def __getitem__(self, i):
            if i == 9:
                later.set()
            if i == 0:
                later.wait(60)
            return i

    loader = data.DataLoader(
        Uneven(), None, num_workers=2, in_order=False, multiprocessing_context="fork"
    )
    got = list(loader)
    assert sorted(got) == list(range(20)) and got.index(0) > got.index(7)


def test_streams():
    for n, workers, size in ((10, 3, 2), (2, 3, 2), (0, 2, 2), (7, 2, None)):
        loader = data.DataLoader(Stream(n), size, num_workers=workers, persistent_workers=True)
        for _ in range(2):
            got = list(loader)
            flat = got if size is None else [v for b in got for v in b.tolist()]
            assert sorted(flat) == list(range(n))
    drop = data.DataLoader(Stream(10), 2, num_workers=3, drop_last=True)
    assert sum(len(b) for b in drop) == 8


@pytest.mark.parametrize("method", METHODS)
def test_what_a_worker_knows_of_itself(method):
    torch.manual_seed(0)
    loader = data.DataLoader(Info(), None, num_workers=2, multiprocessing_context=method)
    rows = list(loader)
    assert [r[0] for r in rows] == [0, 1, 0, 1]
    assert all([r[1], *r[3:]] == [2, 1, True] for r in rows)
    assert rows[1][2] == rows[0][2] + 1
    assert data.get_worker_info() is None


def test_seeds_of_workers():
    class Draw(data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return torch.rand(1).item(), np.random.rand()

    def draw(seed):
        g = torch.Generator().manual_seed(seed)
        return list(data.DataLoader(Draw(), None, num_workers=2, generator=g, **FORK))

    assert draw(1) == draw(1) != draw(2)
    assert len({tuple(row) for row in draw(3)}) == 4


def shout(worker):
    os.environ["SHOUT"] = str(worker)


class Heard(Squares):
    def __getitem__(self, i):
        return int(os.environ["SHOUT"])


@pytest.mark.parametrize("method", METHODS)
def test_worker_init_fn(method):
    options = {"num_workers": 2, "worker_init_fn": shout, "multiprocessing_context": method}
    assert list(data.DataLoader(Heard(), None, **options))[:4] == [0, 1, 0, 1]


def test_kinds_of_results():
    big = torch.rand(1000, 50)
    whole = torch.arange(6.0)

    class Kinds(data.Dataset):
        values = (
            lambda: big[3],  # a row does not bring the other rows
            lambda: big,
            lambda: (whole[:3], whole[3:], whole),
            lambda: {
                "a": np.arange(5000.0).reshape(50, 100).T,
                "b": np.arange(3),
                "c": b"x" * 9999,
            },
            lambda: [
                torch.zeros(0),
                torch.tensor(3),
                torch.zeros(2, 0, 3),
                torch.rand(5).bfloat16(),
            ],
            lambda: torch.nn.Parameter(torch.ones(3)),
            lambda: torch.zeros(3, requires_grad=True),
            lambda: big.t()[:, ::2].expand(2, 50, 500),
            lambda: (1, "text", None, {3}, 2.5),
            lambda: "x" * 3_000_000,
            lambda: [torch.full((i % 7,), i) for i in range(700)],
        )

        def __len__(self):
            return len(self.values)

        def __getitem__(self, i):
            return self.values[i]()

    loader = data.DataLoader(Kinds(), None, num_workers=2, collate_fn=lambda v: v, **FORK)
    got = list(loader)
    for value, make in zip(got, Kinds.values, strict=True):
        want = make()
        assert type(value) is type(want)
        torch.testing.assert_close(value, want) if torch.is_tensor(want) else None
    assert got[0].untyped_storage().nbytes() == 200
    assert got[1].untyped_storage().nbytes() == big.untyped_storage().nbytes()
    got[2][2][0] = 50
    assert got[2][0][0] == 50, "views of one memory stay so"
    assert np.array_equal(got[3]["a"], Kinds.values[3]()["a"]) and got[3]["c"] == b"x" * 9999
    got[3]["a"][0, 0] = 7  # arrays are writable
    assert isinstance(got[5], torch.nn.Parameter) and got[6].requires_grad
    assert got[8] == Kinds.values[8]() and got[9] == "x" * 3_000_000
    assert [len(t) for t in got[10]] == [i % 7 for i in range(700)]
    kept = got[1]
    del got, loader
    gc.collect()
    assert torch.equal(kept, big), "a batch outlives the workers"


def test_indices_that_are_large_or_tensors():
    """Neither side waits for the other when both send much data."""
    n = 200_000
    indices = [list(range(n)) for _ in range(12)]

    class Sum(data.Dataset):
        def __getitem__(self, i):
            return i

    options = {"num_workers": 2, "collate_fn": list, "prefetch_factor": 3, **FORK}
    for batch in data.DataLoader(Sum(), batch_sampler=indices, **options):
        assert batch == indices[0]
    tensors = [torch.tensor([1, 2]), torch.tensor([3])]
    options = {"num_workers": 1, "collate_fn": list, **FORK}
    got = list(data.DataLoader(Sum(), batch_sampler=tensors, **options))
    assert [int(v) for b in got for v in b] == [1, 2, 3]


def test_gradients_through_batches():
    x = data.TensorDataset(torch.rand(32, 4), torch.rand(32))
    w = torch.zeros(4, requires_grad=True)
    for inputs, targets in data.DataLoader(x, 8, num_workers=2):
        inputs += 1  # a batch belongs to the receiver
        ((inputs @ w - targets) ** 2).sum().backward()
    assert w.grad.abs().sum() > 0 and bool((x.tensors[0] < 1).all())


def test_fork_while_threads_work():
    """The pool, the caches and the generator are intact in children forked at any moment."""
    stop = threading.Event()

    def work():
        while not stop.is_set():
            torch.randn(200_000).sort()

    threads = [threading.Thread(target=work) for _ in range(2)]
    [t.start() for t in threads]
    try:
        for _ in range(3):
            loader = data.DataLoader(Squares(), 4, num_workers=2, timeout=60)
            assert sum(len(i) for _, i in loader) == 20
    finally:
        stop.set()
        [t.join() for t in threads]


def test_a_loader_in_a_thread():
    found = []
    thread = threading.Thread(
        target=lambda: found.extend(data.DataLoader(Squares(), 5, num_workers=2))
    )
    thread.start()
    thread.join()
    assert len(found) == 4


# ---------------------------------------------------------------- exceptions


@pytest.mark.parametrize("kind", [ValueError, KeyError, IndexError, StopIteration, RuntimeError])
def test_exceptions_of_a_worker(kind):
    loader = data.DataLoader(Bad(kind), 2, num_workers=2)
    batches = iter(loader)
    assert next(batches).tolist() == [0, 1] and next(batches).tolist() == [2, 3]
    with pytest.raises(RuntimeError if kind is StopIteration else kind) as caught:
        next(batches)
    text = str(caught.value)
    assert f"Caught {kind.__name__} in DataLoader worker process 0.\nOriginal Traceback" in text
    assert "broken sample" in text and "__getitem__" in text
    assert next(batches).tolist() == [6, 7], "the next batches are there"
    with pytest.raises(StopIteration):
        next(batches)


@pytest.mark.parametrize("kind", [two_arguments, local_error])
def test_exceptions_that_cannot_be_made_again(kind):
    with pytest.raises(RuntimeError, match=r"in DataLoader worker process 0(.|\n)*broken sample"):
        list(data.DataLoader(Bad(kind, 0), num_workers=1))


def test_exceptions_outside_of_samples():
    def fail(*args):
        raise ValueError("broken function")

    for options in ({"collate_fn": fail}, {"worker_init_fn": fail}):
        with pytest.raises(ValueError, match="broken function"):
            list(data.DataLoader(Squares(), num_workers=1, **options, **FORK))
    with pytest.raises(Exception, match="pickle"):
        list(data.DataLoader(Squares(), num_workers=1, collate_fn=lambda batch: lambda: 0, **FORK))

    class NoStream(data.IterableDataset):
        pass

    with pytest.raises(NotImplementedError, match="in DataLoader worker process"):
        list(data.DataLoader(NoStream(), num_workers=2, **FORK))

    def broken_sampler():
        yield 0
        raise ValueError("broken sampler")

    with pytest.raises(ValueError, match="broken sampler"):
        list(data.DataLoader(Squares(), sampler=broken_sampler(), num_workers=2))


def test_a_dataset_that_does_not_pickle():
    with pytest.raises(Exception, match="pickle"):
        bad = data.TensorDataset(torch.zeros(3))
        bad.f = lambda: 0
        list(data.DataLoader(bad, num_workers=2, multiprocessing_context="spawn"))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have notes from 3.11 on")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_an_error_of_pickling_says_what_to_do(method):
    options = {"num_workers": 1, "multiprocessing_context": method}
    with pytest.raises(Exception, match="pickle") as caught:
        list(data.DataLoader(Squares(), collate_fn=lambda batch: batch, **options))
    (note,) = caught.value.__notes__
    assert repr(method) in note and 'multiprocessing_context="fork"' in note


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, "exit"])
def test_killed_workers(how, method):
    want = (
        "exited with code 3" if how == "exit" else f"killed by signal: {signal.Signals(how).name}"
    )
    begin = time.monotonic()
    loader = data.DataLoader(Kill(how), num_workers=2, multiprocessing_context=method)
    with pytest.raises(
        RuntimeError, match=rf"exited unexpectedly: worker 1 \(pid \d+\) (is )?{want}"
    ):
        list(loader)
    assert time.monotonic() - begin < 60


def test_a_worker_killed_from_outside():
    loader = data.DataLoader(Slow(0.01), num_workers=2)
    batches = iter(loader)
    next(batches)
    os.kill(next(iter(children())), signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"killed by signal: SIGKILL \(Killed\)"):
        list(batches)
    assert len(list(data.DataLoader(Squares(), num_workers=2))) == 20, "the next loader is well"


def test_timeout():
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.5 seconds"):
        list(data.DataLoader(Slow(2), num_workers=1, timeout=0.5))
    assert 0.5 <= time.monotonic() - begin < 30


def test_early_break():
    for persistent in (False, True):
        loader = data.DataLoader(Squares(), 2, num_workers=2, persistent_workers=persistent)
        for _ in range(3):
            for batch in loader:
                assert batch[1].tolist() == [0, 1]
                break
        del loader, batch
        gc.collect()
        assert not children()


# ---------------------------------------------------------------- how the parent ends


PROGRAM = """
import os, sys, time, signal, threading
import cograd
from cograd.utils import data

class Samples(data.Dataset):
    def __len__(self): return 1000
    def __getitem__(self, i):
        time.sleep({seconds})
        return cograd.zeros(10000)

if __name__ == "__main__":
    batches = iter(data.DataLoader(Samples(), 2, num_workers=2, persistent_workers={persistent}))
    first = next(batches)
    print("ready", flush=True)
    {then}
"""


def session_of(pid):
    """Returns the processes of a session, without zombies."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == pid and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def run_program(tmp_path, then, act=None, seconds=0.01, persistent=False):
    """Runs the program in its own session until all of its processes have ended."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(then=then, seconds=seconds, persistent=persistent))
    process = subprocess.Popen(
        [sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "ready\n"
        if act is not None:
            act(process.pid)
        _, errors = process.communicate(timeout=60)
        end = time.monotonic() + 15
        while session_of(process.pid) and time.monotonic() < end:
            time.sleep(0.05)
        assert session_of(process.pid) == []
        return process.returncode, errors
    finally:
        for pid in session_of(process.pid):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("persistent", [False, True])
def test_interrupt_of_the_group(tmp_path, persistent):
    """Ctrl-C reaches all processes of the terminal."""
    code, errors = run_program(
        tmp_path, "list(batches)", lambda pid: os.killpg(pid, signal.SIGINT), 0.05, persistent
    )
    assert code in (1, -signal.SIGINT) and errors.count("KeyboardInterrupt") == 1
    assert errors.count("Traceback") == 1


def test_interrupt_of_the_parent_alone(tmp_path):
    code, errors = run_program(
        tmp_path, "list(batches)", lambda pid: os.kill(pid, signal.SIGINT), 0.05
    )
    assert code in (1, -signal.SIGINT) and errors.count("Traceback") == 1


def test_a_killed_parent(tmp_path):
    """Workers notice that the parent has ended."""
    code, _ = run_program(
        tmp_path, "time.sleep(60)", lambda pid: os.kill(pid, signal.SIGKILL), 0.01
    )
    assert code == -signal.SIGKILL


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("then", ["pass", "sys.exit(0)", "del batches", "first = batches = None"])
def test_ends_in_the_middle(tmp_path, then, persistent):
    assert run_program(tmp_path, then, persistent=persistent) == (0, "")


def test_an_exception_in_the_middle(tmp_path):
    code, errors = run_program(tmp_path, "raise ValueError('mine')")
    assert code == 1 and errors.count("Traceback") == 1 and "mine" in errors


def test_a_fork_of_the_parent_leaves_the_workers_alone(tmp_path):
    then = """
    child = os.fork()
    if child == 0:
        del batches
        os._exit(0)
    os.waitpid(child, 0)
    assert len(next(batches)) == 2
"""
    assert run_program(tmp_path, then) == (0, "")
