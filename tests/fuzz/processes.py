# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs that fork, exit, are interrupted or killed; each must end and leave nothing behind.

A scenario is a script for a new interpreter. Afterwards case() checks its exit status, its output,
its child processes and the names in /dev/shm.
"""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time

from fuzz.execute import Wrong

HERE = os.path.dirname(os.path.abspath(__file__))
START = """
import atexit, ctypes, gc, os, random, signal, sys, threading, time
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a hunt that ends leaves nothing
sys.path.insert(0, {tests!r})
import cograd as torch
from cograd import _C
from fuzz.programs import OF_OTHERS, PROGRAMS
rng = random.Random({seed})
torch.set_num_threads({threads})
program = PROGRAMS[{seed} % len(PROGRAMS)]
big = torch.ones(300, 300, requires_grad=True)
def work():
    x = big
    for _ in range(3):
        x = (x @ x).tanh() + x.exp().log()
    x.sum().backward()
    return program()
program()  # imports all modules: a child forked during an import would wait for it forever
"""
# A script prints "end" if it gets that far; the second item has the exit statuses that are allowed.
SCENARIOS = {
    "exit with threads running": (
        """
        if program in OF_OTHERS:
            program = PROGRAMS[0]
        def loop():
            while True:
                work()
        for _ in range(3):
            threading.Thread(target=loop, daemon=True).start()
        time.sleep(rng.random() / 3)
        print("end", flush=True)
        """,
        (0,),
    ),
    "exit while Python code runs below the core": (
        """
        gc.set_threshold(20, 2, 2)  # before Python 3.12 any allocation may collect
        class Cycle:
            def __init__(self):
                self.self = self
            def __del__(self):
                time.sleep(0)
        class Index:
            def __index__(self):
                time.sleep(0)
                return 2
        class Sequence(list):
            def __getitem__(self, i):
                time.sleep(0)
                return list.__getitem__(self, i)
        class Overrides(torch.Tensor):
            @classmethod
            def __torch_function__(cls, f, types, args=(), kwargs=None):
                time.sleep(0)
                return super().__torch_function__(f, types, args, kwargs or {})
        def loop():
            while True:
                x = torch.ones(3, requires_grad=True)
                x.name_of_mine = Cycle()
                x.register_hook(lambda g: (time.sleep(0), g)[1])
                y = torch.ones(4).reshape(Index(), Index())
                y[Index():] = 3
                torch.ones(3).as_subclass(Overrides) + 1
                torch.cat(Sequence([x, x])).sum().backward()
                torch.autograd.grad((x * x).sum(), [x])
        for _ in range(4):
            threading.Thread(target=loop, daemon=True).start()
        time.sleep(0.1 + rng.random() / 5)
        print("end", flush=True)
        """,
        (0,),
    ),
    "work at exit": (
        """
        atexit.register(lambda: (work(), print("end", flush=True)))
        class Late:
            def __del__(self):
                if torch.ones is not None:  # modules are emptied at the end
                    torch.ones(3).add(1).sum()
        keep = Late()
        torch.keep = [Late(), torch.ones(3, requires_grad=True) * 2]
        work()
        """,
        (0,),
    ),
    "fork in a hook": (
        """
        children = []
        def hook(g):
            if len(children) < 3:
                child = os.fork()
                if child == 0:
                    with torch.enable_grad():
                        work()
                    os._exit(7)
                children.append(child)
            return g
        x = torch.ones(200, 200, requires_grad=True)
        y = x * 2
        y.register_hook(hook)
        (y @ y).sum().backward()
        (y.detach() @ x).sum().backward()
        assert all(os.waitstatus_to_exitcode(os.waitpid(c, 0)[1]) == 7 for c in children), "child"
        assert children
        print("end", flush=True)
        """,
        (0,),
    ),
    "fork while threads work": (
        """
        stop = []
        def loop():
            while not stop:
                work()
        threads = [threading.Thread(target=loop) for _ in range(2)]
        for t in threads: t.start()
        codes = []
        for _ in range(5):
            time.sleep(rng.random() / 50)
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                big.grad = None
                work()
                os._exit(7)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stop.append(1)
        assert codes == [7] * 5, codes
        for t in threads: t.join()
        print("end", flush=True)
        """,
        (0,),
    ),
    "keyboard interrupts": (
        """
        want = program()
        count = 0
        def ring(*_):
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, ring)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, rng.random() / 300 + 1e-5)
                    program()
                    work()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                count += 1
            except (RuntimeError, SystemError, ImportError) as e:
                if not isinstance(e.__cause__ or e.__context__, KeyboardInterrupt): raise
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled(), "mode"
        got = program()
        assert got == want, (got, want)
        gc.collect()
        assert count > 3, count
        print("end", flush=True)
        """,
        (0,),
    ),
    "killed": (
        """
        shared = torch.ones(1000).share_memory_()
        print("end", flush=True)  # first: a random time may be none
        threading.Thread(target=lambda: (time.sleep(rng.random() / 3), os.kill(os.getpid(), signal.SIGKILL))).start()
        while True:
            work()
        """,
        (-9,),
    ),
    "sys.exit in a backward": (
        """
        x = torch.ones(3, requires_grad=True)
        x.register_hook(lambda g: sys.exit(5))
        print("end", flush=True)
        (x * 2).sum().backward()
        """,
        (5,),
    ),
    "spawned workers and shared memory": (
        """
        import cograd.multiprocessing as mp
        def send(queue, t):
            t.add_(1)
            queue.put(t * 2)
            done.wait(60)  # who receives memory takes it from a sender that lives
        context = mp.get_context("fork")
        queue, done = context.Queue(), context.Event()
        t = torch.ones(50).share_memory_()
        workers = [context.Process(target=send, args=(queue, t)) for _ in range(3)]
        for w in workers: w.start()
        got = [queue.get(timeout=60) for _ in workers]
        done.set()
        for w in workers: w.join()
        assert t[0] == 4 or 2 <= t[0] <= 4
        print("end", flush=True)
        """,
        (0,),
    ),
    "a worker that dies": (
        """
        from cograd.utils.data import DataLoader
        class Items:
            def __len__(self): return 50
            def __getitem__(self, i):
                if i == 20: os.kill(os.getpid(), signal.SIGKILL)
                return torch.ones(3) * i
        try:
            for batch in DataLoader(Items(), batch_size=5, num_workers=2):
                pass
        except RuntimeError as e:
            print("end", flush=True)
        """,
        (0,),
    ),
}


def names_in_shm():
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


def run_script(script, seed, seconds=120, threads=2):
    """Runs a script; returns (status, output, whether a process of its group was left)."""
    text = START.format(tests=os.path.dirname(HERE), seed=seed, threads=threads)
    process = subprocess.Popen(
        [
            sys.executable,
            "-X",
            "faulthandler",
            "-W",
            "ignore",
            "-c",
            text + textwrap.dedent(script),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGABRT)  # faulthandler writes where it hangs
        out, _ = process.communicate()
        return "hang", out, False
    left = False
    for _ in range(50):  # the children of a killed program end a moment later
        try:
            os.killpg(process.pid, 0)
            left = True
        except ProcessLookupError:
            left = False
            break
        time.sleep(0.1)
    if left:
        os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, out, left


def case(seed):
    name = sorted(SCENARIOS)[seed % len(SCENARIOS)]
    script, allowed = SCENARIOS[name]
    before = names_in_shm()
    threads = random.Random(seed).choice((1, 2, 4))
    status, out, left = run_script(script, seed, threads=threads)
    if status not in allowed:
        raise Wrong(f"{name}: ended with {status}: {out[-1800:]}")
    if "end" not in out or "Fatal" in out or "Traceback" in out:
        raise Wrong(f"{name}: {out[-1800:]}")
    if left:
        raise Wrong(f"{name}: processes were left behind")
    if new := [n for n in names_in_shm() - before if "cograd" in n or "torch" in n]:
        raise Wrong(f"{name}: names were left in /dev/shm: {new}")


def describe(seed):
    return sorted(SCENARIOS)[seed % len(SCENARIOS)]
