# SPDX-License-Identifier: BSD-3-Clause
"""Modes end with their block even if a signal handler raises between two bytecodes."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import leaf, ones, same

import cograd as torch
from cograd import _C, overrides
from cograd.autograd import forward_ad, graph
from cograd.autograd import profiler as autograd_profiler

PACKAGE = os.path.dirname(torch.__file__) + os.sep


class Through(overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Plain(torch.Tensor):
    pass


def state():
    x = leaf([1.0, 2.0])
    y = x * x
    try:
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            refused = None
    except RuntimeError as error:
        refused = str(error)
    return {
        "recording": y.requires_grad,
        "hooks": y.grad_fn is not None and y.grad_fn._raw_saved_self.unpack_hook is not None,
        "hooks refused": refused,
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "level": _C._dual_level(),
        "forward mode": forward_ad._is_fwd_grad_enabled(),
        "anomaly": _C._anomaly_state(),
        "profiling": _C._profiling(),
        "threads": torch.autograd.is_multithreading_enabled(),
        "modes": list(overrides._modes.stack),
        "mode seen": overrides.has_torch_function((x,)),
        "writes allowed": _C._has_write_callback(),
        "off": _C._overrides_off(),
    }


def interrupts(run):
    """Runs it once for each bytecode of cograd with an interrupt there, then without any."""
    before, usual, count = sys.gettrace(), state(), 0
    while True:
        left = count

        def trace(frame, event, _):
            nonlocal left
            if not frame.f_code.co_filename.startswith(PACKAGE):
                return None
            frame.f_trace_opcodes = True
            if event in ("call", "opcode"):
                left -= 1
                if left == -1:
                    raise KeyboardInterrupt
            return trace

        try:
            sys.settrace(trace)
            run()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert state() == usual, f"after an interrupt at bytecode {count}"
        if left >= 0:
            return count
        count += 1


def entered(make):
    def run():
        with make():
            pass

    return run


BLOCKS = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "saved_tensors_hooks": lambda: graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    "save_on_cpu": graph.save_on_cpu,
    "disable_saved_tensors_hooks": lambda: graph.disable_saved_tensors_hooks("no"),
    "allow_mutation_on_saved_tensors": graph.allow_mutation_on_saved_tensors,
    "dual_level": forward_ad.dual_level,
    "_set_fwd_grad_enabled": lambda: forward_ad._set_fwd_grad_enabled(False),
    "detect_anomaly": lambda: torch.autograd.detect_anomaly(forward=True, inf=True),
    "autograd.profile": lambda: autograd_profiler.profile(profile_memory=True, with_stack=True),
    "profile": torch.profiler.profile,
    "TorchFunctionMode": Through,
    "DisableTorchFunction": overrides.DisableTorchFunction,
    "DisableTorchFunctionSubclass": overrides.DisableTorchFunctionSubclass,
}


@pytest.mark.parametrize("make", BLOCKS.values(), ids=BLOCKS)
@pytest.mark.filterwarnings("ignore")
def test_a_block_leaves_nothing(make):
    interrupts(entered(make))


# The constructors of these keep their change if interrupted: see docs/hardening.md.
@pytest.mark.parametrize(
    ("kind", "usual"),
    [
        (torch.set_grad_enabled, True),
        (torch.autograd.set_detect_anomaly, False),
        (torch.autograd.set_multithreading_enabled, True),
    ],
)
def test_a_block_of_a_mode_that_is_set_at_once_leaves_nothing(kind, usual):
    expected = state()

    def run():
        nonlocal manager
        with manager:
            pass

    manager = kind(not usual)
    assert state() != expected
    with manager:
        pass
    assert state() == expected
    if kind is torch.set_grad_enabled:  # __enter__ of the others changes nothing
        assert interrupts(run) == 0
    assert not any(hasattr(getattr(kind, name), "__code__") for name in ("__enter__", "__exit__"))


def test_an_op_under_a_mode_puts_the_mode_back():
    x = ones(2)

    def run():
        with Through(), Through():
            x.sum()

    assert interrupts(run) > 10


def test_an_op_of_a_subclass_leaves_overrides_on():
    x = ones(2).as_subclass(Plain)
    assert interrupts(lambda: x.sum()) > 10
    assert type(x.sum()) is Plain


def test_a_step_of_a_schedule_does_not_record_for_good():
    def run():
        plan = torch.profiler.schedule(wait=1, warmup=0, active=1)
        with torch.profiler.profile(schedule=plan) as profile:
            for _ in range(3):
                profile.step()

    assert interrupts(run) > 100


def test_a_profile_that_was_interrupted_says_so():
    profile = torch.profiler.profile()

    def stop():
        raise KeyboardInterrupt

    profile.stop = stop
    with pytest.raises(KeyboardInterrupt), profile:
        ones(2).sum()
    assert not _C._profiling()
    assert "sum" in {event.name for event in profile.events()}


# ---- __exit__ ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", BLOCKS.values(), ids=BLOCKS)
@pytest.mark.filterwarnings("ignore")
def test_exit_takes_its_arguments_by_name(make):
    usual = state()
    manager = make()
    manager.__enter__()
    manager.__exit__(exc_type=None, exc_value=None, traceback=None)
    assert state() == usual


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (BLOCKS["saved_tensors_hooks"], r"saved_tensors_hooks\.__exit__\(\): no hooks"),
        (BLOCKS["save_on_cpu"], r"save_on_cpu\.__exit__\(\): no hooks"),
        (BLOCKS["disable_saved_tensors_hooks"], r"disable_saved_tensors_hooks\.__exit__\(\)"),
        (BLOCKS["autocast"], r"autocast\.__exit__\(\): called without"),
        (BLOCKS["dual_level"], "none is open"),
        (BLOCKS["autograd.profile"], "Can't disable the profiler"),
        (BLOCKS["TorchFunctionMode"], r"Through\.__exit__\(\): no mode is active"),
    ],
)
def test_exit_without_enter_raises(make, text):
    usual = state()
    with pytest.raises(RuntimeError, match=text):
        make().__exit__(None, None, None)
    assert state() == usual


def test_disabled_hooks_decorate():
    @graph.disable_saved_tensors_hooks("not in here")
    def enter(depth):
        if depth:
            return enter(depth - 1)
        with graph.save_on_cpu():
            pass

    for _ in range(2):
        with pytest.raises(RuntimeError, match="not in here"):
            enter(2)
        with graph.save_on_cpu():
            pass


# ---- signal handlers -----------------------------------------------------------------------------


def handled_in_backward(y, x):
    """Returns what a signal handler within backward of `y` sees: recording, inference, tangents.

    The handler's own gradient of `x` squared is included.
    """
    seen, runs = [], []

    def handler(*_):
        if runs or _C._current_graph_task_id() < 0:
            return
        runs.append(_C._current_graph_task_id())  # the next signal may come within this handler
        modes = (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
        with torch.enable_grad():
            (g,) = torch.autograd.grad((x * x).sum(), x)
        seen.append((*modes, g))

    before = signal.signal(signal.SIGALRM, handler)
    end = time.monotonic() + 30
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
        while not seen and time.monotonic() < end:
            (g,) = torch.autograd.grad(y, x, torch.ones_like(y), retain_graph=True)
            assert not g.requires_grad
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return seen[0]


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
@pytest.mark.parametrize("size", [3, 10_000])
def test_signal_handlers_have_the_modes_of_who_calls_backward(mode, size):
    x = torch.full((size,), 2.0, requires_grad=True)
    y = x
    for _ in range(300):
        y = y * 1.0
    with mode():
        recording, inference, gradient = handled_in_backward(y, x)
        assert torch.is_grad_enabled() is recording is (mode is torch.enable_grad)
    assert not inference
    assert same(gradient, [4.0] * size)


# ---- subinterpreters -----------------------------------------------------------------------------


def test_import_in_a_subinterpreter_raises():
    code = """
    import sys
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    program = '''
    import sys
    try:
        import cograd
    except ImportError as error:
        print(type(error).__name__, error, file=sys.stderr, flush=True)
    '''
    import textwrap
    it = interpreters.create()
    interpreters.run_string(it, textwrap.dedent(program))
    interpreters.destroy(it)
    import cograd
    print(cograd.ones(2).sum().item())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120
    )
    assert "ImportError" in done.stderr, done.stderr
    if sys.version_info < (3, 12):  # later ones refuse NumPy, or cograd, earlier
        assert "cograd._C can be imported in the main interpreter only" in done.stderr
    assert done.stdout.strip() == "2.0", done.stderr
