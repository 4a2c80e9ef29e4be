# SPDX-License-Identifier: BSD-3-Clause
"""profiler, hub, storage, types and utils.model_zoo: torch's namespaces as far as supported."""

import collections
import gzip
import json
import threading

import pytest

import cograd as torch
from cograd.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)

NONE, WARMUP, RECORD, SAVE = ProfilerAction


def work():
    x = torch.ones(8, requires_grad=True)
    with record_function("part"):
        x.exp().sum().backward()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"wait": 1, "warmup": 1, "active": 2}, [NONE, WARMUP, RECORD, SAVE] * 2),
        ({"wait": 0, "warmup": 0, "active": 1, "repeat": 2}, [SAVE, SAVE, NONE, NONE]),
        ({"wait": 1, "warmup": 0, "active": 1, "skip_first": 2}, [NONE, NONE, NONE, SAVE]),
        (
            {"wait": 2, "warmup": 0, "active": 1, "skip_first": 1, "skip_first_wait": 1},
            [NONE, SAVE, NONE, NONE, SAVE],
        ),
    ],
)
def test_schedule(options, expected):
    action = schedule(**options)
    assert [action(i) for i in range(len(expected))] == expected


def test_schedules_that_cannot_be():
    with pytest.raises(AssertionError, match="active is at least 1"):
        schedule(wait=0, warmup=0, active=0)
    with pytest.raises(AssertionError, match="not negative"):
        schedule(wait=0, warmup=0, active=1)(-1)


def test_everything_is_recorded_without_a_schedule():
    ready = []
    with profile(activities=[ProfilerActivity.CPU], on_trace_ready=ready.append) as prof:
        work()
        prof.step()
        work()
    assert ready == [prof]
    counts = {e.key: e.count for e in prof.key_averages() if e.kind != "node"}
    assert counts["exp"] == 2 and counts["part"] == 2
    assert "exp" in prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=5)


def test_cycles_of_steps(tmp_path):
    seen = []

    def ready(prof):
        assert prof.current_action is ProfilerAction.NONE
        seen.append((prof.step_num, [e.name for e in prof.events() if e.kind == "user"]))

    cycle = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=cycle, on_trace_ready=ready) as prof:
        for _ in range(10):
            work()
            prof.step()
    steps = [[f"ProfilerStep#{i}", "part", f"ProfilerStep#{i + 1}", "part"] for i in (2, 6)]
    assert seen == [(4, steps[0]), (8, steps[1])]  # torch's numbers: the next step has begun


def test_a_program_that_stops_within_a_cycle():
    ready = []
    with profile(schedule=schedule(wait=0, warmup=0, active=5), on_trace_ready=ready.append) as p:
        work()
    assert ready == [p] and len(p.events()) > 2
    waits = schedule(wait=1, warmup=0, active=1)
    with profile(schedule=waits, on_trace_ready=ready.append) as idle:
        work()
    assert len(ready) == 1
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        idle.events()


def test_errors_leave_no_profile_running():
    with pytest.raises(ZeroDivisionError), profile(schedule=schedule(wait=0, warmup=0, active=2)):
        work()
        1 / 0
    with profile():  # would raise if the other one still ran
        work()


def test_events_of_all_cycles():
    each = schedule(wait=0, warmup=0, active=1)
    with profile(schedule=each, acc_events=True) as prof:
        for _ in range(3):
            work()
            prof.step()
    assert sum(e.name == "part" for e in prof.events()) == 3


def test_traces(tmp_path):
    handler = tensorboard_trace_handler(str(tmp_path / "log"), "me", use_gzip=True)
    with profile(on_trace_ready=handler) as prof:
        prof.add_metadata_json("batch", "32")
        work()
    (path,) = (tmp_path / "log").iterdir()
    assert path.name.startswith("me.") and path.name.endswith(".pt.trace.json.gz")
    trace = json.loads(gzip.decompress(path.read_bytes()))
    assert trace["batch"] == 32
    assert {"exp", "part"} <= {e["name"] for e in trace["traceEvents"]}
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="Can't create directory"):
        tensorboard_trace_handler(str(tmp_path / "file" / "log"))(prof)
    with pytest.raises(ValueError, match=r"only \.html"):
        prof.export_memory_timeline("m.json")


def test_activities():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]).activities == {
            ProfilerActivity.CPU
        }
    with (
        pytest.warns(UserWarning, match="CUDA"),
        pytest.raises(AssertionError, match="No valid profiler activities"),
    ):
        profile(activities=[ProfilerActivity.CUDA])
    with pytest.raises(TypeError, match="ProfilerActivity, got str"):
        profile(activities=["cpu"])


def test_hub_reads_folders(tmp_path):
    (tmp_path / "layers.py").write_text("SIZE = 3\n")
    (tmp_path / "hubconf.py").write_text(
        "import cograd\nfrom layers import SIZE\n\n"
        "def net(bias=True):\n    'A net.'\n    return cograd.nn.Linear(SIZE, 1, bias=bias)\n"
    )
    folder = str(tmp_path)
    assert torch.hub.list(folder, source="local") == ["net"]
    assert torch.hub.help(folder, "net", source="local") == "A net."
    assert torch.hub.load(folder, "net", source="local", bias=False).bias is None
    with pytest.raises(RuntimeError, match="Cannot find callable nets"):
        torch.hub.load(folder, "nets", source="local")
    with pytest.raises(NotImplementedError, match="nothing is downloaded"):
        torch.hub.load("someone/repository", "net")


def test_files_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.hub, "_dir", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert torch.hub.get_dir() == str(tmp_path / "hub")
    torch.hub.set_dir(tmp_path)
    url = "https://example.com/nets/net-1.pth?x=1"
    with pytest.raises(NotImplementedError, match=r"checkpoints/net-1\.pth' is not there: nothing"):
        torch.hub.load_state_dict_from_url(url)
    (tmp_path / "checkpoints").mkdir()
    torch.save({"w": torch.arange(3)}, tmp_path / "checkpoints" / "net-1.pth")
    assert torch.utils.model_zoo.load_url(url)["w"].tolist() == [0, 1, 2]
    with pytest.raises(NotImplementedError, match="get the file yourself"):
        torch.hub.download_url_to_file(url, "x")


def test_storages_and_types():
    x = torch.arange(4.0)
    assert isinstance(x.untyped_storage(), torch.storage.UntypedStorage)
    assert isinstance(x.storage(), torch.storage.TypedStorage)
    assert isinstance(3, torch.types.Number) and isinstance(x.shape, torch.types._size)
    assert torch.types.Storage is torch.storage.UntypedStorage


@pytest.mark.parametrize(
    ("place", "name", "answer"),
    [
        (torch.utils.benchmark, "Compare", "print of each Measurement"),
        (torch.utils.benchmark, "Fuzzer", "hypothesis"),
        (torch.utils, "flop_counter", "autograd.profiler"),
        (torch.utils, "mobile_optimizer", "this export is not offered"),
        (torch.profiler, "ExecutionTraceObserver", "torch's own machinery"),
    ],
)
def test_the_rest_answers(place, name, answer):
    with pytest.raises(AttributeError, match=answer):
        getattr(place, name)


def test_the_old_name_of_schedules():
    old = torch.optim.lr_scheduler._LRScheduler

    class Halving(old):
        def get_lr(self):
            return [lr * 0.5**self.last_epoch for lr in self.base_lrs]

    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    schedule = Halving(optimizer)
    optimizer.step()
    schedule.step()
    assert isinstance(schedule, torch.optim.lr_scheduler.LRScheduler)
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_a_device_as_a_scope():
    def in_a_thread():
        with torch.device("cpu") as device:
            seen.append((torch.ones(1).device, device))

    seen = []
    with torch.device("cpu"), torch.device("cpu", 0):
        thread = threading.Thread(target=in_a_thread)
        thread.start()
        thread.join()
    assert seen == [(torch.device("cpu"), torch.device("cpu"))]
    with pytest.raises(ZeroDivisionError), torch.device("cpu"):
        1 / 0

    @torch.device("cpu")
    def two():
        return torch.full((1,), 2.0)

    assert two().item() == 2


@pytest.mark.parametrize("name", ["mps", "cuda"])
def test_devices_that_there_are_not(name):
    module = torch.nn.Linear(1, 1)
    text = f"there is no {name} device to use; pass device='cpu'"
    for use in (
        lambda: torch.device(name).__enter__(),
        lambda: torch.device(name)(torch.ones),
        lambda: torch.ones(1, device=name),
        lambda: torch.nn.Linear(1, 1, device=name),
        lambda: module.to(name),
        lambda: module.to_empty(device=name),
    ):
        with pytest.raises(RuntimeError, match=text):
            use()


def test_small_names_of_torch(tmp_path):
    from cograd import _utils, _vmap_internals
    from cograd.autograd import profiler, profiler_util
    from cograd.nn.modules import module, transformer

    assert torch.Future is torch.futures.Future and torch.cuda._initialized is False
    assert torch._tensor.Tensor is torch.Tensor and _vmap_internals.vmap is torch.vmap
    assert profiler_util.EventList is profiler.EventList
    keys = torch.nn.Linear(1, 1).load_state_dict({}, strict=False)
    assert type(keys) is module._IncompatibleKeys and keys.missing_keys == ["weight", "bias"]
    first, second = transformer._get_clones(torch.nn.Linear(1, 1), 2)
    assert first is not second and torch.equal(first.weight, second.weight)
    assert [torch.nn._reduction.get_enum(n) for n in ("none", "mean", "sum")] == [0, 1, 2]
    with pytest.raises(ValueError, match="foo is not a valid value for reduction"):
        torch.nn._reduction.get_enum("foo")
    assert torch.optim.optimizer.ParamsT is not None
    parts = [torch.ones(2, 2), torch.zeros(1)]
    flat = _utils._flatten_dense_tensors(parts)
    assert flat.tolist() == [1, 1, 1, 1, 0]
    again = _utils._unflatten_dense_tensors(flat, parts)
    assert [t.shape for t in again] == [(2, 2), (1,)]
    again[0].fill_(3)
    assert flat[0] == 3


def test_initialisations_under_their_private_names():
    init, t = torch.nn.init, torch.empty(4, 3)
    assert init._calculate_correct_fan(t, "fan_in") == 3
    assert init._calculate_correct_fan(t, "fan_out") == 4
    assert init._no_grad_fill_(t, 2.0).eq(2).all() and init._no_grad_zero_(t).eq(0).all()
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    for private, public, args in (
        (init._no_grad_uniform_, init.uniform_, (1.0, 2.0)),
        (init._no_grad_normal_, init.normal_, (1.0, 2.0)),
        (init._no_grad_trunc_normal_, init.trunc_normal_, (0.0, 1.0, -1.0, 1.0)),
    ):
        got = [f(t.clone(), *args, generator=g) for f, g in zip((private, public), generators)]
        assert torch.equal(*got) and got[0].std() > 0


def test_switches_of_attention():
    from cograd.nn.attention import SDPBackend, sdpa_kernel

    q = torch.rand(1, 2, 3, 4)
    plain = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True):
        assert torch.equal(torch.nn.functional.scaled_dot_product_attention(q, q, q), plain)
    with pytest.raises(AssertionError, match="or a list of SDPBackend instances, got str"):
        sdpa_kernel("math").__enter__()
    with pytest.raises(AttributeError, match="there is no compiler"):
        torch.nn.attention.flex_attention


def test_backends_of_attention_are_no_numbers():
    from cograd.nn.attention import SDPBackend

    assert SDPBackend.MATH != 0 and not isinstance(SDPBackend.MATH, int)
    assert int(SDPBackend.ERROR) == -1 and SDPBackend(0) is SDPBackend.MATH
    assert list("abc")[SDPBackend.FLASH_ATTENTION] == "b"
    assert (repr(SDPBackend.MATH), str(SDPBackend.MATH)) == (
        "<SDPBackend.MATH: 0>",
        "SDPBackend.MATH",
    )
    with pytest.raises(TypeError, match="'<' not supported"):
        SDPBackend.MATH < SDPBackend.FLASH_ATTENTION


def test_result_classes_say_how_many_fields_they_have():
    """They do so like torch's, which are structs of C."""
    x = torch.rand(3, 3)
    for result, count in ((x.max(0), 2), (torch.histogram(x, 3), 2), (torch.linalg.svd(x), 3)):
        for kind in (result, type(result)):
            assert kind.n_fields == kind.n_sequence_fields == count
            assert kind.n_unnamed_fields == 0
    assert all(k.n_fields == len(k._fields) for k in torch.return_types.all_return_types)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_convolutions(dims):
    conv = getattr(torch.nn.functional, f"conv{dims}d")
    of_input = getattr(torch.nn.grad, f"conv{dims}d_input")
    of_weight = getattr(torch.nn.grad, f"conv{dims}d_weight")
    options = (2, 1, 1, 2)
    x = torch.randn(2, 4, *[5] * dims, dtype=torch.float64, requires_grad=True)
    w = torch.randn(6, 2, *[3] * dims, dtype=torch.float64, requires_grad=True)
    out = conv(x, w, None, *options)
    g = torch.randn_like(out, requires_grad=True)
    want = torch.autograd.grad(out, (x, w), g)
    torch.testing.assert_close(of_input(x.shape, w, g, *options), want[0])
    torch.testing.assert_close(of_weight(x, w.shape, g, *options), want[1])
    with torch.no_grad():
        assert not of_weight(x, w.shape, g, *options).requires_grad


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_convolutions_are_differentiated_again(dims):
    of_input = getattr(torch.nn.grad, f"conv{dims}d_input")
    of_weight = getattr(torch.nn.grad, f"conv{dims}d_weight")
    options = (2, 1, 1, 2)
    x = torch.randn(1, 2, *[3] * dims, dtype=torch.float64, requires_grad=True)
    w = torch.randn(2, 1, *[2] * dims, dtype=torch.float64, requires_grad=True)
    g = torch.randn(1, 2, *[2] * dims, dtype=torch.float64, requires_grad=True)
    for f, first in (
        (lambda w, g: of_input(x.shape, w, g, *options), w),
        (lambda x, g: of_weight(x, w.shape, g, *options), x),
    ):
        assert torch.autograd.gradcheck(f, (first, g), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(f, (first, g))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_convolutions_per_sample(dims):
    of_input = getattr(torch.nn.grad, f"conv{dims}d_input")
    of_weight = getattr(torch.nn.grad, f"conv{dims}d_weight")
    x, w = torch.randn(4, 1, 2, *[5] * dims), torch.randn(4, 3, 2, *[3] * dims)
    g = torch.randn(4, 1, 3, *[3] * dims)
    for f, a in (
        (lambda x, g: of_weight(x, w.shape[1:], g), x),
        (lambda w, g: of_input(x.shape[1:], w, g), w),
    ):
        want = torch.stack([f(a[i], g[i]) for i in range(4)])
        torch.testing.assert_close(torch.vmap(f)(a, g), want)
        want = torch.stack([f(a[0], g[i]) for i in range(4)])
        torch.testing.assert_close(torch.vmap(f, (None, 0))(a[0], g), want)
        want = torch.stack([f(a[i], g[0]) for i in range(4)])
        torch.testing.assert_close(torch.vmap(f, (0, None))(a, g[0]), want)


def test_gradients_of_convolutions_want_one_dtype():
    x, w, g = torch.randn(1, 2, 5), torch.randn(3, 2, 3), torch.randn(1, 3, 3)
    with pytest.raises(RuntimeError, match=r"conv1d_weight\(\): .*grad_output .*input.*float64"):
        torch.nn.grad.conv1d_weight(x.double(), w.shape, g)
    with pytest.raises(RuntimeError, match=r"conv1d_input\(\): .*grad_output .*weight.*float32"):
        torch.nn.grad.conv1d_input(x.shape, w, g.double())


def test_scatter_and_gather_on_the_cpu():
    from cograd.nn.parallel import scatter_gather

    x = torch.arange(6.0).reshape(3, 2)
    cpus = [torch.device("cpu")] * 2
    (a, n), (b, m) = scatter_gather.scatter((x, 5), cpus)
    assert n == m == 5 and torch.equal(scatter_gather.gather([a, b], "cpu"), x)
    args, named = scatter_gather.scatter_kwargs((x,), {"k": [x]}, cpus)
    assert args[1][0].shape == (1, 2) and torch.equal(named[0]["k"][0], x[:2])
    both = scatter_gather.gather([{"y": (a,)}, {"y": (b,)}], "cpu")
    assert torch.equal(both["y"][0], x)
    with pytest.raises(RuntimeError, match="no cuda device"):
        scatter_gather.scatter(x, ["cuda:0"])


def test_gather_refuses_what_does_not_fit():
    from cograd.nn.parallel.scatter_gather import gather

    x = torch.ones(2)
    for parts, kind, match in (
        ([{"a": x}, {"a": x, "b": x}], ValueError, "dicts of the same keys, got {'a'} and"),
        ([{"a": x, "b": x}, {"a": x}], ValueError, "dicts of the same keys, got .* and {'a'}"),
        ([{"a": x}, {"b": x}], ValueError, "dicts of the same keys, got {'a'} and {'b'}"),
        ([[x], [x, x]], ValueError, "sequences of one length, got 1 and 2"),
        ([(x, x), (x,)], ValueError, "sequences of one length, got 2 and 1"),
        (["ab", "cd"], TypeError, "hold tensors, None, .* got str"),
        ([[b"ab"], [b"cd"]], TypeError, "hold tensors, None, .* got bytes"),
        ([1, 2], TypeError, "hold tensors, None, .* got int"),
        ([x, [x]], TypeError, "parts of one kind, got Tensor and list"),
        ([], IndexError, "empty"),
    ):
        with pytest.raises(kind, match=r"gather\(\): outputs .*" + match):
            gather(parts, "cpu")


def test_gather_of_other_containers():
    from cograd.nn.parallel.scatter_gather import gather

    Pair = collections.namedtuple("Pair", "a b")
    x, n = torch.ones(2), torch.tensor(1.0)
    both = gather([Pair([x], n), Pair([x], n)], "cpu")
    assert type(both) is Pair and both.a[0].tolist() == [1] * 4 and both.b.tolist() == [1, 1]
    queues = gather([collections.deque([x]), collections.deque([x])], "cpu")
    assert type(queues) is collections.deque and queues[0].shape == (4,)
    assert gather([None, None], "cpu") is None and gather([[None], [None]], "cpu") == [None]


def test_functionalize_gives_the_same_results():
    def f(x):
        y = x * 2
        y.add_(1)
        return y.view(-1)

    x = torch.ones(2, 2)
    assert torch.equal(torch.func.functionalize(f, remove="mutations_and_views")(x), f(x))
    torch.func.functionalize(lambda t: t.zero_())(x)
    assert not x.any()
    with pytest.raises(RuntimeError, match="invalid argument for remove=views"):
        torch.func.functionalize(f, remove="views")


# As torch 2.13 gives them: rows 5 and 6 of SobolEngine(3), and two of (3, scramble=True, seed=3).
SOBOL = [[0.875, 0.875, 0.125], [0.625, 0.125, 0.875]]
SCRAMBLED = [
    [0.06846512854099274, 0.22452697157859802, 0.6991851925849915],
    [0.5496887164190412, 0.7254597702994943, 0.3090891595929861],
]


def test_sobol_points():
    pytest.importorskip("scipy", reason="SciPy has the direction numbers")
    engine = torch.quasirandom.SobolEngine(3)
    assert engine.draw(2).tolist() == [[0, 0, 0], [0.5, 0.5, 0.5]]
    assert engine.fast_forward(3).draw(2).tolist() == SOBOL and engine.num_generated == 7
    with pytest.raises(ValueError, match="7 points have been previously generated"):
        engine.draw_base2(1)
    assert engine.reset().draw_base2(3, dtype=torch.float64)[5:7].tolist() == SOBOL
    before = torch.get_rng()
    torch.set_rng("torch")
    try:
        mixed = torch.quasirandom.SobolEngine(3, scramble=True, seed=3)
    finally:
        torch.set_rng(before)
    assert mixed.draw(2, dtype=torch.float64).tolist() == SCRAMBLED
    assert torch.equal(mixed.reset().draw(2, out=torch.empty(0)), torch.tensor(SCRAMBLED))
    with pytest.raises(ValueError, match=r"\[1, 21201\], got 0"):
        torch.quasirandom.SobolEngine(0)


@pytest.mark.parametrize("drawn", [0, 3])
@pytest.mark.parametrize("scramble", [False, True])
def test_sobol_engine_refuses_before_it_draws(drawn, scramble):
    pytest.importorskip("scipy", reason="SciPy has the direction numbers")
    engine = torch.quasirandom.SobolEngine(2, scramble, seed=3)
    want = engine.draw(5)[drawn:]
    engine.reset().fast_forward(drawn)
    for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.complex64):
        with pytest.raises(
            NotImplementedError, match=r"draw\(\): dtype must be float32 .*" + str(dtype)
        ):
            engine.draw(4, dtype=dtype)
    for method in (engine.draw, engine.fast_forward):
        with pytest.raises(RuntimeError, match=method.__name__ + r"\(\): n must be .*, got -3"):
            method(-3)
        with pytest.raises(ValueError, match=rf"2\*\*30 points, .* and {drawn} have been"):
            method(2**30 + 1)
    assert engine.fast_forward(0) is engine and engine.num_generated == drawn
    assert torch.equal(engine.draw(5 - drawn), want)


def test_sobol_first_point_is_of_any_dtype():
    """torch does this, too: the first point has the default dtype."""
    pytest.importorskip("scipy", reason="SciPy has the direction numbers")
    for dtype in (torch.float16, torch.int64):
        found = torch.quasirandom.SobolEngine(2).draw(dtype=dtype)
        assert found.dtype == dtype and found.tolist() == [[0, 0]]
