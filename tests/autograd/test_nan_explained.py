# SPDX-License-Identifier: BSD-3-Clause
"""Anomaly mode's reason for a nan: which gradient met which derivative, and what to write."""

import re
import warnings

import pytest

import cograd as torch
from cograd import linalg, special
from cograd.autograd import detect_anomaly
from cograd.nn import functional as F

pytestmark = [
    pytest.mark.beyond_torch,
    pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled"),
]
INF = float("inf")


def leaf(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def square(*rows):
    return torch.tensor(rows, dtype=torch.float64, requires_grad=True)


def reason(run, **options):
    """Returns the error's text after torch's sentences."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with detect_anomaly(**options), pytest.raises(RuntimeError) as info:
            run().sum().backward()
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
    "div": (lambda x: 1 / x, 0.0, "input 0 is ±inf", "x / where(m, y, 1)"),
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
    "softmax": (lambda: F.softmax(leaf(-INF, -INF), 0), "every element of that row was -inf"),
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
    assert text.startswith("The values are with a pack hook. If a `where` masks it")


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
