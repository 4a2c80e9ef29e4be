# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the hunters find planted faults, and that faults they once found stay fixed."""

import os
import signal
import sys

import numpy as np
import pytest
from children import is_error, outcome

import cograd as torch
from cograd import _C
from cograd.autograd import Function
from fuzz import files, functions, lifetimes, processes
from fuzz.cases import Case, generate
from fuzz.hunt import hunt, run_many
from fuzz.shrink import shrink
from fuzz.targets import all_targets

TARGETS = all_targets()


def plant(monkeypatch, what):
    """Adds an op that calls `what` if its second argument is None; returns its target."""

    def op(input, other=None, *rest, **words):
        return what() if other is None else input

    monkeypatch.setattr(torch, "planted", op, raising=False)
    return [("torch.planted", [("input", "Tensor", False), ("other", "Any", False)], [])]


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "SIGSEGV"),
        (lambda: os._exit(7), "exit 7"),
        (lambda: exec("raise SystemError('x')"), "wrong"),
        (lambda: setattr(torch, "kept", torch.ones(1, requires_grad=True) * 2), "wrong"),
    ],
)
def test_what_is_planted_is_found_and_shrunk(monkeypatch, what, kind):
    targets = plant(monkeypatch, what)
    monkeypatch.setattr(torch, "kept", None, raising=False)
    ran, _, findings = hunt(targets, 0, 60, 300, 2, lambda text: None, most=1)
    assert findings and {f.kind for f in findings} == {kind}
    assert 0 < ran <= 300
    small = shrink(findings[0].case, kind)
    assert small is not None and small.args[1:] in ([], ["None"]) and small.mode == "plain"


def test_a_hang_is_ended(monkeypatch):
    monkeypatch.setattr("fuzz.hunt.PATIENCE", 0.5)
    found = []
    run_many(lambda i: signal.pause() if i == 3 else None, 0, 6, jobs=1, batch=6,
             found=lambda kind, at, *rest: found.append((kind, at)) or 1)  # fmt: skip
    assert found == [("hang", 3)]


def test_a_seed_gives_the_same_case():
    assert generate(TARGETS, 12345) == generate(TARGETS, 12345)
    assert len({generate(TARGETS, i).path for i in range(300)}) > 100
    assert len({t[0] for t in TARGETS}) > 2000


def test_some_of_each_hunt_finds_nothing():
    texts = []
    assert hunt(TARGETS, 1, 60, 600, 2, texts.append)[2] == [], texts
    for module in (files, functions, lifetimes):
        run_many(module.case, 0, 60, batch=30, found=lambda *f: texts.append(f) or 1)
    assert not texts


# Faults that the hunters found, each as its smallest case.


def case(path, *args, **words):
    from fuzz.execute import run_and_check

    return outcome(lambda: run_and_check(Case(path, list(args), words)), seconds=40)


@pytest.mark.parametrize("dtype", ["int16", "uint8", "bool", "int64"])
def test_private_dropout_takes_floats_only(dtype):
    assert case("_C._ops._dropout", f"T((17,), {dtype!r})", "0.5") == "ok 'RuntimeError'"


@pytest.mark.parametrize("size", ["(-7, 2)", "(3, 0, 1)", "(3,)", "(2**40, 2**40)", "()"])
def test_expand_reduced_takes_reductions_only(size):
    assert case("_C._ops._expand_reduced", "T((3, 2))", size, "1") == "ok 'RuntimeError'"


@pytest.mark.parametrize("b", ["T((4,))", "T((1, 4))", "T((3, 4), 'int64')", "T(())"])
def test_private_recurrence_takes_factors_of_its_shape_and_dtype(b):
    assert case("_C._ops._linear_recurrence", "T((3, 4))", b) == "ok 'RuntimeError'"


@pytest.mark.parametrize("by", [-(2**63), 2**63 - 1, 2**32, 3])
def test_private_shift_by_all_places_or_more_gives_zeros(by):
    x = torch.ones(3, requires_grad=True)
    out = torch._C._ops._shift(x, 0, by)
    (g,) = torch.autograd.grad(out.sum(), x)
    assert out.tolist() == g.tolist() == [0.0] * 3


def test_unsafe_view_takes_no_negative_sizes():
    assert case("_C._ops._unsafe_view", "T((1, 1))", "(-1, -1)") == "ok 'RuntimeError'"


@pytest.mark.parametrize("n", [2**21, 2**40, 2**62])
@pytest.mark.parametrize("name", ["legendre_polynomial_p", "laguerre_polynomial_l"])
def test_polynomials_of_huge_degree_end(name, n):
    op = getattr(torch.special, name)
    x = torch.tensor([-1.5, -0.9, 0.0, 0.3, 1.0, 1.0001, torch.nan], dtype=torch.float64)
    seen = outcome(lambda: op(x, float(n)).tolist(), seconds=40)
    assert is_error(seen), seen


def test_legendre_of_high_degree_goes_on_where_the_recurrence_ends():
    """sqrt(t / sin t) (J_0(N t) + ...) continues (n + 1) P_{n+1} = (2n+1) x P_n - n P_{n-1}."""
    x = torch.tensor([-0.99, -0.5, 0.01, 0.3, 0.999999], dtype=torch.float64)
    n = 2.0**20  # the last degree by the recurrence
    low, mid = (torch.special.legendre_polynomial_p(x, n - k) for k in (1.0, 0.0))
    want = ((2 * n + 1) * x * mid - n * low) / (n + 1)
    got = torch.special.legendre_polynomial_p(x, n + 1)
    assert float((got - want).abs().max()) < 1e-11


@pytest.mark.parametrize("stop", [-1, -(2**62)])
def test_arange_over_more_than_int64_counts(stop):
    with pytest.raises(RuntimeError, match="too long|overflow"):
        torch.arange(2**63 - 1, stop, -1)


def test_more_bytes_than_int64_counts():
    x = torch.ones(1).expand(2**61)
    assert x.nbytes == 2**63
    with pytest.raises(BufferError):
        memoryview(x)
    empty = torch.empty(0).as_strided((0, 2), (2**62, 1))
    assert empty.numpy().shape == np.asarray(memoryview(empty)).shape == (0, 2)


@pytest.mark.parametrize("shape", [(2,), (3,), (2, 3)])
def test_samples_without_a_last_dim_have_no_complex_view(shape):
    x = torch.ones(*shape, dtype=torch.float64)
    f = torch.view_as_complex
    for _ in shape:
        f = torch.vmap(f)
    seen = outcome(lambda: f(x))
    assert seen.startswith("RuntimeError"), seen
    both = torch.vmap(torch.view_as_complex)(torch.arange(12.0).reshape(3, 2, 2))
    assert torch.equal(both, torch.view_as_complex(torch.arange(12.0).reshape(3, 2, 2)))


def test_samples_that_are_no_matrices_have_no_product():
    x = torch.ones(3, dtype=torch.int64)
    seen = outcome(lambda: torch.vmap(torch.addmm)(x, x, x))
    assert seen.startswith("RuntimeError"), seen


class NoTruth:
    def __bool__(self):
        raise ZeroDivisionError


def test_an_error_in_a_truth_value_is_raised():
    x = torch.ones(2, requires_grad=True)
    for use in (
        lambda: x.detach().numpy(force=NoTruth()),
        lambda: x.sum().backward(create_graph=NoTruth()),
        lambda: x.sum().backward(retain_graph=NoTruth()),
    ):
        with pytest.raises(ZeroDivisionError):
            use()


def test_mvlgamma_refuses_what_would_not_end():
    with pytest.raises(RuntimeError, match="at most 65536"):
        torch.mvlgamma(torch.ones(2), 2**40)


class Keeps(Function):
    @staticmethod
    def forward(a):
        return a * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.output = output
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        return g

    @staticmethod
    def jvp(ctx, t):
        raise RuntimeError("no")


def fail(*args):
    raise RuntimeError("no")


def test_a_function_that_fails_after_forward_leaves_no_cycle():
    import gc

    x = torch.ones(2, requires_grad=True)
    x.sum().backward()  # creates the accumulator of x, which counts as a node
    base = _C._live_nodes()
    with pytest.raises(RuntimeError, match="no"):
        torch.func.jvp(Keeps.apply, (x,), (torch.ones(2),))
    gc.collect()
    assert _C._live_nodes() == base
    with torch.autograd.graph.saved_tensors_hooks(fail, fail), pytest.raises(RuntimeError):
        Keeps.apply(x)
    gc.collect()
    assert _C._live_nodes() == base


@pytest.mark.parametrize("name", ["exit with threads running", "fork in a hook"])
def test_programs_that_end_badly(name):
    processes.case(sorted(processes.SCENARIOS).index(name))


@pytest.mark.parametrize(
    "make",
    [torch.Generator, lambda: torch.device("cpu"), torch.default_generator.clone_state]
    + [
        lambda: torch.ones(2).untyped_storage(),
        pytest.param(
            lambda: torch.vmap(lambda x: x.neg())(torch.ones(2)),
            marks=pytest.mark.skipif(
                sys.version_info[:2] in {(3, 12), (3, 13)},
                reason="CPython crashes where it has no memory for a function in a function",
            ),
        ),
    ],
)
def test_bound_classes_raise_where_python_has_no_memory_for_an_object(make):
    api = pytest.importorskip("_testcapi")

    def starve():
        for n in range(200):
            api.set_nomemory(n, n + 1)
            try:
                make()
            except Exception:  # CPython decides which one
                pass
            finally:
                api.remove_mem_hooks()

    make()
    assert outcome(starve) == "ok None"
