# SPDX-License-Identifier: BSD-3-Clause
"""Defines the subjects of the grid: every module, op and optimizer as a function of tensors.

`all_subjects()` reads tests/nn_rows.py, rows.py, the op table and tests/optim_cases.py, so whatever
you add there becomes a subject.
"""

import json
import os
import re
import warnings
import zlib
from functools import cache

import nn_rows
import numpy as np
import optim_cases

from pairs import forms, functions, rows
from pairs.compare import scribble
from pairs.package import NAME, T


def tensors_in(value):
    """Returns the tensors inside lists, tuples and dicts, in order."""
    if isinstance(value, T.Tensor):
        return [value]
    if isinstance(value, dict):
        value = tuple(value.values())
    return [t for v in value for t in tensors_in(v)] if isinstance(value, (tuple, list)) else []


def replaced(value, old, new):
    """Replaces the tensors `old` by `new`, also inside lists, tuples and dicts."""
    if isinstance(value, T.Tensor):
        return next((n for o, n in zip(old, new) if value is o), value)
    if isinstance(value, dict):
        return {k: replaced(v, old, new) for k, v in value.items()}
    if type(value) in (tuple, list):
        return type(value)(replaced(v, old, new) for v in value)
    return value


def real_results(value):
    """Returns the floating-point results, complex ones as pairs of real numbers."""
    found = []
    for t in tensors_in(value):
        if t.is_complex():
            found.append(T.view_as_real(t.resolve_conj()))
        elif t.dtype.is_floating_point:
            found.append(t)
    return tuple(found)


class Case:
    """A call: `call(module, inputs)` returns the results; `inputs` are leaves that require grad."""

    def __init__(self, inputs, call, module=None):
        self.inputs, self.call, self.module = list(inputs), call, module
        self.seen = {}  # what hooks of a context saw: name of a leaf -> gradient

    def f(self, *inputs):
        """Returns the results of the inputs, with the parameters of the module."""
        scribble()
        return real_results(self.call(self.module, list(inputs)))

    def pure(self, *values):
        """Returns the results as a function of the inputs and the parameters."""
        scribble()
        n, names = len(self.inputs), [n for n, _ in self.parameters()]
        if self.module is None:
            return self.f(*values)
        state = dict(zip(names, values[n:], strict=True))
        # Transforms refuse writes to captured tensors such as running statistics.
        state |= {"module." + k: b.clone() for k, b in self.module.named_buffers()}
        calling = _Calling(self.module, self.call)
        return real_results(T.func.functional_call(calling, state, (values[:n],)))

    def parameters(self):
        if self.module is None:
            return []
        # functional_call needs these names, because the module is inside of _Calling.
        return [("module." + n, p) for n, p in self.module.named_parameters() if p.requires_grad]

    def leaves(self):
        """Returns the tensors that gradients are computed for, by name."""
        found = {f"input {i}": t for i, t in enumerate(self.inputs)}
        return found | dict(self.parameters())

    def values(self):
        """Returns the inputs and parameters without history."""
        return [
            t.detach().clone() if t.is_contiguous() else t.detach() for t in self.leaves().values()
        ]


class _Calling(T.nn.Module):
    """A module whose forward is the case's call, so that functional_call can take any call."""

    def __init__(self, module, call):
        super().__init__()
        self.module, self.call = module, call

    def forward(self, inputs):
        return self.call(self.module, list(inputs))


@cache
def compiled(expression):
    """Returns the code of an expression; every cell evaluates those of its subject."""
    return compile(expression, "<subject>", "eval")


class Subject:
    """Has a name, and creates new cases."""

    kind, is_random, has_derivative = "", False, True
    has_state = False  # a call changes the results of the next one
    joins_arguments = False  # projects arguments that are one tensor by one product
    reads_memory = False  # its results depend on the strides of its inputs

    def case(self, form="plain", dtype=None):
        """Returns a new case; None if the form does not apply to it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module, args, call = self.make()
            dtype = dtype or T.float64
            if module is not None:
                module.to(dtype)
            floats = [t for t in tensors_in(args) if self.takes_part(t)]
            constants = [t for t in tensors_in(args) if not any(t is f for f in floats)]
            made = forms.apply(form, [t.detach().to(dtype) for t in floats], constants)
        if made is None:
            return None
        inputs, others = made
        args = replaced(args, constants, others)
        inputs = [t.requires_grad_() for t in inputs]
        return Case(inputs, lambda m, x: call(m, replaced(args, floats, x)), module)

    def takes_part(self, t):
        return t.dtype is T.float64


class ModuleRow(Subject):
    kind = "module"

    def __init__(self, row):
        self.name, parts = row, [p.strip() for p in row.split(" | ")]
        self.constructor, self.arguments = parts[:2]
        self.expression = parts[2] if len(parts) > 2 else "m(*x)"
        self.is_random = row in rows.RANDOM
        self.reads_memory = "as_strided" in row or "as_complex_copy" in row
        self.has_state = "spectral_norm" in row and ".eval()" not in row
        self.joins_arguments = "MultiheadAttention(" in row or "nn.Transformer" in row
        # The vectors of spectral_norm count as constants; scaling by counts is not a derivative.
        self.has_derivative = "spectral_norm" not in row and "scale_grad_by_freq" not in row
        self.classes = set(re.findall(r"nn\.(?:utils\.)?(?:parametrizations\.)?(\w+)", row))

    def make(self):
        rng, names = nn_rows.makers(T, self.name)
        names["own"] = functions
        module = eval(compiled(self.constructor), dict(names)).double()
        args = eval(compiled(f"[{self.arguments}]"), dict(names))
        if "Lazy" in self.constructor:
            module(*args)
        with T.no_grad():
            nn_rows.set_state(T, module, rng)
        code = compiled(self.expression)
        return module, args, lambda m, x: eval(code, names | {"m": m, "x": x})


class OpSample(Subject):
    """A sample of the op table; `row` is an entry of op_rows()."""

    kind = "op"

    def __init__(self, row):
        self.row = row
        self.op, self.text = row["name"], row["sample"]
        self.name = f"{self.op}({self.text})"
        self.reads_memory = self.op.startswith(("as_strided", "view"))
        self.has_derivative = not self.text.startswith("~")
        self.is_random = row["kind"] == "random" or "dropout" in self.op or self.op == "rrelu"

    def make(self):
        env = op_makers(zlib.crc32(self.name.encode()))
        env["_call"] = lambda *args, **kwargs: (args, kwargs)
        args, kwargs = eval(compiled(f"_call({self.text.removeprefix('~')})"), env)
        self.constants = [args[i] for i in self.row["constants"] if i < len(args)]
        f = op_function(self.row)
        return None, [list(args), kwargs], lambda m, x: f(*x[0], **x[1])

    def takes_part(self, t):
        return t.dtype is T.float64 and not any(t is c for c in self.constants)


class OptimizerCase(Subject):
    """An optimizer with options. The function is the loss; the results of steps are compared."""

    kind = "optimizer"

    def __init__(self, name, options):
        self.optimizer, self.options = name, options
        self.name = f"{name} {json.dumps(options)}"

    def make(self):
        args = [T.tensor(v) for v in optim_cases.start(self.optimizer)]
        return None, args, lambda m, x: optim_cases.loss(x, 0)

    def case(self, form="plain", dtype=None):
        case = super().case(form, dtype) if form != "expanded" else None  # steps cannot write it
        if case is not None:
            case.optimizer = self.optimizer, self.options
        return case


def op_function(row):
    """Returns the op; torch has most internal ones in its namespaces."""
    name = row["name"]
    if row["internal"] and NAME == "cograd":
        return getattr(T._C._ops, name)
    if row["namespace"] == "_nn" or (row["internal"] and hasattr(T.nn.functional, name)):
        return getattr(T.nn.functional, name)
    if row["function"] and hasattr(T, name):
        return getattr(T, name)
    for prefix in ("linalg", "special", "fft"):
        if name.startswith(prefix + "_") and hasattr(getattr(T, prefix), name[len(prefix) + 1 :]):
            return getattr(getattr(T, prefix), name[len(prefix) + 1 :])
    return getattr(T.Tensor, name)


def op_makers(seed):
    """Returns the names that op samples use, as tests/op_table.py does, for either package."""
    rng = np.random.default_rng(seed)

    def definite(*shape):
        x = rng.uniform(-1, 1, (*shape, shape[-1]))
        return T.tensor(x @ np.swapaxes(x, -1, -2) / shape[-1] + np.eye(shape[-1]))

    names = "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8".split()
    return {n: getattr(T, n) for n in names} | {
        "T": lambda *s, lo=-1, hi=1: T.tensor(rng.uniform(lo, hi, s)),
        "P": lambda *s: T.tensor(rng.uniform(0.1, 2, s)),
        "S": definite,
        "I": lambda *s, lo=0, hi=5: T.tensor(rng.integers(lo, hi, s)),
        "B": lambda *s: T.tensor(rng.integers(0, 2, s).astype(bool)),
        "torch": T,
        "cograd": T,
        "np": np,
        "inf": float("inf"),
        "nan": float("nan"),
    }


def op_rows():
    """Returns the samples of differentiable ops; for torch, from the file that cograd wrote."""
    if NAME != "cograd":
        with open(os.environ["PAIRS_OPS"], encoding="utf-8") as file:
            return json.load(file)
    from op_table import TABLE, samples_of

    return [
        {k: record[k] for k in ("name", "namespace", "function", "kind", "internal")}
        | {"constants": list(record["constants"]), "sample": sample, "number": i}
        for record in TABLE
        if record["differentiable"]
        for i, sample in enumerate(samples_of(record))
    ]


@cache
def all_subjects():
    """Returns every subject by its name."""
    found = [ModuleRow(row) for row in [*nn_rows.ROWS, *rows.ROWS]]
    found += [OpSample(row) for row in op_rows()]
    found += [OptimizerCase(*case) for case in optim_cases.CASES]
    return {s.name: s for s in found}
