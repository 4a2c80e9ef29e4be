# SPDX-License-Identifier: BSD-3-Clause
"""Hooks of tensors, nodes and modules. Most of them leave the gradient as it is."""

from pairs.contexts import Context
from pairs.package import T


def keep(case, name):
    """Returns a hook that records a copy of the gradient under this name."""

    def hook(g):
        if g is not None:
            case.seen[name] = g.detach().clone()

    return hook


def where_given(f):
    """A hook that applies f; where a pass reaches only other results of the op, g is None."""
    return lambda g: None if g is None else f(g)


def of_tensors(case, f):
    """Registers hooks that copy the gradient, on copies of the inputs and on the results."""

    def run(*x):
        inside = [t * 1 for t in x]
        for t in inside:
            if t.requires_grad:
                t.register_hook(where_given(T.clone))
        outs = f(*inside)
        for o in outs:
            if o.requires_grad:
                o.register_hook(where_given(lambda g: g * 1))
        return outs

    return run


def noting(case, f):
    def run(*x):
        inside = [t * 1 for t in x]
        for i, t in enumerate(inside):
            if t.requires_grad:
                t.register_hook(keep(case, f"input {i}"))
        return f(*inside)

    return run


def doubling(case, f):
    def run(*x):
        inside = [t * 1 for t in x]
        for t in inside:
            if t.requires_grad:
                t.register_hook(where_given(lambda g: g * 2))
        return f(*inside)

    return run


def retained(case, f):
    """Calls retain_grad() on non-leaf copies of the inputs and on the results."""

    def run(*x):
        inside = [t * 1 for t in x]
        for i, t in enumerate(inside):
            if t.requires_grad:
                t.retain_grad()
                t.register_hook(keep(case, f"input {i}"))
        outs = f(*inside)
        for o in outs:
            if o.requires_grad and not o.is_leaf:
                o.retain_grad()
        return outs

    return run


def after_accumulation(case, f):
    for name, t in case.leaves().items():
        note = keep(case, name)  # the hook also runs if no gradient has arrived, as in torch
        t.register_post_accumulate_grad_hook(lambda p, note=note: note(p.grad))
    return f


def of_leaves(case, f):
    for t in case.leaves().values():
        t.register_hook(where_given(T.clone))
    return f


def of_nodes(case, f):
    """Registers pre-hooks and hooks on the nodes of the results and of copies of the inputs."""

    def run(*x):
        inside = [t * 1 for t in x]
        outs = f(*inside)
        for t in [*inside, *outs]:
            if t.grad_fn is not None:
                t.grad_fn.register_prehook(lambda g: tuple(None if t is None else t * 1 for t in g))
                t.grad_fn.register_hook(lambda given, g: None)
        return outs

    return run


def of_several(case, f):
    """Registers one hook for the gradients of all leaves."""
    leaves = list(case.leaves().values())

    def all_there(grads):
        for n, g in zip(case.leaves(), grads, strict=True):
            if g is not None:
                case.seen[n] = g.detach().clone()

    if leaves:
        T.autograd.graph.register_multi_grad_hook(leaves, all_there)
    return f


def on_modules(register, hook):
    def prepare(case):
        for m in case.module.modules() if case.module is not None else ():
            getattr(m, register)(hook)

    return prepare


def all_module_hooks(case):
    on_modules("register_forward_pre_hook", lambda m, x: None)(case)
    on_modules("register_forward_hook", lambda m, x, y: None)(case)
    on_modules("register_full_backward_pre_hook", lambda m, g: None)(case)
    on_modules("register_full_backward_hook", lambda m, gi, go: None)(case)


def copied(value):
    """Returns copies of the gradients."""
    return tuple(None if g is None else g.clone() for g in value)


CONTEXTS = [
    Context("tensor hooks", of_tensors),
    Context("noting hooks", noting, most=1, notes=True),
    Context("doubling hooks", doubling, factor=2),
    Context("retain_grad", retained, plain_only=True, most=1, notes=True),
    Context(
        "hooks after accumulation", after_accumulation, plain_only=True, backward_only=True, most=1
    ),
    Context("hooks of leaves", of_leaves, plain_only=True),
    Context("node hooks", of_nodes, plain_only=True),
    Context("multi-grad hook", of_several, plain_only=True, most=1),
    Context("forward hooks", prepare=on_modules("register_forward_hook", lambda m, x, y: y)),
    Context("forward pre-hooks", prepare=on_modules("register_forward_pre_hook", lambda m, x: x)),
    Context(
        "full backward hooks",
        prepare=on_modules("register_full_backward_hook", lambda m, gi, go: copied(gi)),
        new_arguments=True,
    ),
    Context(
        "full backward pre-hooks",
        prepare=on_modules("register_full_backward_pre_hook", lambda m, g: copied(g)),
    ),
    Context("all module hooks", prepare=all_module_hooks, new_arguments=True),
]
MODULES_ONLY = {c.name for c in CONTEXTS[-5:]}
for context in CONTEXTS[-5:]:
    context.refuses = lambda case: None if case.module is not None else "no module"
