# SPDX-License-Identifier: BSD-3-Clause
"""The cells of the grid, subject x form x contexts x measure, and how one is run and judged."""

import contextlib
import gc
import itertools
import random
import re
import zlib
from dataclasses import dataclass
from functools import cache, cached_property

from pairs import compare, forms, refusals
from pairs.contexts import all_contexts
from pairs.measures import all_measures
from pairs.package import T
from pairs.subjects import all_subjects

SINGULAR = re.compile(r"S\(|^linalg_(pinv\(.*\* 0|svdvals|lu(_factor)?\()")
TOLERANCE, SINGLE, DIFFERENCES, HALF = 1e-8, 1e-4, 2e-5, 5e-2


@dataclass(frozen=True)
class Cell:
    subject: str
    form: str
    contexts: tuple  # from the outermost to the innermost
    measure: str

    def __str__(self):
        return " @ ".join([self.subject, self.form, " + ".join(self.contexts) or "-", self.measure])

    @classmethod
    def parse(cls, text):
        subject, form, contexts, measure = text.rsplit(" @ ", 3)
        return cls(subject, form, () if contexts == "-" else tuple(contexts.split(" + ")), measure)


class Row:
    """The cells of one subject in one form, which share the expected results."""

    def __init__(self, subject, form):
        self.subject, self.form = all_subjects()[subject], form
        self.references = {}

    def case(self, form=None, dtype=None, contexts=()):
        case = self.subject.case(form or self.form, dtype)
        if case is not None:
            for c in reversed(contexts):
                with compare.quiet():
                    c.prepare(case)
            for t in case.inputs:
                t.requires_grad_()
        return case

    @cached_property
    def sample(self):
        """A case for checking what applies; None if the form does not apply to the subject."""
        try:
            return self.case()
        except Exception as e:
            return None if self.form in forms.SHAPES else e

    @cached_property
    def is_undefined(self):
        """True if the plain call gives NaN or infinite numbers."""
        try:
            with compare.quiet():  # a warning would be an error under pytest
                results = self.reference(()).results
        except Exception:
            return False
        return not all(bool(T.isfinite(r).all()) for r in results.values())

    def reference(self, contexts):
        """Returns the same call without the contexts, except for those that change values."""
        kept = ()
        for c in contexts:
            if c.changes_values or any(c.ends == k.name for k in kept):
                kept += (c,)
        if kept not in self.references:
            dtype = next((c.dtype for c in contexts if c.dtype), None)
            layout = self.form in forms.LAYOUTS
            form = f"values of {self.form}" if layout else self.form

            def wrap(case, f):
                for c in reversed(kept):
                    f = c.wrap(case, f)
                return f

            self.references[kept] = compare.Reference(lambda: self.case(form, dtype, kept), wrap)
        return self.references[kept]


def refuses(row, contexts, measure):
    """Returns why there is no such cell, or None. torch's documentation excludes the same."""
    sample = row.sample
    if sample is None:
        return "the form is not for this subject"
    if isinstance(sample, Exception):
        return None  # running the cell raises this exception again
    if (measure.kind == "optimizer") != (row.subject.kind == "optimizer"):
        return "optimizers are stepped, others are differentiated"
    if (reason := measure.refuses(sample)) is not None:
        return reason
    if row.subject.reads_memory and (measure.batched or row.form in forms.LAYOUTS):
        return "the values depend on where the elements are"
    if row.form == "expanded" and row.subject.kind == "op" and SINGULAR.search(row.subject.name):
        return "a matrix of equal rows is singular: no inverse, no derivative of singular values"
    if row.form == "expanded" and row.subject.kind == "op" and not measure.exact:
        return "equal elements: extremes have kinks there, where differences say nothing"
    if row.form in forms.SHAPES and row.is_undefined:
        # A mean of nothing is one: its tangent is NaN, and its gradient is 0, as in torch.
        if measure.number or measure.forward or not measure.exact:
            return "a derivative of NaN"
        if any(c.uses_results for c in contexts):
            return "0 * NaN"
    if sum(c.around is not None for c in contexts) > 1:
        return "modes that do not nest"
    for c in contexts:
        if (reason := c.refuses(sample)) is not None:
            return reason
        if c.factor != 1 and (measure.kind or not measure.exact):
            return f"{c.name}: changes the steps"
        if c.plain_only and not measure.direct:
            return f"{c.name}: leaves and plain backward only"
        if c.backward_only and (measure.inputs_only or not measure.exact):
            return f"{c.name}: backward() only"
        if measure.order > c.most:
            return f"{c.name}: first derivatives only"
        if measure.forward and not c.forward:
            return f"{c.name}: not in forward mode"
        if not c.vmap and measure.batched:
            return f"{c.name}: not under vmap"
        if not measure.exact and c.dtype:
            return "differences need float64"
        if c.factor != 1 and (
            measure.reverse is None or (measure.order == 2 and sample.parameters())
        ):
            return f"{c.name}: no one factor"
    if row.subject.has_state and any("checkpoint" in c.name for c in contexts):
        return "the recomputation starts from a later state"
    if not row.subject.has_derivative and not measure.exact:
        return "the gradient is not that of the values"
    if row.subject.is_random and measure.batched:
        return "random numbers of samples"
    return None


def scaled(contexts, measure, want):
    """Returns the expected gradients after the hooks of the contexts have multiplied them."""
    factor = 1
    for c in contexts:
        if c.factor != 1 and measure.order:
            factor *= c.factor**measure.reverse
    if factor == 1:
        return want
    return {
        k: v
        if v is None or k.startswith("result") or (measure.direct and "module" in k)
        else v * factor
        for k, v in want.items()
    }


def run_cell(row, contexts, measure):
    """Returns None if all is as expected, "" if nothing can be compared, else what is wrong."""
    if refuses(row, contexts, measure):
        return ""
    names = tuple(c.name for c in contexts)
    with compare.quiet():
        want = row.reference(contexts).of(measure)
        try:
            got = evaluate(row, contexts, measure)
        except Exception as e:
            return judge_raise(row, names, measure, e, want)
        if isinstance(want, Exception):
            nothing = (compare.NoDerivative, NotImplementedError)
            if isinstance(want, nothing) or row.form in forms.SHAPES:
                return ""
            return f"works; the plain call raises {said(want)}"
        return judge_values(row, contexts, measure, got, want)


def evaluate(row, contexts, measure):
    dtype = next((c.dtype for c in contexts if c.dtype), None)
    if dtype is not None:
        # Batched tensors in a cycle keep a vmap open; packed gradients are then composed of ops,
        # which round to 16 bits elsewhere.
        gc.collect()
    with contextlib.ExitStack() as stack:
        for c in contexts:
            stack.enter_context(c.around() if c.around else contextlib.nullcontext())
        case = row.case(dtype=dtype, contexts=contexts)
        f = case.f if measure.direct else case.pure
        for c in reversed(contexts):
            f = c.wrap(case, f)
        return measure.run(case, f)


def judge_raise(row, names, measure, error, want):
    if isinstance(want, Exception):
        return ""  # the plain call raises as well, so there is nothing to compare
    if isinstance(error, compare.NoDerivative) or "does not require grad" in str(error):
        if not nothing_expected(want):
            return f"{error}, where the plain call's derivative is not zero"
        return ""
    if refusals.reason(row.subject, row.form, names, measure, error):
        return ""
    return f"raises {said(error)}"


def nothing_expected(want):
    return all(
        v is None or not bool((v != 0).any())
        for k, v in want.items()
        if k.startswith(("gradient", "derivative"))
    )


def judge_values(row, contexts, measure, got, want):
    noting = next((i for i, c in enumerate(contexts) if c.notes), -1)
    on_its_way = scaled(contexts[noting + 1 :], measure, want)
    want = dict(scaled(contexts, measure, want))
    for key in [k for k in got if k.startswith("seen ")]:
        if (expected := on_its_way.get("gradient of " + key[5:])) is not None:
            want[key] = expected
    try:
        compare.compare(got, want, tolerance_of(row, contexts, measure))
    except compare.Differs as e:
        return str(e)
    except Exception as e:
        return f"what it gives cannot be read: {said(e)}"
    return None


def tolerance_of(row, contexts, measure):
    if all(c.dtype is None for c in contexts):
        return TOLERANCE if measure.exact else DIFFERENCES
    # Two products round two gradients to bfloat16, where one product rounds their sum.
    joined = row.subject.joins_arguments and any(c.new_arguments for c in contexts)
    if measure.direct and measure.order < 2 and not measure.batched and not joined:
        return SINGLE
    # A batch rounds other intermediate results to bfloat16. So its numbers may be as far from the
    # expected ones as these are from float64's.
    wants = [row.reference(c).of(measure) for c in (contexts, ())]
    if any(isinstance(want, Exception) for want in wants):
        return HALF
    return HALF + compare.distance(*wants)


def said(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def run(cell):
    row = Row(cell.subject, cell.form)
    contexts = tuple(all_contexts()[n] for n in cell.contexts)
    return run_cell(row, contexts, all_measures()[cell.measure])


def chance(text):
    """Returns a number in [0, 1) that depends on the text alone."""
    return zlib.crc32(text.encode()) / 2**32


PARTS = ("none", "single", "pair", "form none", "form single")


@cache
def places(part):
    """Returns the forms and the tuples of contexts of a part of the grid."""
    named = [(name,) for name in all_contexts()]
    stacks = {
        "none": [()],
        "single": named,
        "pair": [a + b for a in named for b in named],
    }[part.removeprefix("form ")]
    return list(forms.FORMS[1:] if part.startswith("form") else ("plain",)), stacks


@cache
def measures_of(order):
    """Returns the names of the measures of first order, or of those of second order."""
    return [m.name for m in all_measures().values() if max(m.order, 1) == order]


def cells_of(subject, seed, share):
    """Yields the cells to run: the fraction `share(part, subject, order)` of each part."""
    draw = random.Random(f"{seed} {subject.name}")
    for part in PARTS:
        some, stacks = places(part)
        for order in (1, 2):
            measures = measures_of(order)
            wanted = share(part, subject, order)
            if wanted >= 1:
                for form, stack, measure in itertools.product(some, stacks, measures):
                    yield Cell(subject.name, form, stack, measure)
                continue
            count = len(some) * len(stacks) * len(measures) * wanted
            for _ in range(int(count + draw.random())):
                places_drawn = draw.choice(some), draw.choice(stacks), draw.choice(measures)
                yield Cell(subject.name, *places_drawn)


def run_cells(cells, found, note=lambda text: None):
    """Runs cells of one subject and calls `found(cell, text)` for each finding.

    Returns the number of cells that ran and of those with nothing to compare.
    """
    rows, ran, empty = {}, 0, 0
    for cell in cells:
        row = rows.get(cell.form) or Row(cell.subject, cell.form)
        rows[cell.form] = row
        if row.sample is None:
            continue
        note(str(cell))
        contexts = tuple(all_contexts()[n] for n in cell.contexts)
        seen = run_cell(row, contexts, all_measures()[cell.measure])
        ran += seen != ""
        empty += seen == ""
        if seen:
            found(cell, seen)
    return ran, empty
