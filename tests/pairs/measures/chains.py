# SPDX-License-Identifier: BSD-3-Clause
"""Derivatives by every method of func, autograd.functional and forward mode, and by two of them.

A method gets a function from tensors to a number, tensors, and a direction; it returns the gradient
or the derivative in the direction. In a chain of two, the inner method computes the derivative in
the direction and the outer one differentiates that. The result is the Hessian times the direction,
whichever methods are used.
"""

from pairs.compare import directions, filled, head, loss_of
from pairs.measures import Measure
from pairs.package import T

AF = T.autograd.functional
forward_ad = T.autograd.forward_ad
MOST = 48  # greatest number of elements for a method that computes a column for each


def dot(a, b):
    return sum((filled(x, y) * y).sum() for x, y in zip(a, b, strict=True))


def argnums(x):
    return tuple(range(len(x)))


def autograd_grad(s, x, v):
    x = [t if t.requires_grad else t.detach().requires_grad_() for t in x]
    grads = T.autograd.grad(s(*x), x, create_graph=True, allow_unused=True)
    return tuple(filled(g, t) for g, t in zip(grads, x, strict=True))


def func_grad(s, x, v):
    return T.func.grad(s, argnums(x))(*x)


def grad_and_value(s, x, v):
    return T.func.grad_and_value(s, argnums(x))(*x)[0]


def func_vjp(s, x, v):
    y, back = T.func.vjp(s, *x)
    return back(T.ones_like(y))


def jacrev(s, x, v):
    return T.func.jacrev(s, argnums(x))(*x)


def jacfwd(s, x, v):
    return T.func.jacfwd(s, argnums(x))(*x)


def func_jvp(s, x, v):
    return T.func.jvp(s, tuple(x), tuple(v))[1]


def linearize(s, x, v):
    return T.func.linearize(s, *x)[1](*v)


def dual(s, x, v):
    with forward_ad.dual_level():
        y = s(*[forward_ad.make_dual(t, d) for t, d in zip(x, v, strict=True)])
        tangent = forward_ad.unpack_dual(y).tangent
        return T.zeros_like(y) if tangent is None else tangent


def jacobian(s, x, v):
    return AF.jacobian(s, tuple(x), create_graph=True)


def jacobian_vectorized(s, x, v):
    return AF.jacobian(s, tuple(x), create_graph=True, vectorize=True)


def jacobian_forward(s, x, v):
    return AF.jacobian(s, tuple(x), vectorize=True, strategy="forward-mode")


def functional_vjp(s, x, v):
    return AF.vjp(s, tuple(x), create_graph=True)[1]


def functional_jvp(s, x, v):
    return AF.jvp(s, tuple(x), tuple(v), create_graph=True)[1]


def vmap_grad(s, x, v):
    """Returns the second of two gradients under vmap; both samples are equal."""
    both = [T.stack([t, t]) for t in x]
    return tuple(g[1] for g in T.func.vmap(T.func.grad(s, argnums(x)))(*both))


def vmap_jvp(s, x, v):
    """Returns the difference of two derivatives under vmap, in the directions v and 2 v."""
    both = [T.stack([t, 2 * t]) for t in v]
    found = T.func.vmap(lambda *d: T.func.jvp(s, tuple(x), d)[1])(*both)
    return found[1] - found[0]


# Method: (function, uses forward mode, uses vmap, computes a column for each element)
METHODS = {
    "autograd.grad": (autograd_grad, False, False, False),
    "func.grad": (func_grad, False, False, False),
    "func.grad_and_value": (grad_and_value, False, False, False),
    "func.vjp": (func_vjp, False, False, False),
    "func.jacrev": (jacrev, False, True, False),
    "func.jacfwd": (jacfwd, True, True, True),
    "func.jvp": (func_jvp, True, False, False),
    "func.linearize": (linearize, True, False, False),
    "dual numbers": (dual, True, False, False),
    "functional.jacobian": (jacobian, False, False, False),
    "functional.jacobian(vectorize)": (jacobian_vectorized, False, True, False),
    "functional.jacobian(forward)": (jacobian_forward, True, True, True),
    "functional.vjp": (functional_vjp, False, False, False),
    "functional.jvp": (functional_jvp, False, False, False),
    "vmap(grad)": (vmap_grad, False, True, False),
    "vmap(jvp)": (vmap_jvp, True, True, False),
}
NUMBERS = {"func.jvp", "func.linearize", "dual numbers", "functional.jvp", "vmap(jvp)"}
# These create leaves; torch refuses them under a transform of func.
OUTERMOST = {n for n in METHODS if n.startswith(("autograd", "functional"))}


def hessian(s, x, v):
    return rows_times(T.func.hessian(s, argnums(x))(*x), v)


def functional_hessian(**options):
    return lambda s, x, v: rows_times(AF.hessian(s, tuple(x), **options), v)


def rows_times(blocks, v):
    """Returns the product of blocks of second derivatives and the direction."""

    def product(block, d):
        dims = tuple(range(block.dim() - d.dim(), block.dim()))
        return (block * d).sum(dims) if dims else block * d

    return tuple(sum(product(b, d) for b, d in zip(row, v, strict=True)) for row in blocks)


# Name: (function, uses forward mode, uses vmap, computes a column for each element)
SECONDS = {
    "func.hessian": (hessian, True, True, True),
    "functional.hessian": (functional_hessian(), False, False, True),
    "functional.hessian(vectorize)": (functional_hessian(vectorize=True), False, True, True),
    "functional.hessian(forward)": (
        functional_hessian(vectorize=True, outer_jacobian_strategy="forward-mode"),
        True, True, True,
    ),
    "functional.hvp": (lambda s, x, v: AF.hvp(s, tuple(x), tuple(v))[1], False, False, False),
    "functional.vhp": (lambda s, x, v: AF.vhp(s, tuple(x), tuple(v))[1], False, False, False),
}  # fmt: skip


class Chain(Measure):
    """One or two methods, the outermost first."""

    direct = False
    runs_again = True

    def __init__(self, names):
        facts = [(METHODS | SECONDS)[n] for n in names]
        self.names, self.name = names, " of ".join(names)
        self.functions = [f[0] for f in facts]
        self.forward, self.batched, self.columns = (any(f[i] for f in facts) for i in (1, 2, 3))
        self.order = 2 if len(names) == 2 or names[0] in SECONDS else 1
        self.number = names[0] in NUMBERS
        self.reverse = self.count_reverse()

    def count_reverse(self):
        """Returns how often a hook inside of the function runs; None if no one number is right.

        It runs at the innermost level of reverse mode. Methods of autograd share one level.
        """

        def is_plain(n):
            return n.startswith(("autograd", "functional"))

        if self.names[0] in SECONDS:
            return 1 if self.names[0] == "func.hessian" or "forward" in self.names[0] else 2
        if self.names[-1] == "func.linearize":  # hooks inside belong to it, and it runs none
            return 0
        backwards = [n for n in self.names if not METHODS[n][1]]
        if any(n == "functional.jvp" for n in self.names):
            return None  # it uses a backward of a backward
        plain = [n for n in backwards if is_plain(n)]
        return len(plain) if len(plain) == 2 else min(1, len(backwards))

    def count(self, case):
        """Returns how many leaves to differentiate by: only the inputs if columns are too many."""
        leaves = list(case.leaves().values())
        if not self.columns:
            return len(leaves)
        if sum(t.numel() for t in leaves) <= MOST:
            return len(leaves)
        return len(case.inputs)

    def refuses(self, case):
        tensors = list(case.leaves().values())[: self.count(case)]
        if not tensors:
            return "no tensors to differentiate by"
        if self.columns and sum(t.numel() for t in tensors) > MOST:
            return "too many columns"
        return None

    def run(self, case, f):
        values = case.values()
        n = self.count(case)
        x, rest = values[:n], values[n:]

        def s(*x):
            T.manual_seed(0)
            return loss_of(f(*x, *rest))

        v = directions(x)
        for function, name in zip(self.functions[:0:-1], self.names[:0:-1], strict=True):
            s = slope(function, name, s, v)
        found = self.functions[0](s, x, v)
        if self.number:
            return {"derivative": found}
        return {f"gradient of {n}": g for n, g in zip(case.leaves(), found)}

    def want(self, ref):
        n = self.count(ref.make())
        gradient = ref.gradient if self.order == 1 else ref.second(n)
        gradient = dict(list(gradient.items())[:n])
        if not self.number:
            return gradient
        leaves = list(ref.make().leaves().values())[:n]
        return {"derivative": dot(list(gradient.values()), directions(leaves))}


def slope(function, name, s, v):
    """Returns the function that computes the derivative of s in the direction."""

    def inner(*x):
        found = function(s, x, v)
        return found if name in NUMBERS else dot(found, v)

    return inner


def chained():
    """Yields all methods, and the chains that torch allows: methods with leaves are outermost."""
    for outer in [*METHODS, *SECONDS]:
        yield Chain((outer,))
    for outer in METHODS:
        for inner in METHODS:
            if inner == "functional.jacobian(forward)":  # it has no create_graph
                continue
            forward = METHODS[outer][1]
            if inner == "autograd.grad" and forward:  # its leaf would lack the tangent
                continue
            if inner not in OUTERMOST or outer in OUTERMOST or outer == "func.jvp":
                yield Chain((outer, inner))


class OfResults(Measure):
    """The Jacobian of the first elements of the results, or its product with a direction."""

    direct, runs_again = False, True

    def __init__(self, name, function, forward=False, columns=False, number=False):
        self.name, self.function, self.number = name + " of results", function, number
        self.forward, self.columns, self.batched = forward, columns, "jac" in name
        self.reverse = 0 if forward else None if name == "functional.jvp" else 1

    def refuses(self, case):
        if self.columns and sum(t.numel() for t in case.leaves().values()) > MOST:
            return "too many columns"
        return None if case.leaves() else "no tensors to differentiate by"

    def run(self, case, f):
        values = case.values()

        def of_head(*x):
            T.manual_seed(0)
            return head(f(*x))

        found = self.function(of_head, values, directions(values))
        return {"tangent": found} if self.number else dict(zip(case.leaves(), found, strict=True))

    def want(self, ref):
        if not self.number:
            return ref.jacobian
        v = directions(list(ref.make().leaves().values()))
        parts = zip(ref.jacobian.values(), v, strict=True)
        return {"tangent": sum((j * d).reshape(len(j), -1).sum(-1) for j, d in parts)}


def jacrev_in_chunks(f, x, v):
    return T.func.jacrev(f, argnums(x), chunk_size=2)(*x)


def jacobian_loop(f, x, v):
    return AF.jacobian(f, tuple(x))


MEASURES = [
    *chained(),
    OfResults("jacrev", jacrev),
    OfResults("jacrev(chunk_size=2)", jacrev_in_chunks),
    OfResults("jacfwd", jacfwd, forward=True, columns=True),
    OfResults("functional.jacobian", jacobian_loop),
    OfResults("functional.jacobian(vectorize)", jacobian_vectorized),
    OfResults("functional.jacobian(forward)", jacobian_forward, forward=True, columns=True),
    OfResults("func.jvp", func_jvp, forward=True, number=True),
    OfResults("func.linearize", linearize, forward=True, number=True),
    OfResults("dual numbers", dual, forward=True, number=True),
    OfResults("functional.jvp", functional_jvp, number=True),
]
