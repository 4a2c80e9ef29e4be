# SPDX-License-Identifier: BSD-3-Clause
"""vmap: over inputs in several dims and chunks, inside and outside of grad; ensembles."""

from pairs.compare import filled, loss_of, with_history
from pairs.measures import Measure
from pairs.package import T

SIZE = 3


def samples(t, k):
    """Returns sample k of an input. All samples have the signs and the symmetry of the input."""
    return t * (1 - 0.1 * k)


def batch(tensors, dims):
    return [
        T.stack([samples(t, k) for k in range(SIZE)], min(d, t.dim()))
        for t, d in zip(tensors, dims, strict=True)
    ]


def least_dims(case):
    """Returns the smallest number of dims of the results; 0 if the call raises."""
    try:
        return min(o.dim() for o in case.f(*case.inputs))
    except Exception:
        return 0


class Batched(Measure):
    """vmap of the call with these batch dims; the parameters are the same for all samples."""

    direct, batched, runs_again, order = False, True, True, 0

    def __init__(self, name, dims=0, out_dims=0, only=None, **options):
        self.name, self.dims, self.out_dims = name, dims, out_dims
        self.only, self.options = only, options

    def refuses(self, case):
        if self.only and len(case.inputs) < 2:
            return "fewer than two inputs"
        if any(t.dim() < self.dims for t in case.inputs):
            return "too few dims"
        if self.out_dims and least_dims(case) < self.out_dims:
            return "too few dims of results"
        return None if case.inputs else "no inputs"

    def in_dims(self, case):
        """Returns the batch dim of each input; None if it is the same for all samples."""
        n = len(case.inputs)
        return tuple(None if self.only and i != self.only - 1 else self.dims for i in range(n))

    def arguments(self, case):
        dims = self.in_dims(case)
        chosen = [t.detach() for t, d in zip(case.inputs, dims, strict=True) if d is not None]
        made = iter(batch(chosen, [self.dims] * len(chosen)))
        return [
            t.detach() if d is None else next(made) for t, d in zip(case.inputs, dims, strict=True)
        ], dims

    def mapped(self, case, f):
        rest = case.values()[len(case.inputs) :]
        dims = self.in_dims(case)
        return T.func.vmap(
            lambda *x: f(*x, *rest), dims, out_dims=self.out_dims, randomness="same", **self.options
        )

    def run(self, case, f):
        x, _ = self.arguments(case)
        T.manual_seed(0)
        outs = self.mapped(case, f)(*x)
        return {f"result {i}": o.movedim(self.out_dims, 0) for i, o in enumerate(outs)}

    def want(self, ref):
        found = []
        for k in range(SIZE):
            case = ref.make()
            T.manual_seed(0)
            with T.no_grad():
                found.append(ref.wrap(case, case.f)(*self.sample(case, k)))
        return {f"result {i}": T.stack(list(o)) for i, o in enumerate(zip(*found, strict=True))}

    def sample(self, case, k):
        dims = self.in_dims(case)
        return [
            t.detach() if d is None else samples(t.detach(), k)
            for t, d in zip(case.inputs, dims, strict=True)
        ]


class GradientInside(Batched):
    """vmap of func.grad, which computes a gradient for each sample."""

    order = 1

    def run(self, case, f):
        x, dims = self.arguments(case)
        rest = case.values()[len(case.inputs) :]
        every = tuple(range(len(x)))

        def gradient(*x):
            return T.func.grad(lambda *x: loss_of(f(*x, *rest)), every)(*x)

        T.manual_seed(0)
        found = T.func.vmap(gradient, dims, randomness="same", **self.options)(*x)
        return {f"gradient of input {i}": g for i, g in enumerate(found)}

    def want(self, ref):
        found = []
        for k in range(SIZE):
            case = ref.make()
            x = [t.requires_grad_() for t in self.sample(case, k)]
            T.manual_seed(0)
            outs = ref.wrap(case, case.f)(*x)
            with_history(outs)
            grads = T.autograd.grad(loss_of(outs), x, allow_unused=True)
            found.append([filled(g, t) for g, t in zip(grads, x, strict=True)])
        return {f"gradient of input {i}": T.stack(list(g)) for i, g in enumerate(zip(*found))}


class BackwardThrough(GradientInside):
    """Backward of the results of vmap; the inputs are leaves outside of the vmap."""

    def run(self, case, f):
        x, _ = self.arguments(case)
        x = [t.detach().requires_grad_() for t in x]
        T.manual_seed(0)
        outs = self.mapped(case, f)(*x)
        loss = sum(loss_of([o.select(self.out_dims, k) for o in outs]) for k in range(SIZE))
        found = T.autograd.grad(loss, x, allow_unused=True)
        dims = self.in_dims(case)
        return {
            f"gradient of input {i}": filled(g, t).movedim(d, 0)
            for i, (g, t, d) in enumerate(zip(found, x, dims, strict=True))
            if d is not None
        }

    def want(self, ref):
        dims = self.in_dims(ref.make())
        found = super().want(ref)
        return {k: v for (k, v), d in zip(found.items(), dims, strict=True) if d is not None}


class TangentInside(Batched):
    """vmap of jvp, which computes a derivative in one direction for each sample."""

    order, forward, reverse, number = 1, True, 0, True

    def run(self, case, f):
        x, dims = self.arguments(case)
        rest = case.values()[len(case.inputs) :]

        def slope(*x):
            s = lambda *x: loss_of(f(*x, *rest))
            return T.func.jvp(s, x, tuple(T.ones_like(t) for t in x))[1]

        T.manual_seed(0)
        return {"derivative": T.func.vmap(slope, dims, randomness="same")(*x)}

    def want(self, ref):
        gradients = GradientInside.want(self, ref)
        return {"derivative": sum(g.reshape(SIZE, -1).sum(1) for g in gradients.values())}


class Ensemble(Measure):
    """Gradients of several copies of a module that vmap and functional_call run at once."""

    direct, batched, runs_again = False, True, True

    def __init__(self, name):
        self.name = name

    def refuses(self, case):
        return None if case.parameters() else "no parameters"

    def values(self, case):
        return [batch([t], [0])[0] for t in case.values()[len(case.inputs) :]]

    def run(self, case, f):
        x = [t.detach() for t in case.inputs]
        stacked = [t.requires_grad_() for t in self.values(case)]
        T.manual_seed(0)
        outs = T.func.vmap(lambda *p: f(*x, *p), randomness="same")(*stacked)
        loss = sum(loss_of([o[k] for o in outs]) for k in range(SIZE))
        names = [n for n, _ in case.parameters()]
        grads = T.autograd.grad(loss, stacked, allow_unused=True)
        return {
            f"gradient of {n}": filled(g, t) for n, g, t in zip(names, grads, stacked, strict=True)
        }

    def want(self, ref):
        found = []
        for k in range(SIZE):
            case = ref.make()
            x = [t.detach() for t in case.inputs]
            with T.no_grad():
                for _, p in case.parameters():
                    p.copy_(samples(p, k))
            parameters = dict(case.parameters())
            T.manual_seed(0)
            loss = loss_of(ref.wrap(case, case.f)(*x))
            grads = T.autograd.grad(loss, parameters.values(), allow_unused=True)
            found.append([filled(g, p) for g, p in zip(grads, parameters.values(), strict=True)])
        return {
            f"gradient of {n}": T.stack([g[i] for g in found]) for i, n in enumerate(parameters)
        }


MEASURES = [
    Batched("vmap"),
    Batched("vmap(in_dims=1)", 1),
    Batched("vmap(out_dims=1)", 0, 1),
    Batched("vmap(chunk_size=2)", chunk_size=2),
    Batched("vmap of the first input", only=1),
    Batched("vmap of the second input", only=2),
    GradientInside("vmap of grad by sample"),
    GradientInside("vmap(in_dims=1) of grad by sample", 1),
    GradientInside("vmap of grad by sample, second input", only=2),
    BackwardThrough("backward through vmap"),
    BackwardThrough("backward through vmap(in_dims=1)", 1),
    BackwardThrough("backward through vmap of the first input", only=1),
    TangentInside("vmap of jvp by sample"),
    Ensemble("ensemble"),
]
