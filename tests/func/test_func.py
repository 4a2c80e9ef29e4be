# SPDX-License-Identifier: BSD-3-Clause
"""cograd.func: results, structures, errors, modes, captured tensors, leftovers."""

import gc
import subprocess
import sys

import pytest

import cograd as torch
from cograd import _C, nn
from cograd.autograd import forward_ad as fwd
from cograd.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

F8 = torch.float64
X = torch.tensor(2.0, dtype=F8)
ONE = torch.ones((), dtype=F8)
V = torch.tensor([1.0, 2.0], dtype=F8)


def same(a, b):
    torch.testing.assert_close(a, b, rtol=0, atol=0)


# ---- results and structures ----------------------------------------------------------------------


def test_grad_by_argnums():
    def f(x, y):
        return x * x * y

    y = 3 * ONE
    same(grad(f)(X, y), 12 * ONE)
    same(grad(f, argnums=1)(X, y), 4 * ONE)
    same(grad(f, argnums=-1)(X, y), 4 * ONE)
    same(grad(f, argnums=(1, 0))(X, y), (4 * ONE, 12 * ONE))
    same(grad(f)(X, y=y), 12 * ONE)
    same(grad(f, argnums=(0, 1))(X, X), (8 * ONE, 4 * ONE))


def test_grad_of_trees():
    def f(tree):
        return tree["a"] * tree["b"][0] + tree["b"][1] * 0

    g = grad(f)({"a": X, "b": [3 * ONE, ONE]})
    same(g, {"a": 3 * ONE, "b": [X, 0 * ONE]})


def test_values_and_aux():
    def f(x):
        return x * x, {"twice": 2 * x, "name": "f"}

    g, aux = grad(f, has_aux=True)(X)
    same(g, 4 * ONE)
    same(aux["twice"], 4 * ONE)
    assert aux["name"] == "f"
    assert not aux["twice"].requires_grad
    same(grad_and_value(torch.sin)(X), (X.cos(), X.sin()))
    g, (value, aux) = grad_and_value(f, has_aux=True)(X)
    same((g, value, aux["twice"]), (4 * ONE, 4 * ONE, 4 * ONE))


def test_vjp_of_trees():
    out, pull = vjp(lambda x, d: {"s": x.sin(), "p": (x * d["y"],)}, X, {"y": 3 * ONE})
    same(out, {"s": X.sin(), "p": (6 * ONE,)})
    for _ in range(2):
        same(pull({"s": ONE, "p": (ONE,)}), (X.cos() + 3, {"y": X}))
    out, pull, aux = vjp(lambda x: (x * 2, x * 3), X, has_aux=True)
    same((out, aux, pull(ONE)), (4 * ONE, 6 * ONE, (2 * ONE,)))
    same(vjp(lambda x, y: x, X, X)[1](ONE), (ONE, 0 * ONE))
    same(vjp(lambda x: (x, x), X)[1]((ONE, ONE)), (2 * ONE,))
    assert vjp(lambda: X)[1](ONE) == ()


def test_jvp_of_trees():
    out, t = jvp(lambda d: [d["x"] ** 3, d["y"]], ({"x": X, "y": V},), ({"x": ONE, "y": 2 * V},))
    same((out, t), ([8 * ONE, V], [12 * ONE, 2 * V]))
    same(jvp(lambda x: (x * 2, x * 3), (X,), (ONE,), has_aux=True), (4 * ONE, 2 * ONE, 6 * ONE))
    same(jvp(lambda x: V, (X,), (ONE,)), (V, 0 * V))
    assert jvp(lambda x: x.long(), (X,), (ONE,))[1].item() == 0


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobians(jacobian):
    eye = torch.eye(2, dtype=F8)
    same(jacobian(lambda x: x * x)(V), 2 * V * eye)
    same(jacobian(lambda a, b: a * b, argnums=(1, 0))(V, 3 * V), (V * eye, 3 * V * eye))
    found = jacobian(lambda d: {"o": d["a"] * 2, "p": d["b"].sum()})({"a": V, "b": V[:1]})
    same(found["o"], {"a": 2 * eye, "b": torch.zeros(2, 1, dtype=F8)})
    same(found["p"], {"a": torch.zeros(2, dtype=F8), "b": torch.ones(1, dtype=F8)})
    j, aux = jacobian(lambda x: (x * x, (x, 3)), has_aux=True)(V)
    same(j, 2 * V * eye)
    same(aux[0], V)
    assert aux[1] == 3
    assert jacobian(lambda x: x * 2)(torch.ones(0)).shape == (0, 0)
    assert jacobian(lambda x: x.sum() + torch.ones(2))(torch.ones(0)).shape == (2, 0)
    x = torch.randn(2, 3, dtype=F8)
    j = jacobian(lambda x: x.t().sin())(x)
    assert j.shape == (3, 2, 2, 3)
    same(j[1, 0, 0, 1], x[0, 1].cos())


def test_jacrev_in_chunks():
    for n in (1, 2, 100):
        same(jacrev(lambda x: x * x, chunk_size=n)(V), 2 * V * torch.eye(2, dtype=F8))


def test_hessian():
    h = hessian(lambda x, y: (x * x * y).sum(), argnums=(0, 1))(V, 3 * V)
    eye = torch.eye(2, dtype=F8)
    same(h, ((6 * V * eye, 2 * V * eye), (2 * V * eye, 0 * eye)))


def test_linearize_evaluates_once():
    calls = []

    def f(x, d):
        calls.append(1)
        return {"s": x.sin() * d["y"]}

    out, push = linearize(f, V, {"y": 2 * ONE})
    same(out, {"s": 2 * V.sin()})
    for scale in (1, 3):
        same(push(scale * V, {"y": ONE}), {"s": scale * 2 * V.cos() * V + V.sin()})
    assert len(calls) == 1


# ---- errors --------------------------------------------------------------------------------------


def no_aux(x):
    return x


@pytest.mark.parametrize(
    "error,message,call",
    [
        (ValueError, "Thing passed to transform API must be Tensor, got <class 'float'>",
         lambda: grad(no_aux)(2.0)),
        (ValueError, "Thing passed to transform API must be Tensor",
         lambda: grad(lambda d: d["a"])({"a": X, "b": 3})),
        (RuntimeError, "only Tensors of floating point and complex dtype can require gradients",
         lambda: grad(no_aux)(torch.tensor(2))),
        (RuntimeError, "Expected f(*args) to return a Tensor, got <class 'float'>",
         lambda: grad(lambda x: 2.0)(X)),
        (RuntimeError, "return a scalar Tensor, got tensor with 1 dims. Maybe you wanted to use",
         lambda: grad(no_aux)(V)),
        (RuntimeError, "output of function f should be a tuple: (output, aux) if has_aux is True",
         lambda: grad(no_aux, has_aux=True)(X)),
        (RuntimeError, "Got argnum=2, but only 1 positional inputs",
         lambda: grad(no_aux, argnums=2)(X)),
        (RuntimeError, "argnums elements must be unique, got (1, 1)",
         lambda: grad(lambda x, y: x, argnums=(1, -1))(X, X)),
        (RuntimeError, "argnums must be non-empty", lambda: grad(no_aux, argnums=())(X)),
        (RuntimeError, "argnums must be int or Tuple[int, ...], got: <class 'list'>",
         lambda: grad(no_aux, argnums=[0])(X)),
        (RuntimeError, "argnum must be int, got: <class 'str'>",
         lambda: grad(no_aux, argnums=("a",))(X)),
        (RuntimeError, "All outputs of f must be floating-point or complex Tensors",
         lambda: vjp(lambda x: x.long(), X)),
        (RuntimeError, "f to be a function that has non-empty output (got output = [None])",
         lambda: vjp(lambda x: None, X)),
        (RuntimeError, "expected f(*primals) to return only tensors, got unsupported type",
         lambda: vjp(lambda x: (x, 2.0), X)),
        (RuntimeError, "cotangents: *, primal output: (*, *)",
         lambda: vjp(lambda x: (x, x), X)[1](X)),
        (RuntimeError, "Mismatch in shape: grad_output[0]", lambda: vjp(no_aux, X)[1](V)),
        (RuntimeError, "Expected primals to be a tuple", lambda: jvp(no_aux, X, X)),
        (RuntimeError, "Got primals with structure (*,) and tangents with structure (*, *)",
         lambda: jvp(no_aux, (X,), (X, X))),
        (RuntimeError, "Expected primals to contain at least one Tensor", lambda: jvp(int, (), ())),
        (RuntimeError, "Expected primals to only contain Tensors, got <class 'float'>",
         lambda: jvp(no_aux, (2.0,), (1.0,))),
        (RuntimeError, "has a different size than that of the original Tensor",
         lambda: jvp(no_aux, (X,), (V,))),
        (RuntimeError, "The output of f is independent of the inputs",
         lambda: jvp(lambda x: V, (X,), (X,), strict=True)),
        (RuntimeError, "should be a tuple: (output, aux)",
         lambda: jvp(no_aux, (X,), (X,), has_aux=True)),
        (ValueError, "Expected primal to be floating point or complex",
         lambda: jvp(no_aux, (torch.tensor(2),), (torch.tensor(1),))),
        (ValueError, "jacrev: `chunk_size` should be greater than 0.",
         lambda: jacrev(no_aux, chunk_size=0)),
        (RuntimeError, "tangent:0 with shape cograd.Size([2]) in flattened pytree doesn't match",
         lambda: linearize(no_aux, X)[1](V)),
        (RuntimeError, "tangent:0 with dtype cograd.float32",
         lambda: linearize(no_aux, X)[1](X.float())),
        (RuntimeError, "to have the same argspec as the primals (*,)",
         lambda: linearize(no_aux, X)[1](X, X)),
    ],
)  # fmt: skip
def test_errors(error, message, call):
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)
    assert _C._dual_level() == -1
    assert torch.is_grad_enabled()


# ---- modes ---------------------------------------------------------------------------------------


def half_hidden(x):
    with torch.no_grad():
        c = x**2
    return x - c


def test_no_grad_inside_stops_reverse_mode_only():
    same(grad(half_hidden)(X), ONE)
    same(vjp(half_hidden, X)[1](ONE), (ONE,))
    same(jvp(half_hidden, (X,), (ONE,))[1], -3 * ONE)


def test_detach_stops_both():
    same(grad(lambda x: x * x.detach())(X), X)
    same(jvp(lambda x: x * x.detach(), (X,), (ONE,))[1], X)


def test_no_grad_outside_does_not_matter():
    x = X.clone().requires_grad_()
    with torch.no_grad():
        g = grad(lambda x: x * x * x)(x)
        second = grad(grad(lambda x: x * x * x))(x)
        out, pull = vjp(torch.sin, x)
        t = jvp(grad(torch.sin), (x,), (ONE,))[1]
    same(g, 12 * ONE)
    same(second, 12 * ONE)
    same(pull(ONE)[0].detach(), X.cos())
    same(t, -X.sin())
    assert not any(r.requires_grad for r in (g, second, out, t))


def test_no_grad_between_transforms():
    def f(x):
        with torch.no_grad():
            return grad(lambda z: z**3)(x) * 1

    same(grad(f)(X), 0 * ONE)
    same(jvp(f, (X,), (ONE,))[1], 12 * ONE)


def test_inference_mode_outside():
    with torch.inference_mode():
        same(grad(torch.sin)(X), X.cos())
        same(grad(grad(torch.sin))(X), -X.sin())


def test_forward_mode_switched_off_outside():
    with fwd._set_fwd_grad_enabled(False):
        same(jvp(torch.sin, (X,), (ONE,))[1], X.cos())
    assert fwd._is_fwd_grad_enabled()


# ---- what is tracked, what is left ---------------------------------------------------------------


def test_closed_over_leaves():
    w = torch.tensor(3.0, dtype=F8, requires_grad=True)

    def f(x):
        return x * x * w

    g = grad(f)(X)
    assert g.requires_grad
    same(torch.autograd.grad(g, w)[0], 4 * ONE)
    g, value = grad_and_value(f)(X)
    (g + value).backward()
    same(w.grad, 8 * ONE)
    out, pull = vjp(f, X)
    same(torch.autograd.grad(out, w, retain_graph=True)[0], 4 * ONE)
    same(torch.autograd.grad(pull(ONE)[0], w)[0], 4 * ONE)
    out, t = jvp(f, (X,), (ONE,))
    same(torch.autograd.grad(t, w)[0], 4 * ONE)
    with torch.no_grad():
        assert not grad(f)(X).requires_grad


def test_arguments_that_require_grad():
    x = torch.tensor(2.0, dtype=F8, requires_grad=True)
    g = grad(lambda x: x**3)(x)
    same(torch.autograd.grad(g, x)[0], 12 * ONE)
    assert x.grad is None
    j = jacrev(lambda x: x**3)(x)
    same(torch.autograd.grad(j, x)[0], 12 * ONE)


def test_results_require_no_grad_and_leave_no_graph():
    gc.collect()
    before = _C._live_nodes()
    kept = []

    def f(x):
        y = x.exp() * x.sin()
        kept.append(y)
        return y

    results = [
        grad(f)(X),
        *grad_and_value(f)(X),
        vjp(f, X)[0],
        *jvp(f, (X,), (ONE,)),
        jacrev(f)(X),
        hessian(f)(X),
        grad(grad(f))(X),
        linearize(f, X)[0],
        grad(lambda x: (f(x), f(x)), has_aux=True)(X)[1],
    ]
    assert not any(r.requires_grad for r in results)
    assert not X.requires_grad
    assert X.grad is None
    kept.clear()
    gc.collect()
    assert _C._live_nodes() == before


def test_the_pullback_of_another_variable():
    out, pull = vjp(lambda x: x**3, X)
    same(grad(lambda c: pull(c)[0] * c)(2 * ONE), 48 * ONE)
    assert not grad(lambda c: pull(c)[0] * c)(ONE).requires_grad


def test_autograd_inside_a_transform():
    def f(x):
        y = (x * 1).requires_grad_()
        (g,) = torch.autograd.grad(y**3, y, create_graph=True)
        leaf = torch.ones((), dtype=F8, requires_grad=True)
        (leaf * 5).backward()
        return g * leaf.grad

    same(grad(f)(X), 60 * ONE)


def test_dual_tensors_of_an_outer_level():
    with fwd.dual_level():
        x = fwd.make_dual(X, ONE)
        g, v = grad_and_value(lambda x: x**3)(x)
        same(fwd.unpack_dual(g).tangent, 12 * ONE)
        same(fwd.unpack_dual(v).tangent, 12 * ONE)
        captured = fwd.make_dual(V, V)
        g = grad(lambda z: (z * z * captured).sum())(3 * V)
        same(fwd.unpack_dual(g).tangent, 6 * V * V)
        j = jacrev(lambda z: z * x)(V)
        same(fwd.unpack_dual(j).tangent, torch.eye(2, dtype=F8))


# ---- writing in place ----------------------------------------------------------------------------

CAPTURED = "would mutate a captured Tensor"


@pytest.mark.parametrize(
    "run",
    [
        lambda f: grad(f)(X),
        lambda f: vjp(f, X),
        lambda f: jvp(f, (X,), (ONE,)),
        lambda f: jacrev(f)(X),
        lambda f: jacfwd(f)(X),
        lambda f: grad(lambda x: x * grad(f)(x))(X),
    ],
)
@pytest.mark.parametrize(
    "write",
    [
        lambda y, x: y.add_(1),
        lambda y, x: y.copy_(x),
        lambda y, x: y.view(-1)[0].mul_(2),
        lambda y, x: y.__setitem__(..., 5.0),
        lambda y, x: y.data.zero_(),
        lambda y, x: y.detach().add_(x),
        lambda y, x: y.uniform_(),
    ],
)
def test_captured_tensors_cannot_be_written(run, write):
    y = torch.ones((), dtype=F8)

    def f(x):
        write(y, x)
        return x * y

    with pytest.raises(RuntimeError, match=CAPTURED):
        run(f)
    same(y, ONE)
    assert not y.requires_grad
    y.add_(1)  # allowed afterwards


def test_running_statistics_are_captured_and_the_error_says_what_to_do():
    norm = torch.nn.BatchNorm1d(2, dtype=F8)
    weight = {"weight": torch.ones(2, dtype=F8)}
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=F8)
    loss = lambda p: torch.func.functional_call(norm, p, (x,)).square().sum()
    with pytest.raises(RuntimeError, match="pass them to functional_call as well, or use a layer"):
        grad(loss)(weight)
    buffers = {k: v.clone() for k, v in norm.named_buffers()}
    both = lambda p, b: torch.func.functional_call(norm, (p, b), (x,)).square().sum()
    assert grad(both)(weight, buffers)["weight"].shape == (2,)


def test_captured_parameters_and_no_grad():
    w = nn.Parameter(torch.ones(2))

    def f(x):
        with torch.no_grad():
            w.mul_(2)
        return x

    with pytest.raises(RuntimeError, match=CAPTURED):
        grad(f)(X)


def test_tensors_of_the_function_can_be_written():
    def f(x, z):
        y = torch.zeros(3, dtype=F8)
        y[0] = x
        y[1:].copy_(x * x)
        grad(torch.sin)(x)
        z.add_(1)  # not an argument of the derivative
        return y.sum() * 1

    z = torch.zeros(())
    same(grad(f)(X, z), 9 * ONE)
    same(z, torch.ones(()))


def test_arguments_under_grad_cannot_be_written_and_those_of_jvp_can():
    def f(x):
        x.sin_()
        return x * 2

    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        grad(f)(X)
    with pytest.raises(RuntimeError, match=CAPTURED):
        grad(lambda x: grad(f)(x * 1))(X)
    x = X.clone()
    out, t = jvp(f, (x,), (ONE.clone(),))
    same((out, t, x), (2 * X.sin(), 2 * X.cos(), X.sin()))


def test_a_tensor_of_the_outer_function_is_captured_by_the_inner_one():
    def f(x):
        y = x * 1
        grad(lambda w: (y.add_(1) * w).sum())(ONE)
        return y

    with pytest.raises(RuntimeError, match=CAPTURED):
        grad(f)(X)


# ---- inside of a vmap ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: grad(lambda x, w: f(x, w).sum()),
        lambda f: grad(lambda x, w: f(x, w).sum(), argnums=1),
        lambda f: lambda x, w: vjp(f, x, w)[1](V)[1],
        lambda f: lambda x, w: jvp(lambda x: f(x, w), (x,), (V,))[1],
        lambda f: jacrev(f, argnums=1),
        lambda f: jacfwd(f, argnums=1),
        lambda f: lambda x, w: hessian(lambda x: f(x, w).sum())(x),
        lambda f: lambda x, w: grad(lambda w: jvp(lambda x: f(x, w), (x,), (V,))[1].sum())(w),
    ],
)
def test_samples(transform):
    """w is shared by all samples, but its gradient is not."""
    xs = torch.randn(3, 2, dtype=F8)
    w = torch.randn(2, 2, dtype=F8)
    f = transform(lambda x, w: (w @ x.sin()).tanh())
    expected = torch.stack([f(x, w) for x in xs])
    torch.testing.assert_close(vmap(f, in_dims=(0, None))(xs, w), expected)


# ---- modules -------------------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2, bias=False)
        self.b = nn.Linear(2, 2, bias=False)
        self.b.weight = self.a.weight
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x, scale=1.0):
        self.count = self.count + 1
        return self.b(self.a(x)) * scale


def test_functional_call():
    m = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
    x = torch.randn(4, 2)
    params = {k: v.detach() for k, v in m.named_parameters()}
    same(functional_call(m, params, x), m(x).detach())
    zero = {k: torch.zeros_like(v) for k, v in params.items()}
    same(functional_call(m, zero, (x,)), torch.zeros(4, 1))
    moved = functional_call(m, {"2.bias": m[2].bias.detach() + 1}, x)
    torch.testing.assert_close(moved.detach(), m(x).detach() + 1)
    g = grad(lambda p: functional_call(m, p, x).pow(2).sum())(params)
    m(x).pow(2).sum().backward()
    torch.testing.assert_close(g, {k: v.grad for k, v in m.named_parameters()})
    assert all(isinstance(p, nn.Parameter) for p in m.parameters())


def test_functional_call_ties_weights_and_gives_back_buffers():
    m = Tied()
    w = torch.eye(2) * 2
    x = torch.ones(1, 2)
    state = {"a.weight": w, "count": torch.zeros(())}
    same(functional_call(m, state, x, {"scale": 2.0}), 8 * x)
    assert state["count"].item() == 1
    assert m.count.item() == 0
    loose = functional_call(m, {"a.weight": w}, x, tie_weights=False)
    same(loose, (2 * m.b(x)).detach())
    with pytest.raises(ValueError, match="multiple values for keys"):
        functional_call(m, {"a.weight": w, "b.weight": w + 1}, x)
    functional_call(m, {"a.weight": w, "b.weight": w + 1}, x, tie_weights=False)


def test_functional_call_errors():
    m = nn.Linear(2, 1)
    x = torch.ones(1, 2)
    with pytest.raises(RuntimeError) as caught:
        functional_call(m, {"wight": torch.ones(1, 2), "bias": torch.ones(1)}, x, strict=True)
    assert str(caught.value) == (
        "Error(s) in reparametrizing for Linear:\n\tUnexpected key(s): 'wight'.\n\tMissing key(s): "
        "'weight'."
    )
    with pytest.raises(ValueError, match="appeared in multiple dictionaries"):
        functional_call(m, ({"bias": torch.ones(1)}, {"bias": torch.ones(1)}), x)
    with pytest.raises(ValueError, match="to be a dict, or a list/tuple of dicts"):
        functional_call(m, 3, x)
    with pytest.raises(AttributeError, match="has no attribute `sub`"):
        functional_call(m, {"sub.bias": torch.ones(1)}, x)
    with pytest.raises(TypeError, match="is not an instance of Tensor"):
        functional_call(m, {"weight": torch.ones(1, 2), "bias": 3.0}, x)
    before = m.weight
    with pytest.raises(RuntimeError):
        functional_call(m, {"weight": torch.ones(5, 5)}, x)
    assert m.weight is before


def test_the_old_name_of_functional_call_warns():
    from cograd.nn.utils import stateless

    m = nn.Linear(2, 1)
    with pytest.warns(FutureWarning, match="func.functional_call"):
        stateless.functional_call(m, {}, torch.ones(1, 2))


def test_stack_module_state():
    models = [nn.Linear(2, 3) for _ in range(4)]
    params, buffers = stack_module_state(models)
    assert {k: v.shape for k, v in params.items()} == {"weight": (4, 3, 2), "bias": (4, 3)}
    assert buffers == {}
    assert all(p.is_leaf and p.requires_grad for p in params.values())
    same(params["weight"][2].detach(), models[2].weight.detach())
    with pytest.raises(RuntimeError, match="Expected at least one model, got 0"):
        stack_module_state([])
    with pytest.raises(RuntimeError, match="to be of the same class"):
        stack_module_state([models[0], nn.Tanh()])
    models[0].weight.requires_grad_(False)
    with pytest.raises(RuntimeError, match="Expected weight from each model to have the same"):
        stack_module_state(models)
    models[1].eval()
    with pytest.raises(RuntimeError, match="the same training/eval mode"):
        stack_module_state(models)


def test_import_cograd_imports_neither_func_nor_functional():
    code = (
        "import sys, cograd\n"
        "assert not any(m.startswith(('cograd.func.', 'cograd.autograd.functional'))"
        " or m == 'cograd.func' for m in sys.modules)\n"
        "cograd.func.grad, cograd.autograd.functional.jacobian\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
