# SPDX-License-Identifier: BSD-3-Clause
"""Functions and hooks that misbehave: backward must raise or work, and must restore all state."""

import gc
import random
import threading
import warnings

import cograd as torch
from cograd import _C
from cograd.autograd import Function
from fuzz.execute import Wrong, judge
from fuzz.makers import Boom


class Stage:
    """Holds what the misbehaving code of one case can use."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.x = torch.ones(3, requires_grad=True)
        self.w = torch.ones(2, 3, requires_grad=True)
        # The accumulators are created here, because live nodes are counted by thread.
        self.leaves = [(t * 1).grad_fn.next_functions for t in (self.x, self.w)]
        self.held, self.ctx, self.y, self.depth = [], None, None, 0
        self.story = []  # what the code did, for the report

    def value(self, like):
        """Returns something in place of a gradient or an output."""
        r = self.rng
        return r.choice(
            [
                lambda: like, lambda: like, lambda: like, lambda: None, lambda: torch.ones(5), lambda: 1.0,
                lambda: "x", lambda: (like, like), lambda: (), lambda: [like], lambda: like.double(),
                lambda: like.bool(), lambda: like.expand(2, 3), lambda: self.x, lambda: self.ctx,
                lambda: torch.ones(0), lambda: like.to(torch.complex64), lambda: like.t() if like.dim() == 2 else like,
                lambda: (None,) * 7, lambda: object(), lambda: self.y, lambda: torch.ones(2**20)[:3], lambda: {1: like},
            ]
        )()  # fmt: skip

    def mischief(self, like=None):
        r = self.rng
        what = r.choice(
            "nothing nothing nothing raise backward grad again keep resize write free gc drop del_graph hook thread mode"
            " modes saved no_grad_leak vmap interrupt detach exit".split()
        )
        self.story.append(what)
        if what == "raise":
            raise r.choice(
                (Boom("x"), KeyError("k"), RuntimeError("r"), StopIteration(), MemoryError())
            )
        if what == "interrupt":
            raise r.choice((KeyboardInterrupt(), SystemExit(3), GeneratorExit()))
        if what == "backward":
            z = (self.w * 2).sum()
            z.backward()
        elif what == "grad":
            torch.autograd.grad((self.x * self.x).sum(), self.x, create_graph=r.random() < 0.5)
        elif what == "again" and self.depth < 2 and self.y is not None:
            self.depth += 1
            self.y.sum().backward(retain_graph=r.random() < 0.5)
        elif what == "keep":
            self.held.append((like, self.ctx, self.y))
        elif what == "resize":
            self.x.detach().resize_(r.choice((0, 3, 50)))
        elif what == "write":
            r.choice((self.x, self.w)).detach().fill_(2)
        elif what == "free":
            r.choice((self.x, self.w)).untyped_storage().resize_(0)
        elif what == "gc":
            gc.collect()
        elif what == "drop":
            self.y = self.ctx = None
            self.held.clear()
        elif what == "del_graph" and self.y is not None and self.y.grad_fn is not None:
            self.y.detach_()
        elif what == "hook":
            self.x.register_hook(lambda g: self.mischief(g) or self.value(g))
        elif what == "thread":
            t = threading.Thread(target=self.quiet, args=(lambda: (self.w * 3).sum().backward(),))
            t.start()
            t.join()
        elif what == "mode":
            with torch.no_grad(), torch.inference_mode():
                self.held.append(torch.ones(2) * 2)
        elif what == "saved" and self.ctx is not None:
            self.held.append(self.ctx.saved_tensors)
        elif what == "vmap":
            torch.vmap(lambda v: (v * 2).sum())(self.w.detach())
        elif what == "detach" and like is not None:
            like.detach_()

    @staticmethod
    def quiet(f):
        try:
            f()
        except BaseException:
            pass


def misbehaving(stage):
    """Returns a Function of two tensors; each of its methods does something odd."""
    r = stage.rng
    outputs, saves, legacy = r.choice((1, 1, 2)), r.randrange(6), r.random() < 0.3

    stage.story.append(f"outputs={outputs} saves={saves} legacy={legacy}")

    def run(ctx, a, b):
        stage.mischief(a)
        y = a * b if r.random() < 0.8 else stage.value(a)
        return (y, a + b) if outputs == 2 else y

    def keep(ctx, inputs, output):
        stage.ctx = ctx
        first = output[0] if isinstance(output, tuple) else output
        if saves == 0:
            ctx.save_for_backward(*inputs)
        elif saves == 1:
            ctx.save_for_backward(*inputs, first, None)
        elif saves == 2:
            ctx.me, ctx.out = ctx, first
        elif saves == 3:
            ctx.save_for_backward(stage.value(inputs[0]))
        elif saves == 4:
            ctx.mark_dirty(inputs[0])
        else:
            ctx.mark_non_differentiable(first)
            ctx.set_materialize_grads(False)

    class Odd(Function):
        if legacy:

            @staticmethod
            def forward(ctx, a, b):
                y = run(ctx, a, b)
                keep(ctx, (a, b), y)
                return y

        else:

            @staticmethod
            def forward(a, b):
                return run(None, a, b)

            @staticmethod
            def setup_context(ctx, inputs, output):
                keep(ctx, inputs, output)

        @staticmethod
        def backward(ctx, *grads):
            stage.ctx = ctx
            stage.mischief(grads[0])
            like = grads[0] if grads and grads[0] is not None else torch.ones(3)
            n = r.choice((2, 2, 2, 2, 0, 1, 3))
            found = tuple(like if r.random() < 0.6 else stage.value(like) for _ in range(n))
            return found if r.random() < 0.9 else stage.value(like)

        @staticmethod
        def jvp(ctx, *tangents):
            stage.mischief(tangents[0])
            return stage.value(tangents[0] if tangents[0] is not None else torch.ones(3))

        @staticmethod
        def vmap(info, in_dims, a, b):
            stage.mischief(a)
            return stage.value(a), r.choice((0, None, 1, "x", (0, 0)))

    return Odd


def act(stage):
    r = stage.rng
    f = misbehaving(stage)
    x = stage.x * 1 if r.random() < 0.5 else stage.x
    if r.random() < 0.3:
        x.register_hook(lambda g: stage.mischief(g) or stage.value(g))
    other = stage.w[0] if r.random() < 0.5 else torch.ones(3)
    way = r.randrange(8)
    stage.story.append(f"way={way} hooked={x is not stage.x}")
    if way == 0:
        torch.vmap(f.apply)(stage.w, stage.w)
        return
    if way == 1:
        torch.func.jvp(f.apply, (stage.x, other), (torch.ones(3), torch.ones(3)))
        return
    if way == 2:
        torch.func.grad(lambda a: f.apply(a, other).sum())(stage.x)
        return
    if way == 3:
        hooks = (
            lambda t: stage.mischief(t) or stage.value(t),
            lambda v: stage.mischief() or stage.value(torch.ones(3)),
        )
        with torch.autograd.graph.saved_tensors_hooks(*hooks):
            y = f.apply(x, other)
    else:
        y = f.apply(x, other)
    stage.y = y[0] if isinstance(y, tuple) else y
    y = stage.y * 2 + stage.w.sum()
    if r.random() < 0.3:
        y.grad_fn.register_hook(lambda gi, go: stage.mischief() or stage.value(gi))
    if r.random() < 0.2:
        y.grad_fn.register_prehook(lambda go: stage.mischief() or stage.value(go))
    if r.random() < 0.2:
        stage.x.register_post_accumulate_grad_hook(lambda p: stage.mischief(p))
    for _ in range(r.choice((1, 1, 2))):
        y.sum().backward(retain_graph=r.random() < 0.5, create_graph=r.random() < 0.2)
    if way == 4:
        torch.autograd.grad(y.sum(), [stage.x, stage.w], allow_unused=True)


def case(seed):
    base = _C._live_nodes()
    stage = Stage(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            act(stage)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            pass
        except Exception as e:
            stage.story.append(f"{type(e).__name__}: {str(e)[:150]}")
            judge(e)
    grad = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    if not grad:
        raise Wrong("gradients were left off")
    story = " ".join(stage.story)
    stage.__dict__.clear()
    del stage
    gc.collect()
    if _C._live_nodes() != base:
        raise Wrong(f"{_C._live_nodes() - base} nodes were left behind: {story}")
    x = torch.ones(3, requires_grad=True)
    (x * x).sum().backward()
    if x.grad.tolist() != [2.0] * 3:
        raise Wrong(f"afterwards a gradient is {x.grad}")
    del x


def describe(seed):
    return f"function {seed}"
