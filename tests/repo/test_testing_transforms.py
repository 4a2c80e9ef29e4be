# SPDX-License-Identifier: BSD-3-Clause
"""testing.check of transforms: faults in tangents, batches and their nestings are found."""

import warnings

import numpy as np
import pytest
from test_testing_check import audit, failed, values

import cograd as torch
from cograd import _C, Tensor, library
from cograd.autograd import Function
from cograd.autograd.function import once_differentiable
from cograd.testing import check

CHECKS = ("forward_mode", "mixed_modes", "vmap", "batched_derivatives")
X, Y = values(2, 3), values(2, 3, seed=1)


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y

    @staticmethod
    def jvp(ctx, t):
        (y,) = ctx.saved_tensors
        return t * y

    @staticmethod
    def vmap(info, in_dims, x):
        return x.exp(), in_dims[0]


class Product(Function):
    """Has a rule for everything, for any combination of batched arguments and tangents."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x

    @staticmethod
    def jvp(ctx, s, t):
        x, y = ctx.saved_tensors
        parts = [a * b for a, b in ((s, y), (t, x)) if a is not None]
        return sum(parts[1:], parts[0])

    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = (a if d is None else a.movedim(d, 0) for a, d in zip((x, y), in_dims))
        return x * y, 0


class Doubled(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, x):
        return x + x

    @staticmethod
    def backward(ctx, g):
        return g + g


class OnBatches(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y.sin()

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y.sin(), g * x * y.cos()


class Derived(Function):
    """Has neither rule: both follow from backward."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + 2 * y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h, g * x + 2 * h


@library.custom_op("t_check::cube", mutates_args=())
def cube(x: Tensor) -> Tensor:
    return x * x * x


def _setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


cube.register_autograd(lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g, setup_context=_setup)

SOUND = {
    "Exp": (Exp, X),
    "Product": (Product, X, Y),
    "generate_vmap_rule": (Doubled, X),
    "generate_vmap_rule, two": (OnBatches, X, Y),
    "Derived": (Derived, X, Y),
    "registered op": (cube, X),
    "op": (torch.einsum, "ij,kj->ik", X, Y),
    "reduction": (torch.logsumexp, X, 1),
    "mean and variance": (lambda x: (x.mean(0), x.var(0)), X),
    "integers": (lambda x, i: x[i], values(5), torch.tensor([0, 2, 2])),
    "0-dim": (torch.atan2, X[0, 0], Y[0, 0]),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_transforms_pass(name):
    fn, *args = SOUND[name]
    report = check(fn, args, only=CHECKS, strict=True)
    assert [r.outcome for r in report] == ["pass"] * 5, report
    assert "refused" not in str(report)
    assert report["batched_derivatives"].detail.startswith("10 nestings")


# ---------------------------------------------------------------------- planted faults

FAULTS = {}


def fault(*checks, where="", text="", args=(X,)):
    """Registers a faulty operation: the checks that find it, and the first one's message."""

    def decorate(fn):
        FAULTS[fn.__name__] = (fn, checks, where, text, args)
        return fn

    return decorate


@fault("forward_mode", "mixed_modes", where="tangent of output at", text="with a tangent for 'x'")
class WrongTangent(Exp):
    @staticmethod
    def jvp(ctx, t):
        (y,) = ctx.saved_tensors
        return t * y + 100 * y


@fault("vmap", where="vmap at", text="each is 7 times the right value")
class WrongBatch(Exp):
    @staticmethod
    def vmap(info, in_dims, x):
        return 7 * x.exp(), in_dims[0]


@fault("forward_mode", where="tangent of output", text="times a random gradient")
class SlightlyWrongTangent(Exp):
    """Finite differences do not resolve this error."""

    @staticmethod
    def jvp(ctx, t):
        return Exp.jvp(ctx, t) * (1 + 1e-7)


@fault("forward_mode", where="tangent of output at", text="with a tangent for 'y' ", args=(X, Y))
class WrongForOneTangent(Product):
    @staticmethod
    def jvp(ctx, s, t):
        found = Product.jvp(ctx, s, t)
        return found * 2 if s is None or (s == 0).all() else found


@fault("forward_mode", where="tangent of output", text="with 'x' permuted")
class IgnoresTangentStrides(Exp):
    """A tangent has the strides of its tensor."""

    @staticmethod
    def jvp(ctx, t):
        return Exp.jvp(ctx, t) * (1 if t.is_contiguous() else 0)


@fault("forward_mode", where="tangent of 'x'", text="was written")
class WritesTangent(Exp):
    @staticmethod
    def jvp(ctx, t):
        result = Exp.jvp(ctx, t).clone()
        t.detach().mul_(2)
        return result


@fault("forward_mode", where="tangent of output[1] at", text="is 0, expected")
class LosesTangentOfSecondOutput(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, g, h):
        return 2 * g + 3 * h

    @staticmethod
    def jvp(ctx, t):
        return 2 * t, None


@fault("forward_mode", where="jvp", text="raised ZeroDivisionError")
class TangentRaises(Exp):
    @staticmethod
    def jvp(ctx, t):
        raise ZeroDivisionError("no tangent today")


@fault("mixed_modes", where="derivative of tangents by 'x'", text="reverse over forward")
class TangentHasNoHistory(Exp):
    @staticmethod
    def jvp(ctx, t):
        (y,) = ctx.saved_tensors
        return t * y.detach()


@fault("mixed_modes", where="derivative of gradient of 'x'", text="forward over reverse")
class TangentOfGradientIsWrong(Exp):
    """The tangent is right on plain tensors and wrong inside a gradient."""

    @staticmethod
    def jvp(ctx, t):
        inside = _C._within_function()
        return Exp.jvp(ctx, t) * (3 if inside else 1)


@fault("vmap", where="vmap at", text="only 'x' batched", args=(X, Y))
class WrongWithSharedArgument(Product):
    @staticmethod
    def vmap(info, in_dims, x, y):
        found, dim = Product.vmap(info, in_dims, x, y)
        return (found + 1, dim) if None in in_dims else (found, dim)


@fault("vmap", where="vmap", text="the batch in the last dim")
class IgnoresBatchDim(Exp):
    @staticmethod
    def vmap(info, in_dims, x):
        return x.exp(), 0


@fault("vmap", where="vmap", text="the batch in different dims", args=(values(3, 3), values(3, 3)))
class IgnoresSecondBatchDim(Product):
    @staticmethod
    def vmap(info, in_dims, x, y):
        if in_dims[0] == in_dims[1] or None in in_dims:
            return Product.vmap(info, in_dims, x, y)
        return x.movedim(in_dims[0], 0) * y.movedim(in_dims[1], 0).transpose(1, 2), 0


@fault("vmap", where="vmap", text="a batch of one sample")
class SqueezesBatch(Exp):
    @staticmethod
    def vmap(info, in_dims, x):
        return (x.exp() * (1 if info.batch_size > 1 else 2)), in_dims[0]


@fault("vmap", where="vmap of vmap", text="is")
class WrongInsideAnotherBatch(Exp):
    @staticmethod
    def vmap(info, in_dims, x):
        nested = _C._describe_samples(x) is not None
        return x.exp() + (1 if nested else 0), in_dims[0]


@fault("vmap", where="vmap", text="raised KeyError: 'rule', but a loop is accepted")
class BatchRaises(Exp):
    @staticmethod
    def vmap(info, in_dims, x):
        raise KeyError("rule")


@fault("vmap", where="vmap", text="a loop gives cograd.float64")
class BatchHasOtherDtype(Exp):
    @staticmethod
    def vmap(info, in_dims, x):
        return x.exp().float(), in_dims[0]


@fault("batched_derivatives", where="vmap of grad: result 1 at", text="batched", args=(X, Y))
class RuleDetaches(Product):
    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = (a if d is None else a.movedim(d, 0) for a, d in zip((x, y), in_dims))
        return x * y.detach(), 0


class _HalvesSharedGradient(Product):
    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        halved = 0.5 if x.dim() != y.dim() else 1.0
        return (g * y).sum_to_size(x.shape) * halved, (g * x).sum_to_size(y.shape) * halved


@fault("batched_derivatives", where="grad of vmap", text="only 'x' batched", args=(X, Y))
class WrongGradientOfSharedArgument(Product):
    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = (a if d is None else a.movedim(d, 0) for a, d in zip((x, y), in_dims))
        return _HalvesSharedGradient.apply(x, y), 0


@fault("batched_derivatives", where="jvp", text="with")
class WrongTangentOfBatch(Exp):
    @staticmethod
    def vmap(info, in_dims, x):
        return WrongTangent.apply(x), in_dims[0]


@fault("batched_derivatives", where="jvp of", text="with")
class WrongSecondDerivativeOfBatch(Exp):
    @staticmethod
    def vmap(info, in_dims, x):
        value = x.exp()
        return value.detach() * (1 + x - x.detach()), in_dims[0]


@fault("vmap", "batched_derivatives", where="vmap", text="expected")
class SumsOverSamples(Function):
    """Claims that forward and backward may run once for all samples, but reads their number."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, x):
        return x * (1 if _C._describe_samples(x) is None else 2)

    @staticmethod
    def backward(ctx, g):
        return g * (1 if _C._describe_samples(g) is None else 2)


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name):
    fn, checks, where, text, args = FAULTS[name]
    report = audit(fn, *args, only=CHECKS)
    for found in checks:
        assert report[found].outcome == "fail", f"{found} missed {name}\n{report}"
    assert where in report[checks[0]].where, report
    assert text in report[checks[0]].detail, report


def test_registered_rules_are_checked():
    @library.custom_op("t_check::wrong_rules", mutates_args=())
    def wrong_rules(x: Tensor) -> Tensor:
        return x * x

    wrong_rules.register_autograd(lambda ctx, g: 2 * ctx.saved_tensors[0] * g, setup_context=_setup)
    assert audit(wrong_rules, X, only=CHECKS).ok
    wrong_rules.register_jvp(lambda ctx, t: 3 * ctx.saved_tensors[0] * t)
    assert failed(audit(wrong_rules, X, only=CHECKS)) >= {"forward_mode"}
    wrong_rules.register_vmap(lambda info, in_dims, x: (x * x + 1, in_dims[0]))
    assert "vmap" in failed(audit(wrong_rules, X, only=CHECKS))


def test_a_fault_of_a_transform_shows_in_its_row():
    assert failed(audit(LosesTangentOfSecondOutput, X)) == {"forward_mode", "mixed_modes"}
    assert failed(audit(TangentHasNoHistory, X)) == {"mixed_modes"}
    assert failed(audit(RuleDetaches, X, Y)) == {"batched_derivatives"}


# ---------------------------------------------------------------------- what is refused


def test_an_operation_that_leaves_cograd_is_no_fault():
    class InNumpy(Exp):
        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return torch.from_numpy(g.detach().numpy() * y.detach().numpy())

    InNumpy.jvp, InNumpy.vmap = Function.jvp, Function.vmap
    report = check(InNumpy, X, second_order=False, skip="empty")
    assert report["forward_mode"].outcome == "skip", report
    assert "without recording" in report["forward_mode"].detail
    assert report["vmap"].outcome == report["batched_derivatives"].outcome == "pass"


def test_an_operation_without_derivatives_has_no_tangents():
    def in_numpy(x):
        return torch.from_numpy(np.sin(x.detach().numpy()))

    assert check(in_numpy, X)["forward_mode"].outcome == "skip"
    report = audit(in_numpy, X.clone().requires_grad_())
    assert {"gradcheck", "forward_mode"} <= failed(report)


def test_only_a_jvp_has_tangents():
    class Forwards(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            return x * x

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return 2 * x * t

    class Wrong(Forwards):
        @staticmethod
        def jvp(ctx, t):
            return t

    assert audit(Forwards, X, only="forward_mode").ok
    assert failed(audit(Wrong, X, only="forward_mode")) == {"forward_mode"}


def test_python_control_flow_under_vmap_is_no_fault():
    def branches(x):
        return x * 2 if x.sum() > 0 else x * 3

    report = check(branches, X)
    assert report["vmap"].outcome == "skip" and "vmap" in report["vmap"].detail
    assert report["forward_mode"].outcome == "pass"


def test_second_order_false_leaves_out_second_derivatives():
    report = audit(TangentHasNoHistory, X, only=CHECKS, second_order=False)
    assert report.ok and report["mixed_modes"].outcome == "skip"
    assert report["batched_derivatives"].detail.startswith("6 nestings")


def test_checks_of_batches_do_not_silence_the_warning_of_loops():
    class Unruled(Derived):
        pass

    check(Unruled, (X, Y), only=CHECKS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.func.vmap(Unruled.apply)(X, Y)
    assert any("Unruled has no vmap rule" in str(w.message) for w in caught)
