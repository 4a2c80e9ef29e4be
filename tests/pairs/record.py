# SPDX-License-Identifier: BSD-3-Clause
"""Records torch's results that nothing else can check, in tests/recorded/pairs.json.

    python tests/pairs --ops > ops.json                      # with cograd
    PAIRS_PACKAGE=torch PAIRS_OPS=ops.json python tests/pairs/record.py    # with torch 2.13

A tensor is recorded as one number, its product with noise. The record of a call has its results and
gradients (in the plain form, with empty tensors and with tensors of one element), whether the
gradient can be differentiated, the dtypes under autocast, and which results depend on each other.
"""

import json
import os
import sys
import warnings
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = os.path.dirname(sys.path[0])

import numpy as np

from pairs import compare
from pairs.package import T
from pairs.subjects import all_subjects

RECORD = Path(__file__).parents[1] / "recorded" / "pairs.json"
FORMS = ("plain", "empty", "one")


def number(value):
    """Returns the product of a tensor with noise; for an empty tensor, its shape."""
    array = compare.array(value)
    if array.size == 0:
        return list(array.shape)
    total = float((array * compare.array(compare.noise(array.shape, 3))).sum())
    return float(f"{total:.9g}")


def summary(subject, form):
    """Returns the numbers of results and gradients and whether these require grad, or "raises"."""
    try:
        case = subject.case(form)
        if case is None:
            return None
        T.manual_seed(0)
        outs = case.f(*case.inputs)
        found = [[number(o) for o in outs]]
        if not any(o.requires_grad for o in outs):
            return found
        leaves = list(case.leaves().values())
        grads = T.autograd.grad(compare.loss_of(outs), leaves, create_graph=True, allow_unused=True)
        found.append([None if g is None else number(g) for g in grads])
        found.append(int(any(g is not None and g.requires_grad for g in grads)))
        return found
    except Exception:
        return "raises"


def parts(subject):
    """Returns the gradients of each result with respect to all results; None for one result."""
    case = subject.case()
    T.manual_seed(0)
    outs = [o for o in case.f(*case.inputs) if o.requires_grad]
    if len(outs) < 2 or len(outs) > 3:
        return None
    table = []
    for o in outs:
        loss = (o * compare.noise(o.shape, 0)).sum()
        grads = T.autograd.grad(loss, outs, retain_graph=True, allow_unused=True)
        table.append([None if g is None else number(g) for g in grads])
    return table


def dtypes(subject):
    """Returns the dtypes of the results of float32 inputs under autocast."""
    case = subject.case(dtype=T.float32)
    with T.autocast("cpu", dtype=T.bfloat16), T.no_grad():
        return " ".join(str(o.dtype).split(".")[-1] for o in case.f(*case.inputs))


def attempt(f, *args):
    try:
        return f(*args)
    except Exception:
        return "raises"


def entry(subject):
    """Returns what is recorded of a subject, without entries that are None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {form: summary(subject, form) for form in FORMS}
        if subject.kind == "module":
            found["parts"] = attempt(parts, subject)
            found["autocast"] = attempt(dtypes, subject)
    return {k: v for k, v in found.items() if v is not None}


def is_torchs(subject):
    """True for the first samples of an op that torch has and whose result has no free sign."""
    row = subject.row
    return row["number"] < 2 and not row["internal"] and subject.has_derivative


def chosen():
    """Yields the subjects to record: those without random numbers; of an op, the first samples."""
    for subject in all_subjects().values():
        if subject.is_random or subject.kind == "optimizer":
            continue
        if subject.kind == "module" or is_torchs(subject):
            yield subject


def same(a, b):
    """True if two numbers or shapes agree; None, for no gradient, agrees with zeros."""
    if isinstance(a, list) or isinstance(b, list):
        return a == b or ((a is None or b is None) and 0 in (a or b))
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return bool(np.isclose(a or 0, b or 0, rtol=1e-6, atol=1e-7, equal_nan=True))


def differences(got, want):
    """Yields what differs from torch's entry; where torch raises, any result is accepted."""
    for part, theirs in want.items():
        ours = got.get(part)
        if theirs == "raises" or ours == theirs:
            continue
        if ours == "raises" or ours is None:
            yield f"{part}: raises"
        elif part == "autocast":
            yield f"{part}: {ours}, expected {theirs}"
        elif part == "parts":
            if not all(map(all_same, ours, theirs)):
                yield f"{part}: {ours}, expected {theirs}"
        else:
            yield from different_summaries(part, ours, theirs)


def all_same(a, b):
    return len(a) == len(b) and all(map(same, a, b))


def different_summaries(part, ours, theirs):
    for what, a, b in zip(("results", "gradients"), ours, theirs, strict=False):
        if not all_same(a, b):
            yield f"{part}: {what} {a}, expected {b}"
    if len(ours) < len(theirs):
        yield f"{part}: no gradient"
    elif len(theirs) == 3 and ours[2] < theirs[2]:
        yield f"{part}: the gradient does not require grad"


def in_child(f, *args):
    """Returns f(*args) from a forked process; None if that died, as torch may of empty tensors."""
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(write, json.dumps(f(*args)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        answer = file.read()
    os.waitpid(pid, 0)
    return json.loads(answer) if answer else None


def main():
    T.set_num_threads(1)
    record = {s.name: in_child(entry, s) for s in chosen()}
    record = {k: v for k, v in record.items() if v is not None}
    lines = [json.dumps(k) + ": " + json.dumps(v, separators=(",", ":")) for k, v in record.items()]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
