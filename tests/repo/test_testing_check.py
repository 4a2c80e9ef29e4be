# SPDX-License-Identifier: BSD-3-Clause
"""testing.check: correct operations pass, and every check finds the fault planted for it."""

import functools
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import cograd as torch
from cograd.autograd import Function
from cograd.autograd.function import once_differentiable
from cograd.testing import CheckError, CheckReport, check

ROOT = Path(__file__).resolve().parents[2]


def values(*shape, seed=0):
    generator = torch.Generator()
    generator.manual_seed(seed)
    return torch.randn(*shape, generator=generator)


def audit(fn, *args, **options):
    return check(fn, args, raise_exception=False, **options)


def failed(report):
    return {result.check for result in report.failures}


# ---------------------------------------------------------------------- sound operations


class LogCosh(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.abs() + torch.log1p(torch.exp(-2 * x.abs())) - 0.6931471805599453

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.tanh()


class ProductAndSum(Function):
    """Has two outputs and reads needs_input_grad; None gradients arrive as None."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        grads = []
        for k, other in enumerate((y, x)):
            grad = None
            if ctx.needs_input_grad[k]:
                if g is not None:
                    grad = g * other
                if h is not None:
                    grad = h if grad is None else grad + h
            grads.append(grad)
        return tuple(grads)


class AddInPlace(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        return x.add_(y)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


class OldSquare(Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x * x

    def backward(self, grad):
        (x,) = self.saved_tensors
        return grad * 2 * x


class Scale(Function):
    @staticmethod
    def forward(x, factor=2.0, *, shift=0.0):
        return x * factor + shift

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None, None


class Tree(Function):
    pytree = True

    @staticmethod
    def forward(ctx, x, params):
        ctx.save_for_backward(x, params["scale"])
        return x * params["scale"] + params["shift"]

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        return grad * scale, {"scale": (grad * x).sum(), "shift": grad.sum()}


class View(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad.reshape(2, 3)


SOUND = {
    "LogCosh": (LogCosh, values(3, 4)),
    "two outputs": (ProductAndSum, values(2, 3), values(2, 3, seed=1)),
    "in place": (AddInPlace, values(3), values(3, seed=1)),
    "instance style": (OldSquare, values(2, 2)),
    "setup_context": (Scale, values(4), 3.0),
    "pytree": (Tree, values(4), {"scale": values(), "shift": values(seed=2)}),
    "softmax": (torch.softmax, values(3, 4), 1),
    "matmul": (torch.matmul, values(3, 4), values(4, 2)),
    "sort": (lambda x: torch.sort(x, descending=True), values(5)),
    "cat": (torch.cat, [values(2, 3), values(1, 3)]),
    "view": (torch.Tensor.t, values(2, 3)),
    "in-place method": (torch.Tensor.mul_, values(2), values(2)),
    "large": (torch.tanh, values(20, 30)),
    "integers": (lambda x, i: x[i], values(5), torch.tensor([0, 2, 2])),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_operations_pass(name):
    fn, *args = SOUND[name]
    report = check(fn, args, strict=True)
    assert report.ok and not report.notes, report
    assert "float32" in report.checks and report["gradgradcheck"].outcome == "pass"


def test_every_subset_and_layout_was_tried():
    report = audit(ProductAndSum, values(2, 3), values(2, 3))
    assert "stride 0" in report["incoming_gradients"].detail
    assert "permuted" in report["incoming_gradients"].detail
    assert report["missing_gradients"].detail == "None for 2 outputs"
    assert report["needs_input_grad"].detail.startswith("3 subsets")


def test_arguments_are_left_alone():
    x, y = values(3).requires_grad_(), values(3)
    state = torch.get_rng_state()
    check(AddInPlace, (x, y))
    assert x.requires_grad and x.grad is None and x._version == 0 and y._version == 0
    assert torch.equal(torch.get_rng_state(), state)
    with torch.no_grad():
        check(LogCosh, x, only="gradcheck")
        assert not torch.is_grad_enabled()


def test_skips_say_why():
    report = audit(torch.argmax, values(4))
    assert report.ok
    assert report["gradcheck"].outcome == "skip" and "no output" in report["gradcheck"].detail
    report = audit(torch.sin, values(1).squeeze())
    assert "one element" in report["incoming_gradients"].detail
    report = audit(torch.tensor, [1.0, 2.0])
    assert "no floating-point tensor" in report["gradcheck"].detail

    class Once(LogCosh):
        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return LogCosh.backward(ctx, grad)

    report = audit(Once, values(3))
    assert report.ok and "@once_differentiable" in report["gradgradcheck"].detail
    report = audit(LogCosh, values(3), second_order=False)
    assert "second_order=False" in report["gradgradcheck"].detail


# ---------------------------------------------------------------------- planted faults

FAULTS = {}


def fault(*checks, where="", text="", args=None, outcome="fail"):
    """Registers a faulty operation: the checks that must find it, and their messages."""

    def decorate(fn):
        assert fn.__name__ not in FAULTS
        FAULTS[fn.__name__] = (fn, checks, where, text, args or (values(2, 3),), outcome)
        return fn

    return decorate


class Identity(Function):
    """Base of the faulty operations: y = 3x."""

    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


@fault("gradcheck", "empty", where="d output at [0, ", text="the sign is wrong")
class WrongSign(Identity):
    @staticmethod
    def backward(ctx, grad):
        return -3 * grad


@fault("gradcheck", text="each is 2 times the right value")
class WrongFactor(Identity):
    @staticmethod
    def backward(ctx, grad):
        return grad * 6


@fault("gradcheck", where="d output at [1, 2] / d 'x' at [1, 2]", text="1 of 36")
class OneElement(Identity):
    @staticmethod
    def backward(ctx, grad):
        out = grad * 3
        if out.numel() == 6:
            mask = torch.ones(out.shape, dtype=out.dtype)
            mask[-1, -1] = 0.5
            out = out * mask
        return out


@fault("gradcheck", where="outputs", text="none requires grad", args=(values(3).requires_grad_(),))
def detaches(x):
    return x.detach() * 2


def packed(tensor):
    """Returns the first numel() values in memory, as a kernel that ignores strides reads them."""
    count = tensor.numel()
    if count == 0:
        return tensor.detach().clone()
    storage = torch.zeros(count, dtype=tensor.dtype)
    source = torch.as_strided(tensor.detach(), (1,), (1,), tensor.storage_offset())
    raw = np.ctypeslib.as_array(
        (__import__("ctypes").c_double * available(tensor, count)).from_address(source.data_ptr())
    )
    storage[: len(raw)] = torch.from_numpy(raw.copy())
    return storage.reshape(tensor.shape)


def available(tensor, count):
    bytes_left = tensor.untyped_storage().nbytes() - tensor.storage_offset() * 8
    return min(count, bytes_left // 8)


@fault(
    "incoming_gradients",
    where="gradient of 'x' at ",
    text="incoming gradient that is expanded (stride 0)",
)
class IgnoresGradientStrides(Identity):
    """torch's gradcheck passes this one."""

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return packed(grad) * 3 if grad.dtype == torch.float64 else grad * 3


@fault("input_layouts", where="output", text="with 'x' permuted")
class IgnoresInputStrides(Identity):
    @staticmethod
    def forward(ctx, x):
        return packed(x) * 3 if x.dtype == torch.float64 else x * 3


@fault("incoming_gradients", where="backward", text="RuntimeError")
class RefusesGradientStrides(Identity):
    @staticmethod
    def backward(ctx, grad):
        return grad.view(-1).view(2, 3) * 3 if grad.numel() == 6 else grad * 3


@fault("input_layouts", text="a contiguous copy is accepted", outcome="note")
class RefusesInputStrides(Identity):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1).view(x.shape) * 3


@fault("writes", where="incoming gradient of output")
class WritesGradient(Identity):
    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        if grad.is_contiguous():
            return grad.mul_(3)
        return grad * 3


@fault(
    "missing_gradients",
    where="backward",
    text="without a gradient for output[0]: TypeError",
    args=(values(3), values(3)),
)
class NoneGradient(ProductAndSum):
    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h, g * x + h


@fault("missing_gradients", where="gradient of 'x'", text="without a gradient for output[0]")
class WrongWithoutGradient(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, g, h):
        if g is None:
            return h
        return 2 * g if h is None else 2 * g + 3 * h


@fault(
    "needs_input_grad",
    where="call or backward",
    text="when only 'x' requires grad",
    args=(values(3), values(3)),
)
class SavesWhatRequiresGrad(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(*(t for t in (x, y) if t.requires_grad))
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x


@fault(
    "needs_input_grad",
    where="gradient of 'x'",
    text="when only 'x' requires grad",
    args=(values(3), values(3)),
)
class WrongForSubset(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        if all(ctx.needs_input_grad):
            return grad * y, grad * x
        return grad, grad * x


@fault(
    "needs_input_grad",
    where="gradient of 'x', 'y'",
    text="although it is not needed",
    args=(values(3), values(3)),
    outcome="note",
)
class IgnoresNeedsInputGrad(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x


@fault("gradgradcheck", where="second derivative", text="SavesIntermediate", args=(values(3) + 3,))
class SavesIntermediate(Function):
    @staticmethod
    def forward(ctx, x):
        squared = x * x
        ctx.save_for_backward(x, squared)
        return squared * squared

    @staticmethod
    def backward(ctx, grad):
        x, squared = ctx.saved_tensors
        return grad * 4 * x * squared


@fault("gradgradcheck", where="d (gradient of 'x') at ", args=(values(3) + 3,))
class HidesDependence(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x.detach()


@fault("gradgradcheck", where="gradient of 'x'", text="has no history", args=(values(3) + 3,))
class BackwardInNumpy(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.from_numpy(grad.detach().numpy() * 2 * x.detach().numpy())


@fault("create_graph", "gradgradcheck", where="gradient of 'x'", text="with create_graph=True")
class OtherFormulaWithGraph(Identity):
    @staticmethod
    def backward(ctx, grad):
        return grad * (4 if torch.is_grad_enabled() else 3)


@fault("writes", where="'x' at [0, 0]", text="6 of 6 elements")
class WritesInput(Identity):
    @staticmethod
    def forward(ctx, x):
        y = x * 3
        x.detach().numpy()[...] += 1
        return y


@fault("writes", where="'counts'", text="under no_grad", args=(values(2), torch.zeros(2)))
def counts_calls(x, counts):
    if not torch.is_grad_enabled():
        counts += 1
    return x * 3


@fault("writes", where="'x'", text="was written by backward")
class BackwardWritesInput(Identity):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach()
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        ctx.x.detach().numpy()[...] = 0
        return grad * 3


@fault("call", text="mark_dirty", args=(values(3),))
class DirtyWithoutMark(Identity):
    @staticmethod
    def forward(ctx, x):
        return x.mul_(3)


@fault("aliasing", where="output", text="shares memory with the argument 'x'")
class ReturnsAlias(Identity):
    @staticmethod
    def forward(ctx, x):
        return x.data

    @staticmethod
    def backward(ctx, grad):
        return grad.clone()


@fault("aliasing", where="output[1]", text="shares memory with output[0]")
class SharesOutputs(Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        return y, y.data

    @staticmethod
    def backward(ctx, g, h):
        return 2 * (g + h)


@fault("aliasing", where="output at ", text="overwritten by the next", args=(values(3),))
class KeepsOutputBuffer(Function):
    buffer = np.zeros(3)

    @staticmethod
    def forward(ctx, x):
        out = KeepsOutputBuffer.buffer
        if x.shape != (3,):
            return x * 3
        np.multiply(x.detach().numpy(), 3, out=out)
        return torch.from_numpy(out).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


@fault("reuse", where="gradient of 'x'", text="second backward")
class ScalesSavedTensor(Identity):
    @staticmethod
    def forward(ctx, x):
        ctx.factor = [3.0]
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        ctx.factor.append(1.5)
        return grad * ctx.factor[-2] if len(ctx.factor) > 2 else grad * 3


@fault("reuse", "threads", where="gradient of 'x'", text="another call between")
class GlobalState(Function):
    saved = [None]

    @staticmethod
    def forward(ctx, x):
        GlobalState.saved[0] = x.detach()
        return x * x

    @staticmethod
    def backward(ctx, grad):
        saved = GlobalState.saved[0]
        return grad * 2 * (saved if saved.shape == grad.shape else 1)


@fault("threads", where="output", text="in one of two threads")
class GlobalBuffer(Identity):
    buffer = np.zeros(6)

    @staticmethod
    def forward(ctx, x):
        count = x.numel()
        GlobalBuffer.buffer[:count] = x.detach().numpy().reshape(-1)
        time.sleep(1e-4)
        copy = GlobalBuffer.buffer[:count].copy()
        return torch.from_numpy(copy).to(x.dtype).reshape(x.shape) * 3


@fault("determinism", where="output", text="of the same call again")
def random_noise(x):
    return x * (1 + 1e-14 * torch.rand(()).item())


@fault("determinism", where="gradient of 'x'")
class RandomBackward(Identity):
    @staticmethod
    def backward(ctx, grad):
        return grad * 3 * (1 + 1e-15 * torch.randint(1, 20, ()).item())


@fault("leaks", where="forward", text="graph nodes")
class KeepsContext(Identity):
    kept = []

    @staticmethod
    def forward(ctx, x):
        KeepsContext.kept.append(ctx)
        return x * 3


@fault("leaks", where="forward", text="inputs")
class KeepsInputs(Identity):
    kept = []

    @staticmethod
    def forward(ctx, x):
        KeepsInputs.kept.append(x.detach())
        return x * 3


@fault("leaks", where="forward", text="100 tensors")
class KeepsResults(Identity):
    kept = None  # made by the first call: lists in a frozen generation are not seen

    @staticmethod
    def forward(ctx, x):
        KeepsResults.kept = KeepsResults.kept or []
        KeepsResults.kept.append(x.clone())
        return x * 3


@fault("leaks", where="forward and backward", text="100 tensors")
class KeepsGradients(Identity):
    kept = {}

    @staticmethod
    def backward(ctx, grad):
        KeepsGradients.kept[len(KeepsGradients.kept)] = grad * 3
        return grad * 3


@fault("leaks", where="forward", text="a reference cycle", outcome="note")
class ContextCycle(Identity):
    @staticmethod
    def forward(ctx, x):
        ctx.me = [ctx, x.detach()]
        return x * 3


@fault("float32", where="output", text="in cograd.float32")
def half_inside(x):
    return x.half().to(x.dtype) * 3 if x.dtype == torch.float32 else x * 3


@fault("float32", where="gradient of 'x'", text="in cograd.float32")
class HalfBackward(Identity):
    @staticmethod
    def backward(ctx, grad):
        if grad.dtype == torch.float32:
            grad = grad.bfloat16().float()
        return grad * 3


@fault("gradcheck")
def single_inside(x):
    return (x.to(torch.float32) * 3).to(x.dtype) if x.dtype == torch.float64 else x * 3


@fault("float32", where="output", text="is cograd.float64 for inputs", outcome="note")
def always_double(x):
    return x.double() * 3


@fault("empty", where="backward", text="forward takes empty inputs")
class FailsForEmpty(Identity):
    @staticmethod
    def backward(ctx, grad):
        return grad / (grad.numel() > 0) * 3 if grad.numel() else grad.reshape(-1)[0] * 3


@fault("empty", where="gradient of 'x'", text="with 0-dim inputs")
class WrongForZeroDim(Identity):
    @staticmethod
    def backward(ctx, grad):
        return grad * (3 if grad.dim() else 5)


class Renamed(Identity):
    pass


Renamed.__qualname__ = "Elsewhere"
fault("pickle", where="the callable", text="cannot be pickled by its name")(Renamed)


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.keeps_nodes
def test_planted_faults_are_found(name):
    fn, checks, where, text, args, outcome = FAULTS[name]
    report = audit(fn, *args)
    for found in checks:
        assert report[found].outcome == outcome, f"{found} missed {name}\n{report}"
    result = report[checks[0]]
    assert where in result.where, report
    assert text in result.detail, report
    if outcome == "fail":
        assert not report
        with pytest.raises(CheckError) as info:
            check(fn, args, only=[c for c in checks if c != "call"])
        assert isinstance(info.value, AssertionError)
        assert checks[0] in str(info.value) and where in str(info.value)
    else:
        assert report.ok
        with pytest.raises(CheckError):
            check(fn, args, strict=True)


@pytest.mark.keeps_nodes
def test_a_fault_shows_in_few_rows():
    """Checks that are unrelated to a fault do not report it."""
    for name, allowed in {
        "IgnoresGradientStrides": {"incoming_gradients"},
        "ReturnsAlias": {"aliasing"},
        "HidesDependence": {"gradgradcheck", "mixed_modes"},
        "WrongForZeroDim": {"empty"},
        "KeepsContext": {"leaks"},
        "SharesOutputs": {"aliasing"},
        "half_inside": {"float32"},
    }.items():
        fn, _, _, _, args, _ = FAULTS[name]
        assert failed(audit(fn, *args)) == allowed, name


def test_every_check_has_a_planted_fault():
    import test_testing_transforms as transforms

    from cograd.testing._check import CHECKS

    every = [*FAULTS.values(), *transforms.FAULTS.values()]
    found = {name for _, checks, *_ in every for name in checks}
    assert set(CHECKS) | {"call", "float32"} == found


@pytest.mark.keeps_nodes
def test_gradcheck_alone_misses_what_check_finds():
    """torch's own check passes these, which is why testing.check exists."""
    for name in ("IgnoresGradientStrides", "ReturnsAlias", "GlobalBuffer", "KeepsContext"):
        fn = FAULTS[name][0]
        x = values(2, 3).double().requires_grad_()
        assert torch.autograd.gradcheck(fn.apply, x)


# ---------------------------------------------------------------------- options


def test_amount_and_element():
    result = audit(OneElement, values(2, 3), only="gradcheck")["gradcheck"]
    assert result.amount == pytest.approx(1.5, abs=1e-4)
    assert "backward: 1.5, finite differences: 3" in result.detail


def test_report_is_a_table():
    report = audit(WrongSign, values(2, 3))
    assert isinstance(report, CheckReport) and not report
    lines = str(report).splitlines()
    assert lines[0].startswith("check of WrongSign: ") and "fail" in lines[0]
    rows = [line for line in lines[1:] if not line.startswith("   ")]
    assert [row.split()[:2] for row in rows] == [[r.check, r.outcome] for r in report]
    assert len({row.index(r.outcome, 22) for row, r in zip(rows, report)}) == 1
    with pytest.raises(KeyError, match="no check 'nothing'"):
        report["nothing"]
    assert [r.check for r in report] == report.checks


def test_an_exception_is_printed_once_with_the_checks_that_it_fails():
    class Broken(Identity):
        @staticmethod
        def backward(ctx, grad):
            raise ValueError("this backward is not written yet")

    report = audit(Broken, values(2, 3))
    hit = [r.check for r in report.failures if r.error.startswith("ValueError: this backward")]
    assert len(hit) >= 8 and all("not written yet" in report[name].detail for name in hit)
    others = ", ".join(hit[1:])
    for text in (str(report), report._repr_html_()):
        assert text.count("this backward is not written yet") == 1
        assert f"The same exception fails {len(hit) - 1} more checks: {others}" in text
    rows = [line.split()[0] for line in str(report).splitlines()[1:] if line[2:3] != " "]
    assert rows == [name for name in report.checks if name not in hit[1:]]


def test_different_exceptions_have_a_row_each():
    runs = iter(range(1000))

    class Varies(Identity):
        @staticmethod
        def backward(ctx, grad):
            raise ValueError(f"run {next(runs)}")

    report = audit(Varies, values(2, 3), only=["gradcheck", "create_graph"])
    assert str(report).count("raised ValueError: run") == 2 and "same exception" not in str(report)


def test_mutates_declares_a_write():
    def accumulate(total, x):
        total.add_(x)

    args = (values(3), values(3))
    assert failed(audit(accumulate, *args)) == {"writes"}
    for mutates in ("total", 0, ["total"]):
        check(accumulate, args, mutates=mutates)
    with pytest.raises(ValueError, match="mutates names 'sum', which is not an argument"):
        check(accumulate, args, mutates="sum")

    def silent(total, x):
        total.detach().numpy()[...] += x.detach().numpy()

    report = check(silent, args, mutates="total", raise_exception=False)
    assert "its version did not change" in report["writes"].detail


def test_arguments_by_keyword_and_in_containers():
    report = check(Scale, (values(3),), {"factor": 2.0, "shift": 1.0})
    assert report.ok

    def total(parts, *, weights):
        return sum(p * weights["w"] for p in parts) - weights["w"].detach()

    report = check(
        total,
        ([values(2), values(2)],),
        {"weights": {"w": values(2)}},
        only="gradcheck",
        raise_exception=False,
    )
    assert "'weights'['w'] at [" in report["gradcheck"].where


def test_inputs_that_may_not_require_grad():
    loss = torch.nn.functional.nll_loss
    args = (values(4, 3), torch.tensor([0, 2, 1, 1]), torch.tensor([1.0, 2, 3]))
    report = check(loss, args)
    assert "may not require grad" in report["call"].detail
    assert report["gradcheck"].outcome == "pass"


def test_only_what_requires_grad_is_differentiated():
    def masked(x, mask):
        return x * mask.detach()

    x, mask = values(3), values(3)
    assert "gradcheck" in failed(audit(masked, x, mask))
    assert audit(masked, x.clone().requires_grad_(), mask).ok


def test_float32_only_operations():
    class Single(Function):
        @staticmethod
        def forward(ctx, x):
            if x.dtype != torch.float32:
                raise TypeError(f"expected float32, got {x.dtype}")
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x.cos()

    report = check(Single, values(3))
    assert "float64 is refused" in report["call"].detail
    assert report["gradcheck"].outcome == report["gradgradcheck"].outcome == "pass"
    assert report["float32"].outcome == "skip"

    class Wrong(Single):
        @staticmethod
        def backward(ctx, grad):
            return -Single.backward(ctx, grad)

    assert "gradcheck" in failed(audit(Wrong, values(3)))


def test_callables_of_float64_alone():
    """Arguments of float32 are converted for every check except that of float32."""

    def doubles(x):
        if x.dtype is not torch.float64:
            raise TypeError("float64 only")
        return x * x

    report = check(doubles, torch.rand(3, dtype=torch.float32))
    assert report["pickle"].outcome == "pass" and report["float32"].outcome == "skip"


def test_lower_precisions_when_asked():
    report = check(torch.tanh, values(5), dtypes=(torch.float32, torch.float16, torch.bfloat16))
    assert [report[d].outcome for d in ("float32", "float16", "bfloat16")] == ["pass"] * 3


def test_precision_bound_follows_the_conditioning():
    """Cancellation that the inputs explain is no fault; the same error without it is one."""
    x = torch.tensor([1.0 + 1e-5, 2.0])
    check(lambda x: x - 1, x, only="float32")
    check(lambda x: torch.exp(20 * x), x, only="float32")

    def cancels(x):  # loses digits that rounding x does not cost
        return (x + 3e4) - 3e4

    assert failed(audit(cancels, x)) == {"float32"}


def test_nondet_tol():
    report = audit(random_noise, values(2, 3), nondet_tol=1e-10)
    assert report["determinism"].outcome == "pass"


def test_only_and_skip():
    report = check(LogCosh, values(3), only=["writes", "leaks"])
    assert report.checks == ["call", "writes", "leaks"]
    report = check(LogCosh, values(3), skip="threads", dtypes=())
    assert "threads" not in report.checks and "float32" not in report.checks
    with pytest.raises(ValueError, match="there is no check 'thread'"):
        check(LogCosh, values(3), only="thread")
    with pytest.raises(TypeError, match="expected a callable"):
        check(3, values(3))


def test_a_call_that_fails():
    report = audit(torch.matmul, values(2, 3), values(2, 3))
    assert failed(report) == {"call"} and "RuntimeError" in report["call"].detail
    assert all(r.outcome == "skip" for r in report.results[1:])


def test_may_alias():
    assert "aliasing" not in failed(audit(ReturnsAlias, values(2, 3), may_alias=True))


def test_partial_and_module():
    check(functools.partial(torch.softmax, dim=0), values(3, 2))
    check(torch.nn.Linear(3, 2), values(4, 3))


def test_nothing_is_left_behind():
    interval, threads = sys.getswitchinterval(), threading.active_count()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        audit(GlobalBuffer, values(2, 3))
    assert sys.getswitchinterval() == interval and threading.active_count() == threads


# ---------------------------------------------------------------------- pytest

PLUGIN_TEST = """
import cograd as torch

class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        return grad

def test_good(cograd_check):
    assert cograd_check(torch.sin, torch.ones(3)).ok

def test_bad(cograd_check):
    cograd_check(Wrong, torch.ones(3))
"""


def test_pytest_plugin(tmp_path):
    (tmp_path / "test_it.py").write_text(PLUGIN_TEST)
    command = [sys.executable, "-m", "pytest", "-p", "no:cograd", "-p", "no:cacheprovider"]
    command += ["-p", "cograd.testing.pytest_plugin", "-q", "--junitxml=out.xml", "."]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "CheckError: check of Wrong" in done.stdout and "gradcheck" in done.stdout
    assert "check of sin" in (tmp_path / "out.xml").read_text()


def test_pytest_entry_point_is_declared():
    text = (ROOT / "pyproject.toml").read_text() if (ROOT / "pyproject.toml").exists() else None
    if text is None:
        pytest.skip("not run from a source checkout")
    assert '[project.entry-points.pytest11]\ncograd = "cograd.testing.pytest_plugin"' in text


def test_complex_functions_are_checked_by_their_parts():
    class Square(Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, g):
            (z,) = ctx.saved_tensors
            return g * (2 * z).conj()

    class WithoutConjugate(Square):
        @staticmethod
        def backward(ctx, g):
            (z,) = ctx.saved_tensors
            return g * 2 * z

    z = torch.complex(torch.tensor([0.3, -1.0]), torch.tensor([1.2, 0.4])).to(torch.complex128)
    assert check(Square, (z,), raise_exception=False)
    assert not check(WithoutConjugate, (z,), raise_exception=False)
