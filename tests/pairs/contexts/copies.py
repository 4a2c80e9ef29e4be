# SPDX-License-Identifier: BSD-3-Clause
"""Copies of the module and its inputs by deepcopy, pickle and files, and functional_call."""

import copy
import io
import pickle

from pairs.contexts import Context
from pairs.package import T


class OfModule(Context):
    """A context that needs a module."""

    def refuses(self, case):
        return None if case.module is not None else "no module"


def deepcopied(case):
    case.module = copy.deepcopy(case.module)
    case.inputs = copy.deepcopy(case.inputs)


def pickled(case):
    case.module = pickle.loads(pickle.dumps(case.module))
    case.inputs = pickle.loads(pickle.dumps(case.inputs))


def state_saved(case):
    """Saves the state, overwrites the parameters, and loads the state again."""
    stream = io.BytesIO()
    T.save(case.module.state_dict(), stream)
    with T.no_grad():
        for p in case.module.parameters():
            p.fill_(7.0)
    stream.seek(0)
    case.module.load_state_dict(T.load(stream))


def state_assigned(case):
    """Replaces the parameters by copies, with load_state_dict(assign=True)."""
    state = {k: v.clone() for k, v in case.module.state_dict().items()}
    with T.no_grad():
        for p in case.module.parameters():
            p.fill_(7.0)
    case.module.load_state_dict(state, assign=True)


def inputs_saved(case):
    stream = io.BytesIO()
    T.save({str(i): t.detach() for i, t in enumerate(case.inputs)}, stream)
    stream.seek(0)
    case.inputs = [t.requires_grad_() for t in T.load(stream).values()]


def functional_call(case, f):
    """Calls the module by functional_call with its own parameters."""
    if case.module is None:
        return f
    call, module = case.call, case.module

    class Holder(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, inputs):
            return call(self.inner, inputs)

    state = {"inner." + n: p for n, p in module.named_parameters()}

    def run(*x):
        original = case.call
        case.call = lambda m, inputs: T.func.functional_call(Holder(), state, (inputs,))
        try:
            return f(*x)
        finally:
            case.call = original

    return run


CONTEXTS = [
    OfModule("deepcopy", prepare=deepcopied),
    OfModule("pickle", prepare=pickled),
    OfModule("saved state", prepare=state_saved),
    OfModule("assigned state", prepare=state_assigned),
    Context("saved inputs", prepare=inputs_saved),
    OfModule("functional_call", functional_call, plain_only=True),
]
