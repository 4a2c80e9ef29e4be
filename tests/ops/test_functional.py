# SPDX-License-Identifier: BSD-3-Clause
"""autograd.functional: values, tuples, strict, create_graph and errors."""

import pytest
from op_items import each_cell

import cograd as torch
from cograd.autograd import functional

F8 = torch.float64
X = torch.tensor([1.0, 2.0, 3.0], dtype=F8)
Y = torch.tensor([0.5, 4.0], dtype=F8)
V = torch.tensor([1.0, 0.5, 2.0], dtype=F8)
ALL = ["vjp", "jvp", "vhp", "hvp"]


def cube(x):
    return (x**3).sum()


def two(x, y):
    return x.sum() * y, x**2


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def call(name, f, inputs, v, **options):
    return getattr(functional, name)(f, inputs, v, **options)


def seed(name):
    return torch.tensor(2.0, dtype=F8) if name == "vjp" else V


@pytest.mark.parametrize("name", ALL)
def test_products(name):
    out, product = call(name, cube, X, seed(name))
    same(out, cube(X))
    g, h = 3 * X**2, 6 * X
    same(product, {"vjp": 2 * g, "jvp": (g * V).sum(), "vhp": h * V, "hvp": h * V}[name])
    assert not out.requires_grad
    assert not product.requires_grad


def test_tuples():
    out, product = functional.vjp(two, (X, Y), (Y, V))
    same(out, two(X, Y))
    same(product, ((Y * Y).sum() + 2 * X * V, X.sum() * Y))
    out, product = functional.jvp(two, (X, Y), (V, Y))
    same(out, two(X, Y))
    same(product, (V.sum() * Y + X.sum() * Y, 2 * X * V))
    for f in (functional.vhp, functional.hvp):
        _, product = f(lambda x, y: cube(x) * y.sum(), (X, Y), (V, Y))
        same(
            product,
            (6 * X * V * Y.sum() + 3 * X**2 * Y.sum(), (3 * X**2 * V).sum() * torch.ones_like(Y)),
        )


@pytest.mark.parametrize("name", ALL)
def test_v_may_be_left_out_for_one_element(name):
    one = torch.tensor([2.0], dtype=F8)
    _, product = getattr(functional, name)(cube, one)
    same(product.reshape(1), torch.tensor([12.0], dtype=F8))
    where = "user-provided function returns" if name == "vjp" else "input to the user-provided"
    with pytest.raises(RuntimeError, match=f"The vector v can only be None if the {where}"):
        getattr(functional, name)(lambda x: x**3, X)


@pytest.mark.parametrize("name", ALL)
def test_create_graph(name):
    x = X.clone().requires_grad_()
    out, product = call(name, cube, x, seed(name), create_graph=True)
    assert out.requires_grad
    assert product.requires_grad
    (g,) = torch.autograd.grad(product.sum(), x)
    h = 6 * X
    same(g, {"vjp": 2 * h, "jvp": h * V, "vhp": 6 * V, "hvp": 6 * V}[name])
    v = seed(name).clone().requires_grad_()
    _, product = call(name, cube, x, v, create_graph=True)
    assert torch.autograd.grad(product.sum(), v)[0].shape == v.shape


@pytest.mark.parametrize("name", ALL)
def test_independent_inputs(name):
    def f(x, y):
        return cube(x)

    v = seed(name) if name == "vjp" else (V, Y)
    _, product = call(name, f, (X, Y), v)
    if name != "jvp":
        same(product[1], torch.zeros_like(Y))
    with pytest.raises(RuntimeError, match="independent of input 1. This is not allowed in strict"):
        call(name, f, (X, Y), v, strict=True)
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function does not requ"):
        call(name, lambda x: torch.ones((), dtype=F8), X, seed(name), strict=True)


def test_strict_needs_second_derivatives():
    for f in (functional.vhp, functional.hvp):
        same(f(lambda x: x.sum(), X, V)[1], torch.zeros_like(X))
        with pytest.raises(RuntimeError, match="jacobian of the user-provided function with resp"):
            f(lambda x: x.sum(), X, V, strict=True)
    with pytest.raises(RuntimeError, match="when create_graph=True"):
        functional.vjp(lambda x: x.sum(), X, strict=True, create_graph=True)


@pytest.mark.parametrize("name", ALL)
def test_wrong_arguments(name):
    v = seed(name)
    with pytest.raises(RuntimeError, match="v has invalid size: should be"):
        call(name, cube, X, torch.ones(7, dtype=F8))
    with pytest.raises(RuntimeError, match="The given v should contain a single Tensor"):
        call(name, cube, X, (v, v))
    with pytest.raises(TypeError, match=f"The v given to {name} must be either a Tensor or a"):
        call(name, cube, X, 2.0)
    with pytest.raises(TypeError, match=f"The inputs given to {name} must be"):
        call(name, cube, 2.0, v)
    with pytest.raises(TypeError, match="value at index 1 has type <class 'float'>"):
        call(name, cube, (X, 2.0), v)
    with pytest.raises(TypeError, match="The outputs of the user-provided function given to"):
        call(name, lambda x: 2.0, X, v)
    if name in ("vhp", "hvp"):
        with pytest.raises(RuntimeError, match="should return a single Tensor"):
            call(name, lambda x: (x, x), X, v)
        with pytest.raises(RuntimeError, match="should contain a single element"):
            call(name, lambda x: x, X, v)


WAYS = [{}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_jacobian(way):
    j = functional.jacobian(two, (X, Y), **way)
    zero = torch.zeros(3, 2, dtype=F8)
    same(j, ((Y.reshape(2, 1).expand(2, 3), X.sum() * torch.eye(2, dtype=F8)),
             (2 * X * torch.eye(3, dtype=F8), zero)))  # fmt: skip
    same(functional.jacobian(lambda x: x**2, X, **way), 2 * X * torch.eye(3, dtype=F8))
    same(functional.jacobian(lambda x: (x**2,), (X,), **way)[0][0], 2 * X * torch.eye(3, dtype=F8))
    assert functional.jacobian(lambda x: x, torch.ones(0), **way).shape == (0, 0)
    w = torch.ones(3, dtype=F8, requires_grad=True)
    assert not functional.jacobian(lambda x: x * w, w, **way).requires_grad


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_hessian(way):
    options = {("outer_jacobian_strategy" if k == "strategy" else k): v for k, v in way.items()}
    h = functional.hessian(lambda x, y: cube(x) * y.sum(), (X, Y), **options)
    cross = (3 * X**2).reshape(3, 1).expand(3, 2)
    same(h, ((6 * X * Y.sum() * torch.eye(3, dtype=F8), cross),
             (cross.t(), torch.zeros(2, 2, dtype=F8))))  # fmt: skip
    same(functional.hessian(cube, X, **options), 6 * X * torch.eye(3, dtype=F8))
    assert not functional.hessian(cube, X, **options).requires_grad


def test_graphs_of_jacobians():
    x = X.clone().requires_grad_()
    j = functional.jacobian(lambda x: x**3, x, create_graph=True)
    same(torch.autograd.grad(j.sum(), x)[0], 6 * X)
    h = functional.hessian(cube, x, create_graph=True)
    same(torch.autograd.grad(h.sum(), x)[0], torch.full((3,), 6.0, dtype=F8))


def test_forward_mode_of_a_function_that_has_only_a_backward():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return 3 * ctx.saved_tensors[0] ** 2 * g

    j = functional.jacobian(Cube.apply, X, vectorize=True, strategy="forward-mode")
    same(j, 3 * X**2 * torch.eye(3, dtype=F8))


FORWARD = {"strategy": "forward-mode"}


@pytest.mark.parametrize(
    "error,message,options",
    [
        (AssertionError, 'either "forward-mode" or "reverse-mode"', {"strategy": "x"}),
        (NotImplementedError, "only implemented for `vectorize=True`", FORWARD),
        (NotImplementedError, "`create_graph=True` and", {**FORWARD, "create_graph": True}),
        (RuntimeError, "`strict=True` and `strategy=", {**FORWARD, "strict": True}),
        (RuntimeError, "`strict=True` and `vectorized=True`", {"vectorize": True, "strict": True}),
    ],
)
def test_options_that_do_not_go_together(error, message, options):
    with pytest.raises(error, match=message):
        functional.jacobian(lambda x: x**2, X, **options)


def test_strict_jacobian():
    with pytest.raises(RuntimeError, match="Output 0 .* is independent of input 1"):
        functional.jacobian(lambda x, y: x**2, (X, Y), strict=True)
    with pytest.raises(RuntimeError, match="independent of input 0. .* when create_graph=True"):
        functional.jacobian(lambda x: 2 * x, X, strict=True, create_graph=True)
    with pytest.raises(RuntimeError, match="While computing the hessian, found that the jacobian"):
        functional.hessian(lambda x: x.sum(), X, strict=True)


# ---- inside of forward mode -------------------------------------------------------------------

INNER = {
    "jacobian": lambda x, **o: functional.jacobian(cube, x, **o),
    "jacobian_vectorized": lambda x, **o: functional.jacobian(
        lambda x: x**3, x, vectorize=True, **o
    ),
    "hessian": lambda x, **o: functional.hessian(cube, x, **o),
    "vjp": lambda x, **o: functional.vjp(cube, x, **o)[1],
    "vjp_by_v": lambda x, **o: functional.vjp(lambda x: x**3, X, x, **o)[1],
    "vjp_output": lambda x, **o: functional.vjp(cube, x, **o)[0],
    "jvp": lambda x, **o: functional.jvp(cube, x, V, **o)[1],
    "jvp_by_v": lambda x, **o: functional.jvp(cube, X, x, **o)[1],
    "vhp": lambda x, **o: functional.vhp(cube, x, V, **o)[1],
    "hvp": lambda x, **o: functional.hvp(cube, x, V, **o)[1],
    "hvp_by_v": lambda x, **o: functional.hvp(cube, X, x, **o)[1],
}
CALLS = [(f, {"create_graph": graph}) for f in INNER.values() for graph in (False, True)]
FORWARD = [
    (lambda x: functional.jacobian(lambda x: x**3, x, vectorize=True, strategy="forward-mode"), {}),
    (
        lambda x: functional.hessian(
            cube, x, vectorize=True, outer_jacobian_strategy="forward-mode"
        ),
        {},
    ),
]
NAMES = [f"{name}-{graph}" for name in INNER for graph in ("constant", "graph")]
NAMES += ["jacobian_by_forward_mode", "hessian_by_forward_mode"]


def along_v(f):
    """Returns the derivative of the polynomial ``f`` at X along V by central differences."""
    return (f(X + 1e-4 * V) - f(X - 1e-4 * V)) / 2e-4


def by_dual_level(f):
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(X, V)
        return torch.autograd.forward_ad.unpack_dual(f(dual)).tangent


DIRECTIONS = {
    "func.jvp": lambda f: torch.func.jvp(f, (X,), (V,))[1],
    "func.jacfwd": lambda f: torch.func.jacfwd(f)(X) @ V,
    "dual_level": by_dual_level,
    "jacobian": lambda f: functional.jacobian(f, X, vectorize=True, strategy="forward-mode") @ V,
}


@each_cell("direction", DIRECTIONS.values(), ids=DIRECTIONS)
@each_cell(("inner", "options"), CALLS + FORWARD, ids=NAMES)
def test_tangents_of_results(inner, options, direction):
    """``create_graph=False`` removes the graph, but not the tangents."""

    def f(x):
        return inner(x, **options)

    torch.testing.assert_close(direction(f), along_v(f), rtol=1e-6, atol=1e-6)


def test_results_inside_of_forward_mode_have_no_graph():
    x = X.clone().requires_grad_()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, V)
        result = torch.autograd.forward_ad.unpack_dual(functional.jacobian(cube, dual))
    assert not result.primal.requires_grad
    assert not result.tangent.requires_grad


def test_a_tangent_with_a_graph_is_kept_by_create_graph():
    def f(v):
        jacobian = lambda x: functional.jacobian(cube, x, create_graph=True)
        return torch.func.jvp(jacobian, (X,), (v,))[1].sum()

    same(torch.func.grad(f)(V), 6 * X)


@pytest.mark.parametrize("outer", ["hessian", "jacobian of jacobian"])
@pytest.mark.parametrize(
    "inner",
    [
        lambda x: torch.func.vjp(cube, x)[0],
        lambda x: torch.func.vjp(cube, x)[1](torch.ones((), dtype=F8))[0] @ X,
        lambda x: torch.func.grad(cube)(x) @ X,
        lambda x: torch.func.jacrev(lambda x: x**3)(x).sum(0) @ X,
        lambda x: torch.func.jvp(cube, (x,), (X,))[1],
        lambda x: torch.func.vmap(lambda a: a**3)(x).sum(),
        lambda x: torch.autograd.grad(cube(x * 1), x, create_graph=True)[0] @ X,
    ],
    ids=["vjp_output", "vjp", "grad", "jacrev", "jvp", "vmap", "autograd.grad"],
)
def test_transforms_inside_of_a_vectorized_forward_hessian(inner, outer):
    if outer == "hessian":
        found = functional.hessian(inner, X, vectorize=True, outer_jacobian_strategy="forward-mode")
    else:
        found = functional.jacobian(
            lambda x: functional.jacobian(inner, x, create_graph=True),
            X,
            vectorize=True,
            strategy="forward-mode",
        )
    same(found, functional.hessian(inner, X))
