# SPDX-License-Identifier: BSD-3-Clause
"""Every line of docs/differences.md is shown here, in test_differences_numbers.py or in the test
that differences.py names.
"""

import gc
import math
import pickle
import re
import subprocess
import sys
import warnings
import weakref
from pathlib import Path

import pytest
import test_differences_numbers
from differences import ELSEWHERE, SHOWN, D, leaf, shows, slope

import cograd as torch
import cograd.nn.functional as F
from cograd import nn
from cograd.autograd import Function, forward_ad, graph
from cograd.autograd import grad as differentiate

HERE = Path(__file__).resolve().parents[1]
PAGE = HERE.parent / "docs" / "differences.md"


@pytest.mark.skipif(not PAGE.exists(), reason="docs/ is not here: no checkout")
def test_every_line_is_shown():
    lines = re.findall(r"^\| (.+?) \| .* \| .* \| \[.*\]\(.*\) \|$", PAGE.read_text("utf-8"), re.M)
    assert len(lines) > 100 and len(set(lines)) == len(lines)
    assert set(lines) == SHOWN.keys() | ELSEWHERE.keys()
    for name in (name for names in SHOWN.values() for name in names):
        assert name in globals() or hasattr(test_differences_numbers, name), name


@pytest.mark.parametrize("place", sorted(set(ELSEWHERE.values())))
def test_tests_elsewhere_exist(place):
    file, _, name = place.partition("::")
    assert re.search(rf"^def {name}\(", next(HERE.rglob(Path(file).name)).read_text("utf-8"), re.M)


# what may have to change in a torch program


@shows("`z.conj()`")
def test_conj_copies():
    z = torch.tensor([1 + 1j])
    z.conj()[0] = 5j
    assert not z.conj().is_conj() and z.tolist() == [1 + 1j]


@shows(
    "a complex tensor copied into a real one",
    "`float(t)` of a tensor that requires grad",
    "`pickle` of a tensor with hooks",
)
def test_nobody_is_warned():
    x, t = torch.zeros(1), leaf(2.0)
    t.register_hook(print)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.copy_(torch.tensor([1 + 1j]))
        assert x.tolist() == [1] and float(t) == 2
        assert pickle.loads(pickle.dumps(t)).tolist() == [2]


@shows("ops inside `inference_mode(), enable_grad()`")
def test_recording_in_inference_mode():
    x = leaf(3.0)
    with torch.inference_mode(), torch.enable_grad():
        y = x * x
        constant = torch.ones(1) * 2
    assert y.requires_grad and not y.is_inference() and not constant.is_inference()
    y.backward()
    assert x.grad.item() == 6


@shows("`node._saved_dim` and other saved numbers")
def test_numbers_of_nodes():
    with pytest.raises(AttributeError, match="_saved_dim"):
        _ = leaf(1.0).sum(0).grad_fn._saved_dim


@shows(
    "`use_deterministic_algorithms(True)`, then `empty`",
    "`set_flush_denormal(True)`",
    "`jit.script(module)`, `compile(module)`",
)
def test_switches_without_effect():
    assert torch.set_flush_denormal(True) is False
    layer = nn.Linear(1, 1)
    assert torch.jit.script(layer) is layer and torch.compile(layer) is layer
    torch.use_deterministic_algorithms(True)
    try:
        kept = [torch.full((n,), 2.0) for n in range(1000, 1100)]
        del kept  # some of the next ones reuse their memory
        assert not all(torch.empty(n).isnan().all() for n in range(1000, 1100))
    finally:
        torch.use_deterministic_algorithms(False)


WRITES = """
import warnings
import cograd as torch

def f(x, i):
    y = x.clone()
    y[i] = 1
    return y

with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for _ in range(3):
        found = torch.func.vmap(f)(torch.zeros(2, 2), torch.tensor([0, 1]))
assert found.tolist() == [[1, 0], [0, 1]]
print(*(w.message for w in seen), sep="\\n")
"""


@shows("ops without a batching rule under `vmap`, such as `index_put`")
def test_sample_by_sample():
    """It runs in a separate process, because a process is warned only once."""
    command = [sys.executable, "-c", WRITES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert line.startswith("vmap: index_put() has no batching rule and runs sample by sample")


@shows("`resize_`, or an `out=` that grows, of memory with views")
def test_memory_with_views_does_not_grow():
    a = torch.zeros(1)
    view = a[:]
    with pytest.raises(RuntimeError, match="clone"):
        a.resize_(100)
    with pytest.raises(RuntimeError, match="clone"):
        torch.add(torch.ones(5), 1, out=a)
    assert view.tolist() == [0]


@shows("gradient of `slogdet` at a singular matrix")
def test_slogdet():
    assert math.isnan(slope(lambda x: torch.linalg.slogdet(x)[1], [[1.0, 2.0], [2.0, 4.0]])[0][0])


# Functions, graph, in place


class Doubles(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return 2 * g


@shows("`mark_dirty`")
def test_mark_dirty_counts_one_write():
    y = leaf(1.0) * 1
    before = y._version
    Doubles.apply(y)
    assert y._version == before + 1


@shows("`library.custom_op` that writes an undeclared argument")
def test_custom_op_that_writes():
    @torch.library.custom_op("differences::writes", mutates_args=())
    def writes(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1).clone()

    with pytest.raises(RuntimeError, match="in place without declaring"):
        writes(leaf(1.0) * 1)


@shows("identity `saved_tensors_hooks`, no backward")
def test_identity_hooks_are_freed():
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = leaf(1.0).exp()
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None


@shows("a write to a tensor that was saved inside a `checkpoint`")
def test_a_write_inside_of_a_checkpoint():
    def f(x):
        y = x.sin()
        z = y * y
        y.mul_(2)
        return z.exp()

    x = leaf(1.0, 2.0)
    y = torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@shows("an unpack hook that returns another shape")
def test_unpacked_shape():
    with graph.saved_tensors_hooks(lambda t: t, lambda t: torch.ones(1, dtype=D)):
        y = leaf(1.0, 2.0).square()
    with pytest.raises(RuntimeError, match="unpack hook returned a tensor of shape"):
        y.sum().backward()


@shows("names of some nodes")
def test_names_of_nodes():
    x = leaf(1.0, 2.0)[None]
    assert F.linear(x, x).grad_fn.name() == "LinearBackward0"
    assert F.cross_entropy(x, torch.tensor([0])).grad_fn.name() == "CrossEntropyBackward0"


@shows("`y.mul_(y)`")
def test_factors_are_kept():
    assert slope(lambda x: (y := x * 1).mul_(y), [2.0, 3.0]) == [4, 6]


@shows("`masked_fill_`, `x[mask] = v`, `tril_` of expanded elements")
def test_writes_to_expanded_elements():
    mask = torch.tensor([True, False, True])
    x = torch.zeros(1).expand(3)
    writes = (
        lambda: x.masked_fill_(mask, 1.0),
        lambda: x.__setitem__(mask, 1.0),
        lambda: torch.zeros(1, 3).expand(3, 3).tril_(),
    )
    for write in writes:
        with pytest.raises(RuntimeError, match="single memory location"):
            write()
    assert x.tolist() == [0, 0, 0]


@shows("`out=(a, a)`")
def test_results_in_one_place():
    a = torch.zeros(())
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.aminmax(torch.arange(3.0), out=(a, a))


@shows("`x[::-1]`")
def test_negative_steps():
    assert torch.arange(3)[::-1].tolist() == [2, 1, 0]


@shows("anomaly mode")
@pytest.mark.filterwarnings("ignore")
def test_the_note_of_anomaly_mode():
    with pytest.raises(RuntimeError) as caught, torch.autograd.detect_anomaly():
        (leaf(0.0).sqrt() * 0).sum().backward()
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    assert "test_differences.py" in text


@shows("`grad`, a wrong shape of a later entry of grad_outputs")
def test_grad_outputs():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"grad_output\[1\]"):
        differentiate([x.sum(), x * 2], x, [torch.ones((), dtype=D), torch.ones(3, dtype=D)])


# forward mode, vmap, func


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


class Clips(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return (2 * g).clamp(-1, 1)


def tangent(f, x):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(x, torch.ones_like(x)))).tangent


@shows("a Function without `setup_context` under `func.*`")
def test_function_under_grad():
    assert torch.func.grad(lambda x: Cube.apply(x).sum())(torch.tensor([2.0])).tolist() == [12]


@shows("forward mode of a Function without `jvp`")
def test_tangent_of_a_backward():
    assert tangent(Cube.apply, torch.tensor([2.0])).tolist() == [12]
    with pytest.raises(RuntimeError, match="not linear"):
        tangent(Clips.apply, torch.tensor([2.0]))


@shows("`vmap` of a Function without a rule")
def test_function_under_vmap():
    class CubeOfDifferences(Cube):  # no other test has been warned about this name
        pass

    cubes = torch.func.vmap(CubeOfDifferences.apply)
    with pytest.warns(UserWarning, match="vmap: CubeOfDifferences has no vmap rule") as seen:
        found = [cubes(torch.tensor([1.0, 2.0])).tolist() for _ in range(3)]
    assert len(seen) == 1 and found == [[1, 8]] * 3


@shows(
    "`hessian`, or `jacfwd` of `grad`, of `batch_norm`, `instance_norm` that update running "
    "statistics"
)
@pytest.mark.parametrize("norm", [F.batch_norm, F.instance_norm])
def test_hessian_of_norms_in_training(norm):
    def f(x, mean, variance):
        return norm(x, mean.clone(), variance.clone(), None, None, True).pow(3).sum()

    arguments = torch.rand(3, 2, 4, dtype=D), torch.zeros(2, dtype=D), torch.ones(2, dtype=D)
    gradient = torch.func.grad(f)
    gradient(*arguments)

    def by_tangents(*arguments):
        return torch.autograd.functional.jacobian(
            lambda x: gradient(x, *arguments[1:]),
            arguments[0],
            vectorize=True,
            strategy="forward-mode",
        )

    for second in (torch.func.hessian(f), torch.func.jacfwd(gradient), by_tangents):
        with pytest.raises(RuntimeError, match="running_mean, which is updated in place"):
            second(*arguments)


@shows("gradient of `linearize`'s products at its point, `linearize` of `jacrev`")
def test_linearize_inside_and_outside_of_gradients():
    def cubes(x):
        return x.pow(3).sum()

    x, v = torch.tensor([1.0, 2.0], dtype=D), torch.tensor([1.0, -1.0], dtype=D)
    product = torch.func.grad(lambda x: torch.func.linearize(cubes, x)[1](v))(x)
    assert product.tolist() == [6, -12]
    leaf = x.clone().requires_grad_()
    torch.func.linearize(cubes, leaf)[1](v).backward()
    assert leaf.grad.tolist() == [6, -12]
    assert torch.func.linearize(torch.func.jacrev(cubes), x)[1](v).tolist() == [6, -12]


@shows("two levels of `dual_level`")
def test_levels_nest():
    second = tangent(lambda x: tangent(torch.exp, x), torch.zeros((), dtype=D))
    assert second.item() == 1


@shows("`autograd.functional` inside `func.jvp` or a `dual_level`")
def test_functional_inside_of_forward_mode():
    def jacobian(x):
        return torch.autograd.functional.jacobian(lambda x: x**3, x)

    x = torch.tensor(2.0, dtype=D)
    assert torch.func.jvp(jacobian, (x,), (torch.ones_like(x),))[1].item() == 12
    assert tangent(jacobian, x).item() == 12


@shows("a checkpoint in a `dual_level`, its backward after the level")
def test_checkpoint_in_a_level():
    x = torch.tensor([2.0], dtype=D, requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        out = torch.utils.checkpoint.checkpoint(lambda x: x**3, dual, use_reentrant=False)
        slope = forward_ad.unpack_dual(out).tangent
    assert differentiate(out.sum(), x, retain_graph=True)[0].item() == 12
    assert differentiate(slope.sum(), x)[0].item() == 12


@shows("`backward()`, `requires_grad_()`, `autograd.grad` inside `func.grad`")
def test_autograd_inside_a_transform():
    def f(x):
        z = torch.ones(()).requires_grad_()
        (2 * z).backward()
        (g,) = differentiate(z**3, z)
        return x * z.grad * g

    assert torch.func.grad(f)(torch.ones(())).item() == 6


@shows("checkpoints and saved-tensor hooks with `func.grad`, `vmap`")
def test_hooks_and_transforms():
    def f(x):
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            y = x.exp()
        return torch.utils.checkpoint.checkpoint(torch.sin, y, use_reentrant=False)

    found = torch.func.vmap(torch.func.grad(f))(torch.zeros(2))
    assert torch.allclose(found, torch.ones(()).cos())


@shows("`nonzero`, `x[x > 0]`, `unique` under `vmap`")
@pytest.mark.filterwarnings("ignore:vmap")
def test_shapes_that_agree():
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert torch.func.vmap(lambda x: x[x > 0])(x).tolist() == [[1], [1]]
    assert torch.func.vmap(lambda x: x.nonzero())(x).tolist() == [[[0]], [[1]]]


@shows("a dual tensor to NumPy", "a dual tensor as a number (`alpha=`)")
def test_tangents_are_not_lost():
    x = torch.ones(())
    with pytest.raises(RuntimeError, match="tangent"):
        tangent(lambda t: t.numpy(), x)
    with pytest.raises(TypeError, match="alpha"):
        tangent(lambda t: torch.add(x, x, alpha=t), x)


@shows("a complex tangent of a real tensor")
def test_complex_tangents():
    with pytest.raises(RuntimeError, match="imaginary"):
        torch.func.jvp(torch.exp, (torch.ones(()),), (torch.tensor(1j),))
