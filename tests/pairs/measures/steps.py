# SPDX-License-Identifier: BSD-3-Clause
"""Steps of optimizers: the loss runs in the contexts; the optimizer is copied or saved midway."""

import copy
import io
import pickle

from pairs.compare import loss_of
from pairs.measures import Measure
from pairs.package import T

STEPS = 2


def made(case, params):
    name, options = case.optimizer
    return getattr(T.optim, name)(params, **options)


def step(optimizer, params, f):
    def closure():
        optimizer.zero_grad()
        loss = loss_of(f(*params))
        loss.backward()
        return loss

    optimizer.step(closure)


def go_on(case, optimizer, params, f):
    for _ in range(STEPS):
        step(optimizer, params, f)
    return {f"parameter {i}": p.detach() for i, p in enumerate(params)}


def plain(case, f):
    optimizer = made(case, case.inputs)
    for _ in range(STEPS):
        step(optimizer, case.inputs, f)
    return go_on(case, optimizer, case.inputs, f)


def deepcopied(case, f):
    optimizer = made(case, case.inputs)
    for _ in range(STEPS):
        step(optimizer, case.inputs, f)
    optimizer, params = copy.deepcopy((optimizer, case.inputs))
    return go_on(case, optimizer, params, f)


def pickled(case, f):
    optimizer = made(case, case.inputs)
    for _ in range(STEPS):
        step(optimizer, case.inputs, f)
    optimizer, params = pickle.loads(pickle.dumps((optimizer, case.inputs)))
    return go_on(case, optimizer, params, f)


def state_loaded(case, f):
    """Loads the saved state into a new optimizer over copies of the parameters."""
    optimizer = made(case, case.inputs)
    for _ in range(STEPS):
        step(optimizer, case.inputs, f)
    stream = io.BytesIO(pickle.dumps(optimizer.state_dict()))
    params = [p.detach().clone().requires_grad_() for p in case.inputs]
    other = made(case, params)
    other.load_state_dict(pickle.load(stream))
    return go_on(case, other, params, f)


def want(ref):
    case = ref.make()
    return plain(case, ref.wrap(case, case.f))


class Steps(Measure):
    kind = "optimizer"
    runs_again = True

    def __init__(self, name, run):
        super().__init__(name, run, want)


MEASURES = [
    Steps("steps", plain),
    Steps("steps, deepcopy, steps", deepcopied),
    Steps("steps, pickle, steps", pickled),
    Steps("steps, state_dict, steps", state_loaded),
]
