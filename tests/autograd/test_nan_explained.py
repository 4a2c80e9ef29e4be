# SPDX-License-Identifier: BSD-3-Clause
"""Anomaly mode's reason for a nan: which gradient met which derivative, and what to write."""

import re
import warnings

import numpy as np
import pytest

import cograd as torch
from cograd import linalg, special
from cograd.autograd import _poles, detect_anomaly
from cograd.nn import functional as F

pytestmark = [
    pytest.mark.beyond_torch,
    pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled"),
]
INF, NAN = float("inf"), float("nan")


def leaf(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def square(*rows):
    return torch.tensor(rows, dtype=torch.float64, requires_grad=True)


def single(*values):
    return torch.tensor(values, requires_grad=True)


def reason(run, grad=None, **options):
    """Returns the error's text after torch's sentences."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with detect_anomaly(**options), pytest.raises(RuntimeError) as info:
            y = run()
            y = y.sum() if grad is None else y
            y.backward(None if grad is None else torch.tensor(grad, dtype=y.dtype))
    text = str(info.value)
    return text.split("].", 1)[1].strip() if "]." in text else text


def masked(f, bad, good=0.3):
    """Selects the second element only; the first one is at the pole."""

    def run():
        y = f(leaf(bad, good))
        return torch.where(torch.tensor([False, True]), y, torch.zeros_like(y))

    return run


def test_the_whole_message():
    def run():
        x = leaf(4.0, 0.0)
        return torch.where(x > 0, x.sqrt(), x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with detect_anomaly(), pytest.raises(RuntimeError) as info:
            run().sum().backward()
    assert str(info.value) == (
        "Function 'SqrtBackward0' returned nan values in its 0th output. The first is nan at index "
        "[1] of a gradient of shape [2]. Gradient 0 came in and the derivative of sqrt at input 0 "
        "is inf (0 * inf). If a `where` masks it, mask the input too: where(m, x, 1).sqrt()."
    )


# Op at a pole that where() masks -> the point, the derivative there, and what to write instead.
MASKED = {
    "sqrt": (torch.sqrt, 0.0, "input 0 is inf", "where(m, x, 1).sqrt()"),
    "rsqrt": (torch.rsqrt, 0.0, "input 0 is -inf", "where(m, x, 1).rsqrt()"),
    "reciprocal": (torch.reciprocal, 0.0, "input 0 is -inf", "where(m, x, 1).reciprocal()"),
    "log": (torch.log, 0.0, "input 0 is inf", "where(m, x, 1).log()"),
    "log2": (torch.log2, 0.0, "input 0 is inf", "where(m, x, 1).log2()"),
    "log10": (torch.log10, 0.0, "input 0 is inf", "where(m, x, 1).log10()"),
    "log1p": (torch.log1p, -1.0, "input -1 is inf", "where(m, x, 0).log1p()"),
    "logit": (torch.logit, 1.0, "input 1 is inf", "where(m, x, 0.5).logit()"),
    "acos": (torch.acos, 1.0, "input 1 is -inf", "where(m, x, 0).acos()"),
    "asin": (torch.asin, -1.0, "input -1 is inf", "where(m, x, 0).asin()"),
    "atanh": (torch.atanh, 1.0, "input 1 is inf", "where(m, x, 0).atanh()"),
    "erfinv": (torch.erfinv, 1.0, "input 1 is inf", "where(m, x, 0).erfinv()"),
    "entr": (special.entr, 0.0, "input 0 is inf", "special.entr(where(m, x, 1))"),
    "ndtri": (special.ndtri, 0.0, "input 0 is inf", "special.ndtri(where(m, x, 0.5))"),
    "pow": (lambda x: x**0.3, 0.0, "input 0 is inf", "where(m, x, 1) ** p"),
    "div": (lambda x: 1 / x, 0.0, "input 0 is -inf", "x / where(m, y, 1)"),
    "hypot": (lambda x: torch.hypot(x, x), 0.0, "input (0, 0) is nan", "hypot(where(m, x, 1), y)"),
    "xlogy": (
        lambda x: torch.xlogy(x, x.detach() * 0),
        1.0,
        "input (1, 0) is -inf",
        "xlogy(x, where(m, y, 1))",
    ),
}


@pytest.mark.parametrize("name", MASKED)
def test_poles_that_where_masks(name):
    f, bad, point, instead = MASKED[name]
    text = reason(masked(f, bad))
    assert text.startswith(f"Gradient 0 came in and the derivative of {name} at {point}"), text
    assert text.endswith(f"mask the input too: {instead}.")


def test_the_advice_works():
    x = leaf(0.0, 4.0)
    with detect_anomaly():
        m = x > 0
        torch.where(m, torch.where(m, x, 1).sqrt(), 0 * x).sum().backward()
    assert x.grad.tolist() == [0, 0.25]


def test_powers_and_quotients_of_two_tensors():
    text = reason(masked(lambda x: x ** leaf(0.5, 0.5), 0.0))
    assert "derivative of pow at input (0, 0.5) is inf (0 * inf)" in text
    text = reason(masked(lambda x: torch.pow(x.detach(), x), -1.0))
    assert "derivative of pow at input (-1, -1) is nan: the function has none there" in text
    text = reason(masked(lambda x: x / x, 0.0))
    assert "derivative of div at input (0, 0) is inf (0 * inf)" in text
    text = reason(lambda: F.normalize(leaf(0.0, 0.0), dim=0, eps=0))
    assert "Gradient 1 came in and the derivative of div at input (0, 0) is nan" in text


def test_what_came_in_is_blamed_first():
    x = leaf(4.0, 1.0)
    with warnings.catch_warnings(), detect_anomaly(), pytest.raises(RuntimeError) as info:
        warnings.simplefilter("ignore")
        (x * 3).backward(torch.tensor([1.0, float("nan")], dtype=torch.float64))
    assert "A gradient that came in has nan already, at index [1]." in str(info.value)
    text = reason(lambda: (leaf(0.0).sqrt() * leaf(0.0)) ** 0.5)
    assert "inf" in text
    text = reason(lambda: leaf(-1.0).sqrt())
    assert text.startswith("Gradient 1 came in, but the input of sqrt or its result is nan there")
    assert "detect_anomaly(forward=True)" in text


def test_infinities_are_explained_too():
    text = reason(lambda: leaf(0.0, 4.0).log(), inf=True)
    assert text.startswith(
        "Gradient 1 came in and the derivative of log at input 0 is inf (1 * inf)"
    )


WHOLE = {
    "std": (lambda: leaf(1.0).std(), "divides by n - correction, which is 0"),
    "var": (lambda: leaf(1.0).var(), "divides by n - correction, which is 0"),
    "std_mean": (lambda: torch.std_mean(leaf(1.0))[0], "pass correction=0"),
    "eigh": (lambda: linalg.eigh(square([1.0, 0.0], [0.0, 1.0]))[1], "eigenvalues 0 and 1 are eq"),
    "eig": (lambda: linalg.eig(square([1.0, 0.0], [0.0, 1.0]))[1].abs(), "eigenvalues 0 and 1"),
    "svd": (
        lambda: linalg.svd(square([1.0, 0.0], [0.0, 1.0]))[0].abs(),
        "values 0 and 1 are equal",
    ),
    "svd of 0": (
        lambda: linalg.svd(square([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]), full_matrices=False)[2],
        "A singular value is 0, at index [0]",
    ),
    "slogdet": (lambda: linalg.slogdet(square([0.0, 0.0], [0.0, 0.0]))[1], "matrix is singular"),
    "softmax": (lambda: F.softmax(leaf(-INF, -INF), 0), "Its saved tensor `result` has nan"),
    "logsumexp": (lambda: torch.logsumexp(leaf(-INF, -INF), 0), "Every element of that row was"),
    "batch_norm": (
        lambda: F.batch_norm(square([1.0], [1.0]), None, None, training=True, eps=0),
        "pass a positive eps",
    ),
    "layer_norm": (lambda: F.layer_norm(leaf(1.0, 1.0), (2,), eps=0), "pass a positive eps"),
    "tan": (masked(torch.tan, INF), "Its saved tensor `result` has nan at index [0]"),
    "sin": (masked(torch.sin, INF), "Its saved tensor `self` is infinite at index [0]"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_ops_on_several_elements(name):
    run, expected = WHOLE[name]
    assert expected in reason(run)


def test_batches_bfloat16_and_threads():
    def mapped():
        return torch.vmap(lambda x: torch.where(x > 0, x.sqrt(), 0 * x))(leaf(0.0, 1.0))

    assert "derivative of sqrt at input 0 is inf" in reason(mapped)

    def short():
        x = torch.zeros(1, dtype=torch.bfloat16, requires_grad=True)
        return torch.where(torch.tensor([False]), x.sqrt(), torch.zeros_like(x))

    assert "derivative of sqrt at input 0 is inf" in reason(short)


def test_pack_hooks_are_not_called_again():
    unpacked = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: unpacked.append(1) or t):
        x = leaf(0.0)
        y = x.log() * 0
    n = len(unpacked)
    text = reason(lambda: y)
    assert len(unpacked) == n + 1  # by the node itself
    assert text == ""


def test_a_post_hook_that_removes_itself_hides_nothing():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="returned nan"):
        y = x.sqrt()
        handle = y.grad_fn.register_hook(lambda *_: handle.remove())
        (y * torch.tensor([0.0, 1.0])).sum().backward()


def test_post_hooks_may_repair():
    x = leaf(0.0)
    y = x.sqrt()
    y.grad_fn.register_hook(lambda out, grads: (torch.zeros_like(out[0]),))
    with warnings.catch_warnings(), detect_anomaly():
        (y * 0).sum().backward()
    assert x.grad.tolist() == [0]


def test_saved_tensors_are_released_after_the_failure():
    y = leaf(0.0).sqrt() * 0
    assert "sqrt" in reason(lambda: y)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_texts_have_no_forms_left():
    for run in (masked(f, bad) for f, bad, _, _ in MASKED.values()):
        assert not re.search(r"[{}]|None|array\(", reason(run))


# Only what holds at the element that is bad -> the beginning of the reason; "" if there is none.
AT_THE_ELEMENT = {
    "pow, nan beside 0": (lambda: single(0.0, NAN) ** 2, None, False, "Gradient 1 came in, but"),
    "pow, nan beside -1": (lambda: single(-1.0, NAN) ** 2, None, False, "Gradient 1 came in, but"),
    "pow overflows": (lambda: single(-1.0, 1e30) ** 3, None, True, ""),
    "pow has a pole": (lambda: single(-1.0, 0.0) ** -1, [1.0, 1.0], True, "Gradient 1 came in and"),
    "logit with eps": (
        lambda: torch.logit(single(0.0, 0.5), eps=1e-3),
        [1.0, 3e38],
        True,
        "Gradient 3e+38 came in and the derivative of logit at input 0.5 is 4",
    ),
    "digamma overflows": (lambda: torch.digamma(single(1e-30)), None, True, ""),
    "division by a number": (lambda: single(1.0, 0.0) / 0.0, [1.0, 0.0], False, ""),
    "number that is 0": (lambda: 0.0 / single(0.0), None, False, "Gradient 1 came in and the deri"),
    "atan2 beside zeros": (
        lambda: torch.atan2(single(0.0, NAN), single(0.0)),
        None,
        False,
        "Gradient 1 came in, but the input of atan2",
    ),
    "solve, nan on the right": (
        lambda: linalg.solve(torch.eye(2).requires_grad_(), torch.tensor([[1.0, NAN], [1.0, 1.0]])),
        None,
        False,
        "Its saved tensor",
    ),
    "inv of nan": (
        lambda: linalg.inv_ex(square([NAN, 0], [0, 1]))[0],
        None,
        False,
        "Its saved ten",
    ),
    "det overflows": (
        lambda: linalg.det((1e30 * torch.eye(2)).requires_grad_()),
        None,
        True,
        "Its saved tensor `result` is infinite",
    ),
    "qr of nan": (lambda: linalg.qr(square([NAN, 0], [0, 1]))[1], None, False, "Its saved tensor"),
    "cholesky of nan": (
        lambda: linalg.cholesky_ex(square([NAN, 0], [0, 1]))[0],
        None,
        False,
        "Its saved tensor",
    ),
    "cdist of nan": (
        lambda: torch.cdist(square([NAN], [1.0]), square([1.0], [1.0])),
        None,
        False,
        "Its saved tensor",
    ),
    "softmax of nan": (
        lambda: F.softmax(single(NAN, 1.0), 0),
        None,
        False,
        "Its saved tensor `res",
    ),
    "logsumexp of nan": (lambda: torch.logsumexp(single(NAN, -INF), 0), None, False, "Its saved"),
    "std of inf": (
        lambda: single(INF, 1.0).std(),
        None,
        False,
        "Its saved tensor `result` has nan",
    ),
    "var overflows": (lambda: single(3e38, -3e38).var(), 1e10, True, ""),
    "layer_norm of nan": (lambda: F.layer_norm(single(1.0, NAN), (2,)), None, False, "Its saved"),
}


@pytest.mark.parametrize("name", AT_THE_ELEMENT)
def test_only_what_holds_at_the_bad_element(name):
    run, grad, inf, expected = AT_THE_ELEMENT[name]
    text = reason(run, grad, inf=inf)
    assert text.startswith(expected) if expected else text == ""


def test_the_element_of_a_broadcast_operand():
    text = reason(lambda: torch.ones(2, 3) / single(1.0, 0.0, 2.0), inf=True)
    assert "derivative of div at input (1, 0) is -inf (1 * -inf)" in text


POST_HOOKS = {
    "saved tensors are freed": (lambda: single(0.0).sqrt(), lambda out, grads: None),
    "the hook made it": (
        lambda: linalg.inv(torch.eye(2).requires_grad_()),
        lambda out, grads: (torch.full_like(out[0], NAN),),
    ),
}


@pytest.mark.parametrize("name", POST_HOOKS)
def test_nothing_is_said_after_post_hooks(name):
    op, hook = POST_HOOKS[name]

    def run():
        y = op()
        y.grad_fn.register_hook(hook)
        return y * 0

    assert reason(run) == ""


@pytest.mark.parametrize("op", [torch.div, torch.hypot, torch.atan2])
def test_packed_operands_are_no_numbers(op):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: [t], lambda t: t[0]):
        y = op(single(INF), single(INF))
    assert reason(lambda: y) == ""


def test_what_came_in_is_known_although_operands_are_packed():
    with torch.autograd.graph.saved_tensors_hooks(lambda t: [t], lambda t: t[0]):
        y = torch.hypot(single(1.0), single(1.0))
    assert reason(lambda: y, [NAN]) == "A gradient that came in has nan already, at index [0]."


@pytest.mark.parametrize("first", [False, True])
def test_slots_of_a_function_have_no_name(first):
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b, g * a

    values = (NAN, 1.0) if first else (1.0, NAN)
    text = reason(lambda: Product.apply(*map(single, values)))
    assert text.startswith("Its saved tensor has nan at index [0]")


def test_bfloat16_is_widened_without_python_numbers(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "tolist", lambda self: pytest.fail("made a list"))
    x = torch.tensor([-2.5, 0.0], dtype=torch.bfloat16, requires_grad=True)
    text = reason(lambda: 1 / x, inf=True)
    assert "derivative of div at input 0 is -inf" in text
    assert _poles._array(x).tolist() == [-2.5, 0.0]


def test_erf_sees_one_element(monkeypatch):
    seen = []
    erf = _poles._erf
    monkeypatch.setattr(_poles, "_erf", lambda r: seen.append(np.size(r)) or erf(r))
    x = torch.full((100,), 0.5, dtype=torch.float64)
    x[3] = 1
    assert "derivative of erfinv at input 1 is inf" in reason(
        lambda: torch.erfinv(x.requires_grad_()), inf=True
    )
    assert seen
    assert max(seen) == 1


def test_interrupts_are_passed_on(monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(_poles, "explain", interrupted)
    with detect_anomaly(), pytest.raises(KeyboardInterrupt):
        (leaf(0.0).sqrt() * 0).sum().backward()
