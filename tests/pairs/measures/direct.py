# SPDX-License-Identifier: BSD-3-Clause
"""Plain backward: into .grad, for chosen leaves, twice, in another thread."""

import threading

from pairs.compare import NoDerivative, directions, filled, loss_of, weights, with_history
from pairs.measures import Measure
from pairs.package import T


def forward(case, f):
    T.manual_seed(0)
    outs = f(*case.inputs)
    with_history(outs)
    T.rand(3)  # a recomputation must restore the random state instead of going on from here
    return outs


def collected(case, outs, grads=None):
    """Returns the results, the gradients and what hooks saw, by name."""
    leaves = case.leaves()
    grads = [t.grad for t in leaves.values()] if grads is None else grads
    return (
        {f"result {i}": o.detach() for i, o in enumerate(outs)}
        | {f"gradient of {n}": g for n, g in zip(leaves, grads, strict=True)}
        | {f"seen {n}": t for n, t in case.seen.items()}
    )


def wanted(ref):
    return ref.results | ref.gradient


def run_backward(outs, **options):
    alive = [(o, w) for o, w in zip(outs, weights(outs), strict=True) if o.requires_grad]
    T.autograd.backward([o for o, _ in alive], [w for _, w in alive], **options)


def backward(case, f):
    outs = forward(case, f)
    run_backward(outs)
    return collected(case, outs)


def sum_backward(case, f):
    outs = forward(case, f)
    loss_of(outs).backward()
    return collected(case, outs)


def twice(case, f):
    outs = forward(case, f)
    run_backward(outs, retain_graph=True)
    case.seen.clear()
    for t in case.leaves().values():
        t.grad = None
    run_backward(outs)
    return collected(case, outs)


def in_thread(case, f):
    outs, raised = forward(case, f), []

    def work():
        try:
            run_backward(outs)
        except BaseException as e:
            raised.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return collected(case, outs)


def chosen(case, f):
    outs = forward(case, f)
    grads = T.autograd.grad(loss_of(outs), list(case.leaves().values()), allow_unused=True)
    return collected(case, outs, grads)


def several_at_once(case, f):
    """Runs two backwards at once (is_grads_batched); the second seed is twice the first."""
    outs = forward(case, f)
    loss, leaves = loss_of(outs), list(case.leaves().values())
    seeds = T.tensor([1.0, 2.0], dtype=loss.dtype)
    grads = T.autograd.grad(loss, leaves, seeds, is_grads_batched=True, allow_unused=True)
    case.seen.clear()  # hooks saw the gradients of both at once
    return collected(case, outs, [None if g is None else (g[1] - g[0]) for g in grads])


def without_grad(case, f):
    T.manual_seed(0)
    with T.no_grad():
        outs = f(*case.inputs)
    return {f"result {i}": o for i, o in enumerate(outs)}


def inference(case, f):
    T.manual_seed(0)
    with T.inference_mode():
        outs = f(*case.inputs)
        return {f"result {i}": o.clone() for i, o in enumerate(outs)}


def slope_backward(case, outs, leaves, grads):
    """Computes second derivatives by a backward of the gradient times the direction."""
    slope = sum(
        (filled(g, t) * v).sum() for g, t, v in zip(grads, leaves, directions(leaves), strict=True)
    )
    if not slope.requires_grad:
        raise NoDerivative("the gradient does not require grad")
    slope.backward()
    found = collected(case, outs)
    return {k: v for k, v in found.items() if not k.startswith("seen ")}


def double_backward(case, f):
    outs = forward(case, f)
    leaves = list(case.leaves().values())
    grads = T.autograd.grad(loss_of(outs), leaves, create_graph=True, allow_unused=True)
    return slope_backward(case, outs, leaves, grads)


def gradient_of_norm(case, f):
    """Runs backward(create_graph=True), then a backward of the gradient, as for a penalty on it."""
    outs = forward(case, f)
    leaves = list(case.leaves().values())
    loss_of(outs).backward(create_graph=True)
    grads = [t.grad for t in leaves]
    for t in leaves:
        t.grad = None
    found = slope_backward(case, outs, leaves, grads)
    for t in leaves:
        t.grad = None
    return found


def second(ref):
    return ref.second(None)


MEASURES = [
    Measure("backward", backward, wanted),
    Measure("sum backward", sum_backward, wanted),
    Measure("backward twice", twice, wanted),
    Measure("backward in a thread", in_thread, wanted),
    Measure("grad of leaves", chosen, wanted, inputs_only=True),
    Measure("grad of batched seeds", several_at_once, wanted, inputs_only=True, batched=True),
    Measure("no_grad", without_grad, lambda ref: ref.results, order=0),
    Measure("inference_mode", inference, lambda ref: ref.results, order=0),
    Measure("double backward", double_backward, second, order=2, inputs_only=True, reverse=2),
    Measure("gradient penalty", gradient_of_norm, second, order=2, reverse=2),
]
