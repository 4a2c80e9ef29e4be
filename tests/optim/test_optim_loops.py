# SPDX-License-Identifier: BSD-3-Clause
"""The core's loops of optimizers, compared with the formulas in Python in every layout, and what
they must not change.
"""

import collections
import os
import subprocess
import sys

import numpy as np
import pytest
from op_items import each_cell
from optim_cases import CASES, OPTIMIZERS, Run, label

import cograd as torch
from cograd import optim

BY_LOOP = [case for case in CASES if getattr(optim, case[0])._rule.op is not None]
FIRST = [(name, several[0]) for name, several in OPTIMIZERS.items()]
LAST = [(name, several[-1]) for name, several in OPTIMIZERS.items()]
FIRST_BY_LOOP = [case for case in FIRST if case in BY_LOOP]
TOLERANCE = {
    "float64": 1e-12,
    "float32": 2e-4,
    "bfloat16": 0.2,
    "float16": 0.05,
    "complex64": 2e-4,
    "complex128": 1e-12,
}


def ids(case):
    return label(case).replace(" {}", "")


@each_cell("dtype", TOLERANCE)
@each_cell("case", BY_LOOP, ids=ids)
def test_loop_does_what_the_formula_says(case, dtype):
    loop, formula = Run(torch, *case, dtype), Run(torch, *case, dtype, foreach=False)
    np.testing.assert_allclose(
        loop.trajectory(8), formula.trajectory(8), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
    )
    assert loop.kinds() == formula.kinds()


LAYOUTS = {
    "transposed": lambda: torch.empty(6, 5, dtype=torch.float64).t(),
    "every other": lambda: torch.empty(5, 12, dtype=torch.float64)[:, ::2],
    "rows of a larger one": lambda: torch.empty(9, 7, dtype=torch.float64)[2:7, 1:],
    "three dims": lambda: torch.empty(2, 5, 3, dtype=torch.float64).permute(1, 2, 0),
    "0-dim": lambda: torch.empty((), dtype=torch.float64),
    "empty": lambda: torch.empty(0, 3, dtype=torch.float64),
}


@each_cell("layout", LAYOUTS)
@each_cell("case", FIRST_BY_LOOP, ids=ids)
def test_layouts(case, layout):
    rng = np.random.default_rng(0)
    shape = LAYOUTS[layout]().shape
    start, grads = rng.standard_normal(shape), rng.standard_normal((3, *shape))
    results = []
    for strided in (False, True):
        p = LAYOUTS[layout]() if strided else torch.empty(*shape, dtype=torch.float64)
        p.copy_(torch.tensor(start))
        p = p.detach().requires_grad_()
        optimizer = getattr(optim, case[0])([p], **case[1])
        for grad in grads:
            # In the parameter's layout, or in another one.
            p.grad = torch.tensor(grad)
            optimizer.step()
        results.append(p.detach().numpy())
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("case", FIRST_BY_LOOP, ids=ids)
def test_large_parameters_are_split_over_threads(case, dtype):
    n = 300_001
    values, grads = torch.randn(n).to(dtype), torch.randn(n).to(dtype)
    whole = values.clone().requires_grad_()
    pieces = [piece.clone().requires_grad_() for piece in values.split(20_011)]
    a = getattr(optim, case[0])([whole], **case[1])
    b = getattr(optim, case[0])(pieces, **case[1])
    for _ in range(2):
        whole.grad = grads
        for piece, grad in zip(pieces, grads.split(20_011)):
            piece.grad = grad
        a.step()
        b.step()
    assert torch.equal(whole, torch.cat([p.detach() for p in pieces]))


@pytest.mark.parametrize("case", LAST, ids=ids)
def test_version_counters_move_once_and_saved_values_are_watched(case):
    run = Run(torch, *case)
    run.step()
    p = run.params[0]
    saved = (p * p).sum()
    before = p._version
    run.optimizer.step(lambda: torch.zeros(())) if case[0] == "LBFGS" else run.optimizer.step()
    if case in BY_LOOP:
        assert p._version == before + 1
        for value in run.optimizer.state[p].values():
            assert value._version >= 1
    if case[0] != "LBFGS":
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            saved.backward()


def state_of(optimizer):
    return {
        i: {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in s.items()}
        for i, s in enumerate(optimizer.state.values())
    }


def same(a, b):
    return a.keys() == b.keys() and all(
        a[i].keys() == b[i].keys() and all(torch.equal(a[i][k], b[i][k]) for k in a[i]) for i in a
    )


def expanded():
    return torch.ones(1, dtype=torch.float64).expand(3)


def read_only():
    array = np.ones(3)
    array.flags.writeable = False
    return torch.from_numpy(array)


def of_inference():
    with torch.inference_mode():
        return torch.ones(3, dtype=torch.float64)


@pytest.mark.filterwarnings("ignore:The given NumPy array")
@each_cell("fresh", [True, False])
@each_cell("bad", [expanded, read_only, of_inference])
@each_cell("case", FIRST_BY_LOOP, ids=ids)
def test_bad_input_raises_before_anything_is_written(case, bad, fresh):
    good = torch.ones(3, dtype=torch.float64, requires_grad=True)
    wrong = torch.ones(3, dtype=torch.float64, requires_grad=True)
    optimizer = getattr(optim, case[0])([good, wrong], **case[1])
    good.grad = wrong.grad = torch.ones(3, dtype=torch.float64)
    if not fresh:
        optimizer.step()
    wrong.data = bad()
    before, state = good.detach().clone(), state_of(optimizer)
    if bad is of_inference:
        optimizer.param_groups[0]["params"][1] = wrong = of_inference()
        with torch.inference_mode():
            wrong.grad = torch.ones(3, dtype=torch.float64)
    with pytest.raises(RuntimeError):
        optimizer.step()
    assert torch.equal(good.detach(), before)
    assert same(state_of(optimizer), state)


def test_memory_shared_between_parameter_and_state():
    p = torch.arange(8.0, requires_grad=True)
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9)
    p.grad = p.detach()  # its own gradient: reads each element before writing it
    optimizer.step()
    torch.testing.assert_close(p.detach(), torch.arange(8.0) * 0.9)
    base = torch.arange(9.0)
    q = base[1:].requires_grad_()
    optimizer = optim.SGD([q], lr=0.1)
    q.grad = base[:-1].detach()
    before = q.detach().clone()
    with pytest.raises(RuntimeError, match="single memory location"):
        optimizer.step()
    assert torch.equal(q.detach(), before)


def test_state_that_is_one_tensor_twice_follows_the_formula():
    p = torch.ones(3, requires_grad=True)
    optimizer = optim.Adam([p])
    p.grad = torch.full((3,), 0.5)
    optimizer.step()
    state = optimizer.state[p]
    state["exp_avg"] = state["exp_avg_sq"]
    optimizer.step()
    assert torch.isfinite(p).all()


def test_parameters_without_gradients_are_left_alone():
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    for kind in (optim.SGD, optim.Adam, optim.NAdam):
        optimizer = kind([a, b], lr=0.1)
        a.grad = torch.ones(2)
        version = b._version
        optimizer.step()
        assert b._version == version
        assert b not in optimizer.state
        b.grad = torch.ones(2)  # joins later, with its own count
        optimizer.step()
        if kind is not optim.SGD:
            assert optimizer.state[b]["step"] == 1
            assert optimizer.state[a]["step"] == 2
        b.grad = None


def test_views_see_the_step():
    base = torch.zeros(4, requires_grad=True)
    view = base.detach()[1:3]
    optimizer = optim.SGD([base], lr=1.0)
    base.grad = torch.ones(4)
    optimizer.step()
    assert view.tolist() == [-1.0, -1.0]


def test_steps_inside_inference_mode_and_of_inference_tensors():
    with torch.inference_mode():
        p = torch.ones(3)
        p.grad = torch.ones(3)
    optimizer = optim.SGD([p], lr=0.5)
    with pytest.raises(RuntimeError, match="outside InferenceMode"):
        optimizer.step()
    with torch.inference_mode():
        optimizer.step()
    assert p.tolist() == [0.5] * 3


def test_state_of_another_dtype_follows_the_formula():
    p = torch.ones(3, requires_grad=True)
    optimizer = optim.Adam([p], lr=0.1)
    p.grad = torch.ones(3)
    optimizer.step()
    optimizer.state[p]["exp_avg"] = optimizer.state[p]["exp_avg"].double()
    optimizer.step()
    assert optimizer.state[p]["exp_avg"].dtype == torch.float64
    torch.testing.assert_close(p.detach(), torch.full((3,), 0.8), rtol=1e-5, atol=0)


def test_missing_state_is_a_key_error():
    p = torch.ones(3, requires_grad=True)
    optimizer = optim.Adam([p])
    p.grad = torch.ones(3)
    optimizer.step()
    del optimizer.state[p]["exp_avg"]
    with pytest.raises(KeyError, match="exp_avg"):
        optimizer.step()
    optimizer.state[p]["exp_avg"] = torch.zeros(4)
    with pytest.raises(RuntimeError, match="size of tensor"):
        optimizer.step()
    assert optimizer.state[p]["step"] == 1
    assert torch.equal(optimizer.state[p]["exp_avg_sq"], torch.full((3,), 1 - 0.999))


def test_subclasses_with_overrides_follow_the_formula():
    calls = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(getattr(func, "__name__", str(func)))
            return super().__torch_function__(func, types, args, kwargs or {})

    plain = torch.ones(3, requires_grad=True)
    plain.grad = torch.ones(3)
    optim.SGD([plain], lr=0.5).step()
    assert calls == []
    p = torch.ones(3).as_subclass(Watched).requires_grad_()
    p.grad = torch.ones(3)
    optimizer = optim.SGD([p], lr=0.5)
    calls.clear()
    optimizer.step()
    assert "copy_" in calls
    assert p.tolist() == [0.5] * 3


def test_modes_see_the_formula():
    calls = []

    class Listening(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            calls.append(getattr(func, "__name__", str(func)))
            return func(*args, **(kwargs or {}))

    p = torch.ones(3, requires_grad=True)
    p.grad = torch.ones(3)
    optimizer = optim.SGD([p], lr=0.5)
    with Listening():
        optimizer.step()
    assert "copy_" in calls
    assert p.tolist() == [0.5] * 3


def test_parameters_in_a_tuple_and_state_in_another_mapping():
    p = torch.ones(3, requires_grad=True)
    p.grad = torch.ones(3)
    optimizer = optim.Adam([p], lr=0.5)
    optimizer.param_groups[0]["params"] = (p,)
    optimizer.step()
    optimizer.state = collections.ChainMap(optimizer.state)
    optimizer.step()
    torch.testing.assert_close(p.detach(), torch.zeros(3), rtol=0, atol=1e-5)
    assert optimizer.state[p]["step"] == 2


def test_step_is_profiled():
    p = torch.ones(3, requires_grad=True)
    p.grad = torch.ones(3)
    optimizer = optim.Adam([p])
    with torch.autograd.profiler.profile() as profile:
        optimizer.step()
    assert "Adam.step" in str(profile.key_averages().table())


def test_capturable_changes_nothing_on_the_cpu():
    def train(kind, **options):
        p = torch.arange(1.0, 4.0).requires_grad_()
        optimizer = kind([p], **options)
        for _ in range(3):
            p.grad = p.detach() * 2
            optimizer.step()
        assert optimizer.state[p]["step"].item() == 3
        optimizer.load_state_dict(optimizer.state_dict())
        assert optimizer.state[p]["step"].device.type == "cpu"
        return p

    names = [n for n in OPTIMIZERS if "capturable" in getattr(optim, n).__init__.__annotations__]
    assert {"Adam", "AdamW", "Rprop"} < set(names) and "SGD" not in names
    for name in names:
        kind = getattr(optim, name)
        assert torch.equal(train(kind, capturable=True), train(kind)), name


def test_modes_that_exclude_each_other():
    p = torch.ones(1, requires_grad=True)
    for kind in (optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad):
        with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
            kind([p], fused=True, differentiable=True)
        with pytest.raises(RuntimeError, match="`fused` and `foreach` cannot be `True` together"):
            kind([p], fused=True, foreach=True)
    z = torch.ones(1, dtype=torch.complex64, requires_grad=True)
    z.grad = torch.ones(1, dtype=torch.complex64)
    optimizer = optim.SGD([z], fused=True)
    with pytest.raises(RuntimeError, match="floating point Tensors"):
        optimizer.step()


@pytest.mark.parametrize("isa", ["base", "v3"])
def test_lower_instruction_sets(isa):
    code = """
import numpy as np, optim_cases, cograd
for case in optim_cases.CASES:
    if getattr(cograd.optim, case[0])._rule.op is None: continue
    for dtype in ("float64", "float32", "bfloat16"):
        mine = optim_cases.Run(cograd, *case, dtype).trajectory(4)
        other = optim_cases.Run(cograd, *case, dtype, foreach=False).trajectory(4)
        near = {"float64": 1e-12, "float32": 1e-4, "bfloat16": 0.1}[dtype]
        np.testing.assert_allclose(mine, other, rtol=near, atol=near, err_msg=str(case))
print("same")
"""
    env = {
        **os.environ,
        "COGRAD_ISA": isa,
        "PYTHONPATH": os.path.dirname(os.path.dirname(__file__)),
    }
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "same", done.stderr
