# SPDX-License-Identifier: BSD-3-Clause
"""Random programs of the op table's ops under every sequence of grad, jvp and vmap to depth 3.

Each transform of the function so far is compared with its meaning: vmap with a loop over the batch,
grad and jvp with differences along a line. So every result depends only on differences.
"""

import itertools
import random
import warnings
import zlib

import numpy as np
import pytest
from op_checks import constants_of
from op_table import (
    F8,
    OPS,
    TABLE,
    arguments,
    call,
    has_derivative,
    results,
    samples_of,
    tensors_in,
    tree_map,
)

import cograd as torch
from cograd.func import grad, jvp, vmap

SIZE = 2
STEP = 3e-4
PROGRAMS = 8  # of each sequence; two of them with every change
SEQUENCES = [
    s for depth in (1, 2, 3) for s in itertools.product(("grad", "jvp", "vmap"), repeat=depth)
]
KINDS = ("random", "creation")
STEPS = [
    (r, s)
    for r in TABLE
    if r["differentiable"] and r["kind"] not in KINDS and not r["reads_bytes"]
    for s in samples_of(r)
    if has_derivative(s)
]


def repeated(t, n):
    """Returns `n` numbers made from those of `t`."""
    flat = t.reshape(-1)
    times = -(-n // flat.shape[0])
    return torch.cat([flat] * times)[:n] if times > 1 else flat[:n]


def is_symmetric(t):
    return t.dim() >= 2 and t.shape[-1] == t.shape[-2] and bool((t == t.mT).all())


class Step:
    """An op of the table as a function of numbers between -1 and 1, near the sample's arguments."""

    def __init__(self, record, sample, choose):
        self.record, self.sample = record, sample
        self.args, self.kwargs = arguments(record, sample)
        constants = constants_of(record, self.args)
        found = []
        for t in tensors_in((self.args, self.kwargs)):
            usable = t.dtype is F8 and t.numel() > 0 and id(t) not in constants
            if usable and all(t is not v for v in found):
                found.append(t)
        # Not all of them, so that some arguments are unbatched and have no tangent.
        self.varied = [t for t in found if len(found) == 1 or choose.random() < 0.7] or found[:1]
        self.symmetric = [is_symmetric(t) for t in self.varied]
        self.f = OPS.function(record)
        self.write = record["inplace"] and choose.random() < 0.3 and self.can_write()
        if self.write:
            self.f = OPS.inplace(record)

    def __str__(self):
        names = [i for i, t in enumerate(tensors_in((self.args, self.kwargs))) if self.has(t)]
        return f"{self.record['name']}{'_' * self.write}({self.sample}) by tensors {names}"

    def can_write(self):
        first = self.args[0] if self.args else None
        if not any(first is v for v in self.varied):
            return False
        made = results(call(self.f, self.args, self.kwargs))[0]
        return made.shape == first.shape and made.dtype is first.dtype

    def has(self, t):
        return any(t is v for v in self.varied)

    def near(self, i, h):
        v = self.varied[i]
        moved = repeated(h.reshape(-1).roll(i), v.numel()).reshape(v.shape)
        if self.symmetric[i]:
            moved = (moved + moved.mT) / 2
        return v + 0.1 * moved

    def __call__(self, h):
        values = {id(v): self.near(i, h) for i, v in enumerate(self.varied)}
        a, k = tree_map(lambda t: values.get(id(t), t), (self.args, self.kwargs))
        found = [r for r in results(call(self.f, a, k)) if r.dtype is F8 and r.numel() > 0]
        if not found:
            return h
        out = torch.cat([r.reshape(-1) for r in found])
        return (0.5 * h + repeated(out, h.numel()).reshape(h.shape)).tanh()


class Program:
    """Runs steps one after the other, which also use w."""

    def __init__(self, steps, shape, choose):
        self.steps, self.shape = steps, shape
        self.mixes = {choose.randrange(len(steps)), 0}
        self.at = None

    def __str__(self):
        return "\n".join(
            f"  {'w, ' if i in self.mixes else ''}{s}" for i, s in enumerate(self.steps)
        )

    def __call__(self, x, w):
        h = x
        for i, step in enumerate(self.steps):
            self.at = step
            if i in self.mixes:
                h = (h + w).sin()
            h = step(h)
        return h


def numbers(shape, seed):
    """Returns directions and weights without special values."""
    return torch.tensor(np.random.default_rng(seed).uniform(-0.8, 0.8, tuple(shape)))


class Grad:
    """The gradient with respect to x of the results' sum with weights that depend on w."""

    def __init__(self, choose):
        self.seed = choose.randrange(1 << 30)

    def __str__(self):
        return "grad"

    def value(self, f, x, w):
        out = f(x, w)
        return (out * numbers(out.shape, self.seed)).sum() * (1 + w.mean())

    def of(self, f):
        return grad(lambda x, w: self.value(f, x, w))

    def widen(self, x, w):
        return x, w

    def check(self, f, x, w, got):
        assert got.shape == x.shape
        for seed in (1, 2):
            v = numbers(x.shape, seed)
            along = difference(lambda e, v=v: self.value(f, x + e * v, w))
            yield (got * v).sum(), along


class Jvp:
    """The derivative along a direction of x that depends on w, optionally also of w."""

    def __init__(self, choose):
        self.seed = choose.randrange(1 << 30)
        self.both = choose.random() < 0.5

    def __str__(self):
        return "jvp by x and w" if self.both else "jvp by x"

    def directions(self, x, w):
        along = numbers(x.shape, self.seed) * (1 + w.mean())
        return along, numbers(w.shape, self.seed + 1)

    def of(self, f):
        def run(x, w):
            dx, dw = self.directions(x, w)
            if self.both:
                return jvp(f, (x, w), (dx, dw))[1]
            return jvp(lambda x: f(x, w), (x,), (dx,))[1]

        return run

    def widen(self, x, w):
        return x, w

    def check(self, f, x, w, got):
        dx, dw = self.directions(x, w)
        if not self.both:
            dw = torch.zeros_like(dw)
        yield got, difference(lambda e: f(x + e * dx, w + e * dw))


class Vmap:
    """Maps over x, w or both, in any dim."""

    def __init__(self, choose):
        self.choice = choose.choice([(True, False), (False, True), (True, True)])
        self.last = choose.random() < 0.3

    def __str__(self):
        return f"vmap with in_dims {self.in_dims}"

    @property
    def in_dims(self):
        dim = -1 if self.last else 0
        return tuple(dim if c else None for c in self.choice)

    def of(self, f):
        return vmap(f, self.in_dims)

    def widen(self, x, w):
        """Returns batched arguments near the given ones."""
        wide = [
            torch.stack([t + 0.05 * k for k in range(SIZE)], -1 if self.last else 0) if c else t
            for t, c in zip((x, w), self.choice, strict=True)
        ]
        return wide[0], wide[1]

    def check(self, f, x, w, got):
        def sample(t, batched, k):
            return t.select(-1 if self.last else 0, k).clone() if batched else t

        loop = [
            f(*(sample(t, c, k) for t, c in zip((x, w), self.choice, strict=True)))
            for k in range(SIZE)
        ]
        yield got, torch.stack(loop)


KIND = {"grad": Grad, "jvp": Jvp, "vmap": Vmap}


def difference(f):
    """Returns the derivative at 0, of fourth order."""
    near, far = f(STEP) - f(-STEP), f(2 * STEP) - f(-2 * STEP)
    return (8 * near - far) / (12 * STEP)


def differs(got, want):
    scale = 1e-3 + want.abs().max().item()
    return not torch.allclose(got, want, rtol=1e-5, atol=1e-5 * scale)


def failing(transforms, program, x, w):
    """Returns depth and values of the first transform that disagrees; None if all agree."""
    f = program
    for depth, t in enumerate(transforms):
        inner, f = f, t.of(f)
        x, w = t.widen(x, w)
        got = f(x, w)
        for a, b in t.check(inner, x, w, got):
            if not bool(b.isfinite().all()):
                return None  # a derivative of higher order that does not exist here
            if differs(a, b):
                return depth, a, b
    return None


REFUSALS = ("vmap: It looks like", "gives a Python number", "depends on the values")


def new_program(choose, left):
    """Takes 3 to 8 steps from `left`, which yields each step once before it repeats one."""
    steps = []
    for _ in range(choose.randint(3, 8)):
        if not left:
            left.extend(choose.sample(STEPS, len(STEPS)))
        steps.append(Step(*left.pop(), choose))
    return Program(steps, tuple(choose.choices((1, 2, 3), k=choose.randint(1, 2))), choose)


def points(program, seed):
    """Returns three points; at most one of them has a kink within the differences' range."""
    for k in range(3):
        yield numbers(program.shape, seed + k), numbers(program.shape, seed + k + 100)


def without_refused(program):
    """Returns the program without the step that vmap refuses."""
    program.steps = [s for s in program.steps if s is not program.at]
    return program.steps


def check_program(names, seed, choose, left):
    program = new_program(choose, left)
    transforms = [KIND[n](choose) for n in names]
    found = None
    for x, w in points(program, seed):
        while program.steps:
            try:
                found = failing(transforms, program, x, w)
                break
            except Exception as e:
                refused = "vmap" in names and any(text in str(e) for text in REFUSALS)
                if not refused:
                    raise AssertionError(describe(transforms, program, x)) from e
                without_refused(program)
        if found is None:
            return
    depth, got, want = found
    program_text = describe(transforms, program, x)
    raise AssertionError(f"{program_text}\nafter {depth + 1} transforms: {got}, not {want}")


def describe(transforms, program, x):
    order = ", then ".join(map(str, transforms))
    return f"{order} of x, w of shape {tuple(x.shape)}:\n{program}\nlast step: {program.at}"


@pytest.mark.parametrize("names", SEQUENCES, ids="-".join)
def test_transforms_of_programs(names):
    transforms_of_programs(names, 2)


@pytest.mark.nightly
@pytest.mark.parametrize("names", SEQUENCES, ids="-".join)
def test_transforms_of_more_programs(names):
    transforms_of_programs(names, PROGRAMS)


def transforms_of_programs(names, count):
    seed = zlib.crc32("-".join(names).encode())
    choose = random.Random(seed)
    left = choose.sample(STEPS, len(STEPS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ops that run sample by sample
        for k in range(count):
            check_program(names, seed + 1000 * k, choose, left)
