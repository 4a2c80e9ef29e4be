# SPDX-License-Identifier: BSD-3-Clause
"""Anomaly mode: tracebacks of forward calls, non-finite values, in-place writers."""

import gc
import threading
import traceback
import warnings

import pytest
from conftest import leaf, ones

import cograd as torch
from cograd.autograd import Function, detect_anomaly, set_detect_anomaly

pytestmark = pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
FILE = "test_anomaly.py"


@pytest.fixture(autouse=True)
def off_again():
    yield
    assert not torch.is_anomaly_enabled()
    set_detect_anomaly(False)


class Nan(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        out = g.clone()
        out[1] = float("nan")
        return out


class Raises(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        raise ValueError("hello")


def raised(kind, run):
    """Returns the exception, its notes and the texts of the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(kind) as info:
            run()
    error = info.value
    notes = "\n".join(getattr(error, "__notes__", [str(error)]))
    return error, notes, [str(w.message) for w in caught if "Anomaly" not in str(w.message)]


def make_the_node(x):
    return Raises.apply(x)


def test_forward_traceback_in_warning_and_exception():
    def run():
        with detect_anomaly():
            make_the_node(leaf([1.0])).sum().backward()

    error, notes, texts = raised(ValueError, run)
    assert str(error).startswith("hello")
    assert texts[0].startswith(
        "Error detected in RaisesBackward. Traceback of forward call that caused the error:\n"
    )
    for text in (texts[0], notes):
        assert FILE in text
        assert "in make_the_node" in text
        assert "return Raises.apply(x)" in text
    assert "hello" in "".join(traceback.format_exception(error))


def test_errors_of_cpp_nodes_have_the_traceback_too():
    def run():
        with detect_anomaly():
            x = leaf([1.0])
            y = (x * 2).exp()
            y.add_(1)
            y.sum().backward()

    error, notes, texts = raised(RuntimeError, run)
    assert "modified by an inplace operation" in str(error)
    assert "Error detected in ExpBackward0." in texts[0]
    assert "y = (x * 2).exp()" in notes


def test_without_forward_information():
    y = Raises.apply(leaf([1.0]))

    def run():
        with detect_anomaly():
            y.sum().backward()

    _, notes, texts = raised(ValueError, run)
    assert texts == [
        "Error detected in RaisesBackward. No forward pass information available. Enable detect "
        "anomaly during forward pass for more information."
    ]
    assert "No forward pass information" in notes


def test_causes_of_a_double_backward_are_nested():
    class Outer(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return Raises.apply(g * x)

    def run():
        with detect_anomaly():
            a = leaf([1.0])
            y = Outer.apply(a * a)
            (g,) = torch.autograd.grad(y.sum(), a, create_graph=True)
            g.sum().backward()

    _, notes, texts = raised(ValueError, run)
    assert len(texts) == 2
    assert texts[0].startswith("Error detected in RaisesBackward. Traceback of forward call that")
    assert texts[1].startswith(
        "\n\nPrevious calculation was induced by OuterBackward. Traceback of forward call that "
        "induced the previous calculation:\n"
    )
    assert "return Raises.apply(g * x)" in texts[0]
    assert "y = Outer.apply(a * a)" in texts[1]
    assert "induced by OuterBackward" in notes


def test_nan_check_names_function_output_and_place():
    def run():
        with detect_anomaly():
            Nan.apply(leaf([1.0, 2.0, 3.0])).sum().backward()

    error, _, texts = raised(RuntimeError, run)
    assert "Function 'NanBackward' returned nan values in its 0th output." in str(error)
    assert "index [1]" in str(error)
    assert "Error detected in NanBackward." in texts[0]


def test_nan_of_a_builtin_in_its_second_output():
    def run():
        with detect_anomaly():
            x, y = leaf([1.0]), leaf([0.0])
            (x * 0 / y).sum().backward()

    error, _, _ = raised(RuntimeError, run)
    assert "Function 'DivBackward0' returned nan values in its 1th output." in str(error)


def test_check_nan_off():
    x = leaf([1.0, 2.0])
    with detect_anomaly(check_nan=False):
        assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
        Nan.apply(x).sum().backward()
    assert x.grad[1] != x.grad[1]
    assert torch.is_anomaly_check_nan_enabled()


def test_modes_nest_and_are_restored():
    assert not torch.is_anomaly_enabled()
    with set_detect_anomaly(True, check_nan=False):
        with detect_anomaly():
            assert torch.is_anomaly_check_nan_enabled()
            with set_detect_anomaly(False):
                assert not torch.is_anomaly_enabled()
            assert torch.is_anomaly_enabled()
        assert not torch.is_anomaly_check_nan_enabled()
    assert not torch.is_anomaly_enabled()
    set_detect_anomaly(True)
    assert torch.is_anomaly_enabled()
    set_detect_anomaly(False)
    torch.set_anomaly_enabled(True, False)
    assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
    torch.set_anomaly_enabled(False)


def test_detect_anomaly_warns():
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        detect_anomaly()


def test_metadata_holds_the_traceback_and_the_parent():
    with set_detect_anomaly(True):
        x = leaf([1.0])
        y = x * x
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    lines = y.grad_fn.metadata["traceback_"]
    assert FILE in lines[-1] and "y = x * x" in lines[-1]
    node = g.grad_fn
    while "parent_" not in node.metadata:
        node = node.next_functions[0][0]
    assert node.metadata["parent_"].name() in ("MulBackward0", "SumBackward0")
    assert (x * x).grad_fn.metadata == {}


def test_mode_reaches_other_threads():
    seen = []

    def work():
        seen.append("traceback_" in (leaf([1.0]) * 2).grad_fn.metadata)

    with set_detect_anomaly(True):
        t = threading.Thread(target=work)
        t.start()
        t.join()
    assert seen == [True]


def test_nodes_are_freed():
    gc.collect()
    before = torch._C._live_nodes()
    with set_detect_anomaly(True):
        x = leaf([1.0])
        y = x * x
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        y.grad_fn.metadata
        with pytest.raises(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Raises.apply(g).sum().backward()
    del x, y, g
    gc.collect()
    assert torch._C._live_nodes() == before


# --- beyond torch: forward, infinities ---------------------------------------------------------


@pytest.mark.beyond_torch
def test_forward_names_the_first_op():
    with detect_anomaly(forward=True, inf=True):
        x = leaf([[1.0, 2.0], [0.0, 4.0]])
        a = x * 2
        with pytest.raises(RuntimeError) as info:
            torch.log(a)
    text = str(info.value)
    assert "Function 'log' returned inf values in the forward pass" in text
    assert "index [1, 0] of a tensor of shape [2, 2]" in text
    assert f"{FILE}:" in text and "in test_forward_names_the_first_op" in text


@pytest.mark.beyond_torch
def test_forward_blames_only_ops_with_finite_inputs():
    with detect_anomaly(forward=True, inf=True):
        x = torch.tensor([1.0, float("inf")])
        y = x + 1
        torch.full((2,), float("nan"))
        z = torch.zeros(2).masked_fill(torch.tensor([True, False]), float("-inf"))
        torch.empty_like(y)
        with pytest.raises(RuntimeError, match="Function 'div' returned nan values"):
            torch.zeros(2) / torch.zeros(2)
    assert z[0] == float("-inf")


@pytest.mark.beyond_torch
def test_forward_without_inf_lets_infinities_pass():
    with detect_anomaly(forward=True):
        y = torch.zeros(2).log()
        with pytest.raises(RuntimeError, match="Function 'sqrt' returned nan"):
            torch.sqrt(torch.tensor([-1.0]))
    assert y[0] == float("-inf")


@pytest.mark.beyond_torch
def test_forward_sees_inplace_ops_and_operators():
    with detect_anomaly(forward=True, inf=True):
        x = torch.zeros(3)
        with pytest.raises(RuntimeError, match=r"Function 'reciprocal_' returned inf"):
            x.reciprocal_()
        with pytest.raises(RuntimeError, match=r"Function 'div' returned inf"):
            1 / torch.zeros(3)


@pytest.mark.beyond_torch
def test_inf_in_backward_names_the_first_node():
    def run():
        with detect_anomaly(inf=True):
            x = leaf([4.0, 0.0])
            y = torch.sqrt(x) * 3  # the derivative of sqrt at 0 is inf
            y.sum().backward()

    error, notes, _ = raised(RuntimeError, run)
    assert "Function 'SqrtBackward0' returned inf values in its 0th output." in str(error)
    assert "index [1]" in str(error)
    assert "torch.sqrt(x) * 3" in notes


@pytest.mark.beyond_torch
def test_inf_that_came_in_blames_nobody():
    x = leaf([1.0])
    with detect_anomaly(inf=True):
        (x * 2).backward(torch.full((1,), float("inf"), dtype=torch.float64))
    assert x.grad[0] == float("inf")


# --- beyond torch: who wrote -------------------------------------------------------------------


@pytest.mark.beyond_torch
def test_the_writer_is_named():
    def run():
        with detect_anomaly():
            x = leaf([1.0, 2.0])
            y = x.exp()
            y.mul_(2)  # the culprit
            y.add_(1)
            y.sum().backward()

    error, _, _ = raised(RuntimeError, run)
    text = str(error)
    assert "It was written by mul_() at " in text
    assert f"{FILE}:" in text and "in run" in text
    line = int(text.split(f"{FILE}:")[-1].split(" ")[0])
    with open(__file__, encoding="utf-8") as f:
        assert "# the culprit" in f.read().splitlines()[line - 1] or "mul_(2)" in text


@pytest.mark.beyond_torch
@pytest.mark.parametrize(
    "write",
    [
        lambda y: y[0].fill_(3.0),
        lambda y: y.__setitem__(0, 3.0),
        lambda y: y.detach().copy_(ones(2)),
        lambda y: torch.add(y.detach(), 1, out=y.detach()),
        lambda y: y.view(2, 1).zero_(),
    ],
)
def test_writes_through_other_tensors_are_named(write):
    def run():
        with detect_anomaly():
            x = leaf([1.0, 2.0])
            y = x.exp()
            with torch.no_grad():
                write(y)
            y.sum().backward()

    error, _, _ = raised(RuntimeError, run)
    assert f"{FILE}:" in str(error).split("It was written by")[1]


@pytest.mark.beyond_torch
def test_without_anomaly_mode_the_message_says_how_to_find_out():
    x = leaf([1.0])
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"Run it under autograd.detect_anomaly\(\) to see"):
        y.sum().backward()


@pytest.mark.beyond_torch
def test_saving_line_is_named():
    def run():
        with detect_anomaly():
            x = leaf([1.0])
            y = x.exp()
            y.add_(1)
            y.sum().backward()

    error, _, _ = raised(RuntimeError, run)
    assert "It was saved by ExpBackward0 at " in str(error)
