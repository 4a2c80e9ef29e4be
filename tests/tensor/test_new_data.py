# SPDX-License-Identifier: BSD-3-Clause
"""`x.data = y`: the version counter continues, and what graphs saved of x is used or refused."""

import gc
import weakref

import pytest
from conftest import leaf, ones, same
from op_items import each_cell

import cograd as torch
from cograd import nn

F = nn.functional


def written(times=2):
    """Returns a leaf that was written `times` times."""
    w = leaf([[1.0, 2.0], [3.0, 4.0]])
    with torch.no_grad():
        for _ in range(times):
            w.mul_(1)
    return w


# ---- the count of writes -------------------------------------------------------------------------


def test_version_stays_when_data_is_assigned():
    w = written(3)
    w.data = ones(2, 2)
    assert w._version == 3
    w.data = ones(4)
    assert w._version == 3
    with torch.no_grad():
        w.add_(1)
    assert w._version == 4


@pytest.mark.parametrize(
    "change",
    [lambda m: m.cpu(), lambda m: m.float(), lambda m: m.to("cpu"), lambda m: m.to(torch.float32)],
)
def test_module_conversions_that_change_nothing_leave_the_graph_usable(change):
    m = nn.Linear(2, 2)
    with torch.no_grad():
        m.weight.mul_(2)
        m.weight.mul_(2)
    x = torch.ones(3, 2, requires_grad=True)
    out = (m(x) ** 2).sum() + (m.weight**2).sum()
    change(m)
    out.backward()
    assert m.weight.grad is not None and x.grad is not None


def test_assigned_data_is_no_write():
    w = written()
    out = (w * w).sum()
    w.data = w.data * 1
    out.backward()
    assert same(w.grad, [[2, 4], [6, 8]])


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_write_after_assigned_data_is_found(writes):
    w = written()
    out = (w * w).sum()
    w.data = w.data * 1
    with torch.no_grad():
        for _ in range(writes):
            w.add_(1)
    with pytest.raises(RuntimeError, match=rf"is at version {2 + writes}; expected version 2"):
        out.backward()


def test_write_after_a_linear_was_given_data_is_found():
    m = nn.Linear(2, 2)
    x = torch.ones(3, 2, requires_grad=True)
    out = m(x).sum()
    m.weight.data = m.weight.data * 1
    with torch.no_grad():
        m.weight.add_(1)
    with pytest.raises(RuntimeError, match="is at version 2; expected version 1"):
        out.backward()


def test_views_made_before_keep_the_memory_and_their_count():
    w = written(1)
    row = w[0]
    w.data = ones(2, 2) * 9
    with torch.no_grad():
        w.add_(1)
    assert same(row, [1, 2]) and row._version == 1 and w._version == 2


# ---- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3, 2), (2,), (4, 3, 2)])
def test_linear_uses_the_weight_it_was_called_with(bias, shape):
    m = nn.Linear(2, 2, bias=bias)
    old = m.weight.detach().clone()
    x = torch.ones(shape, requires_grad=True)
    out = m(x).sum()
    m.weight.data = m.weight.data * 5
    out.backward()
    assert torch.allclose(x.grad, old.sum(0).expand(shape))
    assert m.weight.grad is not None


def test_linear_after_new_data_has_its_second_derivative():
    w = leaf([[1.0, 2.0], [3.0, 4.0]])
    x = leaf([[1.0, 2.0]])
    out = F.linear(x, w).sum()
    (g,) = torch.autograd.grad(out, x, create_graph=True)
    (second,) = torch.autograd.grad(g.sum(), w)
    assert same(second, [[1, 1], [1, 1]])


def test_linear_weight_of_another_dtype_since():
    m = nn.Linear(2, 2)
    old = m.weight.detach().clone()
    x = torch.ones(3, 2, requires_grad=True)
    out = m(x).sum()
    m.double()
    out.backward()
    assert torch.allclose(x.grad, old.sum(0).expand(3, 2))
    assert m.weight.grad.dtype == torch.float64


# ---- another geometry: used safely or refused ----------------------------------------------------

OTHER = [
    lambda: torch.ones(1),
    lambda: torch.ones(0),
    lambda: torch.ones(2, 2, dtype=torch.float64),
    lambda: torch.ones(3),
    lambda: torch.ones(2, 1),
]

USES = {
    "mul": lambda x: x * x,
    "exp of": lambda x: x.sin(),
    "layer_norm": lambda x: F.layer_norm(x, (64,), torch.ones(64), torch.ones(64)),
    "layer_norm weight": lambda x: F.layer_norm(
        torch.ones(64, 64, requires_grad=True), (64, 64), x
    ),
    "min": lambda x: x.min(1)[0],
    "max": lambda x: x.max(0)[0],
    "amax": lambda x: x.amax(1),
    "mv": lambda x: x.mv(torch.ones(64, requires_grad=True)),
    "mm": lambda x: x.mm(torch.ones(64, 64, requires_grad=True)),
    "matmul": lambda x: torch.ones(3, 64, 64, requires_grad=True) @ x,
    "linear": lambda x: F.linear(torch.ones(3, 64, requires_grad=True), x),
    "linear input": lambda x: F.linear(x, torch.ones(3, 64, requires_grad=True)),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
    "gather": lambda x: x.gather(1, torch.zeros(64, 2, dtype=torch.int64)),
    "prod": lambda x: x.prod(1),
    "cumprod": lambda x: x.cumprod(1),
    "norm": lambda x: x.norm(dim=1),
    "std": lambda x: x.std(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "where": lambda x: torch.where(x > 0, x * x, x),
    "prelu": lambda x: F.prelu(x, torch.ones(64, requires_grad=True)),
    "cdist": lambda x: torch.cdist(x, torch.ones(5, 64, requires_grad=True)),
    "pow": lambda x: x**2.5,
    "atan2": lambda x: torch.atan2(x, x * 2),
    "embedding": lambda x: F.embedding(torch.tensor([1, 2]), x),
    "inverse": lambda x: torch.linalg.inv(x + torch.eye(64) * 9),
}


@each_cell("other", range(len(OTHER)))
@each_cell("use", USES.values(), ids=list(USES))
def test_data_of_another_geometry_is_used_safely_or_refused(use, other):
    x = torch.rand(64, 64).requires_grad_()
    out = use(x).sum()
    x.data = OTHER[other]()
    try:
        out.backward()
    except RuntimeError:
        return
    assert x.grad is None or x.grad.shape == x.shape


INDICES = {
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(0),
    "median": lambda x: x.median(1),
    "mode": lambda x: x.mode(1),
    "kthvalue": lambda x: x.kthvalue(3, 1),
    "cummax": lambda x: x.cummax(0),
    "cummin": lambda x: x.cummin(0),
    "sort": lambda x: x.sort(1),
    "topk": lambda x: x.topk(3, 1),
    "embedding": lambda x: (F.embedding(i := torch.zeros(4, dtype=torch.int64), x), i),
    "gather": lambda x: (x.gather(1, i := torch.zeros(4, 4, dtype=torch.int64)), i),
    "index": lambda x: (x[i := torch.zeros(4, dtype=torch.int64)], i),
    "take": lambda x: (x.take(i := torch.zeros(4, dtype=torch.int64)), i),
    "scatter": lambda x: (torch.ones(64, 64).scatter(1, i := torch.zeros_like(x).long(), x), i),
    "index_add": lambda x: (torch.ones(64, 64).index_add(0, i := torch.zeros(64).long(), x), i),
    "nll_loss": lambda x: (F.nll_loss(x, i := torch.zeros(64, dtype=torch.int64)), i),
}


@pytest.mark.parametrize("wrong", [10**9, -(10**9)])
@pytest.mark.parametrize("use", INDICES.values(), ids=list(INDICES))
def test_indices_changed_behind_the_back_of_the_graph_are_checked(use, wrong):
    x = torch.rand(64, 64).requires_grad_()
    for assign in (True, False):
        values, index = use(x)
        if assign:
            index.data = torch.full_like(index, wrong)
        else:
            index.data.fill_(wrong)
        try:
            values.sum().backward()
        except (IndexError, RuntimeError):
            x.grad = None
        assert x.grad is None or bool(x.grad.isfinite().all())


@pytest.mark.parametrize("assign", [True, False])
def test_mask_changed_behind_the_back_of_the_graph_is_checked(assign):
    for use in (
        lambda x, m: x.masked_select(m),
        lambda x, m: x[m],
        lambda x, m: torch.zeros(64, 64).masked_scatter(m, x[:1, 0]),
    ):
        x = torch.rand(64, 64).requires_grad_()
        mask = torch.zeros(64, 64, dtype=torch.bool)
        mask[0, 0] = True
        out = use(x, mask).sum()
        if assign:
            mask.data = torch.ones(64, 64, dtype=torch.bool)
        else:
            mask.data.fill_(True)
        with pytest.raises(RuntimeError, match="the mask selects 4096 elements"):
            out.backward()


def test_refusal_names_the_assignment_and_the_node():
    x = leaf([1.0, 2.0])
    out = (x * x).sum()
    x.data = ones(5)
    with pytest.raises(
        RuntimeError, match=r"x\.data = y.*MulBackward0.*\[cograd\.DoubleTensor \[5\]\]"
    ):
        out.backward()


def test_contiguous_tensor_given_strided_data():
    x = torch.rand(64, 64).requires_grad_()
    out = F.layer_norm(x, (64,)).sum() + (x.softmax(0) * x.exp()).sum()
    expected = torch.rand(64, 64)
    x.data = expected.t()
    out.backward()
    assert x.grad.shape == (64, 64) and bool(x.grad.isfinite().all())
    y = leaf([[1.0, 2.0], [3.0, 4.0]])
    out = (y * y).sum()
    y.data = torch.tensor([[1.0, 3.0], [2.0, 4.0]], dtype=torch.float64).t()
    out.backward()
    assert same(y.grad, [[2, 4], [6, 8]])


# ---- swapped away and back ----------------------------------------------------------------------


def square():
    return torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)


SWAPS = {
    "other": lambda: torch.ones(3),
    "more dims": lambda: torch.ones(2, 2, 1),
    "dtype": lambda: square().float(),
    "strided": lambda: square().t(),
    "back": square,
}


@pytest.mark.parametrize(
    "swaps",
    [
        ["other", "back"],
        ["dtype", "back"],
        ["strided", "back"],
        ["strided", "back"] * 4,
        ["strided", "strided", "back"],
        ["other", "strided", "dtype", "more dims", "back"],
        ["other", "other", "other", "back"],
    ],
    ids="-".join,
)
@pytest.mark.parametrize("begin", ["back", "strided"])
def test_data_swapped_away_and_back_is_used(swaps, begin):
    x = SWAPS[begin]().detach().requires_grad_()
    out = (x * x).sum()
    for swap in swaps:
        x.data = SWAPS[swap]()
    assert x._version == 0
    out.backward()
    assert same(x.grad, [[2, 4], [6, 8]])


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_contiguous_and_strided_data_by_turns(times):
    x = square().requires_grad_()
    out = (x * x).sum()
    for _ in range(times):
        x.data = square()
        x.data = square().t()
    out.backward()
    assert same(x.grad, [[2, 6], [4, 8]])


@pytest.mark.parametrize("swaps", [["other"], ["other", "dtype"], ["strided", "back", "more dims"]])
def test_another_geometry_is_told_from_a_write(swaps):
    x = square().requires_grad_()
    out = (x * x).sum()
    for swap in swaps:
        x.data = SWAPS[swap]()
    with pytest.raises(RuntimeError, match=r"was given data of another shape or dtype"):
        out.backward()


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize(
    "swaps", [["strided"], ["other", "back"], ["strided", "back"], ["other", "strided"] * 2]
)
@pytest.mark.parametrize("begin", ["back", "strided"])
def test_write_after_swaps_is_told_with_its_count(begin, swaps, before):
    x = SWAPS[begin]().detach().requires_grad_()
    with torch.no_grad():
        for _ in range(before):
            x.mul_(1)
    out = (x * x).sum()
    for swap in swaps:
        x.data = SWAPS[swap]()
    with torch.no_grad():
        x.add_(1)
    message = rf"is at version {before + 1}; expected version {before} instead"
    with pytest.raises(RuntimeError, match=message):
        out.backward()


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_writer_is_named_after_swaps():
    with torch.autograd.detect_anomaly():
        x = square().requires_grad_()
        out = (x * x).sum()
        x.data = SWAPS["strided"]()
        with torch.no_grad():
            x.add_(1)
        with pytest.raises(RuntimeError, match=r"It was written by add_\(\) at .*test_new_data"):
            out.backward()


# ---- what is kept in place of a tensor ----------------------------------------------------------

WEIGHTS = {
    "leaf": lambda w: w,
    "result": lambda w: w * 1,
    "view": lambda w: w.t().t(),
    "view of a result": lambda w: (w * 1).t().t(),
    "silent view": lambda w: w.detach().view(2, 2),
    "constant": lambda w: w.detach(),
}


@pytest.mark.parametrize("made", WEIGHTS.values(), ids=list(WEIGHTS))
def test_linear_keeps_the_values_of_any_weight(made):
    source = square().requires_grad_()
    weight = made(source)
    x = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
    out = F.linear(x, weight)
    weight.data = weight.data * 5
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    assert same(g, [[4, 6]] * 3)
    if weight.requires_grad:
        (second,) = torch.autograd.grad(g.sum(), source)
        assert same(second, [[3, 3], [3, 3]])


def test_write_of_a_weight_that_is_a_result_is_found():
    weight = square().requires_grad_() * 1
    x = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
    out = F.linear(x, weight)
    weight.mul_(2)
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
        out.sum().backward()


def test_linear_weight_written_with_its_own_result_makes_no_lasting_cycle():
    weight = square().requires_grad_() * 1
    weight.add_(F.linear(torch.ones(1, 2, dtype=torch.float64, requires_grad=True), weight).sum())
    gone = weakref.ref(weight)
    del weight
    gc.collect()
    assert gone() is None


LOSSES = {  # whether the loss saves its input itself
    F.mse_loss: True,
    F.l1_loss: False,
    F.smooth_l1_loss: False,
    F.huber_loss: False,
}


@pytest.mark.parametrize(("loss", "itself"), LOSSES.items(), ids=[f.__name__ for f in LOSSES])
def test_losses_use_what_the_documentation_says(loss, itself):
    def gradient(value, swapped):
        x = leaf([value])
        out = loss(x, ones(1))
        x.data = x.data * 0 + swapped
        return torch.autograd.grad(out, x)[0].item()

    before, after = gradient(1.25, 1.25), gradient(0.5, 0.5)
    assert gradient(1.25, 0.5) == (after if itself else before)


# ---- the assignment itself -----------------------------------------------------------------------


@pytest.mark.parametrize("value", [3, None, [1.0, 2.0]])
def test_data_must_be_a_tensor(value):
    with pytest.raises(TypeError, match=r"Variable data has to be a tensor, but got \w+"):
        leaf([1.0, 2.0]).data = value


def test_data_cannot_be_deleted():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="Deleting tensor data is not allowed"):
        del x.data


# ---- views made without recording ----------------------------------------------------------------


def silent_views():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    with torch.no_grad():
        yield x, x[0]
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    with torch.inference_mode():
        yield x, x[0]
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    with torch.no_grad():
        yield x, x.view(-1)[:2]


NO_GRAD_FN = "element 0 of tensors does not require grad and does not have a grad_fn"


@pytest.mark.parametrize("which", range(3))
def test_backward_from_a_view_made_without_recording(which):
    x, y = list(silent_views())[which]
    with pytest.raises(RuntimeError, match=NO_GRAD_FN):
        y.backward(ones(2))
    with pytest.raises(RuntimeError, match=NO_GRAD_FN):
        torch.autograd.backward([y], [ones(2)])
    with pytest.raises(RuntimeError, match=NO_GRAD_FN):
        torch.autograd.grad(y, x, ones(2))
    assert x.grad is None


@pytest.mark.parametrize("which", range(3))
def test_gradient_of_a_view_made_without_recording(which):
    x, y = list(silent_views())[which]
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        torch.autograd.grad((x * 2).sum(), y)
    assert torch.autograd.grad((x * 2).sum(), y, allow_unused=True) == (None,)
    (x * 2).sum().backward(inputs=[y])
    assert x.grad is None and y.grad is None


@pytest.mark.parametrize("which", range(3))
def test_hooks_of_a_view_made_without_recording(which):
    x, y = list(silent_views())[which]
    seen = []
    y.register_hook(seen.append).remove()
    y.register_hook(seen.append)
    y.retain_grad()
    (y * 2).sum().backward()
    (x * 2).sum().backward()
    assert seen == [] and y.grad is None
    assert torch.autograd.graph.get_gradient_edge(x) is not None


def test_views_of_inference_tensors_neither_require_grad_nor_record():
    with torch.inference_mode():
        x = torch.ones(2, 2, requires_grad=True)
    for v in (x[0], x.view(-1), x.t(), x[None], x.expand(3, 2, 2)):
        assert not v.requires_grad and v.grad_fn is None and v.is_inference() and v.is_leaf
        assert not (v * 2).requires_grad
    assert x.requires_grad and (x * 2).requires_grad
