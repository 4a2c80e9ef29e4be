# SPDX-License-Identifier: BSD-3-Clause
"""Claims of docs/testing.md that test_testing_check.py leaves out: each has a planted fault."""

import re
from pathlib import Path

import pytest
from test_testing_check import Identity, audit, failed, values

import cograd as torch
from cograd import Tensor, library
from cograd.autograd import Function
from cograd.autograd.function import once_differentiable
from cograd.testing import check

PAGE = Path(__file__).resolve().parents[2] / "docs/testing.md"
X = values(2, 3)


@pytest.mark.skipif(not PAGE.exists(), reason="not in a source tree")
def test_the_page_names_every_check():
    from cograd.testing._check import CHECKS

    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.M)
    assert rows == ["call", *CHECKS, "float32"]


def test_writes_to_an_expanded_incoming_gradient():
    class Writes(Identity):
        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            if not grad.is_contiguous() and 0 not in grad.stride():
                return grad.detach().mul_(3)
            return grad * 3

    report = audit(Writes, X)
    assert "incoming_gradients" in failed(report)
    assert "was written by backward" in report["incoming_gradients"].detail


def test_fails_if_one_tensor_is_passed_twice():
    class RefusesSame(Function):
        @staticmethod
        def forward(ctx, x, y):
            if x is y:
                raise RuntimeError("x and y are the same tensor")
            return x + y

        @staticmethod
        def backward(ctx, grad):
            return grad, grad

    class WrongForSame(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.same = x is y
            return x + y

        @staticmethod
        def backward(ctx, grad):
            return (None, grad) if ctx.same else (grad, grad)

    for fn, text in ((RefusesSame, "same tensor"), (WrongForSame, "with one tensor as both")):
        report = audit(fn, X, X.clone(), only="input_layouts")
        assert not report and text in report["input_layouts"].detail, report


def test_wrong_under_no_grad():
    def forgets(x):
        return x * (3 if torch.is_grad_enabled() else 2)

    report = audit(forgets, X, only="needs_input_grad")
    assert "under no_grad" in report["needs_input_grad"].detail, report


class Unpicklable(Tensor):
    def __reduce_ex__(self, protocol):
        raise TypeError("this tensor is not pickled")


class ForgetsItsType(Tensor):
    def __reduce_ex__(self, protocol):
        return self.detach().as_subclass(Tensor).__reduce_ex__(protocol)


def test_arguments_and_outputs_that_pickle_cannot_keep():
    def same(x):
        return x * 1

    for kind, text in ((Unpicklable, "cannot be pickled"), (ForgetsItsType, "comes back")):
        report = audit(same, X.double().as_subclass(kind), only="pickle")
        assert report["pickle"].where == "'x'" and text in report["pickle"].detail, report
        report = audit(lambda x, kind=kind: x.as_subclass(kind), X, only="pickle")
        assert report["pickle"].where == "output" and text in report["pickle"].detail, report


def test_precisions_named_in_dtypes():
    def coarse(x):
        return (x * 64).round() / 64 if x.dtype == torch.float16 else x * 1

    assert audit(coarse, X).ok
    assert failed(audit(coarse, X, dtypes=(torch.float32, torch.float16))) == {"float16"}


def test_declared_writes_need_no_name():
    @library.custom_op("t_claims::add_into", mutates_args=("total",))
    def add_into(total: Tensor, x: Tensor) -> None:
        total.add_(x)

    @library.custom_op("t_claims::add_into_quietly", mutates_args=())
    def add_into_quietly(total: Tensor, x: Tensor) -> Tensor:
        total.add_(x)
        return x.clone()

    assert check(add_into, (values(3), values(3)))["writes"].outcome == "pass"
    assert "writes" in failed(audit(add_into_quietly, values(3), values(3)))


def test_tolerances():
    class Slightly(Identity):
        @staticmethod
        def backward(ctx, grad):
            return grad * 3.01

    assert failed(audit(Slightly, X)) >= {"gradcheck"}
    for loose in ({"rtol": 0.01}, {"atol": 0.02}):
        assert audit(Slightly, X, only="gradcheck", **loose).ok

    def stairs(x):  # flat at the scale of the default step
        return x + 1e-4 * torch.floor(x.detach() * 1e4)

    assert not audit(stairs, X + 2e-5, only="gradcheck", eps=1e-2)
    assert audit(stairs, X + 2e-5, only="gradcheck").ok


@pytest.mark.keeps_nodes
def test_more_iterations_find_a_later_leak():
    class Late(Identity):
        kept, calls = [], [0]

        @staticmethod
        def forward(ctx, x):
            Late.calls[0] += 1
            if Late.calls[0] > 400:
                Late.kept.append(x.detach())
            return x * 3

    assert audit(Late, X, only="leaks").ok
    assert failed(audit(Late, X, only="leaks", iterations=1000)) == {"leaks"}


def test_random_state_and_arguments_are_left_alone():
    def noisy(x, counts):
        counts += 1
        return x * torch.rand(x.shape, dtype=x.dtype)

    x, counts = X.clone().requires_grad_(), torch.zeros(2)
    state = torch.get_rng_state()
    assert failed(audit(noisy, x, counts)) >= {"determinism", "writes"}
    assert torch.equal(torch.get_rng_state(), state)
    assert x.grad is None and x._version == 0 and counts.tolist() == [0, 0]


def test_nested_arguments_are_checked():
    class Tree(Function):
        pytree = True

        @staticmethod
        def forward(ctx, parts):
            return parts["x"][0] * 2 + parts["y"]

        @staticmethod
        def backward(ctx, grad):
            return ({"x": [grad], "y": grad},)

    report = audit(Tree, {"x": [X], "y": X.clone()}, only="gradcheck")
    assert "'parts'['x'][0]" in report["gradcheck"].where, report


def test_modules_are_checked():
    class Halves(torch.nn.Module):
        def forward(self, x):
            return x - 0.5 * x.detach()

    assert failed(audit(Halves(), X)) >= {"gradcheck"}
    assert audit(torch.nn.Linear(3, 2), X).ok
