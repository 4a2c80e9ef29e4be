# SPDX-License-Identifier: BSD-3-Clause
"""Tensors in memory that processes share: share_memory_, queues, pipes, arguments, spawn."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from shm import segments

import cograd as torch
import cograd.multiprocessing as mp
from cograd import _C

METHODS = ["fork", "spawn", "forkserver"]
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


@pytest.fixture(autouse=True)
def nothing_stays():
    """Checks that a test leaves neither descriptors of shared memory nor segments in /dev/shm."""
    gc.collect()
    before = memory_files(), segments()
    yield
    gc.collect()
    assert memory_files() <= before[0]
    assert segments() <= before[1]


def memory_files():
    """Returns the number of open descriptors of cograd's shared memory in this process."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += "memfd:cograd" in os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass
    return count


def output_of(code):
    """Returns the output of a program."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert run.stderr == ""
    return run.stdout


def add_one(tensor, done=None):
    tensor += 1
    if done is not None:
        done.set()


def echo(inbox, outbox):
    while (item := inbox.get()) is not None:
        outbox.put(item)
        outbox.close()
        outbox.join_thread()
        inbox.get()


# ---------------------------------------------------------------- share_memory_


def test_share_memory():
    x = torch.arange(6.0).reshape(2, 3).t()
    assert not x.is_shared()
    before = x.data_ptr()
    assert x.share_memory_() is x and x.is_shared() and x.data_ptr() != before
    assert x.tolist() == [[0, 3], [1, 4], [2, 5]] and x.stride() == (1, 3)
    place = x.data_ptr()
    x.share_memory_()
    assert x.data_ptr() == place, "the second call does nothing"
    row = x[0]
    assert row.is_shared() and row.untyped_storage() is x.untyped_storage()
    row += 10
    assert x[0].tolist() == [10, 13]
    for y in (x.clone(), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert not y.is_shared() and torch.equal(y, x)
    assert x.storage().is_shared()


@pytest.mark.parametrize("make", [
    lambda: torch.zeros(0), lambda: torch.tensor(3), lambda: torch.ones(3)[1:],
    lambda: torch.ones(1000, dtype=torch.bfloat16), lambda: torch.ones(3, dtype=torch.complex64),
    lambda: torch.ones(1).expand(5), lambda: torch.from_numpy(np.ones(3)),
    lambda: torch.nn.Parameter(torch.ones(3)), lambda: torch.ones(3, requires_grad=True),
])  # fmt: skip
def test_kinds_of_tensors(make):
    x = make()
    assert x.share_memory_().is_shared()
    assert torch.equal(x, make()) and x.stride() == make().stride()
    assert x.requires_grad == make().requires_grad and type(x) is type(make())


def test_views_and_aliases_move_along():
    base = torch.zeros(6)
    view, held = base[1:], {"rows": (base.reshape(2, 3),)}
    layer = torch.nn.Linear(2, 2)
    state, data = layer.state_dict(), layer.bias.data
    for x in (base, layer.weight, layer.bias):
        assert x.share_memory_() is x and x.is_shared()
    view += 1
    held["rows"][0][0] += 1
    state["weight"].zero_()
    data.fill_(3)
    assert base.tolist() == [1, 2, 2, 1, 1, 1] and view.is_shared()
    assert layer.weight.eq(0).all() and layer.bias.eq(3).all()
    assert view.data_ptr() == base.data_ptr() + 4
    view, other = torch.zeros(4).chunk(2)
    assert view.share_memory_().is_shared() and other.is_shared(), "their base has no name"
    assert other.data_ptr() == view.data_ptr() + 8


def _numbers(x):
    return x.numpy()


def _bytes(x):
    return memoryview(x.untyped_storage())


@pytest.mark.parametrize("use", [_numbers, _bytes])
def test_memory_that_others_use_is_not_moved(use):
    x = torch.ones(1000)
    user = use(x)
    with pytest.raises(RuntimeError, match=r"share_memory_\(\): arrays, buffers or"):
        x.share_memory_()
    assert not x.is_shared()
    x.fill_(2)
    assert bytes(memoryview(user).cast("B"))[:4] == b"\0\0\0\x40", "the user still sees it"
    del user
    assert x.share_memory_().is_shared()


def test_an_output_that_a_graph_keeps_is_not_moved():
    x = torch.zeros(3, requires_grad=True)
    y = x.exp()
    loss = y.sum()
    with pytest.raises(RuntimeError, match=r"share_memory_\(\): arrays, buffers or"):
        y.share_memory_()
    loss.backward()
    assert x.grad.tolist() == [1, 1, 1]


def test_the_storage_object_moves_along():
    x = torch.arange(4, dtype=torch.uint8)
    storage = x.untyped_storage()
    x.share_memory_()
    assert storage is x.untyped_storage() and storage.is_shared()
    storage[0] = 9
    assert x[0] == 9 and bytes(storage) == b"\x09\x01\x02\x03"


def test_gradients_and_versions_go_on():
    w = torch.ones(3, requires_grad=True)
    y = (w * w).sum()
    before = w._version
    w.share_memory_()
    assert w._version == before
    y.backward()
    assert w.grad.tolist() == [2, 2, 2]
    y = (w * w).sum()
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    w.requires_grad_(False)
    out = torch.ones(3).share_memory_()
    torch.add(w, w, out=out)
    assert out.tolist() == [4, 4, 4] and out.is_shared()


def test_resizing_is_refused():
    x = torch.zeros(4).share_memory_()
    for size in (0, 8):
        with pytest.raises(RuntimeError, match="not resizable"):
            x.untyped_storage().resize_(size)
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(100)
    x.resize_(2)
    assert x.shape == (2,) and x.is_shared()


def test_modules():
    m = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    m(torch.ones(2)).sum().backward()
    before = {k: v.clone() for k, v in m.state_dict().items()}
    assert m.share_memory() is m
    assert all(p.is_shared() and p.grad.is_shared() for p in m.parameters())
    assert all(torch.equal(before[k], v) for k, v in m.state_dict().items())
    torch.optim.SGD(m.parameters(), 0.1).step()
    assert all(p.is_shared() for p in m.parameters())


def test_many_allocations_leave_nothing():
    files = memory_files()
    for _ in range(3000):
        torch.zeros(10).share_memory_()
    gc.collect()
    assert memory_files() == files


def test_running_out_of_descriptors():
    code = """
import resource, cograd
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
kept = []
try:
    for _ in range(100): kept.append(cograd.zeros(3).share_memory_())
except RuntimeError as e:
    assert "ulimit -n" in str(e), e
    x = cograd.ones(3)
    try: x.share_memory_()
    except RuntimeError: assert x.tolist() == [1, 1, 1] and not x.is_shared()
    kept.clear()
    print(x.share_memory_().is_shared())
"""
    assert output_of(code) == "True\n"


def test_wrong_calls():
    with pytest.raises(RuntimeError, match="got -1 bytes"):
        _C._new_shared(-1)
    with pytest.raises(RuntimeError, match="opening"):
        _C._open_shared(-1, 4, True, False)
    s = _C._new_shared(4)
    with pytest.raises(RuntimeError, match="does not fit into a file of 4"):
        _C._open_shared(_C._shared_fd(s), 5, True, False)
    for offset, size in ((-1, 1), (0, 5), (4, 1), (2**62, 2**62)):
        with pytest.raises(RuntimeError, match="outside of a storage"):
            _C._storage_part(s, offset, size)
    assert _C._shared_fd(torch.zeros(3).untyped_storage()) == -1


# ---------------------------------------------------------------- between processes


@pytest.mark.parametrize("method", METHODS)
def test_arguments_are_shared(method):
    context = mp.get_context(method)
    for x in (torch.zeros(5), torch.zeros(3, 4).t(), torch.zeros(1000).share_memory_()):
        if method == "fork":
            x.share_memory_()
        process = context.Process(target=add_one, args=(x,))
        process.start()
        process.join()
        assert process.exitcode == 0 and bool((x == 1).all())
        process.close()


def test_memory_that_cannot_move_is_sent_as_a_copy():
    base = torch.zeros(4)
    view, other = base[1:], base[2:]
    process = mp.get_context("spawn").Process(target=add_one, args=(view,))
    process.start()
    process.join()
    assert process.exitcode == 0 and base.tolist() == [0] * 4 and not other.is_shared()
    process.close()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_queues(method):
    context = mp.get_context(method)
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=echo, args=(inbox, outbox))
    process.start()
    x = torch.arange(6.0).reshape(2, 3)
    values = {"x": x, "row": x[1], "p": torch.nn.Parameter(torch.ones(2)), "e": torch.zeros(0, 2)}
    inbox.put(values)
    got = outbox.get(timeout=60)
    assert torch.equal(got["x"], torch.arange(6.0).reshape(2, 3))
    assert torch.equal(got["row"], x[1]) and got["e"].shape == (0, 2)
    assert isinstance(got["p"], torch.nn.Parameter) and got["p"].requires_grad
    got["x"][1, 0] = 50
    assert got["row"][0] == 50, "both still share memory"
    assert values["p"].is_shared() and got["p"].data_ptr() == values["p"].data_ptr(), (
        "the memory that came back is the memory that was sent"
    )
    for _ in range(2):
        inbox.put(None)
    process.join()
    process.close()
    for q in (inbox, outbox):
        q.close()
        q.join_thread()


def test_pipes_both_ways():
    a, b = mp.Pipe()
    x = torch.zeros(4)
    a.send(x)
    y = b.recv()
    y += 1
    assert x.tolist() == [1] * 4 and x.is_shared() and y.is_shared()
    b.send(y)
    z = a.recv()
    z += 1
    assert x.tolist() == y.tolist() == [2] * 4
    del x, y
    assert z.tolist() == [2] * 4
    with pytest.raises(RuntimeError, match="not a leaf"):
        a.send(torch.ones(2, requires_grad=True) * 2)
    a.close()
    b.close()


def test_two_processes_see_one_memory():
    x = torch.zeros(2).share_memory_()
    event = mp.get_context("fork").Event()
    process = mp.get_context("fork").Process(target=add_one, args=(x, event))
    process.start()
    assert event.wait(60)
    assert x.tolist() == [1, 1]
    process.join()
    process.close()


def test_a_killed_process_leaves_nothing():
    code = """
import os, signal, cograd, cograd.multiprocessing as mp
x = cograd.zeros(1000).share_memory_()
def die(x):
    y = cograd.ones(10).share_memory_()
    x += 1
    os.kill(os.getpid(), signal.SIGKILL)
p = mp.get_context("fork").Process(target=die, args=(x,))
p.start(); p.join()
print(p.exitcode, x.sum().item())
"""
    assert output_of(code) == "-9 1000.0\n"


def test_fork_while_threads_share():
    """The table of mappings is intact in a child, whenever the parent forks."""
    stop = threading.Event()

    def work():
        while not stop.is_set():
            torch.zeros(10).share_memory_()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(20):
            process = mp.get_context("fork").Process(target=sharing_child)
            process.start()
            process.join(60)
            assert process.exitcode == 0
            process.close()
    finally:
        stop.set()
        thread.join()


def sharing_child():
    assert torch.zeros(3).share_memory_().is_shared()
    assert (torch.rand(300, 300) @ torch.rand(300, 300)).shape == (300, 300)


def square(x):
    return x * x


def test_pools():
    with mp.get_context("spawn").Pool(2) as pool:
        values = [torch.full((3,), float(i)) for i in range(4)]
        got = pool.map(square, values)
        assert [v[0].item() for v in got] == [0, 1, 4, 9]
        pool.close()
        pool.join()


def train(index, model, count):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        loss = (model(torch.ones(1, 2)) - 3).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        count[index] += 1


def test_processes_train_one_model():
    model = torch.nn.Linear(2, 1)
    model.share_memory()
    count = torch.zeros(2).share_memory_()
    mp.spawn(train, args=(model, count), nprocs=2)
    assert count.tolist() == [1, 1]
    assert model(torch.ones(1, 2)).item() == pytest.approx(3, abs=0.05)


# ---------------------------------------------------------------- spawn


def fail(index, how):
    if index != 1:
        time.sleep(60)
    if how == "raise":
        raise ValueError("broken function")
    if how == "exit":
        sys.exit(5)
    if how == "interrupt":
        raise KeyboardInterrupt
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_failing_processes(method):
    begin = time.monotonic()
    with pytest.raises(mp.ProcessRaisedException, match="broken function") as caught:
        mp.start_processes(fail, args=("raise",), nprocs=3, start_method=method)
    assert caught.value.error_index == 1 and caught.value.error_pid > 0
    assert "-- Process 1 terminated with the following error:\nTraceback" in str(caught.value)
    with pytest.raises(
        mp.ProcessExitedException, match="process 1 terminated with exit code 5"
    ) as e:
        mp.start_processes(fail, args=("exit",), nprocs=2, start_method=method)
    assert e.value.exit_code == 5 and e.value.signal_name is None
    with pytest.raises(mp.ProcessExitedException, match="signal SIGKILL") as e:
        mp.start_processes(fail, args=("kill",), nprocs=2, start_method=method)
    assert e.value.exit_code == -9 and e.value.signal_name == "SIGKILL"
    again = pickle.loads(pickle.dumps(e.value))
    assert str(again) == str(e.value) and again.signal_name == "SIGKILL"
    assert time.monotonic() - begin < 50


def nap(index, seconds):
    time.sleep(seconds)


def test_contexts():
    context = mp.start_processes(nap, (0.5,), nprocs=2, join=False, start_method="fork")
    assert isinstance(context, mp.ProcessContext) and len(context.pids()) == 2
    assert context.join(timeout=0.01) is False
    while not context.join():
        pass
    assert context.join() is True
    assert isinstance(mp.spawn(nap, (0,), join=False), mp.SpawnContext)
    with pytest.warns(FutureWarning, match="only supports start_method=spawn"):
        mp.spawn(nap, (0,), start_method="fork")


def test_names():
    import multiprocessing

    assert set(multiprocessing.__all__) <= set(mp.__all__)
    assert mp.Process is multiprocessing.Process and torch.multiprocessing is mp
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy(before)
    with pytest.raises(ValueError, match="got 'telepathy'"):
        mp.set_sharing_strategy("telepathy")
