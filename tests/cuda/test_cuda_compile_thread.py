# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of gradients are compiled in the background while forward runs."""

import fakes
import pytest

pytestmark = pytest.mark.skipif(fakes.why_not() is not None, reason=str(fakes.why_not()))

COUNT = """
def compiled():
    return _C._cuda_compilations()[0]
def forward():
    x = torch.rand(8).cuda().requires_grad_()
    return x, (x.tanh() * x).atan()
"""


def test_backward_finds_its_kernels(tmp_path):
    fakes.run(
        COUNT
        + """
x, y = forward()
_C._cuda_wait_for_compile_threads()
before = compiled()
g = torch.rand(8).cuda()
asked = fake.fake_cuda_calls(b"cuModuleLoadData")
y.backward(g)
# The gradients of tanh, mul and atan were there; what is added is the sum of two gradients.
assert compiled() - before <= 1, (compiled() - before, _C._cuda_compilations())
assert fake.fake_cuda_calls(b"cuModuleLoadData") - asked >= 3
c = x.detach().cpu().requires_grad_()
(c.tanh() * c).atan().backward(g.cpu())
assert torch.allclose(x.grad.cpu(), c.grad)
""",
        COGRAD_COMPILE_THREAD=1,
        COGRAD_KERNEL_CACHE=tmp_path,
    )


def test_without_a_cache_and_without_recording():
    fakes.run(
        COUNT
        + """
x = torch.rand(8).cuda()
with torch.no_grad():
    x.tanh()
_C._cuda_wait_for_compile_threads()
n = compiled()
x.tanh()  # nothing requires grad
_C._cuda_wait_for_compile_threads()
assert compiled() == n
x.requires_grad_()
y = x.tanh()
_C._cuda_wait_for_compile_threads()
assert compiled() == n + 1, (compiled(), n)
for _ in range(3):
    x.tanh()
_C._cuda_wait_for_compile_threads()
assert compiled() == n + 1
y.backward(torch.ones(8).cuda())
""",
        COGRAD_COMPILE_THREAD=1,
        COGRAD_KERNEL_CACHE="",
    )


@pytest.mark.parametrize("off", ["variable", "policy"])
def test_it_can_be_off(off, tmp_path):
    fakes.run(
        COUNT
        + f"""
x = torch.rand(8).cuda().requires_grad_()
with torch.no_grad():
    x.tanh()
torch.cuda.set_sync_debug_mode({"error" if off == "policy" else "default"!r})
n = compiled()
y = x.tanh()
_C._cuda_wait_for_compile_threads()
assert compiled() == n, (compiled(), n)
torch.cuda.set_sync_debug_mode("default")
y = x.tanh()
_C._cuda_wait_for_compile_threads()
assert compiled() == n + {1 if off == "policy" else 0}
y.backward(torch.ones(8).cuda())
assert compiled() == n + 1
""",
        COGRAD_COMPILE_THREAD=1 if off == "policy" else 0,
        COGRAD_KERNEL_CACHE=tmp_path,
    )


def test_errors_come_when_the_kernel_is_needed(tmp_path):
    fakes.run(
        COUNT
        + """
x = torch.rand(8).cuda().requires_grad_()
with torch.no_grad():
    x.tanh()
    x * x
ones = torch.ones(8).cuda()
os.environ["CXX"] = "/bin/false"
y = x.tanh()
_C._cuda_wait_for_compile_threads()
y.cpu()  # nothing is wrong so far
raises(RuntimeError, "could not compile", y.backward, ones)
del os.environ["CXX"]
y = x.tanh()
y.backward(ones)
c = x.detach().cpu().requires_grad_()
c.tanh().backward(torch.ones(8))
assert torch.allclose(x.grad.cpu(), c.grad)
""",
        COGRAD_COMPILE_THREAD=1,
        COGRAD_KERNEL_CACHE=tmp_path,
    )


SLOW = """
import time
slow = os.path.join(os.environ["SLOW"], "slow-g++")
with open(slow, "w") as f:
    f.write("#!/bin/sh\\nsleep 1\\nexec g++ \\"$@\\"\\n")
os.chmod(slow, 0o755)
x = torch.rand(8).cuda().requires_grad_()
with torch.no_grad():
    x.tanh()
ones = torch.ones(8).cuda()
os.environ["CXX"] = slow
n = compiled()
"""


def test_who_needs_it_waits_for_the_running_compiler(tmp_path):
    fakes.run(
        COUNT
        + SLOW
        + """
import threading
y = x.tanh()
time.sleep(0.3)  # it runs
grads = [None] * 8
def run(i):
    grads[i] = torch.autograd.grad(y, x, ones, retain_graph=True)[0]
threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
assert compiled() == n + 1, (compiled(), n)
assert all(torch.equal(g.cpu(), grads[0].cpu()) for g in grads)
""",
        COGRAD_COMPILE_THREAD=1,
        COGRAD_KERNEL_CACHE="",
        SLOW=tmp_path,
    )


def test_fork_exit_and_interrupt(tmp_path):
    fakes.run(
        COUNT
        + SLOW
        + """
import signal
y = x.tanh()
z = x.atan() + x.sinh()  # more programs than one thread has done by the fork
time.sleep(0.2)
pid = os.fork()
if pid == 0:
    raises(RuntimeError, "forked subprocess", lambda: x + 1)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
_C._cuda_wait_for_compile_threads()  # the parent goes on
assert compiled() >= n + 3
w = x.cosh()
def interrupt(signum, frame):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.2)
raises(KeyboardInterrupt, "", _C._cuda_wait_for_compile_threads)
y.backward(ones)
v = x.asinh()  # is being compiled when the program ends
""",
        COGRAD_COMPILE_THREAD=1,
        COGRAD_KERNEL_CACHE="",
        SLOW=tmp_path,
    )


def test_many_threads_and_programs():
    """Threads that record and differentiate the same ops at once compile each program once."""
    fakes.run(
        COUNT
        + """
import threading
names = ["tanh", "exp", "sin", "atan", "sinh", "erf", "sigmoid", "cosh"]
x = torch.rand(8).cuda()
ones = torch.ones(8).cuda()
want = {}
for name in names:
    c = x.cpu().requires_grad_()
    getattr(c, name)().backward(torch.ones(8))
    want[name] = c.grad
failed = []
def run(turn):
    try:
        for i in range(len(names)):
            name = names[(i + turn) % len(names)]
            a = x.clone().requires_grad_()
            getattr(a, name)().backward(ones)
            assert torch.allclose(a.grad.cpu(), want[name], atol=1e-6), name
    except BaseException as e:
        failed.append(e)
threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
assert not failed, failed
_C._cuda_wait_for_compile_threads()
n = compiled()
assert n <= 2 * len(names) + 6, n
""",
        COGRAD_COMPILE_THREAD=1,
        COGRAD_KERNEL_CACHE="",
    )


def test_precompile_compiles_kernels_at_once(tmp_path):
    fakes.run(
        COUNT
        + SLOW
        + """
kernels = [torch.cuda.kernel("__global__ void f%d(float* x) { x[0] = %d; }" % (i, i))
           for i in range(4)]
began = time.monotonic()
assert torch.cuda.precompile(kernels) == 4
spent = time.monotonic() - began
seconds = _C._cuda_compilations()[1]
assert spent < 0.8 * seconds or len(os.sched_getaffinity(0)) == 1, (spent, seconds)
""",
        COGRAD_COMPILE_THREAD=1,
        COGRAD_KERNEL_CACHE="",
        SLOW=tmp_path,
    )


def test_threads_above_the_limit_end(tmp_path):
    fakes.run(
        COUNT
        + SLOW
        + """
def running():
    return len(os.listdir("/proc/self/task"))
before = running()
_C._cuda_compile_threads(4)
for name in ("exp", "sin", "atan", "sinh", "erf"):
    with torch.no_grad():
        getattr(x, name)()  # else each call waits for a kernel of its own
ys = [getattr(x, name)() for name in ("exp", "sin", "atan", "sinh", "erf")]
assert running() > before + 1, (running(), before)
_C._cuda_compile_threads(1)
_C._cuda_wait_for_compile_threads()
for _ in range(200):
    if running() <= before + 1:
        break
    time.sleep(0.01)
assert running() <= before + 1, (running(), before)
n = compiled()
y = x.cosh()  # the one that is left still works
_C._cuda_wait_for_compile_threads()
assert compiled() > n
_C._cuda_compile_threads(3)
z = [x.asinh(), x.log1p(), x.rsqrt()]
assert os.fork() or os._exit(0) is None
_C._cuda_wait_for_compile_threads()
for t in ys + z + [y]:
    t.backward(ones, retain_graph=True)
""",
        COGRAD_COMPILE_THREAD=1,
        COGRAD_KERNEL_CACHE="",
        SLOW=tmp_path,
    )
