# SPDX-License-Identifier: BSD-3-Clause
"""The checks of op_checks.py themselves: they accept right ops and refuse wrong ones."""

import pytest
from op_checks import (
    check_dims,
    check_dtypes,
    check_elementwise_shapes,
    check_forward,
    check_gradients,
    check_inplace,
    check_integers,
    check_kind,
    check_method,
    check_non_contiguous,
    check_not_differentiable,
    check_out,
    check_record,
    check_small_floats,
)
from op_table import (
    DTYPES,
    OPS,
    Ops,
    arguments,
    samples_of,
    split_samples,
)

import cograd as torch


def fake(name, signature, samples, ref="", **flags):
    base = {
        "name": name,
        "signature": signature,
        "doc": "text",
        "method": True,
        "function": True,
        "inplace": False,
        "out": False,
        "differentiable": True,
        "samples": samples,
        "ref": ref,
        "namespace": "",
        "kind": "other",
        "dtypes": list(DTYPES),
        "constants": [],
        "reads_bytes": False,
        "args": [],
    }
    return base | flags


PLAIN = {"differentiable": False}
FORMS = {"inplace": True, "out": True, "kind": "elementwise"}
FAKE_TABLE = [
    fake(
        "add",
        "input, other, *, alpha=1",
        "T(3,4), T(3,4); T(2,3), T(3), alpha=2; T(), T(2)",
        "input + alpha * other",
        **FORMS,
    ),
    fake("mul", "input, other", "T(3,4), T(3,4); T(3), 2.5; T(3), T()", "input * other", **FORMS),
    fake("div", "input, other, *, rounding_mode=None", "T(3), P(3)", "input / other", **FORMS),
    fake("exp", "input", "T(3,4); T(); T(0,2)", "np.exp(input)", **FORMS),
    fake("log", "input", "P(3,4)", "np.log(input)", **FORMS),
    fake("sigmoid", "input", "T(3,4)", "1 / (1 + np.exp(-input))", **FORMS),
    fake("abs", "input", "P(3,4)", "np.abs(input)", **FORMS),
    fake("atan2", "input, other", "P(3), P(3)", "np.arctan2(input, other)", **FORMS),
    fake(
        "clamp",
        "input, min=None, max=None",
        "T(3,4), -0.5, 0.5; T(3), max=0.2",
        "np.clip(input, min, max)",
        **FORMS,
    ),
    fake(
        "where",
        "condition, input, other",
        "B(3), T(3), T(3); B(2,3), T(3), 0.0",
        "np.where(condition, input, other)",
        method=False,
    ),
    fake(
        "sum",
        "input, dim=None, keepdim=False",
        "T(3,4); T(3,4), dim=1; T(2,3,4), dim=(0,2), keepdim=True",
        "np.sum(input, axis=dim, keepdims=keepdim)",
    ),
    fake(
        "mean",
        "input, dim=None, keepdim=False",
        "T(3,4); T(3,4), dim=1",
        "np.mean(input, axis=dim, keepdims=keepdim)",
    ),
    fake(
        "amax",
        "input, dim=(), keepdim=False",
        "T(3,4), dim=1",
        "np.max(input, axis=dim, keepdims=keepdim)",
        out=True,
    ),
    fake(
        "cumsum",
        "input, dim",
        "T(3,4), 1",
        "np.cumsum(input, axis=dim)",
        **FORMS | {"kind": "reduction"},
    ),
    fake(
        "softmax",
        "input, dim",
        "T(3,4), 1; T(3,4), dim=-2",
        "np.exp(input) / np.exp(input).sum(dim, keepdims=True)",
        out=True,
    ),
    fake(
        "matmul",
        "input, other",
        "T(2,3), T(3,4); T(3), T(3); T(2,2,3), T(3)",
        "input @ other",
        out=True,
    ),
    fake(
        "tril",
        "input, diagonal=0",
        "T(3,4); T(3,3), 1",
        "np.tril(input, diagonal)",
        **FORMS | {"kind": "shape"},
    ),
    fake("transpose", "input, dim0, dim1", "T(3,4), 0, 1", "np.swapaxes(input, dim0, dim1)"),
    fake(
        "cat",
        "tensors, dim=0",
        "[T(2,3), T(1,3)]; [T(2,3), T(2,2)], dim=1",
        "np.concatenate(tensors, dim)",
        method=False,
        out=True,
    ),
    fake(
        "gather",
        "input, dim, index",
        "T(3,4), 1, I(3,2,hi=4)",
        "np.take_along_axis(input, index, dim)",
        out=True,
    ),
    fake(
        "sort",
        "input, dim=-1, descending=False",
        "T(3,4); T(3,4), dim=0",
        "np.sort(input, dim), np.argsort(input, dim)",
    ),
    fake(
        "argmax",
        "input, dim=None, keepdim=False",
        "T(3,4); T(3,4), dim=1",
        "np.argmax(input, axis=dim)",
        **PLAIN,
    ),
    fake("isnan", "input", "T(3)", "np.isnan(input)", **PLAIN),
    fake("eq", "input, other", "T(3), T(3); I(4), 2", "np.equal(input, other)", out=True, **PLAIN),
    fake(
        "masked_fill",
        "input, mask, value",
        "T(3,4), B(3,4), 2.0; T(3,4), B(4), 1.5",
        "np.where(mask, value, input)",
        inplace=True,
    ),
    fake("view", "input, shape", "T(3,4), (12,)", "np.reshape(input, shape)", function=False),
    fake("dropout", "input, p=0.5, training=True", "T(30), 0.5, True", "", method=False),
    fake(
        "mse_loss",
        "input, target",
        "T(3,4), T(3,4)",
        "np.mean((input - target) ** 2)",
        method=False,
        namespace="_nn",
    ),
    fake("empty", "size", "none: contents are undefined", **PLAIN),
]
FAKE_CASES = [pytest.param(r, s, id=f"{r['name']}({s})") for r in FAKE_TABLE for s in samples_of(r)]


@pytest.mark.parametrize("record,sample", FAKE_CASES)
def test_checks_accept_right_ops(record, sample):
    check_record(record)
    check_forward(record, sample)
    check_small_floats(record, sample)
    check_integers(record, sample)
    check_non_contiguous(record, sample)
    check_elementwise_shapes(record, sample)
    check_kind(record, sample)
    if record["differentiable"]:
        assert check_gradients(record, sample)
    else:
        check_not_differentiable(record, sample)
    if record["method"] and record["function"]:
        check_method(record, sample)
    if record["inplace"]:
        check_inplace(record, sample)
    if record["out"]:
        check_out(record, sample)


class Wrong(Ops):
    """Ops with some forms replaced by the given callables."""

    def __init__(self, **forms):
        self.forms = forms

    def function(self, record):
        return self.forms.get("function") or super().function(record)

    def method(self, record):
        return self.forms.get("method") or super().method(record)

    def inplace(self, record):
        return self.forms.get("inplace") or super().inplace(record)


EXP = fake("exp", "input", "T(3,4)", "np.exp(input)", **FORMS)
ADD = fake("add", "input, other", "T(3,4), T(3,4)", "input + other", **FORMS)


def contiguous_only(x):
    return torch.exp(torch.as_strided(x, x.shape, torch.empty(x.shape).stride()))


def wrong_gradient(x):
    return torch.exp(x).detach() + x - x.detach()


def wrong_second_gradient(x):
    y = torch.exp(x)
    return y.detach() * (x - x.detach()) + y.detach()


def out_in_fresh_memory(x, out=None):
    y = torch.exp(x)
    if out is not None:
        out.data = y
        return out
    return y


def out_ignored(x, out=None):
    return torch.exp(x)


def inplace_through_data(x):
    x.data.exp_()
    return x


def no_broadcast(a, b):
    if a.shape != b.shape:
        raise RuntimeError("shapes differ")
    return a + b


def breaks_on_empty(x):
    if x.numel() == 0:
        raise RuntimeError("empty")
    return torch.exp(x)


def breaks_when_large(x):
    y = torch.exp(x)
    if y.numel() > 10000:
        y.view(-1)[-1] = 0
    return y


def changes_input(x):
    y = torch.exp(x)
    x.zero_()
    return y


def refuses(dtype):
    def function(x, out=None):
        if x.dtype is dtype:
            raise TypeError("exp: not implemented for this dtype")
        return torch.exp(x, out=out)

    return function


def forgets_backward(dtype):
    def function(x, out=None):
        y = torch.exp(x, out=out)
        if x.dtype is dtype and x.requires_grad:
            y.register_hook(refuse_gradient)
        return y

    return function


def refuse_gradient(grad):
    raise RuntimeError("no gradient in this dtype")


@pytest.mark.parametrize(
    "check,record,ops",
    [
        (check_forward, EXP, Wrong(function=torch.sin)),
        (check_forward, EXP, Wrong(function=lambda x: torch.exp(x).reshape(-1))),
        (check_forward, EXP, Wrong(function=lambda x: (torch.exp(x), x))),
        (check_forward, EXP, Wrong(function=changes_input)),
        (check_forward, EXP, Wrong(function=lambda x: torch.exp(x.half()).to(x.dtype))),
        (
            check_small_floats,
            EXP,
            Wrong(function=lambda x: torch.exp(x) + (x.dtype is torch.float16)),
        ),
        (check_integers, EXP, Wrong(function=lambda x: torch.exp(x) + (x.dtype is torch.int32))),
        (check_non_contiguous, EXP, Wrong(function=contiguous_only)),
        (check_elementwise_shapes, ADD, Wrong(function=no_broadcast)),
        (check_elementwise_shapes, EXP, Wrong(function=breaks_on_empty)),
        (check_elementwise_shapes, EXP, Wrong(function=breaks_when_large)),
        (check_gradients, EXP, Wrong(function=wrong_gradient)),
        (check_gradients, EXP, Wrong(function=wrong_second_gradient)),
        (check_gradients, EXP, Wrong(function=lambda x: torch.exp(x.detach()))),
        (check_not_differentiable, EXP | PLAIN, OPS),
        (check_method, EXP, Wrong(method=torch.Tensor.sin)),
        (check_inplace, EXP, Wrong(inplace=lambda x: torch.exp(x))),
        (check_inplace, EXP, Wrong(inplace=torch.Tensor.sin_)),
        (check_inplace, EXP, Wrong(inplace=inplace_through_data)),
        (check_inplace, EXP, Wrong(inplace=lambda x: x.exp_().add_(0))),
        (check_out, EXP, Wrong(function=out_ignored)),
        (check_out, EXP, Wrong(function=out_in_fresh_memory)),
    ],
)
def test_checks_refuse_wrong_ops(check, record, ops):
    with pytest.raises((AssertionError, RuntimeError)):
        check(record, record["samples"], ops)


@pytest.mark.parametrize(
    "record,dtype,ops",
    [
        (EXP | {"dtypes": ["float64"]}, torch.int32, OPS),  # works, though it is not claimed
        (EXP, torch.int32, Wrong(function=refuses(torch.int32))),
        (EXP, torch.float32, Wrong(function=refuses(torch.float32))),
        (EXP, torch.float32, Wrong(function=lambda x, out=None: torch.exp(x))),
        (EXP, torch.float32, Wrong(function=forgets_backward(torch.float32))),
    ],
)
def test_wrong_claims_are_found(record, dtype, ops):
    with pytest.raises((AssertionError, RuntimeError)):
        check_dtypes(record, dtype, ops)
    check_dtypes(EXP, dtype)


@pytest.mark.parametrize(
    "record",
    [
        EXP | {"kind": "view"},
        fake("cumsum", "input, dim", "T(5), 0", kind="elementwise"),
        fake("view", "input, shape", "T(3,4), (12,)", kind="creation", function=False),
    ],
)
def test_wrong_kinds_are_found(record):
    with pytest.raises(AssertionError):
        check_kind(record, record["samples"])


def test_a_dim_that_is_not_checked_is_found():
    args = [
        {"name": "input", "kind": "Tensor", "variadic": False, "keyword_only": False},
        {"name": "dim", "kind": "Dim", "variadic": False, "keyword_only": False},
    ]
    record = fake("cumsum", "input, dim", "T(3,4), 1", args=args)
    assert check_dims(record, record["samples"])
    with pytest.raises(AssertionError, match="is taken"):
        check_dims(record, record["samples"], Wrong(function=lambda x, dim: x))


@pytest.mark.parametrize(
    "change",
    [
        {"samples": ""},
        {"samples": "none: "},
        {"doc": " "},
        {"samples": "T(3"},
        {"samples": "T(3), 5"},
        {"inplace": 1},
    ],
)
def test_bad_records_are_refused(change):
    with pytest.raises((AssertionError, ValueError, TypeError)):
        check_record(EXP | change)


def test_split_samples():
    assert split_samples("T(3), dim=1; T(2,3), mode='a;b' ; [I(2)],;") == (
        "T(3), dim=1",
        "T(2,3), mode='a;b'",
        "[I(2)],",
    )
    assert samples_of(fake("x", "a", "none: because")) == []


def test_samples_are_repeatable():
    a, b = arguments(EXP, "T(3,4)"), arguments(EXP, "T(3,4)")
    assert torch.equal(a[0][0], b[0][0])
