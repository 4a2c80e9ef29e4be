# SPDX-License-Identifier: BSD-3-Clause
"""CUDA graphs on the fake driver, which captures work as nodes and refuses what drivers refuse.

A launch runs the nodes that are ready in the reverse order of their capture, so a missing
dependency or memory that is reused early gives wrong values.
"""

import fakes
import pytest

why = None if fakes.REAL else fakes.why_not()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))
needs_fake = pytest.mark.skipif(fakes.REAL, reason="the program asks the fake driver what it did")

START = fakes.GRAPHS


def test_a_replay_computes_from_what_the_inputs_are_then():
    fakes.run(
        START
        + """
x = torch.arange(6.).cuda()
g, y = captured(lambda: (x * 2 + 1).sum().sqrt() + x)
for k in range(3):
    x.copy_(torch.full((6,), float(k)))
    g.replay()
    want = torch.full((6,), float(k))
    torch.testing.assert_close(y.cpu(), (want * 2 + 1).sum().sqrt() + want)
with cuda.stream(cuda.Stream()):  # on another stream, after the replay before
    g.replay()
    g.replay()
    assert y[0].item() == want[0] + (want * 2 + 1).sum().sqrt().item()
"""
    )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("x.cpu()", "cpu(): it waits for the GPU, which a CUDA graph cannot capture"),
        ("x[0].item()", "item(): it waits for the GPU"),
        ("x.tolist()", "Tensor.to(): it waits for the GPU"),
        ("repr(x)", "it waits for the GPU"),
        ("bool(x[0] > 0)", "item(): it waits for the GPU"),
        ("x.nonzero()", "nonzero(): it waits for the GPU"),
        ("x[x > 1]", "it waits for the GPU"),
        ("torch.ones(3).cuda()", "a copy from memory that is not pinned: it waits for the GPU"),
        ("x.copy_(torch.ones(6))", "it waits for the GPU"),
        ("torch.tensor([1.0], device='cuda')", "a copy from memory that is not pinned"),
        ("cuda.synchronize()", "cuda.synchronize(): it waits for the GPU"),
        ("cuda.current_stream().synchronize()", "Stream.synchronize(): it waits for the GPU"),
        ("cuda.current_stream().query()", "Stream.query(): it asks for progress"),
        ("early.synchronize()", "Event.synchronize(): it waits for the GPU"),
        ("early.query()", "Event.query(): it asks for progress"),
        ("cuda.current_stream().record_event().query()", "Event.query(): it asks for progress"),
        ("torch.arange(4).cuda() // 2", "it waits for the GPU"),
        ("torch.manual_seed(3)", "Generator.manual_seed(): a CUDA graph is being captured"),
        ("g.replay()", "CUDAGraph.replay(): the graph has not been captured yet"),
        ("done.replay()", "CUDAGraph.replay(): it starts another graph"),
        ("g.capture_begin()", "this graph is being captured already"),
        ("cuda.CUDAGraph().capture_begin()", "another graph captures the current stream"),
        ("cuda.graph(cuda.CUDAGraph()).__enter__()", "the current stream is being captured"),
        ("cuda.CUDAGraph().capture_end()", "no capture has begun"),
    ],
)
def test_what_cannot_be_captured_says_so_and_spoils_nothing(call, text):
    fakes.run(
        START
        + f"""
x = torch.arange(6.).cuda()
early = cuda.current_stream().record_event()
done, _ = captured(lambda: x + 1)
g = cuda.CUDAGraph()
with cuda.graph(g):
    y = x * 3
    raises(RuntimeError, {text!r}, lambda: {call})
    y += 1
g.replay()
assert y.tolist() == [3 * i + 1 for i in range(6)]

# If the block raises, the graph is empty and everything else works.
held = cuda.memory_reserved()
g = cuda.CUDAGraph()
def block():
    with cuda.graph(g):
        z = torch.ones(5 << 20, device="cuda")
        {call}
raises(RuntimeError, {text!r}, block)
assert not cuda.is_current_stream_capturing()
raises(RuntimeError, "the graph has not been captured", g.replay)
raises(RuntimeError, "no pool before it is captured", g.pool)
import gc; gc.collect()
cuda.empty_cache()
assert cuda.memory_reserved() <= held
with cuda.graph(g):
    y = x + 4
g.replay()
assert y.tolist() == [i + 4 for i in range(6)]
"""
    )


def test_ops_without_a_kernel_cannot_be_captured():
    fakes.run(
        """
x = torch.arange(3.).cuda()
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    raises(RuntimeError, "combinations(): there is no kernel for cuda:0, so it runs on the CPU, "
           "which a CUDA graph cannot capture", torch.combinations, x)
assert torch.combinations(x).tolist() == [[0, 1], [0, 2], [1, 2]]
"""
    )


def test_bad_calls():
    fakes.run(
        START
        + """
x = torch.ones(3).cuda()
g = cuda.CUDAGraph()
raises(RuntimeError, "the default stream cannot be captured", g.capture_begin)
raises(RuntimeError, "no capture has begun", g.capture_end)
raises(RuntimeError, "the graph has not been captured", g.replay)
raises(RuntimeError, "the graph has not been captured", g.instantiate)
raises(ValueError, "capture_error_mode must be one of 'global'", g.capture_begin,
       capture_error_mode="none")
raises(TypeError, "pool must be what", g.capture_begin, pool=3)
raises(TypeError, "expected a Generator", g.register_generator_state, 3)
raises(ValueError, "generator is of the CPU", g.register_generator_state, torch.Generator())
with cuda.graph(g):
    y = x + 1
raises(RuntimeError, "this graph has been captured. Call its reset()",
       cuda.graph(g).__enter__)
assert cuda.current_stream() == cuda.default_stream()
raises(RuntimeError, "needs CUDAGraph(keep_graph=True)", g.instantiate)
raises(RuntimeError, "needs CUDAGraph(keep_graph=True)", g.raw_cuda_graph)
raises(RuntimeError, "needs enable_debug_mode()", g.debug_dump, "/dev/null")
assert g.raw_cuda_graph_exec() != 0
g.reset()
raises(RuntimeError, "the graph has not been captured", g.replay)
with cuda.graph(g):
    y = x + 2
g.replay()
assert y.tolist() == [3.0] * 3
kept = cuda.CUDAGraph(keep_graph=True)
kept.enable_debug_mode()
with cuda.graph(kept):
    y = x + 3
assert kept.raw_cuda_graph() != 0
kept.instantiate()
kept.replay()
kept.instantiate()
kept.replay()
assert y.tolist() == [4.0] * 3
import tempfile
with tempfile.NamedTemporaryFile() as f:
    kept.debug_dump(f.name)
    assert b"digraph" in f.read()

def left(stream):
    with cuda.graph(cuda.CUDAGraph()):
        x + 1
        cuda.set_stream(stream)
raises(RuntimeError, "has left another stream current", left, cuda.default_stream())
assert cuda.current_stream() == cuda.default_stream() and not cuda.is_current_stream_capturing()

# A stream that joins the capture must join the captured one again.
side = cuda.Stream()
def fork():
    with cuda.graph(cuda.CUDAGraph()):
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            x + 1
raises(RuntimeError, "streams that do not join the captured one again", fork)
with cuda.stream(side):
    assert (x + 1).tolist() == [2.0] * 3
# Deleted while it captures: the capture ends.
with cuda.stream(cuda.Stream()):
    g = cuda.CUDAGraph()
    g.capture_begin()
    x + 1
    assert cuda.is_current_stream_capturing()
    del g
    assert not cuda.is_current_stream_capturing()
    assert (x + 1).tolist() == [2.0] * 3
"""
    )


@needs_fake
def test_without_a_gpu():
    fakes.run(
        """
cuda = torch.cuda
for f in (cuda.CUDAGraph, cuda.graph_pool_handle, lambda: cuda.graph(None),
          lambda: cuda.make_graphed_callables(len, (torch.ones(1),))):
    raises(RuntimeError, "requires CUDA support", f)
assert not cuda.is_current_stream_capturing()
""",
        FAKE_CUDA_DEVICES=0,
    )


@needs_fake
def test_memory_of_a_graph_is_its_own():
    fakes.run(
        START
        + """
def addresses(f, n=4):
    return {f().data_ptr() for _ in range(n)}
x = torch.ones(1000).cuda()
def work():
    a = x + 1
    at = a.data_ptr()
    del a
    b = x + 2  # reuses a's memory within the capture
    assert b.data_ptr() == at
    return b * 2
g, y = captured(work)
before = cuda.memory_reserved()
g.replay()
eager = [x + k for k in range(40)]  # none of it lies in the graph's memory
with cuda.stream(cuda.graph._streams[0]):
    eager += [torch.full((1000,), -1.0, device="cuda") for k in range(40)]
cuda.synchronize()
g.replay()
assert y.tolist() == [6.0] * 1000
assert [t[0].item() for t in eager[:40]] == [k + 1.0 for k in range(40)]
assert all(t[5].item() == -1 for t in eager[40:])

# A second graph with the same pool gets what the first one does not keep.
used = cuda.memory_reserved()
g2, z = captured(lambda: (x + 5) * 2, pool=g.pool())
assert g2.pool() == g.pool() and cuda.memory_reserved() == used
g.replay(); g2.replay()
assert y[0].item() == 6 and z[0].item() == 12
g3, w = captured(lambda: x * 7)
assert g3.pool() != g.pool() and cuda.memory_reserved() > used
# The pool lives as long as a graph or a tensor in it.
del g, eager
assert z[0].item() == 12 and y[0].item() == 6
g2.replay()
assert z[0].item() == 12
full = cuda.memory_reserved()
del g2
assert y[0].item() == 6
del y, z
cuda.synchronize()
x + 1  # looks for memory that other streams have stopped to use
assert cuda.memory_reserved() < full
assert fake.fake_cuda_graphs() == 1
g3.reset()
assert fake.fake_cuda_graphs() == 0 and w[0].item() != 8
del w, x
cuda.empty_cache()
assert cuda.memory_reserved() == 0 == fake.fake_cuda_used()
handle = cuda.graph_pool_handle()
assert handle != cuda.graph_pool_handle()
x = torch.ones(3).cuda()
g, y = captured(lambda: x + 1, pool=handle)
assert g.pool() == handle
"""
    )


def test_several_streams_in_a_capture():
    fakes.run(
        START
        + """
x = torch.arange(1000.).cuda()
side = cuda.Stream()
def work():
    main = cuda.current_stream()
    a = x + 1
    side.wait_stream(main)
    with cuda.stream(side):
        b = a * 2
    del a                      # side may still read it
    c = x * 100                # must not be in its memory
    main.wait_stream(side)
    return b + c
for mode in ("global", "thread_local", "relaxed"):
    g, y = captured(work, capture_error_mode=mode)
    for k in range(2):
        x.copy_(torch.arange(1000.) + k)
        g.replay()
        want = torch.arange(1000.) + k
        assert torch.equal(y.cpu(), (want + 1) * 2 + want * 100)
"""
    )


def test_backward_in_a_capture():
    fakes.run(
        START
        + """
x = torch.arange(6.).cuda()
w = torch.ones(6).cuda().requires_grad_()
(x * w).sum().backward()  # eager, on the default stream: the node that adds to .grad is made there
side = cuda.Stream()
g = cuda.CUDAGraph()
w.grad = None
with cuda.graph(g):
    main = cuda.current_stream()
    side.wait_stream(main)
    with cuda.stream(side):
        y = x * w
    main.wait_stream(side)
    loss = (y * y).sum()
    loss.backward()
for k in range(3):
    x.copy_(torch.arange(6.) + k)
    g.replay()
    assert w.grad.tolist() == [2.0 * (i + k) ** 2 for i in range(6)]
"""
    )


def test_random_numbers_go_on_in_replays():
    fakes.run(
        START
        + """
def draw():
    return torch.rand(100, device="cuda"), torch.nn.functional.dropout(one, 0.5)
one = torch.ones(300).cuda()
torch.manual_seed(5)
eager = [[t.cpu() for t in draw()] for _ in range(4)]
torch.manual_seed(5)
first = [t.cpu() for t in draw()]
g, out = captured(draw)
state = cuda.get_rng_state()
got = [first]
for _ in range(3):
    g.replay()
    got.append([t.cpu() for t in out])
for a, b in zip(eager, got, strict=True):
    assert torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])
assert not torch.equal(got[1][0], got[2][0])
torch.manual_seed(5)  # a replay begins where the generator stands
g.replay()
assert torch.equal(out[0].cpu(), eager[0][0])
cuda.set_rng_state(state)
g.replay()
assert torch.equal(out[0].cpu(), eager[1][0])

own = torch.Generator("cuda").manual_seed(7)
want = [torch.randn(20, device="cuda", generator=own).cpu() for _ in range(2)]
own.manual_seed(7)
def other():
    return torch.randn(20, device="cuda", generator=own)
raises(RuntimeError, "register_generator_state(generator)", captured, other)
g = cuda.CUDAGraph()
g.register_generator_state(own)
with cuda.graph(g):
    y = other()
for w in want:
    g.replay()
    assert torch.equal(y.cpu(), w)

# A checkpoint restores the position in the capture.
from cograd.utils.checkpoint import checkpoint
x = torch.ones(200).cuda().requires_grad_()
g = cuda.CUDAGraph()
with cuda.graph(g):
    y = checkpoint(lambda t: torch.nn.functional.dropout(t, 0.5) * t, x, use_reentrant=False)
    x.grad = None
    y.sum().backward()
    state = cuda.get_rng_state()
for _ in range(2):
    g.replay()
    assert torch.equal(x.grad.cpu(), 2 * y.cpu()) and 0 < (y == 0).sum().item() < 200
raises(RuntimeError, "a state of the capture of a CUDA graph", cuda.set_rng_state, state)
"""
    )


def test_constants_and_copies_from_pinned_memory():
    fakes.run(
        START
        + """
x = torch.zeros(8).cuda()
mask = (torch.arange(8) % 2 == 0).cuda()
image = torch.arange(16.).reshape(1, 1, 4, 4).cuda()
p = torch.arange(8.).pin_memory()
def work():
    a = x.masked_fill(mask, 7.0)
    b = torch.nn.functional.interpolate(image, size=(3, 5), mode="bilinear")
    c = torch.empty(8, device="cuda").copy_(p, non_blocking=True)
    return a, b, c
want = [t.cpu() for t in work()]
g, out = captured(work)
for k in range(2):
    p += k
    at = p.data_ptr()
    g.replay()
    assert torch.equal(out[0].cpu(), want[0]) and torch.equal(out[1].cpu(), want[1])
    assert torch.equal(out[2].cpu(), torch.arange(8.) + k)
# The graph keeps the block that it reads.
del p
q = torch.zeros(8).pin_memory()
assert q.data_ptr() != at
g.replay()
assert out[2][1].item() == 2
g.reset()
cuda.synchronize()
assert torch.zeros(8).pin_memory().data_ptr() == at
"""
    )


def test_late_errors_of_a_replay():
    fakes.run(
        START
        + """
x, i = torch.arange(5.).cuda(), torch.tensor([0, 4]).cuda()
logits, target = torch.randn(2, 3).cuda(), torch.tensor([0, 2]).cuda()
g, y = captured(lambda: (x[i], torch.nn.functional.cross_entropy(logits, target)))
g.replay()
torch.testing.assert_close(
    y[1].cpu(), torch.nn.functional.cross_entropy(logits.cpu(), target.cpu()))
i.copy_(torch.tensor([0, 5]))
g.replay()
raises(IndexError, "index 5 is out of bounds for dimension with size 5", cuda.synchronize)
i.copy_(torch.tensor([0, 1]))
target.copy_(torch.tensor([0, 3]))
g.replay()
raises(IndexError, "index 3 is out of bounds for dimension with size 3; a kernel of cross_entropy",
       y[0].cpu)
target.copy_(torch.tensor([0, -100]))
g.replay()
assert y[0].tolist() == [0.0, 1.0]
"""
    )


@needs_fake
def test_kernels_are_loaded_in_a_capture_of_each_mode():
    fakes.run(
        START
        + """
x = torch.arange(40.).cuda()
for k, mode in enumerate(("global", "thread_local", "relaxed")):
    f = (torch.tanh, torch.exp, torch.cos)[k]
    g, y = captured(lambda: f(x).repeat(100 * k + 1), capture_error_mode=mode)  # never run before
    g.replay()
    torch.testing.assert_close(y.cpu(), f(x.cpu()).repeat(100 * k + 1))
assert fake.fake_cuda_calls(b"cuMemAlloc_v2") > 3

# Another thread goes on while one captures.
import threading
with cuda.graph(cuda.CUDAGraph()):
    x + 1
    seen = []
    def other():
        assert not cuda.is_current_stream_capturing()
        seen.append((x * 2).sum().item())
        seen.append(torch.ones(30 << 20, device="cuda").sum().item())
        raises(RuntimeError, "is being captured on another stream", cuda.synchronize)
    t = threading.Thread(target=other)
    t.start(); t.join()
assert seen == [1560.0, float(30 << 20)]
"""
    )


@needs_fake
def test_failures_of_the_driver():
    fakes.run(
        START
        + """
x = torch.ones(4).cuda()
fake.fake_cuda_fail(b"cuStreamBeginCapture_v2", 1, 700)
raises(RuntimeError, "cuStreamBeginCapture", captured, lambda: x + 1)
assert not cuda.is_current_stream_capturing() and cuda.current_stream() == cuda.default_stream()
fake.fake_cuda_fail(b"cuGraphInstantiateWithFlags", 1, 2)
raises(RuntimeError, "cuGraphInstantiateWithFlags", captured, lambda: x + 1)
g, y = captured(lambda: x + 1)
fake.fake_cuda_fail(b"cuGraphLaunch", 1, 700)
raises(RuntimeError, "cuGraphLaunch", g.replay)
g.replay()
assert y.tolist() == [2.0] * 4
# A call behind cograd's back spoils a capture; its end says so.
def spoilt():
    with cuda.graph(cuda.CUDAGraph()):
        fake.cuCtxSynchronize()
raises(RuntimeError, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED from cuStreamEndCapture", spoilt)
g, y = captured(lambda: x + 2)
g.replay()
assert y.tolist() == [3.0] * 4
fake.fake_cuda_fail(b"cuMemAlloc_v2", 2, 2)  # the first one is for the generator's position
raises(cuda.OutOfMemoryError, "CUDA out of memory", captured,
       lambda: torch.ones(40 << 20, device="cuda"))
assert (x + 1).tolist() == [2.0] * 4
pid = os.fork()
if pid == 0:
    try:
        raises(RuntimeError, "Cannot re-initialize CUDA in forked subprocess", g.replay)
        raises(RuntimeError, "Cannot re-initialize CUDA", captured, lambda: x + 1)
        del g
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
    )


STEPS = """
nn = torch.nn
def network(device):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.Tanh(),
                         nn.Linear(8, 3)).to(device)
def batch(i):
    g = torch.Generator().manual_seed(i)
    return torch.randn(6, 4, generator=g), torch.randint(0, 3, (6,), generator=g)
def train(device, make, graphed, steps=7):
    model = network(device)
    optimizer = make(model.parameters())
    x, target = (t.to(device) for t in batch(0))
    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss
    def load(i):
        for to, t in zip((x, target), batch(i)):
            to.copy_(t)
    losses, first = [], 3 if graphed else steps
    stream = cuda.Stream() if graphed else None
    with cuda.stream(stream) if graphed else torch.enable_grad():
        for i in range(first):
            load(i)
            losses.append(step().item())
    if graphed:
        cuda.current_stream().wait_stream(stream)
        g = cuda.CUDAGraph()
        with cuda.graph(g):
            loss = step()
        for i in range(first, steps):
            load(i)
            g.replay()
            losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()], optimizer
"""
OPTIMIZERS = [
    ("SGD", "lr=0.1, momentum=0.9"),
    ("Adam", "lr=0.05, capturable=True"),
    ("Adam", "lr=torch.tensor(0.05, device='cuda'), weight_decay=0.1, capturable=True"),
    ("AdamW", "lr=0.05, amsgrad=True, capturable=True"),
    ("RAdam", "lr=0.05, capturable=True"),
    ("NAdam", "lr=0.05, capturable=True"),
    ("Adamax", "lr=0.05, capturable=True"),
    ("ASGD", "lr=0.05, t0=2, capturable=True"),
    ("Rprop", "lr=0.05, capturable=True"),
    ("RMSprop", "lr=0.05, momentum=0.5, centered=True, capturable=True"),
    ("Adadelta", "lr=0.5, capturable=True"),
]


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_training_steps(name, options):
    fakes.run(
        START
        + STEPS
        + f"""
make = lambda p: torch.optim.{name}(p, {options})
cpu = lambda p: torch.optim.{name}(p, {options.replace(", device='cuda'", "")})
a, p, _ = train("cpu", cpu, False)
b, q, optimizer = train("cuda", make, True)
torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
for s, t in zip(p, q, strict=True):
    torch.testing.assert_close(s, t, rtol=1e-4, atol=1e-4)
for state in optimizer.state.values():
    if "capturable" in {options!r}:
        assert state["step"].is_cuda and state["step"].item() == 7
saved = optimizer.state_dict()
optimizer.load_state_dict(saved)
for state in optimizer.state.values():
    assert "step" not in state or state["step"].is_cuda
"""
    )


def test_optimizers_that_a_capture_would_make_wrong():
    fakes.run(
        START
        + """
w = torch.ones(3).cuda().requires_grad_()
w.grad = torch.ones_like(w)
for name in ("Adam", "Adagrad"):
    optimizer = getattr(torch.optim, name)([w])
    optimizer.step()
    advice = "Adam(..., capturable=True)" if name == "Adam" else "Adagrad has no capturable steps"
    raises(RuntimeError, "being captured, but capturable is False", captured, optimizer.step)
    raises(RuntimeError, advice, captured, optimizer.step)
before = w.tolist()
for optimizer in (torch.optim.Adam([w], capturable=True), torch.optim.SGD([w], momentum=0.5)):
    raises(RuntimeError, "Take a step before the capture", captured, optimizer.step)
assert w.tolist() == before
"""
    )


def test_make_graphed_callables():
    fakes.run(
        START
        + """
nn = torch.nn
make = cuda.make_graphed_callables
torch.manual_seed(0)
first, second = nn.Linear(4, 5).cuda(), nn.Sequential(nn.Linear(5, 3), nn.Tanh()).cuda()
import copy
eager = copy.deepcopy([first, second])
x = torch.randn(6, 4).cuda()
h = torch.randn(6, 5).cuda().requires_grad_()
parts = make((first, second), ((x,), (h,)))
assert parts == (first, second)
for k in range(3):
    data = torch.randn(6, 4).cuda()
    for m in (first, second, *eager):
        m.zero_grad()
    y = second(first(data))
    want = eager[1](eager[0](data))
    torch.testing.assert_close(y, want)
    (y * (k + 1)).sum().backward()
    (want * (k + 1)).sum().backward()
    for m, n in zip((first, second), eager):
        for p, q in zip(m.parameters(), n.parameters()):
            torch.testing.assert_close(p.grad, q.grad)
second.eval()
torch.testing.assert_close(second(h.detach() * 2), eager[1](h.detach() * 2))
raises(RuntimeError, "(2, 4)", first, torch.ones(2, 4).cuda())
raises(TypeError, "those of the capture were", first, x, x)

def f(a, pair):
    b, c = pair["b"], pair["c"]
    return {"sum": a * b + c, "flag": a > 0}
a, b, c = (torch.randn(4).cuda() for _ in range(3))
a.requires_grad_()
b.requires_grad_()
g = make(f, (a, {"b": b, "c": c}))
for k in range(2):
    a2, b2, c2 = (torch.randn(4).cuda() for _ in range(3))
    a2.requires_grad_()
    b2.requires_grad_()
    out = g(a2, {"b": b2, "c": c2})
    torch.testing.assert_close(out["sum"], a2 * b2 + c2)
    assert torch.equal(out["flag"], a2 > 0) and not out["flag"].requires_grad
    out["sum"].sum().backward()
    torch.testing.assert_close(a2.grad, b2.detach())
    torch.testing.assert_close(b2.grad, a2.detach())

def unused(a, b):
    return a * 2
raises(RuntimeError, "", make, unused, (a, b))
g = make(unused, (a, b), allow_unused_input=True, num_warmup_iters=1, pool=cuda.graph_pool_handle())
g(a, b).sum().backward()
assert a.grad.tolist() == [2.0] * 4 and b.grad is None
g = make(lambda t: t + 1, (c,))
want = c.cpu() * 3 + 1
assert torch.equal(g(c * 3).cpu(), want) and torch.equal(c.cpu() + 1, want)  # c is the input
raises(TypeError, "must consist of tensors", make, f, (a, 3))
raises(TypeError, "must be a tuple", make, f, a)
raises(ValueError, "got 2 callables, but sample_args for 1", make, (f, f), ((a,),))
hooked = nn.Linear(4, 4).cuda()
hooked.register_forward_hook(lambda *args: None)
raises(RuntimeError, "has hooks", make, hooked, (x,))
with torch.autocast("cuda"):
    raises(RuntimeError, "cache_enabled=False", make, nn.Linear(4, 4).cuda(), (x,))
"""
    )


def test_arguments_of_graphed_callables():
    fakes.run(
        START
        + """
make = cuda.make_graphed_callables
a, b, wide = (torch.randn(3, n).cuda() for n in (3, 3, 6))
def f(x, y):
    return x - 2 * y
g = make(f, (a, b))
grad = torch.ones(3, 3, device="cuda", requires_grad=True)
raises(RuntimeError, "graphed callable: tensor 1 of the arguments requires grad, that of the "
       "capture did not", g, a, grad)
raises(RuntimeError, "tensor 0 of the arguments requires grad", g, grad * 2, b)
with torch.no_grad():
    assert torch.equal(g(grad, b).cpu(), f(grad, b).cpu())
assert torch.equal(g(grad.detach(), b).cpu(), f(grad, b).cpu())
for bad in (a.double(), a[:2], a[None], a.cpu(), a.to("cuda:1")):
    raises(RuntimeError, "tensor 0 of the arguments has shape, dtype and device", g, bad, b)

# Strides may differ, also of the memory of the samples.
for make_arguments in (lambda: (a.t(), b), lambda: (b, a), lambda: (b, b), lambda: (a, a.t()),
                       lambda: (b.t(), a.t()), lambda: (wide[:, ::2], b),
                       lambda: (torch.ones(1, 1).cuda().expand(3, 3), a), lambda: (a, b)):
    want = f(*(t.cpu() for t in make_arguments()))
    assert torch.equal(g(*make_arguments()).cpu(), want)
    a.copy_(torch.randn(3, 3))
    b.copy_(torch.randn(3, 3))
raises(RuntimeError, "tensors 0 and 1 of sample_args share memory", make, f, (a, a))
parts = torch.randn(2, 4).cuda().unbind()
assert torch.equal(make(f, parts)(*parts).cpu(), f(*parts).cpu())

# A sample that requires grad takes arguments that do not.
g = make(f, (torch.randn(3, 3).cuda().requires_grad_(), b))
y = g(grad, b)
y.sum().backward()
assert grad.grad.tolist() == [[1.0] * 3] * 3
assert torch.equal(g(a, b).cpu(), f(a, b).cpu())
""",
        FAKE_CUDA_DEVICES=2,
    )


def test_sync_debug_mode():
    fakes.run(
        """
import warnings
cuda = torch.cuda
x = torch.arange(4.).cuda()
assert cuda.get_sync_debug_mode() == 0
for bad in ("loud", 3, -1):
    raises(RuntimeError, "expected 'default', 'warn', 'error'", cuda.set_sync_debug_mode, bad)
cuda.set_sync_debug_mode("warn")
assert cuda.get_sync_debug_mode() == 1
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    y = x * 2 + 1
    assert not seen
    assert y[1].item() == 3
    x.nonzero()
assert [str(w.message).split(":")[0] for w in seen[:2]] == ["item()", "nonzero()"], seen
cuda.set_sync_debug_mode(2)
raises(RuntimeError, "item(): it waits for the GPU (set_sync_debug_mode)", x[0].item)
raises(RuntimeError, "cpu(): it waits", x.cpu)
raises(RuntimeError, "Stream.synchronize()", cuda.current_stream().synchronize)
cuda.synchronize()
cuda.set_sync_debug_mode("default")
assert x.tolist() == [0, 1, 2, 3]
"""
    )


def test_libraries_in_a_capture():
    """cuFFT and cuBLAS are captured, plans live on, and cuSOLVER is refused before it starts."""
    fakes.run(
        START
        + """
torch.manual_seed(0)
a = (torch.randn(3, 3).tril() + 3 * torch.eye(3)).cuda()
b = torch.randn(3, 2).cuda()
x = torch.randn(4, 8).cuda()
solve = lambda: torch.linalg.solve_triangular(a, b, upper=False)
transform = lambda: torch.fft.rfft(x).abs()
solve(), transform()
cuda.synchronize()
g, (y, z) = captured(lambda: (solve() * 2, transform() + 1))
torch.backends.cuda.cufft_plan_cache.clear()
for _ in range(3):
    b.copy_(torch.randn(3, 2))
    x.copy_(torch.randn(4, 8))
    g.replay()
    torch.testing.assert_close(y, solve() * 2)
    torch.testing.assert_close(z, transform() + 1)

def refused(f, text):
    def both():
        try:
            f()
        except RuntimeError as e:
            assert text in str(e), e
        else:
            raise AssertionError("captured")
        return x + 1
    g, out = captured(both)  # the capture goes on
    g.replay()
    assert torch.equal(out, x + 1)

refused(lambda: torch.fft.fft(torch.zeros(5, device="cuda")), "prepares a transform")
for f in (torch.linalg.qr, torch.linalg.eigvalsh, torch.linalg.svdvals):
    f(a)
    refused(lambda: f(a), "which a CUDA graph cannot capture")
before = cuda.memory_allocated()
g, out = captured(lambda: (cuda.empty_cache(), x * 3)[1])
g.replay()
assert torch.equal(out, x * 3)
"""
    )


def test_a_replay_while_another_capture_runs():
    """The stream of the last replay is captured by then; the replay does not join that capture."""
    fakes.run(
        START
        + """
x = torch.ones(3).cuda()
s, t = cuda.Stream(), cuda.Stream()
g, y = captured(lambda: x + 1)
with cuda.stream(s):
    g.replay()
cuda.synchronize()
other = cuda.CUDAGraph()
with cuda.stream(s):
    other.capture_begin(capture_error_mode="relaxed")
    z = x * 5
x.fill_(2.0)
with cuda.stream(t):
    g.replay()
with cuda.stream(s):
    other.capture_end()
cuda.synchronize()
assert y.tolist() == [3.0] * 3
other.replay()
assert z.tolist() == [10.0] * 3
"""
    )
